//! Deciding: one input in, records and a reply out.
//!
//! Everything impure is an argument ([`Env`]). An input is checked first, against the state as it
//! will be once everything due has been settled; a refused input changes nothing. An accepted one
//! settles what is due, then applies itself. Several decisions may share one commit.

use crate::{
    arn::Function,
    delivery::{Delivery, Receipt},
    error::{Code, Rejection},
    execution::Execution,
    intent::Intent,
    invocation::Outcome,
    limits::Quotas,
    operation::Detail,
    record::{Change, HoldCause, IntentKey, Load, OperationChange, Record, SharedError, Subject},
    tenancy::Tenancy,
    time::Timestamp,
    token::Keys,
    wire::{
        CheckpointRequest, CheckpointResponse, DurableConfig, ErrorObject, ExecutionStatus,
        InvocationInput, OperationStatus, OperationType, Payload, error_type,
    },
};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::fmt;

/// The world, as one decision sees it.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// What time it is.
    pub now: Timestamp,
    /// Fresh random bytes.
    pub random: [u8; 32],
    /// Keys of tokens and callback ids.
    pub keys: &'a Keys,
    /// Limits in force.
    pub limits: &'a Quotas,
    /// What a function name or ARN, as a handler wrote it, stands for.
    pub resolve: &'a dyn Fn(&str) -> Target,
    /// Reads a record again whose payload is no longer in memory.
    pub load: Load<'a>,
}

impl fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("now", &self.now)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What a function name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A durable function: invoking it starts an execution.
    Durable {
        /// The resolved version.
        function: Function,
        /// Its settings.
        config: DurableConfig,
        /// For which tenants it may be invoked.
        tenancy: Tenancy,
    },
    /// An ordinary function.
    Plain {
        /// The resolved version.
        version: Arc<str>,
        /// For which tenants it may be invoked.
        tenancy: Tenancy,
    },
    /// It cannot be invoked: the API error and why.
    Refused(ErrorObject),
}

/// What an execution is asked to do.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin an invocation. Refused unless [`Execution::wants_invocation`].
    Invoke {
        /// A fresh id, never used before.
        invocation_id: Arc<str>,
    },
    /// A handler writes.
    Checkpoint(CheckpointRequest),
    /// An invocation has ended.
    Complete {
        /// Which one. Any but the current one is ignored.
        invocation_id: Arc<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// Things arrived from outside, in order of arrival.
    Deliver(Vec<Delivery>),
    /// Time has passed.
    Tick,
    /// Somebody stops the execution.
    Stop {
        /// What they say about it.
        error: Option<ErrorObject>,
    },
    /// Somebody asks not to invoke any more for now.
    Hold {
        /// Why.
        reason: ErrorObject,
    },
    /// A held execution shall go on.
    Resume,
    /// A held execution shall fail with the reason it is held for.
    FailHeld,
    /// Intents that have been carried out.
    Acknowledge(Vec<IntentKey>),
}

/// What a decision says to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Call the handler with this.
    Invoke(Box<InvocationInput>),
    /// The answer to a checkpoint.
    Checkpoint(CheckpointResponse),
    /// Whether the outcome of the invocation counted.
    Completed {
        /// False if another invocation has taken its place.
        current: bool,
    },
    /// What became of each delivery.
    Delivered(Vec<Result<Receipt, Rejection>>),
    /// When the execution ended.
    Stopped {
        /// The time of its end, which may be long ago.
        at: Timestamp,
    },
    /// Nothing to say.
    Done,
}

impl Reply {
    /// The input to call the handler with, if this is an invocation.
    pub fn into_invocation(self) -> Option<InvocationInput> {
        match self {
            Self::Invoke(input) => Some(*input),
            Self::Checkpoint(_)
            | Self::Completed { .. }
            | Self::Delivered(_)
            | Self::Stopped { .. }
            | Self::Done => None,
        }
    }

    /// The answer to the handler, if this is a checkpoint.
    pub fn into_checkpoint(self) -> Option<CheckpointResponse> {
        match self {
            Self::Checkpoint(response) => Some(response),
            Self::Invoke(_)
            | Self::Completed { .. }
            | Self::Delivered(_)
            | Self::Stopped { .. }
            | Self::Done => None,
        }
    }
}

/// The outcome of one decision. Commit the records, then act on the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Records to append, already folded into the execution.
    pub records: Vec<Record>,
    /// What to answer.
    pub reply: Reply,
    /// Things to do that this decision brought up. [`Execution::intents`] has all of them.
    pub intents: Vec<Intent>,
}

impl Execution {
    /// Decides one input. The execution is then ahead of the store: if the records cannot be
    /// committed, throw it away and fold it again.
    ///
    /// # Errors
    /// When the input is refused; the execution is then unchanged. The exception is
    /// [`Code::Service`], a defect: throw the execution away and fold it again.
    pub fn decide(&mut self, env: &Env<'_>, input: Input) -> Result<Decision, Rejection> {
        let mut turn = Turn::new(self, env);
        let reply = match input {
            Input::Invoke { invocation_id } => turn.invoke(invocation_id),
            Input::Checkpoint(request) => turn.checkpoint(request),
            Input::Complete {
                invocation_id,
                outcome,
            } => turn.complete(&invocation_id, outcome),
            Input::Deliver(deliveries) => turn.deliver(deliveries),
            Input::Tick => turn.settle(turn.now).map(|()| Reply::Done),
            Input::Stop { error } => turn.stop(error),
            Input::Hold { reason } => turn.hold(reason),
            Input::Resume => turn.resume(),
            Input::FailHeld => turn.fail_held(),
            Input::Acknowledge(intents) => turn.acknowledge(intents),
        }?;
        let intents = turn.new_intents()?;
        Ok(Decision {
            records: turn.records,
            reply,
            intents,
        })
    }
}

/// One decision in the making.
pub(crate) struct Turn<'a> {
    pub(crate) execution: &'a mut Execution,
    pub(crate) env: &'a Env<'a>,
    /// The time of this decision: never before the last record, whatever the clock says.
    pub(crate) now: Timestamp,
    pub(crate) records: Vec<Record>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(execution: &'a mut Execution, env: &'a Env<'a>) -> Self {
        let now = env.now.max(execution.journal.last_at);
        Self {
            execution,
            env,
            now,
            records: Vec::new(),
        }
    }

    /// Adds a record and folds it.
    pub(crate) fn write(&mut self, change: Change) -> Result<(), Rejection> {
        let journal = self.execution.journal;
        let record = Record {
            number: journal.records,
            events: journal.events + u64::from(change.is_event()),
            at: self.now,
            change,
        };
        self.execution.apply(&record)?;
        self.records.push(record);
        Ok(())
    }

    /// Adds a record about an operation.
    pub(crate) fn change(
        &mut self,
        subject: Subject,
        change: OperationChange,
    ) -> Result<(), Rejection> {
        self.write(Change::Operation { subject, change })
    }

    /// Closes an operation that ends without the handler's doing.
    pub(crate) fn close(
        &mut self,
        index: u32,
        status: OperationStatus,
        result: Option<Payload>,
        error: Option<ErrorObject>,
    ) -> Result<(), Rejection> {
        self.change(
            Subject::Known(index),
            OperationChange::Closed {
                status,
                result,
                error: error.map(Arc::new),
                attempt: 0,
                replay_children: false,
            },
        )
    }

    pub(crate) fn close_execution(
        &mut self,
        status: ExecutionStatus,
        result: Option<Payload>,
        error: Option<SharedError>,
    ) -> Result<(), Rejection> {
        self.write(Change::ExecutionClosed {
            status,
            result,
            error,
        })
    }

    /// Fires every timer due by `until`, in order of their times.
    pub(crate) fn settle(&mut self, until: Timestamp) -> Result<(), Rejection> {
        while !self.execution.status.is_terminal()
            && let Some((due, index)) = self.execution.operations.next_due()
            && due <= until
        {
            self.fire(index, due)?;
            // Each timer fires once; one that stays would fire for ever.
            if self.execution.operations.next_due() == Some((due, index)) {
                return Err(Rejection::new(Code::Service, "a timer did not go off"));
            }
        }
        Ok(())
    }

    fn fire(&mut self, index: u32, due: Timestamp) -> Result<(), Rejection> {
        let Some(operation) = self.execution.operations.get(index) else {
            return Err(Rejection::new(Code::Service, "a timer without operation"));
        };
        match operation.operation_type() {
            OperationType::Execution => {
                let seconds = self.execution.profile.config.execution_timeout;
                let error = ErrorObject {
                    error_message: Some(format!("Execution timed out after {seconds} seconds.")),
                    ..ErrorObject::default()
                };
                self.close_execution(ExecutionStatus::TimedOut, None, Some(Arc::new(error)))
            }
            OperationType::Wait => self.close(index, OperationStatus::Succeeded, None, None),
            OperationType::Step => self.change(Subject::Known(index), OperationChange::Ready),
            OperationType::Callback => {
                let overall = matches!(
                    &operation.detail,
                    Detail::Callback { deadline: Some(deadline), .. } if *deadline == due
                );
                let error = if overall {
                    ErrorObject::new(error_type::CALLBACK_TIMEOUT, "Callback timed out")
                } else {
                    ErrorObject::new(
                        error_type::CALLBACK_HEARTBEAT,
                        "Callback timed out on heartbeat",
                    )
                };
                self.close(index, OperationStatus::TimedOut, None, Some(error))
            }
            OperationType::Context | OperationType::ChainedInvoke => Err(Rejection::new(
                Code::Service,
                "a timer on an operation that has none",
            )),
        }
    }

    fn stop(&mut self, error: Option<ErrorObject>) -> Result<Reply, Rejection> {
        if let Some(error) = &error
            && error.bytes() > self.env.limits.error_bytes_max
        {
            return Err(Rejection::invalid("error object too large"));
        }
        self.settle(self.now)?;
        if !self.execution.status.is_terminal() {
            let error = Arc::new(error.unwrap_or_default());
            self.close_execution(ExecutionStatus::Stopped, None, Some(error))?;
        }
        Ok(Reply::Stopped {
            at: self.execution.ended.unwrap_or(self.now),
        })
    }

    fn hold(&mut self, reason: ErrorObject) -> Result<Reply, Rejection> {
        self.require_running()?;
        self.settle(self.now)?;
        if self.execution.hold.is_none() {
            self.write(Change::Held {
                cause: HoldCause::Operator,
                reason: Arc::new(reason),
            })?;
        }
        Ok(Reply::Done)
    }

    fn resume(&mut self) -> Result<Reply, Rejection> {
        self.require_held()?;
        self.settle(self.now)?;
        self.write(Change::Resumed)?;
        Ok(Reply::Done)
    }

    fn fail_held(&mut self) -> Result<Reply, Rejection> {
        let reason = self.require_held()?;
        self.settle(self.now)?;
        self.close_execution(ExecutionStatus::Failed, None, Some(reason))?;
        Ok(Reply::Done)
    }

    fn acknowledge(&mut self, intents: Vec<IntentKey>) -> Result<Reply, Rejection> {
        self.settle(self.now)?;
        for intent in intents {
            if self.execution.is_outstanding(&intent) {
                self.write(Change::Acknowledged { intent })?;
            }
        }
        Ok(Reply::Done)
    }

    fn require_running(&self) -> Result<(), Rejection> {
        self.execution
            .is_running_at(self.now)
            .then_some(())
            .ok_or_else(|| Rejection::new(Code::Conflict, "the execution has ended"))
    }

    fn require_held(&self) -> Result<SharedError, Rejection> {
        self.require_running()?;
        let hold = self.execution.hold.as_ref();
        hold.map(|hold| hold.reason.clone())
            .ok_or_else(|| Rejection::new(Code::Conflict, "the execution is not held"))
    }
}

#[cfg(test)]
mod tests;
