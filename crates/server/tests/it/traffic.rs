//! Odd and bad traffic: unknown routes, limits, slow clients, the end.

use crate::home::{Home, execution};
use hyper::Method;
use outlast_server::Options;
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Sends bytes and reads what comes until the server closes.
async fn raw(home: &Home, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(home.client.0).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn unknown_routes_are_unknown_operations() {
    let home = Home::new().await;
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/favicon.ico"),
        (Method::POST, "/2015-03-31/event-source-mappings"),
        (Method::PATCH, "/2015-03-31/functions/play"),
        (
            Method::GET,
            "/functions/play/2018-06-01/runtime/invocation/next",
        ),
    ] {
        let reply = home.send(method, path, &[], "").await;
        reply.refused(404, "UnknownOperationException");
    }
    let reply = home.get("/2015-03-31/functions/%zz").await;
    reply.refused(400, "ValidationException");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_with_or_without_a_length() {
    let options = Options {
        body_bytes_max: 1_000,
        ..Options::default()
    };
    let home = Home::with(options).await;
    for (bytes, fits) in [(999, true), (1_000, true), (1_001, false)] {
        let body = format!("\"{}\"", "x".repeat(bytes - 2));
        let reply = home.invoke("play:$LATEST", &[], body.clone()).await;
        assert_eq!(reply.status.is_success(), fits, "{bytes}");
        if !fits {
            reply.refused(413, "RequestTooLargeException");
        }
        let request = format!(
            "POST /2015-03-31/functions/play:$LATEST/invocations HTTP/1.1\r\nhost: h\r\n\
             connection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let answer = raw(&home, request.as_bytes()).await;
        let status = if fits { "HTTP/1.1 200" } else { "HTTP/1.1 413" };
        assert!(answer.starts_with(status), "{bytes}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_gets_to_read_the_refusal() {
    let home = Home::new().await;
    for bytes in [9 * 1_048_576, 20 * 1_048_576] {
        let reply = home.invoke("play:$LATEST", &[], "x".repeat(bytes)).await;
        reply.refused(413, "RequestTooLargeException");
    }
}

#[tokio::test]
async fn large_bodies_that_never_arrive_do_not_fill_the_memory() {
    let options = Options {
        body_bytes_max: 100_000,
        bodies_bytes_max: 100_000,
        body_timeout: Duration::from_millis(400),
        ..Options::default()
    };
    let home = Home::with(options).await;
    let body = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    let mut stalled = TcpStream::connect(home.client.0).await.unwrap();
    let head = "POST /2015-03-31/functions HTTP/1.1\r\nhost: h\r\ncontent-length: 90000\r\n\r\n";
    stalled.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let large = home.invoke("play:$LATEST", &[], body(50_000)).await;
    large.refused(429, "TooManyRequestsException");
    home.invoke("play:$LATEST", &[], body(10_000)).await.ok(200);
    home.eventually(async || {
        let large = home.invoke("play:$LATEST", &[], body(50_000)).await;
        large.status.is_success().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_expects_to_be_asked_to_continue_is() {
    let home = Home::new().await;
    let mut stream = TcpStream::connect(home.client.0).await.unwrap();
    let head = "POST /2015-03-31/functions/play:$LATEST/invocations HTTP/1.1\r\nhost: h\r\n\
                content-length: 1\r\nconnection: close\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = vec![0; 25];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(first, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"5").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(
        rest.starts_with("HTTP/1.1 200") && rest.ends_with("\r\n\r\n5"),
        "{rest}"
    );
}

#[tokio::test]
async fn slow_and_broken_clients_are_dropped_and_others_served() {
    let options = Options {
        header_timeout: Duration::from_millis(100),
        body_timeout: Duration::from_millis(100),
        ..Options::default()
    };
    let home = Home::with(options).await;
    let slow_headers = raw(&home, b"GET /health HTTP/1.1\r\nhost:");
    let slow_body = raw(
        &home,
        b"POST /2015-03-31/functions HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\
          content-length: 10\r\n\r\n{",
    );
    let garbage = raw(
        &home,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    );
    let idle = raw(&home, b"");
    let (slow_headers, slow_body, garbage, idle) =
        tokio::join!(slow_headers, slow_body, garbage, idle);
    assert!(
        slow_headers.is_empty() || slow_headers.starts_with("HTTP/1.1 408"),
        "{slow_headers}"
    );
    assert!(slow_body.starts_with("HTTP/1.1 400"), "{slow_body}");
    assert!(
        garbage.is_empty() || garbage.starts_with("HTTP/1.1 400"),
        "{garbage}"
    );
    assert_eq!(idle, "");
    home.get("/health").await.ok(200);
}

#[tokio::test]
async fn a_connection_carries_many_requests() {
    let home = Home::new().await;
    let one = "GET /health HTTP/1.1\r\nhost: h\r\n\r\n";
    let last = "GET /health HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let answer = raw(&home, format!("{}{last}", one.repeat(9)).as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 10);
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_a_place() {
    let options = Options {
        connections_max: 2,
        ..Options::default()
    };
    let home = Home::with(options).await;
    let first = TcpStream::connect(home.client.0).await.unwrap();
    let second = TcpStream::connect(home.client.0).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let third = home.get("/health");
    let waited = tokio::time::timeout(Duration::from_millis(100), third).await;
    assert!(waited.is_err(), "there is no place for a third");
    drop((first, second));
    home.get("/health").await.ok(200);
}

#[tokio::test]
async fn the_end_lets_requests_finish_and_takes_no_more() {
    let home = Home::new().await;
    let client = home.client;
    let invoking = tokio::runtime::Handle::current().spawn(async move {
        let path = "/2015-03-31/functions/play:$LATEST/invocations";
        client.post(path, json!([{"wait": 1}, {"return": 3}])).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    home.close().await;
    let reply = invoking.await.unwrap();
    assert_eq!(reply.ok(200), 3);
    assert!(TcpStream::connect(client.0).await.is_err());
}

#[tokio::test]
async fn an_engine_that_has_stopped_is_a_fault_of_the_service() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    home.engine.abandon();
    let reply = home.play(&[], json!([{"return": 1}])).await;
    reply.refused(500, "ServiceException");
    let reply = home.post(&execution(&arn, "/stop"), "").await;
    reply.refused(500, "ServiceException");
}

/// Bodies that no operation understands, and what each operation says to them.
#[tokio::test]
async fn bodies_that_make_no_sense_are_refused_and_the_server_goes_on() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!(
        "{}1{}",
        "{\"ErrorMessage\":".repeat(100_000),
        "}".repeat(100_000)
    );
    let checkpoint = execution(&arn, "/checkpoint");
    let stop = execution(&arn, "/stop");
    let create = "/2015-03-31/functions".to_owned();
    for path in [&checkpoint, &stop, &create] {
        let bodies = [
            deep(100_000).into_bytes(),
            objects.clone().into_bytes(),
b"{\"CheckpointToken\": \"\xff\", \"ErrorMessage\": \"\xff\", \"FunctionName\": \"\xff\"}".to_vec(),
            b"{\"ErrorMessage\": \"\xc3(\", \"FunctionName\": \"\xc3(\"}".to_vec(),
            b"{\"CheckpointToken\":".to_vec(),
            b"\0\0\0\0".to_vec(),
            b"nul".to_vec(),
            b"[1, 2".to_vec(),
        ];
        for (number, body) in bodies.into_iter().enumerate() {
            let reply = home.send(Method::POST, path, &[], body).await;
            assert_eq!(reply.status, 400, "{path} {number} {}", reply.text());
            assert!(reply.header("x-amzn-errortype").is_some());
        }
    }
    for (bad, kind) in [
        (b"\"\xff\"".to_vec(), "InvalidRequestContentException"),
        (b"{".to_vec(), "InvalidRequestContentException"),
    ] {
        let path = "/2015-03-31/functions/play:$LATEST/invocations";
        let reply = home.send(Method::POST, path, &[], bad).await;
        reply.refused(400, kind);
    }
    assert_eq!(home.describe(&arn).await["Status"], "RUNNING");
}

#[tokio::test]
async fn a_body_that_ends_too_early_changes_nothing() {
    let home = Home::new().await;
    for (length, body) in [
        (100, "{\"FunctionName\": \"half\"}"),
        (25, "{\"FunctionName\": \"half\"}"),
    ] {
        let mut stream = TcpStream::connect(home.client.0).await.unwrap();
        let head = format!(
            "POST /2015-03-31/functions HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    let reply = home.get("/2015-03-31/functions/half").await;
    reply.refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn ids_that_nobody_gave_out_are_unknown_or_malformed_and_never_a_fault() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let other =
        arn.rsplit_once('/').unwrap().0.to_owned() + "/00000000-0000-0000-0000-000000000000";
    let mut random = outlast_core::random::SplitMix64::new(1);
    let pieces = [
        "arn", ":", "/", "%", "a", "0", "-", "$LATEST", "function", "lambda", "é", " ", "",
    ];
    let mut ids = vec![other];
    for _ in 0..300 {
        let length = random.next_u64() % 12 + 1;
        let piece = |_| pieces[usize::try_from(random.next_u64()).unwrap() % pieces.len()];
        ids.push((0..length).map(piece).collect());
    }
    for id in ids {
        let body = json!({"CheckpointToken": "AAAA"}).to_string();
        for (method, path, body) in [
            (Method::GET, execution(&id, ""), String::new()),
            (Method::GET, execution(&id, "/history"), String::new()),
            (Method::POST, execution(&id, "/stop"), String::new()),
            (Method::POST, execution(&id, "/checkpoint"), body),
            (
                Method::GET,
                execution(&id, "/state?CheckpointToken=AAAA"),
                String::new(),
            ),
        ] {
            let reply = home.send(method, &path, &[], body).await;
            let status = reply.status.as_u16();
            assert!(
                matches!(status, 400 | 404),
                "{path} {status} {}",
                reply.text()
            );
        }
    }
    assert_eq!(home.describe(&arn).await["Status"], "RUNNING");
}
