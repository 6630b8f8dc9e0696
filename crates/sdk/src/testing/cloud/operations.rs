//! Operations as a history tells them.
//!
//! A caller of the service sees only events. What cannot be told from them, such as an attempt that
//! is due and has not begun, is left as the last event says.

use outlast_core::{
    event::{Details, Event, RetryDetails},
    wire::{
        CallbackDetails, ErrorObject, ExecutionDetails, Operation, OperationStatus as Status,
        OperationType as Type, Payload, WaitDetails,
    },
};
use std::sync::Arc;

/// All operations, in the order they started.
pub(super) fn of(events: &[Event]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for event in events {
        let (Some(id), Some((kind, status))) = (&event.id, told(&event.details)) else {
            continue;
        };
        let known = operations.iter().position(|operation| operation.id == *id);
        let at = known.unwrap_or(operations.len());
        if known.is_none() {
            let mut new = Operation::new(id.clone(), kind, status, event.event_timestamp);
            new.parent_id.clone_from(&event.parent_id);
            new.name.clone_from(&event.name);
            new.sub_type.clone_from(&event.sub_type);
            operations.push(new);
        }
        if let Some(operation) = operations.get_mut(at) {
            operation.status = status;
            let ended = status.is_terminal().then_some(event.event_timestamp);
            operation.end_timestamp = ended;
            note(operation, &event.details);
        }
    }
    operations
}

/// The operation an event is about, and where it is since then.
fn told(details: &Details) -> Option<(Type, Status)> {
    let after = |next: Option<u32>, otherwise| match next {
        Some(_) => Status::Pending,
        None => otherwise,
    };
    Some(match details {
        Details::ExecutionStarted { .. } => (Type::Execution, Status::Started),
        Details::ExecutionSucceeded { .. } => (Type::Execution, Status::Succeeded),
        Details::ExecutionFailed { .. } => (Type::Execution, Status::Failed),
        Details::ExecutionTimedOut { .. } => (Type::Execution, Status::TimedOut),
        Details::ExecutionStopped { .. } => (Type::Execution, Status::Stopped),
        Details::ContextStarted {} => (Type::Context, Status::Started),
        Details::ContextSucceeded { .. } => (Type::Context, Status::Succeeded),
        Details::ContextFailed { .. } => (Type::Context, Status::Failed),
        Details::StepStarted {} => (Type::Step, Status::Started),
        Details::StepSucceeded { retry_details, .. } => {
            let next = retry_details.next_attempt_delay_seconds;
            (Type::Step, after(next, Status::Succeeded))
        }
        Details::StepFailed { retry_details, .. } => {
            let next = retry_details.next_attempt_delay_seconds;
            (Type::Step, after(next, Status::Failed))
        }
        Details::WaitStarted { .. } => (Type::Wait, Status::Started),
        Details::WaitSucceeded { .. } => (Type::Wait, Status::Succeeded),
        Details::WaitCancelled { .. } => (Type::Wait, Status::Cancelled),
        Details::CallbackStarted { .. } => (Type::Callback, Status::Started),
        Details::CallbackSucceeded { .. } => (Type::Callback, Status::Succeeded),
        Details::CallbackFailed { .. } => (Type::Callback, Status::Failed),
        Details::CallbackTimedOut { .. } => (Type::Callback, Status::TimedOut),
        Details::ChainedInvokeStarted { .. } => (Type::ChainedInvoke, Status::Started),
        Details::ChainedInvokeSucceeded { .. } => (Type::ChainedInvoke, Status::Succeeded),
        Details::ChainedInvokeFailed { .. } => (Type::ChainedInvoke, Status::Failed),
        Details::ChainedInvokeTimedOut { .. } => (Type::ChainedInvoke, Status::TimedOut),
        Details::ChainedInvokeStopped { .. } => (Type::ChainedInvoke, Status::Stopped),
        Details::InvocationCompleted { .. } => return None,
    })
}

/// What an event adds to its operation.
fn note(operation: &mut Operation, details: &Details) {
    match details {
        Details::ExecutionStarted { input, .. } => {
            operation.execution_details = Some(ExecutionDetails {
                input_payload: input.payload.clone(),
            });
        }
        Details::WaitStarted {
            scheduled_end_timestamp,
            ..
        } => {
            operation.wait_details = Some(WaitDetails {
                scheduled_end_timestamp: Some(*scheduled_end_timestamp),
            });
        }
        Details::CallbackStarted { callback_id, .. } => {
            operation.callback_details = Some(CallbackDetails {
                callback_id: Some(callback_id.clone()),
                ..CallbackDetails::default()
            });
        }
        Details::StepSucceeded {
            result,
            retry_details,
        } => {
            note_outcome(operation, result.payload.clone(), None);
            note_attempt(operation, retry_details);
        }
        Details::StepFailed {
            error,
            retry_details,
        } => {
            note_outcome(operation, None, error.payload.clone());
            note_attempt(operation, retry_details);
        }
        Details::ContextSucceeded { result }
        | Details::CallbackSucceeded { result }
        | Details::ChainedInvokeSucceeded { result } => {
            note_outcome(operation, result.payload.clone(), None);
        }
        Details::ContextFailed { error }
        | Details::CallbackFailed { error }
        | Details::CallbackTimedOut { error }
        | Details::ChainedInvokeFailed { error }
        | Details::ChainedInvokeTimedOut { error }
        | Details::ChainedInvokeStopped { error } => {
            note_outcome(operation, None, error.payload.clone());
        }
        Details::ExecutionSucceeded { .. }
        | Details::ExecutionFailed { .. }
        | Details::ExecutionTimedOut { .. }
        | Details::ExecutionStopped { .. }
        | Details::ContextStarted {}
        | Details::StepStarted {}
        | Details::WaitSucceeded { .. }
        | Details::WaitCancelled { .. }
        | Details::ChainedInvokeStarted { .. }
        | Details::InvocationCompleted { .. } => {}
    }
}

fn note_attempt(operation: &mut Operation, retry: &RetryDetails) {
    let known = operation.step_details.get_or_insert_default();
    known.attempt = retry.current_attempt;
}

fn note_outcome(operation: &mut Operation, result: Option<Payload>, error: Option<ErrorObject>) {
    let error = error.map(Arc::new);
    match operation.operation_type {
        Type::Context => {
            let known = operation.context_details.get_or_insert_default();
            (known.result, known.error) = (result, error);
        }
        Type::Step => {
            let known = operation.step_details.get_or_insert_default();
            (known.result, known.error) = (result, error);
        }
        Type::Callback => {
            let known = operation.callback_details.get_or_insert_default();
            (known.result, known.error) = (result, error);
        }
        Type::ChainedInvoke => {
            let known = operation.chained_invoke_details.get_or_insert_default();
            (known.result, known.error) = (result, error);
        }
        Type::Execution | Type::Wait => {}
    }
}
