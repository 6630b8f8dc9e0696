//! Calls functions that answer the Lambda Invoke API over HTTP: containers with the Runtime
//! Interface Emulator, `sam local start-lambda`, AWS Lambda, and whatever else behaves like them.
//!
//! One connection per call, no redirects, no retries of its own: the engine tries again. Before
//! anything is sent, the target's address is looked up once, held against the
//! [`AddressPolicy`], and then that very address is connected to, so that a
//! name cannot lead somewhere else in between.
//!
//! What counts as which failure: before the request is sent nothing has run, so it never started.
//! Afterwards the handler may have run: a broken connection is the end of its process, and an answer
//! of the server's own (5xx) a failed invocation.

pub mod address;
pub mod connect;
pub mod signing;

use crate::host::{
    ANSWER_BYTES_MAX, document,
    ending::Ending,
    runtime::{NoBody, collect},
};
use address::AddressPolicy;
use bytes::Bytes;
use connect::Connector;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use outlast_core::{
    Outcome,
    arn::Function,
    intent::InvokeOutcome,
    wire::{ErrorObject, error_type},
};
use outlast_engine::invoker::{BoxFuture, Call, Invoker, PlainCall};
use outlast_http::{
    Endpoint, now,
    sigv4::{Message, Signer},
};
use std::{fmt, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Waited for beyond the function's timeout unless told otherwise: the target counts that itself,
/// and local emulators build and start a container in the same call.
pub const SLACK_DEFAULT: Duration = Duration::from_secs(60);
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Tells a target that knows both that it is to run the handler and not to start an execution.
const HANDLER_INVOKE: HeaderName = HeaderName::from_static("x-dex-handler-invoke");
const FUNCTION_ERROR: HeaderName = HeaderName::from_static("x-amz-function-error");
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTarget {
    /// It is no address.
    #[error(transparent)]
    Endpoint(#[from] outlast_http::endpoint::InvalidEndpoint),
    /// The API is where it is.
    #[error("the endpoint {0} cannot be used: it has a path")]
    Path(String),
}

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    endpoint: Endpoint,
    path: String,
}

impl Target {
    /// The function that the server at `endpoint` (`https://host[:port]` or `http://`) knows as
    /// `function`.
    ///
    /// # Errors
    /// When the endpoint is not such a URL, without path, query or user.
    pub fn new(endpoint: &str, function: &str) -> Result<Self, InvalidTarget> {
        let parsed: Endpoint = endpoint.parse()?;
        if !parsed.base().is_empty() {
            return Err(InvalidTarget::Path(endpoint.to_owned()));
        }
        Ok(Self {
            endpoint: parsed,
            path: format!("/2015-03-31/functions/{}/invocations", encoded(function)),
        })
    }

    /// Where its server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Name or address of the server.
    pub fn host(&self) -> &str {
        self.endpoint.host()
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.endpoint.port()
    }
}

/// What a push host has to know of its function.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The function version whose calls it makes.
    pub function: Function,
    /// Where to.
    pub target: Target,
    /// How long one invocation may take.
    pub timeout: Duration,
    /// Waited for beyond that.
    pub slack: Duration,
    /// Who signs its calls, if anybody does.
    pub signer: Option<Signer>,
}

/// Calls one function version over HTTP.
pub struct PushHost {
    settings: Settings,
    policy: Arc<AddressPolicy>,
    connector: Arc<dyn Connector>,
}

impl PushHost {
    /// A host that connects as `policy` allows.
    pub fn new(
        settings: Settings,
        policy: Arc<AddressPolicy>,
        connector: Arc<dyn Connector>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            policy,
            connector,
        })
    }

    async fn call(&self, body: Bytes, headers: HeaderMap, durable: bool) -> Ending {
        let deadline = Instant::now() + self.settings.timeout + self.settings.slack;
        let connected = timeout_at(deadline.min(Instant::now() + CONNECT_MAX), self.connect());
        let stream = match connected.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Ending::NotStarted(error),
            Err(_) => return not_reached("it does not answer"),
        };
        let exchange = self.exchange(stream, body, headers, durable);
        match timeout_at(deadline, exchange).await {
            Ok(ending) => ending,
            Err(_) => Ending::timed_out(self.settings.timeout),
        }
    }

    async fn connect(&self) -> Result<connect::BoxStream, ErrorObject> {
        let target = &self.settings.target;
        let refused = |reason: String| {
            let message = format!("{} cannot be called: {reason}", target.endpoint);
            ErrorObject::new("ServiceUnavailableException", message)
        };
        let addresses = self.connector.resolve(target).await;
        let addresses = addresses.map_err(|error| refused(error.to_string()))?;
        let mut reason = "its name has no address".to_owned();
        for address in addresses {
            if !self.policy.allows(target.host(), address.ip()) {
                reason = format!("the address policy forbids {}", address.ip());
                continue;
            }
            match self.connector.connect(target, address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(refused(reason))
    }

    async fn exchange(
        &self,
        stream: connect::BoxStream,
        body: Bytes,
        headers: HeaderMap,
        durable: bool,
    ) -> Ending {
        let request = match self.request(body, headers) {
            Ok(request) => request,
            Err(error) => return not_reached(&error),
        };
        let (mut sender, connection) = match http1::handshake(TokioIo::new(stream)).await {
            Ok(both) => both,
            Err(error) => return not_reached(&error.to_string()),
        };
        let answer = async {
            let response = sender.send_request(request).await?;
            Ok::<_, hyper::Error>(read(response, durable).await)
        };
        let mut answer = pin!(answer);
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            // Whatever ended the connection, the answer knows whether it came through.
            _ = connection => answer.await,
        };
        answered.unwrap_or_else(|error| {
            Ending::exited(format!("the connection to the function broke: {error}"))
        })
    }

    fn request(&self, body: Bytes, headers: HeaderMap) -> Result<Request<Full<Bytes>>, String> {
        let Settings { target, signer, .. } = &self.settings;
        let mut all = headers;
        let json = HeaderValue::from_static("application/json");
        all.insert(CONTENT_TYPE, json);
        let kind = HeaderValue::from_static("RequestResponse");
        all.insert(HeaderName::from_static("x-amz-invocation-type"), kind);
        let host = HeaderValue::from_str(target.endpoint.authority());
        all.insert(HOST, host.map_err(|error| error.to_string())?);
        if let Some(signer) = signer {
            let message = Message {
                method: &Method::POST,
                path: &target.path,
                query: "",
                body: &body,
            };
            let signed = signer.sign(&message, &mut all, now());
            signed.map_err(|error| error.to_string())?;
        }
        let request = Request::post(&target.path).body(Full::new(body));
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = all;
        Ok(request)
    }
}

impl Invoker for PushHost {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let body = match serde_json::to_vec(&call.input) {
                Ok(body) => Bytes::from(body),
                Err(error) => {
                    let message = format!("the input cannot be written: {error}");
                    return Outcome::Failed(ErrorObject::new("Outlast.Input", message));
                }
            };
            let headers = headers(&[
                (HANDLER_INVOKE, Some("true")),
                (TENANT, call.tenant.as_deref()),
                (TRACE, call.trace.as_deref()),
                (CLIENT_CONTEXT, call.client_context.as_deref()),
            ]);
            self.call(body, headers, true).await.durable()
        })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async move {
            let body = Bytes::copy_from_slice(call.input.as_bytes());
            let headers = headers(&[
                (HANDLER_INVOKE, Some("true")),
                (TENANT, call.tenant.as_deref()),
                (TRACE, call.trace.as_deref()),
                (CLIENT_CONTEXT, call.client_context.as_deref()),
            ]);
            self.call(body, headers, false).await.plain()
        })
    }
}

impl fmt::Debug for PushHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushHost")
            .field("settings", &self.settings)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

const TENANT: HeaderName = HeaderName::from_static("x-amz-tenant-id");
const TRACE: HeaderName = HeaderName::from_static("x-amzn-trace-id");
const CLIENT_CONTEXT: HeaderName = HeaderName::from_static("x-amz-client-context");

/// Those headers that have a value which a header can carry.
fn headers(all: &[(HeaderName, Option<&str>)]) -> HeaderMap {
    all.iter()
        .filter_map(|(name, value)| Some((name.clone(), HeaderValue::from_str((*value)?).ok()?)))
        .collect()
}

/// What an answer means.
async fn read(response: Response<Incoming>, durable: bool) -> Ending {
    let (parts, body) = response.into_parts();
    let text = |name: &HeaderName| {
        let value = parts.headers.get(name);
        value.and_then(|value| value.to_str().ok())
    };
    let body = match collect(body).await {
        Ok((body, _)) => body,
        Err(NoBody::TooLarge) => return Ending::too_large(),
        Err(NoBody::Broken) => {
            return Ending::exited("the connection to the function broke in its answer");
        }
    };
    debug_assert!(body.len() <= ANSWER_BYTES_MAX, "bounded while it was read");
    if parts.status.is_success() {
        return match text(&FUNCTION_ERROR) {
            Some(_) => Ending::Failed(document::read(&body, None)),
            None => match document::recognise(&body, durable) {
                Some(error) => Ending::Failed(error),
                None => Ending::Answered(body),
            },
        };
    }
    refused(parts.status, text(&ERROR_TYPE), &body)
}

/// What it means that the server did not run the function, or does not say.
fn refused(status: StatusCode, kind: Option<&str>, body: &[u8]) -> Ending {
    // The header may go on after the name: `Name:http://…`.
    let name = kind.and_then(|kind| kind.split(':').next());
    let message = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = message.as_ref().and_then(|body| {
        let member = |name| body.get(name).and_then(serde_json::Value::as_str);
        member("message").or_else(|| member("Message"))
    });
    let error = |other: &str| {
        let message = match message {
            Some(message) => message.to_owned(),
            None => format!("the function's server answered {status}"),
        };
        ErrorObject::new(name.unwrap_or(other), message)
    };
    match status {
        // Any other 404 may come from a server that is not the right one.
        StatusCode::NOT_FOUND if name == Some(error_type::RESOURCE_NOT_FOUND) => {
            Ending::Missing(error(error_type::RESOURCE_NOT_FOUND))
        }
        status if status.is_server_error() => Ending::Failed(error("ServiceException")),
        _ => Ending::NotStarted(error("InvalidRequestContentException")),
    }
}

fn not_reached(reason: &str) -> Ending {
    Ending::NotStarted(ErrorObject::new(
        "ServiceUnavailableException",
        format!("the function cannot be called: {reason}"),
    ))
}

/// A path segment.
fn encoded(segment: &str) -> String {
    let mut text = String::new();
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests;
