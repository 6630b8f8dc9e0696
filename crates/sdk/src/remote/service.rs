//! A server, as the typed client asks it.

use super::{
    answer::json as read,
    api::{Api, Repeat, encoded, push_encoded, refused},
};
use crate::{
    backend::{BackendError, BoxFuture},
    client::{CallbackReply, Ended, Held, NewExecution, Service, StartedExecution},
    error::{Error, ErrorKind, Result},
};
use bytes::Bytes;
use hyper::header::HeaderName;
use outlast_core::{
    arn::{FunctionReference, LATEST},
    event::Event,
    wire::{ErrorObject, ExecutionStatus, Payload},
};
use outlast_http::{Call, Reply, Unusable};
use serde::{Deserialize, de::DeserializeOwned};
use std::{sync::Arc, time::Duration};

/// What the service says of an execution, as far as tests look at it.
#[cfg(feature = "testing")]
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Description {
    pub(crate) status: ExecutionStatus,
    pub(crate) result: Option<Payload>,
    pub(crate) error: Option<ErrorObject>,
}

/// How long one question for an end is open.
const END_SECONDS: u64 = 20;
/// Pause between two looks at an execution where its end cannot be waited for.
const END_PAUSE: Duration = Duration::from_secs(1);
/// Events asked for at a time.
const PAGE_ITEMS: u32 = 1_000;

const ARN: HeaderName = HeaderName::from_static("x-amz-durable-execution-arn");
const EXISTED: HeaderName = HeaderName::from_static("outlast-existed");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EndReply {
    status: ExecutionStatus,
    result: Option<Payload>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusReply {
    status: ExecutionStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WhyReply {
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HistoryReply {
    events: Vec<Event>,
    next_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListReply {
    durable_executions: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    durable_execution_arn: Arc<str>,
}

/// The path of the service's operations on an execution.
fn execution(arn: &str, tail: &str) -> String {
    format!("/2025-12-01/durable-executions/{}{tail}", encoded(arn))
}

/// The path of our own operations on an execution.
fn own(arn: &str, tail: &str) -> String {
    format!("/outlast/v1/executions/{}{tail}", encoded(arn))
}

impl Api {
    /// The path of one of our own operations on an execution, where there are any.
    fn own(&self, arn: &str, tail: &str) -> Result<String> {
        match self.endpoint().is_aws() {
            true => Err(Error::of_kind(
                ErrorKind::Unsupported,
                None,
                "AWS Lambda does not offer this: only an Outlast server has signals, held executions \
                 and reasons",
            )),
            false => Ok(own(arn, tail)),
        }
    }

    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        patience: Duration,
    ) -> Result<T> {
        let call = Call::get(self.uri(path).map_err(unusable)?).patient(Some(patience));
        let reply = self.ask(&call, Repeat::Always).await;
        reply.and_then(|reply| read(&reply)).map_err(refused)
    }

    async fn tell(&self, path: &str, body: impl Into<Bytes>, repeat: Repeat) -> Result<Reply> {
        let call = Call::post(self.uri(path).map_err(unusable)?, body);
        self.ask(&call, repeat).await.map_err(refused)
    }

    /// An execution as the service describes it.
    #[cfg(feature = "testing")]
    pub(crate) async fn describe(&self, arn: &str) -> Result<Description> {
        let path = execution(arn, "?IncludeExecutionData=true");
        self.read(&path, Duration::ZERO).await
    }

    /// Says something that has no body and is done at most once.
    #[cfg(feature = "testing")]
    pub(crate) async fn post(&self, path: &str) -> Result<()> {
        let told = self.tell(path, Bytes::new(), Repeat::Unsent).await;
        told.map(drop)
    }

    /// The execution of a function with this name.
    pub(super) async fn find(&self, function: &str, name: &str) -> Result<Option<Arc<str>>> {
        let path = format!(
            "/2025-12-01/functions/{}/durable-executions?DurableExecutionName={}",
            encoded(function),
            encoded(name)
        );
        let list: ListReply = self.read(&path, Duration::ZERO).await?;
        let found = list.durable_executions.into_iter().next();
        Ok(found.map(|listed| listed.durable_execution_arn))
    }
}

impl Service for Api {
    fn start(&self, new: NewExecution) -> BoxFuture<'_, Result<StartedExecution>> {
        Box::pin(async move {
            // The service starts durable functions with a qualifier only.
            let reference: Option<FunctionReference> = new.function.parse().ok();
            let is_bare = reference.is_some_and(|reference| reference.qualifier.is_none());
            let function = match is_bare {
                true => format!("{}:{LATEST}", new.function),
                false => new.function.clone(),
            };
            let path = format!("/2015-03-31/functions/{}/invocations", encoded(&function));
            let body = Bytes::copy_from_slice(new.input.as_bytes());
            let mut call = Call::post(self.uri(&path).map_err(unusable)?, body)
                .header("x-amz-invocation-type", "Event");
            // With a name, the second start finds the first; without one there would be two.
            let mut repeat = Repeat::Unsent;
            if let Some(name) = &new.name {
                call = call.header("x-amz-durable-execution-name", name);
                repeat = Repeat::Always;
            }
            if let Some(tenant) = &new.tenant {
                call = call.header("x-amz-tenant-id", tenant);
            }
            if let Some(trace) = &new.trace {
                call = call.header("x-amzn-trace-id", trace);
            }
            let reply = self.ask(&call, repeat).await.map_err(refused)?;
            let arn = reply
                .header(&ARN)
                .ok_or_else(|| no_execution(&new.function))?;
            Ok(StartedExecution {
                arn: arn.into(),
                existed: reply.header(&EXISTED).is_some(),
            })
        })
    }

    fn end<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Ended>> {
        Box::pin(async move {
            // AWS does not say when an execution ends: it has to be looked at again and again.
            let (path, patience, pause) = match self.endpoint().is_aws() {
                true => (execution(arn, "?IncludeExecutionData=true"), 0, END_PAUSE),
                false => {
                    let path = own(arn, &format!("/end?WaitSeconds={END_SECONDS}"));
                    (path, END_SECONDS, Duration::ZERO)
                }
            };
            loop {
                let reply: EndReply = self.read(&path, Duration::from_secs(patience)).await?;
                if reply.status.is_terminal() {
                    return Ok(Ended {
                        status: reply.status,
                        result: reply.result,
                        error: reply.error,
                    });
                }
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
        })
    }

    fn status<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<ExecutionStatus>> {
        Box::pin(async move {
            let path = execution(arn, "?IncludeExecutionData=false");
            let reply: StatusReply = self.read(&path, Duration::ZERO).await?;
            Ok(reply.status)
        })
    }

    fn why<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let reply: WhyReply = self.read(&self.own(arn, "/why")?, Duration::ZERO).await?;
            Ok(reply.why)
        })
    }

    fn history<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Vec<Event>>> {
        Box::pin(async move {
            let first = format!("/history?IncludeExecutionData=true&MaxItems={PAGE_ITEMS}");
            let first = execution(arn, &first);
            let (mut events, mut path) = (Vec::new(), first.clone());
            loop {
                let page: HistoryReply = self.read(&path, Duration::ZERO).await?;
                events.extend(page.events);
                let Some(marker) = page.next_marker else {
                    return Ok(events);
                };
                path.clone_from(&first);
                path.push_str("&Marker=");
                push_encoded(&mut path, &marker);
            }
        })
    }

    fn signal<'a>(
        &'a self,
        arn: &'a str,
        name: &'a str,
        payload: Option<Payload>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let path = self.own(arn, &format!("/signals/{}", encoded(name)))?;
            // Two of a kind are two signals.
            self.tell(&path, bytes(payload), Repeat::Unsent)
                .await
                .map(drop)
        })
    }

    fn stop<'a>(&'a self, arn: &'a str, error: ErrorObject) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let path = execution(arn, "/stop");
            self.tell(&path, json(&error)?, Repeat::Always)
                .await
                .map(drop)
        })
    }

    fn release<'a>(&'a self, arn: &'a str, held: Held) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let path = match held {
                Held::GoOn => self.own(arn, "/resume")?,
                Held::Fail => self.own(arn, "/fail")?,
            };
            // The second one would be refused: it is not held any more.
            self.tell(&path, Bytes::new(), Repeat::Unsent)
                .await
                .map(drop)
        })
    }

    fn callback<'a>(&'a self, id: &'a str, reply: CallbackReply) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let path = |action: &str| {
                format!(
                    "/2025-12-01/durable-execution-callbacks/{}/{action}",
                    encoded(id)
                )
            };
            let (path, body, repeat) = match reply {
                CallbackReply::Succeeded(result) => {
                    (path("succeed"), bytes(result), Repeat::Unsent)
                }
                CallbackReply::Failed(error) => (path("fail"), json(&error)?, Repeat::Unsent),
                CallbackReply::Heartbeat => (path("heartbeat"), Bytes::new(), Repeat::Always),
            };
            self.tell(&path, body, repeat).await.map(drop)
        })
    }
}

fn unusable(error: Unusable) -> Error {
    refused(error.into())
}

fn bytes(payload: Option<Payload>) -> Bytes {
    payload.map_or_else(Bytes::new, |text| Bytes::copy_from_slice(text.as_bytes()))
}

fn json(error: &ErrorObject) -> Result<Bytes> {
    let written = serde_json::to_vec(error).map(Bytes::from);
    written.map_err(|error| refused(BackendError::transport(error.to_string())))
}

fn no_execution(function: &str) -> Error {
    let message = format!(
        "the function {function} is not durable: nothing was started that could be waited for"
    );
    Error::of_kind(ErrorKind::InvalidInput, None, message)
}
