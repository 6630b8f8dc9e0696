//! The typed client of an engine, in this process or behind a server: starts, results, signals,
//! callbacks, histories.
//!
//! What it needs from either is a [`Service`]; how it asks there is the home's.

use crate::{
    backend::BoxFuture,
    error::{Error, ErrorKind, Result},
};
use outlast_core::{
    event::Event,
    wire::{ErrorObject, ExecutionStatus, Payload},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

/// What a start says.
#[derive(Clone, Debug)]
pub(crate) struct NewExecution {
    pub(crate) function: String,
    pub(crate) input: Payload,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) tenant: Option<String>,
    pub(crate) trace: Option<String>,
}

/// What became of a start.
#[derive(Clone, Debug)]
pub(crate) struct StartedExecution {
    pub(crate) arn: Arc<str>,
    pub(crate) existed: bool,
}

/// How an execution ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExecutionStatus,
    pub(crate) result: Option<Payload>,
    pub(crate) error: Option<ErrorObject>,
}

/// What can be said about a callback from outside.
#[derive(Clone, Debug)]
pub(crate) enum CallbackReply {
    Succeeded(Option<Payload>),
    Failed(ErrorObject),
    Heartbeat,
}

/// What an operator can do about an execution that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    GoOn,
    Fail,
}

/// Whatever keeps executions, as a client sees it.
pub(crate) trait Service: Send + Sync + 'static {
    fn start(&self, new: NewExecution) -> BoxFuture<'_, Result<StartedExecution>>;
    fn end<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Ended>>;
    fn status<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<ExecutionStatus>>;
    fn why<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<String>>;
    fn history<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Vec<Event>>>;
    fn signal<'a>(
        &'a self,
        arn: &'a str,
        name: &'a str,
        payload: Option<Payload>,
    ) -> BoxFuture<'a, Result<()>>;
    fn stop<'a>(&'a self, arn: &'a str, error: ErrorObject) -> BoxFuture<'a, Result<()>>;
    fn release<'a>(&'a self, arn: &'a str, held: Held) -> BoxFuture<'a, Result<()>>;
    fn callback<'a>(&'a self, id: &'a str, reply: CallbackReply) -> BoxFuture<'a, Result<()>>;
}

/// A start that has not been made; await it.
#[must_use = "nothing is started unless it is awaited"]
pub struct StartExecution {
    service: Arc<dyn Service>,
    function: String,
    input: Result<Payload>,
    name: Option<Arc<str>>,
    tenant: Option<String>,
    trace: Option<String>,
}

impl StartExecution {
    pub(crate) fn new<I: Serialize + ?Sized>(
        service: Arc<dyn Service>,
        function: &str,
        input: &I,
    ) -> Self {
        let input = serde_json::to_string(input).map(Payload::from);
        Self {
            service,
            function: function.to_owned(),
            input: input.map_err(|error| {
                let message = format!("the input cannot be written as JSON: {error}");
                Error::of_kind(ErrorKind::Codec, None, message)
            }),
            name: None,
            tenant: None,
            trace: None,
        }
    }

    /// Gives the execution a name, unique among those of its function: starting again with the same
    /// name and input finds the execution instead of creating another.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs it for a tenant.
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = Some(tenant.to_owned());
        self
    }

    /// Puts it into a trace, with the value of an `X-Amzn-Trace-Id` header. With the feature `otel`
    /// it is in the trace of the current span anyway.
    pub fn trace_header(mut self, header: &str) -> Self {
        self.trace = Some(header.to_owned());
        self
    }

    async fn start(self) -> Result<Execution> {
        let trace = self.trace;
        #[cfg(feature = "otel")]
        let trace = trace.or_else(crate::telemetry::current_header);
        let new = NewExecution {
            function: self.function,
            input: self.input?,
            name: self.name,
            tenant: self.tenant,
            trace,
        };
        let started = self.service.start(new).await?;
        Ok(Execution {
            existed: started.existed,
            ..Execution::new(self.service, started.arn)
        })
    }
}

impl IntoFuture for StartExecution {
    type Output = Result<Execution>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Execution>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl fmt::Debug for StartExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartExecution")
            .field("function", &self.function)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A handle to an execution, running or closed. Dropping it changes nothing.
#[derive(Clone)]
pub struct Execution {
    service: Arc<dyn Service>,
    arn: Arc<str>,
    existed: bool,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("arn", &self.arn)
            .finish_non_exhaustive()
    }
}

impl Execution {
    pub(crate) fn new(service: Arc<dyn Service>, arn: Arc<str>) -> Self {
        Self {
            service,
            arn,
            existed: false,
        }
    }

    /// Its ARN, by which it is found again.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Whether an equal start had created it before.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Waits for its end and gives its result.
    ///
    /// # Errors
    /// The execution's own error when it failed, timed out or was stopped; [`ErrorKind::Codec`] when
    /// its result is no `T`; [`ErrorKind::Engine`] when the engine stops before.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let Ended {
            status,
            result,
            error,
        } = self.service.end(&self.arn).await?;
        if status != ExecutionStatus::Succeeded {
            let record = error.unwrap_or_else(|| {
                ErrorObject::new(status.as_str(), format!("the execution is {status}"))
            });
            return Err(Error::from_record(ErrorKind::Execution, None, record));
        }
        let text = result.as_deref().unwrap_or("null");
        serde_json::from_str(text).map_err(|error| {
            let wanted = std::any::type_name::<T>();
            let message = format!("the result of {} is no {wanted}: {error}", self.arn);
            Error::of_kind(ErrorKind::Codec, None, message)
        })
    }

    /// Where it is in its life.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn status(&self) -> Result<ExecutionStatus> {
        self.service.status(&self.arn).await
    }

    /// One sentence that says why it is where it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn why(&self) -> Result<String> {
        self.service.why(&self.arn).await
    }

    /// Its history so far, in the service's form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn history(&self) -> Result<Vec<Event>> {
        self.service.history(&self.arn).await
    }

    /// Sends it a signal. It is stored when this resolves, whether or not somebody waits for it yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the execution has ended or the name is not acceptable.
    pub async fn signal<T: Serialize + ?Sized>(&self, name: &str, payload: &T) -> Result<()> {
        let payload = outgoing(payload)?;
        self.service.signal(&self.arn, name, payload).await
    }

    /// Stops it for good; one that has ended stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn stop(&self, reason: &str) -> Result<()> {
        let error = ErrorObject::new("Stopped", reason);
        self.service.stop(&self.arn, error).await
    }

    /// Lets it go on after it was held, for example because the code did not match its record.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not held.
    pub async fn resume(&self) -> Result<()> {
        self.service.release(&self.arn, Held::GoOn).await
    }

    /// Fails it with the reason it is held for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not held.
    pub async fn fail_held(&self) -> Result<()> {
        self.service.release(&self.arn, Held::Fail).await
    }
}

/// A callback that an execution waits for.
#[derive(Clone)]
pub struct PendingCallback {
    service: Arc<dyn Service>,
    id: Arc<str>,
}

impl fmt::Debug for PendingCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCallback")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl PendingCallback {
    pub(crate) fn new(service: Arc<dyn Service>, id: &str) -> Self {
        Self {
            service,
            id: id.into(),
        }
    }

    /// Answers it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn succeed<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.tell(CallbackReply::Succeeded(outgoing(value)?)).await
    }

    /// Answers it with an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn fail(&self, error_type: &str, message: &str) -> Result<()> {
        let error = ErrorObject::new(error_type, message);
        self.tell(CallbackReply::Failed(error)).await
    }

    /// Shows that somebody works on it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn heartbeat(&self) -> Result<()> {
        self.tell(CallbackReply::Heartbeat).await
    }

    async fn tell(&self, reply: CallbackReply) -> Result<()> {
        self.service.callback(&self.id, reply).await
    }
}

/// A value for a handler that waits: what [`Context::wait_signal`](crate::Context::wait_signal) and
/// callbacks read without a codec. Text is taken as it is there, so text is sent as it is.
fn outgoing<T: Serialize + ?Sized>(value: &T) -> Result<Option<Payload>> {
    let json = serde_json::to_string(value).map_err(unwritable)?;
    if !is_text(std::any::type_name::<T>()) {
        return Ok(Some(json.into()));
    }
    let text: Option<String> = serde_json::from_str(&json).map_err(unwritable)?;
    Ok(text.map(Into::into))
}

/// Whether a type is one of those that the reader takes as text. Other types that are written as a
/// JSON string, such as dates, are read as JSON; only the type tells them apart.
fn is_text(type_name: &str) -> bool {
    let name = type_name.trim_start_matches('&');
    let inner = name
        .strip_prefix("core::option::Option<")
        .and_then(|rest| rest.strip_suffix('>'))
        .map_or(name, |inner| inner.trim_start_matches('&'));
    inner == "str" || inner == std::any::type_name::<String>()
}

fn unwritable(error: serde_json::Error) -> Error {
    let message = format!("the value cannot be written as JSON: {error}");
    Error::of_kind(ErrorKind::Codec, None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent<T: Serialize + ?Sized>(value: &T) -> Option<String> {
        outgoing(value).unwrap().map(|payload| payload.to_string())
    }

    #[test]
    fn text_is_sent_as_it_is_and_everything_else_as_json() {
        #[derive(Serialize)]
        enum Answer {
            Yes,
        }
        let text = Some("a \"b\"".to_owned());
        assert_eq!(sent("a \"b\""), text);
        assert_eq!(sent(&"a \"b\""), text);
        assert_eq!(sent(&"a \"b\"".to_owned()), text);
        assert_eq!(sent(&text), text);
        assert_eq!(sent(&text.as_deref()), text);
        assert_eq!(sent::<Option<String>>(&None), None);
        assert_eq!(sent(&Answer::Yes).as_deref(), Some("\"Yes\""));
        assert_eq!(sent(&7).as_deref(), Some("7"));
        assert_eq!(sent(&()).as_deref(), Some("null"));
    }
}
