//! All operations of one execution, with the indexes that keep every decision from scanning them.
//!
//! Numbers are creation order: a parent always has a smaller number than its children. Indexes are
//! derived: each is what a scan would find, kept up to date change by change.

use crate::{
    id::OperationId,
    operation::{Detail, Marks, Operation},
    record::{Held, OperationChange, Subject},
    time::Timestamp,
    wire::{OperationStatus, OperationType},
};
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use hashbrown::HashMap;

/// The operations and their indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    list: Vec<Operation>,
    by_id: HashMap<OperationId, u32>,
    /// Open timers by due time: waits, retries, callback deadlines, the execution's own.
    timers: BTreeSet<(Timestamp, u32)>,
    /// Operations that justify a PENDING answer.
    open: BTreeSet<u32>,
    /// Steps whose attempt runs.
    running: BTreeSet<u32>,
    /// Chained invokes whose target the outside still has to start.
    outstanding: BTreeSet<u32>,
    /// Changed since a handler last saw state.
    unseen: BTreeSet<u32>,
    /// The part of `unseen` that changed by itself or from outside.
    updated: BTreeSet<u32>,
    /// Signals without a wait, and waits without a signal, by name.
    signals: BTreeMap<Arc<str>, Signals>,
    buffered: usize,
}

/// One signal name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Payloads nobody waited for, oldest first.
    pub(crate) buffered: VecDeque<Option<Held<str>>>,
    /// Waits, in operation order.
    pub(crate) waiting: BTreeSet<u32>,
}

/// What one change did, as far as the execution cares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// Whether it came from a timer or from outside rather than from the handler.
    pub(crate) external: bool,
    /// What it costs of the quota on operations.
    pub(crate) cost: u64,
}

impl Operations {
    /// A table that holds only the EXECUTION operation.
    pub(crate) fn new(execution: Operation) -> Self {
        let mut operations = Self::default();
        let marks = execution.marks();
        operations.by_id.insert(execution.id().clone(), 0);
        operations.list.push(execution);
        operations.index(0, marks, true);
        operations
    }

    /// A table of these operations with the indexes that follow from them: everything is seen and
    /// no signal is buffered. Timers are for running executions.
    ///
    /// # Errors
    /// With the reason when no fold can have made such a list.
    pub(crate) fn restore(list: Vec<Operation>, running: bool) -> Result<Self, &'static str> {
        let mut operations = Self::default();
        operations.by_id.reserve(list.len());
        for (index, operation) in (0..).zip(&list) {
            let id = operation.id().clone();
            if operations.by_id.insert(id, index).is_some() {
                return Err("an operation is there twice");
            }
            let mut marks = operation.marks();
            marks.due = marks.due.filter(|_| running);
            operations.index(index, marks, true);
            if let Some(name) = operation.signal() {
                operations.note_signal_wait(name, index, operation.status());
            }
        }
        operations.list = list;
        Ok(operations)
    }

    /// Marks what no handler has seen in its present form, and which of it changed by itself.
    ///
    /// # Errors
    /// With the reason when an operation is not there.
    pub(crate) fn restore_unseen(
        &mut self,
        unseen: BTreeSet<u32>,
        updated: BTreeSet<u32>,
    ) -> Result<(), &'static str> {
        if unseen.last().is_some_and(|last| *last >= self.count()) || !updated.is_subset(&unseen) {
            return Err("what is unseen is not there");
        }
        self.unseen = unseen;
        self.updated = updated;
        Ok(())
    }

    /// Operations created, the EXECUTION one included; also the number the next one gets.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Operation> {
        self.list.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn find(&self, id: &OperationId) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn by_id(&self, id: &OperationId) -> Option<&Operation> {
        self.get(self.find(id)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.list.iter()
    }

    /// All of them, in creation order.
    pub(crate) fn list(&self) -> &[Operation] {
        &self.list
    }

    /// The earliest timer.
    pub(crate) fn next_due(&self) -> Option<(Timestamp, u32)> {
        self.timers.first().copied()
    }

    pub(crate) fn open(&self) -> &BTreeSet<u32> {
        &self.open
    }

    pub(crate) fn outstanding(&self) -> &BTreeSet<u32> {
        &self.outstanding
    }

    pub(crate) fn unseen(&self) -> &BTreeSet<u32> {
        &self.unseen
    }

    pub(crate) fn updated(&self) -> &BTreeSet<u32> {
        &self.updated
    }

    pub(crate) fn signals(&self, name: &str) -> Option<&Signals> {
        self.signals.get(name)
    }

    /// Signals nobody has consumed.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Signals nobody has consumed, those of one name in the order they came.
    pub(crate) fn buffered_signals(&self) -> impl Iterator<Item = (&Arc<str>, &Option<Held<str>>)> {
        self.signals
            .iter()
            .flat_map(|(name, signals)| signals.buffered.iter().map(move |held| (name, held)))
    }

    /// Everything unseen has been delivered to a handler.
    pub(crate) fn mark_seen(&mut self) {
        self.unseen.clear();
        self.updated.clear();
    }

    /// Applies a recorded change of one operation.
    ///
    /// # Errors
    /// With the reason when it does not fit.
    pub(crate) fn apply(
        &mut self,
        subject: &Subject,
        change: &OperationChange,
        record: u64,
        at: Timestamp,
    ) -> Result<Effect, &'static str> {
        let index = match subject {
            Subject::Known(index) => *index,
            Subject::New(identity) => self.create(identity, change, at)?,
        };
        if *change == OperationChange::SignalTaken {
            self.take_signal(index)?;
        }
        let operation = self.get_mut(index).ok_or("unknown operation")?;
        if operation.operation_type() == OperationType::Execution {
            return Err("the EXECUTION operation changes with its execution only");
        }
        let before = operation.marks();
        operation.apply(change, record, at)?;
        let (after, status) = (operation.marks(), operation.status());
        let external = is_external(operation.operation_type(), status, change);
        let signal = operation.signal().cloned();
        self.index(index, before, false);
        self.index(index, after, true);
        if let Some(name) = signal {
            self.note_signal_wait(&name, index, status);
        }
        if !matches!(change, OperationChange::Heartbeat { .. }) {
            self.unseen.insert(index);
        }
        if external {
            self.updated.insert(index);
        }
        let created = u64::from(matches!(subject, Subject::New(_)));
        let retried = u64::from(matches!(change, OperationChange::Retried { .. }));
        Ok(Effect {
            external,
            cost: created + retried,
        })
    }

    fn create(
        &mut self,
        identity: &crate::record::Identity,
        change: &OperationChange,
        at: Timestamp,
    ) -> Result<u32, &'static str> {
        let closable = matches!(
            identity.operation_type,
            OperationType::Step | OperationType::Context
        );
        if !closable && !matches!(change, OperationChange::Started(_)) {
            return Err("this type of operation is created by its start only");
        }
        let parent = match &identity.parent {
            None => None,
            Some(id) => Some(self.find(id).ok_or("unknown parent")?),
        };
        let index = self.count();
        if self.by_id.insert(identity.id.clone(), index).is_some() {
            return Err("an operation was created twice");
        }
        self.list.push(Operation::new(identity.clone(), parent, at));
        Ok(index)
    }

    /// The execution ended: the EXECUTION operation closes, and no timer fires any more.
    pub(crate) fn close_execution(&mut self, status: OperationStatus, at: Timestamp) {
        if let Some(execution) = self.get_mut(0) {
            execution.status = status;
            execution.ended = Some(at);
        }
        self.timers.clear();
        self.unseen.insert(0);
    }

    /// Counts an interruption of every step whose attempt runs.
    pub(crate) fn interrupt_running(&mut self) {
        let running: Vec<u32> = self.running.iter().copied().collect();
        for index in running {
            if let Some(step) = self.get_mut(index) {
                step.interrupt();
            }
        }
    }

    /// The outside has started the target of this chained invoke.
    pub(crate) fn acknowledge(&mut self, id: &OperationId) -> bool {
        let Some(index) = self.find(id) else {
            return false;
        };
        if let Some(operation) = self.get_mut(index)
            && let Detail::Invoke(invoke) = &mut operation.detail
        {
            invoke.outstanding = false;
            invoke.input = None;
        }
        self.outstanding.remove(&index)
    }

    pub(crate) fn buffer_signal(&mut self, name: &Arc<str>, payload: Option<Held<str>>) {
        let signals = self.signals.entry(name.clone()).or_default();
        signals.buffered.push_back(payload);
        self.buffered += 1;
    }

    /// Whether an ancestor context has ended and its children no longer matter to replay.
    /// `known` remembers the answer per context across calls.
    pub(crate) fn is_hidden(&self, operation: &Operation, known: &mut HashMap<u32, bool>) -> bool {
        let mut path = Vec::new();
        let mut next = operation.parent;
        let mut hidden = false;
        while let Some(index) = next {
            if let Some(answer) = known.get(&index) {
                hidden = *answer;
                break;
            }
            let Some(context) = self.get(index) else {
                break;
            };
            path.push(index);
            if context.hides_children() {
                hidden = true;
                break;
            }
            next = context.parent;
        }
        for index in path {
            known.insert(index, hidden);
        }
        hidden
    }

    /// Whether a context above has ended, so that no handler looks at this operation any more.
    pub(crate) fn is_orphaned(&self, operation: &Operation) -> bool {
        let mut next = operation.parent;
        while let Some(context) = next.and_then(|index| self.get(index)) {
            if context.status().is_terminal() {
                return true;
            }
            next = context.parent;
        }
        false
    }

    /// Forgets all payloads.
    pub(crate) fn release(&mut self) {
        for operation in &mut self.list {
            operation.release();
        }
        let signals = self.signals.values_mut();
        for payload in signals.flat_map(|signals| &mut signals.buffered).flatten() {
            payload.release();
        }
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Operation> {
        self.list.get_mut(usize::try_from(index).ok()?)
    }

    /// Adds an operation to, or takes it out of, the indexes its marks name.
    fn index(&mut self, index: u32, marks: Marks, add: bool) {
        if let Some(due) = marks.due {
            if add {
                self.timers.insert((due, index));
            } else {
                self.timers.remove(&(due, index));
            }
        }
        for (set, marked) in [
            (&mut self.open, marks.open),
            (&mut self.running, marks.running),
            (&mut self.outstanding, marks.outstanding),
        ] {
            if marked && add {
                set.insert(index);
            } else if marked {
                set.remove(&index);
            }
        }
    }

    fn note_signal_wait(&mut self, name: &Arc<str>, index: u32, status: OperationStatus) {
        let signals = self.signals.entry(name.clone()).or_default();
        if status.is_terminal() {
            signals.waiting.remove(&index);
        } else {
            signals.waiting.insert(index);
        }
        self.forget_idle_signal(name);
    }

    fn forget_idle_signal(&mut self, name: &Arc<str>) {
        let idle = |signals: &Signals| signals.buffered.is_empty() && signals.waiting.is_empty();
        if self.signals.get(name).is_some_and(idle) {
            self.signals.remove(name);
        }
    }

    fn take_signal(&mut self, index: u32) -> Result<(), &'static str> {
        let name = self
            .get(index)
            .and_then(Operation::signal)
            .cloned()
            .ok_or("only a wait for a signal takes one")?;
        let payload = self
            .signals
            .get_mut(&name)
            .and_then(|signals| signals.buffered.pop_front())
            .ok_or("no signal was buffered")?;
        self.buffered -= 1;
        if let Some(operation) = self.get_mut(index) {
            operation.result = payload;
        }
        Ok(())
    }

    /// Compares every index with what a scan finds.
    pub(crate) fn check_indexes(&self, running: bool) -> Result<(), &'static str> {
        let all = || (0..self.count()).zip(&self.list);
        let timers: BTreeSet<(Timestamp, u32)> = all()
            .filter(|_| running)
            .filter_map(|(index, operation)| Some((operation.due()?, index)))
            .collect();
        let marked = |mark: fn(Marks) -> bool| -> BTreeSet<u32> {
            all()
                .filter(|(_, operation)| mark(operation.marks()))
                .map(|(index, _)| index)
                .collect()
        };
        let named = |(index, operation): (u32, &Operation)| {
            self.by_id.get(operation.id()) == Some(&index)
                && operation.parent.is_none_or(|parent| parent < index)
        };
        let buffered: usize = self
            .signals
            .values()
            .map(|names| names.buffered.len())
            .sum();
        let waiting: BTreeSet<u32> = self
            .signals
            .values()
            .flat_map(|signals| signals.waiting.iter().copied())
            .collect();
        let waits: BTreeSet<u32> = all()
            .filter(|(_, operation)| {
                operation.signal().is_some() && !operation.status().is_terminal()
            })
            .map(|(index, _)| index)
            .collect();
        let laws = [
            (timers == self.timers, "timers differ from a scan"),
            (marked(|marks| marks.open) == self.open, "open operations"),
            (
                marked(|marks| marks.running) == self.running,
                "running steps",
            ),
            (
                marked(|marks| marks.outstanding) == self.outstanding,
                "outstanding invokes",
            ),
            (
                self.by_id.len() == self.list.len() && all().all(named),
                "operations by id",
            ),
            (self.updated.is_subset(&self.unseen), "updated but seen"),
            (buffered == self.buffered, "buffered signals"),
            (waits == waiting, "waits for signals"),
        ];
        laws.into_iter()
            .find(|(holds, _)| !holds)
            .map_or(Ok(()), |(_, law)| Err(law))
    }
}

/// Whether a change came from a timer or from outside rather than from the handler.
fn is_external(
    operation_type: OperationType,
    status: OperationStatus,
    change: &OperationChange,
) -> bool {
    match change {
        OperationChange::Ready | OperationChange::SignalTaken => true,
        OperationChange::Closed { .. } => match operation_type {
            OperationType::Wait => status != OperationStatus::Cancelled,
            OperationType::Callback | OperationType::ChainedInvoke => true,
            OperationType::Execution | OperationType::Context | OperationType::Step => false,
        },
        OperationChange::Started(_)
        | OperationChange::Retried { .. }
        | OperationChange::Heartbeat { .. } => false,
    }
}
