//! The Runtime API, each odd case on its own, spoken byte by byte.

use crate::stand::{
    Client, LONG, asking, backlog, call, failure, host, invoke, kept, listening, plain, settings,
    spawn,
};
use outlast_core::{Outcome, intent::InvokeOutcome};
use outlast_engine::{clock::EngineClock, invoker::Invoker as _, random::Seeded};
use outlast_server::host::{
    ANSWER_BYTES_MAX,
    hosts::RuntimeHosts,
    listener::RuntimeListener,
    peer::{Connection, GRACE},
    runtime::{RuntimeHost, Settings},
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

type Body = http_body_util::Full<bytes::Bytes>;

const ANSWER: &str = r#"{"Status":"PENDING"}"#;

fn answered(body: &str) -> Outcome {
    Outcome::Answered(body.into())
}

#[tokio::test]
async fn a_worker_gets_the_event_with_its_headers_and_answers_it() {
    let (host, address) = listening(Duration::from_secs(30)).await;
    let mut call = call("id-1");
    call.trace = Some("Root=1".into());
    call.client_context = Some("eyJhIjoxfQ==".into());
    let ended = invoke(&host, call);
    let mut client = Client::connect(address).await;
    let event = client.next().await;
    assert_eq!(event.status, 200);
    let expected = r#"{"DurableExecutionArn":"arn","CheckpointToken":"token","InitialExecutionState":{"Operations":[]},"UpdatedOperationIds":[]}"#;
    assert_eq!(event.body, expected);
    for (name, value) in [
        ("Lambda-Runtime-Aws-Request-Id", "id-1"),
        ("Lambda-Runtime-Invocation-Id", "id-1"),
        (
            "Lambda-Runtime-Invoked-Function-Arn",
            "arn:aws:lambda:eu-west-1:000000000000:function:order:7",
        ),
        ("Lambda-Runtime-Trace-Id", "Root=1"),
        ("Lambda-Runtime-Client-Context", r#"{"a":1}"#),
        ("Content-Type", "application/json"),
    ] {
        assert_eq!(event.header(name), Some(value), "{name}");
    }
    assert_eq!(event.header("Lambda-Runtime-Aws-Tenant-Id"), None);
    let deadline: u64 = event
        .header("Lambda-Runtime-Deadline-Ms")
        .unwrap()
        .parse()
        .unwrap();
    assert!((1_030_000..1_060_000).contains(&deadline), "{deadline}");
    let accepted = client.respond("id-1", ANSWER).await;
    assert_eq!(
        (accepted.status, &*accepted.body),
        (202, r#"{"status":"OK"}"#)
    );
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
    let again = client.respond("id-1", ANSWER).await;
    assert_eq!(again.status, 400);
    assert!(again.body.contains("InvalidRequestID"), "{}", again.body);
}

#[tokio::test]
async fn a_call_that_comes_later_ends_the_wait_of_a_worker() {
    let (host, address) = listening(LONG).await;
    let mut client = Client::connect(address).await;
    client.ask().await;
    asking(&host, 1).await;
    let ended = invoke(&host, call("id-1"));
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(host.backlog().assigned, 1);
    client.respond("id-1", ANSWER).await;
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
    assert_eq!(host.backlog().assigned, 0);
}

#[tokio::test]
async fn an_answer_may_come_in_chunks_and_over_another_connection() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let mut asking = Client::connect(address).await;
    asking.next().await;
    let mut answering = Client::connect(address).await;
    let head = "POST /2018-06-01/runtime/invocation/id-1/response HTTP/1.1\r\nHost: x\r\n\
        Lambda-Runtime-Function-Response-Mode: streaming\r\nTransfer-Encoding: chunked\r\n\r\n";
    answering.send(head.as_bytes()).await;
    answering.send(b"5\r\n{\"Sta\r\n").await;
    answering
        .send(b"f\r\ntus\":\"PENDING\"}\r\n0\r\n\r\n")
        .await;
    assert_eq!(answering.answer().await.status, 202);
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
}

#[tokio::test]
async fn a_stream_that_broke_says_so_in_its_trailers() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    let text = "POST /2018-06-01/runtime/invocation/id-1/response HTTP/1.1\r\nHost: x\r\n\
        Trailer: Lambda-Runtime-Function-Error-Type\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n0\r\nLambda-Runtime-Function-Error-Type: Function.Broke\r\n\r\n";
    client.send(text.as_bytes()).await;
    assert_eq!(client.answer().await.status, 202);
    assert_eq!(failure(ended.await.unwrap()), "Function.Broke");
}

#[tokio::test]
async fn an_error_report_becomes_the_error_of_the_invocation() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    let body = br#"{"errorMessage":"no","errorType":"ValueError","stackTrace":["a"]}"#;
    let header = "Lambda-Runtime-Function-Error-Type: Unhandled\r\n";
    let accepted = client.post("invocation/id-1/error", header, body).await;
    assert_eq!(accepted.status, 202);
    let Outcome::Failed(error) = ended.await.unwrap() else {
        panic!("did not fail")
    };
    assert_eq!(error.error_type.as_deref(), Some("ValueError"));
    assert_eq!(error.stack_trace.unwrap(), ["a"]);
}

#[tokio::test]
async fn an_answer_is_taken_up_to_the_limit() {
    let (host, address) = listening(LONG).await;
    let mut client = Client::connect(address).await;
    for (bytes, status) in [
        (ANSWER_BYTES_MAX - 1, 202),
        (ANSWER_BYTES_MAX, 202),
        (ANSWER_BYTES_MAX + 1, 413),
    ] {
        let ended = invoke(&host, call("id"));
        client.next().await;
        let body = vec![b'a'; bytes];
        let answer = client.post("invocation/id/response", "", &body).await;
        assert_eq!(answer.status, status);
        match (status, ended.await.unwrap()) {
            (202, Outcome::Answered(body)) => assert_eq!(body.len(), bytes),
            (_, outcome) => assert_eq!(failure(outcome), "Function.ResponseSizeTooLarge"),
        }
    }
}

#[tokio::test]
async fn an_invocation_that_runs_too_long_is_fenced() {
    let (host, address) = listening(Duration::from_millis(200)).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    assert_eq!(failure(ended.await.unwrap()), "Sandbox.Timedout");
    assert_eq!(client.respond("id-1", ANSWER).await.status, 400);
    // The worker is as good as new.
    let ended = invoke(&host, call("id-2"));
    client.next().await;
    assert_eq!(client.respond("id-2", ANSWER).await.status, 202);
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
}

#[tokio::test(start_paused = true)]
async fn time_in_the_line_is_not_the_functions() {
    let host = host(Duration::from_secs(3));
    let ended = invoke(&host, call("id-1"));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!ended.is_finished());
    assert_eq!(host.backlog().waiting, 1);
}

#[tokio::test]
async fn a_call_that_is_abandoned_leaves_the_line_or_its_answer_is_dropped() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    backlog(&host, 1, 0).await;
    ended.abort();
    backlog(&host, 0, 0).await;
    let ended = invoke(&host, call("id-2"));
    let mut client = Client::connect(address).await;
    assert_eq!(
        client.next().await.header("Lambda-Runtime-Aws-Request-Id"),
        Some("id-2")
    );
    ended.abort();
    backlog(&host, 0, 0).await;
    assert_eq!(client.respond("id-2", ANSWER).await.status, 202);
    assert_eq!(client.respond("id-2", ANSWER).await.status, 400);
}

#[tokio::test]
async fn a_worker_that_stops_asking_takes_no_call_with_it() {
    let (host, address) = listening(LONG).await;
    let mut gone = Client::connect(address).await;
    gone.ask().await;
    asking(&host, 1).await;
    drop(gone);
    asking(&host, 0).await;
    let ended = invoke(&host, call("id-1"));
    backlog(&host, 1, 0).await;
    let mut client = Client::connect(address).await;
    assert_eq!(client.next().await.status, 200);
    client.respond("id-1", ANSWER).await;
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
}

#[tokio::test]
async fn the_line_is_bounded() {
    let host = host(LONG);
    let waiting: Vec<_> = (0..3)
        .map(|n| invoke(&host, call(&format!("id-{n}"))))
        .collect();
    backlog(&host, 3, 0).await;
    let refused = host.invoke(call("id-4")).await;
    let Outcome::NotStarted(error) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        error.error_type.as_deref(),
        Some("TooManyRequestsException")
    );
    assert_eq!(host.backlog().waiting, 3);
    waiting[0].abort();
    backlog(&host, 2, 0).await;
    invoke(&host, call("id-5"));
    backlog(&host, 3, 0).await;
}

#[tokio::test]
async fn a_worker_that_cannot_start_fails_one_call() {
    let (host, address) = listening(LONG).await;
    let first = invoke(&host, call("id-1"));
    backlog(&host, 1, 0).await;
    let _second = invoke(&host, call("id-2"));
    backlog(&host, 2, 0).await;
    let mut client = Client::connect(address).await;
    let header = "Lambda-Runtime-Function-Error-Type: Runtime.ImportModuleError\r\n";
    let answer = client
        .post("init/error", header, br#"{"errorMessage":"no module"}"#)
        .await;
    assert_eq!((answer.status, &*answer.body), (202, r#"{"status":"OK"}"#));
    assert_eq!(failure(first.await.unwrap()), "Runtime.ImportModuleError");
    assert_eq!(host.backlog().waiting, 1);
}

#[tokio::test]
async fn restoring_from_a_snapshot_is_answered_at_once() {
    let (_host, address) = listening(LONG).await;
    let mut client = Client::connect(address).await;
    client
        .send(b"GET /2018-06-01/runtime/restore/next HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.post("restore/error", "", b"{}").await.status, 202);
}

#[tokio::test]
async fn what_is_not_the_runtime_api_is_refused() {
    let (_host, address) = listening(LONG).await;
    let mut client = Client::connect(address).await;
    client
        .send(b"GET /2018-06-01/runtime/nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 404);
    client
        .send(b"PUT /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 405);
    assert_eq!(client.respond("nobody", "{}").await.status, 400);
    let host = host(LONG);
    let refused = RuntimeListener::bind(host, "0.0.0.0:0".parse().unwrap()).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[tokio::test]
async fn an_echo_that_does_not_fit_is_refused() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    let wrong = "Lambda-Runtime-Invocation-Id: id-0\r\n";
    assert_eq!(
        client
            .post("invocation/id-1/response", wrong, b"{}")
            .await
            .status,
        400
    );
    let right = "Lambda-Runtime-Invocation-Id: id-1\r\n";
    assert_eq!(
        client
            .post("invocation/id-1/response", right, b"{}")
            .await
            .status,
        202
    );
    assert_eq!(ended.await.unwrap(), answered("{}"));
}

#[tokio::test]
async fn a_plain_function_gets_its_input_and_gives_its_result() {
    let (host, address) = listening(LONG).await;
    let own = host.clone();
    let ended = spawn(async move { own.invoke_plain(plain(r#"{"n":1}"#)).await });
    let mut client = Client::connect(address).await;
    let event = client.next().await;
    assert_eq!(event.body, r#"{"n":1}"#);
    let id = event.header("Lambda-Runtime-Aws-Request-Id").unwrap();
    assert_eq!(client.respond(id, "2").await.status, 202);
    assert_eq!(
        ended.await.unwrap(),
        InvokeOutcome::Succeeded(Some("2".into()))
    );
}

#[tokio::test]
async fn a_tenant_is_served_by_a_process_that_serves_nobody_else() {
    let (host, address) = listening(LONG).await;
    // This process is the worker, whichever connection it uses.
    let mut client = Client::connect(address).await;
    let mut other = Client::connect(address).await;
    let of = |id: &str, tenant: Option<&str>| {
        let mut call = call(id);
        call.tenant = tenant.map(Into::into);
        invoke(&host, call)
    };
    let first = of("id-1", Some("x"));
    let event = client.next().await;
    assert_eq!(event.header("Lambda-Runtime-Aws-Tenant-Id"), Some("x"));
    client.respond("id-1", ANSWER).await;
    first.await.unwrap();
    let _second = of("id-2", Some("y"));
    let _third = of("id-3", None);
    backlog(&host, 2, 0).await;
    other.ask().await;
    let _fourth = of("id-4", Some("x"));
    let event = other.answer().await;
    assert_eq!(event.header("Lambda-Runtime-Aws-Request-Id"), Some("id-4"));
    assert_eq!(host.backlog().waiting, 2);
}

#[tokio::test]
async fn a_worker_with_a_keeper_is_dead_when_its_keeper_says_so() {
    let host = host(LONG);
    let (worker, address) = kept(&host).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    drop(client);
    assert!(worker.has_polled());
    worker.died("the process ended with signal 9");
    let Outcome::Failed(error) = ended.await.unwrap() else {
        panic!("did not fail")
    };
    assert_eq!(error.error_type.as_deref(), Some("Runtime.ExitError"));
    assert_eq!(
        error.error_message.as_deref(),
        Some("the process ended with signal 9")
    );
    // It has started: it can no longer say that it could not.
    let mut client = Client::connect(address).await;
    assert_eq!(client.post("init/error", "", b"{}").await.status, 403);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_exit_of_a_process_that_nobody_keeps_is_noticed_at_once() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; \
         printf 'GET {} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; read line <&3; sleep 60",
        address.port(),
        crate::stand::NEXT
    );
    let mut shell = tokio::process::Command::new("bash")
        .args(["-c", &script])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    backlog(&host, 0, 1).await;
    shell.kill().await.unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert_eq!(failure(outcome.unwrap().unwrap()), "Runtime.ExitError");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_live_process_may_close_its_connection_and_answer_over_another() {
    let (host, address) = listening(LONG).await;
    let ended = invoke(&host, call("id-1"));
    let mut client = Client::connect(address).await;
    client.next().await;
    drop(client);
    tokio::time::sleep(GRACE + Duration::from_millis(200)).await;
    assert!(!ended.is_finished());
    let mut client = Client::connect(address).await;
    assert_eq!(client.respond("id-1", ANSWER).await.status, 202);
    assert_eq!(ended.await.unwrap(), answered(ANSWER));
}

#[tokio::test]
async fn hosts_are_found_by_function_and_version() {
    let hosts = RuntimeHosts::default();
    let one = host(LONG);
    assert!(hosts.put(one.clone()).is_none());
    let backlogs = hosts.backlogs();
    assert_eq!(backlogs.len(), 1);
    assert!(Arc::ptr_eq(&hosts.get("order", "7").unwrap(), &one));
    assert!(hosts.get("order", "8").is_none());
    let of = |version: &'static str| {
        let request =
            hyper::Request::post("/functions/order:7/2018-06-01/runtime/invocation/i/response")
                .body(Body::default())
                .unwrap();
        hosts.serve("order", version, request)
    };
    assert_eq!(of("7").await.status(), 400);
    assert_eq!(of("8").await.status(), 404);
    assert!(hosts.remove("order", "7").is_some());
}

/// A request from a connection of which nothing is known but that it exists.
fn from(connection: &Connection, method: &str, path: &str) -> hyper::Request<Body> {
    hyper::Request::builder()
        .method(method)
        .uri(format!("/2018-06-01/runtime/{path}"))
        .extension(connection.peer())
        .body(Body::from(ANSWER))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_end_of_a_connection_teaches_that_it_is_no_death() {
    let address = "192.0.2.1:1".parse().unwrap();
    let host = host(LONG);
    for (id, dead) in [("id-1", true), ("id-2", false)] {
        let connection = Connection::new(address, address);
        let ended = invoke(&host, call(id));
        let event = host
            .serve(from(&connection, "GET", "invocation/next"))
            .await;
        assert_eq!(event.status(), 200);
        drop(connection);
        tokio::time::sleep(GRACE * 2).await;
        assert_eq!(ended.is_finished(), dead, "{id}");
        let connection = Connection::new(address, address);
        let path = format!("invocation/{id}/response");
        let answer = host.serve(from(&connection, "POST", &path)).await;
        assert_eq!(answer.status(), if dead { 400 } else { 202 });
        match dead {
            true => assert_eq!(failure(ended.await.unwrap()), "Runtime.ExitError"),
            false => assert_eq!(ended.await.unwrap(), answered(ANSWER)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_which_nothing_is_known_gets_no_tenants_call() {
    let address = "192.0.2.1:1".parse().unwrap();
    let host = host(LONG);
    let mut call = call("id-1");
    call.tenant = Some("x".into());
    let _ended = invoke(&host, call);
    let connection = Connection::new(address, address);
    let asked = host.serve(from(&connection, "GET", "invocation/next"));
    let waited = tokio::time::timeout(LONG, asked).await;
    assert!(waited.is_err());
    assert_eq!((host.backlog().waiting, host.backlog().assigned), (1, 0));
}

/// What a worker does with the invocation whose number is `n`, so that its end can be foretold.
async fn do_as_told(host: Arc<RuntimeHost>) {
    loop {
        let (worker, address) = kept(&host).await;
        let mut client = Client::connect(address).await;
        loop {
            let event = tokio::select! {
                event = client.next() => event,
                _ = worker.has_to_die() => {
                    worker.died("replaced");
                    break;
                }
            };
            let id = event.header("Lambda-Runtime-Aws-Request-Id").unwrap();
            let n: u32 = id.rsplit('-').next().unwrap().parse().unwrap();
            match n % 5 {
                0 => {
                    worker.died("told to");
                    break;
                }
                1 => {
                    let path = format!("invocation/{id}/error");
                    let body = br#"{"errorType":"Told"}"#;
                    assert_eq!(client.post(&path, "", body).await.status, 202);
                }
                _ => assert_eq!(client.respond(id, id).await.status, 202),
            }
        }
    }
}

#[tokio::test]
async fn every_call_of_a_crowd_ends_as_its_worker_ended_it() {
    let settings = Settings {
        waiting_max: 1_000,
        ..settings(LONG)
    };
    let clock = Arc::new(EngineClock::tokio());
    let host = RuntimeHost::new(settings, clock, Arc::new(Seeded::new(1)));
    let _workers: JoinSet<()> = (0..8).map(|_| do_as_told(host.clone())).collect();
    let calls: Vec<_> = (0..1_000)
        .map(|n| {
            let mut call = call(&format!("id-{n}"));
            // Not every worker may serve every call.
            call.tenant = (n % 3 == 0).then(|| "x".into());
            invoke(&host, call)
        })
        .collect();
    for (n, ended) in calls.into_iter().enumerate() {
        let outcome = ended.await.unwrap();
        match n % 5 {
            0 => assert_eq!(failure(outcome), "Runtime.ExitError", "{n}"),
            1 => assert_eq!(failure(outcome), "Told", "{n}"),
            _ => assert_eq!(outcome, answered(&format!("id-{n}"))),
        }
    }
    assert_eq!((host.backlog().waiting, host.backlog().assigned), (0, 0));
}
