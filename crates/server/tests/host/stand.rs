//! What the tests of hosts share: a function, calls, a listener, and a client that speaks to the
//! Runtime API byte by byte.

use outlast_core::{
    Outcome,
    arn::Function,
    time::Timestamp,
    wire::{InvocationInput, StatePage},
};
use outlast_engine::{
    clock::EngineClock,
    invoker::{Call, Invoker as _, PlainCall},
    random::Seeded,
};
use outlast_server::host::{
    listener::RuntimeListener,
    runtime::{RuntimeHost, Settings},
    worker::Worker,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    task::JoinHandle,
};

pub(crate) const NEXT: &str = "/2018-06-01/runtime/invocation/next";
/// Long enough never to be the reason why a test ends.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn function() -> Function {
    "arn:aws:lambda:eu-west-1:000000000000:function:order:7"
        .parse()
        .unwrap()
}

pub(crate) fn settings(timeout: Duration) -> Settings {
    Settings {
        function: function(),
        timeout,
        waiting_max: 3,
    }
}

pub(crate) fn host(timeout: Duration) -> Arc<RuntimeHost> {
    let clock = EngineClock::starting_at(Timestamp::from_millis(1_000_000));
    RuntimeHost::new(settings(timeout), Arc::new(clock), Arc::new(Seeded::new(1)))
}

/// A host with a listener that serves for as long as the test runs.
pub(crate) async fn listening(timeout: Duration) -> (Arc<RuntimeHost>, SocketAddr) {
    let host = host(timeout);
    let listener = RuntimeListener::bind(host.clone(), "127.0.0.1:0".parse().unwrap());
    let listener = listener.await.unwrap();
    let address = listener.address();
    spawn(async move { match listener.run().await {} });
    (host, address)
}

/// A listener for a worker whose keeper is the test.
pub(crate) async fn kept(host: &Arc<RuntimeHost>) -> (Arc<Worker>, SocketAddr) {
    let worker = Worker::new();
    let listener = RuntimeListener::bind(host.clone(), "127.0.0.1:0".parse().unwrap());
    let listener = listener.await.unwrap().for_worker(worker.clone());
    let address = listener.address();
    spawn(async move { match listener.run().await {} });
    (worker, address)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's tasks end with its runtime"
)]
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(future)
}

pub(crate) fn call(id: &str) -> Call {
    Call {
        function: function(),
        invocation_id: id.into(),
        input: InvocationInput {
            durable_execution_arn: "arn".into(),
            checkpoint_token: "token".to_owned(),
            initial_execution_state: StatePage::default(),
            updated_operation_ids: Vec::new(),
        },
        tenant: None,
        trace: None,
        client_context: None,
    }
}

pub(crate) fn plain(input: &str) -> PlainCall {
    PlainCall {
        id: None,
        function: function(),
        input: input.into(),
        tenant: None,
        trace: None,
        client_context: None,
    }
}

/// Invokes in the background.
pub(crate) fn invoke(host: &Arc<RuntimeHost>, call: Call) -> JoinHandle<Outcome> {
    let host = host.clone();
    spawn(async move { host.invoke(call).await })
}

/// Waits until so many calls wait and so many are with workers.
pub(crate) async fn backlog(host: &RuntimeHost, waiting: usize, assigned: usize) {
    for _ in 0..2_000 {
        let backlog = host.backlog();
        if (backlog.waiting, backlog.assigned) == (waiting, assigned) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!(
        "{:?} is not {waiting} waiting, {assigned} assigned",
        host.backlog()
    );
}

/// Waits until so many requests for work are open.
pub(crate) async fn asking(host: &RuntimeHost, count: usize) {
    for _ in 0..2_000 {
        if host.backlog().asking == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?} is not {count} asking", host.backlog());
}

/// The type of the error with which an invocation failed.
pub(crate) fn failure(outcome: Outcome) -> String {
    let Outcome::Failed(error) = outcome else {
        panic!("did not fail: {outcome:?}")
    };
    error.error_type.unwrap()
}

/// A client of the Runtime API on one connection, as plain as can be.
pub(crate) struct Client(BufReader<TcpStream>);

/// An answer, with header names as they were sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) async fn send(&mut self, text: &[u8]) {
        self.0.get_mut().write_all(text).await.unwrap();
    }

    pub(crate) async fn ask(&mut self) {
        let request = format!("GET {NEXT} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.send(request.as_bytes()).await;
    }

    pub(crate) async fn next(&mut self) -> Answer {
        self.ask().await;
        self.answer().await
    }

    pub(crate) async fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "POST /2018-06-01/runtime/{path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(head.as_bytes()).await;
        self.send(body).await;
        self.answer().await
    }

    pub(crate) async fn respond(&mut self, id: &str, body: &str) -> Answer {
        let path = format!("invocation/{id}/response");
        self.post(&path, "", body.as_bytes()).await
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).await.unwrap(), 0, "closed");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "Content-Length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        Answer {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }
}
