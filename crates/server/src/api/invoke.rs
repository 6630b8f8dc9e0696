//! Invoke: starts executions of durable functions, calls ordinary ones.
//!
//! A start goes on when its caller disconnects. What may be started is for the core to say.

use super::{Api, Asked};
use crate::{
    answer::{Answer, Answered, empty, header, raw},
    catalogue::reference,
    error::ApiError,
};
use hyper::StatusCode;
use outlast_core::{
    Code, Start,
    arn::{check_execution_name, check_tenant},
    id::{digest128, trace_header, uuid},
    intent::InvokeOutcome,
    limits::{EVENT_INPUT_BYTES_MAX, REQUEST_INPUT_BYTES_MAX, SYNCHRONOUS_TIMEOUT_SECONDS_MAX},
    wire::{DurableConfig, ErrorObject, ExecutionStatus, Payload, error_type},
};
use outlast_engine::{Registered, invoker::PlainCall};
use serde::{Serialize, de::IgnoredAny};
use std::sync::Arc;

/// How the caller wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Wait for the result.
    RequestResponse,
    /// Do not wait.
    Event,
    /// Only check.
    DryRun,
}

/// An error as functions report it to their callers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_trace: Option<Vec<String>>,
}

impl From<ErrorObject> for FunctionError {
    fn from(error: ErrorObject) -> Self {
        Self {
            error_message: error.error_message,
            error_type: error.error_type,
            error_data: error.error_data,
            stack_trace: error.stack_trace,
        }
    }
}

/// What the caller sent along.
struct Invocation {
    kind: Kind,
    name: Option<Arc<str>>,
    tenant: Option<String>,
    trace: Option<String>,
    client_context: Option<String>,
    input: Option<Payload>,
}

impl Api {
    pub(super) async fn invoke(&self, function: &str, asked: &Asked<'_>) -> Answered {
        let qualifier = asked.query.get("Qualifier")?;
        let named = reference(function, qualifier.as_deref())?;
        let mut invocation = Invocation::read(asked)?;
        let registered = self.engine.registered(&named.to_string())?;
        invocation.input = invocation.check_input(&asked.body)?;
        registered.tenancy.check(invocation.tenant.as_deref())?;
        let version = registered.function.version.clone();
        let mut answer = match registered.config.clone() {
            Some(config) => self.invoke_durable(&registered, config, invocation).await?,
            None => self.invoke_plain(registered, invocation).await?,
        };
        header(answer.headers_mut(), "x-amz-executed-version", &version);
        Ok(answer)
    }

    async fn invoke_durable(
        &self,
        registered: &Registered,
        config: DurableConfig,
        invocation: Invocation,
    ) -> Answered {
        let kind = invocation.kind;
        let synchronous = match kind {
            Kind::RequestResponse => true,
            Kind::Event => false,
            // Whatever the call is meant to be, it is checked as the one that would be accepted.
            Kind::DryRun => config.execution_timeout <= SYNCHRONOUS_TIMEOUT_SECONDS_MAX,
        };
        let start = Start {
            function: registered.function.clone(),
            name: invocation.name,
            input: invocation.input,
            config,
            synchronous,
            tenant: invocation.tenant,
            trace: invocation.trace,
            client_context: invocation.client_context,
            parent: None,
        };
        if kind == Kind::DryRun {
            start.check()?;
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        let started = self.engine.start(start).await?;
        let mut answer = if kind == Kind::Event {
            empty(StatusCode::ACCEPTED)
        } else {
            let ending = self.engine.end(started.execution);
            match tokio::time::timeout(self.options.synchronous_max, ending).await {
                Ok(end) => {
                    let end = end?;
                    match end.status {
                        ExecutionStatus::Succeeded => succeeded(end.result),
                        ExecutionStatus::Running
                        | ExecutionStatus::Failed
                        | ExecutionStatus::TimedOut
                        | ExecutionStatus::Stopped => failed(end.error.unwrap_or_default()),
                    }
                }
                // Not an error that clients repeat: that would start another execution.
                Err(_) => {
                    let message = format!("the execution {} goes on", started.arn);
                    return Err(ApiError::of(Code::Conflict, message));
                }
            }
        };
        let headers = answer.headers_mut();
        header(headers, "x-amz-durable-execution-arn", &started.arn);
        if started.existed {
            // The service does not tell; our own client asks.
            header(headers, "outlast-existed", "true");
        }
        Ok(answer)
    }

    async fn invoke_plain(&self, registered: Arc<Registered>, invocation: Invocation) -> Answered {
        if invocation.name.is_some() {
            return Err(ApiError::invalid(
                "a durable execution name needs a durable function",
            ));
        }
        let kind = invocation.kind;
        let id: Arc<str> = uuid(digest128(&[b"plain", &self.engine.random()])).into();
        let call = PlainCall {
            function: registered.function.clone(),
            id: Some(id.clone()),
            input: invocation.input.unwrap_or_else(|| "{}".into()),
            tenant: invocation.tenant,
            trace: invocation.trace,
            client_context: invocation.client_context.filter(|_| kind != Kind::Event),
        };
        match kind {
            Kind::DryRun => Ok(empty(StatusCode::NO_CONTENT)),
            Kind::Event => {
                self.events.accept(call).await?;
                Ok(empty(StatusCode::ACCEPTED))
            }
            Kind::RequestResponse => Ok(match self.call_plain(&registered, call, &id).await? {
                InvokeOutcome::Succeeded(result) => succeeded(result),
                InvokeOutcome::Failed(error) | InvokeOutcome::Stopped(error) => failed(error),
                // Said as the service says it to a caller; the other words are for chained invokes.
                InvokeOutcome::TimedOut(_) => failed(ErrorObject::new(
                    error_type::SANDBOX_TIMEDOUT,
                    "Task timed out",
                )),
            }),
        }
    }

    /// Calls an ordinary function for somebody who waits. When the server ends, no worker will ask
    /// for what still stands in line.
    async fn call_plain(
        &self,
        registered: &Registered,
        call: PlainCall,
        id: &str,
    ) -> Result<InvokeOutcome, ApiError> {
        let in_vain = async {
            self.ending().await;
            if registered.invoker.has_begun(id) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            outcome = registered.call_plain(call) => Ok(outcome),
            () = in_vain => Err(ApiError::unavailable(
                "the server ended before a worker asked for the call: no handler has seen it",
            )),
        }
    }
}

impl Invocation {
    fn read(asked: &Asked<'_>) -> Result<Self, ApiError> {
        let kind = match asked.header("x-amz-invocation-type")? {
            None | Some("RequestResponse") => Kind::RequestResponse,
            Some("Event") => Kind::Event,
            Some("DryRun") => Kind::DryRun,
            Some(_) => {
                return Err(ApiError::validation(
                    "the invocation type must be Event, RequestResponse or DryRun",
                ));
            }
        };
        // An empty name is a mistake, and not the wish for a new execution each time.
        let name = asked.header("x-amz-durable-execution-name")?;
        if let Some(name) = name {
            check_execution_name(name)?;
        }
        let tenant = asked.header("x-amz-tenant-id")?;
        if let Some(tenant) = tenant {
            check_tenant(tenant)?;
        }
        let unless_empty = |text: &&str| !text.is_empty();
        let trace = asked.header("x-amzn-trace-id")?.filter(unless_empty);
        let trace = match trace {
            Some(trace) => Some(trace.to_owned()),
            // One that cannot be read is none: whoever sent it may not know that it does.
            None => {
                let parent = asked.header("traceparent").ok().flatten();
                parent.and_then(from_traceparent)
            }
        };
        let context = asked.header("x-amz-client-context")?.filter(unless_empty);
        Ok(Self {
            kind,
            name: name.map(Into::into),
            tenant: tenant.map(Into::into),
            trace,
            client_context: context.map(Into::into),
            input: None,
        })
    }

    /// The body as an input: JSON, and not too much of it.
    fn check_input(&self, body: &[u8]) -> Result<Option<Payload>, ApiError> {
        let limit = match self.kind {
            Kind::Event => EVENT_INPUT_BYTES_MAX,
            Kind::RequestResponse | Kind::DryRun => REQUEST_INPUT_BYTES_MAX,
        };
        if body.len() > limit {
            let message = format!("the input has {} bytes, {limit} are allowed", body.len());
            return Err(ApiError::of(Code::RequestTooLarge, message));
        }
        if body.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(body).ok();
        let text = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        let not_json = || {
            let message = "could not parse the request body as JSON";
            ApiError::of(Code::InvalidRequestContent, message)
        };
        text.map(|text| Some(text.into())).ok_or_else(not_json)
    }
}

/// A W3C `traceparent` as the header that executions know: they say the same.
fn from_traceparent(text: &str) -> Option<String> {
    let mut parts = text.trim().split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str, digits| {
        let mut bytes = text.bytes();
        let is_hex = bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_whole = is_hex && text.len() == digits;
        u128::from_str_radix(text, 16).ok().filter(|_| is_whole)
    };
    let is_known = number(version, 2)? != 0xff;
    let (trace, flags) = (number(trace, 32)?, number(flags, 2)?);
    let span = u64::try_from(number(parent, 16)?).ok()?;
    let is_legal = is_known && trace != 0 && span != 0;
    is_legal.then(|| trace_header(trace, span, flags & 1 == 1))
}

/// The result as it is; a handler that returned nothing has returned `null`, as in the service.
fn succeeded(result: Option<Payload>) -> Answer {
    let result = result.as_deref().unwrap_or("null");
    raw(StatusCode::OK, String::from(result))
}

fn failed(error: ErrorObject) -> Answer {
    let body = serde_json::to_vec(&FunctionError::from(error));
    let mut answer = raw(StatusCode::OK, body.unwrap_or_default());
    header(answer.headers_mut(), "x-amz-function-error", "Unhandled");
    answer
}
