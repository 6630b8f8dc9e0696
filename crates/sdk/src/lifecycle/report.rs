//! What the lifecycle says about itself: why an invocation did or did not suspend, who holds it,
//! and the tree of operations that are open.

use super::{OperationState, State};
use outlast_core::time::Timestamp;
use std::{collections::BTreeMap, fmt, fmt::Write as _};

/// A snapshot of an invocation's lifecycle, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One sentence: why the invocation is, or is not, about to suspend.
    pub why: String,
    /// The pieces of user code that hold it.
    pub holders: Vec<Holder>,
    /// The open operations, indented by nesting.
    pub tree: String,
}

/// A piece of user code that keeps an invocation from suspending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What it is, for example `handler` or `step 'charge' (3)`.
    pub label: String,
    /// Whether it waits for something that is not a durable operation: a channel, a lock, a socket.
    pub waits_for_foreign: bool,
    /// Whether its code is on a stack right now. One that neither runs nor waits was woken and has
    /// not been polled since: it is about to be, or it was kept without being awaited.
    pub is_polled: bool,
}

impl Holder {
    fn doing(&self) -> &'static str {
        if self.is_polled {
            "is running"
        } else if self.waits_for_foreign {
            "waits for something that is not durable"
        } else {
            "was woken and has not been polled since"
        }
    }
}

/// Holders that the sentence names.
const NAMED_MAX: usize = 3;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.why)?;
        f.write_str(&self.tree)
    }
}

impl State {
    /// Describes the lifecycle as it is now. Scans everything; for diagnosis only.
    pub(crate) fn report(&self) -> Report {
        let mut holders: Vec<(u64, Holder)> = self
            .actors
            .iter()
            .filter(|(_, actor)| !actor.blocked)
            .map(|(id, actor)| {
                let holder = Holder {
                    label: actor.label.to_string(),
                    waits_for_foreign: !actor.polled && !actor.woken,
                    is_polled: actor.polled,
                };
                (*id, holder)
            })
            .collect();
        // What runs will come to rest by itself: those who wait for something foreign come first.
        holders.sort_by_key(|(id, holder)| (!holder.waits_for_foreign, holder.is_polled, *id));
        let holders: Vec<Holder> = holders.into_iter().map(|(_, holder)| holder).collect();
        Report {
            why: self.why(&holders),
            tree: self.tree(),
            holders,
        }
    }

    fn why(&self, holders: &[Holder]) -> String {
        if !holders.is_empty() {
            let named = holders.iter().take(NAMED_MAX);
            let named: Vec<String> = named
                .map(|holder| format!("{} {}", holder.label, holder.doing()))
                .collect();
            let more = match holders.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            return format!("not suspending: {}{more}", named.join(", "));
        }
        if self.waking > 0 {
            return "not suspending: a wake is on its way".to_owned();
        }
        if let Some(doing) = self.queue.describe() {
            return format!("not suspending: {doing}");
        }
        match self.journal.pending() {
            0 => "stuck: everything waits and nothing is pending".to_owned(),
            pending => format!("suspending: everything waits and {pending} operations are pending"),
        }
    }

    fn tree(&self) -> String {
        let open: BTreeMap<Vec<String>, _> = self
            .entries
            .values()
            .map(|entry| (sort_key(entry.identity.position.as_str()), entry))
            .collect();
        let mut text = String::new();
        for entry in open.values() {
            let identity = &entry.identity;
            let depth = identity.position.as_str().matches('-').count();
            let name = identity
                .name
                .as_deref()
                .map(|name| format!(" '{name}'"))
                .unwrap_or_default();
            let state = describe(entry.state);
            let due = entry
                .next_poll
                .map(|at: Timestamp| format!(", asks again at {at}"))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "{:indent$}{} {}{name}: {state}{due}",
                "",
                identity.position,
                identity.sub_type,
                indent = depth * 2
            );
        }
        let _ = write!(text, "({} completed)", self.completed);
        text
    }
}

/// Orders positions by number, not by text: 2 before 10.
fn sort_key(position: &str) -> Vec<String> {
    position
        .split('-')
        .map(|part| format!("{part:0>20}"))
        .collect()
}

fn describe(state: OperationState) -> &'static str {
    match state {
        OperationState::Executing => "executing",
        OperationState::RetryWaiting => "waiting for its retry",
        OperationState::IdleNotAwaited => "idle, not awaited",
        OperationState::IdleAwaited => "idle, awaited",
        OperationState::Completed => "completed",
    }
}
