//! The operations of an execution as a tree, read from its history; and the sentence that says what
//! it waits for, where the endpoint has none. Pure.
//!
//! Events of types that are not known here are passed over: a newer service may have more.

use crate::{
    paint::{Cell, Paint, duration, moment as shown, short},
    service::{moment, text},
};
use outlast::core::time::{Timestamp, epoch_seconds};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Letters of a note that are shown.
const NOTE_LETTERS: usize = 100;
/// Letters of an id that stand for an operation without a name.
const ID_LETTERS: usize = 8;
/// What events can be about; the first that fits counts.
const TYPES: [(&str, &str); 5] = [
    ("Context", "CONTEXT"),
    ("Step", "STEP"),
    ("Wait", "WAIT"),
    ("Callback", "CALLBACK"),
    ("ChainedInvoke", "CHAINED_INVOKE"),
];

/// All operations of an execution, in the order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    operations: Vec<Operation>,
    /// Calls of the handler that have ended.
    pub(crate) invocations: u64,
}

/// One operation, as its last event left it.
#[derive(Clone, Debug)]
struct Operation {
    id: String,
    name: Option<String>,
    kind: &'static str,
    sub_type: Option<String>,
    status: &'static str,
    /// The operation it is in, which stands before it.
    parent: Option<usize>,
    attempts: u64,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    /// When something happens by itself.
    due: Option<Timestamp>,
    /// A callback's id, or the function that is invoked.
    about: Option<String>,
    error: Option<Value>,
}

impl Tree {
    /// Reads events in the order of their numbers.
    pub(crate) fn of(events: &[Value]) -> Self {
        let mut tree = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for event in events {
            let event_type = text(event, "EventType").unwrap_or_default();
            if event_type == "InvocationCompleted" {
                tree.invocations += 1;
            }
            let about = TYPES.iter().find_map(|(prefix, kind)| {
                let ending = event_type.strip_prefix(prefix)?;
                Some((*kind, ending))
            });
            let (Some((kind, ending)), Some(id)) = (about, text(event, "Id")) else {
                continue;
            };
            let index = *known.entry(id.to_owned()).or_insert(tree.operations.len());
            if index == tree.operations.len() {
                let parent = text(event, "ParentId").and_then(|parent| known.get(parent));
                // One that was its own parent would never end.
                let parent = parent.copied().filter(|parent| *parent < index);
                tree.operations
                    .push(Operation::new(id, kind, parent, event));
            }
            if let Some(operation) = tree.operations.get_mut(index) {
                let details = event.get(format!("{event_type}Details"));
                operation.advance(ending, event, details.unwrap_or(&Value::Null));
            }
        }
        tree
    }

    /// The tree in JSON, in the service's words.
    pub(crate) fn json(&self) -> Value {
        let mut inner: Vec<Vec<Value>> = vec![Vec::new(); self.operations.len()];
        let mut outer = Vec::new();
        // Whatever is inside an operation stands after it.
        for (index, operation) in self.operations.iter().enumerate().rev() {
            let mut inside = inner.pop().unwrap_or_default();
            inside.reverse();
            let value = operation.json(inside);
            match operation.parent.filter(|parent| *parent < index) {
                Some(parent) => inner.get_mut(parent).map(|list| list.push(value)),
                None => {
                    outer.push(value);
                    None
                }
            };
        }
        outer.reverse();
        Value::Array(outer)
    }

    /// The tree as lines.
    pub(crate) fn draw(&self, paint: Paint, now: Timestamp) -> String {
        let mut inner: Vec<Vec<usize>> = vec![Vec::new(); self.operations.len()];
        let mut outer = Vec::new();
        for (index, operation) in self.operations.iter().enumerate() {
            let siblings = operation.parent.and_then(|parent| inner.get_mut(parent));
            siblings.unwrap_or(&mut outer).push(index);
        }
        let mut rows = Vec::new();
        // What is still to be drawn, last first: the operation, what stands before it, and whether
        // another follows at its level.
        let below = |list: &[usize], indent: &str| -> Vec<(usize, String, bool)> {
            let last = list.last().copied();
            let entry = |index: &usize| (*index, indent.to_owned(), Some(*index) != last);
            list.iter().rev().map(entry).collect()
        };
        let mut left = below(&outer, "");
        while let Some((index, indent, follows)) = left.pop() {
            let Some(operation) = self.operations.get(index) else {
                continue;
            };
            let (branch, deeper) = if follows {
                ("├─ ", "│  ")
            } else {
                ("└─ ", "   ")
            };
            rows.push(operation.row(&format!("{indent}{branch}"), now));
            if let Some(list) = inner.get(index) {
                left.extend(below(list, &format!("{indent}{deeper}")));
            }
        }
        paint.columns(&rows)
    }

    /// What an execution that has not ended waits for, in one sentence.
    pub(crate) fn why(&self) -> String {
        let open =
            |operation: &&Operation| operation.ended.is_none() && operation.kind != "CONTEXT";
        let open: Vec<&Operation> = self.operations.iter().filter(open).collect();
        let soonest = open.iter().filter(|operation| operation.due.is_some());
        let soonest = soonest.min_by_key(|operation| operation.due);
        let Some(first) = soonest.or(open.first()) else {
            return "It is running its handler, or is about to.".to_owned();
        };
        let others = match open.len() {
            0 | 1 => String::new(),
            2 => ", and for one other operation".to_owned(),
            more => format!(", and for {} other operations", more - 1),
        };
        format!("It waits for {}{others}.", first.awaited())
    }
}

impl Operation {
    fn new(id: &str, kind: &'static str, parent: Option<usize>, event: &Value) -> Self {
        Self {
            id: id.to_owned(),
            name: text(event, "Name").map(str::to_owned),
            kind,
            sub_type: text(event, "SubType").map(str::to_owned),
            status: "STARTED",
            parent,
            attempts: 0,
            started: moment(event, "EventTimestamp"),
            ended: None,
            due: None,
            about: None,
            error: None,
        }
    }

    /// Takes in an event: how it ends, and what it says.
    fn advance(&mut self, ending: &str, event: &Value, details: &Value) {
        let at = moment(event, "EventTimestamp");
        let after = |seconds: Option<u64>| {
            let ms = seconds
                .filter(|seconds| *seconds > 0)?
                .saturating_mul(1_000);
            Some(at?.plus_millis(ms))
        };
        let number = |member: &str| details.get(member).and_then(Value::as_u64);
        let retry = details.get("RetryDetails");
        let retry = |member: &str| retry.and_then(|retry| retry.get(member)?.as_u64());
        self.error = details.pointer("/Error/Payload").cloned();
        self.due = None;
        if ending == "Started" {
            self.status = "STARTED";
            self.attempts += 1;
            self.due = moment(details, "ScheduledEndTimestamp").or(after(number("Timeout")));
            let about = text(details, "CallbackId").or(text(details, "FunctionName"));
            self.about = about.map(str::to_owned);
            return;
        }
        if let Some(attempts) = retry("CurrentAttempt") {
            self.attempts = attempts;
        }
        if let Some(seconds) = retry("NextAttemptDelaySeconds") {
            self.status = "PENDING";
            self.due = after(Some(seconds));
            return;
        }
        self.status = match ending {
            "Succeeded" => "SUCCEEDED",
            "Failed" => "FAILED",
            "TimedOut" => "TIMED_OUT",
            "Stopped" => "STOPPED",
            "Cancelled" => "CANCELLED",
            // Something new; it has ended or not, nobody knows.
            _ => return,
        };
        self.ended = at;
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.id.chars().take(ID_LETTERS).collect(),
        }
    }

    fn row(&self, indent: &str, now: Timestamp) -> Vec<Cell> {
        let attempts = match (self.kind, self.attempts) {
            ("STEP", 2..) => format!("{} attempts", self.attempts),
            _ => String::new(),
        };
        let took = self.started.map(|started| {
            let until = self.ended.unwrap_or(now.max(started));
            duration(until.millis_since(started))
        });
        let mut notes = Vec::new();
        if let Some(due) = self.due {
            notes.push(format!("due {}", shown(due)));
        }
        if self.ended.is_none() || self.kind == "CHAINED_INVOKE" {
            notes.extend(self.about.clone());
        }
        notes.extend(self.error.as_ref().map(error));
        vec![
            format!("{indent}{}", self.label()).into(),
            self.sub_type.as_deref().unwrap_or(self.kind).into(),
            Cell::status(self.status),
            attempts.into(),
            took.unwrap_or_default().into(),
            short(&notes.join("  "), NOTE_LETTERS).into(),
        ]
    }

    fn json(&self, inside: Vec<Value>) -> Value {
        let seconds = |at: Option<Timestamp>| at.map(|at| json!(epoch_seconds::to_seconds(at)));
        let about = self.about.as_ref().map(|about| json!(about));
        let is_callback = self.kind == "CALLBACK";
        let members = [
            ("Id", Some(json!(self.id))),
            ("Name", self.name.as_ref().map(|name| json!(name))),
            ("Type", Some(json!(self.kind))),
            ("SubType", self.sub_type.as_ref().map(|name| json!(name))),
            ("Status", Some(json!(self.status))),
            (
                "Attempts",
                Some(json!(self.attempts)).filter(|_| self.kind == "STEP"),
            ),
            ("StartTimestamp", seconds(self.started)),
            ("EndTimestamp", seconds(self.ended)),
            ("DueTimestamp", seconds(self.due)),
            (
                if is_callback {
                    "CallbackId"
                } else {
                    "FunctionName"
                },
                about,
            ),
            ("Error", self.error.clone()),
            (
                "Operations",
                Some(Value::Array(inside)).filter(|inside| *inside != json!([])),
            ),
        ];
        let mut object = Map::new();
        for (name, value) in members {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        }
        Value::Object(object)
    }

    fn awaited(&self) -> String {
        let name = match &self.name {
            Some(name) => format!("\"{name}\""),
            None => self.label(),
        };
        let since = self.started.map(shown).unwrap_or_default();
        let until = |what: &str| {
            let due = self.due.map(|due| format!(" ({what} {})", shown(due)));
            due.unwrap_or_default()
        };
        match self.kind {
            "WAIT" => format!("the timer {name}, set {since}{}", until("it ends at")),
            "STEP" if self.status == "PENDING" => format!(
                "the next attempt of step {name} after {} failed or unfinished{}",
                self.attempts,
                until("due at")
            ),
            "STEP" => format!("the step {name}, begun {since}"),
            "CALLBACK" => {
                let is_signal = self.sub_type.as_deref() == Some("Signal");
                let what = if is_signal { "signal" } else { "callback" };
                format!(
                    "the {what} {name} since {since}{}",
                    until("it times out at")
                )
            }
            _ => {
                let function = self.about.as_deref().unwrap_or("another function");
                format!("function {function} to answer {name} since {since}")
            }
        }
    }
}

/// An error of the service in one line.
pub(crate) fn error(error: &Value) -> String {
    let parts = ["ErrorType", "ErrorMessage"].map(|member| text(error, member));
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "an error that says nothing".to_owned();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests;
