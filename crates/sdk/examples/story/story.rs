//! Tells what happened in an execution: its history as a table, and what it took.
//!
//! For the examples' terminal output only; nothing in here is needed to use Outlast.

#![expect(clippy::print_stdout, reason = "examples talk to people")]

use outlast::{
    core::{
        event::{Details, Event},
        id::OperationId,
        time::Timestamp,
        wire::{ErrorObject, ExecutionStatus, Payload},
    },
    testing::TestRun,
};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Columns of a line before its outcome.
const WHAT_COLUMNS: usize = 34;
/// Longest outcome that is shown whole.
const OUTCOME_COLUMNS: usize = 62;

/// Prints a headline, the history, and the sum of it all. `begun` is when the real clock started.
pub fn tell(headline: &str, run: &TestRun, begun: Instant) {
    println!("\n{headline}\n{}", "=".repeat(headline.len()));
    println!("\n{:>10}  {:<WHAT_COLUMNS$}  outcome", "after", "what");
    let mut table = Table::default();
    for event in run.history() {
        table.add(event);
    }
    let virtually = table.elapsed_ms();
    println!();
    match run.status() {
        ExecutionStatus::Succeeded => println!("Result: {}", pretty(run)),
        ExecutionStatus::Running => println!("Still running: {}", run.why()),
        ExecutionStatus::Failed | ExecutionStatus::TimedOut | ExecutionStatus::Stopped => {
            let error = run.error().map(ToString::to_string);
            println!("Error: {}", error.unwrap_or_default());
        }
    }
    println!(
        "The handler was invoked {} and wrote {}. {} passed in the execution's world, {} ms in yours.",
        plural(run.invocations().len() as u64, "time"),
        plural(run.requests(), "checkpoint"),
        duration(virtually),
        begun.elapsed().as_millis()
    );
}

/// The result as people like to read it.
fn pretty(run: &TestRun) -> String {
    let value = run.result::<serde_json::Value>();
    let text = value.map(|value| serde_json::to_string_pretty(&value).unwrap_or_default());
    text.unwrap_or_else(|error| error.to_string())
}

/// The history as lines, with what it takes to indent and date them.
#[derive(Default)]
struct Table {
    origin: Option<Timestamp>,
    last: Timestamp,
    depths: BTreeMap<OperationId, usize>,
}

impl Table {
    fn add(&mut self, event: &Event) {
        let origin = *self.origin.get_or_insert(event.event_timestamp);
        if self.last == Timestamp::default() {
            self.last = origin;
        }
        let pause = event.event_timestamp.millis_since(self.last);
        if pause >= 1_000 {
            println!("{:>10}  ... nothing runs for {} ...", "", duration(pause));
        }
        self.last = event.event_timestamp;
        let depth = self.depth(event);
        let Some((what, outcome)) = describe(event) else {
            return;
        };
        let what = format!("{:indent$}{what}", "", indent = depth * 2);
        let after = duration(event.event_timestamp.millis_since(origin));
        println!("{after:>10}  {what:<WHAT_COLUMNS$}  {outcome}");
    }

    /// How deep the event's operation stands in contexts of its own.
    fn depth(&mut self, event: &Event) -> usize {
        let parent = event.parent_id.as_ref();
        let depth = parent
            .and_then(|id| self.depths.get(id))
            .map_or(0, |depth| depth + 1);
        if let Some(id) = &event.id {
            self.depths.insert(id.clone(), depth);
        }
        depth
    }

    fn elapsed_ms(&self) -> u64 {
        self.origin
            .map_or(0, |origin| self.last.millis_since(origin))
    }
}

/// An event in words: what it is about, and what came of it. Starts of steps and ends of
/// invocations go without saying.
fn describe(event: &Event) -> Option<(String, String)> {
    let label = event.sub_type.as_deref().unwrap_or_default();
    let name = event.name.as_deref().unwrap_or_default();
    let what = format!("{label} {name}").trim().to_owned();
    let outcome = match &event.details {
        Details::StepStarted {} | Details::InvocationCompleted { .. } => return None,
        Details::ExecutionStarted { input, .. } => {
            return Some((
                "execution".to_owned(),
                format!("started with {}", text(&input.payload)),
            ));
        }
        Details::ExecutionSucceeded { .. } => {
            return Some(("execution".to_owned(), "succeeded".to_owned()));
        }
        Details::ExecutionFailed { error }
        | Details::ExecutionTimedOut { error }
        | Details::ExecutionStopped { error } => {
            return Some(("execution".to_owned(), failed(error.payload.as_ref())));
        }
        Details::ContextStarted {} => "begins".to_owned(),
        Details::ContextSucceeded { .. } => "ends".to_owned(),
        Details::StepSucceeded {
            result,
            retry_details,
        } => {
            let again = retry_details.next_attempt_delay_seconds;
            format!("{}{}", text(&result.payload), next(again))
        }
        Details::StepFailed {
            error,
            retry_details,
        } => {
            let again = retry_details.next_attempt_delay_seconds;
            format!("{}{}", failed(error.payload.as_ref()), next(again))
        }
        Details::WaitStarted {
            duration: seconds, ..
        } => {
            format!("for {}", duration(u64::from(*seconds) * 1_000))
        }
        Details::WaitSucceeded { .. } => "over".to_owned(),
        Details::CallbackStarted { .. } | Details::ChainedInvokeStarted { .. } => "open".to_owned(),
        Details::CallbackSucceeded { result } | Details::ChainedInvokeSucceeded { result } => {
            text(&result.payload)
        }
        Details::ContextFailed { error }
        | Details::CallbackFailed { error }
        | Details::CallbackTimedOut { error }
        | Details::ChainedInvokeFailed { error }
        | Details::ChainedInvokeTimedOut { error }
        | Details::ChainedInvokeStopped { error } => failed(error.payload.as_ref()),
        Details::WaitCancelled { .. } => "cancelled".to_owned(),
    };
    Some((what, outcome))
}

fn text(payload: &Option<Payload>) -> String {
    match payload.as_deref() {
        None | Some("null") => "done".to_owned(),
        Some(text) => shorten(text),
    }
}

fn failed(error: Option<&ErrorObject>) -> String {
    let message = error.and_then(|error| error.error_message.as_deref());
    shorten(&format!(
        "failed: {}",
        message.unwrap_or("for no given reason")
    ))
}

fn next(delay_seconds: Option<u32>) -> String {
    delay_seconds
        .map(|seconds| format!(", again in {}", duration(u64::from(seconds) * 1_000)))
        .unwrap_or_default()
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= OUTCOME_COLUMNS {
        return text.to_owned();
    }
    let head: String = text.chars().take(OUTCOME_COLUMNS - 3).collect();
    format!("{head}...")
}

/// A duration as people say it: its two largest parts.
fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts = units.iter().skip_while(|(count, _)| *count == 0).take(2);
    let parts = parts.filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if parts.is_empty() {
        "0 s".to_owned()
    } else {
        parts.join(" ")
    }
}

fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
