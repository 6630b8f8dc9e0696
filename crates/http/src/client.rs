//! Requests to one endpoint: connections that are kept, one write and one read each.
//!
//! A connection belongs to one request at a time and is moved by whoever waits for the answer: there
//! is no task per connection, so an answer wakes nobody but its reader. Every request says who is
//! asking, by a token or a signature. It knows nothing of what is asked, and repeats only what cannot
//! have arrived.

use crate::{
    Credentials, Endpoint, Options, Unusable, now,
    sigv4::{Message, Signer},
    stream::Stream,
    tls::{Tls, is_final},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    client::conn::http1::{self, Connection, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use std::{
    fmt,
    future::{Future as _, poll_fn},
    pin::{Pin, pin},
    sync::{Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::{Semaphore, SemaphorePermit},
};

/// Requests under way at the same time that are answered at once. Others wait: more would not be
/// served faster, and files that a process may have open are few.
const REQUESTS_MAX: usize = 256;
/// Connections kept for later.
const IDLE_MAX: usize = 512;
/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take that is not waited for on purpose.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);
/// A connection over which nothing came for so long is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How often it is asked before it counts as gone.
const KEEP_ALIVE_RETRIES: u32 = 4;
/// Looks at a connection and its answer in turns, per wake: one sends, or reads the head of an
/// answer, the next reads its body.
const ROUNDS: usize = 2;
/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 64 * 1_048_576;

/// What to ask.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query; see [`Http::uri`].
    pub uri: Uri,
    /// Headers besides those that every request has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How long the server itself may wait before it answers; for ever if absent.
    pub patience: Option<Duration>,
}

impl Call {
    /// A request without a body.
    pub fn get(uri: Uri) -> Self {
        Self {
            method: Method::GET,
            uri,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            patience: Some(Duration::ZERO),
        }
    }

    /// A request with a body.
    pub fn post(uri: Uri, body: impl Into<Bytes>) -> Self {
        Self {
            method: Method::POST,
            body: body.into(),
            ..Self::get(uri)
        }
    }

    /// Adds a header, unless its value cannot be one.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Lets the server wait so long before it answers.
    pub fn patient(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }
}

/// What the server answered.
#[derive(Debug)]
pub struct Reply {
    /// Whether it is a success.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Reply {
    /// A header's text.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer. What it says names the remedy, where there is one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// Nobody got the request, and nobody will: it cannot be sent like this, or whoever is there is
    /// not who it should be.
    #[error("{0}")]
    Impossible(String),
    /// Nobody got the request.
    #[error("{0}")]
    NotSent(String),
    /// Somebody may have got it.
    #[error("{0}")]
    Broken(String),
}

/// A connection, moved by whoever uses it.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    moving: Pin<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
    is_encrypted: bool,
}

/// A connection of one caller's own, or none yet.
#[derive(Default)]
pub struct Own(Option<Line>);

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.0.is_some()).finish()
    }
}

/// An endpoint, and the connections to it.
pub struct Http {
    endpoint: Endpoint,
    tls: Option<Tls>,
    /// What every request carries.
    headers: HeaderMap,
    /// Signs them all.
    signer: Option<Signer>,
    idle: Mutex<Vec<Line>>,
    places: Semaphore,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Requests to the endpoint that the options name. Nothing is sent yet.
    ///
    /// # Errors
    /// When the endpoint cannot be asked like this.
    pub fn new(options: &Options) -> Result<Self, Unusable> {
        options.check()?;
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(options.endpoint.authority());
        headers.insert(
            HOST,
            host.map_err(|error| Unusable::new(error.to_string()))?,
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(agent) = options.agent {
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        }
        if let Credentials::Token(token) = &options.credentials {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| {
                Unusable::new("the token has characters that no header carries: copy it again, without line breaks")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            tls: options.tls()?,
            signer: options.signer(),
            endpoint: options.endpoint.clone(),
            headers,
            idle: Mutex::default(),
            places: Semaphore::new(REQUESTS_MAX),
        })
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The address of a path on this server.
    ///
    /// # Errors
    /// When it is no path.
    pub fn uri(&self, path: &str) -> Result<Uri, Unusable> {
        let whole = format!("{}{path}", self.endpoint.base());
        Uri::try_from(whole)
            .map_err(|error| Unusable::new(format!("the path {path} cannot be asked for: {error}")))
    }

    /// Asks once. A kept connection that turns out to be closed does not count.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self, call: &Call) -> Result<Reply, Failure> {
        let _place = self.place(call).await;
        loop {
            let kept = self.idle().pop();
            let was_kept = kept.is_some();
            let mut line = match kept {
                Some(line) => line,
                None => self.connect().await?,
            };
            match self.exchange(&mut line, call).await {
                Ok(reply) => {
                    let mut idle = self.idle();
                    if idle.len() < IDLE_MAX {
                        idle.push(line);
                    }
                    return Ok(reply);
                }
                // The server had closed it while nobody looked.
                Err(Failure::NotSent(_)) if was_kept => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Asks once over a connection of the caller's own, which is made when there is none and kept
    /// as long as it works.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send_over(&self, own: &mut Own, call: &Call) -> Result<Reply, Failure> {
        let mut line = match own.0.take() {
            Some(line) => line,
            None => self.connect().await?,
        };
        let reply = self.exchange(&mut line, call).await?;
        own.0 = Some(line);
        Ok(reply)
    }

    async fn exchange(&self, line: &mut Line, call: &Call) -> Result<Reply, Failure> {
        let exchange = exchange(line, self.request(call)?);
        let Some(patience) = call.patience else {
            return exchange.await;
        };
        let limit = patience + ANSWER_MAX;
        match tokio::time::timeout(limit, exchange).await {
            Ok(ended) => ended,
            Err(_) => {
                let message = format!("no answer within {} s", limit.as_secs());
                Err(Failure::Broken(message))
            }
        }
    }

    async fn place(&self, call: &Call) -> Option<SemaphorePermit<'_>> {
        match call.patience {
            // The semaphore is never closed.
            Some(Duration::ZERO) => self.places.acquire().await.ok(),
            Some(_) | None => None,
        }
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.uri.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.extend(call.headers.clone());
        if let Some(signer) = &self.signer {
            let message = Message {
                method: &call.method,
                path: call.uri.path(),
                query: call.uri.query().unwrap_or_default(),
                body: &call.body,
            };
            let signed = signer.sign(&message, headers, now());
            signed.map_err(|error| Failure::Impossible(error.to_string()))?;
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Line, Failure> {
        let connecting = tokio::time::timeout(CONNECT_MAX, self.open());
        let Ok(stream) = connecting.await else {
            return Err(Failure::NotSent(self.unreachable(&"no answer")));
        };
        let handshake = http1::handshake(TokioIo::new(stream?)).await;
        let (sender, moving) =
            handshake.map_err(|error| Failure::NotSent(self.unreachable(&error)))?;
        Ok(Line {
            sender,
            moving: Box::pin(moving),
            is_encrypted: self.tls.is_some(),
        })
    }

    async fn open(&self) -> Result<Stream, Failure> {
        let (host, port) = (self.endpoint.host(), self.endpoint.port());
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| Failure::NotSent(self.unreachable(&error)))?;
        // Requests are one write each: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        // A server that vanished without a word is noticed, however long an answer may take.
        let keep_alive = TcpKeepalive::new()
            .with_time(KEEP_ALIVE)
            .with_interval(KEEP_ALIVE)
            .with_retries(KEEP_ALIVE_RETRIES);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
        let Some(tls) = &self.tls else {
            return Ok(Stream::Plain(stream));
        };
        let encrypted = tls.connect(host, stream).await.map_err(|error| {
            let message = self.unreachable(&error);
            match is_final(&error) {
                true => Failure::Impossible(message),
                false => Failure::NotSent(message),
            }
        })?;
        Ok(Stream::Encrypted(Box::new(encrypted)))
    }

    fn unreachable(&self, reason: &dyn fmt::Display) -> String {
        format!("{} cannot be reached: {reason}", self.endpoint)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its whole answer.
async fn exchange(line: &mut Line, request: Request<Full<Bytes>>) -> Result<Reply, Failure> {
    let Line {
        sender,
        moving,
        is_encrypted,
    } = line;
    let told = |error: &hyper::Error| match error.is_parse() && !*is_encrypted {
        true => format!(
            "what answers there does not speak plain HTTP: is https:// meant? ({})",
            told(error)
        ),
        false => told(error),
    };
    let mut answering = pin!(async {
        sender
            .ready()
            .await
            .map_err(|error| Failure::NotSent(told(&error)))?;
        let response = sender.try_send_request(request).await;
        let response = response.map_err(|mut error| match error.take_message() {
            Some(_) => Failure::NotSent(told(error.error())),
            None => Failure::Broken(told(error.error())),
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::Broken(error.to_string()))?;
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    });
    let mut moves = true;
    poll_fn(|poller| {
        // What one of them did, the other often can go on with at once: that saves being woken.
        for _ in 0..ROUNDS {
            if let Poll::Ready(reply) = answering.as_mut().poll(poller) {
                return Poll::Ready(reply);
            }
            if moves {
                // What it has to say about its end, the answer says too.
                moves = moving.as_mut().poll(poller).is_pending();
            }
        }
        answering.as_mut().poll(poller)
    })
    .await
}

/// An error with its causes: hyper's own words alone say little.
fn told(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
