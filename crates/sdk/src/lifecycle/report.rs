//! What the lifecycle says about itself: why an invocation did or did not suspend, who holds it,
//! and the tree of operations that are open.

use super::{Entry, OperationState, State};
use outlast_core::time::Timestamp;
use std::{fmt, fmt::Write as _};

/// Open operations that a report lists.
const LINES_MAX: usize = 100;

/// A snapshot of an invocation's lifecycle, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One sentence: why the invocation is, or is not, about to suspend.
    pub why: String,
    /// The pieces of user code that hold it.
    pub holders: Vec<Holder>,
    /// The open operations, indented by nesting; the first hundred of them.
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
        let mut open: Vec<(Vec<Part<'_>>, &Entry)> = self
            .entries
            .values()
            .map(|entry| (sort_key(entry.identity.position.as_str()), entry))
            .collect();
        // Ten thousand open operations are possible; nobody reads that many, and putting all of
        // them in order would cost more than the invocation itself.
        let more = open.len().saturating_sub(LINES_MAX);
        if more > 0 {
            open.select_nth_unstable_by(LINES_MAX, |(left, _), (right, _)| left.cmp(right));
            open.truncate(LINES_MAX);
        }
        open.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut text = String::new();
        for (_, entry) in open {
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
        if more > 0 {
            let _ = writeln!(text, "(and {more} more)");
        }
        let _ = write!(text, "({} completed)", self.completed);
        text
    }
}

/// A part of a position. Ordered as a number where it is one: 2 before 10, and keys last.
type Part<'a> = (u64, &'a str);

fn sort_key(position: &str) -> Vec<Part<'_>> {
    position
        .split('-')
        .map(|part| (part.parse().unwrap_or(u64::MAX), part))
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

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{
        id::Position,
        replay::Identity,
        wire::{OperationType, sub_type},
    };
    use std::sync::Arc;

    fn tree(operations: u64) -> String {
        let mut state = State::default();
        for number in 1..=operations {
            let position = Position::root().child(number);
            let identity = Identity {
                id: position.id(),
                position,
                operation_type: OperationType::Wait,
                sub_type: sub_type::WAIT.into(),
                name: None,
                parent_id: None,
            };
            state.mark(&Arc::new(identity), OperationState::IdleAwaited);
        }
        state.tree()
    }

    #[test]
    fn a_report_lists_a_hundred_operations_in_order_and_counts_the_rest() {
        let last_lines = |operations| {
            let tree = tree(operations);
            let lines: Vec<&str> = tree.lines().collect();
            (lines.len(), lines[98..].join(", "))
        };
        assert_eq!(
            last_lines(99),
            (100, "99 Wait: idle, awaited, (0 completed)".to_owned())
        );
        assert_eq!(last_lines(100).1.lines().count(), 1);
        let (lines, text) = last_lines(101);
        assert_eq!(lines, 102);
        assert_eq!(
            text,
            "99 Wait: idle, awaited, 100 Wait: idle, awaited, (and 1 more), (0 completed)"
        );
    }

    #[test]
    fn positions_are_ordered_by_number_and_keys_come_last() {
        let mut positions = ["10", "2", "k:a", "2-10", "2-9", "1"];
        positions.sort_by_key(|position| sort_key(position));
        assert_eq!(positions, ["1", "2", "2-9", "2-10", "10", "k:a"]);
    }
}
