//! One sentence that says why an execution is where it is.

use crate::{
    execution::Execution,
    operation::{Detail, Operation},
    record::HoldCause,
    time::{Timestamp, iso::utc},
    wire::{ExecutionStatus, OperationType},
};
use alloc::{
    format,
    string::{String, ToString as _},
};

impl Execution {
    /// What it waits for, since when, and what happens next, in one sentence for people.
    pub fn why(&self, now: Timestamp) -> String {
        if let Some(ended) = self.ended {
            return self.why_ended(ended);
        }
        if let Some(current) = &self.gate.invocation {
            return format!(
                "Invocation {} is running its handler since {}.",
                current.id,
                utc(current.started)
            );
        }
        if let Some(hold) = &self.hold {
            let cause = match hold.cause {
                HoldCause::Mismatch => "its handler no longer matches its recorded operations",
                HoldCause::NoProgress => "its invocations kept failing without getting any further",
                HoldCause::Operator => "an operator asked for it",
            };
            return format!(
                "Held since {} because {cause} ({}); it goes on when somebody resumes it.",
                utc(hold.since),
                hold.reason
            );
        }
        if let Some(retry_at) = self.gate.retry_at {
            let cause = self.gate.last_error.as_ref();
            let cause = cause.map_or_else(|| "its caller died".to_string(), |e| e.to_string());
            return format!(
                "The last invocation failed ({cause}); it is repeated at {} (failures in a row: {}).",
                utc(retry_at),
                self.gate.failures
            );
        }
        if self.wants_invocation(now) {
            return "It is ready and waits for a free worker.".into();
        }
        self.why_waiting()
    }

    fn why_ended(&self, ended: Timestamp) -> String {
        let how = match self.status {
            ExecutionStatus::Succeeded => "It succeeded",
            ExecutionStatus::Failed => "It failed",
            ExecutionStatus::TimedOut => "It ran out of time",
            ExecutionStatus::Stopped | ExecutionStatus::Running => "It was stopped",
        };
        let error = self.error().map(|error| format!(" with {error}"));
        format!("{how} at {}{}.", utc(ended), error.unwrap_or_default())
    }

    fn why_waiting(&self) -> String {
        let open = self.operations.open();
        let timer = self.operations.next_due().filter(|(_, index)| *index != 0);
        let first = timer.map(|(_, index)| index).or(open.first().copied());
        let Some(first) = first.and_then(|index| self.operations.get(index)) else {
            return "It waits for nothing.".into();
        };
        let others = match open.len() {
            0 | 1 => String::new(),
            2 => ", and for one other operation".into(),
            more => format!(", and for {} other operations", more - 1),
        };
        format!("It waits for {}{others}.", what(first))
    }
}

fn what(operation: &Operation) -> String {
    let name = match operation.name() {
        Some(name) => format!("\"{name}\""),
        None => operation.id().as_str().chars().take(8).collect(),
    };
    let since = utc(operation.started);
    let deadline = operation.due();
    let until =
        |text: &str| deadline.map_or(String::new(), |due| format!(" ({text} {})", utc(due)));
    match (operation.operation_type(), &operation.detail) {
        (OperationType::Wait, _) => {
            format!("the timer {name}, set {since}{}", until("it ends at"))
        }
        (OperationType::Step, Detail::Step { attempt, .. }) => format!(
            "the next attempt of step {name} after {attempt} failed or unfinished{}",
            until("due at")
        ),
        (OperationType::Callback, _) if operation.signal().is_some() => {
            format!(
                "the signal {name} since {since}{}",
                until("it times out at")
            )
        }
        (OperationType::Callback, _) => {
            format!(
                "the callback {name} since {since}{}",
                until("it times out at")
            )
        }
        (OperationType::ChainedInvoke, Detail::Invoke(invoke)) => {
            format!(
                "function {} to answer {name} since {since}",
                invoke.function_name
            )
        }
        _ => format!("operation {name} since {since}"),
    }
}
