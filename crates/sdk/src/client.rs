//! The typed client of an engine: starts, results, signals, callbacks, histories.

use crate::{
    embedded::refused,
    error::{Error, ErrorKind, Result},
};
use outlast_core::{
    Start,
    arn::ExecutionId,
    delivery::Arrival,
    event::Event,
    wire::{ErrorObject, ExecutionStatus, Payload},
};
use outlast_engine::{End, Engine, HistoryPart};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

/// A start that has not been made; await it.
#[must_use = "nothing is started unless it is awaited"]
pub struct StartExecution {
    engine: Engine,
    function: String,
    input: Result<Payload>,
    name: Option<Arc<str>>,
    tenant: Option<String>,
}

impl StartExecution {
    pub(crate) fn new<I: Serialize + ?Sized>(engine: Engine, function: &str, input: &I) -> Self {
        let input = serde_json::to_string(input).map(Payload::from);
        Self {
            engine,
            function: function.to_owned(),
            input: input.map_err(|error| {
                let message = format!("the input cannot be written as JSON: {error}");
                Error::of_kind(ErrorKind::Codec, None, message)
            }),
            name: None,
            tenant: None,
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

    async fn start(self) -> Result<Execution> {
        let resolved = self.engine.resolve(&self.function);
        let (function, config) = resolved.map_err(|error| refused(&error))?;
        let start = Start {
            function,
            name: self.name,
            input: Some(self.input?),
            config,
            synchronous: false,
            tenant: self.tenant,
            trace: None,
            client_context: None,
            parent: None,
        };
        let started = self.engine.start(start).await;
        let started = started.map_err(|error| refused(&error))?;
        Ok(Execution {
            existed: started.existed,
            ..Execution::new(self.engine, started.execution, started.arn)
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
    engine: Engine,
    id: ExecutionId,
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
    pub(crate) fn new(engine: Engine, id: ExecutionId, arn: Arc<str>) -> Self {
        Self {
            engine,
            id,
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
        let ended = self.engine.end(self.id).await;
        let End {
            status,
            result,
            error,
        } = ended.map_err(|error| refused(&error))?;
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
        let head = self.engine.head(self.id).await;
        head.map(|head| head.status)
            .map_err(|error| refused(&error))
    }

    /// One sentence that says why it is where it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn why(&self) -> Result<String> {
        self.engine
            .why(self.id)
            .await
            .map_err(|error| refused(&error))
    }

    /// Its history so far, in the service's form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn history(&self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut marker = None;
        loop {
            let part = HistoryPart {
                marker,
                max_items: Some(1_000),
                ..HistoryPart::default()
            };
            let page = self.engine.history(self.id, part).await;
            let page = page.map_err(|error| refused(&error))?;
            events.extend(page.events);
            match page.next_marker {
                Some(next) => marker = Some(next),
                None => return Ok(events),
            }
        }
    }

    /// Sends it a signal. It is stored when this resolves, whether or not somebody waits for it yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the execution has ended or the name is not acceptable.
    pub async fn signal<T: Serialize + ?Sized>(&self, name: &str, payload: &T) -> Result<()> {
        let arrival = Arrival::Signal {
            name: name.into(),
            payload: outgoing(payload)?,
        };
        let delivered = self.engine.deliver(self.id, arrival).await;
        delivered.map(drop).map_err(|error| refused(&error))
    }

    /// Stops it for good; one that has ended stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it has been deleted.
    pub async fn stop(&self, reason: &str) -> Result<()> {
        let error = ErrorObject::new("Stopped", reason);
        let stopped = self.engine.stop(self.id, Some(error)).await;
        stopped.map(drop).map_err(|error| refused(&error))
    }

    /// Lets it go on after it was held, for example because the code did not match its record.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not held.
    pub async fn resume(&self) -> Result<()> {
        self.engine
            .resume(self.id)
            .await
            .map_err(|error| refused(&error))
    }

    /// Fails it with the reason it is held for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not held.
    pub async fn fail_held(&self) -> Result<()> {
        self.engine
            .fail_held(self.id)
            .await
            .map_err(|error| refused(&error))
    }
}

/// A callback that an execution waits for.
#[derive(Clone)]
pub struct PendingCallback {
    engine: Engine,
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
    pub(crate) fn new(engine: Engine, id: &str) -> Self {
        Self {
            engine,
            id: id.into(),
        }
    }

    /// Answers it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn succeed<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.deliver(Arrival::CallbackSucceeded {
            callback_id: self.id.clone(),
            result: outgoing(value)?,
        })
        .await
    }

    /// Answers it with an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn fail(&self, error_type: &str, message: &str) -> Result<()> {
        self.deliver(Arrival::CallbackFailed {
            callback_id: self.id.clone(),
            error: ErrorObject::new(error_type, message),
        })
        .await
    }

    /// Shows that somebody works on it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such callback, or it is closed.
    pub async fn heartbeat(&self) -> Result<()> {
        self.deliver(Arrival::CallbackHeartbeat {
            callback_id: self.id.clone(),
        })
        .await
    }

    async fn deliver(&self, arrival: Arrival) -> Result<()> {
        let delivered = self.engine.callback(&self.id, arrival).await;
        delivered.map(drop).map_err(|error| refused(&error))
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
