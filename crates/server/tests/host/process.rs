//! Processes that start, fail to start, print and stop; shell scripts as workers.

use crate::stand::{LONG, call, failure, host, invoke};
use outlast_server::host::{
    process::{Environment, Line, LineSink, Processes, Program, Stream, Turn},
    runtime::RuntimeHost,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

impl LineSink for Kept {
    fn line(&self, line: Line<'_>) {
        let stream = match line.stream {
            Stream::Out => "out",
            Stream::Error => "error",
        };
        let text = format!("{} {stream}: {}", line.function.name, line.text);
        self.0.lock().unwrap().push(text);
    }
}

fn processes(host: &Arc<RuntimeHost>, script: &str, sink: Arc<Kept>) -> Processes {
    let program = Program {
        program: "bash".into(),
        arguments: vec!["-c".into(), script.into()],
        folder: None,
        environment: Environment::default(),
        processes: 1,
        start_max: Duration::from_secs(5),
        turn: None,
    };
    Processes::new(host.clone(), program, sink)
}

/// Runs `script` as the worker until one invocation has ended.
async fn failed_under(script: &str) -> (String, Vec<String>) {
    let host = host(Duration::from_secs(5));
    let sink = Arc::new(Kept::default());
    let processes = processes(&host, script, sink.clone());
    let mut kind = String::new();
    let test = async { kind = failure(invoke(&host, call("id-1")).await.unwrap()) };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
    let lines = sink.0.lock().unwrap().clone();
    (kind, lines)
}

#[tokio::test]
async fn a_process_that_exits_before_it_asks_fails_the_call_that_waits() {
    let (kind, lines) = failed_under("echo one; echo two >&2; exit 1").await;
    assert_eq!(kind, "Runtime.ExitError");
    assert!(lines.contains(&"order out: one".to_owned()), "{lines:?}");
    assert!(lines.contains(&"order error: two".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_the_call_that_waits() {
    let host = host(LONG);
    let program = Program {
        program: "no-such-program".into(),
        arguments: Vec::new(),
        folder: None,
        environment: Environment::default(),
        processes: 1,
        start_max: LONG,
        turn: None,
    };
    let processes = Processes::new(host.clone(), program, Arc::new(Kept::default()));
    let test = async {
        let kind = failure(invoke(&host, call("id-1")).await.unwrap());
        assert_eq!(kind, "Runtime.InvalidEntrypoint");
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_process_that_never_asks_is_killed() {
    let host = host(LONG);
    let mut program = Program {
        program: "sleep".into(),
        arguments: vec!["600".into()],
        folder: None,
        environment: Environment::default(),
        processes: 1,
        start_max: Duration::from_millis(200),
        turn: None,
    };
    program.environment.handler = "x".to_owned();
    let processes = Processes::new(host.clone(), program, Arc::new(Kept::default()));
    let test = async {
        let kind = failure(invoke(&host, call("id-1")).await.unwrap());
        assert_eq!(kind, "Sandbox.Timedout");
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}

/// A worker as a shell script: one `curl` process and connection per request.
const SCRIPT: &str = r#"
api="http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime"
while true; do
  head=$(mktemp)
  curl -sS -D "$head" "$api/invocation/next" > /dev/null || exit 1
  id=$(tr -d '\r' < "$head" | sed -n 's/^Lambda-Runtime-Aws-Request-Id: //p')
  rm "$head"
  sleep 1.5
  curl -sS "$api/invocation/$id/response" -d '{"Status":"PENDING"}'
done
"#;

#[tokio::test]
async fn a_script_that_uses_a_process_per_request_is_not_taken_for_dead() {
    let host = host(Duration::from_secs(20));
    let processes = processes(&host, SCRIPT, Arc::default());
    let test = async {
        let outcome = invoke(&host, call("id-1")).await.unwrap();
        let answer = outlast_core::Outcome::Answered(br#"{"Status":"PENDING"}"#.to_vec());
        assert_eq!(outcome, answer);
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_a_process_started_is_gone_after_it_was_stopped() {
    let host = host(LONG);
    let sink = Arc::new(Kept::default());
    let processes = processes(
        &host,
        "sleep 600 & echo $!; trap '' TERM; sleep 600",
        sink.clone(),
    );
    let test = async {
        while sink.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
    let lines = sink.0.lock().unwrap().clone();
    let id = lines[0].rsplit(' ').next().unwrap().to_owned();
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    for _ in 0..200 {
        if !is_there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the process {id} is still there");
}

/// Two processes that take turns, until so many lines are there.
async fn in_turns(turn: &'static Turn, script: &str, lines: usize) -> Vec<String> {
    let host = host(LONG);
    let sink = Arc::new(Kept::default());
    let program = Program {
        program: "bash".into(),
        arguments: vec!["-c".into(), script.into()],
        folder: None,
        environment: Environment::default(),
        processes: 2,
        start_max: LONG,
        turn: Some(turn),
    };
    let processes = Processes::new(host.clone(), program, sink.clone());
    let test = async {
        while sink.0.lock().unwrap().len() < lines {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
    let lines = sink.0.lock().unwrap().clone();
    lines
        .into_iter()
        .map(|line| line.replace("order out: ", ""))
        .collect()
}

#[tokio::test]
async fn processes_that_must_not_begin_together_take_turns() {
    static TURN: Turn = Turn::until_loaded("a library that nobody has");
    let script = "echo begins; sleep 0.3; echo asks; \
                  curl -sS http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation/next";
    let lines = in_turns(&TURN, script, 4).await;
    assert_eq!(lines, ["begins", "asks", "begins", "asks"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_is_over_when_the_library_is_loaded() {
    static TURN: Turn = Turn::until_loaded("libc.so.6");
    // They never ask: that they have the library is enough.
    let lines = in_turns(&TURN, "echo begins; sleep 600", 2).await;
    assert_eq!(lines, ["begins", "begins"]);
}
