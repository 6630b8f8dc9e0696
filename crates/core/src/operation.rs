//! One operation: its state, and the table of moves a handler may make.
//!
//! It knows nothing of its neighbours: parents, batches and indexes are the execution's business.

use crate::{
    error::Rejection,
    id::OperationId,
    record::{Held, Identity, InvokeTarget, Load, OperationChange, SharedError, Starting},
    time::Timestamp,
    wire::{
        self, CallbackDetails, ChainedInvokeDetails, ContextDetails, ErrorObject, ExecutionDetails,
        OperationAction, OperationStatus, OperationType, Payload, StepDetails, WaitDetails,
        sub_type,
    },
};
use alloc::{boxed::Box, string::String, sync::Arc};

/// Why a handler's action does not fit an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// This type of operation has no such action.
    Action,
    /// It cannot be started from where it is.
    Start,
    /// It cannot be closed from where it is.
    Close,
    /// It cannot be attempted again from where it is.
    Retry,
    /// It cannot be cancelled from where it is.
    Cancel,
}

impl Misfit {
    /// The reason, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Action => "invalid action for this type of operation",
            Self::Start => "already exists, or invalid current state to start",
            Self::Close => "invalid current state to close",
            Self::Retry => "invalid current state to re-attempt",
            Self::Cancel => "cannot be cancelled: it does not exist or has ended",
        }
    }
}

/// The legal moves: whether an operation of this type, now in `current` (or unknown), may take
/// `action`, and the status it then has.
///
/// # Errors
/// With the reason when it may not.
pub fn transition(
    operation_type: OperationType,
    current: Option<OperationStatus>,
    action: OperationAction,
) -> Result<OperationStatus, Misfit> {
    use OperationAction as Action;
    use OperationStatus as Status;
    use OperationType as Type;
    match (operation_type, action) {
        (Type::Step, Action::Start) => match current {
            None | Some(Status::Ready) => Ok(Status::Started),
            Some(_) => Err(Misfit::Start),
        },
        (Type::Context | Type::Wait | Type::Callback | Type::ChainedInvoke, Action::Start) => {
            match current {
                None => Ok(Status::Started),
                Some(_) => Err(Misfit::Start),
            }
        }
        (Type::Step | Type::Context, Action::Succeed | Action::Fail) => match current {
            None | Some(Status::Started | Status::Ready) => Ok(closing_status(action)),
            Some(_) => Err(Misfit::Close),
        },
        (Type::Step, Action::Retry) => match current {
            None | Some(Status::Started | Status::Ready) => Ok(Status::Pending),
            Some(_) => Err(Misfit::Retry),
        },
        (Type::Wait, Action::Cancel) => match current {
            Some(Status::Started) => Ok(Status::Cancelled),
            _ => Err(Misfit::Cancel),
        },
        (Type::Execution, Action::Succeed | Action::Fail) => match current {
            Some(Status::Started) => Ok(closing_status(action)),
            _ => Err(Misfit::Close),
        },
        (
            Type::Execution
            | Type::Context
            | Type::Step
            | Type::Wait
            | Type::Callback
            | Type::ChainedInvoke,
            _,
        ) => Err(Misfit::Action),
    }
}

const fn closing_status(action: OperationAction) -> OperationStatus {
    match action {
        OperationAction::Fail => OperationStatus::Failed,
        OperationAction::Start
        | OperationAction::Succeed
        | OperationAction::Retry
        | OperationAction::Cancel => OperationStatus::Succeeded,
    }
}

/// An operation as the fold knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub(crate) identity: Identity,
    /// Number of the parent context.
    pub(crate) parent: Option<u32>,
    pub(crate) status: OperationStatus,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) result: Option<Held<str>>,
    pub(crate) error: Option<Held<ErrorObject>>,
    pub(crate) detail: Detail,
}

/// What is particular to each type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Execution {
        input: Held<str>,
        deadline: Timestamp,
    },
    Context {
        replay_children: bool,
    },
    Step {
        attempt: u32,
        next_attempt: Option<Timestamp>,
        interruptions: u32,
    },
    Wait {
        seconds: u32,
        end: Timestamp,
    },
    Callback {
        callback_id: Arc<str>,
        deadline: Option<Timestamp>,
        heartbeat_seconds: u32,
        heartbeat_deadline: Option<Timestamp>,
    },
    Invoke(Box<Invoke>),
}

/// What a chained invoke still has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invoke {
    pub(crate) function_name: Arc<str>,
    pub(crate) tenant: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) target: Option<InvokeTarget>,
    /// Kept until the target is known to have been started.
    pub(crate) input: Option<Held<str>>,
    /// Whether the outside still has to start the target.
    pub(crate) outstanding: bool,
}

/// What the indexes of an execution need to know about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// When the service acts on it by itself.
    pub(crate) due: Option<Timestamp>,
    /// Whether it justifies a PENDING answer.
    pub(crate) open: bool,
    /// Whether it is a step whose attempt runs.
    pub(crate) running: bool,
    /// Whether the outside has to start its target.
    pub(crate) outstanding: bool,
}

impl Operation {
    /// An operation that a handler creates, before its first change.
    pub(crate) fn new(identity: Identity, parent: Option<u32>, at: Timestamp) -> Self {
        let detail = match identity.operation_type {
            OperationType::Step => Detail::Step {
                attempt: 0,
                next_attempt: None,
                interruptions: 0,
            },
            // Types that can only begin with a start get their details from it.
            OperationType::Execution
            | OperationType::Context
            | OperationType::Wait
            | OperationType::Callback
            | OperationType::ChainedInvoke => Detail::Context {
                replay_children: false,
            },
        };
        Self {
            identity,
            parent,
            status: OperationStatus::Started,
            started: at,
            ended: None,
            result: None,
            error: None,
            detail,
        }
    }

    /// Its id.
    pub fn id(&self) -> &OperationId {
        &self.identity.id
    }

    /// Its type.
    pub fn operation_type(&self) -> OperationType {
        self.identity.operation_type
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.identity.name.as_ref()
    }

    /// Attempts of a step that have ended.
    pub(crate) fn attempts_finished(&self) -> u32 {
        match self.detail {
            Detail::Step { attempt, .. } => attempt,
            Detail::Execution { .. }
            | Detail::Context { .. }
            | Detail::Wait { .. }
            | Detail::Callback { .. }
            | Detail::Invoke(_) => 0,
        }
    }

    /// The duration of a wait.
    pub(crate) fn wait_seconds(&self) -> u32 {
        match self.detail {
            Detail::Wait { seconds, .. } => seconds,
            Detail::Execution { .. }
            | Detail::Context { .. }
            | Detail::Step { .. }
            | Detail::Callback { .. }
            | Detail::Invoke(_) => 0,
        }
    }

    /// Where it is in its life.
    pub fn status(&self) -> OperationStatus {
        self.status
    }

    /// Where it is at `now`, counting what is due but not yet recorded.
    pub fn status_at(&self, now: Timestamp) -> OperationStatus {
        if self.due().is_none_or(|due| due > now) {
            return self.status;
        }
        match self.identity.operation_type {
            OperationType::Step => OperationStatus::Ready,
            OperationType::Wait => OperationStatus::Succeeded,
            OperationType::Callback | OperationType::Execution => OperationStatus::TimedOut,
            OperationType::Context | OperationType::ChainedInvoke => self.status,
        }
    }

    /// The signal it waits for, if it waits for one.
    pub(crate) fn signal(&self) -> Option<&Arc<str>> {
        let is_signal = self.identity.operation_type == OperationType::Callback
            && self.identity.sub_type.as_deref() == Some(sub_type::SIGNAL);
        self.identity.name.as_ref().filter(|_| is_signal)
    }

    /// When the service acts on it by itself.
    pub fn due(&self) -> Option<Timestamp> {
        match (&self.detail, self.status) {
            (Detail::Execution { deadline, .. }, OperationStatus::Started) => Some(*deadline),
            (Detail::Step { next_attempt, .. }, OperationStatus::Pending) => *next_attempt,
            (Detail::Wait { end, .. }, OperationStatus::Started) => Some(*end),
            (
                Detail::Callback {
                    deadline,
                    heartbeat_deadline,
                    ..
                },
                OperationStatus::Started,
            ) => [*deadline, *heartbeat_deadline].into_iter().flatten().min(),
            _ => None,
        }
    }

    pub(crate) fn marks(&self) -> Marks {
        let started = self.status == OperationStatus::Started;
        Marks {
            due: self.due(),
            open: match self.identity.operation_type {
                OperationType::Wait | OperationType::Callback | OperationType::ChainedInvoke => {
                    started
                }
                OperationType::Step => self.status == OperationStatus::Pending,
                OperationType::Execution | OperationType::Context => false,
            },
            running: started && self.identity.operation_type == OperationType::Step,
            outstanding: matches!(&self.detail, Detail::Invoke(invoke) if invoke.outstanding),
        }
    }

    /// Whether replay no longer looks at the operations below this one.
    pub(crate) fn hides_children(&self) -> bool {
        match self.detail {
            Detail::Context { replay_children } => self.status.is_terminal() && !replay_children,
            Detail::Execution { .. }
            | Detail::Step { .. }
            | Detail::Wait { .. }
            | Detail::Callback { .. }
            | Detail::Invoke(_) => false,
        }
    }

    /// Bytes it takes on a page.
    pub(crate) fn page_bytes(&self) -> usize {
        let input = match &self.detail {
            Detail::Execution { input, .. } => input.bytes(),
            Detail::Context { .. }
            | Detail::Step { .. }
            | Detail::Wait { .. }
            | Detail::Callback { .. }
            | Detail::Invoke(_) => 0,
        };
        crate::limits::OPERATION_ENVELOPE_BYTES
            + input
            + self.identity.name.as_ref().map_or(0, |name| name.len())
            + self.result.as_ref().map_or(0, Held::bytes)
            + self.error.as_ref().map_or(0, Held::bytes)
    }

    /// Forgets its payloads.
    pub(crate) fn release(&mut self) {
        if let Some(result) = &mut self.result {
            result.release();
        }
        if let Some(error) = &mut self.error {
            error.release();
        }
        match &mut self.detail {
            Detail::Execution { input, .. } => input.release(),
            Detail::Invoke(invoke) => {
                if let Some(input) = &mut invoke.input {
                    input.release();
                }
            }
            Detail::Context { .. }
            | Detail::Step { .. }
            | Detail::Wait { .. }
            | Detail::Callback { .. } => {}
        }
    }

    /// Counts an invocation that died while this step's attempt ran.
    pub(crate) fn interrupt(&mut self) {
        if let Detail::Step { interruptions, .. } = &mut self.detail {
            *interruptions = interruptions.saturating_add(1);
        }
    }

    /// Applies a recorded change; `record` is its number, `at` its time.
    ///
    /// # Errors
    /// With the reason when the change does not fit, which a sound journal never causes.
    pub(crate) fn apply(
        &mut self,
        change: &OperationChange,
        record: u64,
        at: Timestamp,
    ) -> Result<(), &'static str> {
        if self.status.is_terminal() {
            return Err("a closed operation changed");
        }
        match change {
            OperationChange::Started(starting) => self.start(starting, record, at),
            OperationChange::Retried {
                result,
                error,
                attempt,
                delay_seconds,
            } => {
                let finished = self.finish_attempt(*attempt)?;
                *finished = Some(at.plus_seconds(*delay_seconds));
                if error.is_none() {
                    self.result = held_payload(record, result.as_ref());
                }
                self.error = held_error(record, error.as_ref());
                self.status = OperationStatus::Pending;
                Ok(())
            }
            OperationChange::Ready => {
                let Detail::Step { next_attempt, .. } = &mut self.detail else {
                    return Err("only a step becomes ready");
                };
                *next_attempt = None;
                self.status = OperationStatus::Ready;
                Ok(())
            }
            OperationChange::Heartbeat { deadline } => {
                let Detail::Callback {
                    heartbeat_deadline, ..
                } = &mut self.detail
                else {
                    return Err("only a callback has heartbeats");
                };
                *heartbeat_deadline = Some(*deadline);
                Ok(())
            }
            OperationChange::Closed {
                status,
                result,
                error,
                attempt,
                replay_children,
            } => {
                self.result = held_payload(record, result.as_ref());
                self.error = held_error(record, error.as_ref());
                self.close(*status, *attempt, *replay_children, at)
            }
            // The execution has put the signal's payload in place.
            OperationChange::SignalTaken => self.close(OperationStatus::Succeeded, 0, false, at),
        }
    }

    fn start(
        &mut self,
        starting: &Starting,
        record: u64,
        at: Timestamp,
    ) -> Result<(), &'static str> {
        let after = |seconds: u32| (seconds > 0).then(|| at.plus_seconds(seconds));
        match (starting, self.identity.operation_type) {
            (Starting::Context, OperationType::Context) => {}
            (Starting::Step, OperationType::Step) => {}
            (Starting::Wait { seconds }, OperationType::Wait) => {
                self.detail = Detail::Wait {
                    seconds: *seconds,
                    end: at.plus_seconds(*seconds),
                };
            }
            (
                Starting::Callback {
                    callback_id,
                    timeout_seconds,
                    heartbeat_seconds,
                },
                OperationType::Callback,
            ) => {
                self.detail = Detail::Callback {
                    callback_id: callback_id.clone(),
                    deadline: after(*timeout_seconds),
                    heartbeat_seconds: *heartbeat_seconds,
                    heartbeat_deadline: after(*heartbeat_seconds),
                };
            }
            (Starting::Invoke(start), OperationType::ChainedInvoke) => {
                self.detail = Detail::Invoke(Box::new(Invoke {
                    function_name: start.function_name.clone(),
                    tenant: start.tenant.clone(),
                    trace: start.trace.clone(),
                    target: start.target.clone(),
                    input: held_payload(record, start.input.as_ref()),
                    outstanding: start.target.is_some(),
                }));
            }
            _ => return Err("the start of another type of operation"),
        }
        self.status = OperationStatus::Started;
        Ok(())
    }

    /// Counts an attempt as finished and gives access to the time of the next.
    fn finish_attempt(&mut self, finished: u32) -> Result<&mut Option<Timestamp>, &'static str> {
        let Detail::Step {
            attempt,
            next_attempt,
            interruptions,
        } = &mut self.detail
        else {
            return Err("only a step has attempts");
        };
        if attempt.checked_add(1) != Some(finished) {
            return Err("attempts are counted one by one");
        }
        *attempt = finished;
        *interruptions = 0;
        Ok(next_attempt)
    }

    fn close(
        &mut self,
        status: OperationStatus,
        attempt: u32,
        replays_children: bool,
        at: Timestamp,
    ) -> Result<(), &'static str> {
        if !status.is_terminal() {
            return Err("closed without a terminal status");
        }
        match &mut self.detail {
            Detail::Step { .. } => *self.finish_attempt(attempt)? = None,
            Detail::Context { replay_children } => *replay_children = replays_children,
            Detail::Invoke(invoke) => {
                invoke.outstanding = false;
                invoke.input = None;
            }
            Detail::Execution { .. } | Detail::Wait { .. } | Detail::Callback { .. } => {}
        }
        self.status = status;
        self.ended = Some(at);
        Ok(())
    }

    /// The operation as a handler sees it.
    pub(crate) fn view(&self, load: Load<'_>) -> Result<wire::Operation, Rejection> {
        let result = |held: &Option<Held<str>>| -> Result<Option<Payload>, Rejection> {
            held.as_ref().map(|held| held.read(load)).transpose()
        };
        let error =
            |held: &Option<Held<ErrorObject>>| -> Result<Option<Arc<ErrorObject>>, Rejection> {
                held.as_ref().map(|held| held.read(load)).transpose()
            };
        let mut view = wire::Operation::new(
            self.identity.id.clone(),
            self.identity.operation_type,
            self.status,
            self.started,
        );
        view.parent_id = self.identity.parent.clone();
        view.name = self.identity.name.clone();
        view.sub_type = self.identity.sub_type.clone();
        view.end_timestamp = self.ended;
        match &self.detail {
            Detail::Execution { input, .. } => {
                view.execution_details = Some(ExecutionDetails {
                    input_payload: Some(input.read(load)?),
                });
            }
            Detail::Context { replay_children } => {
                view.context_details = Some(ContextDetails {
                    result: result(&self.result)?,
                    error: error(&self.error)?,
                    replay_children: *replay_children,
                });
            }
            Detail::Step {
                attempt,
                next_attempt,
                interruptions,
            } => {
                view.step_details = Some(StepDetails {
                    attempt: *attempt,
                    next_attempt_timestamp: *next_attempt,
                    result: result(&self.result)?,
                    error: error(&self.error)?,
                    interruptions: *interruptions,
                });
            }
            Detail::Wait { end, .. } => {
                view.wait_details = Some(WaitDetails {
                    scheduled_end_timestamp: Some(*end),
                });
            }
            Detail::Callback { callback_id, .. } => {
                view.callback_details = Some(CallbackDetails {
                    callback_id: Some(callback_id.clone()),
                    result: result(&self.result)?,
                    error: error(&self.error)?,
                });
            }
            Detail::Invoke(_) => {
                view.chained_invoke_details = Some(ChainedInvokeDetails {
                    result: result(&self.result)?,
                    error: error(&self.error)?,
                });
            }
        }
        Ok(view)
    }
}

fn held_payload(record: u64, payload: Option<&Payload>) -> Option<Held<str>> {
    payload.map(|payload| Held::payload(record, payload))
}

fn held_error(record: u64, error: Option<&SharedError>) -> Option<Held<ErrorObject>> {
    error.map(|error| Held::error(record, error))
}

#[cfg(test)]
mod tests;
