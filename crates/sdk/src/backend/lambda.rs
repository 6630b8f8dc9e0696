//! AWS Lambda as a home: its durable-execution API as a [`Backend`], and its runtime's loop.
//!
//! The only file that names AWS types. It converts and carries; it decides nothing and repeats
//! nothing: the AWS client repeats throttled and failed requests by itself, and an invocation that
//! fails is repeated by the platform.

use super::{Abilities, Backend, BackendError, BoxFuture};
use crate::{
    error::{Error, ErrorKind, Result},
    function::Function,
    invocation::{LambdaContext, Request, invoke, not_durable},
};
use aws_sdk_lambda::{
    Client,
    config::{
        BehaviorVersion, Config, Credentials, Region, http::HttpResponse, retry::RetryConfig,
    },
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    primitives::DateTime,
    types as aws,
};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use lambda_runtime::{Diagnostic, LambdaEvent, Runtime, service_fn};
use outlast_core::{
    id::OperationId,
    limits,
    time::Timestamp,
    wire::{
        CallbackDetails, ChainedInvokeDetails, CheckpointRequest, CheckpointResponse,
        ContextDetails, ErrorObject, ExecutionDetails, InvocationInput, InvocationOutput,
        Operation, OperationUpdate, StatePage, StepDetails, WaitDetails,
    },
};
use serde::{
    Deserialize,
    de::{IgnoredAny, IntoDeserializer, value::Error as UnknownValue},
};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

/// The error type of an answer or an event that this version cannot read.
const PROTOCOL_ERROR: &str = "ProtocolError";

type Converted<T> = std::result::Result<T, BackendError>;

// --- the API ------------------------------------------------------------------------------------

/// The durable-execution API of AWS Lambda.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client,
}

impl Api {
    /// The API through this client, for programs that need other credentials, timeouts or
    /// endpoints than the environment gives. Leave the client's retries on: nothing else repeats a
    /// throttled request within an invocation.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The API as a Lambda function's environment describes it: credentials and region, and
    /// optionally another endpoint (`AWS_ENDPOINT_URL_LAMBDA`, else `AWS_ENDPOINT_URL`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when credentials or region are missing.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let needed = |name| given(name).ok_or_else(|| missing(name));
        let credentials = Credentials::new(
            needed("AWS_ACCESS_KEY_ID")?,
            needed("AWS_SECRET_ACCESS_KEY")?,
            given("AWS_SESSION_TOKEN"),
            None,
            "environment",
        );
        let region = match given("AWS_REGION") {
            Some(region) => region,
            None => needed("AWS_DEFAULT_REGION").map_err(|_| missing("AWS_REGION"))?,
        };
        let endpoint = given("AWS_ENDPOINT_URL_LAMBDA").or_else(|| given("AWS_ENDPOINT_URL"));
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let mut config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .credentials_provider(credentials)
            .region(Region::new(region))
            .retry_config(RetryConfig::standard())
            .http_client(http);
        config.set_endpoint_url(endpoint);
        Ok(Self::new(Client::from_conf(config.build())))
    }
}

fn missing(variable: &str) -> Error {
    Error::of_kind(
        ErrorKind::InvalidInput,
        None,
        format!(
            "the environment variable {variable} is missing: AWS Lambda sets it, and so must whatever stands in"
        ),
    )
}

impl Backend for Api {
    fn checkpoint<'a>(
        &'a self,
        execution_arn: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Converted<CheckpointResponse>> {
        Box::pin(async move {
            let updates: Converted<Vec<_>> = request.updates.into_iter().map(update).collect();
            let answer = self
                .client
                .checkpoint_durable_execution()
                .durable_execution_arn(execution_arn)
                .checkpoint_token(request.checkpoint_token)
                .set_updates(Some(updates?))
                // Without one the client draws one, and sends the same again when it retries.
                .set_client_token(request.client_token)
                .send()
                .await
                .map_err(failed)?;
            let state = answer.new_execution_state;
            let (changed, marker) = state.map_or_else(Default::default, |state| {
                (state.operations, state.next_marker)
            });
            Ok(CheckpointResponse {
                checkpoint_token: answer.checkpoint_token,
                new_execution_state: page(changed.unwrap_or_default(), marker)?,
            })
        })
    }

    fn state<'a>(
        &'a self,
        execution_arn: &'a str,
        checkpoint_token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Converted<StatePage>> {
        Box::pin(async move {
            let answer = self
                .client
                .get_durable_execution_state()
                .durable_execution_arn(execution_arn)
                .checkpoint_token(checkpoint_token)
                .marker(marker)
                .max_items(i32::try_from(limits::PAGE_ITEMS_MAX).unwrap_or(i32::MAX))
                .send()
                .await
                .map_err(failed)?;
            page(answer.operations, answer.next_marker)
        })
    }

    fn abilities(&self) -> Abilities {
        Abilities::LAMBDA
    }
}

/// What a failed call says: the service's answer if there is one, else the chain of causes.
fn failed<E>(error: SdkError<E, HttpResponse>) -> BackendError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    BackendError {
        status: error
            .raw_response()
            .map(|response| response.status().as_u16()),
        code: error.code().map(ToOwned::to_owned),
        message: match error.message() {
            Some(message) => message.to_owned(),
            None => DisplayErrorContext(&error).to_string(),
        },
    }
}

fn unreadable(message: String) -> BackendError {
    BackendError {
        status: None,
        code: Some(PROTOCOL_ERROR.to_owned()),
        message,
    }
}

// --- to AWS -------------------------------------------------------------------------------------

fn update(update: OperationUpdate) -> Converted<aws::OperationUpdate> {
    let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
    aws::OperationUpdate::builder()
        .id(update.id.as_str())
        .set_parent_id(update.parent_id.map(|id| id.to_string()))
        .set_name(text(update.name))
        .r#type(update.operation_type.as_str().into())
        .set_sub_type(text(update.sub_type))
        .action(update.action.as_str().into())
        .set_payload(text(update.payload))
        .set_error(update.error.map(error_to_aws))
        .set_context_options(update.context_options.map(|options| {
            aws::ContextOptions::builder()
                .replay_children(options.replay_children)
                .build()
        }))
        .set_step_options(update.step_options.map(|options| {
            aws::StepOptions::builder()
                .set_next_attempt_delay_seconds(options.next_attempt_delay_seconds.map(seconds))
                .build()
        }))
        .set_wait_options(update.wait_options.map(|options| {
            aws::WaitOptions::builder()
                .set_wait_seconds(options.wait_seconds.map(seconds))
                .build()
        }))
        .set_callback_options(update.callback_options.map(|options| {
            aws::CallbackOptions::builder()
                .set_timeout_seconds(options.timeout_seconds.map(seconds))
                .set_heartbeat_timeout_seconds(options.heartbeat_timeout_seconds.map(seconds))
                .build()
        }))
        .set_chained_invoke_options(
            update
                .chained_invoke_options
                .map(|options| {
                    aws::ChainedInvokeOptions::builder()
                        .function_name(options.function_name)
                        .set_tenant_id(options.tenant_id)
                        .set_x_amzn_trace_id(options.x_amzn_trace_id)
                        .build()
                })
                .transpose()
                .map_err(|error| unreadable(error.to_string()))?,
        )
        .build()
        .map_err(|error| unreadable(error.to_string()))
}

/// Seconds as the API counts them. All its limits are far below where this stops being exact.
fn seconds(seconds: u32) -> i32 {
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn error_to_aws(error: Arc<ErrorObject>) -> aws::ErrorObject {
    let error = Arc::unwrap_or_clone(error);
    aws::ErrorObject::builder()
        .set_error_type(error.error_type)
        .set_error_message(error.error_message)
        .set_error_data(error.error_data)
        .set_stack_trace(error.stack_trace)
        .build()
}

// --- from AWS -----------------------------------------------------------------------------------

fn page(operations: Vec<aws::Operation>, next_marker: Option<String>) -> Converted<StatePage> {
    let operations: Converted<_> = operations
        .into_iter()
        .map(|from| {
            let id = from.id.clone();
            operation(from).map_err(|reason| {
                unreadable(format!("the service sent operation {id} with {reason}"))
            })
        })
        .collect();
    Ok(StatePage {
        operations: operations?,
        next_marker,
    })
}

/// One operation; the error names the member that cannot be read, and its value.
fn operation(from: aws::Operation) -> std::result::Result<Operation, String> {
    let mut operation = Operation::new(
        OperationId::new(from.id),
        known("type", from.r#type.as_str())?,
        known("status", from.status.as_str())?,
        timestamp(from.start_timestamp)?,
    );
    operation.parent_id = from.parent_id.map(OperationId::new);
    operation.name = from.name.map(Into::into);
    operation.sub_type = from.sub_type.map(Into::into);
    operation.end_timestamp = from.end_timestamp.map(timestamp).transpose()?;
    operation.execution_details = from.execution_details.map(|details| ExecutionDetails {
        input_payload: details.input_payload.map(Into::into),
    });
    operation.context_details = from.context_details.map(|details| ContextDetails {
        result: details.result.map(Into::into),
        error: details.error.map(error_from_aws),
        replay_children: details.replay_children.unwrap_or_default(),
    });
    operation.step_details = from.step_details.map(step_details).transpose()?;
    operation.wait_details = match from.wait_details {
        None => None,
        Some(details) => Some(WaitDetails {
            scheduled_end_timestamp: details.scheduled_end_timestamp.map(timestamp).transpose()?,
        }),
    };
    operation.callback_details = from.callback_details.map(|details| CallbackDetails {
        callback_id: details.callback_id.map(Into::into),
        result: details.result.map(Into::into),
        error: details.error.map(error_from_aws),
    });
    operation.chained_invoke_details =
        from.chained_invoke_details
            .map(|details| ChainedInvokeDetails {
                result: details.result.map(Into::into),
                error: details.error.map(error_from_aws),
            });
    Ok(operation)
}

fn step_details(details: aws::StepDetails) -> std::result::Result<StepDetails, String> {
    Ok(StepDetails {
        attempt: u32::try_from(details.attempt)
            .map_err(|_| format!("attempt {}", details.attempt))?,
        next_attempt_timestamp: details.next_attempt_timestamp.map(timestamp).transpose()?,
        result: details.result.map(Into::into),
        error: details.error.map(error_from_aws),
        // Only Outlast counts them.
        interruptions: 0,
    })
}

/// A value of an enumeration that may have grown since this was written.
fn known<'a, T: Deserialize<'a>>(member: &str, value: &'a str) -> std::result::Result<T, String> {
    T::deserialize(IntoDeserializer::<UnknownValue>::into_deserializer(value))
        .map_err(|_| format!("the {member} '{value}', which this version does not know"))
}

/// To the nearest millisecond: the wire's fractional seconds have no exact binary form, so cutting
/// off would lose one.
fn timestamp(at: DateTime) -> std::result::Result<Timestamp, String> {
    let seconds = u64::try_from(at.secs());
    let ms = seconds.map(|seconds| {
        let rounded = (u64::from(at.subsec_nanos()) + 500_000) / 1_000_000;
        seconds.saturating_mul(1_000).saturating_add(rounded)
    });
    ms.map(Timestamp::from_millis)
        .map_err(|_| format!("the timestamp {} before the Unix epoch", at.secs()))
}

fn error_from_aws(error: aws::ErrorObject) -> Arc<ErrorObject> {
    Arc::new(ErrorObject {
        error_type: error.error_type,
        error_message: error.error_message,
        error_data: error.error_data,
        stack_trace: error.stack_trace,
    })
}

// --- the runtime --------------------------------------------------------------------------------

/// Serves the Lambda runtime with `function` until the environment is taken down.
///
/// [`App::run`](crate::App::run) does this; call it for a backend of your own:
///
/// ```no_run
/// # async fn example(function: outlast::Function, client: aws_sdk_lambda::Client) -> outlast::Result<()> {
/// use outlast::backend::lambda;
///
/// lambda::serve(function, std::sync::Arc::new(lambda::Api::new(client))).await
/// # }
/// ```
///
/// One invocation at a time, or as many as `AWS_LAMBDA_MAX_CONCURRENCY` says. A failed execution
/// is a successful Lambda invocation, so Lambda's error metric stays silent about it. An invocation
/// that fails is a Lambda error with the error's own type; the platform repeats it.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when the environment is not that of a Lambda function; otherwise why
/// the runtime could not go on.
pub async fn serve(function: Function, backend: Arc<dyn Backend>) -> Result<()> {
    check_environment(&|name| std::env::var(name).ok())?;
    let handler = service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let (function, backend) = (function.clone(), backend.clone());
        async move { answer(&function, backend, event).await }
    });
    let running = Box::pin(Runtime::new(handler).run_concurrent());
    running.await.map_err(|error| {
        Error::new(
            "LambdaRuntimeError",
            format!("the Lambda runtime cannot go on: {error}"),
        )
    })
}

/// The runtime takes these for granted and panics without them.
fn check_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    for name in [
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
    ] {
        variable(name).ok_or_else(|| missing(name))?;
    }
    let name = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
    let memory = variable(name).ok_or_else(|| missing(name))?;
    if memory.parse::<i32>().is_err() {
        return Err(Error::of_kind(
            ErrorKind::InvalidInput,
            None,
            format!("the environment variable {name} is not a number: '{memory}'"),
        ));
    }
    Ok(())
}

/// One event of the runtime, from its text to its answer.
async fn answer(
    function: &Function,
    backend: Arc<dyn Backend>,
    event: LambdaEvent<Box<RawValue>>,
) -> std::result::Result<InvocationOutput, Diagnostic> {
    let input = read(event.payload.get()).map_err(diagnostic)?;
    let outcome = invoke(function, input, backend, request(&event.context)).await;
    tracing::debug!(
        why = outcome.report.why,
        requests = outcome.requests,
        "the invocation ended"
    );
    outcome.answer.map_err(|failed| diagnostic(failed.record))
}

/// Reads a durable invocation. Anything else that may be sent to a function is told apart from a
/// durable invocation that is malformed.
fn read(event: &str) -> std::result::Result<InvocationInput, ErrorObject> {
    serde_json::from_str(event).map_err(|error| {
        let members = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(event);
        if members.is_ok_and(|members| members.contains_key("DurableExecutionArn")) {
            let message = format!("the invocation's event cannot be read: {error}");
            ErrorObject::new(PROTOCOL_ERROR, message)
        } else {
            not_durable()
        }
    })
}

fn request(context: &lambda_runtime::Context) -> Request {
    let lambda = LambdaContext {
        request_id: context.request_id.clone(),
        invoked_function_arn: context.invoked_function_arn.clone(),
        function_name: context.env_config.function_name.clone(),
        function_version: context.env_config.version.clone(),
        memory_mib: context.env_config.memory,
        trace_id: context.xray_trace_id.clone(),
        client_context: context
            .client_context
            .as_ref()
            .and_then(|client| serde_json::to_string(client).ok()),
    };
    Request {
        request_id: context.request_id.as_str().into(),
        tenant_id: context.tenant_id.as_deref().map(Into::into),
        deadline: Some(Timestamp::from_millis(context.deadline)),
        trace_header: context.xray_trace_id.as_deref().map(Into::into),
        lambda: Some(Arc::new(lambda)),
    }
}

/// The error of an invocation, as the runtime reports it.
fn diagnostic(error: ErrorObject) -> Diagnostic {
    Diagnostic {
        error_type: error.error_type.unwrap_or_else(|| "Error".to_owned()),
        error_message: error.error_message.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
