//! Who is let in, over the wire: keys, tokens, roles, TLS; and what is counted.

use crate::{
    client::Client,
    home::{Home, execution},
    hosting::hosting,
};
use hyper::{HeaderMap, Method, header::HeaderValue};
use outlast_core::time::Timestamp;
use outlast_engine::{
    clock::{Clock, WallClock},
    store::memory::MemoryStore,
};
use outlast_server::{
    Options,
    auth::{Access, Callbacks, Credentials, KeyPair, Role},
    host::ANSWER_BYTES_MAX,
    operation::{OPERATIONS, Operation},
    route::route,
    secret::Secret,
    sigv4::{Message, Signer},
    tls::Tls,
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:play:$LATEST/durable-execution/n/\
                   00000000-0000-0000-0000-000000000000";

fn access(callbacks: Callbacks) -> Access {
    let mut credentials = Credentials::default();
    for role in Role::ALL {
        credentials.add_key(KeyPair {
            id: role.name().into(),
            secret: Secret::new(SECRET),
            role,
            expires: None,
        });
    }
    Access::closed(credentials, callbacks, Arc::new(WallClock))
}

async fn guarded(callbacks: Callbacks) -> Home {
    let store = Arc::new(MemoryStore::new());
    let home = Home::guarded(store, Options::default(), access(callbacks), None).await;
    home.configure("play", json!({"DurableConfig": {"ExecutionTimeout": 600}}))
        .await;
    home
}

/// The headers of a request that somebody signed.
fn signed(id: &str, secret: &str, message: &Message<'_>, at: Timestamp) -> Vec<(String, String)> {
    let signer = Signer {
        key_id: id.to_owned(),
        secret: Secret::new(secret),
        session: Some(Secret::new("a-session")),
        region: "eu-central-1".to_owned(),
    };
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("outlast"));
    signer.sign(message, &mut headers, at).unwrap();
    headers.remove("host");
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

/// Lists functions, signed for a body that may be another.
async fn list(client: Client, id: &str, secret: &str, late: u64) -> crate::client::Reply {
    let message = Message {
        method: &Method::GET,
        path: "/2015-03-31/functions/",
        query: "MaxItems=5&Marker=",
        body: b"",
    };
    let at = Timestamp::from_millis(WallClock.now().as_millis() - late);
    let headers = signed(id, secret, &message, at);
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let path = "/2015-03-31/functions/?MaxItems=5&Marker=";
    client.send(Method::GET, path, &headers, "").await
}

#[tokio::test]
async fn whoever_signs_with_a_known_key_is_let_in_and_nobody_else() {
    let home = guarded(Callbacks::Closed).await;
    let client = home.client;
    list(client, "viewer", SECRET, 0).await.ok(200);
    list(client, "admin", SECRET, 290_000).await.ok(200);
    let late = list(client, "admin", SECRET, 310_000).await;
    late.refused(403, "InvalidSignatureException");
    let forged = list(client, "admin", "another secret", 0).await;
    forged.refused(403, "InvalidSignatureException");
    let stranger = list(client, "wizard", SECRET, 0).await;
    stranger.refused(403, "UnrecognizedClientException");
    let denied = list(client, "worker", SECRET, 0).await;
    let message = denied.refused(403, "AccessDeniedException");
    assert_eq!(message, "the role worker may not ask for ListFunctions");
    let nobody = home.get("/2015-03-31/functions/").await;
    nobody.refused(403, "MissingAuthenticationTokenException");
    home.get("/health").await.ok(200);
}

#[tokio::test]
async fn a_signed_body_is_the_one_that_arrives() {
    let home = guarded(Callbacks::Closed).await;
    let path = "/2015-03-31/functions";
    let body = r#"{"FunctionName": "mail"}"#;
    let message = Message {
        method: &Method::POST,
        path,
        query: "",
        body: body.as_bytes(),
    };
    let headers = signed("admin", SECRET, &message, WallClock.now());
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let other = r#"{"FunctionName": "maim"}"#;
    let reply = home.send(Method::POST, path, &headers, other).await;
    reply.refused(403, "InvalidSignatureException");
    home.send(Method::POST, path, &headers, body).await.ok(201);
}

#[tokio::test]
async fn a_bearer_token_that_is_not_known_is_asked_for_another() {
    let home = guarded(Callbacks::Closed).await;
    let wrong = [("authorization", "Bearer admin.wrong")];
    let reply = home.send(Method::GET, "/metrics", &wrong, "").await;
    reply.refused(401, "UnrecognizedClientException");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    let right = format!("Bearer viewer.{SECRET}");
    let right = [("authorization", right.as_str())];
    let reply = home.send(Method::GET, "/metrics", &right, "").await;
    assert_eq!(reply.status, 200);
}

/// One request for every operation.
fn requests() -> Vec<(Method, String)> {
    let function = |tail: &str| format!("/2015-03-31/functions/none{tail}");
    let own = |tail: &str| {
        let arn = crate::client::encode(ARN);
        format!("/outlast/v1/executions/{arn}{tail}")
    };
    let callback = |tail: &str| format!("/2025-12-01/durable-execution-callbacks/none/{tail}");
    let (get, post) = (Method::GET, Method::POST);
    vec![
        (post.clone(), execution(ARN, "/checkpoint")),
        (get.clone(), execution(ARN, "/state?CheckpointToken=a")),
        (get.clone(), execution(ARN, "")),
        (get.clone(), execution(ARN, "/history")),
        (post.clone(), execution(ARN, "/stop")),
        (post.clone(), callback("succeed")),
        (post.clone(), callback("fail")),
        (post.clone(), callback("heartbeat")),
        (
            get.clone(),
            "/2025-12-01/functions/none/durable-executions".to_owned(),
        ),
        (post.clone(), function("/invocations")),
        (post.clone(), "/2015-03-31/functions".to_owned()),
        (get.clone(), "/2015-03-31/functions".to_owned()),
        (get.clone(), function("")),
        (Method::DELETE, function("")),
        (get.clone(), function("/configuration")),
        (Method::PUT, function("/configuration")),
        (Method::PUT, function("/code")),
        (post.clone(), function("/versions")),
        (get.clone(), function("/versions")),
        (post.clone(), function("/aliases")),
        (get.clone(), function("/aliases")),
        (get.clone(), function("/aliases/a")),
        (Method::PUT, function("/aliases/a")),
        (Method::DELETE, function("/aliases/a")),
        (post.clone(), "/outlast/v1/checkpoints".to_owned()),
        (get.clone(), own("/why")),
        (post.clone(), own("/resume")),
        (post.clone(), own("/fail")),
        (Method::DELETE, own("")),
        (get.clone(), own("/changed?CheckpointToken=a&WaitSeconds=1")),
        (get.clone(), own("/end")),
        (get.clone(), own("/clock")),
        (post.clone(), own("/clock")),
        (post.clone(), own("/signals/s")),
        (get.clone(), "/outlast/v1/functions/none/logs".to_owned()),
        (post, "/outlast/v1/functions/none/logs".to_owned()),
        (
            get.clone(),
            "/functions/none/2018-06-01/runtime/invocation/next".to_owned(),
        ),
        (get.clone(), "/health".to_owned()),
        (get, "/metrics".to_owned()),
    ]
}

fn operation(method: &Method, path: &str) -> Operation {
    let path = path.split('?').next().unwrap();
    Operation::of(&route(method, path).unwrap())
}

#[tokio::test]
async fn every_operation_is_denied_to_every_role_that_is_not_enough_and_to_no_other() {
    let home = guarded(Callbacks::Closed).await;
    let requests = requests();
    let asked = requests
        .iter()
        .map(|(method, path)| operation(method, path));
    let asked: BTreeSet<Operation> = asked.collect();
    assert_eq!(asked.len(), OPERATIONS.len(), "all of them");
    for (method, path) in requests {
        let operation = operation(&method, &path);
        for role in Role::ALL {
            let bearer = format!("Bearer {role}.{SECRET}");
            let headers = [("authorization", bearer.as_str())];
            let reply = home.send(method.clone(), &path, &headers, "").await;
            let denied = reply.header("x-amzn-errortype") == Some("AccessDeniedException");
            let enough = role.suffices(operation.least());
            assert_eq!(denied, !enough, "{role} {operation:?} {}", reply.text());
            assert_eq!(reply.status == 403, !enough, "{role} {operation:?}");
        }
        let reply = home.send(method, &path, &[], "").await;
        if operation != Operation::Health {
            reply.refused(403, "MissingAuthenticationTokenException");
        }
    }
}

#[tokio::test]
async fn open_callbacks_need_no_more_than_their_id() {
    let home = guarded(Callbacks::Open).await;
    for action in ["succeed", "fail", "heartbeat"] {
        let path = format!("/2025-12-01/durable-execution-callbacks/none/{action}");
        let reply = home.post(&path, "").await;
        reply.refused(400, "InvalidParameterValueException");
    }
    let reply = home.get("/2015-03-31/functions").await;
    reply.refused(403, "MissingAuthenticationTokenException");
}

/// Asks, signed for a body that may be another.
async fn ask_signed(
    client: Client,
    id: &str,
    (method, path): (Method, &str),
    body: &str,
    sent: String,
) -> crate::client::Reply {
    let message = Message {
        method: &method,
        path,
        query: "",
        body: body.as_bytes(),
    };
    let headers = signed(id, SECRET, &message, WallClock.now());
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    client.send(method.clone(), path, &headers, sent).await
}

#[tokio::test]
async fn a_signed_answer_that_is_too_large_ends_its_call() {
    let home = Home::guarded_hosts(hosting(), access(Callbacks::Closed)).await;
    home.configure("big", json!({"Timeout": 60})).await;
    let client = home.client;
    let ask = async |id: &str, method: Method, path: &str, body: String| {
        ask_signed(client, id, (method, path), &body.clone(), body).await
    };
    let mut sizes = vec![ANSWER_BYTES_MAX, ANSWER_BYTES_MAX + 1];
    // More than any other request may have.
    sizes.push(Options::default().body_bytes_max + 1);
    for bytes in sizes {
        let fits = bytes <= ANSWER_BYTES_MAX;
        let called = ask(
            "operator",
            Method::POST,
            "/2015-03-31/functions/big/invocations",
            "1".to_owned(),
        );
        let working = async {
            let base = "/functions/big/2018-06-01/runtime/invocation";
            let next = ask(
                "worker",
                Method::GET,
                &format!("{base}/next"),
                String::new(),
            )
            .await;
            let id = next.header("lambda-runtime-aws-request-id").unwrap();
            let path = format!("{base}/{id}/response");
            let large = format!("\"{}\"", "x".repeat(bytes - 2));
            // A forged one ends nothing.
            let forged = (Method::POST, path.as_str());
            let forged = ask_signed(client, "worker", forged, "1", large.clone()).await;
            forged.refused(403, "InvalidSignatureException");
            ask("worker", Method::POST, &path, large).await
        };
        let (called, reported) = tokio::join!(called, working);
        assert_eq!(reported.status, if fits { 202 } else { 413 }, "{bytes}");
        let error = called.header("x-amz-function-error");
        assert_eq!(error.is_none(), fits, "{bytes}");
        if !fits {
            let error = called.ok(200);
            assert_eq!(error["errorType"], "Function.ResponseSizeTooLarge");
        }
    }
}

#[tokio::test]
async fn a_worker_may_sign_what_it_asks_and_what_it_reports() {
    let home = guarded(Callbacks::Closed).await;
    let ask = async |id: &str, method: Method, path: &str, body: &str, sent: &'static str| {
        ask_signed(home.client, id, (method, path), body, sent.to_owned()).await
    };
    let next = "/functions/none/2018-06-01/runtime/invocation/next";
    let reply = ask("worker", Method::GET, next, "", "").await;
    reply.refused(404, "ResourceNotFoundException");
    let reply = ask("operator", Method::GET, next, "", "").await;
    reply.refused(403, "AccessDeniedException");
    let report = "/functions/none/2018-06-01/runtime/invocation/1/response";
    let reply = ask("worker", Method::POST, report, "{}", "{}").await;
    reply.refused(404, "ResourceNotFoundException");
    let reply = ask("worker", Method::POST, report, "{}", "[]").await;
    reply.refused(403, "InvalidSignatureException");
}

#[tokio::test]
async fn an_open_server_is_open_to_this_machine_only() {
    // An address of this machine that others could reach, if it has one.
    let outward = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("198.51.100.1:9")?;
        socket.local_addr()
    });
    let Ok(outward) = outward else { return };
    if outward.ip().is_loopback() || outward.ip().is_unspecified() {
        return;
    }
    let home = Home::new().await;
    let listener = tokio::net::TcpListener::bind((outward.ip(), 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let (engine, catalogue) = (home.engine.clone(), home.catalogue.clone());
    let server = outlast_server::Server::new(engine, catalogue, Options::default());
    let serving = tokio::runtime::Handle::current().spawn(async move {
        server.serve(listener, std::future::pending()).await;
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n")
        .await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
    serving.abort();
}

#[tokio::test]
async fn tls_is_spoken_with_http_inside_and_plain_text_is_not_understood() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::from_files(&certificate, &key).unwrap();
    let options = Options {
        header_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let store = Arc::new(MemoryStore::new());
    let home = Home::guarded(store, options, Access::open(), Some(tls)).await;
    let mut plain = TcpStream::connect(home.client.0).await.unwrap();
    let silent = TcpStream::connect(home.client.0).await.unwrap();
    plain
        .write_all(b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "no plain answer");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(home.client.0).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
}

#[test]
fn certificate_files_that_cannot_be_used_are_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = folder.path().join(format!("{name}.cert"));
        let key = folder.path().join(format!("{name}.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    };
    let ((certificate, key), (_, other)) = (make("a"), make("b"));
    let missing = folder.path().join("none");
    let error = |certificate, key| Tls::from_files(certificate, key).unwrap_err().to_string();
    assert!(Tls::from_files(&certificate, &key).is_ok());
    assert!(error(&missing, &key).contains("none holds no certificate"));
    assert!(error(&key, &key).contains("a.key holds no certificate"));
    assert!(error(&certificate, &certificate).contains("a.cert holds no private key"));
    assert!(error(&certificate, &other).contains("cannot be used together"));
}

#[tokio::test]
async fn what_is_asked_is_counted() {
    let home = Home::new().await;
    home.get("/2015-03-31/functions/play").await.ok(200);
    home.get("/2015-03-31/functions/none").await;
    home.get("/nowhere").await;
    let reply = home.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    let text = reply.text();
    for line in [
        "outlast_requests_total{operation=\"GetFunction\",status=\"200\"} 1",
        "outlast_requests_total{operation=\"GetFunction\",status=\"404\"} 1",
        "outlast_requests_total{operation=\"unknown\",status=\"404\"} 1",
        "outlast_request_duration_seconds_count{operation=\"GetFunction\"} 2",
        "outlast_functions 2",
        "outlast_invocations 0",
        "outlast_store_poisoned 0",
        "# TYPE outlast_store_syncs_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
