//! One run: boots one after another, each on a runtime of its own, the last one to the end.

use crate::{
    disk::Disk,
    host::{Host, PlainHost, durable, durable_failing},
    model::Scripted,
    outside::{self, Errand},
    plan::{BootEnd, How, Plan},
    verdict,
    world::World,
};
use outlast::{
    Config, Context, Function,
    core::{
        Quotas, Tenancy,
        arn::{ExecutionId, Function as Arn},
        schedule::Share,
        time::Timestamp,
        wire::DurableConfig,
    },
};
use outlast_engine::{
    Engine, Options, Parts, Registered,
    clock::{Clock, EngineClock},
    invoker::Invoker,
    random::Seeded,
    store::{Query, Store as _, memory::MemoryStore},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Wall time when the world begins.
const WALL_MS: u64 = 1_800_000_000_000;
/// A boot that was to end at a commit ends after this long at the latest.
const BOOT_MS_MAX: u64 = 120_000;
/// When faults are over, everything ends within this long, however far clocks went back.
const CALM_MS_MAX: u64 = 3 * 3_600_000;
/// How long after the last end the engine must be at rest: longer than it looks ahead.
const REST_MS: u64 = 130_000;
const DAY_MS: u64 = 86_400_000;
/// Seconds that an execution has whose function gives it little time.
const BRIEF_SECONDS: u32 = 20;
/// Seconds that the others have: none of them runs out of time.
const LONG_SECONDS: u32 = 366 * 86_400;

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// What happened, in order.
    pub(crate) trace: Vec<String>,
    /// The same, in short.
    pub(crate) digest: u64,
    /// The first law that was broken.
    pub(crate) violation: Option<String>,
    /// How often what happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Report {
    let world = Arc::new(World::new(seed, Plan::of(seed)));
    let kept = Arc::new(MemoryStore::new());
    let mut wall = WALL_MS;
    for number in 0..=world.plan.ends.len() {
        let end = world.plan.ends.get(number).copied();
        let boot = Boot {
            world: world.clone(),
            kept: kept.clone(),
            number,
            seed: seed.rotate_left(17) ^ number as u64,
            clock_at: Timestamp::from_millis(wall),
            end,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let Ok(runtime) = runtime else {
            world.violated("there is no runtime");
            break;
        };
        let up = runtime.block_on(boot.run());
        drop(runtime);
        wall = (wall + up).saturating_add_signed(end.map_or(0, |end| end.jump_ms));
        if world.violation().is_some() {
            break;
        }
    }
    let (trace, digest) = world.trace();
    let violation = world.violation();
    let counts = world.state().counts.clone();
    Report {
        trace,
        digest,
        violation,
        counts,
    }
}

/// One boot of the machine.
struct Boot {
    world: Arc<World>,
    kept: Arc<MemoryStore>,
    number: usize,
    seed: u64,
    clock_at: Timestamp,
    end: Option<BootEnd>,
}

/// The engine's clock, for handlers.
#[derive(Clone)]
struct HandlerClock(Arc<dyn Clock>);

impl outlast::Clock for HandlerClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Boot {
    /// Runs until the boot ends; gives how long that was.
    async fn run(&self) -> u64 {
        let world = &self.world;
        world.boot(self.number);
        world.note(format!(
            "boot at {}, {:?}",
            self.clock_at.as_millis(),
            self.end
        ));
        tokio::select! {
            biased;
            () = world.power_cut.notified() => world.note("power cut"),
            () = self.live() => {}
        }
        let up = world.uptime();
        world.note("halt");
        world.halt();
        up
    }

    async fn live(&self) {
        let world = &self.world;
        let how = self.end.map(|end| end.how);
        let disk = Arc::new(Disk::new(world.clone(), self.kept.clone()));
        let working = disk.clone();
        spawn(async move { working.work(how).await });
        let clock = EngineClock::starting_at(self.clock_at);
        let Some(engine) = self.open(&disk, clock).await else {
            return;
        };
        self.register(&engine);
        let running = engine.clone();
        spawn(async move { running.run().await });
        spawn(outside::work(world.clone(), engine.clone()));
        let latest = Duration::from_millis(BOOT_MS_MAX);
        match how {
            Some(How::After(after)) => tokio::time::sleep(Duration::from_millis(after)).await,
            Some(How::AtCommit(..)) => tokio::time::sleep(latest).await,
            Some(How::Poison(_)) => {
                if let Ok(reason) = tokio::time::timeout(latest, engine.failed()).await {
                    world.note(format!("the engine stopped: {reason}"));
                    world.count("poisoned");
                    tokio::time::sleep(Duration::from_millis(world.below(2_000))).await;
                }
            }
            Some(How::ShutDown(after)) => {
                tokio::time::sleep(Duration::from_millis(after)).await;
                world.note("shut down");
                world.count("shut down");
                engine.shut_down().await;
            }
            None => self.finish(&engine).await,
        }
    }

    async fn open(&self, disk: &Arc<Disk>, clock: EngineClock) -> Option<Engine> {
        let plan = &self.world.plan;
        let mut quotas = Quotas::unlimited();
        quotas.page_bytes_max = plan.page_bytes_max;
        let random = Arc::new(Seeded::new(self.seed));
        loop {
            let parts = Parts {
                store: disk.clone(),
                clock: Arc::new(clock),
                random: random.clone(),
                options: Options {
                    quotas: quotas.clone(),
                    invocations_max: plan.invocations_max,
                    beginning_max: plan.beginning_max,
                    ready_max: plan.ready_max,
                    resting_max: plan.resting_max,
                    known: outlast_engine::Known::ByProgram,
                    snapshot_records: plan.snapshot_records,
                    grace: Duration::from_secs(5),
                },
            };
            match Engine::open(parts).await {
                Ok(engine) => return Some(engine),
                Err(error) => {
                    self.world.note(format!("no engine: {error}"));
                    if disk.status().poisoned.is_some() {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }

    fn register(&self, engine: &Engine) {
        let world = &self.world;
        let clock = HandlerClock(engine.clock());
        let clocked = |config: &Config| config.clone().clock(clock.clone());
        let host = |function: Function| {
            let name = function.name().to_owned();
            let host = Host {
                world: world.clone(),
                engine: engine.downgrade(),
                function,
            };
            (name, Arc::new(host) as Arc<dyn Invoker>)
        };
        for (index, run) in world.plan.runs.iter().enumerate() {
            let (player, program) = (run.player.clone(), run.program.clone());
            let handler = move |ctx: Context, _: u64| player.clone().handle(ctx, program.clone());
            let function = Function::new(&format!("program-{index}"), handler);
            let (name, invoker) = host(function.config(clocked(&run.config)));
            let seconds = if run.brief {
                BRIEF_SECONDS
            } else {
                LONG_SECONDS
            };
            engine.register(self.registered(&name, Some(seconds), None, invoker));
        }
        let plain = || {
            Arc::new(PlainHost {
                world: world.clone(),
            }) as Arc<dyn Invoker>
        };
        let config = clocked(&Config::new());
        for function in [
            Function::new("durable", durable).config(config.clone()),
            Function::new("durable-failing", durable_failing).config(config),
        ] {
            let (name, invoker) = host(function);
            engine.register(self.registered(&name, Some(LONG_SECONDS), None, invoker));
        }
        for name in ["plain", "plain-failing"] {
            engine.register(self.registered(name, None, None, plain()));
        }
        for run in &world.plan.runs {
            for scripted in &run.program.script {
                if let Scripted::SlowFunction(id) = scripted {
                    let limit = Some(run.player.seconds(*id, 20));
                    let name = format!("slow-{id}");
                    engine.register(self.registered(&name, None, limit, plain()));
                }
            }
        }
    }

    fn registered(
        &self,
        name: &str,
        seconds: Option<u32>,
        timeout: Option<Duration>,
        invoker: Arc<dyn Invoker>,
    ) -> Registered {
        Registered {
            function: Arn {
                partition: "aws".into(),
                region: "local".into(),
                account: "000000000000".into(),
                name: name.into(),
                version: "$LATEST".into(),
            },
            config: seconds.map(|seconds| DurableConfig {
                execution_timeout: seconds,
                retention_period_in_days: Some(if self.world.plan.years { 90 } else { 1 }),
                kms_key_arn: None,
            }),
            tenancy: Tenancy::Any,
            timeout,
            share: Share {
                concurrency_max: self.world.plan.concurrency_max,
                weight: 1,
            },
            invoker,
        }
    }

    /// The last boot: the faults end, then everything else must.
    async fn finish(&self, engine: &Engine) {
        let world = &self.world;
        let limit = world.plan.tail_ms + CALM_MS_MAX;
        while !is_done(world) {
            if world.uptime() > limit {
                self.complain(engine).await;
                return;
            }
            if world.violation().is_some() {
                return;
            }
            // A year is looked at less closely than a minute.
            let pause = (world.uptime() / 20).clamp(1_000, 3_600_000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        world.note("everything has ended");
        tokio::time::sleep(Duration::from_millis(REST_MS)).await;
        self.check_rest(engine);
        let ids: Vec<ExecutionId> = world.state().shadows.keys().copied().collect();
        for id in ids {
            world.add(0, Errand::Look(id));
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        if !is_done(world) {
            world.violated("not everything could be looked at");
        }
        verdict::judge(world);
        if !world.plan.years {
            self.expire(engine).await;
        }
    }

    /// Says what is not over and why.
    async fn complain(&self, engine: &Engine) {
        let world = &self.world;
        let open: Vec<ExecutionId> = {
            let state = world.state();
            let open = state.shadows.iter().filter(|(_, shadow)| {
                !shadow.execution.status().is_terminal() || shadow.execution.has_intents()
            });
            open.map(|(id, _)| *id).collect()
        };
        for id in open {
            let why = engine.why(id).await;
            let head = self.kept.head(id);
            let wakes = {
                let state = world.state();
                let shadow = state.shadows.get(&id);
                shadow.map(|it| (it.execution.next_wake(), it.execution.deadline()))
            };
            let name = world.name(id);
            world.note(format!("open {name}: {why:?} {wakes:?} {head:?}"));
        }
        let errands: Vec<String> = {
            let state = world.state();
            let open = state.errands.iter().filter(|(_, _, done)| !done);
            open.map(|(_, errand, _)| format!("{errand:?}")).collect()
        };
        world.note(format!("{errands:?} {:?}", engine.health()));
        world.violated("not everything ended");
    }

    /// An engine that has nothing to do holds nothing.
    fn check_rest(&self, engine: &Engine) {
        let health = engine.health();
        let idle = health.invocations == 0
            && health.ready == 0
            && health.watched == 0
            && health.carried == 0
            && health.wakes == 0
            && health.loaded <= self.world.plan.resting_max
            && health.quarantined.is_empty();
        if !idle {
            self.world
                .violated(format!("the engine is not at rest: {health:?}"));
        }
    }

    /// Retention deletes everything, a day after its end.
    async fn expire(&self, engine: &Engine) {
        let ended = {
            let state = self.world.state();
            let ends = state.shadows.values().filter_map(|it| it.execution.ended());
            ends.max().unwrap_or(self.clock_at)
        };
        let due = ended.plus_millis(DAY_MS).millis_since(engine.clock().now());
        tokio::time::sleep(Duration::from_millis(due + REST_MS)).await;
        let query = Query {
            max: 10,
            ..Query::default()
        };
        let left = self.kept.list(&query).unwrap_or_default();
        if !left.is_empty() {
            self.world.violated(format!("retention left {left:?}"));
        }
    }
}

fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::runtime::Handle::current().spawn(work));
}

fn is_done(world: &World) -> bool {
    let state = world.state();
    state.ids.len() == world.plan.runs.len()
        && state.errands.iter().all(|(_, _, done)| *done)
        && state.shadows.values().all(|shadow| {
            shadow.execution.status().is_terminal() && !shadow.execution.has_intents()
        })
}
