//! Workers with a token of their role: they run what an admin has made, and change nothing.

use crate::server::Server;
use outlast::{App, Context, Error, ErrorKind, Function, Remote, Result};
use serde_json::{Value, json};
use std::{fs, process::Command};
use tempfile::TempDir;

const ADMIN: &str = "the-token-of-an-admin-0123456789abcdef";
const WORKER: &str = "the-token-of-a-worker-0123456789abcdef";
const CONFIGURATION: &str = "/2015-03-31/functions/double/configuration";

async fn double(ctx: Context, number: u32) -> Result<u32> {
    ctx.step("double", async |_| outlast::ok(number * 2)).await
}

fn app(days: u32) -> App {
    App::new().register(Function::new("double", double).retention_days(days))
}

/// A server whose clients here are admins, and a client with a worker's token.
fn guarded() -> (TempDir, Server, Remote) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    let token =
        |role: &str, token: &str| format!("[[tokens]]\nrole = \"{role}\"\ntoken = \"{token}\"\n");
    let text = token("admin", ADMIN) + &token("worker", WORKER);
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--config", config];
    let data = folder.path().join("data");
    let server = Server::with(&data, &flags, Some(ADMIN));
    let worker = Remote::with_token(&format!("http://{}", server.address()), WORKER).unwrap();
    (folder, server, worker)
}

async fn configuration(server: &Server) -> Value {
    server.remote.get(CONFIGURATION).await.unwrap()
}

#[tokio::test]
async fn a_worker_that_may_not_make_its_function_says_who_may_and_how() {
    let (_folder, _server, remote) = guarded();
    let error: Error = app(3).work_for(&remote).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let message = error.message();
    assert!(message.contains("outlast functions create"), "{message}");
    assert!(message.contains("\"FunctionName\":\"double\""), "{message}");
}

#[tokio::test]
async fn a_worker_runs_a_function_that_an_admin_has_made_even_if_it_says_otherwise() {
    let (_folder, server, remote) = guarded();
    let own = app(3).work_for(&server.remote).await.unwrap();
    own.shut_down().await;
    // The settings of the program have changed, and its token is a worker's.
    let worker = app(4).work_for(&remote).await.unwrap();
    let execution = server.remote.start("double", &4).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 8);
    let known = configuration(&server).await;
    assert_eq!(known["DurableConfig"]["RetentionPeriodInDays"], 3);
    worker.shut_down().await;
    let _worker = app(4).work_for(&server.remote).await.unwrap();
    let known = configuration(&server).await;
    assert_eq!(known["DurableConfig"]["RetentionPeriodInDays"], 4);
}

#[tokio::test]
async fn what_an_operator_has_configured_stays_whatever_workers_say() {
    let (folder, server, _) = guarded();
    let worker = app(3).work_for(&server.remote).await.unwrap();
    worker.shut_down().await;
    let file = folder.path().join("change.json");
    let change = json!({"Timeout": 30, "DurableConfig": {"RetentionPeriodInDays": 9}});
    fs::write(&file, change.to_string()).unwrap();
    let changed = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(["functions", "update", "--name", "double", "--token", ADMIN])
        .args(["--endpoint", server.remote.endpoint()])
        .arg(&file)
        .output();
    assert!(changed.unwrap().status.success());
    let _worker = app(4).work_for(&server.remote).await.unwrap();
    let known = configuration(&server).await;
    assert_eq!(known["Timeout"], 30);
    assert_eq!(known["DurableConfig"]["RetentionPeriodInDays"], 9);
}
