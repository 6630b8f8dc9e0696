//! Changes on their way to the thread that writes them.
//!
//! Bounded in number and bytes. When it is full, handing over waits: nothing is lost and memory stays
//! flat. Whoever takes gets everything there is, in the order it was handed over.

use super::{Change, Commit, CommitError, Committing};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Changes the queue holds at most. All of them make one transaction, so this also bounds how long
/// one takes.
pub(super) const CHANGES_MAX: usize = 4_096;
/// Bytes the queue holds at most; a single change may be larger.
pub(super) const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Something to be written, with whatever its writer wants to know beside the change.
pub(super) trait Entry {
    /// The change.
    fn change(&self) -> &Change;
}

impl Entry for Change {
    fn change(&self) -> &Change {
        self
    }
}

/// A bounded queue of changes.
#[derive(Debug)]
pub(super) struct Queue<T = Change> {
    state: Mutex<State<T>>,
    /// Something can be taken, or nothing will come any more.
    filled: Condvar,
    /// Something can be handed over, or nothing may be any more.
    emptied: Condvar,
}

#[derive(Debug)]
struct State<T> {
    group: Group<T>,
    bytes: usize,
    closed: bool,
    /// Whether the writer sleeps. Waking somebody costs a system call even when nobody waits.
    asleep: bool,
}

/// Changes taken together, and who waits for each.
#[derive(Debug)]
pub(super) struct Group<T = Change> {
    /// The changes, in order.
    pub(super) changes: Vec<T>,
    replies: Vec<oneshot::Sender<Result<(), CommitError>>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            group: Group::default(),
            bytes: 0,
            closed: false,
            asleep: false,
        }
    }
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            replies: Vec::new(),
        }
    }
}

impl<T: Entry> Queue<T> {
    /// Hands over a change; waits while the queue is full.
    pub(super) fn push(&self, change: T) -> Committing {
        let bytes = bytes(change.change());
        let mut state = self.state();
        while !state.closed && !state.has_room(bytes) {
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Committing::done(Err(CommitError::Closed));
        }
        let (reply, committing) = Committing::queued();
        state.group.changes.push(change);
        state.group.replies.push(reply);
        state.bytes += bytes;
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.filled.notify_one();
        }
        committing
    }

    /// Everything there is; waits until there is something. `None` when the queue was closed and is
    /// empty.
    pub(super) fn take(&self) -> Option<Group<T>> {
        let mut state = self.state();
        while !state.closed && state.group.changes.is_empty() {
            state.asleep = true;
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        self.take_now(state)
    }

    /// Everything there is, if there is anything.
    #[cfg(test)]
    pub(super) fn try_take(&self) -> Option<Group<T>> {
        self.take_now(self.state())
    }

    fn take_now(&self, mut state: MutexGuard<'_, State<T>>) -> Option<Group<T>> {
        if state.group.changes.is_empty() {
            return None;
        }
        let group = std::mem::take(&mut state.group);
        state.bytes = 0;
        drop(state);
        self.emptied.notify_all();
        Some(group)
    }

    /// Refuses changes from now on; what is in the queue can still be taken.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn has_room(&self, bytes: usize) -> bool {
        let count = self.group.changes.len();
        count == 0 || count < CHANGES_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX
    }
}

impl<T> Group<T> {
    /// Tells everybody how it went.
    pub(super) fn answer(self, outcomes: Vec<Result<(), CommitError>>) {
        for (reply, outcome) in self.replies.into_iter().zip(outcomes) {
            // Who no longer waits does not want to know.
            let _ = reply.send(outcome);
        }
    }
}

/// About how much memory a change holds.
fn bytes(change: &Change) -> usize {
    match change {
        Change::Commit(Commit {
            records, snapshot, ..
        }) => records.bytes.len() + snapshot.as_ref().map_or(0, Vec::len),
        Change::Delete { .. } => 0,
        Change::Setting { value, .. } => value.len(),
    }
}

#[cfg(test)]
mod tests;
