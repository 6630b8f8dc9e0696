//! The Lambda Runtime API (`2018-06-01`) as a host: workers ask for invocations and answer them.
//!
//! A call waits in a line until a worker asks; from then on the function's timeout runs, and
//! whatever ends the invocation first counts: an answer, an error report, the worker's death
//! ([`peer`](crate::host::peer) says how that is noticed), the timeout. After that its id is unknown
//! here: a late answer gets 400 and is dropped. When the engine abandons a call that a worker has,
//! the worker's answer is still accepted until the deadline, and dropped. A worker that asks again without having answered
//! is no sign of anything: a client with several connections asks over whichever is free.
//!
//! Death by the end of a process or connection is a conclusion, and an answer that arrives after all
//! refutes it. From then on the host no longer draws it for this function.
//!
//! A worker that reports that it could not start fails the one call it would have got. When to try
//! that call again is the engine's to decide.

mod message;
pub(crate) mod route;
mod state;

use crate::host::{
    announced::Announced,
    document,
    ending::Ending,
    lock,
    peer::{Peer, is_passing},
    queue::{Key, Tenant},
    worker::Worker,
};
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Request, Response, StatusCode, body::Body, header::HeaderName};
use message::{ERROR_TYPE, Event, INVOCATION_ID, TENANTS, accepted, text};
pub(crate) use message::{NoBody, collect, refused};
use outlast_core::{
    Outcome,
    arn::Function,
    id::{digest128, uuid},
    intent::InvokeOutcome,
    wire::{ErrorObject, error_type},
};
use outlast_engine::{
    clock::Clock,
    invoker::{BoxFuture, Call, Invoker, PlainCall},
    random::Random,
};
use route::Route;
use state::{Asked, Handover, Reported, State, Ticket, Work};
use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};

/// Calls that may wait for workers unless told otherwise.
pub const WAITING_MAX_DEFAULT: usize = 10_000;

/// Seconds that a keeper's sign of life may be held.
const ALIVE_SECONDS_MAX: u64 = 60;
/// Bytes of how a worker ended that are kept.
const ENDED_BYTES_MAX: usize = 1_024;
/// Under which id a worker was announced.
const WORKER: HeaderName = HeaderName::from_static("outlast-worker");

/// What a host has to know of its function.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The function version whose calls it takes.
    pub function: Function,
    /// How long one invocation may take, from the moment a worker has it.
    pub timeout: Duration,
    /// Calls that may wait for workers; further ones are refused and tried again by the engine.
    pub waiting_max: usize,
}

/// How much there is to do, and who does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Calls that wait for a worker.
    pub waiting: usize,
    /// Invocations that a worker has.
    pub assigned: usize,
    /// Requests for work that wait for a call.
    pub asking: usize,
    /// Workers that are known to be there.
    pub workers: usize,
}

/// Hands the calls of one function version to the workers that ask for them.
pub struct RuntimeHost {
    settings: Settings,
    /// How long one invocation may take now, in milliseconds.
    timeout_ms: AtomicU64,
    arn: String,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    state: Mutex<State>,
    announced: Announced,
    closed: watch::Sender<bool>,
}

impl RuntimeHost {
    /// A host without workers.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Arc<Self> {
        Arc::new(Self {
            arn: settings.function.to_string(),
            timeout_ms: AtomicU64::new(millis(settings.timeout)),
            settings,
            clock,
            random,
            state: Mutex::default(),
            announced: Announced::default(),
            closed: watch::Sender::new(false),
        })
    }

    /// The function version whose calls it takes.
    pub fn function(&self) -> &Function {
        &self.settings.function
    }

    /// How long one invocation may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed))
    }

    /// Lets invocations that workers get from now on take so long.
    pub fn set_timeout(&self, timeout: Duration) {
        self.timeout_ms.store(millis(timeout), Ordering::Relaxed);
    }

    /// Durable calls no longer wait here for a worker: whoever makes them is about to end. What
    /// workers have goes on.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Resolves when the host was closed.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender is a field of this: it cannot be gone.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// How much there is to do, and who does it.
    pub fn backlog(&self) -> Backlog {
        lock(&self.state).backlog()
    }

    /// Answers one request of a worker. Whoever serves the connection has put a [`Peer`] into the
    /// request's extensions; without one, nothing is known of the worker, and its death is not
    /// noticed before the function's timeout.
    ///
    /// Dropping the future of a request for work withdraws the request; nothing is lost.
    pub async fn serve<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().cloned();
        let connection = peer.unwrap_or_else(Peer::unknown);
        let named = text(&parts.headers, &WORKER).and_then(|id| self.announced.peer(id));
        let peer = named.unwrap_or_else(|| connection.clone());
        match route::parse(&parts.method, parts.uri.path()) {
            Err(status) => refused(status, "InvalidPath", "the Runtime API has no such call"),
            Ok(Route::Next) => {
                let passing = is_passing(parts.version, &parts.headers);
                let key = match keeps_tenants_apart(&parts.headers) {
                    true => peer.shared_key().await,
                    false => peer.key().await,
                };
                self.next(&peer, key, !passing).await
            }
            Ok(Route::RestoreNext) => message::json(StatusCode::OK, Bytes::new()),
            // A body is read even when it is not wanted: a connection with half a request in it is
            // lost.
            Ok(Route::Response(id)) => {
                let ending = collect(body).await.map(responded);
                self.answered(id, &peer, &parts.headers, ending)
            }
            Ok(Route::Error(id)) => {
                let kind = text(&parts.headers, &ERROR_TYPE);
                let failed = |(body, _): (Bytes, _)| Ending::Failed(document::read(&body, kind));
                let ending = collect(body).await.map(failed);
                self.answered(id, &peer, &parts.headers, ending)
            }
            Ok(Route::InitError | Route::RestoreError) => {
                self.not_started(&peer, &parts.headers, body).await
            }
            Ok(Route::Alive(id)) => self.alive(id, &connection, parts.uri.query()).await,
            Ok(Route::Ended(id)) => self.ended(id, body).await,
        }
    }

    /// The keeper of a worker on another machine says that it is alive; it is told, sooner or later,
    /// whether to replace it.
    async fn alive(&self, id: &str, peer: &Peer, query: Option<&str>) -> Response<Full<Bytes>> {
        let seconds = query.and_then(|query| query.strip_prefix("WaitSeconds="));
        let seconds = seconds.map_or(Some(ALIVE_SECONDS_MAX), |seconds| seconds.parse().ok());
        let Some(seconds) = seconds.filter(|seconds| *seconds <= ALIVE_SECONDS_MAX) else {
            let message = format!("WaitSeconds must be 0 to {ALIVE_SECONDS_MAX}");
            return refused(StatusCode::BAD_REQUEST, "InvalidRequest", &message);
        };
        let Some(worker) = self.announced.alive(id, peer) else {
            let message = "the id cannot be a worker's, or there are too many workers";
            return refused(StatusCode::FORBIDDEN, "InvalidWorker", message);
        };
        let limit = Duration::from_secs(seconds);
        let replace = tokio::time::timeout(limit, worker.has_to_die())
            .await
            .is_ok();
        let body = format!("{{\"Replace\":{replace}}}");
        message::json(StatusCode::OK, body.into())
    }

    /// The keeper of a worker on another machine says that it has ended, and how.
    async fn ended<B>(&self, id: &str, body: B) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
    {
        let how = collect(body)
            .await
            .map(|(body, _)| body)
            .unwrap_or_default();
        let how = how
            .get(..how.len().min(ENDED_BYTES_MAX))
            .unwrap_or_default();
        let how = String::from_utf8_lossy(how);
        if let Some(worker) = self.announced.remove(id) {
            let function = &self.settings.function.name;
            tracing::info!(%function, worker = id, ?how, "a worker ended");
            worker.died(&how);
            if !worker.has_polled() && !worker.start_failed() {
                let error = ErrorObject::new(error_type::RUNTIME_EXIT, how);
                self.start_failed(&worker, error);
            }
        }
        accepted()
    }

    /// A worker could not start, and could not say so itself: the call it would have got fails.
    pub fn start_failed(&self, worker: &Worker, error: ErrorObject) {
        worker.cannot_start();
        let key = Key::Worker(worker.number());
        lock(&self.state).fail_first(key, Ending::Failed(error));
    }

    async fn next(&self, peer: &Peer, key: Key, trusted: bool) -> Response<Full<Bytes>> {
        if let Some(worker) = peer.worker() {
            worker.polls();
        }
        loop {
            let mut asked = Asked::new(&self.state, key, peer.clone());
            let Some(work) = asked.work().await else {
                continue;
            };
            if let Some(response) = self.hand_over(work, key, peer, trusted) {
                return response;
            }
        }
    }

    /// Gives a call to a worker, unless nobody waits for its end any more.
    fn hand_over(
        &self,
        work: Work,
        key: Key,
        peer: &Peer,
        trusted: bool,
    ) -> Option<Response<Full<Bytes>>> {
        let timeout = self.timeout();
        let until = Instant::now() + timeout;
        let deadline_ms = self.clock.now().as_millis().saturating_add(millis(timeout));
        let handover = Handover {
            peer: peer.clone(),
            trusted,
            until,
        };
        let call = lock(&self.state).assign(work, key, handover)?;
        let event = Event {
            id: &call.id,
            deadline_ms,
            function: &self.arn,
            trace: call.trace.as_deref(),
            client_context: call.client_context.as_deref(),
            tenant: call.tenant.as_deref(),
            body: call.body,
        };
        Some(event.response())
    }

    /// A worker says how a call ended.
    fn answered(
        &self,
        id: &str,
        peer: &Peer,
        headers: &HeaderMap,
        ending: Result<Ending, NoBody>,
    ) -> Response<Full<Bytes>> {
        if let Some(response) = self.refuse(id, peer, headers) {
            return response;
        }
        match ending {
            Ok(ending) => self.report(id, peer, ending),
            Err(NoBody::TooLarge) => self.too_large(id, peer),
            Err(NoBody::Broken) => broken(),
        }
    }

    async fn not_started<B>(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        body: B,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
    {
        let body = collect(body).await;
        let late = peer
            .worker()
            .is_some_and(|worker| worker.has_polled() || worker.start_failed());
        if late {
            let message = "the worker has started, or has said before that it could not";
            return refused(StatusCode::FORBIDDEN, "InvalidStateTransition", message);
        }
        let error = match body {
            Ok((body, _)) => document::read(&body, text(headers, &ERROR_TYPE)),
            Err(NoBody::TooLarge) => {
                let message = "the report is too large to be kept";
                ErrorObject::new(
                    text(headers, &ERROR_TYPE).unwrap_or("Runtime.Unknown"),
                    message,
                )
            }
            Err(NoBody::Broken) => return broken(),
        };
        let key = peer.key().await;
        if let Some(worker) = peer.worker() {
            worker.cannot_start();
        }
        lock(&self.state).fail_first(key, Ending::Failed(error));
        accepted()
    }

    /// The refusal of an answer that is not expected.
    fn refuse(&self, id: &str, peer: &Peer, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
        let echoes = text(headers, &INVOCATION_ID).is_none_or(|echo| echo == id);
        let expected = echoes && lock(&self.state).expects(id);
        (!expected).then(|| unknown(id, peer))
    }

    fn report(&self, id: &str, peer: &Peer, ending: Ending) -> Response<Full<Bytes>> {
        let reported = lock(&self.state).end(id, ending);
        match reported {
            Reported::Taken => {
                free(id, peer);
                accepted()
            }
            Reported::Unknown => unknown(id, peer),
        }
    }

    fn too_large(&self, id: &str, peer: &Peer) -> Response<Full<Bytes>> {
        let answer = self.report(id, peer, Ending::too_large());
        match answer.status() {
            StatusCode::ACCEPTED => refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                "a handler may answer 6 MiB",
            ),
            _ => answer,
        }
    }

    /// One call, from its place in the line to its end. It leaves the line when `until` resolves.
    async fn call(&self, call: NewCall, until: impl Future<Output = ()>) -> Ending {
        let (handed, mut handover) = oneshot::channel();
        let (ended, mut ending) = oneshot::channel();
        let work = Work::new(call, handed, ended);
        let Some(ticket) = Ticket::new(&self.state, work, self.settings.waiting_max) else {
            return Ending::NotStarted(ErrorObject::new(
                "TooManyRequestsException",
                format!(
                    "{} calls of the function {} wait for a worker already",
                    self.settings.waiting_max, self.settings.function.name
                ),
            ));
        };
        let lost = || Ending::exited("the host dropped the call");
        let handover = tokio::select! {
            biased;
            ended = &mut ending => return ended.unwrap_or_else(|_| lost()),
            handover = &mut handover => handover,
            () = until => {
                let message = "the server ended before a worker asked for the call";
                return Ending::NotStarted(ErrorObject::new("ServiceException", message));
            }
        };
        let Ok(handover) = handover else {
            return ending.await.unwrap_or_else(|_| lost());
        };
        let ended = tokio::select! {
            biased;
            ended = &mut ending => ended.unwrap_or_else(|_| lost()),
            // Its keeper kills a worker that is overdue, and that is no death of its own.
            () = sleep_until(handover.until) => Ending::timed_out(self.timeout()),
            of = ticket.worker_gone(&handover) => Ending::exited(&*of),
        };
        ticket.fence();
        ended
    }
}

impl Invoker for RuntimeHost {
    fn has_begun(&self, invocation_id: &str) -> bool {
        lock(&self.state).has_worker(invocation_id)
    }

    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let body = match serde_json::to_vec(&call.input) {
                Ok(body) => Bytes::from(body),
                Err(error) => {
                    let message = format!("the input cannot be written: {error}");
                    return Outcome::Failed(ErrorObject::new("Outlast.Input", message));
                }
            };
            let call = NewCall {
                id: call.invocation_id,
                body,
                tenant: call.tenant,
                trace: call.trace,
                client_context: call.client_context.map(|context| readable(&context)),
            };
            self.call(call, self.closed()).await.durable()
        })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async move {
            let fresh = || uuid(digest128(&[b"plain", &self.random.bytes()])).into();
            let call = NewCall {
                id: call.id.unwrap_or_else(fresh),
                body: Bytes::copy_from_slice(call.input.as_bytes()),
                tenant: call.tenant.map(Into::into),
                trace: call.trace.map(Into::into),
                client_context: call.client_context.map(|context| readable(&context.into())),
            };
            // It is called once: whoever made the call repeats it or takes it back, if anybody does.
            self.call(call, std::future::pending()).await.plain()
        })
    }
}

impl fmt::Debug for RuntimeHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeHost")
            .field("settings", &self.settings)
            .field("backlog", &self.backlog())
            .finish_non_exhaustive()
    }
}

/// A call that is new to the host.
#[derive(Debug)]
pub(crate) struct NewCall {
    pub(crate) id: Arc<str>,
    pub(crate) body: Bytes,
    pub(crate) tenant: Tenant,
    pub(crate) trace: Option<Arc<str>>,
    pub(crate) client_context: Option<Arc<str>>,
}

/// A client context as handlers read it: callers of the Invoke API send it in base64, workers want
/// its JSON.
fn readable(context: &Arc<str>) -> Arc<str> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(context.as_bytes());
    let text = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or_else(|| context.clone(), Into::into)
}

/// A response; a stream that broke in its middle says so at its end.
fn responded((body, trailers): (Bytes, HeaderMap)) -> Ending {
    match text(&trailers, &ERROR_TYPE) {
        Some(kind) => Ending::Failed(streamed(kind, &trailers, &body)),
        None => Ending::Answered(body),
    }
}

/// The error at the end of a streamed answer: its type, and in base64 its document.
fn streamed(kind: &str, trailers: &HeaderMap, body: &[u8]) -> ErrorObject {
    let document = trailers
        .get("lambda-runtime-function-error-body")
        .and_then(|value| {
            let engine = base64::engine::general_purpose::STANDARD;
            engine.decode(value.as_bytes()).ok()
        });
    match document {
        Some(document) => document::read(&document, Some(kind)),
        None => {
            let message = format!("the answer broke off after {} bytes", body.len());
            ErrorObject::new(kind, message)
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a worker says that it keeps tenants apart itself, as those of the Outlast SDK do: one
/// process of them runs many executions at once.
fn keeps_tenants_apart(headers: &HeaderMap) -> bool {
    text(headers, &TENANTS) == Some("any")
}

/// The worker is done with an invocation, in time or not.
fn free(id: &str, peer: &Peer) {
    if let Some(worker) = peer.worker() {
        worker.answered(id);
    }
}

fn unknown(id: &str, peer: &Peer) -> Response<Full<Bytes>> {
    free(id, peer);
    let message = "no such invocation is running: it has ended, or run past its deadline";
    refused(StatusCode::BAD_REQUEST, "InvalidRequestID", message)
}

fn broken() -> Response<Full<Bytes>> {
    let message = "the body ended before its end";
    refused(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}
