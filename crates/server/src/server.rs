//! The listener: connections, their limits, and a clean end.
//!
//! It knows nothing of what is asked; `api` answers. Whoever serves a listener decides when it
//! ends, and what else ends before it.

use crate::{
    api::Api,
    auth::Access,
    catalogue::Catalogue,
    host::peer::{Connection, Peer},
    logs::Logs,
    tls::Tls,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use outlast_engine::{Engine, clock::TestClock};
use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::Instant,
};

/// Pause after the system refused a connection, most often because no descriptor was left.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// What an operator may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one request's body, at most.
    pub body_bytes_max: usize,
    /// Bytes of all bodies that are being received, at most; small ones are not counted.
    pub bodies_bytes_max: usize,
    /// Connections at the same time; more wait to be accepted.
    pub connections_max: usize,
    /// How long a client may take for the headers of a request, or leave a connection idle.
    pub header_timeout: Duration,
    /// The same for a connection that has asked for work: it is idle while a handler runs.
    pub worker_timeout: Duration,
    /// How long a client may take for the body of a request.
    pub body_timeout: Duration,
    /// How long a caller may wait on one connection for the end of an execution.
    pub synchronous_max: Duration,
    /// Calls of ordinary functions that nobody waits for, at the same time; of one function, a
    /// quarter of that.
    pub background_max: usize,
    /// Pauses before such a call is repeated when its function failed, one for each repetition.
    pub event_retries: Vec<Duration>,
    /// How long requests may take to finish once the server is to end.
    pub grace: Duration,
    /// The engine's clock, if it is one that callers may move.
    pub test_clock: Option<Arc<TestClock>>,
    /// What functions print; whoever starts their processes fills it.
    pub logs: Arc<Logs>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            body_bytes_max: 8 * 1_048_576,
            bodies_bytes_max: 512 * 1_048_576,
            connections_max: 16_384,
            header_timeout: Duration::from_secs(60),
            // The longest invocation takes 900 seconds; some slack on top.
            worker_timeout: Duration::from_secs(960),
            body_timeout: Duration::from_secs(60),
            // The longest execution that may be waited for takes 900 seconds; some slack on top.
            synchronous_max: Duration::from_secs(960),
            background_max: 4_096,
            // As the service does.
            event_retries: vec![Duration::from_secs(60), Duration::from_secs(120)],
            grace: Duration::from_secs(10),
            test_clock: None,
            logs: Arc::default(),
        }
    }
}

/// The API of an engine over HTTP. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct Server {
    api: Arc<Api>,
    access: Access,
    tls: Option<Tls>,
    options: Arc<Options>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("access", &self.access)
            .field("tls", &self.tls)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server for an engine, with the functions of a catalogue, open to everybody on this
    /// machine and to nobody else.
    pub fn new(engine: Engine, catalogue: Catalogue, options: Options) -> Self {
        Self::with_access(engine, catalogue, Access::open(), options)
    }

    /// A server that lets these in.
    pub fn with_access(
        engine: Engine,
        catalogue: Catalogue,
        access: Access,
        options: Options,
    ) -> Self {
        let options = Arc::new(options);
        let api = Api::new(engine, catalogue, access.clone(), options.clone());
        Self {
            api: Arc::new(api),
            access,
            tls: None,
            options,
        }
    }

    /// The same, encrypted.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Serves a listener until `shutdown` resolves; then takes no more connections and gives the
    /// requests in flight the grace period to finish.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        self.api.begin().await;
        // Ends with this.
        let mut counting = JoinSet::new();
        counting.spawn({
            let engine = self.api.engine().clone();
            async move { engine.count_running().await }
        });
        let places = Arc::new(Semaphore::new(self.options.connections_max));
        let (end, ending) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (stream, place) = accept(&listener, &places) => {
                    connections.spawn(self.clone().connection(stream, ending.clone(), place));
                }
            }
        }
        drop(listener);
        // Each connection sees the channel change and ends after the request in flight.
        end.send_replace(());
        self.api.end_waiting();
        let finished = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.options.grace, finished).await;
        connections.shutdown().await;
    }

    async fn connection(
        self,
        stream: TcpStream,
        ending: watch::Receiver<()>,
        _place: OwnedSemaphorePermit,
    ) {
        // Answers are one write each: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let ends = stream.peer_addr().ok().zip(stream.local_addr().ok());
        let Some((remote, local)) = ends else {
            return;
        };
        // Whatever address the listener has: what is open is open to this machine only.
        if self.access.is_open() && !local.ip().to_canonical().is_loopback() {
            tracing::warn!(%remote, "a connection from elsewhere was refused: there are no keys");
            return;
        }
        // Whoever asks for work here is missed when the connection closes.
        let known = Connection::new(remote, local);
        let Some(tls) = self.tls.clone() else {
            return self.exchange(stream, &known, ending).await;
        };
        let greeting = tls.accept(stream);
        match tokio::time::timeout(self.options.header_timeout, greeting).await {
            Ok(Ok(stream)) => self.exchange(stream, &known, ending).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection was not encrypted"),
            Err(_) => tracing::debug!("a connection took too long to be encrypted"),
        }
    }

    /// Answers the requests of one connection, until it or the server ends.
    async fn exchange<S>(self, stream: S, known: &Connection, mut ending: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let api = self.api;
        let pulse = Pulse::default();
        let beat = pulse.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let api = api.clone();
            request.extensions_mut().insert::<Peer>(known.peer());
            let busy = beat.begin(request.uri().path().starts_with("/functions/"));
            // Kept apart: a connection that is idle, as most are, has no room for a request.
            Box::pin(async move {
                let answer = api.answer(request).await;
                drop(busy);
                Ok::<_, Infallible>(answer)
            })
        });
        // Hyper's own limit for headers knows only one length.
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = pulse.stopped(&self.options) => return,
            _ = ending.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

/// Whether requests still come over a connection. Costs no timer per request.
#[derive(Clone)]
struct Pulse(Arc<Mutex<Beat>>);

struct Beat {
    /// A request is being answered.
    busy: bool,
    /// Since when the client could have sent the next one.
    since: Instant,
    /// Somebody asked for work here.
    is_worker: bool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Beat {
            busy: false,
            since: Instant::now(),
            is_worker: false,
        })))
    }
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The headers of a request have come; it is answered until what is returned is dropped.
    fn begin(&self, is_worker: bool) -> Busy {
        let mut beat = self.lock();
        beat.busy = true;
        beat.is_worker |= is_worker;
        drop(beat);
        Busy(self.clone())
    }

    /// Resolves when the next request has taken too long to come.
    async fn stopped(&self, options: &Options) {
        loop {
            let limit = {
                let beat = self.lock();
                let limit = if beat.is_worker {
                    options.worker_timeout
                } else {
                    options.header_timeout
                };
                match beat.busy {
                    true => limit,
                    false => limit.saturating_sub(beat.since.elapsed()),
                }
            };
            if limit.is_zero() {
                return;
            }
            tokio::time::sleep(limit).await;
        }
    }
}

/// A request that is being answered.
struct Busy(Pulse);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut beat = self.0.lock();
        beat.busy = false;
        beat.since = Instant::now();
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            // The semaphore is never closed.
            std::future::pending::<()>().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }
}
