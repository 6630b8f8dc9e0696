//! A history as text, one line per event: for snapshots, logs and terminals.
//!
//! Compact and stable, not meant to be parsed. Times are relative to the start of the execution.

use crate::{
    event::{Details, Event, RetryDetails, Wrapped},
    time::Timestamp,
    wire::{ErrorObject, Payload},
};
use alloc::{format, string::String};
use core::fmt::Write as _;

/// The events, one per line.
pub fn text<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    let mut text = String::new();
    let mut origin = None;
    for event in events {
        let origin = *origin.get_or_insert(event.event_timestamp);
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line(event, origin));
    }
    text
}

/// One event, at its time after `origin`.
pub fn line(event: &Event, origin: Timestamp) -> String {
    let ms = event.event_timestamp.millis_since(origin);
    let mut line = format!("{:>3} ", event.event_id);
    // Writing to a String cannot fail.
    let _ = write!(
        line,
        "+{}.{:03} {}",
        ms / 1_000,
        ms % 1_000,
        event.event_type.as_str()
    );
    if let Some(name) = &event.name {
        let _ = write!(line, " {name}");
    } else if let Some(id) = &event.id {
        let short: String = id.as_str().chars().take(8).collect();
        let _ = write!(line, " #{short}");
    }
    describe(&mut line, &event.details);
    line
}

fn describe(line: &mut String, details: &Details) {
    match details {
        Details::ExecutionStarted {
            input,
            execution_timeout,
        } => {
            payload(line, "input", input);
            let _ = write!(line, " timeout={execution_timeout}s");
        }
        Details::ExecutionSucceeded { result }
        | Details::ContextSucceeded { result }
        | Details::CallbackSucceeded { result }
        | Details::ChainedInvokeSucceeded { result } => payload(line, "result", result),
        Details::ExecutionFailed { error }
        | Details::ExecutionTimedOut { error }
        | Details::ExecutionStopped { error }
        | Details::ContextFailed { error }
        | Details::CallbackFailed { error }
        | Details::CallbackTimedOut { error }
        | Details::ChainedInvokeFailed { error }
        | Details::ChainedInvokeTimedOut { error }
        | Details::ChainedInvokeStopped { error } => failure(line, error),
        Details::ContextStarted {} | Details::StepStarted {} => {}
        Details::StepSucceeded {
            result,
            retry_details,
        } => {
            attempt(line, *retry_details);
            payload(line, "result", result);
        }
        Details::StepFailed {
            error,
            retry_details,
        } => {
            attempt(line, *retry_details);
            failure(line, error);
        }
        Details::WaitStarted { duration, .. } | Details::WaitSucceeded { duration } => {
            let _ = write!(line, " {duration}s");
        }
        Details::WaitCancelled { error } | Details::InvocationCompleted { error, .. } => {
            if let Some(error) = error {
                failure(line, error);
            }
        }
        Details::CallbackStarted {
            timeout,
            heartbeat_timeout,
            ..
        } => {
            for (what, seconds) in [("timeout", timeout), ("heartbeat", heartbeat_timeout)] {
                if let Some(seconds) = seconds {
                    let _ = write!(line, " {what}={seconds}s");
                }
            }
        }
        Details::ChainedInvokeStarted {
            function_name,
            input,
            ..
        } => {
            let _ = write!(line, " {function_name}");
            if let Some(input) = input {
                payload(line, "input", input);
            }
        }
    }
}

fn attempt(line: &mut String, retry: RetryDetails) {
    let _ = write!(line, " attempt={}", retry.current_attempt);
    if let Some(seconds) = retry.next_attempt_delay_seconds {
        let _ = write!(line, " next={seconds}s");
    }
}

fn payload(line: &mut String, what: &str, value: &Wrapped<Payload>) {
    const SHOWN_BYTES: usize = 60;
    match &value.payload {
        Some(payload) if payload.len() <= SHOWN_BYTES => {
            let _ = write!(line, " {what}={payload}");
        }
        Some(payload) => {
            let _ = write!(line, " {what}=({} bytes)", payload.len());
        }
        None => {}
    }
}

fn failure(line: &mut String, error: &Wrapped<ErrorObject>) {
    if let Some(error) = &error.payload {
        let _ = write!(line, " error={error}");
    }
}
