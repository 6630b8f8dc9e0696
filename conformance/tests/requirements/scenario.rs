//! One requirement as it is written down, played on the test kit.
//!
//! Time is virtual but passes as it does for the official runner: it looks at the history once a
//! second, answers new callbacks one after another, each after its delay, and stops looking when
//! the execution has ended.

use crate::payload;
use outlast::{
    BoxError,
    core::{
        event::{Details, Event},
        random::SplitMix64,
        wire::ExecutionStatus,
    },
    log::Line,
    testing::{Answer, Fault, TestKit, TestRun},
};
use outlast_conformance::{
    Requirement,
    matcher::{Bindings, Matcher, transcript},
};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// How often the history is looked at.
const POLL: Duration = Duration::from_secs(1);
/// Looks after which an execution will not end any more.
const POLLS_MAX: u32 = 120;

/// A requirement's file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    #[serde(default)]
    input: Value,
    variables: Option<Value>,
    /// Without one, the execution need not end.
    expected_result: Option<Value>,
    expected_execution_history: Vec<Value>,
    #[serde(default)]
    expected_logs: Vec<Value>,
    #[serde(default)]
    callback_actions: Vec<Action>,
}

/// What the outside does when a callback is opened.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Action {
    callback_name: String,
    operation: Operation,
    payload: Option<Value>,
    #[serde(default)]
    delay: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Success,
    Failure,
    Heartbeat,
}

/// A requirement.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    file: File,
    bindings: Bindings,
}

impl Scenario {
    /// Reads a requirement's file. Its variables are drawn from its id, so they are always alike.
    pub(crate) fn read(id: &str, text: &str) -> Result<Self, BoxError> {
        // As in YAML 1.2, and as the official runner reads it: `y` is a letter.
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: Value = serde_saphyr::from_str_with_options(text, options)?;
        let file: File = serde_json::from_value(file)?;
        let seed = id
            .bytes()
            .fold(0, |seed: u64, byte| seed * 31 + u64::from(byte));
        let mut random = SplitMix64::new(seed);
        let letter = || {
            (b'a'..=b'z')
                .nth((random.next_u64() % 26) as usize)
                .map_or('?', char::from)
        };
        let bindings = Bindings::of_variables(file.variables.as_ref(), letter);
        Ok(Self {
            id: id.to_owned(),
            file,
            bindings,
        })
    }

    /// Suite and number, to sort by.
    pub(crate) fn order(&self) -> (u32, u32) {
        let (suite, number) = self.id.split_once('-').unwrap_or((&self.id, "0"));
        (
            suite.parse().unwrap_or(u32::MAX),
            number.parse().unwrap_or(u32::MAX),
        )
    }

    /// Runs the handler and says what is wrong with what it did.
    pub(crate) async fn judge(&self, requirement: &Requirement) -> Result<(), BoxError> {
        let Played { run, mut problems } = self.play(requirement, None).await;
        let events = run
            .history()
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<Vec<_>, _>>()?;
        let mut matcher = Matcher::new(self.bindings.clone());
        matcher.events(&self.file.expected_execution_history, &events);
        if let Some(expected) = &self.file.expected_result {
            matcher.result(expected, run.status().as_str(), run.raw_result());
        }
        // What plugins record is for the official runner to judge.
        let lines = |entry: &&Value| entry.pointer("/match/message").is_some();
        let lines: Vec<Value> = self
            .file
            .expected_logs
            .iter()
            .filter(lines)
            .cloned()
            .collect();
        matcher.logs(&lines, &logged(&run));
        problems.extend(matcher.into_problems());
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{}\n{}\n{}",
            run.why(),
            problems.join("\n"),
            transcript(&events)
        )
        .into())
    }

    /// Runs the handler once per checkpoint boundary with a crash there. It must end every time as
    /// it does without.
    pub(crate) async fn crash_everywhere(&self, requirement: &Requirement) -> Result<(), BoxError> {
        let undisturbed = self.play(requirement, None).await.run;
        for number in 1..=undisturbed.requests() {
            for fault in [Fault::CrashBefore(number), Fault::CrashAfter(number)] {
                let Played { run, .. } = self.play(requirement, Some(fault.clone())).await;
                let killed = run
                    .invocations()
                    .iter()
                    .any(|invocation| invocation.outcome.is_none());
                if !killed {
                    return Err(format!("{fault:?} killed nothing").into());
                }
                if (run.status(), run.raw_result())
                    != (undisturbed.status(), undisturbed.raw_result())
                {
                    return Err(format!("{fault:?}: {}\n{}", run.why(), run.history_text()).into());
                }
            }
        }
        Ok(())
    }

    /// Lets the execution run to where the requirement wants it.
    async fn play(&self, requirement: &Requirement, fault: Option<Fault>) -> Played {
        let kit = TestKit::of(requirement.function.clone());
        let kit = requirement
            .targets
            .iter()
            .fold(kit, |kit, target| kit.function(target.clone()));
        let kit = fault.into_iter().fold(kit, TestKit::fault);
        let mut run = kit.start(self.bindings.substitute(&self.file.input)).await;
        let mut outside = Outside {
            bindings: &self.bindings,
            actions: self.file.callback_actions.clone(),
            handled: BTreeSet::new(),
            problems: Vec::new(),
        };
        for _ in 0..POLLS_MAX {
            run.advance(POLL).await;
            if run.status() != ExecutionStatus::Running || self.file.expected_result.is_none() {
                break;
            }
            outside.look(&mut run).await;
        }
        Played {
            run,
            problems: outside.problems,
        }
    }
}

/// A requirement that was played.
struct Played {
    run: TestRun,
    /// What the outside could not do.
    problems: Vec<String>,
}

/// What the execution logged, line by line, each with its level.
fn logged(run: &TestRun) -> Vec<String> {
    let own = |line: &&Line| {
        line.fields
            .get("executionArn")
            .is_some_and(|arn| arn == run.arn())
    };
    run.logs()
        .iter()
        .filter(own)
        .map(|line| format!("[{}] {}", line.level, line.message))
        .collect()
}

/// The world outside, which answers callbacks.
struct Outside<'a> {
    bindings: &'a Bindings,
    /// What it has not done yet.
    actions: Vec<Action>,
    /// Callbacks that are done with.
    handled: BTreeSet<String>,
    problems: Vec<String>,
}

impl Outside<'_> {
    /// Answers the callbacks that were open when it looked, one after another.
    async fn look(&mut self, run: &mut TestRun) {
        if self.actions.is_empty() {
            // A requirement without actions wants its callbacks to time out.
            return;
        }
        let opened: Vec<(String, String)> = run.history().iter().filter_map(opened).collect();
        for (id, name) in opened {
            if self.handled.contains(&id) {
                continue;
            }
            let matches = |action: &Action| {
                let wanted = self
                    .bindings
                    .substitute(&action.callback_name.as_str().into());
                wanted == "*" || wanted == name.as_str()
            };
            let Some(at) = self.actions.iter().position(matches) else {
                self.handled.insert(id);
                self.problems
                    .push(format!("nothing answers the callback '{name}'"));
                continue;
            };
            let action = self.actions.remove(at);
            if action.operation != Operation::Heartbeat {
                self.handled.insert(id.clone());
            }
            run.advance(Duration::from_secs(action.delay)).await;
            if let Err(error) = self.answer(run, &id, &action).await {
                self.problems.push(format!(
                    "the callback '{name}' could not be answered: {error}"
                ));
            }
        }
    }

    async fn answer(&self, run: &mut TestRun, id: &str, action: &Action) -> Result<(), BoxError> {
        let payload = action
            .payload
            .as_ref()
            .map(|payload| self.bindings.substitute(payload));
        let answer = match (action.operation, payload) {
            (Operation::Heartbeat, _) => Answer::never().heartbeat_at(Duration::ZERO),
            (Operation::Success, None) => Answer::empty(),
            (Operation::Success, Some(payload)) => Answer::succeed(&payload::text(&payload)?),
            (Operation::Failure, payload) => {
                let payload = payload.unwrap_or_default();
                let part = |key: &str| {
                    payload
                        .get(key)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                Answer::fail(&part("ErrorType"), &part("ErrorMessage"))
            }
        };
        Ok(run.answer_callback_id(id, answer).await?)
    }
}

/// Id and name of the callback that an event opened.
fn opened(event: &Event) -> Option<(String, String)> {
    let Details::CallbackStarted { callback_id, .. } = &event.details else {
        return None;
    };
    Some((
        callback_id.to_string(),
        event.name.as_deref().unwrap_or_default().to_owned(),
    ))
}
