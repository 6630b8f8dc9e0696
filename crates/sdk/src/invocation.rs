//! One invocation of a handler, from its input to its answer.
//!
//! Loads the recorded state, runs the handler under the [driver](crate::driver), and turns how it
//! ended into what the platform expects: a result, an error, PENDING, or a failed invocation.

use crate::{
    backend::{Abilities, Backend, BackendError, BoxFuture, SharedBackend},
    checkpoint::Delivery,
    config::{Config, Executor},
    context::{Context, Mode, Scope},
    driver::{Driver, Ending},
    error::Error,
    function::Function,
    lifecycle::{Fault, Lifecycle, Report, State, TerminationReason},
    plugin::{EndStatus, Hooks, InvocationEnd, InvocationInfo, OperationInfo},
};
use outlast_core::{
    id::{OperationId, Position},
    limits,
    replay::Mismatch,
    time::Timestamp,
    wire::{
        CheckpointRequest, ErrorObject, InvocationInput, InvocationOutput, Operation,
        OperationAction, OperationType, OperationUpdate, Payload, StatePage, error_type,
    },
};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::task::JoinSet;

/// What the platform says about an invocation.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Id of this invocation.
    pub request_id: Arc<str>,
    /// The tenant it runs for.
    pub tenant_id: Option<Arc<str>>,
    /// When the platform ends it.
    pub deadline: Option<Timestamp>,
    /// The trace that the execution was started from, as an `X-Amzn-Trace-Id` header.
    pub trace_header: Option<Arc<str>>,
    /// What AWS Lambda adds, when it runs there.
    pub lambda: Option<Arc<LambdaContext>>,
}

/// What AWS Lambda says about an invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LambdaContext {
    /// Id of this invocation.
    pub request_id: String,
    /// The function, as it was invoked.
    pub invoked_function_arn: String,
    /// The function's name.
    pub function_name: String,
    /// The function's version.
    pub function_version: String,
    /// The function's memory in MiB.
    pub memory_mib: i32,
    /// The trace header.
    pub trace_id: Option<String>,
    /// The caller's client context, as JSON text.
    pub client_context: Option<String>,
}

/// The invocation itself failed; the platform repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvocationError {
    /// What went wrong, as data.
    pub record: ErrorObject,
}

impl fmt::Display for InvocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the invocation failed: {}", self.record)
    }
}

impl std::error::Error for InvocationError {}

/// How an invocation ended, with what the lifecycle had to say about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The answer, or why there is none.
    pub answer: Result<InvocationOutput, InvocationError>,
    /// Why it suspended, if it did.
    pub reason: Option<TerminationReason>,
    /// The lifecycle at the moment it ended.
    pub report: Report,
    /// How many checkpoint requests it made.
    pub requests: u64,
    /// Recorded operations that the code did not come to; only known to the test kit.
    pub unmet: Vec<Arc<Operation>>,
}

/// What all code of one invocation shares.
pub(crate) struct Invocation {
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) arn: Arc<str>,
    pub(crate) execution_start: Timestamp,
    pub(crate) config: Arc<Config>,
    pub(crate) abilities: Abilities,
    pub(crate) request: Request,
    pub(crate) hooks: Hooks,
    /// Operations that changed while no handler was looking; only known where plugins are.
    pub(crate) updated: BTreeSet<OperationId>,
    /// Work spawned since the driver last looked, for the inline executor.
    pub(crate) inline: Mutex<Vec<BoxFuture<'static, ()>>>,
    /// Work spawned as tasks; none once the invocation is over.
    pub(crate) tasks: Mutex<Option<JoinSet<()>>>,
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invocation({})", self.arn)
    }
}

impl Invocation {
    /// Runs `future` in the background, owned by this invocation; drops it if that is over.
    pub(crate) fn spawn(&self, future: BoxFuture<'static, ()>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = tasks.as_mut() else { return };
        while tasks.try_join_next().is_some() {}
        match &self.config.executor {
            Executor::Tasks => drop(tasks.spawn(future)),
            Executor::Runtime(handle) => drop(tasks.spawn_on(future, handle)),
            Executor::Inline => {
                self.inline
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(future);
                self.lifecycle.with(State::notify_driver);
            }
        }
    }

    /// Shows a batch that is about to be sent to whoever watches.
    pub(crate) fn trace(&self, updates: &[OperationUpdate], deliveries: &[Delivery]) {
        if let Some(trace) = &self.config.trace {
            trace(updates, deliveries);
        }
    }

    /// Takes all spawned work away; what is spawned later is dropped at once.
    fn take_spawned(&self) -> Option<JoinSet<()>> {
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let inline =
            std::mem::take(&mut *self.inline.lock().unwrap_or_else(PoisonError::into_inner));
        drop(inline);
        tasks
    }

    /// Whether an operation is recorded at `position`, or, for a context without a record of its
    /// own, as its first child.
    pub(crate) fn has_record_at_or_below(&self, position: &Position) -> bool {
        self.lifecycle.with(|state| {
            state.journal.get(&position.id()).is_some()
                || state.journal.get(&position.child(1).id()).is_some()
        })
    }

    /// When to ask about a waiting operation for the first time, if at all in this invocation.
    pub(crate) fn first_poll(&self, record: &Operation) -> Option<Timestamp> {
        let due = record.due();
        if self.abilities.pushes_changes {
            // Nobody has to ask; but who stays in memory for a timer has to know when it is due.
            return due.filter(|_| !self.config.keep_alive.is_zero());
        }
        self.poll_at(due.unwrap_or_else(|| self.config.clock.now().plus_millis(1_000)))
    }

    /// When to ask again after `misses` answers without news.
    pub(crate) fn next_poll(&self, misses: u32) -> Option<Timestamp> {
        let delay = u64::try_from((self.config.polling)(misses).as_millis()).unwrap_or(u64::MAX);
        self.poll_at(self.config.clock.now().plus_millis(delay))
    }

    /// Polling stops a second before the platform ends the invocation, and is not needed where
    /// changes are pushed.
    fn poll_at(&self, at: Timestamp) -> Option<Timestamp> {
        let in_time = self
            .request
            .deadline
            .is_none_or(|deadline| at.plus_millis(1_000) <= deadline);
        (in_time && !self.abilities.pushes_changes).then_some(at)
    }
}

/// Runs one invocation of `function`.
///
/// This is what every home calls: the Lambda runtime, an engine's worker, the test kit.
pub async fn invoke(
    function: &Function,
    mut input: InvocationInput,
    backend: Arc<dyn Backend>,
    request: Request,
) -> Outcome {
    let backend = SharedBackend(backend);
    match load(&mut input, &backend).await {
        Ok(loaded) => run(function, input, loaded, backend, request).await,
        Err(answer) => Outcome {
            answer,
            reason: None,
            report: Report {
                why: "the recorded state could not be loaded".to_owned(),
                holders: Vec::new(),
                tree: String::new(),
            },
            requests: 0,
            unmet: Vec::new(),
        },
    }
}

type Answer = Result<InvocationOutput, InvocationError>;

/// The answer to a request that the backend refused.
fn refused(error: &BackendError, doing: &str) -> Answer {
    let record = ErrorObject::new(
        error
            .code
            .clone()
            .unwrap_or_else(|| "BackendError".to_owned()),
        format!("{doing}: {error}"),
    );
    if error.is_retryable() {
        Err(InvocationError { record })
    } else {
        Ok(InvocationOutput::failed(Some(record)))
    }
}

/// The error of an invocation that belongs to no execution.
pub(crate) fn not_durable() -> ErrorObject {
    let message = "the invocation carries no execution: this function is durable and must be invoked as one \
                   (check its durable configuration)";
    ErrorObject::new("NotDurableError", message)
}

/// The recorded state of an execution.
struct Loaded {
    execution: Operation,
    /// All operations, the execution's own included.
    operations: Vec<Operation>,
    /// Where the execution's own operation is among them.
    execution_at: usize,
}

/// Reads all pages of state and finds the execution's own operation in them.
async fn load(input: &mut InvocationInput, backend: &SharedBackend) -> Result<Loaded, Answer> {
    let arn = &input.durable_execution_arn;
    if arn.is_empty() || input.checkpoint_token.is_empty() {
        return Err(Err(InvocationError {
            record: not_durable(),
        }));
    }
    let StatePage {
        mut operations,
        next_marker,
    } = std::mem::take(&mut input.initial_execution_state);
    let mut marker = next_marker.unwrap_or_default();
    while !marker.is_empty() {
        let page = backend.0.state(arn, &input.checkpoint_token, &marker).await;
        let page = page.map_err(|error| refused(&error, "the recorded state could not be read"))?;
        operations.extend(page.operations);
        marker = page.next_marker.unwrap_or_default();
    }
    let execution_id = arn.rsplit('/').next().unwrap_or_default();
    let by_id = operations
        .iter()
        .position(|operation| operation.id.as_str() == execution_id);
    let found = by_id.or_else(|| {
        operations
            .iter()
            .position(|operation| operation.operation_type == OperationType::Execution)
    });
    let Some((execution_at, execution)) = found.and_then(|at| Some((at, operations.get(at)?)))
    else {
        let message = format!("the recorded state of {arn} does not contain the execution itself");
        return Err(Err(InvocationError {
            record: ErrorObject::new("ProtocolError", message),
        }));
    };
    Ok(Loaded {
        execution: execution.clone(),
        operations,
        execution_at,
    })
}

/// Runs the handler over loaded state and answers.
async fn run(
    function: &Function,
    input: InvocationInput,
    loaded: Loaded,
    backend: SharedBackend,
    request: Request,
) -> Outcome {
    let execution = loaded.execution.clone();
    let details = execution.execution_details.as_ref();
    let payload = details.and_then(|details| details.input_payload.clone());
    let updated = input.updated_operation_ids.clone();
    let (invocation, mode) = open(function, input, loaded, &backend, request);
    let leaving = Leaving(&invocation);
    let info = announce(&invocation, &updated, payload.clone());
    let scope = Scope::root(invocation.clone(), mode);
    let handler = (function.handler)(Context::new(scope.clone()), payload);
    let (ending, requests) = Driver::new(&invocation, &scope, &backend, handler)
        .run()
        .await;
    let watched = invocation.config.trace.is_some();
    let (report, unmet) = invocation.lifecycle.with(|state| {
        let unmet = state.journal.unmet().filter(|_| watched).cloned().collect();
        (state.report(), unmet)
    });
    let reason = match &ending {
        Ending::Suspended(reason) => Some(*reason),
        Ending::Returned(_) | Ending::Fault(_) => None,
    };
    if reason.is_some() {
        let arn = &*invocation.arn;
        tracing::debug!(executionArn = arn, why = report.why, "execution_suspended");
    }
    let answer = conclude(&invocation, ending, &execution, &backend).await;
    leaving.shut_down().await;
    announce_end(&invocation, &info, &answer);
    if invocation.request.lambda.is_some() {
        invocation.hooks.flush().await;
    }
    Outcome {
        answer,
        reason,
        report,
        requests,
        unmet,
    }
}

/// Sets up an invocation with what is recorded, and tells whether there is anything to replay.
fn open(
    function: &Function,
    input: InvocationInput,
    loaded: Loaded,
    backend: &SharedBackend,
    request: Request,
) -> (Arc<Invocation>, Mode) {
    let Loaded {
        execution,
        operations,
        execution_at,
    } = loaded;
    let hooks = function.config.plugins.create();
    let updated = match hooks.is_empty() {
        true => BTreeSet::new(),
        false => input.updated_operation_ids.into_iter().collect(),
    };
    let invocation = Arc::new(Invocation {
        lifecycle: Arc::new(Lifecycle::default()),
        arn: input.durable_execution_arn,
        execution_start: execution.start_timestamp,
        config: function.config.clone(),
        abilities: backend.0.abilities(),
        request,
        hooks,
        updated,
        inline: Mutex::default(),
        tasks: Mutex::new(Some(JoinSet::new())),
    });
    let (mode, event) = match operations.len() {
        0 | 1 => (Mode::Execution, "execution_started"),
        _ => (Mode::Replay, "execution_resumed"),
    };
    tracing::debug!(executionArn = &*invocation.arn, "{event}");
    invocation.lifecycle.with(|state| {
        state.token = input.checkpoint_token;
        state.journal.reserve(operations.len());
        for (at, operation) in operations.into_iter().enumerate() {
            if at != execution_at {
                state.load(operation);
            }
        }
    });
    (invocation, mode)
}

/// Tells the plugins that the invocation starts and what ended while nobody looked.
fn announce(
    invocation: &Invocation,
    updated: &[OperationId],
    input: Option<Payload>,
) -> Option<InvocationInfo> {
    if invocation.hooks.is_empty() {
        return None;
    }
    let (operations, updated_operations) = invocation.lifecycle.with(|state| {
        let operations: Vec<_> = state.journal.iter().cloned().collect();
        let updated: Vec<_> = updated
            .iter()
            .filter_map(|id| state.journal.get(id).cloned())
            .collect();
        (operations, updated)
    });
    let info = InvocationInfo {
        request_id: invocation.request.request_id.clone(),
        execution_arn: invocation.arn.clone(),
        is_first_invocation: operations.is_empty(),
        execution_start_timestamp: invocation.execution_start,
        operations,
        updated_operations,
        input,
        trace_header: invocation.request.trace_header.clone(),
    };
    invocation
        .hooks
        .each("invocation_start", |plugin| plugin.invocation_start(&info));
    for operation in info
        .updated_operations
        .iter()
        .filter(|operation| operation.status.is_terminal())
    {
        let ended = OperationInfo::from_record(operation, false);
        invocation
            .hooks
            .each("operation_end", |plugin| plugin.operation_end(&ended));
    }
    Some(info)
}

fn announce_end(invocation: &Invocation, info: &Option<InvocationInfo>, answer: &Answer) {
    let Some(info) = info else { return };
    let (status, result, error) = match answer {
        Err(failed) => (EndStatus::Retrying, None, Some(failed.record.clone())),
        Ok(output) => {
            use outlast_core::wire::InvocationStatus as Status;
            let status = match output.status {
                Status::Succeeded => EndStatus::Succeeded,
                Status::Failed => EndStatus::Failed,
                Status::Pending => EndStatus::Pending,
            };
            (status, output.result.clone(), output.error.clone())
        }
    };
    let end = InvocationEnd {
        status,
        result,
        error,
    };
    invocation
        .hooks
        .each("invocation_end", |plugin| plugin.invocation_end(info, &end));
}

/// The answer for how the handler ended.
async fn conclude(
    invocation: &Invocation,
    ending: Ending,
    execution: &Operation,
    backend: &SharedBackend,
) -> Answer {
    match ending {
        Ending::Suspended(_) => Ok(InvocationOutput::pending()),
        Ending::Fault(Fault::Superseded) => Ok(InvocationOutput::pending()),
        Ending::Fault(Fault::Execution(error)) => Ok(InvocationOutput::failed(Some(error))),
        Ending::Fault(Fault::Invocation(record)) => Err(InvocationError { record }),
        Ending::Fault(Fault::Mismatch(mismatch)) => mismatched(invocation, &mismatch),
        Ending::Returned(Ok(result)) => {
            if result.len() <= limits::RESPONSE_RESULT_BYTES_MAX {
                return Ok(InvocationOutput::succeeded(Some(result)));
            }
            let mut update = OperationUpdate::new(
                execution.id.clone(),
                OperationType::Execution,
                OperationAction::Succeed,
            );
            update.payload = Some(result);
            close(
                invocation,
                update,
                backend,
                InvocationOutput::succeeded(Some("".into())),
            )
            .await
        }
        Ending::Returned(Err(error)) => {
            let error = error.into_record();
            if error.bytes() <= limits::RESPONSE_RESULT_BYTES_MAX {
                return Ok(InvocationOutput::failed(Some(error)));
            }
            let mut update = OperationUpdate::new(
                execution.id.clone(),
                OperationType::Execution,
                OperationAction::Fail,
            );
            update.error = Some(Arc::new(error));
            close(invocation, update, backend, InvocationOutput::failed(None)).await
        }
    }
}

/// A mismatch is held for a fixed build where the engine can hold it, and fails elsewhere.
fn mismatched(invocation: &Invocation, mismatch: &Mismatch) -> Answer {
    let record = ErrorObject::new(error_type::REPLAY_MISMATCH, mismatch.to_string());
    if invocation.abilities.holds_mismatches && !invocation.config.fail_on_mismatch {
        Err(InvocationError { record })
    } else {
        Ok(InvocationOutput::failed(Some(record)))
    }
}

/// Closes the execution through a checkpoint, for results that do not fit the answer.
async fn close(
    invocation: &Invocation,
    update: OperationUpdate,
    backend: &SharedBackend,
    answer: InvocationOutput,
) -> Answer {
    let checkpoint_token = invocation.lifecycle.with(|state| state.token.clone());
    invocation.trace(std::slice::from_ref(&update), &[Delivery::Synchronous]);
    let request = CheckpointRequest {
        checkpoint_token,
        updates: vec![update],
        client_token: None,
    };
    // The answer to this request carries no token: the execution is closed, nothing was revoked.
    match backend.0.checkpoint(&invocation.arn, request).await {
        Ok(_) => Ok(answer),
        Err(error) => refused(&error, "the execution's large result could not be stored"),
    }
}

/// Leaves nothing of the invocation behind, also when it is dropped in the middle: a task that lived
/// on would run inside the next one, and keep itself alive through what it shares.
struct Leaving<'a>(&'a Invocation);

impl Leaving<'_> {
    /// Ends what still runs and waits until it is gone.
    async fn shut_down(self) {
        if let Some(mut tasks) = self.0.take_spawned() {
            tasks.shutdown().await;
        }
        let alive = self.0.lifecycle.with(|state| state.actors_alive());
        debug_assert_eq!(alive, 0, "actors outlived their invocation");
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        drop(self.0.take_spawned());
        self.0.lifecycle.with(State::end);
    }
}

/// The error of a handler's return value, for reading.
pub(crate) type HandlerResult = Result<Payload, Error>;
