//! `outlast worker`: a program beside it that crashes, is stopped, prints and is authenticated.

use crate::{
    handler::{self, Connection},
    outlast,
    stand::{Running, Stand},
};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
};

#[test]
fn a_program_that_dies_in_the_middle_is_noticed_at_once_and_started_again() {
    let stand = Stand::new();
    let marker = stand.folder.path().join("marker");
    let input = format!(r#"{{"do": "exit", "marker": "{}"}}"#, marker.display());
    // Without the notice, the function's timeout of 60 seconds would have to pass.
    let called = [
        "invoke",
        "play",
        "--wait",
        "--timeout",
        "40",
        "--name",
        "x",
        "-d",
        &input,
    ];
    assert_eq!(stand.good(&called), "\"survived\"\n");
    let history = stand.good(&["history", "play/x"]);
    assert!(history.contains("Runtime.ExitError"), "{history}");
    assert!(history.contains("ended with exit status: 3"), "{history}");

    let logged = stand.until(&["logs", "play"], "about to exit");
    let ready = logged
        .lines()
        .filter(|line| line.ends_with("the handler is ready"));
    assert_eq!(ready.count(), 2, "{logged}");
    let one = stand
        .outlast(&["logs", "play", "--lines", "1", "--json"])
        .json();
    assert_eq!(one["Lines"].as_array().unwrap().len(), 1);
    assert_eq!(one["Lines"][0]["Stream"], "out");
    let nobody = stand.outlast(&["logs", "nobody"]);
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
}

#[test]
fn logs_are_followed_as_they_come() {
    let stand = Stand::without_worker();
    let address = stand.endpoint.strip_prefix("http://").unwrap();
    let mut connection = Connection::open(address);
    let mut print = |text: &str| {
        let body =
            format!(r#"{{"Lines": [{{"Process": 7, "Stream": "error", "Text": "{text}"}}]}}"#);
        let answer = connection.ask("POST", "/outlast/v1/functions/play/logs", &body);
        assert_eq!(answer.status, 204);
    };
    print("first");
    let mut following = std::process::Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(["logs", "play", "--follow", "--endpoint", &stand.endpoint])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with(" 7 first"));
    print("second");
    assert!(lines.next().unwrap().unwrap().ends_with(" 7 second"));
    print("third");
    assert!(lines.next().unwrap().unwrap().ends_with(" 7 third"));
    following.kill().unwrap();
    following.wait().unwrap();
}

/// A worker whose program has been called, and the process of that program.
fn called() -> (Stand, String) {
    let stand = Stand::new();
    let start = [
        "invoke",
        "play",
        "--event",
        "--name",
        "w",
        "-d",
        r#"{"do": "wait"}"#,
    ];
    stand.good(&start);
    stand.until(&["why", "play/w"], "the timer");
    let logged = stand.good(&["logs", "play"]);
    let process = logged.lines().last().unwrap().split(' ').nth(1).unwrap();
    (stand, process.to_owned())
}

fn is_alive(process: &str) -> bool {
    let asked = std::process::Command::new("kill")
        .args(["-0", process])
        .output();
    asked.unwrap().status.success()
}

#[test]
fn a_worker_that_is_stopped_takes_its_program_along() {
    let (mut stand, process) = called();
    assert_eq!(stand.worker.as_mut().unwrap().end(), Some(0));
    assert!(!is_alive(&process), "process {process} is still there");
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_is_killed_takes_its_program_along() {
    let (mut stand, process) = called();
    let worker = &mut stand.worker.as_mut().unwrap().0;
    worker.kill().unwrap();
    worker.wait().unwrap();
    // The kernel ends it soon, not at once.
    while is_alive(&process) {
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_says_who_it_is_and_a_function_that_is_not_there_is_refused() {
    let stand = Stand::without_worker();
    let nobody = [
        "worker",
        "--server",
        &stand.endpoint,
        "--function",
        "nobody",
        "--",
        "true",
    ];
    let called = stand.outlast(&nobody);
    assert_eq!(called.code, Some(3), "{called:?}");

    // A server that only looks at who asks.
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        let mut head = Vec::new();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            match line.unwrap() {
                line if line.is_empty() => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let body = r#"{"Message": "no"}"#;
        write!(
            stream,
            "HTTP/1.1 403 Forbidden\r\nx-amzn-errortype: AccessDeniedException\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        head
    });
    let refused = outlast(&[
        "worker",
        "--server",
        &endpoint,
        "--token",
        "secret",
        "--function",
        "f",
        "--",
        "true",
    ]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("AccessDeniedException: no; use a key or token"),
        "{refused:?}"
    );
    let head = asked.join().unwrap();
    assert!(
        head.contains(&"authorization: bearer secret".to_owned()),
        "{head:?}"
    );
}

#[test]
fn a_program_that_cannot_start_fails_the_call_it_would_have_got() {
    let stand = Stand::without_worker();
    let arguments = [
        "--json",
        "worker",
        "--server",
        &stand.endpoint,
        "--function",
        "play",
        "--",
        "false",
    ];
    let start = [
        "invoke",
        "play",
        "--event",
        "--name",
        "x",
        "-d",
        r#"{"do": "echo"}"#,
    ];
    stand.good(&start);
    let (_worker, _) = Running::start(stand.folder.path(), &arguments);
    let history = stand.until(&["history", "play/x"], "Runtime.ExitError");
    assert!(
        history.contains("false ended with exit status: 1"),
        "{history}"
    );
    assert_ne!(handler::ROLE, "");
}
