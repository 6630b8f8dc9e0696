//! One execution of the overlay.
//!
//! An execution may be deleted and created again under the same id before the index has seen
//! either. A *life* is the time between; what the index holds of a former life is stale.

use super::super::super::{Change, Commit, Head, Run};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use std::sync::Arc;

/// Runs are joined up to this size, so that a page of records stays a page.
const JOINED_BYTES_MAX: usize = 64 * 1024;
/// Memory of an entry beside its payloads: itself, its places in the maps.
const ENTRY_BYTES: u64 = 512;

/// One execution.
#[derive(Debug)]
pub(in super::super) struct Entry {
    /// Absent when it has been deleted.
    head: Option<Head>,
    /// Records before this one are in the index.
    base: u64,
    runs: Vec<Arc<Run>>,
    snapshot: Option<(u64, Arc<Vec<u8>>)>,
    bytes: u64,
    /// The version the index has, if it has the execution.
    indexed: Option<u64>,
    /// Whether that is of a former life.
    stale: bool,
    life: u32,
    dirty: bool,
    in_round: bool,
}

/// What a round takes of one execution.
#[derive(Debug)]
pub(in super::super) struct Item {
    execution: ExecutionId,
    life: u32,
    /// The version to delete in the index before anything else.
    delete: Option<u64>,
    head: Option<Head>,
    base: u64,
    runs: Vec<Arc<Run>>,
    snapshot: Option<(u64, Arc<Vec<u8>>)>,
}

impl Entry {
    /// An execution that the index has at `version`, or that is new if that is 0.
    pub(super) fn indexed_at(version: u64) -> Self {
        Self {
            head: None,
            base: version,
            runs: Vec::new(),
            snapshot: None,
            bytes: 0,
            indexed: (version > 0).then_some(version),
            stale: false,
            life: 0,
            dirty: false,
            in_round: false,
        }
    }

    pub(super) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the index does not have it as it is.
    pub(in super::super) fn is_shadow(&self) -> bool {
        self.dirty || self.in_round
    }

    /// Whether neither the index nor a round under way has anything of a deleted execution.
    pub(super) fn is_nowhere(&self) -> bool {
        self.head.is_none() && self.indexed.is_none() && !self.in_round
    }

    pub(super) fn shadowed_wake(&self) -> Option<Timestamp> {
        if self.is_shadow() {
            self.head.as_ref()?.wake
        } else {
            None
        }
    }

    /// Its newest head.
    pub(in super::super) fn newest_head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Records before this one are in the index, the rest is here.
    pub(in super::super) fn base(&self) -> u64 {
        self.base
    }

    /// Runs from the base on.
    pub(in super::super) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// A snapshot that the index does not have.
    pub(in super::super) fn snapshot(&self) -> Option<&(u64, Arc<Vec<u8>>)> {
        self.snapshot.as_ref()
    }

    /// Marks it for the next round; answers whether it was not marked yet.
    pub(super) fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    pub(super) fn commit(&mut self, commit: Commit) {
        let version = commit.head.version;
        self.head = Some(commit.head);
        if commit.records.count > 0 {
            self.push(commit.records);
        }
        if let Some(snapshot) = commit.snapshot {
            self.snapshot = Some((version, Arc::new(snapshot)));
        }
        self.measure();
    }

    /// Joins a run to the last one unless a round has that, or a snapshot ends there: whoever
    /// starts from the snapshot wants the records after it alone.
    fn push(&mut self, run: Run) {
        let snapshot_at = self.snapshot.as_ref().map(|(version, _)| *version);
        if snapshot_at != Some(run.first)
            && let Some(last) = self.runs.last_mut().and_then(Arc::get_mut)
            && last.bytes.len() + run.bytes.len() <= JOINED_BYTES_MAX
        {
            last.bytes.extend_from_slice(&run.bytes);
            last.count += run.count;
        } else {
            self.runs.push(Arc::new(run));
        }
    }

    fn measure(&mut self) {
        let runs: usize = self.runs.iter().map(|run| run.bytes.len()).sum();
        let snapshot = (self.snapshot.as_ref()).map_or(0, |(_, bytes)| bytes.len());
        self.bytes = ENTRY_BYTES + runs as u64 + snapshot as u64;
    }

    /// Ends its life; answers the head it had.
    pub(super) fn delete(&mut self) -> Option<Head> {
        self.life = self.life.wrapping_add(1);
        self.base = 0;
        self.runs = Vec::new();
        self.snapshot = None;
        self.stale = self.indexed.is_some();
        self.measure();
        self.head.take()
    }

    pub(super) fn begin_round(&mut self, execution: ExecutionId) -> Option<Item> {
        self.dirty = false;
        if self.is_nowhere() {
            return None;
        }
        self.in_round = true;
        Some(Item {
            execution,
            life: self.life,
            delete: self.indexed.filter(|_| self.stale),
            head: self.head.clone(),
            base: self.base,
            runs: self.runs.clone(),
            snapshot: self.snapshot.clone(),
        })
    }

    /// The round is in the index. Answers whether it was of this life.
    pub(super) fn finish_round(&mut self, item: &Item) -> bool {
        self.in_round = false;
        self.indexed = item.head.as_ref().map(|head| head.version);
        let same_life = self.life == item.life;
        if same_life {
            self.stale = false;
            self.base = self.indexed.unwrap_or(0);
            let base = self.base;
            self.runs.retain(|run| run.first >= base);
            let taken = item.snapshot.as_ref().map(|(version, _)| *version);
            self.snapshot
                .take_if(|(version, _)| Some(*version) <= taken);
        } else {
            self.stale = self.indexed.is_some();
        }
        if self.dirty {
            self.measure();
        } else {
            self.runs = Vec::new();
            self.bytes = 0;
        }
        same_life
    }

    /// The round failed. Answers whether it has to be marked for the next.
    pub(super) fn abandon_round(&mut self) -> bool {
        self.in_round = false;
        self.mark_dirty()
    }
}

impl Item {
    pub(in super::super) fn execution(&self) -> ExecutionId {
        self.execution
    }

    pub(super) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The delete to begin with, if the index has something stale.
    pub(super) fn delete(&self) -> Option<Change> {
        Some(Change::Delete {
            execution: self.execution,
            expected: self.delete?,
        })
    }

    /// The commits that bring the index to this state: one, unless there are many bytes or a
    /// snapshot ends in the middle.
    pub(super) fn commits(&self, to: &mut Vec<Change>) {
        let Some(head) = &self.head else {
            return;
        };
        let mut expected = self.base;
        let mut rest = self.runs.as_slice();
        // A snapshot of what the index has already comes before the records after it.
        let mut alone = self
            .snapshot
            .as_ref()
            .is_some_and(|(at, _)| *at == expected);
        loop {
            let (run, after) = match std::mem::take(&mut alone) {
                true => self.joined(expected, &[]),
                false => self.joined(expected, rest),
            };
            rest = if run.count > 0 { after } else { rest };
            let version = expected + u64::from(run.count);
            let snapshot = (self.snapshot.as_ref()).filter(|(at, _)| *at == version);
            to.push(Change::Commit(Commit {
                execution: self.execution,
                expected,
                records: run,
                head: Head {
                    version,
                    ..head.clone()
                },
                snapshot: snapshot.map(|(_, bytes)| bytes.to_vec()),
            }));
            expected = version;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// As many runs as may be joined, and the others.
    fn joined<'a>(&self, first: u64, runs: &'a [Arc<Run>]) -> (Run, &'a [Arc<Run>]) {
        let mut joined = Run {
            first,
            ..Run::default()
        };
        let snapshot_at = self.snapshot.as_ref().map(|(version, _)| *version);
        let mut rest = runs;
        while let Some((run, after)) = rest.split_first() {
            let at_snapshot = snapshot_at == Some(run.first);
            let too_long = joined.bytes.len() + run.bytes.len() > JOINED_BYTES_MAX;
            if joined.count > 0 && (at_snapshot || too_long) {
                break;
            }
            joined.bytes.extend_from_slice(&run.bytes);
            joined.count += run.count;
            rest = after;
        }
        (joined, rest)
    }
}
