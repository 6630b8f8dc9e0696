//! Runs a program undisturbed and disturbed, and compares what came of it with what must.

use crate::{
    evaluate::{Expected, evaluate, value},
    model::{Program, Reply, Scripted},
    play::{BodyRun, Player, message},
};
use outlast::{
    Config, Context, Error, Function, Result,
    core::{event::Details, random::SplitMix64, wire::ExecutionStatus},
    testing::{Answer, Fault, TestKit, TestRun},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// Disturbed runs per program.
const DISTURBED: u64 = 2;

/// A program and what is done to it.
#[derive(Debug)]
pub(crate) struct Case {
    /// Seed of the program and of everything that happens to it.
    pub(crate) seed: u64,
    /// How large the program may be.
    pub(crate) size: u64,
    program: Arc<Program>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}, size {}: {:?}",
            self.seed, self.size, self.program.root
        )
    }
}

/// The smallest case of this seed that fails, with why.
pub(crate) fn smallest(seed: u64, size: u64) -> Option<(Case, String)> {
    (1..size).find_map(|size| {
        let case = Case::of(seed, size);
        let problem = case.check().err()?;
        Some((case, problem))
    })
}

/// How one run of a program is disturbed.
struct Disturbance {
    timing: u64,
    faults: Vec<Fault>,
    page_bytes: usize,
    hide_closed_children: bool,
    function_timeout: Option<Duration>,
    config: Config,
}

impl Case {
    /// The case of a seed.
    pub(crate) fn of(seed: u64, size: u64) -> Self {
        Self {
            seed,
            size,
            program: Arc::new(Program::draw(seed, size)),
        }
    }

    /// Runs everything; gives how many runs agreed.
    ///
    /// # Errors
    /// With what was different, and the run in which it was.
    pub(crate) fn check(&self) -> Result<u64, String> {
        let expected = evaluate(&self.program);
        let plain = Disturbance {
            timing: self.seed,
            faults: Vec::new(),
            page_bytes: 2_000,
            hide_closed_children: true,
            function_timeout: None,
            config: Config::new(),
        };
        let (run, drawn) = self.run(&plain, &expected)?;
        let mut random = SplitMix64::new(!self.seed);
        for _ in 0..DISTURBED {
            let disturbance = self.disturb(&mut random, run.requests());
            let (_, again) = self.run(&disturbance, &expected)?;
            if again != drawn {
                return Err("random numbers differ between runs".to_owned());
            }
        }
        Ok(1 + DISTURBED)
    }

    fn disturb(&self, random: &mut SplitMix64, requests: u64) -> Disturbance {
        let faults = 1 + random.below(4);
        let faults: Vec<Fault> = (0..faults)
            .filter_map(|_| self.fault(random, requests + 2))
            .collect();
        let mut pick = |choices: &[u64]| {
            let at = usize::try_from(random.below(choices.len() as u64)).unwrap_or(0);
            choices[at]
        };
        let config = Config::new()
            .checkpoint_delay(Duration::from_millis(pick(&[0, 0, 3])))
            .linger(Duration::from_millis(pick(&[0, 5, 20, 500])))
            .keep_alive(Duration::from_secs(pick(&[0, 0, 2, 1_000])));
        let function_timeout = Some(pick(&[0, 0, 15])).filter(|limit| *limit > 0);
        let page_bytes = usize::try_from(pick(&[1, 400, 2_000, 1_000_000])).unwrap_or(1);
        let hide_closed_children = pick(&[0, 1]) == 1;
        Disturbance {
            page_bytes,
            hide_closed_children,
            function_timeout: function_timeout.map(Duration::from_secs),
            config,
            faults,
            timing: random.next_u64(),
        }
    }

    fn fault(&self, random: &mut SplitMix64, requests: u64) -> Option<Fault> {
        let number = 1 + random.below(requests);
        Some(match random.below(13) {
            0..=2 => Fault::CrashBefore(number),
            3..=5 => Fault::CrashAfter(number),
            6 => Fault::LoseResponse(number),
            7 => Fault::DuplicateRequest(number),
            8 => Fault::DuplicateResponse(number),
            9 => Fault::StaleToken(number),
            10 => Fault::Slow(number, Duration::from_millis(random.below(3_000))),
            kind => {
                let steps: Vec<_> = self
                    .program
                    .script
                    .iter()
                    .filter_map(|scripted| match scripted {
                        Scripted::Step(name, attempts, forgets) => Some((name, attempts, forgets)),
                        Scripted::Callback(..)
                        | Scripted::Signal(_)
                        | Scripted::SlowFunction(_) => None,
                    })
                    .collect();
                let at = usize::try_from(random.below(steps.len() as u64)).unwrap_or(0);
                let (step, attempts, forgets) = *steps.get(at)?;
                if kind == 11 || !forgets {
                    let attempt = 1 + random.below(u64::from(*attempts));
                    Fault::CrashInBody {
                        step: step.clone(),
                        attempt: u32::try_from(attempt).unwrap_or(1),
                    }
                } else {
                    Fault::LoseStart(step.clone())
                }
            }
        })
    }

    /// One run; gives what the handler drew on the way.
    fn run(
        &self,
        how: &Disturbance,
        expected: &Expected,
    ) -> Result<(TestRun, Option<u64>), String> {
        let player = Player::new(how.timing);
        let run = self.kit(how, &player).run_blocking(());
        match verify(&run, expected, &player.bodies()) {
            Ok(drawn) => Ok((run, drawn)),
            Err(problem) => Err(format!(
                "{problem}\nfaults: {:?}\n{}\nrequests:\n{}\nhistory:\n{}",
                how.faults,
                run.why(),
                run.requests_text(),
                run.history_text()
            )),
        }
    }

    fn kit(&self, how: &Disturbance, player: &Player) -> TestKit {
        let program = self.program.clone();
        let handler = {
            let player = player.clone();
            move |ctx: Context, (): ()| player.clone().handle(ctx, program.clone())
        };
        let function = Function::new("program", handler).config(how.config.clone());
        let mut kit = TestKit::of(function)
            .function(Function::new("durable", durable))
            .function(Function::new("durable-failing", durable_failing))
            .plain("plain", async |id: u64| Ok::<_, Error>(value(id)))
            .plain("plain-failing", async |id: u64| {
                Err::<u64, _>(format!("e{id}"))
            })
            .max_invocations(2_000)
            .quotas(|quotas| {
                quotas.page_bytes_max = how.page_bytes;
                quotas.hide_closed_children = how.hide_closed_children;
            });
        if let Some(timeout) = how.function_timeout {
            kit = kit.function_timeout(timeout);
        }
        for scripted in &self.program.script {
            kit = match scripted {
                Scripted::Callback(name, id, reply) => {
                    let after = player.seconds(*id, 30);
                    let answer = match reply {
                        Reply::Success => Answer::json(value(*id)),
                        Reply::Failure => Answer::fail("E", &format!("e{id}")),
                        Reply::Timeout | Reply::NotSubmitted => Answer::time_out(),
                    };
                    kit.callback(name, answer.after(after))
                }
                Scripted::Signal(id) => {
                    let after = Duration::from_secs(player.draw(*id, 60));
                    kit.signal(&format!("g{id}"), value(*id), after)
                }
                Scripted::SlowFunction(id) => {
                    let answer = Answer::time_out().after(player.seconds(*id, 20));
                    kit.scripted(&format!("slow-{id}"), [answer])
                }
                Scripted::Step(..) => kit,
            };
        }
        how.faults.iter().cloned().fold(kit, TestKit::fault)
    }
}

async fn durable(ctx: Context, id: u64) -> Result<u64> {
    ctx.wait(Duration::from_secs(1 + id % 5)).await?;
    ctx.step("value", async |_| Ok::<_, Error>(value(id))).await
}

async fn durable_failing(ctx: Context, id: u64) -> Result<u64> {
    let step = ctx.step("fail", async |_| Err::<u64, _>(format!("e{id}")));
    step.retry(outlast::Retry::none()).await
}

/// Everything that must hold of a run, whatever was done to it.
fn verify(run: &TestRun, expected: &Expected, bodies: &[BodyRun]) -> Result<Option<u64>, String> {
    let drawn = verify_outcome(run, expected)?;
    run.check_invariants().map_err(|error| error.to_string())?;
    for (event, number) in run.history().iter().zip(1..) {
        if event.event_id != number {
            return Err(format!("event {} stands at {number}", event.event_id));
        }
    }
    if let Some(step) = run.repeated_body() {
        return Err(format!(
            "the body of {step} ran after its outcome was recorded"
        ));
    }
    let mut seen = BTreeSet::new();
    if let Some(body) = bodies.iter().find(|body| !seen.insert(*body)) {
        return Err(format!("a body ran twice in one invocation: {body:?}"));
    }
    verify_steps(run, expected).map(|()| drawn)
}

fn verify_outcome(run: &TestRun, expected: &Expected) -> Result<Option<u64>, String> {
    let found = match run.status() {
        ExecutionStatus::Succeeded => run
            .result::<(u64, u64)>()
            .map_err(|error| error.to_string())
            .map(|(sum, drawn)| (Ok(sum), Some(drawn)))?,
        ExecutionStatus::Failed => (Err(run.error().map(message).unwrap_or_default()), None),
        status @ (ExecutionStatus::Running
        | ExecutionStatus::TimedOut
        | ExecutionStatus::Stopped) => {
            return Err(format!(
                "it is {status:?}: {:?} {:?}",
                run.error(),
                run.held()
            ));
        }
    };
    let wanted = expected
        .outcome
        .as_ref()
        .map(|sum| *sum)
        .map_err(|fail| fail.message.clone());
    if found.0 == wanted {
        Ok(found.1)
    } else {
        Err(format!(
            "it came to {:?} instead of {wanted:?} ({:?})",
            found.0,
            run.error()
        ))
    }
}

/// Every step that must have come to its end did so once, and compensations ran in order.
fn verify_steps(run: &TestRun, expected: &Expected) -> Result<(), String> {
    let mut ended: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
    let mut order = Vec::new();
    for event in run.history() {
        let (succeeded, details) =
            if let Details::StepSucceeded { retry_details, .. } = &event.details {
                (true, retry_details)
            } else if let Details::StepFailed { retry_details, .. } = &event.details {
                (false, retry_details)
            } else {
                continue;
            };
        let name = event.name.as_deref().unwrap_or_default();
        if details.next_attempt_delay_seconds.is_none() {
            ended.entry(name).or_default().push(succeeded);
            order.push(name);
        }
    }
    for (name, succeeded) in &expected.steps {
        let found = ended.get(name.as_str());
        if found.is_none_or(|found| *found != [*succeeded]) {
            return Err(format!(
                "the step {name} should have ended once with {succeeded}: {found:?}"
            ));
        }
    }
    for names in &expected.undone {
        let found: Vec<&str> = order
            .iter()
            .copied()
            .filter(|name| names.iter().any(|wanted| wanted == name))
            .collect();
        if found != *names {
            return Err(format!(
                "compensations ran as {found:?} instead of {names:?}"
            ));
        }
    }
    Ok(())
}
