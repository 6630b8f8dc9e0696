//! A backend without rules: it takes whatever comes, remembers it, and starts from any state.
//!
//! The test kit's backend is strict, so states that the service never produces, and failures at
//! start-up, need this one.

use outlast::{
    Function, Outcome, Request,
    backend::{Abilities, Backend, BackendError, BoxFuture},
    core::{
        id::Position,
        time::Timestamp,
        wire::{
            CheckpointRequest, CheckpointResponse, ExecutionDetails, InvocationInput, Operation,
            OperationAction, OperationStatus, OperationType, OperationUpdate, StatePage,
        },
    },
    invoke,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST/durable-execution/n/e1";

/// The backend.
pub(crate) struct Fake {
    pub(crate) abilities: Abilities,
    /// What the next reads of state answer; after that, empty pages.
    pub(crate) pages: Mutex<VecDeque<Result<StatePage, BackendError>>>,
    /// How long every write takes.
    pub(crate) latency: Duration,
    requests: Mutex<Vec<CheckpointRequest>>,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            abilities: Abilities::OUTLAST,
            pages: Mutex::default(),
            latency: Duration::ZERO,
            requests: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            in_flight_max: AtomicUsize::new(0),
        }
    }
}

impl Fake {
    /// What was written, request by request.
    pub(crate) fn written(&self) -> Vec<CheckpointRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// The most writes that were ever under way at the same time.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.in_flight_max.load(Ordering::Relaxed)
    }

    /// Invokes `function` once on recorded operations.
    pub(crate) async fn invoke(
        self: &Arc<Self>,
        function: &Function,
        recorded: Vec<Operation>,
    ) -> Outcome {
        self.invoke_with(function, recorded, None).await
    }

    /// Invokes `function` once; with a marker, more state is to be read.
    pub(crate) async fn invoke_with(
        self: &Arc<Self>,
        function: &Function,
        recorded: Vec<Operation>,
        marker: Option<&str>,
    ) -> Outcome {
        let mut execution = Operation::new(
            "e1".into(),
            OperationType::Execution,
            OperationStatus::Started,
            Timestamp::from_millis(1_000),
        );
        execution.execution_details = Some(ExecutionDetails {
            input_payload: Some("null".into()),
        });
        let mut operations = vec![execution];
        operations.extend(recorded);
        let input = InvocationInput {
            durable_execution_arn: ARN.into(),
            checkpoint_token: "token".to_owned(),
            initial_execution_state: StatePage {
                operations,
                next_marker: marker.map(str::to_owned),
            },
            updated_operation_ids: Vec::new(),
        };
        invoke(function, input, self.clone(), Request::default()).await
    }
}

/// An operation of the root context, as if it had been recorded.
pub(crate) fn recorded(
    number: u64,
    operation_type: OperationType,
    sub_type: &str,
    status: OperationStatus,
) -> Operation {
    let id = Position::root().child(number).id();
    let mut operation = Operation::new(id, operation_type, status, Timestamp::from_millis(2_000));
    operation.sub_type = Some(sub_type.into());
    if status.is_terminal() {
        operation.end_timestamp = Some(Timestamp::from_millis(3_000));
    }
    operation
}

fn applied(update: &OperationUpdate) -> Operation {
    let status = match update.action {
        OperationAction::Start => OperationStatus::Started,
        OperationAction::Succeed => OperationStatus::Succeeded,
        OperationAction::Fail => OperationStatus::Failed,
        OperationAction::Retry => OperationStatus::Pending,
        OperationAction::Cancel => OperationStatus::Cancelled,
    };
    let mut operation = Operation::new(
        update.id.clone(),
        update.operation_type,
        status,
        Timestamp::from_millis(2_000),
    );
    operation.name.clone_from(&update.name);
    operation.sub_type.clone_from(&update.sub_type);
    operation.parent_id.clone_from(&update.parent_id);
    if update.operation_type == OperationType::Step {
        let details = operation.step_details.get_or_insert_default();
        details.result.clone_from(&update.payload);
        details.error.clone_from(&update.error);
    }
    operation
}

impl Backend for Fake {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            self.in_flight_max.fetch_max(now, Ordering::Relaxed);
            let operations = request.updates.iter().map(applied).collect();
            self.requests.lock().unwrap().push(request);
            tokio::time::sleep(self.latency).await;
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            Ok(CheckpointResponse {
                checkpoint_token: Some("token".to_owned()),
                new_execution_state: StatePage {
                    operations,
                    next_marker: None,
                },
            })
        })
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        let page = self.pages.lock().unwrap().pop_front();
        Box::pin(async move { page.unwrap_or_else(|| Ok(StatePage::default())) })
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }
}
