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

/// A bounded queue of changes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Something can be taken, or nothing will come any more.
    filled: Condvar,
    /// Something can be handed over, or nothing may be any more.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    group: Group,
    bytes: usize,
    closed: bool,
}

/// Changes taken together, and who waits for each.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The changes, in order.
    pub(super) changes: Vec<Change>,
    replies: Vec<oneshot::Sender<Result<(), CommitError>>>,
}

impl Queue {
    /// Hands over a change; waits while the queue is full.
    pub(super) fn push(&self, change: Change) -> Committing {
        let bytes = bytes(&change);
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
        drop(state);
        self.filled.notify_one();
        committing
    }

    /// Everything there is; waits until there is something. `None` when the queue was closed and is
    /// empty.
    pub(super) fn take(&self) -> Option<Group> {
        let mut state = self.state();
        while !state.closed && state.group.changes.is_empty() {
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
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

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        let count = self.group.changes.len();
        count == 0 || count < CHANGES_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX
    }
}

impl Group {
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
