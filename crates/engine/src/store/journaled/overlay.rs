//! What is durable in the journal and not yet in the index, kept in memory.
//!
//! For each execution that changed: its head, its records since the version the index has, and its
//! newest snapshot. Records that follow each other are joined on the way, so an execution that
//! starts and closes between two index transactions reaches the index as one row of each kind.
//!
//! An index transaction ("round") takes everything that has changed up to one position of the
//! journal. The index is therefore always the state at exactly one position, and replaying the
//! journal from there needs no guessing. While a round is under way its executions stay here, so
//! that reads see them in one place or the other; `generation` counts finished rounds, and whoever
//! reads the index first and the overlay second reads again if it has moved.
//!
//! No locks and no IO here.

mod entry;

use super::{
    super::{Change, Commit, Head, Wake},
    damage,
};
use entry::Entry;
use hashbrown::{Equivalent, HashMap};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::Hash,
    sync::Arc,
};

pub(super) use entry::Item;

/// State that the index does not have yet.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    entries: HashMap<ExecutionId, Entry>,
    /// Executions to index in the next round.
    dirty: Vec<ExecutionId>,
    /// Names claimed since the index was written.
    names: HashMap<Name, ExecutionId>,
    wakes: BTreeSet<Wake>,
    started: BTreeSet<(Timestamp, ExecutionId)>,
    settings: BTreeMap<Arc<str>, Arc<[u8]>>,
    /// Executions whose head stays although the index has it, in the order they were indexed:
    /// those that go on spare the writer a read.
    cached: VecDeque<ExecutionId>,
    cached_max: usize,
    damaged: BTreeMap<ExecutionId, Arc<str>>,
    /// Whether the index has another list of damaged executions.
    damaged_dirty: bool,
    bytes: u64,
    generation: u64,
    sequence: u64,
}

/// A name and the function it is unique in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    function: Arc<str>,
    name: Arc<str>,
}

impl Name {
    pub(super) fn of(head: &Head) -> Self {
        Self {
            function: head.function.clone(),
            name: head.name.clone(),
        }
    }
}

/// A name to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameRef<'a> {
    pub(super) function: &'a str,
    pub(super) name: &'a str,
}

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        *self.function == *name.function && *self.name == *name.name
    }
}

/// What the overlay knows of an execution.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// Nothing: ask the index.
    Nothing,
    /// It has been deleted.
    Deleted,
    /// Its newest head.
    Head(&'a Head),
}

/// Everything a round takes to the index.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) items: Vec<Item>,
    pub(super) settings: Vec<(Arc<str>, Arc<[u8]>)>,
    /// The list of damaged executions, if it has changed.
    damaged: Option<Change>,
    /// The position of the journal it reaches to.
    pub(super) position: u64,
}

impl Round {
    /// The changes to apply. Deletes come first: they make room for names.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self.items.iter().filter_map(Item::delete).collect();
        for item in &self.items {
            item.commits(&mut changes);
        }
        changes.extend(self.settings.iter().map(|(key, value)| Change::Setting {
            key: key.clone(),
            value: value.to_vec(),
        }));
        changes.extend(self.damaged.clone());
        changes
    }
}

impl Overlay {
    /// An overlay over an index that reaches to `position`.
    pub(super) fn new(position: u64, cached_max: usize) -> Self {
        Self {
            sequence: position,
            cached_max,
            ..Self::default()
        }
    }

    /// Counts finished rounds.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Memory for what the index does not have, roughly.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is anything to index.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.settings.is_empty() || self.damaged_dirty
    }

    pub(super) fn known(&self, execution: ExecutionId) -> Known<'_> {
        match self.entries.get(&execution) {
            None => Known::Nothing,
            Some(entry) => entry.head().map_or(Known::Deleted, Known::Head),
        }
    }

    /// What is to be merged into a read of the index; absent if the index has it all.
    pub(super) fn shadow(&self, execution: ExecutionId) -> Option<&Entry> {
        (self.entries.get(&execution)).filter(|entry| entry.is_shadow())
    }

    /// Whose name it is, given what the index says.
    pub(super) fn owner(
        &self,
        name: NameRef<'_>,
        indexed: Option<ExecutionId>,
    ) -> Option<ExecutionId> {
        if let Some(execution) = self.names.get(&name) {
            return Some(*execution);
        }
        indexed.filter(|execution| match self.known(*execution) {
            Known::Nothing => true,
            Known::Deleted => false,
            Known::Head(head) => name.equivalent(&Name::of(head)),
        })
    }

    /// The execution that claimed this name since the index was written.
    pub(super) fn claimed(&self, name: NameRef<'_>) -> Option<ExecutionId> {
        self.names.get(&name).copied()
    }

    pub(super) fn setting(&self, key: &str) -> Option<&Arc<[u8]>> {
        self.settings.get(key)
    }

    /// Wake times that are not in the index, in order.
    pub(super) fn wakes(&self) -> &BTreeSet<Wake> {
        &self.wakes
    }

    /// Executions that are not in the index as they are, by start.
    pub(super) fn started(&self) -> &BTreeSet<(Timestamp, ExecutionId)> {
        &self.started
    }

    pub(super) fn damaged(&self, execution: ExecutionId) -> Option<&Arc<str>> {
        self.damaged.get(&execution)
    }

    pub(super) fn set_damaged(&mut self, execution: ExecutionId, reason: Arc<str>) {
        self.damaged.entry(execution).or_insert(reason);
        self.damaged_dirty = true;
    }

    /// Executions that the index remembers as damaged.
    pub(super) fn remember_damaged(&mut self, damaged: Vec<(ExecutionId, Arc<str>)>) {
        self.damaged.extend(damaged);
    }

    /// Everything before `sequence` has been handed over.
    pub(super) fn reach(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    pub(super) fn damaged_all(&self) -> &BTreeMap<ExecutionId, Arc<str>> {
        &self.damaged
    }

    /// Takes over a change that is durable, with the frame at `sequence`. It has been checked.
    pub(super) fn apply(&mut self, change: Change, sequence: u64) {
        self.sequence = sequence + 1;
        match change {
            Change::Commit(commit) => self.apply_commit(commit),
            Change::Delete {
                execution,
                expected,
            } => self.apply_delete(execution, expected),
            Change::Setting { key, value } => {
                self.bytes += value.len() as u64;
                let old = self.settings.insert(key, value.into());
                self.bytes -= old.map_or(0, |old| old.len() as u64);
            }
        }
    }

    fn apply_commit(&mut self, commit: Commit) {
        let execution = commit.execution;
        if commit.expected == 0 {
            self.names.insert(Name::of(&commit.head), execution);
        }
        let (wake, started) = (commit.head.wake, commit.head.started);
        let entry =
            (self.entries.entry(execution)).or_insert_with(|| Entry::indexed_at(commit.expected));
        let old_wake = entry.shadowed_wake();
        self.bytes -= entry.bytes();
        entry.commit(commit);
        self.bytes += entry.bytes();
        if entry.mark_dirty() {
            self.dirty.push(execution);
        }
        if old_wake != wake {
            self.set_wake(execution, old_wake, wake);
        }
        self.started.insert((started, execution));
    }

    fn apply_delete(&mut self, execution: ExecutionId, expected: u64) {
        self.damaged_dirty |= self.damaged.remove(&execution).is_some();
        let entry = (self.entries.entry(execution)).or_insert_with(|| Entry::indexed_at(expected));
        let old_wake = entry.shadowed_wake();
        self.bytes -= entry.bytes();
        let head = entry.delete();
        if entry.is_nowhere() {
            self.entries.remove(&execution);
        } else {
            self.bytes += entry.bytes();
            if entry.mark_dirty() {
                self.dirty.push(execution);
            }
        }
        self.set_wake(execution, old_wake, None);
        if let Some(head) = head {
            self.started.remove(&(head.started, execution));
            let name = Name::of(&head);
            if self.names.get(&name) == Some(&execution) {
                self.names.remove(&name);
            }
        }
    }

    fn set_wake(&mut self, execution: ExecutionId, old: Option<Timestamp>, new: Option<Timestamp>) {
        if let Some(at) = old {
            self.wakes.remove(&Wake { at, execution });
        }
        if let Some(at) = new {
            self.wakes.insert(Wake { at, execution });
        }
    }

    /// Begins a round with everything that has changed.
    pub(super) fn begin_round(&mut self) -> Round {
        let mut items = Vec::with_capacity(self.dirty.len());
        for execution in std::mem::take(&mut self.dirty) {
            if let Some(entry) = self.entries.get_mut(&execution) {
                items.extend(entry.begin_round(execution));
            }
        }
        // In the order of the index's keys neighbours share pages.
        items.sort_unstable_by_key(Item::execution);
        let settings = (self.settings.iter())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Round {
            items,
            settings,
            damaged: std::mem::take(&mut self.damaged_dirty).then(|| Change::Setting {
                key: damage::SETTING.into(),
                value: damage::encode(&self.damaged),
            }),
            position: self.sequence,
        }
    }

    /// The round is in the index.
    pub(super) fn finish_round(&mut self, round: &Round) {
        self.generation += 1;
        for item in &round.items {
            self.finish_item(item);
        }
        for (key, value) in &round.settings {
            if (self.settings.get(key)).is_some_and(|newest| Arc::ptr_eq(newest, value)) {
                self.settings.remove(key);
                self.bytes -= value.len() as u64;
            }
        }
        while self.cached.len() > self.cached_max {
            let Some(execution) = self.cached.pop_front() else {
                break;
            };
            if (self.entries.get(&execution)).is_some_and(|entry| !entry.is_shadow()) {
                self.entries.remove(&execution);
            }
        }
    }

    fn finish_item(&mut self, item: &Item) {
        let execution = item.execution();
        let Some(entry) = self.entries.get_mut(&execution) else {
            return;
        };
        self.bytes -= entry.bytes();
        let same_life = entry.finish_round(item);
        self.bytes += entry.bytes();
        if same_life && let Some(head) = item.head() {
            let name = Name::of(head);
            if self.names.get(&name) == Some(&execution) {
                self.names.remove(&name);
            }
        }
        if entry.is_shadow() {
            return;
        }
        if let Some(head) = entry.head() {
            self.started.remove(&(head.started, execution));
            if let Some(at) = head.wake {
                self.wakes.remove(&Wake { at, execution });
            }
        }
        if (entry.head()).is_some_and(|head| !head.status.is_terminal()) {
            self.cached.push_back(execution);
        } else {
            self.entries.remove(&execution);
        }
    }

    /// What is kept: executions, names, wakes, starts, settings.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 5] {
        [
            self.entries.len(),
            self.names.len(),
            self.wakes.len(),
            self.started.len(),
            self.settings.len(),
        ]
    }

    /// The round did not reach the index; the next one takes it along.
    pub(super) fn abandon_round(&mut self, round: &Round) {
        self.damaged_dirty |= round.damaged.is_some();
        for item in &round.items {
            if let Some(entry) = self.entries.get_mut(&item.execution())
                && entry.abandon_round()
            {
                self.dirty.push(item.execution());
            }
        }
    }
}
