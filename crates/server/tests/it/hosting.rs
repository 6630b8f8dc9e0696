//! Functions whose handlers run elsewhere, from Invoke to the worker and back.

use crate::{
    client::Client,
    home::{Home, execution},
};
use futures_util::{StreamExt as _, stream};
use hyper::Method;
use outlast_core::{Start, wire::ExecutionStatus};
use outlast_engine::{clock::EngineClock, random::Seeded, store::Query};
use outlast_server::{
    Options,
    host::push::{address::AddressPolicy, connect::Network},
    hosting::{Hosting, INVOCATIONS_MAX_DEFAULT, Parts},
};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

pub(crate) fn hosting() -> Arc<Hosting> {
    Arc::new(Hosting::new(Parts {
        clock: Arc::new(EngineClock::tokio()),
        random: Arc::new(Seeded::new(3)),
        policy: Arc::new(AddressPolicy::with_loopback()),
        connector: Arc::new(Network::default()),
        signing: Arc::default(),
        invocations_max: INVOCATIONS_MAX_DEFAULT,
    }))
}

/// A worker that answers with who it is and what it got, again and again.
fn worker(address: SocketAddr, prefix: &'static str) -> JoinHandle<()> {
    let base = format!("{prefix}/2018-06-01/runtime/invocation");
    let working = async move {
        let mut line = Client(address).line().await;
        loop {
            let path = format!("{base}/next");
            let next = line.send(Method::GET, &path, &[], "").await;
            if next.status != 200 {
                return;
            }
            let id = next.header("lambda-runtime-aws-request-id").unwrap();
            let input = next.json();
            let answer = match input.get("InitialExecutionState") {
                Some(state) => {
                    let details = &state["Operations"][0]["ExecutionDetails"];
                    let result = json!([prefix, details["InputPayload"]]).to_string();
                    json!({"Status": "SUCCEEDED", "Result": result})
                }
                None => json!([prefix, input]),
            };
            let path = format!("{base}/{id}/response");
            let reply = line.send(Method::POST, &path, &[], answer.to_string());
            assert_eq!(reply.await.status, 202);
        }
    };
    tokio::runtime::Handle::current().spawn(working)
}

/// A port that nobody has.
async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn workers_get_the_calls_of_their_function_and_version_over_the_servers_own_port() {
    let home = Home::hosted(hosting()).await;
    let durable = json!({"FunctionName": "f", "DurableConfig": {"ExecutionTimeout": 60}});
    home.post("/2015-03-31/functions", durable).await.ok(201);
    home.post("/2015-03-31/functions/f/versions", "{}")
        .await
        .ok(201);
    home.configure("g", json!({})).await;
    let address = home.client.0;
    let _workers = [
        worker(address, "/functions/f"),
        worker(address, "/functions/f:1"),
        worker(address, "/functions/g"),
    ];
    for (function, expected) in [
        ("f:$LATEST", json!(["/functions/f", "5"])),
        ("f:1", json!(["/functions/f:1", "5"])),
        ("g", json!(["/functions/g", 5])),
    ] {
        let reply = home.invoke(function, &[], "5".into()).await;
        assert_eq!(reply.ok(200), expected, "{function}");
    }
    let path = "/functions/nobody/2018-06-01/runtime/invocation/next";
    home.get(path)
        .await
        .refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn a_port_of_the_functions_own_serves_its_workers_and_can_be_moved() {
    let home = Home::hosted(hosting()).await;
    for _ in 0..2 {
        let port = free_port().await;
        home.configure(
            "f",
            json!({"RuntimeApi": port, "DurableConfig": {"ExecutionTimeout": 60}}),
        )
        .await;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        home.eventually(async || tokio::net::TcpStream::connect(address).await.ok())
            .await;
        let working = worker(address, "");
        let reply = home.invoke("f:$LATEST", &[], "5".into()).await;
        assert_eq!(reply.ok(200), json!(["", "5"]));
        working.abort();
    }
}

#[tokio::test]
async fn an_endpoint_gets_the_calls_pushed() {
    let home = Home::hosted(hosting()).await;
    let endpoint = format!("http://{}", home.client.0);
    home.configure("g", json!({})).await;
    let pushed = json!({"InvokeEndpoint": endpoint, "InvokeFunctionName": "g"});
    home.configure("p", pushed).await;
    let _worker = worker(home.client.0, "/functions/g");
    let reply = home.invoke("p", &[], "5".into()).await;
    assert_eq!(reply.ok(200), json!(["/functions/g", 5]));
}

#[tokio::test]
async fn a_configuration_that_no_host_understands_is_refused() {
    let home = Home::hosted(hosting()).await;
    for members in [
        json!({"RuntimeApi": 0}),
        json!({"RuntimeApi": 65_536}),
        json!({"RuntimeApi": "0.0.0.0:9001"}),
        json!({"RuntimeApi": []}),
        json!({"InvokeEndpoint": 1}),
        json!({"InvokeEndpoint": "ftp://host"}),
    ] {
        let mut members = members;
        members["FunctionName"] = "f".into();
        let reply = home.post("/2015-03-31/functions", members).await;
        reply.refused(400, "InvalidParameterValueException");
    }
    home.get("/2015-03-31/functions/f")
        .await
        .refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn a_deleted_function_lets_go_of_its_workers_and_of_waiting_calls() {
    let home = Home::hosted(hosting()).await;
    home.configure("f", json!({"DurableConfig": {"ExecutionTimeout": 60}}))
        .await;
    home.configure("g", json!({})).await;
    let event = [("x-amz-invocation-type", "Event")];
    let started = home.invoke("f:$LATEST", &event, "1".into()).await;
    let arn = started.header("x-amz-durable-execution-arn").unwrap();
    home.eventually(async || {
        let health = home.get("/health").await.ok(200);
        (health["invocations"] == 1).then_some(())
    })
    .await;
    home.send(Method::DELETE, "/2015-03-31/functions/f", &[], "")
        .await
        .ok(204);
    let ended = home.until(arn, "FAILED").await;
    assert_eq!(ended["Error"]["ErrorType"], "ResourceNotFoundException");
    let working = worker(home.client.0, "/functions/g");
    let reply = home.invoke("g", &[], "1".into()).await;
    let _: Value = reply.ok(200);
    home.delete("/2015-03-31/functions/g").await.ok(204);
    // The worker's question is answered with a refusal, and it ends.
    tokio::time::timeout(Duration::from_secs(5), working)
        .await
        .unwrap()
        .unwrap();
}

/// Starts executions of a durable function, without going over HTTP.
async fn start(home: &Home, function: &str, count: usize) {
    let registered = home.engine.registered(function).unwrap();
    let start = |_| {
        home.engine.start(Start {
            function: registered.function.clone(),
            name: None,
            input: Some("1".into()),
            config: registered.config.clone().unwrap(),
            synchronous: false,
            tenant: None,
            trace: None,
            client_context: None,
            parent: None,
        })
    };
    let mut started = stream::iter(0..count).map(start).buffer_unordered(256);
    while let Some(started) = started.next().await {
        started.unwrap();
    }
}

#[tokio::test]
async fn functions_without_workers_starve_nobody_and_finish_once_workers_come() {
    const WAITING: usize = 5_000;
    let home = Home::hosted(hosting()).await;
    let config = json!({"DurableConfig": {"ExecutionTimeout": 600}});
    home.configure("a", config.clone()).await;
    let published = home.post("/2015-03-31/functions/a/versions", "{}").await;
    published.ok(201);
    home.configure("b", config).await;
    start(&home, "a:$LATEST", WAITING).await;
    home.eventually(async || {
        let running = home.engine.health().invocations;
        (running == INVOCATIONS_MAX_DEFAULT).then_some(())
    })
    .await;
    let address = home.client.0;
    let served = [("b:$LATEST", "/functions/b"), ("a:1", "/functions/a:1")];
    for (function, prefix) in served {
        let _worker = worker(address, prefix);
        let called = home.invoke(function, &[], "5".into());
        let reply = tokio::time::timeout(Duration::from_secs(5), called).await;
        assert_eq!(reply.unwrap().ok(200), json!([prefix, "5"]));
    }
    let health = home.engine.health();
    assert_eq!(health.invocations, INVOCATIONS_MAX_DEFAULT);
    assert_eq!(health.ready, WAITING - INVOCATIONS_MAX_DEFAULT);
    let _workers: Vec<_> = (0..8).map(|_| worker(address, "/functions/a")).collect();
    home.eventually(async || {
        let health = home.engine.health();
        (health.invocations == 0 && health.ready == 0).then_some(())
    })
    .await;
    let ended = home.engine.list(&Query {
        function: Some("a".into()),
        max: WAITING + 10,
        ..Query::default()
    });
    let ended = ended.unwrap();
    assert_eq!(ended.len(), WAITING + 1);
    for (_, head) in ended {
        assert_eq!(head.status, ExecutionStatus::Succeeded);
    }
}

#[tokio::test]
async fn why_says_that_there_is_no_worker() {
    let home = Home::hosted(hosting()).await;
    let config = json!({"DurableConfig": {"ExecutionTimeout": 600}});
    home.configure("lonely", config).await;
    let event = [("x-amz-invocation-type", "Event")];
    let started = home.invoke("lonely:$LATEST", &event, "5".into()).await;
    let arn = started.header("x-amz-durable-execution-arn").unwrap();
    let why = async |about: &'static str| {
        let path = format!("/outlast/v1/executions/{}/why", arn.replace('/', "%2F"));
        home.eventually(async || {
            let why = home.get(&path).await.ok(200)["Why"].clone();
            why.as_str().unwrap().contains(about).then_some(())
        })
        .await;
    };
    why("waits for a worker that serves lonely:$LATEST").await;
    let mut line = home.client.line().await;
    let next = "/functions/lonely/2018-06-01/runtime/invocation/next";
    line.send(Method::GET, next, &[], "").await;
    why("is running its handler").await;
}

#[tokio::test]
async fn why_says_that_it_was_stopped_before_a_worker_came() {
    let home = Home::hosted(hosting()).await;
    let config = json!({"DurableConfig": {"ExecutionTimeout": 600}});
    home.configure("lonely", config).await;
    let event = [("x-amz-invocation-type", "Event")];
    let started = home.invoke("lonely:$LATEST", &event, "5".into()).await;
    let arn = started.header("x-amz-durable-execution-arn").unwrap();
    let path = format!("/outlast/v1/executions/{}/why", arn.replace('/', "%2F"));
    home.eventually(async || {
        let why = home.get(&path).await.ok(200)["Why"].to_string();
        why.contains("waits for a worker").then_some(())
    })
    .await;
    home.post(&execution(arn, "/stop"), "").await.ok(200);
    let why = home.get(&path).await.ok(200)["Why"].clone();
    assert!(why.as_str().unwrap().contains("It was stopped"), "{why}");
}

#[tokio::test]
async fn a_workers_connection_may_be_idle_while_its_handler_runs_and_others_may_not() {
    let options = Options {
        header_timeout: Duration::from_millis(100),
        ..Options::default()
    };
    let home = Home::hosted_with(hosting(), options).await;
    home.configure("g", json!({})).await;
    let called = async { home.invoke("g", &[], "5".into()).await.ok(200) };
    let working = async {
        let mut line = home.client.line().await;
        let base = "/functions/g/2018-06-01/runtime/invocation";
        let next = line
            .send(Method::GET, &format!("{base}/next"), &[], "")
            .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let id = next.header("lambda-runtime-aws-request-id").unwrap();
        let path = format!("{base}/{id}/response");
        let reply = line.send(Method::POST, &path, &[], "6").await;
        assert_eq!(reply.status, 202);
    };
    let (answer, ()) = tokio::join!(called, working);
    assert_eq!(answer, 6);
    let mut other = home.client.line().await;
    other.send(Method::GET, "/health", &[], "").await.ok(200);
    tokio::time::timeout(Duration::from_secs(5), other.closed())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_end_waits_for_nobody_who_only_waits_for_news() {
    let hosting = hosting();
    let home = Home::hosted(hosting.clone()).await;
    home.configure("f", json!({"DurableConfig": {"ExecutionTimeout": 60}}))
        .await;
    home.configure("g", json!({})).await;
    let event = [("x-amz-invocation-type", "Event")];
    // One call waits for a worker, and one worker for a call.
    home.invoke("f:$LATEST", &event, "1".into()).await.ok(202);
    home.eventually(async || (home.engine.health().invocations == 1).then_some(()))
        .await;
    let client = home.client;
    let asking = async move {
        let path = "/functions/g/2018-06-01/runtime/invocation/next";
        client.get(path).await
    };
    let living = async move {
        let path = "/functions/g/2018-06-01/worker/w1?WaitSeconds=50";
        client.get(path).await
    };
    let runtime = tokio::runtime::Handle::current();
    let (asking, living) = (runtime.spawn(asking), runtime.spawn(living));
    home.configure("lonely", json!({"Timeout": 60})).await;
    let lonely = async move {
        let path = "/2015-03-31/functions/lonely/invocations";
        client.post(path, "1").await
    };
    let lonely = runtime.spawn(lonely);
    home.eventually(async || {
        let host = hosting.runtimes().get("lonely", "$LATEST")?;
        (host.backlog().waiting == 1).then_some(())
    })
    .await;
    home.eventually(async || {
        let host = hosting.runtimes().get("g", "$LATEST")?;
        (host.backlog().asking == 1).then_some(())
    })
    .await;
    let begun = tokio::time::Instant::now();
    let engine = home.engine.clone();
    tokio::join!(engine.shut_down(), async { hosting.close() });
    assert_eq!(asking.await.unwrap().status, 503);
    home.close().await;
    living.await.unwrap().refused(503, "ServiceException");
    let told = lonely.await.unwrap().refused(503, "ServiceException");
    assert!(told.contains("no handler has seen it"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
}
