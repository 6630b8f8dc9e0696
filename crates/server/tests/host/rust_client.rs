//! The official Rust client, `lambda_runtime`, unmodified, against a host.
//!
//! The client reads its settings from the environment of its process, so this binary starts itself
//! again: a test that is told by a variable to be the worker.

use crate::stand::{LONG, backlog, call, failure, host, invoke};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use outlast_core::Outcome;
use outlast_server::host::process::{
    Environment, Line, LineSink, Processes, Program, START_MAX_DEFAULT,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ROLE: &str = "OUTLAST_TEST_WORKER";

/// Not a test of its own: the worker's process.
#[tokio::test]
async fn this_process_is_the_worker_when_told() {
    match std::env::var(ROLE).as_deref() {
        Ok("one") => lambda_runtime::run(service_fn(handle)).await.unwrap(),
        Ok("many") => lambda_runtime::run_concurrent(service_fn(handle))
            .await
            .unwrap(),
        _ => {}
    }
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let token = event.payload["CheckpointToken"]
        .as_str()
        .unwrap_or_default();
    match token {
        "fail" => Err("it was told to".into()),
        "exit" => std::process::exit(3),
        "hang" => std::future::pending().await,
        _ => Ok(json!({
            "Status": "SUCCEEDED",
            "Result": format!("{} for {:?}", event.context.request_id, event.context.tenant_id),
        })),
    }
}

pub(crate) struct Shown;

impl LineSink for Shown {
    fn line(&self, line: Line<'_>) {
        println!("{} {:?} {}", line.process, line.stream, line.text);
    }
}

fn program(role: &str, processes: usize, concurrency: Option<u32>) -> Program {
    let mut environment = Environment {
        concurrency,
        ..Environment::default()
    };
    environment
        .variables
        .insert(ROLE.to_owned(), role.to_owned());
    Program {
        program: std::env::current_exe().unwrap().into(),
        arguments: [
            "--exact",
            "rust_client::this_process_is_the_worker_when_told",
            "--nocapture",
        ]
        .map(Into::into)
        .to_vec(),
        folder: None,
        environment,
        processes,
        start_max: START_MAX_DEFAULT,
        turn: None,
    }
}

fn told(id: &str, token: &str, tenant: Option<&str>) -> outlast_engine::invoker::Call {
    let mut call = call(id);
    call.input.checkpoint_token = token.to_owned();
    call.tenant = tenant.map(Into::into);
    call
}

fn result(outcome: Outcome) -> String {
    let Outcome::Answered(body) = outcome else {
        panic!("not answered: {outcome:?}")
    };
    let output: Value = serde_json::from_slice(&body).unwrap();
    output["Result"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_client_answers_fails_dies_and_hangs_and_goes_on() {
    let host = host(Duration::from_secs(3));
    let processes = Processes::new(host.clone(), program("one", 1, None), Arc::new(Shown));
    let test = async {
        let done = invoke(&host, told("id-1", "", None)).await.unwrap();
        assert_eq!(result(done), "id-1 for None");
        let failed = invoke(&host, told("id-2", "fail", None)).await.unwrap();
        assert!(failure(failed).contains("Error"));
        let exited = invoke(&host, told("id-3", "exit", None)).await.unwrap();
        let Outcome::Failed(error) = exited else {
            panic!("{exited:?}")
        };
        assert_eq!(error.error_type.as_deref(), Some("Runtime.ExitError"));
        let message = error.error_message.unwrap();
        assert!(message.contains("exit status: 3"), "{message}");
        let hung = invoke(&host, told("id-4", "hang", None)).await.unwrap();
        assert_eq!(failure(hung), "Sandbox.Timedout");
        let done = invoke(&host, told("id-5", "", None)).await.unwrap();
        assert_eq!(result(done), "id-5 for None");
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_process_is_replaced_when_another_tenant_calls() {
    let host = host(Duration::from_secs(30));
    let processes = Processes::new(host.clone(), program("one", 1, None), Arc::new(Shown));
    let test = async {
        for (id, tenant) in [("id-1", "x"), ("id-2", "x"), ("id-3", "y"), ("id-4", "x")] {
            let done = invoke(&host, told(id, "", Some(tenant))).await.unwrap();
            assert_eq!(result(done), format!("{id} for Some({tenant:?})"));
        }
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}

#[tokio::test]
async fn one_process_takes_several_invocations_at_once() {
    let host = host(Duration::from_secs(30));
    let processes = Processes::new(host.clone(), program("many", 1, Some(3)), Arc::new(Shown));
    let test = async {
        let hanging = [
            invoke(&host, told("id-1", "hang", None)),
            invoke(&host, told("id-2", "hang", None)),
        ];
        backlog(&host, 0, 2).await;
        for n in 0..20 {
            let id = format!("more-{n}");
            let done = invoke(&host, told(&id, "", None)).await.unwrap();
            assert_eq!(result(done), format!("{id} for None"));
        }
        let exited = invoke(&host, told("id-3", "exit", None)).await.unwrap();
        assert_eq!(failure(exited), "Runtime.ExitError");
        for hanging in hanging {
            assert_eq!(failure(hanging.await.unwrap()), "Runtime.ExitError");
        }
    };
    tokio::time::timeout(LONG, processes.run(test))
        .await
        .unwrap();
}
