//! One sentence that says why an execution is where it is.

use crate::{
    execution::Execution,
    operation::{Detail, Operation},
    record::HoldCause,
    time::Timestamp,
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

/// The moment in ISO 8601, UTC.
pub(crate) fn utc(at: Timestamp) -> String {
    let seconds = at.as_millis() / 1_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, on a calendar whose year begins in March so that leap days come last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Timestamp::from_millis(seconds * 1_000)), text);
        }
    }
}
