//! One execution: the fold over its records, and what can be asked of it.
//!
//! [`Execution::decide`] (in `decide`) produces records; folding them here is the only way state
//! changes, so an execution read back from its records equals the one that decided them.

use crate::{
    arn::ExecutionId,
    error::{Corrupt, Rejection},
    id::OperationId,
    operation::{Detail, Operation},
    operations::Operations,
    record::{
        Change, Ending, Held, HoldCause, Identity, IntentKey, Load, Profile, Record, SharedError,
    },
    time::Timestamp,
    wire::{self, ErrorObject, ExecutionStatus, OperationStatus, OperationType, Payload},
};
use alloc::{string::ToString as _, sync::Arc, vec::Vec};

/// An execution, folded from its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub(crate) profile: Arc<Profile>,
    pub(crate) arn_text: Arc<str>,
    pub(crate) id: ExecutionId,
    pub(crate) status: ExecutionStatus,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) result: Option<Held<str>>,
    pub(crate) error: Option<Held<ErrorObject>>,
    pub(crate) operations: Operations,
    pub(crate) gate: Gate,
    pub(crate) hold: Option<Hold>,
    pub(crate) usage: Usage,
    /// Whether a waiting parent still has to be told.
    pub(crate) notify_parent: bool,
    pub(crate) journal: Journal,
}

/// How far the journal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) records: u64,
    pub(crate) events: u64,
    pub(crate) last_at: Timestamp,
}

/// Who is being invoked, who may write, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// The invocation in flight; stays until it ends even when the execution has closed.
    pub(crate) invocation: Option<Invocation>,
    /// Accepted checkpoints.
    pub(crate) sequence: u64,
    /// The answer an HTTP retry of the last checkpoint gets.
    pub(crate) slot: Option<Slot>,
    /// An invocation is asked for, whatever changed.
    pub(crate) requested: bool,
    /// A failed invocation is repeated no earlier than this.
    pub(crate) retry_at: Option<Timestamp>,
    /// Failed invocations in a row.
    pub(crate) failures: u32,
    /// Invocations in a row that never reached a handler.
    pub(crate) undelivered: u32,
    /// Failed invocations in a row between which nothing moved.
    pub(crate) stalled: u32,
    /// PENDING answers in a row with nothing pending, between which nothing moved.
    pub(crate) empty_pendings: u32,
    /// Invocations so far.
    pub(crate) invocations: u64,
    /// What went wrong last, while failures are being retried.
    pub(crate) last_error: Option<SharedError>,
}

/// An invocation in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) id: Arc<str>,
    pub(crate) started: Timestamp,
}

/// The last accepted checkpoint and its answer. It outlives its invocation until the next begins,
/// so that a client that repeats its request across a restart of the engine is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) invocation: Arc<str>,
    pub(crate) sequence: u64,
    pub(crate) client_token: Arc<str>,
    pub(crate) key: u32,
    pub(crate) operations: Vec<Operation>,
}

/// Why an execution is not invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: Timestamp,
    /// Who or what held it.
    pub cause: HoldCause,
    /// The diff, the last error, or the operator's words.
    pub reason: SharedError,
}

/// What counts against the quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Operations created and attempts repeated.
    pub operations: u64,
    /// Bytes of user data written.
    pub data_bytes: u64,
}

impl Execution {
    /// Folds an execution from its records.
    ///
    /// # Errors
    /// When the records are not a journal this code can have written.
    pub fn from_records<'a>(
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<Self, Corrupt> {
        let mut records = records.into_iter();
        let first = records
            .next()
            .ok_or_else(|| Corrupt::new(0, "the journal is empty"))?;
        let mut execution = Self::open(first)?;
        for record in records {
            execution.apply(record)?;
        }
        Ok(execution)
    }

    pub(crate) fn open(record: &Record) -> Result<Self, Corrupt> {
        let Change::ExecutionStarted { profile, input } = &record.change else {
            return Err(Corrupt::new(
                record.number,
                "a journal begins with its start",
            ));
        };
        if record.number != 0 || record.events != 1 {
            return Err(Corrupt::new(
                record.number,
                "the start is record 0, event 1",
            ));
        }
        let id = profile
            .arn
            .execution_id()
            .ok_or_else(|| Corrupt::new(0, "the execution id is not a UUID of ours"))?;
        let identity = Identity {
            id: OperationId::new(profile.arn.id.clone()),
            operation_type: OperationType::Execution,
            parent: None,
            name: Some(profile.arn.name.clone()),
            sub_type: None,
        };
        let root = Operation {
            identity,
            parent: None,
            status: OperationStatus::Started,
            started: record.at,
            ended: None,
            result: None,
            error: None,
            detail: Detail::Execution {
                input: Held::payload(0, input),
                deadline: record.at.plus_seconds(profile.config.execution_timeout),
            },
        };
        Ok(Self {
            profile: profile.clone(),
            arn_text: profile.arn.to_string().into(),
            id,
            status: ExecutionStatus::Running,
            started: record.at,
            ended: None,
            result: None,
            error: None,
            operations: Operations::new(root),
            gate: Gate {
                requested: true,
                ..Gate::default()
            },
            hold: None,
            usage: Usage {
                operations: 0,
                data_bytes: record.change.bytes(),
            },
            notify_parent: false,
            journal: Journal {
                records: 1,
                events: 1,
                last_at: record.at,
            },
        })
    }

    /// Folds the next record into this execution. An engine that follows another node's journal
    /// calls this; after an error the execution must be thrown away.
    ///
    /// # Errors
    /// When the record does not continue this journal.
    pub fn apply(&mut self, record: &Record) -> Result<(), Corrupt> {
        let corrupt = |reason: &str| Corrupt::new(record.number, reason);
        let events = self.journal.events + u64::from(record.change.is_event());
        if record.number != self.journal.records || record.events != events {
            return Err(corrupt("out of sequence"));
        }
        if record.at < self.journal.last_at {
            return Err(corrupt("earlier than the record before"));
        }
        self.apply_change(record).map_err(corrupt)?;
        self.usage.data_bytes += record.change.bytes();
        self.journal = Journal {
            records: self.journal.records + 1,
            events,
            last_at: record.at,
        };
        Ok(())
    }

    fn apply_change(&mut self, record: &Record) -> Result<(), &'static str> {
        let closed = self.status.is_terminal();
        match &record.change {
            Change::InvocationCompleted {
                invocation,
                error,
                ending,
                ..
            }
            | Change::InvocationDropped {
                invocation,
                error,
                ending,
            } => self.end_invocation(invocation, error.as_ref(), *ending),
            Change::Checkpointed {
                client_token,
                key,
                updates,
            } => self.note_checkpoint(client_token.as_ref(), *key, *updates),
            Change::Acknowledged { intent } => {
                match intent {
                    IntentKey::Parent => self.notify_parent = false,
                    IntentKey::Invoke(id) => drop(self.operations.acknowledge(id)),
                }
                Ok(())
            }
            Change::ExecutionStarted { .. } => Err("an execution starts once"),
            _ if closed => Err("a closed execution changed"),
            Change::ExecutionClosed {
                status,
                result,
                error,
            } => {
                let number = record.number;
                self.result = result.as_ref().map(|result| Held::payload(number, result));
                self.error = error.as_ref().map(|error| Held::error(number, error));
                self.close(*status, record.at)
            }
            Change::InvocationStarted { invocation } => self.begin(invocation, record.at),
            Change::Operation { subject, change } => {
                let table = &mut self.operations;
                let effect = table.apply(subject, change, record.number, record.at)?;
                self.usage.operations += effect.cost;
                if effect.external {
                    self.gate.stalled = 0;
                }
                Ok(())
            }
            Change::SignalBuffered { name, payload } => {
                let payload = payload.as_ref();
                let held = payload.map(|payload| Held::payload(record.number, payload));
                self.operations.buffer_signal(name, held);
                Ok(())
            }
            Change::Held { cause, reason } => {
                self.hold = Some(Hold {
                    since: record.at,
                    cause: *cause,
                    reason: reason.clone(),
                });
                Ok(())
            }
            Change::Resumed => {
                // What was missed meanwhile is still requested or unseen: nothing to remember here.
                self.hold = None;
                self.gate.retry_at = None;
                self.gate.failures = 0;
                self.gate.stalled = 0;
                Ok(())
            }
        }
    }

    fn close(&mut self, status: ExecutionStatus, at: Timestamp) -> Result<(), &'static str> {
        if !status.is_terminal() {
            return Err("closed without a terminal status");
        }
        self.status = status;
        self.ended = Some(at);
        self.hold = None;
        self.gate.slot = None;
        self.gate.requested = false;
        self.gate.retry_at = None;
        self.notify_parent = self.profile.parent.is_some();
        self.operations.close_execution(status.of_operation(), at);
        Ok(())
    }

    fn begin(&mut self, invocation: &Arc<str>, at: Timestamp) -> Result<(), &'static str> {
        if self.gate.invocation.is_some() {
            return Err("two invocations at a time");
        }
        self.gate.invocation = Some(Invocation {
            id: invocation.clone(),
            started: at,
        });
        self.gate.invocations += 1;
        self.gate.requested = false;
        self.gate.retry_at = None;
        self.gate.slot = None;
        self.operations.mark_seen();
        Ok(())
    }

    fn end_invocation(
        &mut self,
        invocation: &Arc<str>,
        error: Option<&SharedError>,
        ending: Ending,
    ) -> Result<(), &'static str> {
        let current = self.gate.invocation.take();
        if current.is_none_or(|current| current.id != *invocation) {
            return Err("an invocation ended that was not in flight");
        }
        if self.status.is_terminal() {
            return Ok(());
        }
        let gate = &mut self.gate;
        gate.last_error = error.cloned();
        gate.undelivered = match ending {
            Ending::Undelivered { .. } => gate.undelivered.saturating_add(1),
            Ending::Clean | Ending::Failed { .. } | Ending::EmptyPending { .. } => 0,
        };
        match ending {
            Ending::Clean => {
                gate.failures = 0;
                gate.stalled = 0;
                gate.empty_pendings = 0;
                gate.last_error = None;
            }
            Ending::Failed {
                retry_at,
                interrupted,
            } => {
                gate.failures = gate.failures.saturating_add(1);
                gate.empty_pendings = 0;
                gate.requested = true;
                gate.retry_at = Some(retry_at);
                if interrupted {
                    gate.stalled = gate.stalled.saturating_add(1);
                    self.operations.interrupt_running();
                }
            }
            Ending::Undelivered { retry_at } => {
                gate.requested = true;
                gate.retry_at = Some(retry_at);
            }
            Ending::EmptyPending { retry_at } => {
                gate.failures = gate.failures.saturating_add(1);
                gate.empty_pendings = gate.empty_pendings.saturating_add(1);
                gate.requested = true;
                gate.retry_at = Some(retry_at);
            }
        }
        Ok(())
    }

    fn note_checkpoint(
        &mut self,
        client_token: Option<&Arc<str>>,
        key: u32,
        updates: u32,
    ) -> Result<(), &'static str> {
        let current = self.gate.invocation.as_ref();
        if current.is_none() && !self.status.is_terminal() {
            return Err("a checkpoint without an invocation");
        }
        // A closed execution answers no retry, and without a client token none can be recognised.
        let current = current.filter(|_| !self.status.is_terminal());
        self.gate.slot = current
            .zip(client_token)
            .map(|(current, client_token)| Slot {
                invocation: current.id.clone(),
                sequence: self.gate.sequence,
                client_token: client_token.clone(),
                key,
                operations: self.unseen_operations().cloned().collect(),
            });
        self.gate.sequence += 1;
        if updates > 0 {
            self.gate.stalled = 0;
            self.gate.empty_pendings = 0;
        }
        self.operations.mark_seen();
        Ok(())
    }

    /// Operations no handler has seen in their present form, in creation order.
    pub(crate) fn unseen_operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations
            .unseen()
            .iter()
            .filter_map(|index| self.operations.get(*index))
    }
}

/// What can be asked of an execution.
impl Execution {
    /// Everything that never changes about it.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The same, to keep.
    pub fn shared_profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Its ARN as text.
    pub fn arn(&self) -> &Arc<str> {
        &self.arn_text
    }

    /// Its id.
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.profile.arn.name
    }

    /// Where it is in its life.
    pub fn status(&self) -> ExecutionStatus {
        self.status
    }

    /// When it started.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// When it ended.
    pub fn ended(&self) -> Option<Timestamp> {
        self.ended
    }

    /// Its input, while in memory.
    pub fn input(&self) -> Option<&Payload> {
        self.held_input()?.here()
    }

    pub(crate) fn held_input(&self) -> Option<&Held<str>> {
        match &self.operations.get(0)?.detail {
            Detail::Execution { input, .. } => Some(input),
            Detail::Context { .. }
            | Detail::Step { .. }
            | Detail::Wait { .. }
            | Detail::Callback { .. }
            | Detail::Invoke(_) => None,
        }
    }

    /// Its result, while in memory; none unless it succeeded with one.
    pub fn result(&self) -> Option<&Payload> {
        self.result.as_ref()?.here()
    }

    /// Its error, while in memory; none unless it ended otherwise than with success.
    pub fn error(&self) -> Option<&ErrorObject> {
        self.error.as_ref()?.here().map(|error| &**error)
    }

    /// Why it is not invoked, if somebody or something held it.
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// The id of the invocation in flight.
    pub fn invocation(&self) -> Option<&Arc<str>> {
        self.gate.invocation.as_ref().map(|current| &current.id)
    }

    /// Invocations so far.
    pub fn invocations(&self) -> u64 {
        self.gate.invocations
    }

    /// What counts against the quotas.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Records so far: the number the next one gets, and the version a store compares.
    pub fn records(&self) -> u64 {
        self.journal.records
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.journal.events
    }

    /// Checkpoints accepted so far.
    pub fn sequence(&self) -> u64 {
        self.gate.sequence
    }

    /// Operations created, the EXECUTION one included.
    pub fn operation_count(&self) -> u32 {
        self.operations.count()
    }

    /// One operation as a handler would see it.
    ///
    /// # Errors
    /// When its payload is not in memory and `load` does not find the record.
    pub fn operation(
        &self,
        id: &OperationId,
        load: Load<'_>,
    ) -> Result<Option<wire::Operation>, Rejection> {
        self.operations
            .by_id(id)
            .map(|operation| operation.view(load))
            .transpose()
    }

    /// Every operation, in creation order, as a handler would see it; none is left out.
    ///
    /// # Errors
    /// When a payload is not in memory and `load` does not find the record.
    pub fn operations(&self, load: Load<'_>) -> Result<Vec<wire::Operation>, Rejection> {
        self.operations
            .iter()
            .map(|operation| operation.view(load))
            .collect()
    }

    /// When something is to be decided without any input: a lower bound over waits, retries,
    /// callback deadlines, the execution's timeout and the repetition of a failed invocation.
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return None;
        }
        let timer = self.operations.next_due().map(|(due, _)| due);
        let idle = self.gate.invocation.is_none() && self.hold.is_none();
        let retry = self.gate.retry_at.filter(|_| idle);
        [timer, retry].into_iter().flatten().min()
    }

    /// Whether a handler should be called now. Its time never goes back: a clock that does counts as
    /// standing still since the last record.
    pub fn wants_invocation(&self, now: Timestamp) -> bool {
        let now = now.max(self.journal.last_at);
        let due = |at: Timestamp| at <= now;
        let triggered = || {
            self.gate.requested
                || !self.operations.unseen().is_empty()
                || self.operations.next_due().is_some_and(|(at, _)| due(at))
        };
        self.is_running_at(now)
            && self.hold.is_none()
            && self.gate.invocation.is_none()
            && self.gate.retry_at.is_none_or(due)
            && triggered()
    }

    /// Whether it runs at `now`, counting a timeout that is due but not yet recorded.
    pub fn is_running_at(&self, now: Timestamp) -> bool {
        !self.status.is_terminal() && now < self.deadline()
    }

    /// When its time runs out.
    pub fn deadline(&self) -> Timestamp {
        self.started
            .plus_seconds(self.profile.config.execution_timeout)
    }

    /// When it may be deleted, once it has ended.
    pub fn retention_due(&self) -> Option<Timestamp> {
        const DAY_SECONDS: u64 = 86_400;
        let days = self.profile.config.retention_period_in_days;
        let days = days.unwrap_or(crate::limits::RETENTION_DAYS_DEFAULT);
        Some(
            self.ended?
                .plus_millis(u64::from(days) * DAY_SECONDS * 1_000),
        )
    }

    /// Forgets every payload that can be read again from its record, to save memory.
    pub fn release_payloads(&mut self) {
        self.operations.release();
        if let Some(slot) = &mut self.gate.slot {
            slot.operations.iter_mut().for_each(Operation::release);
        }
        if let Some(result) = &mut self.result {
            result.release();
        }
        if let Some(error) = &mut self.error {
            error.release();
        }
    }
}
