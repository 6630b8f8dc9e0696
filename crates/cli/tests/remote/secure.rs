//! The SDK's clients and workers over TLS, by token and by keys that sign.

use crate::program;
use outlast::{App, Context, ErrorKind, Remote, RemoteOptions, Result, testing::CloudRunner};
use std::{path::Path, process::Child, time::Duration};
use tempfile::TempDir;

/// A server with a certificate that it signed itself; killed when this is dropped.
struct Guarded {
    child: Child,
    endpoint: String,
    id: String,
    secret: String,
    folder: TempDir,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(folder: &Path, arguments: &[&str]) -> (Child, serde_json::Value) {
    program::start(folder, |program| program.arg("--json").args(arguments))
}

impl Guarded {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
        write("server.pem", made.cert.pem()).unwrap();
        write("server.key", made.signing_key.serialize_pem()).unwrap();
        let create = ["keys", "create", "--role", "admin", "--data", "data"];
        let (mut made, key) = program(folder.path(), &create);
        made.wait().unwrap();
        let serve = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "data",
            "--tls-certificate",
            "server.pem",
            "--tls-key",
            "server.key",
        ];
        let (child, serving) = program(folder.path(), &serve);
        let endpoint = serving["endpoint"].as_str().unwrap();
        Self {
            child,
            endpoint: endpoint.replace("127.0.0.1", "localhost"),
            id: key["access_key_id"].as_str().unwrap().to_owned(),
            secret: key["secret_access_key"].as_str().unwrap().to_owned(),
            folder,
        }
    }

    fn trusted(&self) -> RemoteOptions {
        Remote::options(&self.endpoint).ca(self.folder.path().join("server.pem"))
    }
}

async fn double(ctx: Context, number: u32) -> Result<u32> {
    let number = ctx
        .step("double", async |_| outlast::ok(number * 2))
        .await?;
    ctx.wait(Duration::from_millis(1)).await?;
    Ok(number)
}

#[tokio::test]
async fn workers_clients_and_runners_work_over_tls_by_keys_and_by_token() {
    let server = Guarded::new();
    let token = format!("{}.{}", server.id, server.secret);
    let by_keys = server.trusted().keys(&server.id, &server.secret);
    let by_token = server.trusted().token(&token);
    for remote in [by_keys, by_token] {
        let remote = remote.open().unwrap();
        let app = App::new().function("double", double);
        let worker = app.work_for(&remote).await.unwrap();
        let execution = remote.start("double", &21).name("odd name").await;
        assert_eq!(execution.unwrap_err().kind(), ErrorKind::InvalidInput);
        let execution = remote.start("double", &21).await.unwrap();
        assert_eq!(execution.result::<u32>().await.unwrap(), 42);
        let runner = CloudRunner::new(&remote, "double").poll_interval(Duration::from_millis(20));
        let run = runner.run(4).await;
        assert_eq!(run.result::<u32>().unwrap(), 8);
        assert_eq!(run.attempts("double"), 1);
        worker.shut_down().await;
    }
}

#[tokio::test]
async fn a_stranger_or_an_unknown_certificate_is_refused_at_once_with_what_helps() {
    let server = Guarded::new();
    let work = async |options: RemoteOptions| {
        let remote = options.open().unwrap();
        let app = App::new().function("double", double);
        app.work_for(&remote).await.unwrap_err()
    };
    let untrusted = Remote::options(&server.endpoint).keys(&server.id, &server.secret);
    let address = server.endpoint.replace("localhost", "127.0.0.1");
    let file = server.folder.path().join("server.pem");
    let elsewhere = Remote::options(&address).ca(&file).token("t");
    for (options, expected) in [
        (untrusted, "OUTLAST_CA"),
        (elsewhere, "not for 127.0.0.1"),
        (
            server.trusted().keys("unknown", "secret"),
            "outlast keys create",
        ),
        (
            server.trusted().keys(&server.id, "wrong"),
            "AWS_SECRET_ACCESS_KEY",
        ),
        (server.trusted().token("wrong"), "outlast keys create"),
        (server.trusted(), "OUTLAST_TOKEN"),
    ] {
        let error = work(options).await;
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
    let missing = server.trusted().ca("nowhere.pem").open().unwrap_err();
    assert!(missing.message().contains("nowhere.pem"), "{missing}");
    let open = Remote::with_token("http://192.0.2.1:1", "t").unwrap_err();
    assert!(open.message().contains("https://"), "{open}");
    let aws = Remote::options("aws").region("eu-west-1").keys("k", "s");
    let error = work(aws).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
