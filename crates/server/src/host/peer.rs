//! Who is at the other end of a connection to the Runtime API, and how its death is noticed.
//!
//! The Runtime API has no sessions, so the question is what the end of a connection means while the
//! invocation fetched over it is unanswered. On its own, nothing. All official clients keep their
//! connection, but not for ever, and while the handler runs it is idle:
//!
//! | client | keeps an idle connection | closes it |
//! |---|---|---|
//! | .NET (`HttpClient`) | 60 s (`PooledConnectionIdleTimeout`) | by a timer, whatever the handler does |
//! | Go (`http.DefaultTransport`) | 90 s (`IdleConnTimeout`) | by a timer, whatever the handler does |
//! | Rust (`hyper-util`) | 90 s (`pool_idle_timeout`) | when it next needs one |
//! | Python, Node, Java, C++ (`libcurl`) | 118 s (`CURLOPT_MAXAGE_CONN`) | when it next needs one |
//! | shell scripts that call `curl` | not at all | at once, and its process ends, too |
//!
//! The answer then comes over a new connection. Besides, Python reports a failed start over a
//! connection of its own, and a Rust client that takes several invocations at once fetches and
//! answers over whichever connection of its pool is free. So, in this order:
//!
//! 1. A [`Worker`] whose keeper says that it died is dead. Workers started by
//!    [`process`](crate::host::process) have a listener each, so every request is known to be theirs;
//!    those on other machines are [announced](crate::host::announced), and name themselves.
//! 2. On Linux the process that holds the other end of a loopback connection is found through
//!    `/proc`, and is watched. When it exits, it is dead; the connection says nothing.
//! 3. Where neither is known, a connection that ends early, before any of the timers above could
//!    have fired, means death unless something arrives within [`GRACE`].
//!
//! Rules 2 and 3 do not hold for a client that announces short connections (`Connection: close`,
//! HTTP/1.0, `curl`, `wget`): there only the function's timeout is left. They are also given up for
//! a function whose answers arrive after all: see [`runtime`](crate::host::runtime).

mod process;

use crate::host::{
    queue::Key,
    worker::{Worker, number},
};
use hyper::{HeaderMap, Version, header};
use process::Process;
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

/// An early end of a connection means death only after this long without an answer.
pub const GRACE: Duration = Duration::from_secs(1);
/// A connection that was idle for this long may have been closed for that reason alone: less than
/// the shortest timer of an official client.
pub const IDLE_MIN: Duration = Duration::from_secs(45);

/// One connection, for as long as it is open: dropping this says that it is closed.
///
/// The loop that serves a connection holds it and puts its [`Peer`] into the extensions of every
/// request.
#[derive(Debug)]
pub struct Connection(Peer);

impl Connection {
    /// A connection from `remote` to `local`.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        Self(Peer::new(Some((remote, local)), None))
    }

    /// A connection that only `worker` can have made.
    pub fn of_worker(remote: SocketAddr, local: SocketAddr, worker: Arc<Worker>) -> Self {
        Self(Peer::new(Some((remote, local)), Some(worker)))
    }

    /// What to tell the host with every request.
    pub fn peer(&self) -> Peer {
        self.0.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.0.closed.send_replace(true);
    }
}

/// Who made a request.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    number: u64,
    ends: Option<(SocketAddr, SocketAddr)>,
    closed: watch::Sender<bool>,
    worker: Option<Arc<Worker>>,
    process: OnceCell<Option<Process>>,
}

impl Peer {
    /// Nothing is known, not even whether it is still there.
    pub(crate) fn unknown() -> Self {
        Self::new(None, None)
    }

    /// A worker whose life its keeper watches, over whichever connection it asks.
    pub(crate) fn of_worker(worker: Arc<Worker>) -> Self {
        Self::new(None, Some(worker))
    }

    /// What tells this connection from others.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&self) {
        let mut closed = self.0.closed.subscribe();
        let _ = closed.wait_for(|closed| *closed).await;
    }

    fn new(ends: Option<(SocketAddr, SocketAddr)>, worker: Option<Arc<Worker>>) -> Self {
        Self(Arc::new(Inner {
            number: number(),
            ends,
            closed: watch::Sender::new(false),
            worker,
            process: OnceCell::new(),
        }))
    }

    pub(crate) fn worker(&self) -> Option<&Arc<Worker>> {
        self.0.worker.as_ref()
    }

    /// What tells this worker from others. Looks for its process once per connection, unless it has
    /// a keeper.
    pub(crate) async fn key(&self) -> Key {
        if let Some(worker) = &self.0.worker {
            return Key::Worker(worker.number());
        }
        match self.process().await {
            Some(process) => process.key(),
            None => Key::Connection(self.0.number),
        }
    }

    /// The key of a worker that keeps tenants apart itself. Looks for its process, too, so that its
    /// death is noticed.
    pub(crate) async fn shared_key(&self) -> Key {
        let _ = self.process().await;
        Key::Shared(self.0.number)
    }

    /// Whether the worker is still there, as far as anybody knows.
    pub(crate) fn is_there(&self) -> bool {
        match (&self.0.worker, self.0.process.get()) {
            (Some(worker), _) => !worker.is_dead(),
            (None, Some(Some(process))) => process.is_alive(),
            (None, Some(None) | None) => !*self.0.closed.borrow(),
        }
    }

    /// Waits until the worker, which got an invocation just now, is dead. Never ends when its death
    /// could not be noticed. `trusted` is false when only its keeper's word counts.
    pub(crate) async fn gone(&self, trusted: bool) -> Gone {
        let kept = async {
            match &self.0.worker {
                Some(worker) => Gone {
                    of: worker.dead().await,
                    guessed: false,
                },
                None => std::future::pending().await,
            }
        };
        let seen = async {
            match (&self.0.worker, trusted) {
                (_, false) => std::future::pending().await,
                (Some(_), true) => self.part_exited().await,
                (None, true) => self.exited().await,
            }
        };
        tokio::select! {
            // The keeper knows of what it died.
            biased;
            gone = kept => gone,
            gone = seen => gone,
        }
    }

    /// Waits for the exit of its process, or for what means the same.
    async fn exited(&self) -> Gone {
        match self.process().await {
            Some(process) => {
                process.exited().await;
                Gone::guess("the worker's process exited without an answer")
            }
            None => self.ended_early().await,
        }
    }

    /// Waits for the exit of one of the processes of which a kept worker consists: a client that
    /// takes several invocations at once may fork. Its keeper only tells of the first process.
    async fn part_exited(&self) -> Gone {
        // Looking takes milliseconds, which short invocations should not cost.
        tokio::time::sleep(GRACE).await;
        match self.process().await {
            Some(process) => {
                process.exited().await;
                // If it was the first one, its keeper is about to say of what it died.
                tokio::time::sleep(GRACE).await;
                Gone::guess("a process of the worker exited without an answer")
            }
            None => std::future::pending().await,
        }
    }

    async fn ended_early(&self) -> Gone {
        let since = Instant::now();
        self.closed().await;
        if since.elapsed() >= IDLE_MIN {
            return std::future::pending().await;
        }
        tokio::time::sleep(GRACE).await;
        Gone::guess("the worker closed its connection without an answer")
    }

    async fn process(&self) -> Option<&Process> {
        let find = || async {
            let (remote, local) = self.0.ends?;
            Process::behind(remote, local).await
        };
        self.0.process.get_or_init(find).await.as_ref()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("number", &self.0.number)
            .field("ends", &self.0.ends)
            .field("process", &self.0.process)
            .finish_non_exhaustive()
    }
}

/// A worker is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Of what it died.
    pub(crate) of: Arc<str>,
    /// Whether an answer that still arrives proves that it was not.
    pub(crate) guessed: bool,
}

impl Gone {
    fn guess(of: &str) -> Self {
        Self {
            of: of.into(),
            guessed: true,
        }
    }
}

/// Whether a request says that its connection, or its process, ends with it.
pub(crate) fn is_passing(version: Version, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let closes = text(header::CONNECTION).is_some_and(|value| {
        let mut words = value.split(',').map(str::trim);
        words.any(|word| word.eq_ignore_ascii_case("close"))
    });
    let agent = text(header::USER_AGENT).unwrap_or_default();
    let is_command = ["curl/", "Wget/"]
        .iter()
        .any(|name| agent.starts_with(name));
    closes || is_command || version <= Version::HTTP_10
}

#[cfg(test)]
mod tests;
