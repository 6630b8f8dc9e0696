//! `outlast serve`, from its first line to a signal.

use crate::{outlast, program};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

pub(crate) struct Serving(pub(crate) Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Starts the program in a folder; gives it and the address it listens on.
fn serve(folder: &std::path::Path, more: &[&str]) -> (Serving, String) {
    let dev = ["--dev", "--listen", "127.0.0.1:0", "--data", "data"];
    start(folder, &[&dev, more].concat(), &[])
}

/// The same with these flags and this environment only.
pub(crate) fn start(
    folder: &std::path::Path,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Serving, String) {
    let (child, serving) = program::start(folder, |program| {
        let program = program.args(["--json", "serve"]).args(flags);
        program.envs(environment.iter().copied())
    });
    let endpoint = serving["endpoint"].as_str().unwrap();
    let address = endpoint.split_once("://").unwrap().1.to_owned();
    (Serving(child), address)
}

pub(crate) fn request(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_what_the_file_says_and_keeps_what_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let functions = r#"{"order": {"DurableConfig": {"ExecutionTimeout": 60}}}"#;
    std::fs::write(folder.path().join("functions.json"), functions).unwrap();
    let (mut serving, address) = serve(folder.path(), &["--functions", "functions.json"]);
    let health = request(&address, "GET /health", "");
    assert!(health.contains("\"status\":\"ok\""), "{health}");
    assert!(health.contains("\"sync\":"), "{health}");
    let shown = request(&address, "GET /2015-03-31/functions/order", "");
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    let made = request(
        &address,
        "POST /2015-03-31/functions",
        r#"{"FunctionName": "mail"}"#,
    );
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let id = serving.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(serving.0.wait().unwrap().code(), Some(0));
    let (_again, address) = serve(folder.path(), &[]);
    for name in ["order", "mail"] {
        let shown = request(&address, &format!("GET /2015-03-31/functions/{name}"), "");
        assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    }
}

#[test]
fn without_keys_it_serves_nobody_but_this_machine() {
    let closed = outlast(&["serve"]);
    assert_eq!(closed.code, Some(1));
    assert!(closed.stderr.contains("--dev"), "{closed:?}");
    let closed = outlast(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(closed.code, Some(1));
    assert!(closed.stderr.contains("outlast keys create"), "{closed:?}");
    let open = outlast(&["serve", "--dev", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(1));
    assert!(open.stderr.contains("loopback"), "{open:?}");
}

#[test]
fn a_file_that_makes_no_sense_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("[]", "is not a JSON object of functions by name"),
        (
            r#"{"f": 1}"#,
            "function f: its configuration is not an object",
        ),
        (
            r#"{"f": {"Timeout": 0}}"#,
            "function f: Timeout must be 1 to 900",
        ),
    ] {
        let file = folder.path().join("functions.json");
        std::fs::write(&file, text).unwrap();
        let data = folder.path().join("data");
        let called = outlast(&[
            "serve",
            "--dev",
            "--listen",
            "127.0.0.1:0",
            "--data",
            data.to_str().unwrap(),
            "--functions",
            file.to_str().unwrap(),
        ]);
        assert_eq!(called.code, Some(1));
        assert!(called.stderr.contains(expected), "{called:?}");
    }
}

/// A connection that says nothing costs little, and others are served beside ten thousand of them.
#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_idle_connections_cost_little_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, all);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = most.saturating_sub(1_000).min(10_000);
    let folder = tempfile::tempdir().unwrap();
    let (serving, address) = serve(folder.path(), &[]);
    let resident = || {
        let status = format!("/proc/{}/status", serving.0.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap()
    };
    request(&address, "GET /health", "");
    let before = resident();
    let idle: Vec<TcpStream> = (0..count)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let health = request(&address, "GET /health", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let grown = resident().saturating_sub(before);
    assert!(grown < count * 24, "{grown} KiB for {count} connections");
    drop(idle);
    let health = request(&address, "GET /health", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
}

const FUNCTIONS: &str = r#"{"slow": {"DurableConfig": {"ExecutionTimeout": 60}}, "mail": {}}"#;

#[test]
#[expect(clippy::disallowed_methods, reason = "it measures another process")]
fn a_signal_ends_it_at_once_although_workers_and_calls_wait() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("functions.json"), FUNCTIONS).unwrap();
    // Nobody needs the grace; it is so long that a slow machine is not mistaken for one who does.
    std::fs::write(
        folder.path().join("server.toml"),
        "[limits]\ngrace_seconds = 600\n",
    )
    .unwrap();
    let files = ["--functions", "functions.json", "--config", "server.toml"];
    let (mut serving, address) = serve(folder.path(), &files);
    let start = "POST /2015-03-31/functions/slow:$LATEST/invocations HTTP/1.1\r\n\
                 x-amz-invocation-type: Event";
    let mut started = TcpStream::connect(&address).unwrap();
    write!(
        started,
        "{start}\r\nhost: h\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    )
    .unwrap();
    let mut answer = String::new();
    started.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let mut asking = TcpStream::connect(&address).unwrap();
    let next = "GET /functions/mail/2018-06-01/runtime/invocation/next HTTP/1.1";
    write!(asking, "{next}\r\nhost: h\r\n\r\n").unwrap();
    loop {
        let health = request(&address, "GET /metrics", "");
        let asked = health.contains("outlast_workers{function=\"mail\",version=\"$LATEST\"} 1");
        let called =
            health.contains("outlast_calls_waiting{function=\"slow\",version=\"$LATEST\"} 1");
        if asked && called {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let begun = std::time::Instant::now();
    let id = serving.0.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert_eq!(serving.0.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 300, "{:?}", begun.elapsed());
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn it_says_what_it_does_as_far_as_it_is_asked_to_and_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let token = "a-token-that-nobody-may-read-anywhere";
    let config = format!("[[tokens]]\nrole = \"viewer\"\ntoken = \"{token}\"\n");
    std::fs::write(folder.path().join("outlast-server.toml"), config).unwrap();
    for (level, expected) in [("debug", 2), ("info", 1), ("warn", 0)] {
        let (mut child, serving) = program::start(folder.path(), |program| {
            program
                .args(["--json", "serve", "--listen", "127.0.0.1:0"])
                .args(["--data", "data", "--config", "outlast-server.toml"])
                .args(["--log", level])
                .stderr(Stdio::piped())
        });
        let endpoint = serving["endpoint"].as_str().unwrap();
        let address = endpoint.strip_prefix("http://").unwrap();
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:f:1%2Fdurable-execution%2Fn%2F0";
        let state = format!(
            "GET /2025-12-01/durable-executions/{arn}/state?CheckpointToken={token} HTTP/1.1\r\n\
             authorization: Bearer {token}"
        );
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{state}\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        request(address, "GET /health", "");
        let id = child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        child.wait().unwrap();
        assert!(!said.contains(token), "{said}");
        let lines: Vec<serde_json::Value> = said
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert_eq!(lines.len(), expected, "{level}: {said}");
        if expected > 0 {
            assert_eq!(lines[0]["level"], "INFO");
            assert_eq!(lines[0]["operation"], "GetDurableExecutionState");
            assert_eq!(lines[0]["error"], "AccessDeniedException");
        }
    }
}
