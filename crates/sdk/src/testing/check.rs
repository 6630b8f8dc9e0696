//! Two proofs about a handler: that it survives a crash at every checkpoint, and that today's code
//! still fits what an older build recorded.

use super::{Fault, Recording, TestKit, TestRun, stage::Stage};
use crate::{
    backend::{Backend, BackendError, BoxFuture},
    config::Executor,
    function::Function,
    invocation::{Outcome, Request, invoke},
};
use outlast_core::{
    time::Timestamp,
    wire::{
        CheckpointRequest, CheckpointResponse, ExecutionStatus, InvocationInput, InvocationStatus,
        Operation, Payload, StatePage,
    },
};
use serde::Serialize;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Notify;

/// What [`TestKit::crash_everywhere`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct CrashReport {
    /// How the undisturbed run ended.
    pub baseline: String,
    /// Whether it ended at all. One that still waits proves nothing.
    pub ended: bool,
    /// How many crashes were tried.
    pub crashes: u64,
    /// Runs in which an at-most-once step was interrupted, so that another outcome is right.
    pub interrupted: u64,
    /// Crashes after which something was different.
    pub divergences: Vec<Divergence>,
}

/// One crash after which something was different.
#[derive(Debug)]
#[non_exhaustive]
pub struct Divergence {
    /// The crash.
    pub fault: Fault,
    /// What was different.
    pub difference: String,
}

impl CrashReport {
    /// Panics with everything that was different, if anything was.
    ///
    /// # Panics
    /// When a crash changed the outcome.
    #[track_caller]
    #[expect(clippy::panic, reason = "this is an assertion for tests")]
    pub fn assert_same(&self) {
        if !self.ended {
            panic!(
                "the undisturbed run did not end, so there is nothing to compare: {}",
                self.baseline
            );
        }
        if self.divergences.is_empty() {
            return;
        }
        let lines: Vec<String> = self
            .divergences
            .iter()
            .map(|found| format!("{:?}: {}", found.fault, found.difference))
            .collect();
        panic!(
            "{} of {} crashes changed the outcome, which is {} without one:\n{}",
            self.divergences.len(),
            self.crashes,
            self.baseline,
            lines.join("\n")
        );
    }
}

impl TestKit {
    /// Runs the handler once undisturbed, then once per checkpoint boundary with a crash there, and
    /// demands the same outcome every time, and that no at-most-once body ran twice in one attempt.
    pub async fn crash_everywhere<I: Serialize + Clone>(&self, input: I) -> CrashReport {
        let undisturbed = self.run(input.clone()).await;
        let baseline = outcome(&undisturbed);
        let mut report = CrashReport {
            baseline: baseline.clone(),
            ended: undisturbed.status() != ExecutionStatus::Running,
            crashes: 0,
            interrupted: 0,
            divergences: Vec::new(),
        };
        for number in 1..=undisturbed.requests() {
            for fault in [Fault::CrashBefore(number), Fault::CrashAfter(number)] {
                report.crashes += 1;
                let run = self.clone().fault(fault.clone()).run(input.clone()).await;
                if let Some(step) = run.repeated_body() {
                    let difference = format!(
                        "the body of the step {step} ran again in an attempt that was over"
                    );
                    report.divergences.push(Divergence {
                        fault: fault.clone(),
                        difference,
                    });
                }
                let found = outcome(&run);
                if run.was_interrupted() {
                    report.interrupted += 1;
                } else if found != baseline {
                    report.divergences.push(Divergence {
                        fault,
                        difference: format!("the outcome is {found}"),
                    });
                }
            }
        }
        report
    }

    /// Replays a recording against today's code, without running anything that is not recorded.
    pub async fn replay_check(&self, recording: &Recording) -> ReplayReport {
        let Some(super::Registered::Durable(function)) = self.setup.functions.get(&self.function)
        else {
            return ReplayReport {
                differences: vec!["the kit has no such function".to_owned()],
            };
        };
        // On a stage of its own, so that time is virtual there too.
        let (function, recording) = (function.clone(), recording.clone());
        Stage::new(self.setup.clone())
            .run(move |_| Box::pin(async move { replay(&function, &recording).await }))
            .await
    }
}

fn outcome(run: &TestRun) -> String {
    let result = run
        .raw_result()
        .map(|result| format!(" with {result}"))
        .unwrap_or_default();
    let error = run
        .error()
        .map(|error| format!(" with {error}"))
        .unwrap_or_default();
    let running = run.status() == ExecutionStatus::Running;
    let waits = if running {
        format!(": {}", run.why())
    } else {
        String::new()
    };
    format!("{:?}{result}{error}{waits}", run.status())
}

/// What [`TestKit::replay_check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Each difference between the recording and today's code, readable as a diff.
    pub differences: Vec<String>,
}

impl ReplayReport {
    /// Whether today's code fits the recording.
    pub fn is_compatible(&self) -> bool {
        self.differences.is_empty()
    }

    /// Panics with the differences, if there are any.
    ///
    /// # Panics
    /// When today's code does not fit the recording.
    #[track_caller]
    #[expect(clippy::panic, reason = "this is an assertion for tests")]
    pub fn assert_compatible(&self) {
        if !self.is_compatible() {
            panic!("today's code does not fit the recording:\n{self}");
        }
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "{difference}")?;
        }
        Ok(())
    }
}

/// A backend that knows a recording and takes nothing new.
#[derive(Default)]
struct ReadOnly {
    attempted: Mutex<Vec<CheckpointRequest>>,
    stop: Notify,
}

impl Backend for ReadOnly {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        self.attempted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        self.stop.notify_one();
        Box::pin(std::future::pending())
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async { Ok(StatePage::default()) })
    }
}

async fn replay(function: &Function, recording: &Recording) -> ReplayReport {
    let backend = Arc::new(ReadOnly::default());
    let input = InvocationInput {
        durable_execution_arn: recording.execution_arn.clone(),
        checkpoint_token: "replay".to_owned(),
        initial_execution_state: StatePage {
            operations: recording.operations.clone(),
            next_marker: None,
        },
        updated_operation_ids: Vec::new(),
    };
    let function = function.with_config(|mut config| {
        config.executor = Executor::Inline;
        config.trace = Some(Arc::new(|_, _| {}));
        config
    });
    let running = invoke(
        &function,
        input,
        backend.clone(),
        Request {
            request_id: "replay".into(),
            ..Request::default()
        },
    );
    let outcome = tokio::select! {
        biased;
        () = backend.stop.notified() => None,
        outcome = running => Some(outcome),
    };
    let mut differences: Vec<String> = Vec::new();
    for update in backend
        .attempted
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .flat_map(|request| &request.updates)
    {
        // New work after the end of an unfinished recording is what going on looks like.
        if recording.ended {
            let name = update.name.as_deref().unwrap_or("(unnamed)");
            differences.push(format!(
                "+ current:  {} {name} {} is not recorded",
                update.operation_type, update.action
            ));
        }
    }
    if let Some(outcome) = outcome {
        differences.extend(compare(recording, &outcome));
    }
    ReplayReport { differences }
}

/// How a replay that ran to its end differs from the recording.
fn compare(recording: &Recording, outcome: &Outcome) -> Vec<String> {
    let output = match &outcome.answer {
        Err(failed) => return vec![failed.record.error_message.clone().unwrap_or_default()],
        Ok(output) => output,
    };
    let mut differences = Vec::new();
    for operation in outcome
        .unmet
        .iter()
        .filter(|operation| is_reachable(recording, operation))
    {
        let name = operation.name.as_deref().unwrap_or("(unnamed)");
        differences.push(format!(
            "- recorded: {} {name} is no longer performed",
            operation.operation_type
        ));
    }
    match (recording.ended, output.status) {
        (true, InvocationStatus::Succeeded)
            if output.result != recording.result && output.result.as_deref() != Some("") =>
        {
            let text =
                |payload: &Option<Payload>| payload.as_deref().unwrap_or("nothing").to_owned();
            differences.push(format!(
                "- recorded: the result {}\n+ current:  the result {}",
                text(&recording.result),
                text(&output.result)
            ));
        }
        (true, InvocationStatus::Failed) if recording.error.is_none() => {
            let error = output.error.clone().unwrap_or_default();
            differences.push(format!(
                "- recorded: it succeeded\n+ current:  it fails with {error}"
            ));
        }
        (true, InvocationStatus::Pending) => {
            differences.push(format!(
                "- recorded: it ended\n+ current:  it still waits ({})",
                outcome.report.why
            ));
        }
        _ => {}
    }
    differences
}

/// Operations inside a closed context are not visited again, unless its result is rebuilt.
fn is_reachable(recording: &Recording, operation: &Operation) -> bool {
    let mut parent = operation.parent_id.as_ref();
    while let Some(context) =
        parent.and_then(|id| recording.operations.iter().find(|known| known.id == *id))
    {
        if context.status.is_terminal() && !context.replays_children() {
            return false;
        }
        parent = context.parent_id.as_ref();
    }
    // What had not finished when the execution ended may have lost a race.
    operation.status.is_terminal() || operation.start_timestamp == Timestamp::default()
}
