//! `outlast worker`: runs a program with a Lambda runtime client beside a server that is elsewhere.
//!
//! The program finds the Runtime API and the durable API on a loopback port of its own; `forward`
//! carries both to the server and says who is asking. Each life of the program is announced to the
//! server under an id of its own, and the connection that announces it stays open for as long as the
//! program lives: when either ends, the server knows at once that what the program had is lost.

mod forward;
mod journal;

use crate::{
    arguments::client::Worker,
    client::{Call, Client},
    held::held,
    output::{Output, Report, Verdict},
    paint::one_line,
    problem::{Cause, Problem},
    service::{encode, function_path, text},
};
use anyhow::Context as _;
use forward::Forwarder;
use hyper::Method;
use journal::Journal;
use outlast::core::{
    arn::{Function, LATEST},
    id::{digest128, uuid},
};
use outlast_engine::random::{Random, SystemRandom};
use outlast_http::{Options, Place};
use outlast_server::host::process::{
    Credentials, Environment, Group, PAUSE_MAX, Stream, lead, lines, pause,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How long the server holds the request that says that a program is alive.
const ALIVE_SECONDS: u32 = 20;
/// A program that lived for so long did not end early.
const EARLY: Duration = Duration::from_secs(10);
/// How long a program may take to stop when asked to.
const STOP_MAX: Duration = Duration::from_secs(2);
/// How long the last lines of a program that has ended are waited for.
const LAST_LINES_MAX: Duration = Duration::from_millis(500);
/// How long all processes may take to end when the worker is to end.
const END_MAX: Duration = Duration::from_secs(10);
/// How long the server may take to be told of an end.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// What the worker is, once it runs.
#[derive(Serialize)]
struct Working {
    function: String,
    server: String,
    processes: u32,
}

impl Report for Working {
    fn rows(&self) -> Vec<(String, String)> {
        [
            ("function", self.function.clone()),
            ("server", self.server.clone()),
            ("processes", self.processes.to_string()),
        ]
        .map(|(what, value)| (what.to_owned(), value))
        .into()
    }
}

/// What all processes of a worker share.
struct Shared {
    options: Options,
    client: Arc<Client>,
    /// The function as it was named, which stands in paths.
    named: String,
    function: Function,
    environment: Environment,
    command: Vec<std::ffi::OsString>,
    random: SystemRandom,
    journal: Journal,
    output: Output,
}

/// Works until a signal comes.
///
/// # Errors
/// When the server cannot be reached at first, or does not know the function.
pub(crate) fn run(worker: Worker, output: Output) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the threads cannot be started")?;
    runtime.block_on(work(worker, output))?;
    Ok(Verdict::Good)
}

async fn work(worker: Worker, output: Output) -> anyhow::Result<()> {
    let options = worker.identity.at(Place::At(worker.server.clone()))?;
    let client = Arc::new(Client::with(&options)?);
    client.must_be_outlast("workers that ask for work")?;
    let path = format!("{}/configuration", function_path(&worker.function));
    let configuration = client.get(path).await.map_err(|problem| {
        let remedy = match problem.cause {
            Cause::NotFound => "; an admin makes it with `outlast functions create FILE`",
            Cause::Wrong | Cause::Usage | Cause::Refused | Cause::Unreachable => "",
        };
        problem.and(remedy)
    })?;
    let function = function(&configuration)?;
    output.report(&Working {
        function: function.to_string(),
        server: worker.server.to_string(),
        processes: worker.processes,
    })?;
    let (journal, delivery) = Journal::new(client.clone(), &worker.function);
    let shared = Arc::new(Shared {
        options,
        client,
        named: worker.function,
        environment: environment(&configuration),
        function,
        command: worker.command,
        random: SystemRandom::new().map_err(|error| anyhow::anyhow!(error))?,
        journal,
        output,
    });
    let stopping = watch::Sender::new(false);
    let mut keepers = JoinSet::new();
    keepers.spawn(delivery);
    for _ in 0..worker.processes {
        let (shared, stopping) = (shared.clone(), stopping.subscribe());
        keepers.spawn(async move { shared.keep(stopping).await });
    }
    drop(shared);
    crate::serve::signalled().await;
    stopping.send_replace(true);
    let ended = async { while keepers.join_next().await.is_some() {} };
    // A server that is out of reach is no reason to stay.
    let _ = timeout(END_MAX, ended).await;
    Ok(())
}

/// The function that the server means.
fn function(configuration: &Value) -> Result<Function, Problem> {
    let arn = text(configuration, "FunctionArn").unwrap_or_default();
    let version = text(configuration, "Version").unwrap_or(LATEST);
    // An ARN may be qualified or not; the version says what runs.
    let base: Vec<&str> = arn.split(':').take(7).collect();
    let qualified = format!("{}:{version}", base.join(":"));
    qualified.parse().map_err(|_| {
        Problem::wrong(format!(
            "the server says the function's ARN is {arn:?}, which makes no sense"
        ))
    })
}

/// What the program finds in its environment, from the function's configuration.
fn environment(configuration: &Value) -> Environment {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let own = configuration.pointer("/Environment/Variables");
    for (name, value) in own.and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = value.as_str() {
            variables.insert(name.clone(), value.to_owned());
        }
    }
    let memory = configuration.get("MemorySize").and_then(Value::as_u64);
    let memory = memory.and_then(|memory| u32::try_from(memory).ok());
    let mut environment = Environment {
        variables,
        ..Environment::default()
    };
    environment.memory_mb = memory.unwrap_or(environment.memory_mb);
    if let Some(handler) = text(configuration, "Handler") {
        environment.handler = handler.to_owned();
    }
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
        // Clients refuse to work without; what they sign is signed anew on the way out.
        environment.credentials = Some(Credentials {
            access_key_id: "outlast".to_owned(),
            secret_access_key: "outlast".to_owned(),
            session_token: None,
        });
    }
    environment
}

impl Shared {
    /// One program after the other.
    async fn keep(&self, mut stopping: watch::Receiver<bool>) {
        let mut failures = 0;
        while !*stopping.borrow() {
            let begun = Instant::now();
            if let Err(error) = self.live(&mut stopping).await {
                self.output.note(&format!("error: {error:#}"));
            }
            failures = match begun.elapsed() >= EARLY {
                true => 0,
                false => failures + 1,
            };
            if *stopping.borrow() {
                return;
            }
            tokio::select! {
                () = sleep(pause(failures)) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }

    /// One life of the program: announced, served, and reported when it ends.
    async fn live(&self, stopping: &mut watch::Receiver<bool>) -> anyhow::Result<()> {
        let id = uuid(digest128(&[b"worker", &self.random.bytes()]));
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let socket = socket.context("no loopback port can be listened on")?;
        let address = socket.local_addr()?;
        // A connection for nothing else: when it closes, the program is dead. It is announced before
        // it can ask for work.
        let line = Client::with(&self.options)?;
        self.alive(&line, &id, 0).await?;
        let program = self
            .command
            .first()
            .map(|program| program.to_string_lossy());
        let program = program.unwrap_or_default().into_owned();
        let mut child = match self.spawn(address) {
            Ok(child) => child,
            Err(error) => {
                let message = format!("{program} cannot be started: {error}");
                self.farewell(&line, &id, &message).await;
                anyhow::bail!(message);
            }
        };
        let group = Group::of(&child);
        let process = child.id().unwrap_or_default();
        let printing = self.lines(&mut child, process);
        let forwarder = Forwarder::new(self.client.clone(), &self.named, &id);
        let mut helpers = JoinSet::new();
        helpers.spawn(printing);
        // Kept until the server was told: a connection that closes says less.
        let mut unwanted = pin!(self.unwanted(&line, &id));
        let end = tokio::select! {
            status = child.wait() => match status {
                Ok(status) => format!("{program} ended with {status}"),
                Err(error) => format!("{program} is lost: {error}"),
            },
            () = &mut unwanted => format!("{program} was replaced: it took too long, or its tenant's work is done"),
            never = forwarder.run(socket) => match never {},
            () = stopped(stopping) => {
                group.terminate();
                let _ = timeout(STOP_MAX, child.wait()).await;
                format!("{program} was stopped")
            }
        };
        group.kill();
        let _ = child.start_kill();
        let _ = child.wait().await;
        self.output.note(&format!("{end} ({process})"));
        self.farewell(&line, &id, &end).await;
        let _ = timeout(LAST_LINES_MAX, helpers.join_next()).await;
        Ok(())
    }

    fn spawn(&self, address: SocketAddr) -> std::io::Result<Child> {
        let mut words = self.command.iter().cloned();
        let (program, arguments) = held(words.next().unwrap_or_default(), words.collect());
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // It speaks to this program, which knows who it is; it need not.
            .env_remove("OUTLAST_TOKEN")
            .env_remove("OUTLAST_ENDPOINT");
        let environment = Environment {
            endpoint: Some(format!("http://{address}")),
            ..self.environment.clone()
        };
        environment.apply(&mut command, &self.function, address);
        let stream = format!("[{}]{}", self.function.version, address.port());
        command.env("AWS_LAMBDA_LOG_STREAM_NAME", stream);
        lead(&mut command);
        command.spawn()
    }

    /// Prints what the program prints, and hands it to the server.
    fn lines(&self, child: &mut Child, process: u32) -> impl Future<Output = ()> + use<> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (journal, output) = (self.journal.clone(), self.output);
        let name = self.function.name.clone();
        async move {
            let hand = |stream, text: &str| {
                output.note(&format!("[{name} {process}] {}", one_line(text)));
                journal.add(process, stream, text);
            };
            tokio::join!(
                lines(stdout, |text| hand(Stream::Out, text)),
                lines(stderr, |text| hand(Stream::Error, text)),
            );
        }
    }

    /// Says that a program is alive; returns whether the server wants it replaced.
    async fn alive(&self, line: &Client, id: &str, seconds: u32) -> Result<bool, Problem> {
        let mut tries = 0;
        loop {
            let path = format!("{}?WaitSeconds={seconds}", self.life(id));
            match line.call(Call::new(Method::GET, path)).await {
                Ok(answer) => {
                    let replace = answer.json()?;
                    let replace = replace.get("Replace").and_then(Value::as_bool);
                    return Ok(replace.unwrap_or_default());
                }
                Err(problem) if is_away(&problem) => {
                    tries += 1;
                    if tries == 1 {
                        self.output.note(&format!("error: {problem}; trying again"));
                    }
                    sleep(pause(tries)).await;
                }
                Err(problem) => return Err(problem),
            }
        }
    }

    /// Resolves when the server wants the program replaced.
    async fn unwanted(&self, line: &Client, id: &str) {
        loop {
            match self.alive(line, id, ALIVE_SECONDS).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(problem) => {
                    self.output.note(&format!("error: {problem}"));
                    sleep(PAUSE_MAX).await;
                }
            }
        }
    }

    /// Tells the server that a program has ended, and how.
    async fn farewell(&self, line: &Client, id: &str, how: &str) {
        let call = Call::new(Method::DELETE, self.life(id)).with_body(how.to_owned());
        // A server that is not told sees the connection close.
        let _ = timeout(FAREWELL_MAX, line.call(call)).await;
    }

    fn life(&self, id: &str) -> String {
        format!("/functions/{}/2018-06-01/worker/{id}", encode(&self.named))
    }
}

/// Whether the server may be back soon.
fn is_away(problem: &Problem) -> bool {
    problem.cause == Cause::Unreachable || problem.exception.as_deref() == Some("ServiceException")
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_function_is_read_from_its_configuration() {
        let arn = "arn:aws:lambda:eu-west-1:123456789012:function:order";
        for (arn, version) in [(arn.to_owned(), "$LATEST"), (format!("{arn}:live"), "7")] {
            let read = function(&json!({"FunctionArn": arn, "Version": version})).unwrap();
            assert_eq!((&*read.name, &*read.version), ("order", version));
        }
        assert!(function(&json!({})).is_err());
    }
}
