//! Starts the processes that run a function's handlers, and keeps them running.
//!
//! Every process gets a listener of its own, so whatever comes in there is known to be its doing,
//! whichever way its runtime client uses connections. When it exits, the invocation it has fails at
//! once; when an invocation runs past its deadline, the process is killed, with everything it
//! started; when it cannot start, the call it would have got fails and the next try waits a little.
//!
//! It does not decide how many processes a function needs, and does not look at what they print.

mod environment;
mod group;
mod output;
mod turn;

pub use environment::{Credentials, Environment, MEMORY_MB_DEFAULT};
pub use group::{Group, lead};
pub use output::{Line, LineSink, Stream, lines};
pub use turn::Turn;

use crate::host::{
    listener::RuntimeListener,
    runtime::RuntimeHost,
    worker::{Doom, Worker},
};
use outlast_core::wire::{ErrorObject, error_type};
use std::{
    ffi::OsString,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// First pause after a process that could not start; doubles up to the next constant.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause after a process that could not start.
pub const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long a process may take to stop when asked to.
const STOP_MAX: Duration = Duration::from_secs(2);
/// How long the last lines of a process that is gone are waited for: its pipes stay open if
/// something it started has them.
const LAST_LINES_MAX: Duration = Duration::from_millis(500);
/// How long a process may take to ask for work unless told otherwise.
pub const START_MAX_DEFAULT: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program to run.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where to run it; the function's code.
    pub folder: Option<PathBuf>,
    /// What it finds in its environment.
    pub environment: Environment,
    /// How many processes to keep running.
    pub processes: usize,
    /// How long a process may take to ask for work.
    pub start_max: Duration,
    /// With which others its processes must not begin at the same time.
    pub turn: Option<&'static Turn>,
}

/// Keeps the processes of one function version running.
pub struct Processes {
    host: Arc<RuntimeHost>,
    program: Program,
    sink: Arc<dyn LineSink>,
}

impl Processes {
    /// Processes that take their work from `host` and whose output goes to `sink`.
    pub fn new(host: Arc<RuntimeHost>, program: Program, sink: Arc<dyn LineSink>) -> Self {
        Self {
            host,
            program,
            sink,
        }
    }

    /// Keeps them running until `stop` ends; then asks them to stop, and kills those that do not.
    /// Dropping the future kills them at once.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let stopping = watch::Sender::new(false);
        let this = Arc::new(self);
        let mut keepers = JoinSet::new();
        for _ in 0..this.program.processes {
            let (this, stopping) = (this.clone(), stopping.subscribe());
            keepers.spawn(async move { this.keep(stopping).await });
        }
        stop.await;
        stopping.send_replace(true);
        while keepers.join_next().await.is_some() {}
    }

    /// One process after the other.
    async fn keep(&self, mut stopping: watch::Receiver<bool>) {
        let mut failures = 0;
        while !*stopping.borrow() {
            match self.live(&mut stopping).await {
                Ok(Life::Useful) => failures = 0,
                Ok(Life::Useless) => failures += 1,
                Err(error) => {
                    tracing::error!(%error, function = %self.host.function(), "no process can be started");
                    failures += 1;
                }
            }
            tokio::select! {
                () = sleep(pause(failures)) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }

    /// One process, from its start to its end.
    async fn live(&self, stopping: &mut watch::Receiver<bool>) -> io::Result<Life> {
        let turn = match self.program.turn {
            None => None,
            Some(turn) => tokio::select! {
                taken = turn.take() => Some(taken),
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(Life::Useful),
            },
        };
        let worker = Worker::new();
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = RuntimeListener::bind(self.host.clone(), loopback).await?;
        let listener = listener.for_worker(worker.clone());
        let mut child = match self.spawn(&listener, &worker) {
            Ok(child) => child,
            Err(error) => {
                let program = self.program.program.to_string_lossy();
                let message = format!("{program} cannot be started: {error}");
                self.sink.ended(self.host.function(), &message);
                let error = ErrorObject::new("Runtime.InvalidEntrypoint", message);
                self.host.start_failed(&worker, error);
                return Ok(Life::Useless);
            }
        };
        let group = Group::of(&child);
        let process = child.id();
        let mut beginning = pin!(async {
            if let Some(turn) = turn {
                turn.until_begun(process, &worker).await;
            }
        });
        let mut begun = false;
        let mut printing = pin!(self.lines(&mut child));
        let mut printed = false;
        let end = {
            let mut ending = pin!(self.end(&mut child, &group, &worker, stopping));
            let mut serving = pin!(listener.run());
            loop {
                tokio::select! {
                    end = &mut ending => break end,
                    never = &mut serving => match never {},
                    () = &mut beginning, if !begun => begun = true,
                    () = &mut printing, if !printed => printed = true,
                }
            }
        };
        // What it started goes with it.
        group.kill();
        let end = end?;
        let life = self.bury(&worker, &end);
        if !printed {
            let _ = timeout(LAST_LINES_MAX, printing).await;
        }
        if !matches!(end, End::Stopped) {
            self.sink.ended(self.host.function(), &end.to_string());
        }
        Ok(life)
    }

    fn spawn(&self, listener: &RuntimeListener, worker: &Worker) -> io::Result<Child> {
        let mut command = Command::new(&self.program.program);
        command
            .args(&self.program.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(folder) = &self.program.folder {
            command.current_dir(folder);
        }
        let environment = &self.program.environment;
        environment.apply(&mut command, self.host.function(), listener.address());
        let stream = format!("[{}]{}", self.host.function().version, worker.number());
        command.env("AWS_LAMBDA_LOG_STREAM_NAME", stream);
        lead(&mut command);
        command.spawn()
    }

    /// Hands every line the process prints to the sink, until it prints no more.
    fn lines(&self, child: &mut Child) -> impl Future<Output = ()> + use<> {
        let process = child.id().unwrap_or_default();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (sink, host) = (self.sink.clone(), self.host.clone());
        async move {
            let hand = |stream, text: &str| {
                sink.line(Line {
                    function: host.function(),
                    process,
                    stream,
                    text,
                });
            };
            tokio::join!(
                output::lines(stdout, |text| hand(Stream::Out, text)),
                output::lines(stderr, |text| hand(Stream::Error, text)),
            );
        }
    }

    /// Waits for the end of a process, or brings it about.
    async fn end(
        &self,
        child: &mut Child,
        group: &Group,
        worker: &Worker,
        stopping: &mut watch::Receiver<bool>,
    ) -> io::Result<End> {
        let slow = async {
            if timeout(self.program.start_max, worker.polled())
                .await
                .is_ok()
            {
                std::future::pending::<()>().await;
            }
        };
        let stopped = async {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        let end = tokio::select! {
            status = child.wait() => return status.map(End::Exited),
            doom = worker.has_to_die() => End::Doomed(doom),
            () = slow => End::Slow,
            () = stopped => {
                group.terminate();
                // Whether in time or not, what is left of it is killed below.
                let _ = timeout(STOP_MAX, child.wait()).await;
                End::Stopped
            }
        };
        group.kill();
        let _ = child.start_kill();
        child.wait().await?;
        Ok(end)
    }

    /// Tells the host how a process ended.
    fn bury(&self, worker: &Worker, end: &End) -> Life {
        worker.died(&end.to_string());
        if !worker.has_polled() && !worker.start_failed() {
            let kind = match end {
                End::Exited(_) | End::Doomed(_) | End::Stopped => error_type::RUNTIME_EXIT,
                End::Slow => error_type::SANDBOX_TIMEDOUT,
            };
            let failed = !matches!(end, End::Stopped);
            if failed {
                let error = ErrorObject::new(kind, end.to_string());
                self.host.start_failed(worker, error);
            }
        }
        match worker.invocations() {
            0 if !matches!(end, End::Doomed(_)) => Life::Useless,
            _ => Life::Useful,
        }
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes")
            .field("host", &self.host)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Whether the next process may be started at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It had work: how often that is tried again is the engine's to say.
    Useful,
    /// It ended before it had any.
    Useless,
}

/// How a process ended.
#[derive(Debug)]
enum End {
    Exited(ExitStatus),
    Doomed(Doom),
    Slow,
    Stopped,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "the process ended with {status}"),
            Self::Doomed(Doom::Overdue) => {
                f.write_str("the process was killed because an invocation ran past its deadline")
            }
            Self::Doomed(Doom::Unwanted) => {
                f.write_str("the process was replaced by one for another tenant")
            }
            Self::Slow => f.write_str("the process took too long to ask for work"),
            Self::Stopped => f.write_str("the process was stopped"),
        }
    }
}

/// How long to wait after so many processes in a row that had no work.
pub fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 2_u32.saturating_pow(doublings.min(16));
            PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let ms = |failures| pause(failures).as_millis();
        assert_eq!(
            [0, 1, 2, 3, 7, 8].map(ms),
            [0, 100, 200, 400, 6_400, 10_000]
        );
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
