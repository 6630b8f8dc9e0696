//! The store contract in its simplest form: maps behind a mutex.
//!
//! What it acknowledged lasts as long as the process. It is what other stores are compared with, and
//! what a simulated engine stands on: commits can be [held](MemoryStore::hold) back until the
//! simulator says they are durable, and a [crash](MemoryStore::crash) keeps exactly those that were.
//! No order of a hash map is visible and no clock is read, so equal calls give equal answers.

use super::{
    About, Change, Commit, CommitError, Committing, Head, Query, Run, Status, Store, StoreError,
    Stored, Wake,
};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Keeps executions in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    held: bool,
    queue: VecDeque<(Change, oneshot::Sender<Result<(), CommitError>>)>,
    closed: bool,
    full: bool,
    poisoned: Option<Arc<str>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on commits wait until they are [released](Self::release).
    pub fn hold(&self) {
        self.state().held = true;
    }

    /// Makes the first `max` waiting commits durable, in the order they were handed over, and
    /// answers them.
    pub fn release(&self, max: usize) {
        let mut state = self.state();
        let count = max.min(state.queue.len());
        let released: Vec<_> = state.queue.drain(..count).collect();
        for (change, reply) in released {
            let outcome = state.apply(change);
            // Who no longer waits does not want to know; the commit is durable all the same.
            let _ = reply.send(outcome);
        }
    }

    /// Releases every waiting commit, and holds none from now on.
    pub fn release_all(&self) {
        self.release(usize::MAX);
        self.state().held = false;
    }

    /// How many commits wait.
    pub fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    /// The store as another process finds it after this one died: with everything durable and
    /// nothing else. This one stops: waiting commits are never answered, later ones are refused.
    /// Whether commits are held is inherited.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.state();
        let held = state.held;
        let before = std::mem::replace(
            &mut *state,
            State {
                closed: true,
                ..State::default()
            },
        );
        Self {
            state: Mutex::new(State {
                kept: before.kept,
                held,
                ..State::default()
            }),
        }
    }

    /// Behaves as after a failed sync: nothing is acknowledged any more, waiting commits included.
    pub fn poison(&self, reason: &str) {
        self.state().poisoned = Some(reason.into());
    }

    /// Behaves as on a full disk, or on one that has room again.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way through a change, so what a panicked thread left is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: Change) -> Committing {
        let mut state = self.state();
        if state.closed {
            return Committing::done(Err(CommitError::Closed));
        }
        if !state.held {
            return Committing::done(state.apply(change));
        }
        let (reply, committing) = Committing::queued();
        state.queue.push_back((change, reply));
        committing
    }
}

impl Store for MemoryStore {
    fn commit(&self, commit: Commit) -> Committing {
        self.change(Change::Commit(commit))
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.change(Change::Delete {
            execution,
            expected,
        })
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        let state = self.state();
        let kept = state.kept.executions.get(&execution);
        Ok(kept.map(|kept| kept.head.clone()))
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        let state = self.state();
        Ok(state.kept.executions.get(&execution).map(|kept| {
            let from = kept.snapshot.as_ref().map_or(0, |(version, _)| *version);
            let after = kept.runs.iter().filter(|run| run.first >= from);
            Stored {
                head: kept.head.clone(),
                snapshot: kept.snapshot.clone(),
                records: after.cloned().collect(),
            }
        }))
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let state = self.state();
        let mut found: Vec<Run> = Vec::new();
        let mut bytes = 0;
        let runs = state.kept.executions.get(&execution).map(|kept| &kept.runs);
        for run in runs.into_iter().flatten() {
            if run.first + u64::from(run.count) <= from {
                continue;
            }
            bytes += run.bytes.len();
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push(run.clone());
        }
        Ok(found)
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        let key = (function.into(), name.into());
        Ok(self.state().kept.names.get(&key).copied())
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state();
        let wakes = state.kept.wakes.range((begin, Bound::Unbounded));
        let due = wakes.take_while(|wake| wake.at <= until).take(max);
        Ok(due.copied().collect())
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        let state = self.state();
        let starts = state.kept.starts.iter();
        let ordered: Box<dyn Iterator<Item = _>> = if query.newest_first {
            Box::new(starts.rev())
        } else {
            Box::new(starts)
        };
        let listed = ordered
            .filter(|(started, execution)| query.follows(*started, *execution))
            .filter_map(|(_, execution)| {
                let head = &state.kept.executions.get(execution)?.head;
                query.matches(head).then(|| (*execution, head.clone()))
            });
        Ok(listed.take(query.max).collect())
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().kept.settings.get(key).cloned())
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        let key = key.into();
        self.change(Change::Setting { key, value })
    }

    fn status(&self) -> Status {
        let state = self.state();
        Status {
            poisoned: state.poisoned.clone(),
            full: state.full,
            ..Status::default()
        }
    }

    fn about(&self) -> About {
        About {
            kind: "memory",
            format: None,
            sync: "never: what is kept ends with the process",
            closed_cleanly: None,
        }
    }

    fn close(&self) {
        self.state().closed = true;
        self.release_all();
    }
}

impl State {
    fn apply(&mut self, change: Change) -> Result<(), CommitError> {
        if let Some(reason) = &self.poisoned {
            return Err(CommitError::Poisoned(Arc::clone(reason)));
        }
        if self.full {
            return Err(CommitError::Full("no room in the memory store".into()));
        }
        match change {
            Change::Commit(commit) => self.kept.commit(commit),
            Change::Delete {
                execution,
                expected,
            } => self.kept.delete(execution, expected),
            Change::Setting { key, value } => {
                self.kept.settings.insert(key, value);
                Ok(())
            }
        }
    }
}

/// What is durable.
#[derive(Debug, Default)]
struct Kept {
    executions: BTreeMap<ExecutionId, KeptExecution>,
    names: BTreeMap<(Arc<str>, Arc<str>), ExecutionId>,
    wakes: BTreeSet<Wake>,
    starts: BTreeSet<(Timestamp, ExecutionId)>,
    settings: BTreeMap<Arc<str>, Vec<u8>>,
}

#[derive(Debug)]
struct KeptExecution {
    head: Head,
    snapshot: Option<(u64, Vec<u8>)>,
    runs: Vec<Run>,
}

impl Kept {
    fn commit(&mut self, commit: Commit) -> Result<(), CommitError> {
        commit.check()?;
        let head = &commit.head;
        let name = (Arc::clone(&head.function), Arc::clone(&head.name));
        let start = (head.started, commit.execution);
        if let Some(found) = self.executions.get(&commit.execution) {
            if found.head.version != commit.expected {
                return Err(CommitError::Conflict {
                    expected: commit.expected,
                    found: Some(found.head.version),
                });
            }
            if self.names.get(&name) != Some(&commit.execution) || !self.starts.contains(&start) {
                return Err(CommitError::CHANGED_IDENTITY);
            }
        } else {
            if commit.expected > 0 {
                return Err(CommitError::Conflict {
                    expected: commit.expected,
                    found: None,
                });
            }
            if let Some(owner) = self.names.get(&name) {
                return Err(CommitError::NameTaken(*owner));
            }
        }
        self.names.insert(name, commit.execution);
        self.starts.insert(start);
        self.keep(commit);
        Ok(())
    }

    fn keep(&mut self, commit: Commit) {
        let execution = commit.execution;
        let wake = |at| Wake { at, execution };
        let kept = self
            .executions
            .entry(execution)
            .or_insert_with(|| KeptExecution {
                head: commit.head.clone(),
                snapshot: None,
                runs: Vec::new(),
            });
        if let Some(before) = kept.head.wake {
            self.wakes.remove(&wake(before));
        }
        self.wakes.extend(commit.head.wake.map(wake));
        if let Some(snapshot) = commit.snapshot {
            kept.snapshot = Some((commit.head.version, snapshot));
        }
        if commit.records.count > 0 {
            kept.runs.push(commit.records);
        }
        kept.head = commit.head;
    }

    fn delete(&mut self, execution: ExecutionId, expected: u64) -> Result<(), CommitError> {
        let found = self.executions.get(&execution);
        let found = found.map(|kept| kept.head.version);
        if found != Some(expected) {
            return Err(CommitError::Conflict { expected, found });
        }
        if let Some(KeptExecution { head, .. }) = self.executions.remove(&execution) {
            self.starts.remove(&(head.started, execution));
            if let Some(at) = head.wake {
                self.wakes.remove(&Wake { at, execution });
            }
            self.names.remove(&(head.function, head.name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
