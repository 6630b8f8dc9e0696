//! What arrives from outside: answers to callbacks, signs of life, signals, outcomes of invokes.
//!
//! An engine stores arrivals before it acknowledges them and folds them later, so each carries the
//! time it came: an answer that came before a deadline counts even if it is folded after it.

use crate::{
    decide::{Reply, Turn},
    error::{Code, Rejection},
    execution::Execution,
    id::OperationId,
    intent::InvokeOutcome,
    limits::Quotas,
    operation::{Detail, Operation},
    record::{Change, IntentKey, OperationChange, Subject},
    time::Timestamp,
    token::{CallbackId, Keys, equal},
    validate::is_name,
    wire::{ErrorObject, OperationStatus, OperationType, Payload},
};
use alloc::{format, sync::Arc, vec::Vec};

/// Something that arrived, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was stored.
    pub at: Timestamp,
    /// What it is.
    pub arrival: Arrival,
}

/// What can arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A callback was answered.
    CallbackSucceeded {
        /// Its id.
        callback_id: Arc<str>,
        /// The answer; none if the body was empty.
        result: Option<Payload>,
    },
    /// A callback was answered with an error.
    CallbackFailed {
        /// Its id.
        callback_id: Arc<str>,
        /// The error as sent; empty if the body was.
        error: ErrorObject,
    },
    /// Whoever owes an answer is alive.
    CallbackHeartbeat {
        /// Its id.
        callback_id: Arc<str>,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// Its payload.
        payload: Option<Payload>,
    },
    /// The target of a chained invoke ended.
    Invoked {
        /// The operation that waits for it.
        operation: OperationId,
        /// How it ended.
        outcome: InvokeOutcome,
    },
}

/// What became of an accepted arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// This operation took it.
    Taken(OperationId),
    /// It waits for somebody to ask for it.
    Buffered,
    /// It came too late to matter, and nobody minds.
    Dropped,
}

impl Execution {
    /// Whether an arrival would be accepted at `now`. The front door asks before it stores one; the
    /// same question decides when it is folded.
    ///
    /// # Errors
    /// With what to answer when it would not.
    pub fn check_arrival(
        &self,
        keys: &Keys,
        limits: &Quotas,
        now: Timestamp,
        arrival: &Arrival,
    ) -> Result<(), Rejection> {
        match arrival {
            Arrival::CallbackSucceeded {
                callback_id,
                result,
            } => {
                check_bytes("callback result", result.as_ref(), limits)?;
                self.open_callback(keys, now, callback_id).map(drop)
            }
            Arrival::CallbackFailed { callback_id, error } => {
                if error.bytes() > limits.error_bytes_max {
                    return Err(Rejection::invalid("callback error too large"));
                }
                self.open_callback(keys, now, callback_id).map(drop)
            }
            Arrival::CallbackHeartbeat { callback_id } => {
                self.open_callback(keys, now, callback_id).map(drop)
            }
            Arrival::Signal { name, payload } => {
                check_bytes("signal payload", payload.as_ref(), limits)?;
                if !is_name(name) {
                    return Err(Rejection::invalid("invalid signal name"));
                }
                if !self.is_running_at(now) {
                    return Err(Rejection::new(Code::Conflict, "the execution has ended"));
                }
                let full = self.operations.buffered() >= limits.signals_buffered_max;
                if full && self.first_wait(name, now).is_none() {
                    return Err(Rejection::new(
                        Code::TooManyRequests,
                        "too many signals wait to be consumed",
                    ));
                }
                Ok(())
            }
            Arrival::Invoked { operation, .. } => {
                let known = self.operations.by_id(operation);
                let is_invoke = |operation: &Operation| {
                    operation.operation_type() == OperationType::ChainedInvoke
                };
                known.is_some_and(is_invoke).then_some(()).ok_or_else(|| {
                    Rejection::new(
                        Code::ResourceNotFound,
                        format!("no chained invoke {operation} in this execution"),
                    )
                })
            }
        }
    }

    /// The callback this id completes, if it still can.
    fn open_callback(
        &self,
        keys: &Keys,
        now: Timestamp,
        callback_id: &str,
    ) -> Result<u32, Rejection> {
        let id = CallbackId::parse(keys, callback_id)?;
        let callback = self.operations.get(id.operation);
        let stored = callback.and_then(|callback| match &callback.detail {
            Detail::Callback { callback_id, .. } => Some(callback_id),
            Detail::Execution { .. }
            | Detail::Context { .. }
            | Detail::Step { .. }
            | Detail::Wait { .. }
            | Detail::Invoke(_) => None,
        });
        let known = stored.is_some_and(|stored| equal(stored.as_bytes(), callback_id.as_bytes()));
        if id.execution != self.id || !known {
            return Err(Rejection::new(
                Code::ResourceNotFound,
                "there is no such callback",
            ));
        }
        let open = callback
            .is_some_and(|callback| callback.status_at(now) == OperationStatus::Started)
            && self.is_running_at(now);
        open.then_some(id.operation).ok_or_else(|| {
            Rejection::new(
                Code::CallbackTimeout,
                "the callback has already been completed or has timed out",
            )
        })
    }

    /// The wait that the next signal of this name completes: the first in operation order, passing
    /// over those whose context has ended, which no handler would ever look at again.
    fn first_wait(&self, name: &str, now: Timestamp) -> Option<u32> {
        let signals = self.operations.signals(name)?;
        signals.waiting.iter().copied().find(|index| {
            self.operations.get(*index).is_some_and(|wait| {
                wait.status_at(now) == OperationStatus::Started
                    && !self.operations.is_orphaned(wait)
            })
        })
    }
}

impl Turn<'_> {
    /// Takes deliveries in order of arrival, letting timers that were due before each fire first.
    pub(crate) fn deliver(&mut self, deliveries: Vec<Delivery>) -> Result<Reply, Rejection> {
        let mut receipts = Vec::with_capacity(deliveries.len());
        for Delivery { at, arrival } in deliveries {
            // Whatever was due by the last record has gone off with it, so nothing that arrives
            // counts as earlier: a clock that was set back must not make a heartbeat's deadline
            // lie in the past.
            let at = at.min(self.now).max(self.execution.journal.last_at);
            self.settle(at)?;
            let accepted =
                self.execution
                    .check_arrival(self.env.keys, self.env.limits, at, &arrival);
            receipts.push(match accepted {
                Ok(()) => Ok(self.take(arrival, at)?),
                Err(refused) => Err(refused),
            });
        }
        self.settle(self.now)?;
        Ok(Reply::Delivered(receipts))
    }

    fn take(&mut self, arrival: Arrival, at: Timestamp) -> Result<Receipt, Rejection> {
        match arrival {
            Arrival::CallbackSucceeded {
                callback_id,
                result,
            } => {
                let index = self.callback(&callback_id, at)?;
                self.close(index, OperationStatus::Succeeded, result, None)?;
                Ok(self.taken(index))
            }
            Arrival::CallbackFailed { callback_id, error } => {
                let index = self.callback(&callback_id, at)?;
                self.close(index, OperationStatus::Failed, None, Some(error))?;
                Ok(self.taken(index))
            }
            Arrival::CallbackHeartbeat { callback_id } => {
                let index = self.callback(&callback_id, at)?;
                self.beat(index, at)?;
                Ok(self.taken(index))
            }
            Arrival::Signal { name, payload } => match self.execution.first_wait(&name, at) {
                Some(index) => {
                    self.close(index, OperationStatus::Succeeded, payload, None)?;
                    Ok(self.taken(index))
                }
                None => {
                    self.write(Change::SignalBuffered { name, payload })?;
                    Ok(Receipt::Buffered)
                }
            },
            Arrival::Invoked { operation, outcome } => self.take_outcome(operation, outcome),
        }
    }

    fn callback(&self, callback_id: &str, at: Timestamp) -> Result<u32, Rejection> {
        self.execution.open_callback(self.env.keys, at, callback_id)
    }

    fn taken(&self, index: u32) -> Receipt {
        let operation = self.execution.operations.get(index);
        operation.map_or(Receipt::Dropped, |operation| {
            Receipt::Taken(operation.id().clone())
        })
    }

    fn beat(&mut self, index: u32, at: Timestamp) -> Result<(), Rejection> {
        let operation = self.execution.operations.get(index);
        let Some(Detail::Callback {
            heartbeat_seconds: seconds @ 1..,
            ..
        }) = operation.map(|operation| &operation.detail)
        else {
            return Ok(());
        };
        let deadline = at.plus_seconds(*seconds);
        self.change(
            Subject::Known(index),
            OperationChange::Heartbeat { deadline },
        )
    }

    fn take_outcome(
        &mut self,
        id: OperationId,
        outcome: InvokeOutcome,
    ) -> Result<Receipt, Rejection> {
        let open = |operation: &Operation| !operation.status().is_terminal();
        let index = self.execution.operations.find(&id);
        let known = self.execution.operations.by_id(&id);
        let Some(index) = index.filter(|_| known.is_some_and(open)) else {
            return Ok(Receipt::Dropped);
        };
        if self.execution.status.is_terminal() {
            let intent = IntentKey::Invoke(id);
            if self.execution.is_outstanding(&intent) {
                self.write(Change::Acknowledged { intent })?;
            }
            return Ok(Receipt::Dropped);
        }
        let most = self.env.limits.payload_bytes_max;
        let (status, result, error) = match outcome {
            InvokeOutcome::Succeeded(Some(result)) if result.len() > most => {
                let error = ErrorObject {
                    error_message: Some(format!(
                        "the invoked function answered {} bytes, {most} are allowed",
                        result.len()
                    )),
                    ..ErrorObject::default()
                };
                (OperationStatus::Failed, None, Some(error))
            }
            InvokeOutcome::Succeeded(result) => (OperationStatus::Succeeded, result, None),
            InvokeOutcome::Failed(error) => (OperationStatus::Failed, None, Some(error)),
            InvokeOutcome::TimedOut(error) => (OperationStatus::TimedOut, None, Some(error)),
            InvokeOutcome::Stopped(error) => (OperationStatus::Stopped, None, Some(error)),
        };
        self.close(index, status, result, error)?;
        Ok(Receipt::Taken(id))
    }
}

fn check_bytes(what: &str, payload: Option<&Payload>, limits: &Quotas) -> Result<(), Rejection> {
    let bytes = payload.map_or(0, |payload| payload.len());
    let most = limits.payload_bytes_max;
    if bytes > most {
        return Err(Rejection::invalid(format!(
            "{what} too large: {bytes} bytes, {most} are allowed"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
