//! An engine whose function is hosted: what executions make of the ends that a host reports.

use crate::stand::{Client, LONG, function, host, kept, spawn};
use outlast_core::{
    Start, Tenancy,
    limits::Quotas,
    schedule::Share,
    wire::{DurableConfig, ExecutionStatus},
};
use outlast_engine::{
    Engine, HistoryPart, Options, Parts, Registered, clock::EngineClock, random::SystemRandom,
    store::memory::MemoryStore,
};
use outlast_server::host::runtime::RuntimeHost;
use serde_json::Value;
use std::sync::Arc;

fn config() -> DurableConfig {
    DurableConfig {
        execution_timeout: 600,
        retention_period_in_days: None,
        kms_key_arn: None,
    }
}

async fn engine(host: &Arc<RuntimeHost>) -> Engine {
    let options = Options {
        quotas: Quotas {
            invocation_retry_ms_min: 1,
            ..Options::default().quotas
        },
        ..Options::default()
    };
    let engine = Engine::open(Parts {
        store: Arc::new(MemoryStore::default()),
        clock: Arc::new(EngineClock::system()),
        random: Arc::new(SystemRandom::new().unwrap()),
        options,
    });
    let engine = engine.await.unwrap();
    engine.register(Registered {
        function: function(),
        config: Some(config()),
        tenancy: Tenancy::Any,
        // The host counts.
        timeout: None,
        share: Share::default(),
        invoker: host.clone(),
    });
    let runner = engine.clone();
    spawn(async move { runner.run().await });
    engine
}

#[tokio::test]
async fn an_execution_survives_the_deaths_and_errors_of_its_workers() {
    let host = host(LONG);
    let engine = engine(&host).await;
    let start = Start {
        function: function(),
        name: None,
        input: Some(r#"{"n":1}"#.into()),
        config: config(),
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    };
    let execution = engine.start(start).await.unwrap().execution;
    let (worker, address) = kept(&host).await;
    let mut client = Client::connect(address).await;
    let event = client.next().await;
    let input: Value = serde_json::from_str(&event.body).unwrap();
    let first = &input["InitialExecutionState"]["Operations"][0];
    assert_eq!(first["Type"], "EXECUTION");
    assert_eq!(first["ExecutionDetails"]["InputPayload"], r#"{"n":1}"#);
    assert!(first["StartTimestamp"].is_u64(), "{first}");
    worker.died("the process ended with signal 9");
    let (_worker, address) = kept(&host).await;
    let mut client = Client::connect(address).await;
    let event = client.next().await;
    let id = event.header("Lambda-Runtime-Aws-Request-Id").unwrap();
    let report = br#"{"errorMessage":"no","errorType":"ValueError"}"#;
    client
        .post(&format!("invocation/{id}/error"), "", report)
        .await;
    let event = client.next().await;
    let id = event.header("Lambda-Runtime-Aws-Request-Id").unwrap();
    client
        .respond(id, r#"{"Status":"SUCCEEDED","Result":"2"}"#)
        .await;
    let end = engine.end(execution).await.unwrap();
    assert_eq!(end.status, ExecutionStatus::Succeeded);
    assert_eq!(end.result.as_deref(), Some("2"));
    let page = engine
        .history(execution, HistoryPart::default())
        .await
        .unwrap();
    let history = format!("{page:?}");
    for kind in ["Runtime.ExitError", "ValueError"] {
        assert!(history.contains(kind), "{history}");
    }
}
