//! Records: the truth an execution is folded from.
//!
//! A record says that something happened, never why it was allowed to. One record makes at most one
//! event of the public history. Payloads lie in exactly one record; the fold refers to them through
//! [`Held`], so an engine may drop them from memory and read them again.

use crate::{
    arn::ExecutionArn,
    error::{Code, Rejection},
    id::OperationId,
    time::Timestamp,
    wire::{DurableConfig, ErrorObject, ExecutionStatus, OperationStatus, OperationType, Payload},
};
use alloc::{boxed::Box, format, string::String, sync::Arc};
use serde::{Deserialize, Serialize};

/// An error shared between records and the fold.
pub type SharedError = Arc<ErrorObject>;

/// How an engine reads one record again, by number.
pub type Load<'a> = &'a dyn Fn(u64) -> Option<Record>;

/// The [`Load`] of executions whose payloads are all in memory.
pub fn nothing(_: u64) -> Option<Record> {
    None
}

/// One entry of an execution's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place, from 0, without gaps.
    pub number: u64,
    /// Events of the history up to and including this record.
    pub events: u64,
    /// When it was decided; never earlier than the record before.
    pub at: Timestamp,
    /// What happened.
    pub change: Change,
}

/// What happened to an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The execution was created. Always record 0.
    ExecutionStarted {
        /// Everything that never changes about it.
        profile: Arc<Profile>,
        /// Its input.
        input: Payload,
    },
    /// The execution ended.
    ExecutionClosed {
        /// How.
        status: ExecutionStatus,
        /// Its result, if it succeeded.
        result: Option<Payload>,
        /// Its error, if it did not.
        error: Option<SharedError>,
    },
    /// A handler was called.
    InvocationStarted {
        /// The id of the invocation.
        invocation: Arc<str>,
    },
    /// The current invocation ended and is part of the history.
    InvocationCompleted {
        /// The id of the invocation.
        invocation: Arc<str>,
        /// When it began.
        started: Timestamp,
        /// What went wrong, if anything.
        error: Option<SharedError>,
        /// What follows.
        ending: Ending,
    },
    /// The current invocation is gone without having left a trace in the history: it never reached
    /// the handler, or its owner died.
    InvocationDropped {
        /// The id of the invocation.
        invocation: Arc<str>,
        /// Why, as far as known.
        error: Option<SharedError>,
        /// What follows.
        ending: Ending,
    },
    /// A checkpoint was accepted and everything unseen was delivered with its answer.
    Checkpointed {
        /// The token that makes an HTTP retry recognisable.
        client_token: Option<Arc<str>>,
        /// The key that signed the next token.
        key: u32,
        /// Updates it carried.
        updates: u32,
    },
    /// One operation changed.
    Operation {
        /// Which one.
        subject: Subject,
        /// How.
        change: OperationChange,
    },
    /// A signal arrived that nobody waited for.
    SignalBuffered {
        /// Its name.
        name: Arc<str>,
        /// Its payload.
        payload: Option<Payload>,
    },
    /// A thing the outside had to do for this execution was done.
    Acknowledged {
        /// Which one.
        intent: IntentKey,
    },
    /// The execution is not invoked until somebody resumes it.
    Held {
        /// Who or what held it.
        cause: HoldCause,
        /// The diff, the last error, or the operator's words.
        reason: SharedError,
    },
    /// A held execution goes on.
    Resumed,
}

impl Change {
    /// Whether the public history shows this change.
    pub fn is_event(&self) -> bool {
        match self {
            Self::ExecutionStarted { .. }
            | Self::ExecutionClosed { .. }
            | Self::InvocationCompleted { .. } => true,
            Self::Operation { change, .. } => match change {
                OperationChange::Started(_)
                | OperationChange::Retried { .. }
                | OperationChange::Closed { .. }
                | OperationChange::SignalTaken => true,
                OperationChange::Ready | OperationChange::Heartbeat { .. } => false,
            },
            Self::InvocationStarted { .. }
            | Self::InvocationDropped { .. }
            | Self::Checkpointed { .. }
            | Self::SignalBuffered { .. }
            | Self::Acknowledged { .. }
            | Self::Held { .. }
            | Self::Resumed => false,
        }
    }

    /// The payload this change carries, if any.
    pub fn payload(&self) -> Option<&Payload> {
        match self {
            Self::ExecutionStarted { input, .. } => Some(input),
            Self::ExecutionClosed { result, .. } => result.as_ref(),
            Self::SignalBuffered { payload, .. } => payload.as_ref(),
            Self::Operation { change, .. } => match change {
                OperationChange::Started(Starting::Invoke(invoke)) => invoke.input.as_ref(),
                OperationChange::Retried { result, .. }
                | OperationChange::Closed { result, .. } => result.as_ref(),
                OperationChange::Started(_)
                | OperationChange::Ready
                | OperationChange::Heartbeat { .. }
                | OperationChange::SignalTaken => None,
            },
            Self::InvocationStarted { .. }
            | Self::InvocationCompleted { .. }
            | Self::InvocationDropped { .. }
            | Self::Checkpointed { .. }
            | Self::Acknowledged { .. }
            | Self::Held { .. }
            | Self::Resumed => None,
        }
    }

    /// The error this change carries, if any.
    pub fn error(&self) -> Option<&SharedError> {
        match self {
            Self::ExecutionClosed { error, .. }
            | Self::InvocationCompleted { error, .. }
            | Self::InvocationDropped { error, .. } => error.as_ref(),
            Self::Held { reason, .. } => Some(reason),
            Self::Operation { change, .. } => match change {
                OperationChange::Retried { error, .. } | OperationChange::Closed { error, .. } => {
                    error.as_ref()
                }
                OperationChange::Started(_)
                | OperationChange::Ready
                | OperationChange::Heartbeat { .. }
                | OperationChange::SignalTaken => None,
            },
            Self::ExecutionStarted { .. }
            | Self::InvocationStarted { .. }
            | Self::Checkpointed { .. }
            | Self::SignalBuffered { .. }
            | Self::Acknowledged { .. }
            | Self::Resumed => None,
        }
    }

    /// Bytes of user data this change adds to the execution.
    pub fn bytes(&self) -> u64 {
        let payload = self.payload().map_or(0, |payload| payload.len());
        let internal = matches!(
            self,
            Self::InvocationCompleted { .. } | Self::InvocationDropped { .. } | Self::Held { .. }
        );
        let error = match self.error() {
            Some(error) if !internal => error.bytes(),
            _ => 0,
        };
        (payload + error) as u64
    }
}

/// What never changes about an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its ARN: function, version, name and id.
    pub arn: ExecutionArn,
    /// The function's settings when it started.
    pub config: DurableConfig,
    /// Whether the starter waits for the result, which may then be larger.
    pub synchronous: bool,
    /// SHA-256 of the input in hex, which decides whether a second start is the same one.
    pub input_digest: String,
    /// Tenant it runs for.
    pub tenant: Option<String>,
    /// Trace header it was started with.
    pub trace: Option<String>,
    /// Client context of a synchronous start, passed through.
    pub client_context: Option<String>,
    /// The operation that started it, if it is the target of a chained invoke.
    pub parent: Option<ParentLink>,
}

/// The operation of another execution that waits for this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    /// The waiting execution.
    pub execution: ExecutionArn,
    /// Its CHAINED_INVOKE operation.
    pub operation: OperationId,
}

/// What follows an invocation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It answered as it should; the next trigger invokes again.
    Clean,
    /// It failed; invoke again at this moment.
    Failed {
        /// When the next invocation may begin.
        retry_at: Timestamp,
        /// Whether the handler was running, so that its steps were interrupted.
        interrupted: bool,
    },
    /// It never reached a handler; try again at this moment.
    Undelivered {
        /// When the next invocation may begin.
        retry_at: Timestamp,
    },
    /// It answered PENDING with nothing pending; invoke again at this moment.
    EmptyPending {
        /// When the next invocation may begin.
        retry_at: Timestamp,
    },
}

/// Which operation a change is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// One that this change creates; it gets the next number.
    New(Identity),
    /// A known one, by number.
    Known(u32),
}

/// What an operation is; fixed at its creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its id.
    pub id: OperationId,
    /// Its type.
    pub operation_type: OperationType,
    /// The context it belongs to.
    pub parent: Option<OperationId>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its label.
    pub sub_type: Option<Arc<str>>,
}

/// How an operation changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationChange {
    /// It began, or its next attempt did.
    Started(Starting),
    /// An attempt of a step ended and another follows.
    Retried {
        /// State of a polled condition.
        result: Option<Payload>,
        /// Error of the attempt.
        error: Option<SharedError>,
        /// Attempts finished, this one included.
        attempt: u32,
        /// Delay before the next attempt.
        delay_seconds: u32,
    },
    /// The delay of a step has passed.
    Ready,
    /// A callback showed a sign of life.
    Heartbeat {
        /// When the next one is due.
        deadline: Timestamp,
    },
    /// It ended.
    Closed {
        /// How.
        status: OperationStatus,
        /// Its result.
        result: Option<Payload>,
        /// Its error.
        error: Option<SharedError>,
        /// Attempts finished, for steps.
        attempt: u32,
        /// Whether a context's children are needed for replay.
        replay_children: bool,
    },
    /// It ended by consuming the oldest buffered signal of its name.
    SignalTaken,
}

/// What is particular to the start of each type of operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starting {
    /// A context.
    Context,
    /// An attempt of a step.
    Step,
    /// A timer.
    Wait {
        /// Its duration.
        seconds: u32,
    },
    /// A callback or a wait for a signal.
    Callback {
        /// The id that completes it.
        callback_id: Arc<str>,
        /// Seconds until it times out; 0 for never.
        timeout_seconds: u32,
        /// Seconds between heartbeats; 0 for any number.
        heartbeat_seconds: u32,
    },
    /// A chained invoke.
    Invoke(Box<InvokeStart>),
}

/// How a chained invoke started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvokeStart {
    /// The function as the handler wrote it.
    pub function_name: Arc<str>,
    /// Tenant to invoke it for.
    pub tenant: Option<String>,
    /// Trace header to pass on.
    pub trace: Option<String>,
    /// Its input; absent if none was given or the target was refused.
    pub input: Option<Payload>,
    /// What the name stood for; absent if it was refused.
    pub target: Option<InvokeTarget>,
}

/// What a chained invoke's function name stood for when it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InvokeTarget {
    /// A durable function: there is exactly one child execution.
    Durable {
        /// The child.
        child: ExecutionArn,
        /// The function's settings.
        config: DurableConfig,
    },
    /// An ordinary function.
    Plain {
        /// The version that runs.
        version: Arc<str>,
    },
}

impl InvokeTarget {
    /// The version that runs.
    pub fn version(&self) -> &Arc<str> {
        match self {
            Self::Durable { child, .. } => &child.function.version,
            Self::Plain { version } => version,
        }
    }

    /// The child execution of a durable target.
    pub fn child(&self) -> Option<&ExecutionArn> {
        match self {
            Self::Durable { child, .. } => Some(child),
            Self::Plain { .. } => None,
        }
    }
}

/// A thing the outside has to do for an execution, by what it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IntentKey {
    /// Start the target of this CHAINED_INVOKE.
    Invoke(OperationId),
    /// Tell the waiting parent how this execution ended.
    Parent,
}

/// Why an execution is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldCause {
    /// The handler no longer matches the recorded operations.
    Mismatch,
    /// Invocations failed again and again without getting any further.
    NoProgress,
    /// Somebody asked for it.
    Operator,
}

/// A payload or error of the fold: its record number, and its value while it is kept in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Held<T: ?Sized> {
    record: u64,
    bytes: usize,
    value: Option<Arc<T>>,
}

impl<T: ?Sized> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self {
            record: self.record,
            bytes: self.bytes,
            value: self.value.clone(),
        }
    }
}

impl<T: ?Sized> Held<T> {
    /// A value that is not in memory.
    pub(crate) const fn released(record: u64, bytes: usize) -> Self {
        Self {
            record,
            bytes,
            value: None,
        }
    }

    /// The record it lies in.
    pub const fn record(&self) -> u64 {
        self.record
    }

    /// Its size.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value, while it is in memory.
    pub fn here(&self) -> Option<&Arc<T>> {
        self.value.as_ref()
    }

    /// Forgets the value; it stays readable through its record.
    pub fn release(&mut self) {
        self.value = None;
    }

    fn get(
        &self,
        load: Load<'_>,
        pick: impl Fn(&Change) -> Option<&Arc<T>>,
    ) -> Result<Arc<T>, Rejection> {
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        load(self.record)
            .as_ref()
            .and_then(|record| pick(&record.change).cloned())
            .ok_or_else(|| {
                Rejection::new(
                    Code::Service,
                    format!("record {} could not be read", self.record),
                )
            })
    }
}

impl Held<str> {
    pub(crate) fn payload(record: u64, payload: &Payload) -> Self {
        Self {
            record,
            bytes: payload.len(),
            value: Some(payload.clone()),
        }
    }

    /// The payload, from memory or from its record.
    ///
    /// # Errors
    /// When it is not in memory and the record cannot be read.
    pub fn read(&self, load: Load<'_>) -> Result<Payload, Rejection> {
        self.get(load, Change::payload)
    }
}

impl Held<ErrorObject> {
    pub(crate) fn error(record: u64, error: &SharedError) -> Self {
        Self {
            record,
            bytes: error.bytes(),
            value: Some(error.clone()),
        }
    }

    /// The error, from memory or from its record.
    ///
    /// # Errors
    /// When it is not in memory and the record cannot be read.
    pub fn read(&self, load: Load<'_>) -> Result<SharedError, Rejection> {
        self.get(load, Change::error)
    }
}
