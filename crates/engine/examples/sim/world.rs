//! What outlives the engine's crashes: true time, chance, the disk's content, and the ledger of
//! what was acknowledged.

use crate::{
    model::{Reply, Scripted},
    outside::{Answer, Errand},
    plan::Plan,
    shadow::{Moment, Opened, Shadow},
};
use outlast::core::{
    arn::ExecutionId,
    id::OperationId,
    random::SplitMix64,
    wire::{CheckpointRequest, OperationAction, OperationType},
};
use outlast_engine::store::Commit;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{sync::Notify, time::Instant};

/// Everything outside the engine.
#[derive(Debug)]
pub(crate) struct World {
    /// What was decided beforehand.
    pub(crate) plan: Plan,
    /// There is a new errand.
    pub(crate) errand: Notify,
    /// The power goes now.
    pub(crate) power_cut: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    chance: SplitMix64,
    boot: usize,
    /// True time when this boot began.
    began: u64,
    clock: Option<Instant>,
    trace: Vec<String>,
    digest: u64,
    violation: Option<String>,
    /// What the disk has.
    pub(crate) shadows: BTreeMap<ExecutionId, Shadow>,
    /// The ids of the plan's runs, once acknowledged.
    pub(crate) ids: BTreeMap<usize, ExecutionId>,
    /// What people outside have to do, and whether it is done.
    pub(crate) errands: Vec<(u64, Errand, bool)>,
    /// Steps whose success was acknowledged, and how many bodies had run by then.
    pub(crate) acknowledged: BTreeMap<(ExecutionId, OperationId), usize>,
    /// Invocations that went on after the engine was told they are gone.
    pub(crate) zombies: BTreeSet<Arc<str>>,
    /// How often what happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl World {
    /// The world of a seed.
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let mut errands = Vec::new();
        for (index, run) in plan.runs.iter().enumerate() {
            errands.push((run.start_at, Errand::Start(index), false));
            if let Some(at) = run.stop_at {
                errands.push((at, Errand::Stop(index), false));
            }
            for scripted in &run.program.script {
                if let Scripted::Signal(id) = scripted {
                    let at = run.start_at + run.player.draw(*id, 60_000);
                    errands.push((at, Errand::Signal(index, *id), false));
                }
            }
        }
        let state = State {
            chance: SplitMix64::new(seed),
            boot: 0,
            began: 0,
            clock: None,
            trace: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            violation: None,
            shadows: BTreeMap::new(),
            ids: BTreeMap::new(),
            errands,
            acknowledged: BTreeMap::new(),
            zombies: BTreeSet::new(),
            counts: BTreeMap::new(),
        };
        Self {
            plan,
            errand: Notify::new(),
            power_cut: Notify::new(),
            state: Mutex::new(state),
        }
    }

    /// Everything that changes.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new boot begins, on a runtime of its own.
    pub(crate) fn boot(&self, boot: usize) {
        let mut state = self.state();
        state.began = state.true_time();
        state.clock = Some(Instant::now());
        state.boot = boot;
    }

    /// The boot is over; its runtime's clock counts no longer.
    pub(crate) fn halt(&self) {
        let mut state = self.state();
        state.began = state.true_time();
        state.clock = None;
    }

    /// Milliseconds since the beginning of the world, whatever clocks say.
    pub(crate) fn true_time(&self) -> u64 {
        self.state().true_time()
    }

    /// Milliseconds since this boot began.
    pub(crate) fn uptime(&self) -> u64 {
        let state = self.state();
        state.true_time() - state.began
    }

    /// The present, as a commit is stamped.
    pub(crate) fn moment(&self) -> Moment {
        let state = self.state();
        Moment {
            boot: state.boot,
            at: state.true_time(),
        }
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.state().chance.below(bound)
    }

    /// Whether something goes wrong that does so `rarity` times less often than the plan's most
    /// frequent faults; never once the faults are over.
    pub(crate) fn fault(&self, rarity: u64) -> bool {
        !self.is_calm() && self.below(self.plan.calmness * rarity) == 0
    }

    /// Whether the faults are over.
    pub(crate) fn is_calm(&self) -> bool {
        let state = self.state();
        state.boot >= self.plan.ends.len() && state.true_time() - state.began >= self.plan.tail_ms
    }

    /// Some milliseconds that something takes.
    pub(crate) fn delay(&self) -> u64 {
        if self.is_calm() {
            return 1;
        }
        match self.below(16) {
            0..=5 => 0,
            6..=12 => self.below(8),
            13..=14 => self.below(200),
            _ => self.below(3_000),
        }
    }

    /// Writes down what happens.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        let mut state = self.state();
        let at = state.true_time();
        let line = format!(
            "{:>2} +{:>5}.{:03} {}",
            state.boot,
            at / 1_000,
            at % 1_000,
            line.as_ref()
        );
        for byte in line.bytes() {
            state.digest = (state.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        state.trace.push(line);
    }

    /// Counts something that happened.
    pub(crate) fn count(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    /// A law was broken. The first one counts.
    pub(crate) fn violated(&self, law: impl Into<String>) {
        let law = law.into();
        self.note(format!("VIOLATION {law}"));
        self.state().violation.get_or_insert(law);
    }

    /// The first law that was broken.
    pub(crate) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    /// The trace so far, and its digest.
    pub(crate) fn trace(&self) -> (Vec<String>, u64) {
        let state = self.state();
        (state.trace.clone(), state.digest)
    }

    /// A short name of an execution.
    pub(crate) fn name(&self, id: ExecutionId) -> String {
        let state = self.state();
        let known = state.shadows.get(&id);
        known.map_or_else(
            || "?".to_owned(),
            |shadow| {
                let name = shadow.execution.name();
                name.get(..name.len().min(12)).unwrap_or(name).to_owned()
            },
        )
    }

    /// Somebody outside has something to do in `after` milliseconds.
    pub(crate) fn add(&self, after: u64, errand: Errand) {
        let mut state = self.state();
        let at = state.true_time() + after;
        state.errands.push((at, errand, false));
        drop(state);
        self.errand.notify_one();
    }

    /// A commit is durable.
    pub(crate) fn durable(&self, commit: &Commit, moment: Moment) {
        let mut state = self.state();
        let mut shadow = state.shadows.remove(&commit.execution);
        let news = Shadow::commit(&mut shadow, commit, moment);
        if let Some(shadow) = shadow {
            state.shadows.insert(commit.execution, shadow);
        }
        drop(state);
        let name = self.name(commit.execution);
        match news {
            Ok(news) => {
                let version = commit.head.version;
                self.note(format!("disk {name} v{version}: {}", news.words.join(", ")));
                for opened in news.opened {
                    self.opened(commit.execution, &opened);
                }
            }
            Err(law) => self.violated(format!("{name}: {law}")),
        }
    }

    /// An execution was deleted.
    pub(crate) fn deleted(&self, id: ExecutionId) {
        let name = self.name(id);
        self.note(format!("disk {name} deleted"));
        let mut state = self.state();
        let shadow = state.shadows.get_mut(&id);
        let ended = shadow.is_some_and(|shadow| {
            shadow.deleted = true;
            shadow.execution.status().is_terminal() && !shadow.execution.has_intents()
        });
        drop(state);
        if !ended {
            self.violated(format!("{name} was deleted before its end"));
        }
    }

    /// A callback is open: whoever owes the answer is set to work.
    fn opened(&self, id: ExecutionId, opened: &Opened) {
        let Some(index) = self.run_of(id) else { return };
        let Some(run) = self.plan.runs.get(index) else {
            return;
        };
        let name = opened
            .name
            .strip_suffix("-callback")
            .unwrap_or(&opened.name);
        let scripted = run
            .program
            .script
            .iter()
            .find_map(|scripted| match scripted {
                Scripted::Callback(wanted, id, reply) if wanted == name => Some((*id, *reply)),
                Scripted::Callback(..)
                | Scripted::Signal(_)
                | Scripted::SlowFunction(_)
                | Scripted::Step(..) => None,
            });
        let Some((node, reply)) = scripted else {
            return;
        };
        let failure = match reply {
            Reply::Success => false,
            Reply::Failure => true,
            Reply::Timeout | Reply::NotSubmitted => return,
        };
        let answer = Answer {
            execution: id,
            operation: opened.operation.clone(),
            callback_id: opened.callback_id.clone(),
            node,
            failure,
        };
        let after = self.below(30_000);
        if self.below(3) == 0 {
            self.add(after / 2, Errand::Heartbeat(answer.clone()));
        }
        if self.below(3) == 0 {
            self.add(after + self.below(5), Errand::Callback(answer.clone()));
        }
        self.add(after, Errand::Callback(answer));
    }

    /// Which of the plan's runs an execution is, as the disk knows it.
    pub(crate) fn run_of(&self, id: ExecutionId) -> Option<usize> {
        let state = self.state();
        let name = state.shadows.get(&id)?.execution.name();
        name.strip_prefix("run-")?.parse().ok()
    }

    /// A handler was told that its updates are stored.
    pub(crate) fn acknowledge(&self, id: ExecutionId, request: &CheckpointRequest) {
        let run = self.run_of(id).and_then(|index| self.plan.runs.get(index));
        let bodies = run.map_or(0, |run| run.player.bodies().len());
        let mut problem = None;
        let mut state = self.state();
        for update in &request.updates {
            let kept = match state.shadows.get(&id) {
                Some(shadow) => shadow.check_update(update),
                None => Err("an execution that is not there was answered".to_owned()),
            };
            problem = problem.or(kept.err());
            if update.operation_type == OperationType::Step
                && matches!(
                    update.action,
                    OperationAction::Succeed | OperationAction::Fail
                )
            {
                let key = (id, update.id.clone());
                state.acknowledged.entry(key).or_insert(bodies);
            }
        }
        drop(state);
        if let Some(law) = problem {
            self.violated(format!("{}: {law}", self.name(id)));
        }
    }

    /// Whether an execution has ended, as the disk knows it.
    pub(crate) fn has_ended(&self, id: ExecutionId) -> bool {
        let state = self.state();
        let shadow = state.shadows.get(&id);
        shadow.is_some_and(|shadow| shadow.deleted || shadow.execution.status().is_terminal())
    }
}

impl State {
    fn true_time(&self) -> u64 {
        let passed = self.clock.map_or(0, |clock| clock.elapsed().as_millis());
        self.began + u64::try_from(passed).unwrap_or(u64::MAX)
    }
}
