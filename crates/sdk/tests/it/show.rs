//! Runs as text: what each invocation asked of the backend, and how it answered.

use outlast::{
    Error,
    core::wire::{InvocationOutput, InvocationStatus},
    testing::{Invocation, TestKit, TestRun},
};
use std::time::Duration;

/// What the bodies of tests return when they cannot fail.
pub(crate) type Sure<T> = Result<T, std::convert::Infallible>;

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a kit to its end and shows its calls.
pub(crate) async fn calls_of(kit: TestKit) -> String {
    calls(&kit.run(()).await)
}

/// One line per checkpoint request, then how the invocation ended; a blank line between invocations.
pub(crate) fn calls(run: &TestRun) -> String {
    let shown: Vec<String> = run.invocations().iter().map(invocation).collect();
    shown.join("\n\n")
}

fn invocation(invocation: &Invocation) -> String {
    let mut lines: Vec<String> = invocation
        .requests
        .iter()
        .map(ToString::to_string)
        .collect();
    lines.push(match &invocation.outcome {
        None => "=> killed".to_owned(),
        Some(outcome) => match &outcome.answer {
            Ok(output) => format!("=> {}", answer(output)),
            Err(failed) => format!("=> repeat: {}", brief(&failed.record.to_string())),
        },
    });
    lines.join("\n")
}

/// An answer in a few words.
pub(crate) fn answer(output: &InvocationOutput) -> String {
    match output.status {
        InvocationStatus::Pending => "PENDING".to_owned(),
        InvocationStatus::Succeeded => {
            format!(
                "SUCCEEDED {}",
                brief(output.result.as_deref().unwrap_or("nothing"))
            )
        }
        InvocationStatus::Failed => match &output.error {
            Some(error) => format!("FAILED {}", brief(&error.to_string())),
            None => "FAILED without an error".to_owned(),
        },
    }
}

/// The text, or how long it is.
pub(crate) fn brief(text: &str) -> String {
    const SHOWN_BYTES: usize = 300;
    if text.len() <= SHOWN_BYTES {
        text.to_owned()
    } else {
        format!("({} bytes)", text.len())
    }
}

/// An error by kind and text.
pub(crate) fn told(error: &Error) -> String {
    format!("{:?}: {}", error.kind(), brief(&error.to_string()))
}
