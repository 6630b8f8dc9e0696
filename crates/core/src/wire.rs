//! The service's shapes: what travels between a handler and its backend.
//!
//! The only place that names wire fields. Payloads are opaque text, shared and never re-encoded.

use crate::{id::OperationId, time::Timestamp};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Payload text as the user's codec produced it. The service never looks inside.
pub type Payload = Arc<str>;

/// What kind of durable unit an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationType {
    /// The execution itself; exactly one per execution, created by the service.
    Execution,
    /// A child context, a batch, a batch item, a combinator.
    Context,
    /// A step or a polled condition: user code with attempts.
    Step,
    /// A durable timer.
    Wait,
    /// A reply from outside, identified by a callback id (or a signal, by name).
    Callback,
    /// Another function invoked on behalf of this execution.
    ChainedInvoke,
}

/// What a handler asks the service to do with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationAction {
    /// Begin the operation, or the next attempt of a step.
    Start,
    /// Close it with a result.
    Succeed,
    /// Close it with an error.
    Fail,
    /// Finish this attempt of a step and schedule the next.
    Retry,
    /// Close a wait before it is due.
    Cancel,
}

/// Where an operation is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationStatus {
    /// Begun; user code runs, or an outside event is awaited.
    Started,
    /// A step that waits for its next attempt.
    Pending,
    /// A step whose next attempt may begin.
    Ready,
    /// Closed with a result.
    Succeeded,
    /// Closed with an error.
    Failed,
    /// Closed because the handler cancelled it.
    Cancelled,
    /// Closed because its time ran out.
    TimedOut,
    /// Closed because its target was stopped.
    Stopped,
}

impl OperationStatus {
    /// Whether the operation can never change again.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Started | Self::Pending | Self::Ready => false,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut | Self::Stopped => {
                true
            }
        }
    }
}

/// Where an execution is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    /// Not yet closed.
    Running,
    /// Closed with a result.
    Succeeded,
    /// Closed with an error.
    Failed,
    /// Closed because its time ran out.
    TimedOut,
    /// Closed from outside.
    Stopped,
}

impl ExecutionStatus {
    /// Whether the execution can never change again.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Running)
    }

    /// The status of the EXECUTION operation of such an execution.
    pub const fn of_operation(self) -> OperationStatus {
        match self {
            Self::Running => OperationStatus::Started,
            Self::Succeeded => OperationStatus::Succeeded,
            Self::Failed => OperationStatus::Failed,
            Self::TimedOut => OperationStatus::TimedOut,
            Self::Stopped => OperationStatus::Stopped,
        }
    }
}

macro_rules! display_as_wire_text {
    ($type:ty { $($variant:ident => $text:literal),+ $(,)? }) => {
        impl $type {
            /// The value as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

display_as_wire_text!(OperationType {
    Execution => "EXECUTION", Context => "CONTEXT", Step => "STEP", Wait => "WAIT",
    Callback => "CALLBACK", ChainedInvoke => "CHAINED_INVOKE",
});
display_as_wire_text!(OperationAction {
    Start => "START", Succeed => "SUCCEED", Fail => "FAIL", Retry => "RETRY", Cancel => "CANCEL",
});
display_as_wire_text!(OperationStatus {
    Started => "STARTED", Pending => "PENDING", Ready => "READY", Succeeded => "SUCCEEDED",
    Failed => "FAILED", Cancelled => "CANCELLED", TimedOut => "TIMED_OUT", Stopped => "STOPPED",
});

display_as_wire_text!(ExecutionStatus {
    Running => "RUNNING", Succeeded => "SUCCEEDED", Failed => "FAILED", TimedOut => "TIMED_OUT",
    Stopped => "STOPPED",
});

/// The labels SDKs put on operations. The service interprets none but [`sub_type::SIGNAL`].
pub mod sub_type {
    /// A step.
    pub const STEP: &str = "Step";
    /// A polled condition.
    pub const WAIT_FOR_CONDITION: &str = "WaitForCondition";
    /// A timer.
    pub const WAIT: &str = "Wait";
    /// A callback.
    pub const CALLBACK: &str = "Callback";
    /// Outlast's own: a callback completed by name instead of by id.
    pub const SIGNAL: &str = "Signal";
    /// An invoked function.
    pub const CHAINED_INVOKE: &str = "ChainedInvoke";
    /// A child context.
    pub const RUN_IN_CHILD_CONTEXT: &str = "RunInChildContext";
    /// A callback with its submitter.
    pub const WAIT_FOR_CALLBACK: &str = "WaitForCallback";
    /// A map.
    pub const MAP: &str = "Map";
    /// One item (or chunk) of a map.
    pub const MAP_ITERATION: &str = "MapIteration";
    /// A parallel.
    pub const PARALLEL: &str = "Parallel";
    /// One branch of a parallel.
    pub const PARALLEL_BRANCH: &str = "ParallelBranch";
}

/// An error as data: what went wrong in user code, recorded and carried across replays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ErrorObject {
    /// Name of the error's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Opaque data of the error; Outlast keeps a typed error here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_data: Option<String>,
    /// Stack frames or causes, outermost first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<Vec<String>>,
}

impl ErrorObject {
    /// An error of the given type and message.
    pub fn new(error_type: impl Into<String>, error_message: impl Into<String>) -> Self {
        Self {
            error_type: Some(error_type.into()),
            error_message: Some(error_message.into()),
            ..Self::default()
        }
    }

    /// UTF-8 bytes of all fields together, the measure of the service's limit.
    pub fn bytes(&self) -> usize {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let frames: usize = self.stack_trace.iter().flatten().map(String::len).sum();
        len(&self.error_type) + len(&self.error_message) + len(&self.error_data) + frames
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error_type, &self.error_message) {
            (Some(kind), Some(message)) => write!(f, "{kind}: {message}"),
            (Some(text), None) | (None, Some(text)) => f.write_str(text),
            (None, None) => f.write_str("no error details were given"),
        }
    }
}

/// One element of a checkpoint request: a requested transition of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OperationUpdate {
    /// Which operation.
    pub id: OperationId,
    /// The context it belongs to; absent for operations of the root context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<OperationId>,
    /// The name its author gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its type.
    #[serde(rename = "Type")]
    pub operation_type: OperationType,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_type: Option<Arc<str>>,
    /// What to do.
    pub action: OperationAction,
    /// Result of a SUCCEED, state of a condition's RETRY, input of an invoke's START.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// Error of a FAIL or RETRY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<ErrorObject>>,
    /// Options of a closing CONTEXT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_options: Option<ContextOptions>,
    /// Options of a step's RETRY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_options: Option<StepOptions>,
    /// Options of a WAIT's START.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_options: Option<WaitOptions>,
    /// Options of a CALLBACK's START.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_options: Option<CallbackOptions>,
    /// Options of a CHAINED_INVOKE's START.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chained_invoke_options: Option<ChainedInvokeOptions>,
}

impl OperationUpdate {
    /// An update with nothing but identity, type and action.
    pub fn new(id: OperationId, operation_type: OperationType, action: OperationAction) -> Self {
        Self {
            id,
            parent_id: None,
            name: None,
            operation_type,
            sub_type: None,
            action,
            payload: None,
            error: None,
            context_options: None,
            step_options: None,
            wait_options: None,
            callback_options: None,
            chained_invoke_options: None,
        }
    }

    /// Bytes this update adds to a request, close enough for the batch limit.
    pub fn bytes(&self) -> usize {
        const ENVELOPE: usize = 200;
        ENVELOPE
            + self.id.as_str().len()
            + self.parent_id.as_ref().map_or(0, |id| id.as_str().len())
            + self.name.as_ref().map_or(0, |name| name.len())
            + self.payload.as_ref().map_or(0, |payload| payload.len())
            + self.error.as_ref().map_or(0, |error| error.bytes())
    }
}

/// How a closed context is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContextOptions {
    /// The result was too large to store: replay rebuilds it by running the body over its children.
    #[serde(default)]
    pub replay_children: bool,
}

/// When the next attempt of a step may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StepOptions {
    /// Delay from now, in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_delay_seconds: Option<u32>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct WaitOptions {
    /// Duration in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u32>,
}

/// How long to wait for a callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CallbackOptions {
    /// Seconds until the callback times out; 0 or absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Seconds that may pass between heartbeats; 0 or absent means any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout_seconds: Option<u32>,
}

/// Which function to invoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ChainedInvokeOptions {
    /// Name or ARN, as the caller wrote it.
    pub function_name: String,
    /// Tenant to invoke it for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Trace header to pass on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_amzn_trace_id: Option<String>,
}

/// An operation as the service shows it to a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// The context it belongs to; absent at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<OperationId>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its type.
    #[serde(rename = "Type")]
    pub operation_type: OperationType,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_type: Option<Arc<str>>,
    /// Where it is in its life.
    pub status: OperationStatus,
    /// When it was first started.
    pub start_timestamp: Timestamp,
    /// When it became terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_timestamp: Option<Timestamp>,
    /// Details of the EXECUTION operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_details: Option<ExecutionDetails>,
    /// Details of a CONTEXT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_details: Option<ContextDetails>,
    /// Details of a STEP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_details: Option<StepDetails>,
    /// Details of a WAIT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_details: Option<WaitDetails>,
    /// Details of a CALLBACK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_details: Option<CallbackDetails>,
    /// Details of a CHAINED_INVOKE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chained_invoke_details: Option<ChainedInvokeDetails>,
}

impl Operation {
    /// An operation without details.
    pub fn new(
        id: OperationId,
        operation_type: OperationType,
        status: OperationStatus,
        start: Timestamp,
    ) -> Self {
        Self {
            id,
            parent_id: None,
            name: None,
            operation_type,
            sub_type: None,
            status,
            start_timestamp: start,
            end_timestamp: None,
            execution_details: None,
            context_details: None,
            step_details: None,
            wait_details: None,
            callback_details: None,
            chained_invoke_details: None,
        }
    }

    /// The recorded result, whatever the type.
    pub fn result(&self) -> Option<&Payload> {
        match self.operation_type {
            OperationType::Execution | OperationType::Wait => None,
            OperationType::Context => self.context_details.as_ref()?.result.as_ref(),
            OperationType::Step => self.step_details.as_ref()?.result.as_ref(),
            OperationType::Callback => self.callback_details.as_ref()?.result.as_ref(),
            OperationType::ChainedInvoke => self.chained_invoke_details.as_ref()?.result.as_ref(),
        }
    }

    /// The recorded error, whatever the type.
    pub fn error(&self) -> Option<&ErrorObject> {
        match self.operation_type {
            OperationType::Execution | OperationType::Wait => None,
            OperationType::Context => self.context_details.as_ref()?.error.as_deref(),
            OperationType::Step => self.step_details.as_ref()?.error.as_deref(),
            OperationType::Callback => self.callback_details.as_ref()?.error.as_deref(),
            OperationType::ChainedInvoke => self.chained_invoke_details.as_ref()?.error.as_deref(),
        }
    }

    /// Attempts of a step that have finished; the running one is the next.
    pub fn attempts_finished(&self) -> u32 {
        self.step_details
            .as_ref()
            .map_or(0, |details| details.attempt)
    }

    /// When the service will act on this operation by itself.
    pub fn due(&self) -> Option<Timestamp> {
        match self.operation_type {
            OperationType::Step => self.step_details.as_ref()?.next_attempt_timestamp,
            OperationType::Wait => self.wait_details.as_ref()?.scheduled_end_timestamp,
            OperationType::Execution
            | OperationType::Context
            | OperationType::Callback
            | OperationType::ChainedInvoke => None,
        }
    }

    /// Whether replay rebuilds this context's result from its children.
    pub fn replays_children(&self) -> bool {
        self.context_details
            .as_ref()
            .is_some_and(|details| details.replay_children)
    }
}

/// Details of the EXECUTION operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExecutionDetails {
    /// The input the execution was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_payload: Option<Payload>,
}

/// Details of a CONTEXT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContextDetails {
    /// Its result, or the summary of a result too large to store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<ErrorObject>>,
    /// Whether replay rebuilds the result from its children.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub replay_children: bool,
}

/// Details of a STEP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StepDetails {
    /// Attempts that have finished.
    #[serde(default)]
    pub attempt: u32,
    /// When the next attempt may begin, while PENDING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_timestamp: Option<Timestamp>,
    /// Its result, or the state of a polled condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<ErrorObject>>,
    /// Outlast's own: invocations that died while this attempt was running. Other SDKs ignore it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interruptions: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is fixed by serde"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Details of a WAIT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct WaitDetails {
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_end_timestamp: Option<Timestamp>,
}

/// Details of a CALLBACK.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CallbackDetails {
    /// The id that completes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_id: Option<Arc<str>>,
    /// What the outside answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// The error the outside reported, or the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<ErrorObject>>,
}

/// Details of a CHAINED_INVOKE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ChainedInvokeDetails {
    /// What the function returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<ErrorObject>>,
}

/// What the service hands to a handler at the start of an invocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InvocationInput {
    /// Which execution.
    pub durable_execution_arn: Arc<str>,
    /// The right to write, good for one checkpoint.
    pub checkpoint_token: String,
    /// The first page of operations.
    pub initial_execution_state: StatePage,
    /// Operations that changed while no handler was looking.
    #[serde(default)]
    pub updated_operation_ids: Vec<OperationId>,
}

/// A page of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StatePage {
    /// The operations, in start order.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Where the next page begins; absent or empty on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

/// The body of a checkpoint request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CheckpointRequest {
    /// The token from the input or the last response.
    pub checkpoint_token: String,
    /// What to do, in order. Empty means: just tell me what changed.
    #[serde(default)]
    pub updates: Vec<OperationUpdate>,
    /// Repeated by an HTTP client that retries, so that the request is applied once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
}

/// The answer to a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CheckpointResponse {
    /// The token of the next request; absent when this invocation may write no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_token: Option<String>,
    /// Every operation that changed since the handler last saw state.
    #[serde(default)]
    pub new_execution_state: StatePage,
}

/// What a handler answers at the end of an invocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InvocationOutput {
    /// How the invocation ended.
    pub status: InvocationStatus,
    /// The result of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// The error of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

impl InvocationOutput {
    /// The execution ended with a result.
    pub fn succeeded(result: Option<Payload>) -> Self {
        Self {
            status: InvocationStatus::Succeeded,
            result,
            error: None,
        }
    }

    /// The execution ended with an error.
    pub fn failed(error: Option<ErrorObject>) -> Self {
        Self {
            status: InvocationStatus::Failed,
            result: None,
            error,
        }
    }

    /// The execution waits for something.
    pub fn pending() -> Self {
        Self {
            status: InvocationStatus::Pending,
            result: None,
            error: None,
        }
    }
}

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InvocationStatus {
    /// With a result.
    Succeeded,
    /// With an error of the execution.
    Failed,
    /// Waiting; invoke again when something changes.
    Pending,
}

/// How a durable function's executions behave; copied onto each execution when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DurableConfig {
    /// Seconds an execution may take in all.
    pub execution_timeout: u32,
    /// Days a closed execution stays readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_period_in_days: Option<u32>,
    /// Key the account encrypts with; kept and echoed only.
    #[serde(rename = "KMSKeyArn", default, skip_serializing_if = "Option::is_none")]
    pub kms_key_arn: Option<String>,
}

/// Error types the service and this SDK write, which programs branch on.
pub mod error_type {
    /// A callback whose overall time ran out.
    pub const CALLBACK_TIMEOUT: &str = "Callback.Timeout";
    /// A callback whose heartbeat stopped.
    pub const CALLBACK_HEARTBEAT: &str = "Callback.Heartbeat";
    /// An invoked execution that timed out.
    pub const CHAINED_INVOKE_TIMEOUT: &str = "ChainedInvoke.Timeout";
    /// A function that ran past its own timeout.
    pub const SANDBOX_TIMEDOUT: &str = "Sandbox.Timedout";
    /// A handler process that died.
    pub const RUNTIME_EXIT: &str = "Runtime.ExitError";
    /// An answer that breaks the protocol.
    pub const INVALID_PARAMETER: &str = "InvalidParameterValueException";
    /// A function that does not exist.
    pub const RESOURCE_NOT_FOUND: &str = "ResourceNotFoundException";
    /// A quota was exceeded.
    pub const QUOTA_EXCEEDED: &str = "ServiceQuotaExceededException";
    /// Outlast's own: the handler no longer matches its recorded operations; the engine holds.
    pub const REPLAY_MISMATCH: &str = "NonDeterministicExecutionError";
}

/// The message prefix of a checkpoint token that is no longer (or never was) valid.
pub const INVALID_TOKEN_MESSAGE: &str = "Invalid checkpoint token";
