//! The history people and tests read: events, projected from records.
//!
//! An event is one record in the service's words. Names and labels come from the fold, so an event
//! can be made from its own record alone; pages can be cut from any part of a journal.

use crate::{
    error::{Code, Rejection},
    event::{Details, Event, RetryDetails, Wrapped},
    execution::Execution,
    id::hex,
    operation::Operation,
    record::{Change, Load, OperationChange, Record, Starting, Subject},
    state::page_items,
    time::Timestamp,
    token::unhex,
    wire::{ErrorObject, ExecutionStatus, OperationStatus, OperationType, Payload},
};
use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};
use serde::{Deserialize, Serialize};

/// Which part of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// Where the page before ended.
    pub marker: Option<&'a str>,
    /// Most events on the page; 0 or absent for the default.
    pub max_items: Option<u32>,
    /// Newest first.
    pub reverse_order: bool,
    /// Leave payloads and errors out.
    pub omit_data: bool,
}

/// A page of events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Page {
    /// The events.
    pub events: Vec<Event>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

impl Execution {
    /// Which events a page may hold, first and last by number: what an engine has to read for it.
    /// None if the page is empty.
    ///
    /// # Errors
    /// When the marker or the number of items is not acceptable.
    pub fn history_range(&self, query: Query<'_>) -> Result<Option<(u64, u64)>, Rejection> {
        let items = page_items(query.max_items)? as u64;
        let first = self.history_first(query)?;
        let events = self.journal.events;
        if !(1..=events).contains(&first) {
            return Ok(None);
        }
        Ok(Some(if query.reverse_order {
            (first.saturating_sub(items).max(1), first)
        } else {
            (first, first.saturating_add(items).min(events))
        }))
    }

    /// The event a page begins with.
    fn history_first(&self, query: Query<'_>) -> Result<u64, Rejection> {
        match query.marker {
            None | Some("") if query.reverse_order => Ok(self.journal.events),
            None | Some("") => Ok(1),
            Some(marker) => read_marker(marker, query.reverse_order),
        }
    }

    /// A page of the history. `records` is the journal, or a gapless part of it that holds the page.
    ///
    /// # Errors
    /// When the marker or the number of items is not acceptable, or a payload cannot be read.
    pub fn history(
        &self,
        records: &[Record],
        query: Query<'_>,
        load: Load<'_>,
    ) -> Result<Page, Rejection> {
        let items = page_items(query.max_items)?;
        let reverse = query.reverse_order;
        let first = self.history_first(query)?;
        let mut page = Page::default();
        let mut bytes = 0usize;
        let mut next = first;
        while (1..=self.journal.events).contains(&next) {
            let Some(record) = find(records, next) else {
                break;
            };
            bytes = bytes.saturating_add(record_bytes(record));
            let full = page.events.len() >= items || bytes > crate::limits::PAGE_BYTES_MAX;
            if full && !page.events.is_empty() {
                break;
            }
            page.events
                .extend(self.event(record, query.omit_data, load)?);
            next = if reverse { next - 1 } else { next + 1 };
        }
        if (1..=self.journal.events).contains(&next) {
            page.next_marker = Some(marker(next, reverse));
        }
        Ok(page)
    }

    /// The event of one record, if it makes one.
    ///
    /// # Errors
    /// When it shows the payload of another record, which is neither in memory nor found by `load`.
    pub fn event(
        &self,
        record: &Record,
        omit_data: bool,
        load: Load<'_>,
    ) -> Result<Option<Event>, Rejection> {
        let wrap = Wrap { omit_data };
        let Some((operation, details)) = self.project(record, wrap) else {
            return Ok(None);
        };
        let details = match (&record.change, operation) {
            // The payload lies in the record of the signal; the closed operation refers to it.
            (
                Change::Operation {
                    change: OperationChange::SignalTaken,
                    ..
                },
                Some(operation),
            ) if !omit_data => {
                let held = operation.result.as_ref();
                let payload = held.map(|held| held.read(load)).transpose()?;
                Details::CallbackSucceeded {
                    result: wrap.payload(payload.as_ref()),
                }
            }
            _ => details,
        };
        let identity = operation.map(|operation| &operation.identity);
        Ok(Some(Event {
            event_type: details.event_type(),
            event_id: record.events,
            event_timestamp: record.at,
            id: identity.map(|identity| identity.id.clone()),
            name: identity.and_then(|identity| identity.name.clone()),
            sub_type: identity.and_then(|identity| identity.sub_type.clone()),
            parent_id: identity.and_then(|identity| identity.parent.clone()),
            details,
        }))
    }

    fn project(&self, record: &Record, wrap: Wrap) -> Option<(Option<&Operation>, Details)> {
        Some(match &record.change {
            Change::ExecutionStarted { profile, input } => (
                self.operations.get(0),
                Details::ExecutionStarted {
                    input: wrap.payload(Some(input)),
                    execution_timeout: profile.config.execution_timeout,
                },
            ),
            Change::ExecutionClosed {
                status,
                result,
                error,
            } => (
                self.operations.get(0),
                end_details(*status, result.as_ref(), error.as_deref(), wrap)?,
            ),
            Change::InvocationCompleted {
                invocation,
                started,
                error,
                ..
            } => (
                None,
                Details::InvocationCompleted {
                    start_timestamp: *started,
                    end_timestamp: record.at,
                    request_id: invocation.clone(),
                    error: error.as_deref().map(|error| wrap.error(Some(error))),
                },
            ),
            Change::Operation { subject, change } => {
                let operation = match subject {
                    Subject::Known(index) => self.operations.get(*index)?,
                    Subject::New(identity) => self.operations.by_id(&identity.id)?,
                };
                let details = operation_details(operation, change, record.at, wrap)?;
                (Some(operation), details)
            }
            Change::InvocationStarted { .. }
            | Change::InvocationDropped { .. }
            | Change::Checkpointed { .. }
            | Change::SignalBuffered { .. }
            | Change::Acknowledged { .. }
            | Change::Held { .. }
            | Change::Resumed => return None,
        })
    }
}

#[derive(Clone, Copy)]
struct Wrap {
    omit_data: bool,
}

impl Wrap {
    fn payload(self, value: Option<&Payload>) -> Wrapped<Payload> {
        Wrapped {
            payload: value.filter(|_| !self.omit_data).cloned(),
            truncated: self.omit_data,
        }
    }

    fn error(self, value: Option<&ErrorObject>) -> Wrapped<ErrorObject> {
        Wrapped {
            payload: value.filter(|_| !self.omit_data).cloned(),
            truncated: self.omit_data,
        }
    }
}

fn end_details(
    status: ExecutionStatus,
    result: Option<&Payload>,
    error: Option<&ErrorObject>,
    wrap: Wrap,
) -> Option<Details> {
    let error = wrap.error(error);
    Some(match status {
        ExecutionStatus::Running => return None,
        ExecutionStatus::Succeeded => Details::ExecutionSucceeded {
            result: wrap.payload(result),
        },
        ExecutionStatus::Failed => Details::ExecutionFailed { error },
        ExecutionStatus::TimedOut => Details::ExecutionTimedOut { error },
        ExecutionStatus::Stopped => Details::ExecutionStopped { error },
    })
}

fn operation_details(
    operation: &Operation,
    change: &OperationChange,
    at: Timestamp,
    wrap: Wrap,
) -> Option<Details> {
    match change {
        OperationChange::Started(starting) => Some(started_details(starting, at, wrap)),
        OperationChange::Retried {
            result,
            error,
            attempt,
            delay_seconds,
        } => {
            let retry_details = RetryDetails {
                current_attempt: *attempt,
                next_attempt_delay_seconds: Some(*delay_seconds),
            };
            Some(match error {
                Some(error) => Details::StepFailed {
                    error: wrap.error(Some(error)),
                    retry_details,
                },
                None => Details::StepSucceeded {
                    result: wrap.payload(result.as_ref()),
                    retry_details,
                },
            })
        }
        OperationChange::Closed {
            status,
            result,
            error,
            attempt,
            ..
        } => {
            let result = wrap.payload(result.as_ref());
            let error = error.as_deref();
            closed_details(operation, *status, *attempt, result, error, wrap)
        }
        OperationChange::SignalTaken => Some(Details::CallbackSucceeded {
            result: wrap.payload(None),
        }),
        OperationChange::Ready | OperationChange::Heartbeat { .. } => None,
    }
}

fn started_details(starting: &Starting, at: Timestamp, wrap: Wrap) -> Details {
    let unless_zero = |seconds: u32| (seconds > 0).then_some(seconds);
    match starting {
        Starting::Context => Details::ContextStarted {},
        Starting::Step => Details::StepStarted {},
        Starting::Wait { seconds } => Details::WaitStarted {
            duration: *seconds,
            scheduled_end_timestamp: at.plus_seconds(*seconds),
        },
        Starting::Callback {
            callback_id,
            timeout_seconds,
            heartbeat_seconds,
        } => Details::CallbackStarted {
            callback_id: callback_id.clone(),
            timeout: unless_zero(*timeout_seconds),
            heartbeat_timeout: unless_zero(*heartbeat_seconds),
        },
        Starting::Invoke(start) => {
            let target = start.target.as_ref();
            Details::ChainedInvokeStarted {
                function_name: start.function_name.clone(),
                tenant_id: start.tenant.clone(),
                input: target.map(|_| wrap.payload(start.input.as_ref())),
                executed_version: target.map(|target| target.version().clone()),
                durable_execution_arn: target
                    .and_then(|target| target.child())
                    .map(|child| child.to_string()),
            }
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the six parts of one recorded change, used once"
)]
fn closed_details(
    operation: &Operation,
    status: OperationStatus,
    attempt: u32,
    result: Wrapped<Payload>,
    cause: Option<&ErrorObject>,
    wrap: Wrap,
) -> Option<Details> {
    use OperationStatus as Status;
    use OperationType as Type;
    let error = wrap.error(cause);
    let retry_details = RetryDetails {
        current_attempt: attempt,
        next_attempt_delay_seconds: None,
    };
    Some(match (operation.operation_type(), status) {
        (Type::Context, Status::Succeeded) => Details::ContextSucceeded { result },
        (Type::Context, Status::Failed) => Details::ContextFailed { error },
        (Type::Step, Status::Succeeded) => Details::StepSucceeded {
            result,
            retry_details,
        },
        (Type::Step, Status::Failed) => Details::StepFailed {
            error,
            retry_details,
        },
        (Type::Wait, Status::Succeeded) => Details::WaitSucceeded {
            duration: operation.wait_seconds(),
        },
        (Type::Wait, Status::Cancelled) => Details::WaitCancelled {
            error: cause.map(|_| error),
        },
        (Type::Callback, Status::Succeeded) => Details::CallbackSucceeded { result },
        (Type::Callback, Status::Failed) => Details::CallbackFailed { error },
        (Type::Callback, Status::TimedOut) => Details::CallbackTimedOut { error },
        (Type::ChainedInvoke, Status::Succeeded) => Details::ChainedInvokeSucceeded { result },
        (Type::ChainedInvoke, Status::Failed) => Details::ChainedInvokeFailed { error },
        (Type::ChainedInvoke, Status::TimedOut) => Details::ChainedInvokeTimedOut { error },
        (Type::ChainedInvoke, Status::Stopped) => Details::ChainedInvokeStopped { error },
        _ => return None,
    })
}

/// The record that makes event number `event`.
fn find(records: &[Record], event: u64) -> Option<&Record> {
    let at = records.partition_point(|record| record.events < event);
    records
        .get(at)
        .filter(|record| record.events == event && record.change.is_event())
}

fn record_bytes(record: &Record) -> usize {
    usize::try_from(record.change.bytes())
        .unwrap_or(usize::MAX)
        .saturating_add(crate::limits::OPERATION_ENVELOPE_BYTES)
}

/// A marker names the next event and the direction, so it stays valid while events are appended.
fn marker(next: u64, reverse: bool) -> String {
    let mut bytes = alloc::vec![u8::from(reverse)];
    bytes.extend(next.to_be_bytes());
    hex(&bytes)
}

fn read_marker(marker: &str, reverse: bool) -> Result<u64, Rejection> {
    let read = || {
        let bytes = unhex(marker)?;
        let (direction, next) = bytes.split_first()?;
        (*direction == u8::from(reverse)).then_some(u64::from_be_bytes(next.try_into().ok()?))
    };
    read().ok_or_else(|| Rejection::new(Code::InvalidParameterValue, "invalid marker"))
}

#[cfg(test)]
mod tests;
