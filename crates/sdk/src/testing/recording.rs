//! What an execution recorded, as a value that can be stored: the input of a replay check.

use super::TestRun;
use outlast_core::{
    event::{Details, Event, RetryDetails, Wrapped},
    wire::{
        ErrorObject, ExecutionDetails, ExecutionStatus, Operation, OperationStatus, OperationType,
        Payload,
    },
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What an execution recorded: everything that a replay needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Recording {
    /// The execution.
    pub execution_arn: Arc<str>,
    /// Its operations, the execution itself first.
    pub operations: Vec<Operation>,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Its error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
    /// Whether it has ended.
    #[serde(default)]
    pub ended: bool,
}

impl Recording {
    /// What a test run recorded.
    pub fn of(run: &TestRun) -> Self {
        Self {
            execution_arn: run.arn().into(),
            operations: run.operations().to_vec(),
            result: run.raw_result().map(Into::into),
            error: run.error().cloned(),
            ended: run.status() != ExecutionStatus::Running,
        }
    }

    /// What a history in the service's format tells. It lacks which contexts replay their children;
    /// one that succeeded with an empty or summarised result is taken for one, which is harmless if
    /// it was not: its body then runs over its own records.
    pub fn from_history(execution_arn: &str, events: &[Event]) -> Self {
        let mut recording = Self {
            execution_arn: execution_arn.into(),
            operations: Vec::new(),
            result: None,
            error: None,
            ended: false,
        };
        for event in events {
            recording.add(event);
        }
        for operation in &mut recording.operations {
            if let Some(details) = operation.context_details.as_mut() {
                let stripped = details.result.as_deref().is_some_and(|text| {
                    text.is_empty()
                        || text.contains("\"itemStatuses\"")
                        || text.starts_with("{\"winner\":")
                });
                details.replay_children =
                    operation.status == OperationStatus::Succeeded && stripped;
            }
        }
        recording
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "`closing` has taken all others"
    )]
    fn add(&mut self, event: &Event) {
        if let Some(closed) = closing(&event.details) {
            return self.close(event, closed);
        }
        match &event.details {
            Details::ExecutionStarted { input, .. } => {
                let mut operation = open(event, OperationType::Execution);
                operation.execution_details = Some(ExecutionDetails {
                    input_payload: input.payload.clone(),
                });
                self.operations.push(operation);
            }
            Details::ExecutionSucceeded { result } => {
                (self.ended, self.result) = (true, result.payload.clone());
            }
            Details::ExecutionFailed { error } | Details::ExecutionStopped { error } => {
                (self.ended, self.error) = (true, error.payload.clone());
            }
            Details::ExecutionTimedOut { .. } => self.ended = true,
            Details::ContextStarted {} => {
                self.begin(event, OperationType::Context);
            }
            Details::StepStarted {} => {
                self.begin(event, OperationType::Step);
            }
            Details::ChainedInvokeStarted { .. } => {
                self.begin(event, OperationType::ChainedInvoke);
            }
            Details::WaitStarted {
                scheduled_end_timestamp,
                ..
            } => {
                if let Some(operation) = self.begin(event, OperationType::Wait) {
                    let details = operation.wait_details.get_or_insert_default();
                    details.scheduled_end_timestamp = Some(*scheduled_end_timestamp);
                }
            }
            Details::CallbackStarted { callback_id, .. } => {
                if let Some(operation) = self.begin(event, OperationType::Callback) {
                    let details = operation.callback_details.get_or_insert_default();
                    details.callback_id = Some(callback_id.clone());
                }
            }
            _ => {}
        }
    }

    /// The operation of an event, which has begun (again).
    fn begin(&mut self, event: &Event, operation_type: OperationType) -> Option<&mut Operation> {
        let known = |operation: &Operation| Some(&operation.id) == event.id.as_ref();
        let at = self.operations.iter().position(known);
        let at = at.unwrap_or_else(|| {
            self.operations.push(open(event, operation_type));
            self.operations.len() - 1
        });
        let operation = self.operations.get_mut(at)?;
        operation.status = OperationStatus::Started;
        Some(operation)
    }

    fn close(&mut self, event: &Event, closed: Closed) {
        let Some(operation) = self.begin(event, closed.operation_type) else {
            return;
        };
        operation.status = closed.status;
        operation.end_timestamp = Some(event.event_timestamp);
        if let Some(attempt) = closed.attempt {
            operation.step_details.get_or_insert_default().attempt = attempt;
        }
        store(operation, closed.result, closed.error);
    }
}

fn open(event: &Event, operation_type: OperationType) -> Operation {
    let id = event.id.clone().unwrap_or_else(|| "".into());
    let mut operation = Operation::new(
        id,
        operation_type,
        OperationStatus::Started,
        event.event_timestamp,
    );
    operation.name.clone_from(&event.name);
    operation.sub_type.clone_from(&event.sub_type);
    operation.parent_id.clone_from(&event.parent_id);
    operation
}

/// How an event ends an operation, or an attempt of a step.
struct Closed {
    operation_type: OperationType,
    status: OperationStatus,
    attempt: Option<u32>,
    result: Option<Payload>,
    error: Option<ErrorObject>,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other events close nothing"
)]
fn closing(details: &Details) -> Option<Closed> {
    use OperationStatus as Status;
    use OperationType as Type;
    let closed = |operation_type, status| Closed {
        operation_type,
        status,
        attempt: None,
        result: None,
        error: None,
    };
    let good = |operation_type, result: &Wrapped<Payload>| Closed {
        result: result.payload.clone(),
        ..closed(operation_type, Status::Succeeded)
    };
    let bad = |operation_type, status, error: &Wrapped<ErrorObject>| Closed {
        error: error.payload.clone(),
        ..closed(operation_type, status)
    };
    Some(match details {
        Details::StepSucceeded {
            result,
            retry_details,
        } => good(Type::Step, result).attempt(retry_details),
        Details::StepFailed {
            error,
            retry_details,
        } => bad(Type::Step, Status::Failed, error).attempt(retry_details),
        Details::ContextSucceeded { result } => good(Type::Context, result),
        Details::ContextFailed { error } => bad(Type::Context, Status::Failed, error),
        Details::CallbackSucceeded { result } => good(Type::Callback, result),
        Details::CallbackFailed { error } => bad(Type::Callback, Status::Failed, error),
        Details::CallbackTimedOut { error } => bad(Type::Callback, Status::TimedOut, error),
        Details::ChainedInvokeSucceeded { result } => good(Type::ChainedInvoke, result),
        Details::ChainedInvokeFailed { error } => bad(Type::ChainedInvoke, Status::Failed, error),
        Details::ChainedInvokeTimedOut { error } => {
            bad(Type::ChainedInvoke, Status::TimedOut, error)
        }
        Details::ChainedInvokeStopped { error } => bad(Type::ChainedInvoke, Status::Stopped, error),
        Details::WaitSucceeded { .. } => closed(Type::Wait, Status::Succeeded),
        Details::WaitCancelled { .. } => closed(Type::Wait, Status::Cancelled),
        _ => return None,
    })
}

impl Closed {
    /// This is the end of an attempt, and of the step unless another one follows: its delay has
    /// passed by the time anybody replays the recording.
    fn attempt(self, retry: &RetryDetails) -> Self {
        let again = retry.next_attempt_delay_seconds.is_some();
        let status = if again {
            OperationStatus::Ready
        } else {
            self.status
        };
        Self {
            status,
            attempt: Some(retry.current_attempt),
            ..self
        }
    }
}

fn store(operation: &mut Operation, result: Option<Payload>, error: Option<ErrorObject>) {
    let error = error.map(Arc::new);
    match operation.operation_type {
        OperationType::Step => {
            let details = operation.step_details.get_or_insert_default();
            (details.result, details.error) = (result, error);
        }
        OperationType::Context => {
            let details = operation.context_details.get_or_insert_default();
            (details.result, details.error) = (result, error);
        }
        OperationType::Callback => {
            let details = operation.callback_details.get_or_insert_default();
            (details.result, details.error) = (result, error);
        }
        OperationType::ChainedInvoke => {
            let details = operation.chained_invoke_details.get_or_insert_default();
            (details.result, details.error) = (result, error);
        }
        OperationType::Wait | OperationType::Execution => {}
    }
}
