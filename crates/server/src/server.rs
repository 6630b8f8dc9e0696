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
    route::is_work,
    tls::Tls,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use outlast_engine::{Engine, clock::TestClock};
use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
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
    /// How long a client may take for the body of a request.
    pub body_timeout: Duration,
    /// How long a caller may wait on one connection for the end of an execution.
    pub synchronous_max: Duration,
    /// Calls of ordinary functions that nobody waits for, at the same time.
    pub background_max: usize,
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
            body_timeout: Duration::from_secs(60),
            // The longest execution that may be waited for takes 900 seconds; some slack on top.
            synchronous_max: Duration::from_secs(960),
            background_max: 1_024,
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
        // Whether the last request came from a worker. Such a one may wait for work for ever.
        let works = AtomicBool::new(false);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let api = api.clone();
            works.store(is_work(request.uri().path()), Ordering::Relaxed);
            request.extensions_mut().insert::<Peer>(known.peer());
            // Kept apart: a connection that is idle, as most are, has no room for a request.
            Box::pin(async move { Ok::<_, Infallible>(api.answer(request).await) })
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = ending.changed() => {
                // There is no more work, and an answer that says so might end the worker too.
                if works.load(Ordering::Relaxed) {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
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
