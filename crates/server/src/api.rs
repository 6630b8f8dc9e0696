//! From a request to its answer: route, body, operation.
//!
//! One file per group of operations; each only translates between HTTP and the engine.

mod callback;
mod clock;
mod execution;
mod functions;
mod invoke;
mod list;
mod logs;
mod own;
mod together;

use crate::{
    answer::{Answer, Answered, identify, refusal},
    auth::{Access, Caller},
    catalogue::Catalogue,
    error::ApiError,
    events::Events,
    host::ANSWER_BYTES_MAX,
    metrics::Metrics,
    operation::Operation,
    route::{Query, Route, route},
    server::Options,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, body::Body as _, body::Incoming, http::request,
};
use outlast_core::{id::uuid, random::SplitMix64};
use outlast_engine::Engine;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit, watch},
    time::Instant,
};

/// Bodies up to this many bytes are not counted: they are there at once, or cost little.
const SMALL_BODY_BYTES: usize = 16_384;
/// Of a body that is too long, so much is read to its end before it is refused.
const DRAINED_BYTES_MAX: usize = 64 * 1_048_576;
/// Room for bodies is given out in pieces of this many bytes.
const ROOM_BYTES: usize = 1_024;

/// Everything that operations need.
pub(crate) struct Api {
    engine: Engine,
    catalogue: Catalogue,
    options: Arc<Options>,
    access: Access,
    metrics: Metrics,
    /// Calls that nobody waits for.
    events: Events,
    /// Whether nobody is to wait any longer.
    ending: watch::Sender<bool>,
    /// Pieces of room for bodies that are being received.
    rooms: Semaphore,
    requests: RequestIds,
}

/// A request whose body has been read.
pub(crate) struct Asked<'a> {
    headers: &'a HeaderMap,
    query: Query<'a>,
    body: Bytes,
}

impl Api {
    pub(crate) fn new(
        engine: Engine,
        catalogue: Catalogue,
        access: Access,
        options: Arc<Options>,
    ) -> Self {
        // Even the largest body must find room when it is alone.
        let bodies_bytes = options.bodies_bytes_max.max(options.body_bytes_max);
        let rooms = bodies_bytes
            .div_ceil(ROOM_BYTES)
            .min(Semaphore::MAX_PERMITS);
        Self {
            rooms: Semaphore::new(rooms),
            events: Events::new(
                engine.clone(),
                options.background_max,
                options.event_retries.clone(),
            ),
            ending: watch::Sender::new(false),
            requests: RequestIds::new(&engine.random()),
            engine,
            catalogue,
            access,
            metrics: Metrics::new(),
            options,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes up what an earlier life of the server promised.
    pub(crate) async fn begin(&self) {
        if let Err(error) = self.events.resume().await {
            tracing::error!(%error, "asynchronous calls of before cannot be read");
        }
    }

    /// From now on nobody waits for news.
    pub(crate) fn end_waiting(&self) {
        self.ending.send_replace(true);
    }

    /// Resolves when nobody is to wait any longer.
    async fn ending(&self) {
        let mut ending = self.ending.subscribe();
        // The sender is a field of this: it cannot be gone.
        let _ = ending.wait_for(|ending| *ending).await;
    }

    /// Answers a request, whatever it is.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let begun = Instant::now();
        let uri = request.uri().clone();
        let routed = route(request.method(), uri.path());
        let operation = routed.as_ref().ok().map(Operation::of);
        let answered = match routed {
            Ok(Route::Runtime(function)) => self.work(&function, request).await,
            Ok(route) => self.respond(route, request).await,
            Err(error) => Err(error.into()),
        };
        let mut answer = answered.unwrap_or_else(|error| refusal(&error));
        identify(&mut answer, &self.requests.next());
        let (status, took) = (answer.status().as_u16(), begun.elapsed());
        self.metrics.answered(operation, status, took);
        note(operation, &answer, took);
        answer
    }

    /// Lets a worker ask for calls of a function. The host reads the body itself, or never; only when
    /// a signature covers it, it is read before.
    async fn work(&self, function: &str, request: Request<Incoming>) -> Answered {
        let operation = Operation::RuntimeApi;
        let (parts, body) = request.into_parts();
        let caller = self.access.caller(operation, &parts.headers)?;
        let body = match &caller {
            Caller::Known(role) => {
                self.access.permit(*role, operation)?;
                Either::Left(body)
            }
            Caller::Signed(..) => {
                let (body, hash) = self.read_signed(body).await?;
                let role = caller.proven_by(&parts, &hash)?;
                self.access.permit(role, operation)?;
                Either::Right(Full::new(body))
            }
        };
        drop(caller);
        self.runtime(function, Request::from_parts(parts, body))
            .await
    }

    async fn respond(&self, route: Route<'_>, request: Request<Incoming>) -> Answered {
        let operation = Operation::of(&route);
        let (parts, body) = request.into_parts();
        let caller = self.access.caller(operation, &parts.headers)?;
        if let Caller::Known(role) = &caller {
            // Nobody sends a body for nothing.
            self.access.permit(*role, operation)?;
        }
        let body = self.read(&parts, body).await?;
        self.access
            .permit(caller.proven(&parts, &body)?, operation)?;
        let asked = Asked {
            headers: &parts.headers,
            query: Query::new(parts.uri.query()),
            body,
        };
        match route {
            Route::Execution(arn, action) => self.execution(&arn, action, &asked).await,
            Route::Callback(id, action) => self.callback(&id, action, asked.body).await,
            Route::Executions(function) => self.list_executions(&function, asked.query),
            Route::Invoke(function) => Box::pin(self.invoke(&function, &asked)).await,
            Route::CreateFunction => self.create_function(&asked).await,
            Route::ListFunctions => self.list_functions(asked.query),
            Route::Function(name, action) => self.function(&name, action, &asked).await,
            Route::Alias(name, alias, action) => self.alias(&name, &alias, action, &asked).await,
            Route::Checkpoints => self.checkpoints(&asked.body).await,
            Route::Own(arn, action) => self.own(&arn, action, asked.query).await,
            Route::Signal(arn, name) => self.signal(&arn, &name, asked.body).await,
            Route::Logs(function, action) => self.logs(&function, action, &asked).await,
            Route::Health => self.health(),
            Route::Metrics => Ok(self.metrics()),
            Route::Runtime(_) => Err(crate::route::RouteError::Unknown.into()),
        }
    }

    /// The body, as long as it is not too long and does not take too long.
    async fn read(&self, parts: &request::Parts, mut body: Incoming) -> Result<Bytes, ApiError> {
        if parts.method == Method::GET || body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let bytes_max = self.options.body_bytes_max;
        let announced = body.size_hint();
        let bytes = if announced.lower() > bytes_max as u64 {
            0
        } else {
            let upper = announced.upper().map(usize::try_from);
            upper.and_then(Result::ok).unwrap_or(bytes_max)
        };
        // Clients that send large bodies slowly, or never, must not fill the memory together.
        let room = self.room(bytes).await?;
        let receiving = receive(&mut body, bytes_max);
        let received = match tokio::time::timeout(self.options.body_timeout, receiving).await {
            Ok(received) => received,
            Err(_) => Err(ApiError::serialization("the body took too long to arrive")),
        };
        drop(room);
        if let Err(error) = &received
            && error.status == StatusCode::PAYLOAD_TOO_LARGE.as_u16()
        {
            // A client that is still sending does not look for an answer: what it sends is read,
            // and thrown away.
            let draining = drain(&mut body);
            let _ = tokio::time::timeout(self.options.body_timeout, draining).await;
        }
        received
    }

    /// What a host has to know of a signed body, and the hash of all of it. A handler's answer that
    /// is too large must still reach the host, which ends the invocation for that.
    async fn read_signed(&self, mut body: Incoming) -> Result<(Bytes, [u8; 32]), ApiError> {
        // One byte more than an answer may have: the host sees that it is too large.
        let kept_max = ANSWER_BYTES_MAX + 1;
        let upper = body.size_hint().upper().map(usize::try_from);
        let bytes = upper.and_then(Result::ok).unwrap_or(kept_max);
        let _room = self.room(bytes.min(kept_max)).await?;
        let receiving = receive_signed(&mut body, kept_max);
        let received = tokio::time::timeout(self.options.body_timeout, receiving).await;
        received.unwrap_or_else(|_| {
            let message = "the body took too long to arrive";
            Err(ApiError::serialization(message))
        })
    }

    /// Room for a body of so many bytes, while it is received.
    async fn room(&self, bytes: usize) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        if bytes <= SMALL_BODY_BYTES {
            return Ok(None);
        }
        let pieces = u32::try_from(bytes.div_ceil(ROOM_BYTES)).unwrap_or(u32::MAX);
        let entering = self.rooms.acquire_many(pieces);
        match tokio::time::timeout(self.options.body_timeout / 2, entering).await {
            Ok(Ok(room)) => Ok(Some(room)),
            Ok(Err(_)) | Err(_) => Err(ApiError::of(
                outlast_core::Code::TooManyRequests,
                "too many large bodies are being received",
            )),
        }
    }
}

/// Tells operators of a request: what was asked, never a path, a query or a header, since they may
/// hold tokens and callback ids.
fn note(operation: Option<Operation>, answer: &Answer, took: Duration) {
    let operation = operation.map_or("unknown", Operation::name);
    let status = answer.status().as_u16();
    let text = |name: &str| {
        let value = answer.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    // Looked up only if somebody wants to know.
    let (id, error) = (|| text("x-amzn-requestid"), || text("x-amzn-errortype"));
    match status {
        500 | 502 => {
            tracing::warn!(
                operation,
                status,
                error = error(),
                id = id(),
                "a request failed"
            );
        }
        401 | 403 => {
            tracing::info!(
                operation,
                status,
                error = error(),
                id = id(),
                "a caller was refused"
            );
        }
        _ => {
            tracing::debug!(
                operation,
                status,
                error = error(),
                id = id(),
                ?took,
                "a request was answered"
            );
        }
    }
}

/// All of a body, if it is no longer than `bytes_max`.
async fn receive(body: &mut Incoming, bytes_max: usize) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(ApiError::too_large(bytes_max));
    }
    // Most bodies come in one piece, which need not be copied.
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::serialization(format!("the body could not be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > bytes_max {
            return Err(ApiError::too_large(bytes_max));
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

/// The beginning of a body, and the hash of all of it.
async fn receive_signed(
    body: &mut Incoming,
    kept_max: usize,
) -> Result<(Bytes, [u8; 32]), ApiError> {
    let (mut kept, mut hash, mut bytes) = (Vec::new(), Sha256::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::serialization(format!("the body could not be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        bytes = bytes.saturating_add(data.len());
        if bytes > DRAINED_BYTES_MAX {
            return Err(ApiError::too_large(ANSWER_BYTES_MAX));
        }
        hash.update(&data);
        let room = data.len().min(kept_max - kept.len());
        kept.extend_from_slice(data.get(..room).unwrap_or_default());
    }
    Ok((kept.into(), hash.finalize().into()))
}

/// Reads what is left of a body, up to a limit.
async fn drain(body: &mut Incoming) {
    let mut bytes = 0;
    while bytes < DRAINED_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}

impl Asked<'_> {
    /// The body as JSON; an empty one is an empty object.
    fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        json(&self.body)
    }

    /// A header's text, which may be empty.
    fn header(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        let Some(value) = self.headers.get(name) else {
            return Ok(None);
        };
        match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(ApiError::of(
                outlast_core::Code::InvalidRequestContent,
                format!("the header {name} is not printable ASCII"),
            )),
        }
    }
}

/// Bytes as JSON; none are an empty object.
fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    use serde_json::error::Category;
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    outlast_core::json::read(bytes).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            ApiError::serialization(format!("the body is not JSON: {error}"))
        }
        // It is JSON and says something that the operation does not know.
        Category::Data => ApiError::invalid(error.to_string()),
    })
}

/// A number of a query.
fn number(query: Query<'_>, name: &str) -> Result<Option<u32>, ApiError> {
    let Some(text) = query.get(name)? else {
        return Ok(None);
    };
    let number = text.parse().map(Some);
    number
        .map_err(|_| ApiError::validation(format!("{name} must be a number that is not negative")))
}

/// A boolean of a query.
fn flag(query: Query<'_>, name: &str) -> Result<Option<bool>, ApiError> {
    match query.get(name)?.as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(ApiError::validation(format!(
            "{name} must be true or false"
        ))),
    }
}

/// Ids of requests: unique, not secret, and cheap to make.
struct RequestIds {
    seed: u64,
    given: AtomicU64,
}

impl RequestIds {
    fn new(random: &[u8; 32]) -> Self {
        let mut seed = [0; 8];
        for (to, from) in seed.iter_mut().zip(random) {
            *to = *from;
        }
        Self {
            seed: u64::from_le_bytes(seed),
            given: AtomicU64::new(0),
        }
    }

    fn next(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let mut mixed = SplitMix64::new(self.seed ^ number);
        let high = u128::from(mixed.next_u64()) << 64;
        uuid(high | u128::from(mixed.next_u64()))
    }
}
