//! `outlast serve`, from its first line to a signal.

use crate::outlast;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Starts the program in a folder; gives it and the address it listens on.
fn serve(folder: &std::path::Path, more: &[&str]) -> (Serving, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args([
            "--json",
            "serve",
            "--dev",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "data",
        ])
        .args(more)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let serving: serde_json::Value = serde_json::from_str(&line).unwrap();
    let endpoint = serving["endpoint"].as_str().unwrap();
    let address = endpoint.strip_prefix("http://").unwrap().to_owned();
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
    assert!(health.contains("\"sync\":\""), "{health}");
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
