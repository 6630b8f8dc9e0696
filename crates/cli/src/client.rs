//! The HTTP client behind every command that talks to an endpoint, Outlast's or AWS's.
//!
//! It carries requests and says in one way what went wrong. Which requests there are is `service`'s;
//! it repeats none that may have arrived.

mod endpoint;

pub(crate) use endpoint::Endpoint;

use crate::{arguments::client::Connection, problem::Problem};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Handle,
    time::timeout,
};

/// How long an endpoint may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an endpoint may take to answer unless a call says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of one answer, at most.
const ANSWER_BYTES_MAX: usize = 256 * 1_048_576;
/// Connections that are kept for the next call.
const IDLE_MAX: usize = 64;
const ERROR_TYPE: &str = "x-amzn-errortype";
const AGENT: &str = concat!("outlast/", env!("CARGO_PKG_VERSION"));

/// One call of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, encoded.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long the answer may take.
    pub(crate) patience: Duration,
}

impl Call {
    /// A call without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            patience: PATIENCE,
        }
    }

    /// With bytes as its body.
    pub(crate) fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With JSON as its body.
    pub(crate) fn with_json(mut self, body: &Value) -> Self {
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.with_body(body.to_string())
    }

    /// With a header.
    ///
    /// # Errors
    /// When no header can carry the value.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, Problem> {
        let Ok(value) = HeaderValue::from_str(value) else {
            return Err(Problem::usage(format!(
                "{value:?} cannot be sent as {name}: use printable ASCII only"
            )));
        };
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(self)
    }
}

/// What an endpoint answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none: then the endpoint is not what it is taken for.
    pub(crate) fn json(&self) -> Result<Value, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::wrong(format!(
                "the endpoint's answer is not JSON ({error}): is it an Outlast or AWS Lambda endpoint?"
            ))
        })
    }
}

/// Calls an endpoint. Connections are kept for the next call.
pub(crate) struct Client {
    endpoint: Endpoint,
    token: Option<String>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl fmt::Debug for Client {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the endpoint that arguments and environment name.
    pub(crate) fn new(connection: &Connection) -> Self {
        let token = connection.token.clone();
        Self {
            endpoint: connection.endpoint(),
            token: token.filter(|token| !token.is_empty()),
            idle: Mutex::default(),
        }
    }

    /// Sends a call whose answer must be a success.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or refuses.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Problem> {
        let answer = self.send(call).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.refused(&answer))
    }

    /// Sends a call, whatever the answer.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or does not answer in time.
    pub(crate) async fn send(&self, call: Call) -> Result<Answer, Problem> {
        let patience = call.patience;
        match timeout(patience, self.exchange(call)).await {
            Ok(answer) => answer,
            Err(_) => {
                let (endpoint, seconds) = (&self.endpoint, patience.as_secs());
                let message = format!("{endpoint} did not answer within {seconds} seconds");
                Err(Problem::unreachable(message))
            }
        }
    }

    async fn exchange(&self, call: Call) -> Result<Answer, Problem> {
        let mut request = self.request(call)?;
        let lost = |error: hyper::Error| self.lost(&error);
        // A kept connection may have been closed meanwhile; what was not sent is sent again.
        while let Some(mut sender) = self.kept() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.receive(response, sender).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(lost(error.into_error())),
                },
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await.map_err(lost)?;
        self.receive(response, sender).await
    }

    async fn receive(
        &self,
        response: hyper::Response<hyper::body::Incoming>,
        sender: SendRequest<Full<Bytes>>,
    ) -> Result<Answer, Problem> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| {
            let message = format!("{} broke off its answer: {error}", self.endpoint);
            Problem::unreachable(message)
        })?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
        drop(idle);
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, Problem> {
        let path = format!("{}{}", self.endpoint.base(), call.path);
        let uri = path.parse::<hyper::Uri>();
        let uri = uri.map_err(|error| Problem::usage(format!("{path} is no path: {error}")))?;
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = call.headers;
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(self.endpoint.authority()) {
            headers.insert(HOST, host);
        }
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        }
        self.authorize(&mut request)?;
        Ok(request)
    }

    /// Says who is calling: by a token, or not at all. The one place where requests are signed.
    fn authorize(&self, request: &mut Request<Full<Bytes>>) -> Result<(), Problem> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}")) else {
            return Err(Problem::usage(
                "the token has characters that cannot be sent: copy it again, without line breaks",
            ));
        };
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Problem> {
        let stream = match timeout(CONNECT_MAX, open(&self.endpoint)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string())),
            Err(_) => return Err(self.unreachable("it did not accept a connection in time")),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.lost(&error))?;
        drop(Handle::current().spawn(async move {
            // What breaks is seen by whoever waits for an answer.
            let _ = connection.await;
        }));
        Ok(sender)
    }

    fn unreachable(&self, reason: &str) -> Problem {
        Problem::unreachable(format!(
            "{} cannot be reached: {reason}; start a server with `outlast serve --dev`, or name \
             another one with --endpoint or OUTLAST_ENDPOINT",
            self.endpoint
        ))
    }

    fn lost(&self, error: &hyper::Error) -> Problem {
        Problem::unreachable(format!(
            "the connection to {} broke: {error}",
            self.endpoint
        ))
    }

    /// What a refusal says.
    fn refused(&self, answer: &Answer) -> Problem {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |member: &str| body.get(member).and_then(Value::as_str);
        let exception = answer.header(ERROR_TYPE).or_else(|| text("__type"));
        // AWS appends an address to some names.
        let exception = exception.and_then(|name| name.split(':').next());
        let message = text("Message").or_else(|| text("message"));
        let message = message.map_or_else(
            || format!("{} answered {}", self.endpoint, answer.status),
            str::to_owned,
        );
        Problem::refused(answer.status.as_u16(), exception, message)
    }
}

/// What a connection is made of.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects. The one place where connections are encrypted.
async fn open(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    if endpoint.is_encrypted() {
        let message = "this build has no TLS: use an http:// endpoint";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let stream = TcpStream::connect((endpoint.host(), endpoint.port())).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}
