//! The commit path: everything queued is checked in order, framed, written and synced at once.
//!
//! Checks happen here and not where commits are handed over, because only here is the order known.
//! What a check needs of the index was read by whoever handed the commit over ([`Hint`]), so that
//! one cold execution does not make all others wait; if an index round has finished in between,
//! the hint is old and the index is read again.

use super::{
    super::{Change, Commit, CommitError, Head, StoreError},
    codec,
    overlay::{Known, Name, NameRef, Overlay},
    readers::Readers,
};
use crate::journal::{AppendError, Journal};
use hashbrown::HashMap;
use outlast_core::arn::ExecutionId;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// Memory of a queued change beside its payloads.
const CHANGE_BYTES: usize = 256;

/// A change on its way.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) change: Change,
    pub(super) hint: Option<Hint>,
    pub(super) answer: oneshot::Sender<Result<(), CommitError>>,
}

/// What the index said about an execution.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    /// When: rounds finished by then.
    generation: u64,
    head: Option<Head>,
    /// Whose the name is that the commit claims.
    owner: Option<ExecutionId>,
}

impl Hint {
    /// Reads what a check of `change` needs, unless the overlay has it.
    pub(super) fn read(
        change: &Change,
        overlay: &Mutex<Overlay>,
        readers: &Readers,
    ) -> Result<Option<Self>, StoreError> {
        let Some(execution) = codec::execution(change) else {
            return Ok(None);
        };
        let generation = {
            let overlay = overlay.lock().unwrap_or_else(PoisonError::into_inner);
            if let Known::Head(_) = overlay.known(execution) {
                return Ok(None);
            }
            overlay.generation()
        };
        Self::read_at(generation, change, execution, readers).map(Some)
    }

    fn read_at(
        generation: u64,
        change: &Change,
        execution: ExecutionId,
        readers: &Readers,
    ) -> Result<Self, StoreError> {
        readers.with(|reader| {
            Ok(Self {
                generation,
                head: reader.head(execution)?,
                owner: match change {
                    Change::Commit(commit) if commit.expected == 0 => {
                        reader.find(&commit.head.function, &commit.head.name)?
                    }
                    Change::Commit(_) | Change::Delete { .. } | Change::Setting { .. } => None,
                },
            })
        })
    }
}

/// Memory a change takes in the queue.
pub(super) fn queued_bytes(change: &Change) -> usize {
    CHANGE_BYTES
        + match change {
            Change::Commit(commit) => {
                commit.records.bytes.len() + commit.snapshot.as_ref().map_or(0, Vec::len)
            }
            Change::Delete { .. } => 0,
            Change::Setting { value, .. } => value.len(),
        }
}

/// Checks changes one after another, each as if those before had been applied.
#[derive(Debug)]
struct Checker<'a> {
    overlay: &'a Overlay,
    readers: &'a Readers,
    /// What earlier changes of the batch make of executions and names.
    heads: HashMap<ExecutionId, Option<Head>>,
    names: HashMap<Name, Option<ExecutionId>>,
}

impl Checker<'_> {
    fn check(&mut self, queued: &Queued) -> Result<(), CommitError> {
        match &queued.change {
            Change::Commit(commit) => self.check_commit(commit, queued),
            Change::Delete {
                execution,
                expected,
            } => self.check_delete(*execution, *expected, queued),
            Change::Setting { .. } => Ok(()),
        }
    }

    fn check_commit(&mut self, commit: &Commit, queued: &Queued) -> Result<(), CommitError> {
        commit.check()?;
        let execution = commit.execution;
        if let Some(reason) = self.overlay.damaged(execution) {
            return Err(CommitError::Damaged(reason.clone()));
        }
        let current = self.current(execution, queued)?;
        let found = current.as_ref().map(|head| head.version);
        let wanted = (commit.expected > 0).then_some(commit.expected);
        if found != wanted {
            return Err(CommitError::Conflict {
                expected: commit.expected,
                found,
            });
        }
        match current {
            Some(head) if !same_identity(&head, &commit.head) => {
                return Err(CommitError::CHANGED_IDENTITY);
            }
            Some(_) => {}
            None => {
                if let Some(owner) = self.owner(&commit.head, queued)? {
                    return Err(CommitError::NameTaken(owner));
                }
                (self.names).insert(Name::of(&commit.head), Some(execution));
            }
        }
        self.heads.insert(execution, Some(commit.head.clone()));
        Ok(())
    }

    fn check_delete(
        &mut self,
        execution: ExecutionId,
        expected: u64,
        queued: &Queued,
    ) -> Result<(), CommitError> {
        let current = self.current(execution, queued)?;
        match current {
            Some(head) if head.version == expected => {
                self.names.insert(Name::of(&head), None);
                self.heads.insert(execution, None);
                Ok(())
            }
            other => Err(CommitError::Conflict {
                expected,
                found: other.map(|head| head.version),
            }),
        }
    }

    /// The head that an execution has after the changes so far.
    fn current(
        &self,
        execution: ExecutionId,
        queued: &Queued,
    ) -> Result<Option<Head>, CommitError> {
        if let Some(head) = self.heads.get(&execution) {
            return Ok(head.clone());
        }
        match self.overlay.known(execution) {
            Known::Head(head) => Ok(Some(head.clone())),
            Known::Deleted => Ok(None),
            Known::Nothing => self.hint(queued, execution).map(|hint| hint.head),
        }
    }

    fn owner(&self, head: &Head, queued: &Queued) -> Result<Option<ExecutionId>, CommitError> {
        let name = NameRef {
            function: &head.function,
            name: &head.name,
        };
        if let Some(owner) = self.names.get(&name) {
            return Ok(*owner);
        }
        if let Some(owner) = self.overlay.claimed(name) {
            return Ok(Some(owner));
        }
        let Some(execution) = codec::execution(&queued.change) else {
            return Ok(None);
        };
        let indexed = self.hint(queued, execution)?.owner;
        Ok(self.overlay.owner(name, indexed))
    }

    fn hint(&self, queued: &Queued, execution: ExecutionId) -> Result<Hint, CommitError> {
        let generation = self.overlay.generation();
        match &queued.hint {
            Some(hint) if hint.generation == generation => Ok(hint.clone()),
            Some(_) | None => {
                Hint::read_at(generation, &queued.change, execution, self.readers).map_err(refused)
            }
        }
    }
}

/// Whether a head can follow another: these three never change.
fn same_identity(head: &Head, next: &Head) -> bool {
    head.started == next.started && head.function == next.function && head.name == next.name
}

/// A commit that cannot be checked is not accepted.
fn refused(error: StoreError) -> CommitError {
    match error {
        StoreError::Damaged { reason, .. } => CommitError::Damaged(reason),
        StoreError::Unreadable(reason) => CommitError::Poisoned(reason),
    }
}

/// Checks a batch and makes what is accepted durable. Answers the outcome of each.
pub(super) fn write(
    batch: &[Queued],
    overlay: &Mutex<Overlay>,
    readers: &Readers,
    journal: &mut Journal,
) -> Result<Vec<Result<(), CommitError>>, AppendError> {
    let outcomes: Vec<Result<(), CommitError>> = {
        let overlay = overlay.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checker = Checker {
            overlay: &overlay,
            readers,
            heads: HashMap::with_capacity(batch.len()),
            names: HashMap::new(),
        };
        batch.iter().map(|queued| checker.check(queued)).collect()
    };
    for (queued, outcome) in batch.iter().zip(&outcomes) {
        if outcome.is_ok() {
            let execution = codec::execution(&queued.change).map_or(0, ExecutionId::bits);
            journal.stage(codec::kind(&queued.change), execution, |bytes| {
                codec::encode(&queued.change, bytes);
            });
        }
    }
    journal.append()?;
    Ok(outcomes)
}

/// Shows a durable batch to readers, and answers those who wait for it.
pub(super) fn publish(
    batch: Vec<Queued>,
    outcomes: Vec<Result<(), CommitError>>,
    first: u64,
    overlay: &Mutex<Overlay>,
) {
    let mut answers = Vec::with_capacity(batch.len());
    {
        let mut overlay = overlay.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sequence = first;
        for (queued, outcome) in batch.into_iter().zip(outcomes) {
            if outcome.is_ok() {
                overlay.apply(queued.change, sequence);
                sequence += 1;
            }
            answers.push((queued.answer, outcome));
        }
    }
    // Whoever waits may have gone; the commit stands all the same.
    for (answer, outcome) in answers {
        let _ = answer.send(outcome);
    }
}
