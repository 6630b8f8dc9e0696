//! Handshakes with certificates of every kind, and what is said about those that are refused.

use crate::{Call, Failure, Http, Options};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// A certificate in a file, and a server that shows it.
struct Shown {
    folder: tempfile::TempDir,
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Shown {
    async fn new(parameters: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let der = CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap();
        let secret = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], secret)
            .unwrap();
        Self {
            folder,
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Asks once, by this name, and trusts what is in this file.
    async fn ask(&self, host: &str, ca: Option<PathBuf>) -> Result<u16, Failure> {
        let port = self.listener.local_addr().unwrap().port();
        let options = Options {
            ca,
            ..Options::new(format!("https://{host}:{port}").parse().unwrap())
        };
        let http = Http::new(&options).unwrap();
        let serving = async {
            let (stream, _) = self.listener.accept().await.unwrap();
            if let Ok(mut stream) = self.acceptor.accept(stream).await {
                let mut head = [0; 1_024];
                let _ = stream.read(&mut head).await.unwrap();
                let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
                stream.write_all(answer).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let call = Call::get(http.uri("/").unwrap());
        tokio::select! {
            reply = http.send(&call) => reply.map(|reply| reply.status.as_u16()),
            () = serving => unreachable!("it never ends"),
        }
    }

    async fn refused(&self, host: &str, ca: Option<PathBuf>) -> String {
        match self.ask(host, ca).await {
            Err(Failure::Impossible(message)) => message,
            other => panic!("{other:?}"),
        }
    }
}

fn parameters(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

#[tokio::test]
async fn a_certificate_that_is_trusted_and_for_the_name_is_accepted() {
    let shown = Shown::new(parameters("localhost")).await;
    assert_eq!(shown.ask("localhost", Some(shown.ca())).await.unwrap(), 204);
    let shown = Shown::new(parameters("127.0.0.1")).await;
    assert_eq!(shown.ask("127.0.0.1", Some(shown.ca())).await.unwrap(), 204);
}

#[tokio::test]
async fn any_other_is_refused_with_what_helps() {
    let shown = Shown::new(parameters("localhost")).await;
    let other = Shown::new(parameters("localhost")).await;
    let stranger = shown.refused("localhost", Some(other.ca())).await;
    assert!(stranger.contains("--ca or OUTLAST_CA"), "{stranger}");
    let name = shown.refused("127.0.0.1", Some(shown.ca())).await;
    assert!(name.contains("not for 127.0.0.1, but for"), "{name}");
    assert!(name.contains("localhost"), "{name}");

    let mut old = parameters("localhost");
    old.not_before = date_time_ymd(2_000, 1, 1);
    old.not_after = date_time_ymd(2_001, 1, 1);
    let old = Shown::new(old).await;
    let expired = old.refused("localhost", Some(old.ca())).await;
    assert!(
        expired.contains("has expired: renew it") && expired.contains("clock"),
        "{expired}"
    );
    let mut future = parameters("localhost");
    future.not_before = date_time_ymd(4_000, 1, 1);
    future.not_after = date_time_ymd(4_001, 1, 1);
    let future = Shown::new(future).await;
    let early = future.refused("localhost", Some(future.ca())).await;
    assert!(
        early.contains("not valid yet") && early.contains("clock"),
        "{early}"
    );

    let mut authority = parameters("localhost");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = Shown::new(authority).await;
    let own = authority.refused("localhost", Some(authority.ca())).await;
    assert!(own.contains("CA:FALSE"), "{own}");
}

#[tokio::test]
async fn whoever_does_not_speak_tls_is_found_out() {
    let shown = Shown::new(parameters("localhost")).await;
    let port = shown.listener.local_addr().unwrap().port();
    let options = Options {
        ca: Some(shown.ca()),
        ..Options::new(format!("https://localhost:{port}").parse().unwrap())
    };
    let http = Http::new(&options).unwrap();
    let answer = |mut stream: TcpStream| async move {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        stream
    };
    let call = Call::get(http.uri("/").unwrap());
    let (reply, _) = tokio::join!(http.send(&call), async {
        let (stream, _) = shown.listener.accept().await.unwrap();
        answer(stream).await
    });
    let message = reply.unwrap_err().to_string();
    assert!(message.contains("is http:// meant?"), "{message}");
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let options = |text: &str| {
        let file = folder.path().join("empty.pem");
        std::fs::write(&file, text).unwrap();
        Options {
            ca: Some(file),
            ..Options::new("https://localhost".parse().unwrap())
        }
    };
    for text in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = Http::new(&options(text)).unwrap_err().to_string();
        assert!(
            error.contains("empty.pem") && error.contains("OUTLAST_CA"),
            "{error}"
        );
    }
}
