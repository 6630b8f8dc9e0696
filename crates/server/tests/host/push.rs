//! Calls of Lambda Invoke API targets, with a server that answers as told.

use crate::stand::{call, failure, function, plain, spawn};
use hyper::{HeaderMap, Method, header::HeaderName};
use outlast_core::{Outcome, intent::InvokeOutcome};
use outlast_engine::invoker::{BoxFuture, Invoker as _};
use outlast_http::{
    Keys, Secret,
    sigv4::{Claim, Message},
};
use outlast_server::host::push::{
    PushHost, Settings, Target,
    address::AddressPolicy,
    connect::{BoxStream, Connector, Network},
    signing::Signing,
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// A server that takes one request and sends `answer`, then closes; gives what it read.
async fn server(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"}") {
            let mut part = [0; 1_024];
            let bytes = stream.read(&mut part).await.unwrap();
            assert_ne!(bytes, 0, "closed");
            read.extend_from_slice(&part[..bytes]);
        }
        if answer == "hang" {
            std::future::pending::<()>().await;
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(read).unwrap()
    });
    (address, served)
}

fn push(address: SocketAddr, policy: AddressPolicy) -> Arc<PushHost> {
    let settings = Settings {
        function: function(),
        target: Target::new(&format!("http://{address}"), "order").unwrap(),
        timeout: Duration::from_millis(300),
        slack: Duration::from_millis(200),
        signer: None,
    };
    PushHost::new(settings, Arc::new(policy), Arc::new(Network::default()))
}

async fn invoked(answer: &'static str) -> (Outcome, JoinHandle<String>) {
    let (address, served) = server(answer).await;
    let host = push(address, AddressPolicy::with_loopback());
    (host.invoke(call("id-1")).await, served)
}

#[tokio::test]
async fn a_target_gets_the_event_and_its_answer_is_the_output() {
    let (outcome, served) =
        invoked("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"Status\":\"PENDING\"}").await;
    assert_eq!(
        outcome,
        Outcome::Answered(br#"{"Status":"PENDING"}"#.to_vec())
    );
    let request = served.await.unwrap();
    assert!(request.starts_with("POST /2015-03-31/functions/order/invocations HTTP/1.1\r\n"));
    for header in [
        "x-dex-handler-invoke: true\r\n",
        "x-amz-invocation-type: RequestResponse\r\n",
    ] {
        assert!(request.contains(header), "{request}");
    }
    assert!(request.contains("\"CheckpointToken\":\"token\""));
}

#[tokio::test]
async fn function_errors_are_known_by_header_or_by_document() {
    for answer in [
        "HTTP/1.1 200 OK\r\nX-Amz-Function-Error: Unhandled\r\nContent-Length: 17\r\n\r\n{\"errorType\":\"E\"}",
        "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"errorType\":\"E\"}",
        "HTTP/1.1 502 Bad\r\nX-Amzn-ErrorType: E\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        assert_eq!(failure(invoked(answer).await.0), "E", "{answer}");
    }
}

#[tokio::test]
async fn what_never_reached_a_handler_never_started() {
    let throttled = "HTTP/1.1 429 Slow\r\nX-Amzn-ErrorType: TooManyRequestsException\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(invoked(throttled).await.0, Outcome::NotStarted(_)));
    // A port on which nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let host = push(address, AddressPolicy::with_loopback());
    assert!(matches!(
        host.invoke(call("id-1")).await,
        Outcome::NotStarted(_)
    ));
    let missing = "HTTP/1.1 404 No\r\nX-Amzn-ErrorType: ResourceNotFoundException\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(
        invoked(missing).await.0,
        Outcome::FunctionMissing(_)
    ));
}

#[tokio::test]
async fn a_connection_that_breaks_is_the_end_of_a_process() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"] {
        assert_eq!(
            failure(invoked(answer).await.0),
            "Runtime.ExitError",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_target_that_does_not_answer_times_out() {
    assert_eq!(failure(invoked("hang").await.0), "Sandbox.Timedout");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(invoked(answer).await.0, Outcome::NotStarted(_)));
}

#[tokio::test]
async fn a_forbidden_address_is_not_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = push(listener.local_addr().unwrap(), AddressPolicy::default());
    let outcome = host.invoke(call("id-1")).await;
    let Outcome::NotStarted(error) = outcome else {
        panic!("{outcome:?}")
    };
    let message = error.error_message.unwrap();
    assert!(
        message.contains("the address policy forbids 127.0.0.1"),
        "{message}"
    );
    let accepted = tokio::time::timeout(Duration::from_millis(100), listener.accept());
    assert!(accepted.await.is_err());
}

/// A name that has another address every time it is looked up.
#[derive(Default)]
struct Rebinding(std::sync::atomic::AtomicU8);

impl Connector for Rebinding {
    fn resolve<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let times = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let address = if times == 0 {
            "1.1.1.1:80"
        } else {
            "127.0.0.1:80"
        };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    }

    fn connect<'a>(
        &'a self,
        _: &'a Target,
        address: SocketAddr,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        assert_eq!(address, "1.1.1.1:80".parse().unwrap());
        Box::pin(async { Err(io::Error::other("not in a test")) })
    }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let settings = Settings {
        function: function(),
        target: Target::new("http://rebinding.example", "order").unwrap(),
        timeout: Duration::from_secs(1),
        slack: Duration::ZERO,
        signer: None,
    };
    let connector = Arc::new(Rebinding::default());
    let host = PushHost::new(settings, Arc::default(), connector);
    for reason in ["not in a test", "the address policy forbids 127.0.0.1"] {
        let outcome = host.invoke(call("id-1")).await;
        let Outcome::NotStarted(error) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(error.error_message.unwrap().contains(reason));
    }
}

#[tokio::test]
async fn a_plain_function_gives_its_result_or_its_error() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42", Ok("42")),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"errorType\":\"E\"}",
            Ok("{\"errorType\":\"E\"}"),
        ),
        (
            "HTTP/1.1 200 OK\r\nX-Amz-Function-Error: Unhandled\r\nContent-Length: 17\r\n\r\n{\"errorType\":\"E\"}",
            Err("E"),
        ),
    ] {
        let (address, _served) = server(answer).await;
        let host = push(address, AddressPolicy::with_loopback());
        let outcome = host.invoke_plain(plain("{}")).await;
        match (outcome, expected) {
            (InvokeOutcome::Succeeded(result), Ok(expected)) => {
                assert_eq!(result.as_deref(), Some(expected));
            }
            (InvokeOutcome::Failed(error), Err(expected)) => {
                assert_eq!(error.error_type.as_deref(), Some(expected));
            }
            (outcome, _) => panic!("{outcome:?} is not {expected:?}"),
        }
    }
}

/// A target with a certificate for `localhost`: takes one request, answers, gives what it read.
async fn encrypted(folder: &std::path::Path) -> (SocketAddr, JoinHandle<String>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("ca.pem"), made.cert.pem()).unwrap();
    let key = made.signing_key.serialize_der();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return String::new();
        };
        let mut read = Vec::new();
        while !read.ends_with(b"}") {
            let mut part = [0; 1_024];
            let bytes = stream.read(&mut part).await.unwrap();
            assert_ne!(bytes, 0, "closed");
            read.extend_from_slice(&part[..bytes]);
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"Status\":\"PENDING\"}";
        stream.write_all(answer).await.unwrap();
        stream.flush().await.unwrap();
        String::from_utf8(read).unwrap()
    });
    (address, served)
}

/// Calls the target at `localhost` and this port, with these keys.
async fn called(port: u16, ca: Option<std::path::PathBuf>, keys: Option<Keys>) -> Outcome {
    let target = Target::new(&format!("https://localhost:{port}"), "order:live").unwrap();
    let signing = keys.map(|keys| Signing::new(vec!["localhost".to_owned()], keys, None));
    let settings = Settings {
        function: function(),
        timeout: Duration::from_secs(10),
        slack: Duration::ZERO,
        signer: signing.and_then(|signing| signing.signer(&target)),
        target,
    };
    let policy = Arc::new(AddressPolicy::with_loopback());
    let host = PushHost::new(settings, policy, Arc::new(Network::new(ca)));
    host.invoke(call("id-1")).await
}

#[tokio::test]
async fn a_target_is_called_over_tls_and_what_is_sent_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let (address, served) = encrypted(folder.path()).await;
    let secret = Secret::new("a secret");
    let keys = Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret: secret.clone(),
        session: Some(Secret::new("session")),
    };
    let ca = Some(folder.path().join("ca.pem"));
    let outcome = called(address.port(), ca, Some(keys)).await;
    assert_eq!(
        outcome,
        Outcome::Answered(br#"{"Status":"PENDING"}"#.to_vec())
    );
    let request = served.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    let authorization = headers["authorization"].to_str().unwrap().to_owned();
    let claim = Claim::parse(&authorization).unwrap();
    assert_eq!(claim.key_id, "AKIDEXAMPLE");
    let message = Message {
        method: &Method::POST,
        path: "/2015-03-31/functions/order%3Alive/invocations",
        query: "",
        body: body.as_bytes(),
    };
    assert_eq!(claim.check(&headers, outlast_http::now()), Ok(()));
    assert_eq!(claim.verify(&message, &headers, &secret), Ok(()));
}

#[tokio::test]
async fn a_target_that_nobody_vouches_for_is_not_called() {
    let folder = tempfile::tempdir().unwrap();
    let (address, served) = encrypted(folder.path()).await;
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = folder.path().join("other.pem");
    std::fs::write(&file, other.cert.pem()).unwrap();
    let outcome = called(address.port(), Some(file), None).await;
    let error = format!("{outcome:?}");
    assert!(error.contains("OUTLAST_CA"), "{error}");
    assert_eq!(served.await.unwrap(), "", "nothing was sent");
}
