//! The program under test, how it is started, and what a run of it leaves behind.

use crate::{
    http::Request,
    service::{Script, Service},
};
use outlast::{
    App, Config, Context, ErrorKind, Function, Result, Retry,
    core::wire::{ErrorObject, ExecutionStatus},
};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn order(ctx: Context, items: Vec<String>) -> Result<String> {
    let receipt: String = ctx
        .step("charge", async |step| match step.attempt() {
            1 => Err("declined"),
            _ => Ok("paid".to_owned()),
        })
        .retry(Retry::fixed(secs(2)))
        .await?;
    ctx.wait(secs(3_600)).await?;
    let approval: String = ctx
        .wait_for_callback("approve", async |_id| Ok::<_, std::io::Error>(()))
        .await?;
    let parcels: Vec<String> = ctx
        .map("ship", &items, async |ctx, item| {
            ctx.step("pack", async |_| {
                Ok::<_, std::io::Error>(format!("{item} packed"))
            })
            .await
        })
        .await?
        .into_values()?;
    Ok(format!("{receipt}, {approval}, {}", parcels.join(", ")))
}

async fn explode(_: Context, (): ()) -> Result<()> {
    panic!("boom")
}

async fn describe(ctx: Context, (): ()) -> Result<Value> {
    let lambda = ctx.lambda_context().cloned().unwrap_or_default();
    let signal = ctx.wait_signal::<String>("go").await;
    Ok(json!({
        "request": lambda.request_id,
        "arn": lambda.invoked_function_arn,
        "name": lambda.function_name,
        "version": lambda.function_version,
        "memory": lambda.memory_mib,
        "trace": lambda.trace_id,
        "client": lambda.client_context,
        "signals": signal.is_err_and(|error| error.kind() == ErrorKind::Unsupported),
    }))
}

/// Not a test by itself: the process that the tests start.
#[tokio::test]
async fn the_program_under_test() {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return;
    }
    let described = Function::new("describe", describe).config(Config::new().linger(secs(0)));
    let app = App::new()
        .function("order", order)
        .function("explode", explode)
        .register(described);
    if let Err(error) = app.run().await {
        panic!("{error}");
    }
}

/// Starts the program as the Lambda function `function`.
pub(crate) fn start(port: u16, function: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program::the_program_under_test", "--nocapture"])
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", format!("127.0.0.1:{port}"))
        .env(
            "AWS_ENDPOINT_URL_LAMBDA",
            format!("http://127.0.0.1:{port}"),
        )
        .env("AWS_LAMBDA_FUNCTION_NAME", function)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_SESSION_TOKEN", "session")
        .env("AWS_REGION", "us-east-1")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// How an execution went, and what was said on the wire.
pub(crate) struct Run {
    pub(crate) status: ExecutionStatus,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<ErrorObject>,
    pub(crate) requests: Vec<Request>,
}

/// Runs the script's execution to its end, and until the function asks for more.
pub(crate) async fn run(script: Script) -> Run {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut child = start(port, script.function, &script.variables);
    let service = Service::new(script);
    let ending = tokio::select! {
        () = service.clone().serve(listener) => "the service ended",
        () = service.done.notified() => "",
        _ = child.wait() => "the program ended",
        () = tokio::time::sleep(secs(60)) => "nothing more happened",
    };
    let _ = child.start_kill();
    let said = child.wait_with_output().await.unwrap().stderr;
    let state = service.lock();
    let run = Run {
        status: state.execution.status(),
        result: state.execution.result().map(ToString::to_string),
        error: state.execution.error().cloned(),
        requests: state.requests.clone(),
    };
    let said = String::from_utf8_lossy(&said);
    assert_eq!(ending, "", "{}\n{said}", run.transcript());
    run
}

impl Run {
    /// One line per request: the updates of a checkpoint, the body of an answer.
    pub(crate) fn transcript(&self) -> String {
        let lines = self.requests.iter().map(|request| {
            let path = request.path();
            let (_, what) = path.rsplit_once('/').unwrap();
            match what {
                "state" => "state".to_owned(),
                "checkpoint" => {
                    let body = request.json();
                    let updates = body["Updates"].as_array().unwrap().iter().map(|update| {
                        let name = update["Name"].as_str().unwrap_or("-");
                        let [kind, action] =
                            ["Type", "Action"].map(|member| update[member].as_str().unwrap());
                        format!("{action} {kind} {name}")
                    });
                    format!("checkpoint {}", updates.collect::<Vec<_>>().join(", "))
                }
                _ => format!("{what} {}", String::from_utf8_lossy(&request.body)),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Every checkpoint request, the repeated ones included.
    pub(crate) fn checkpoints(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(|request| request.path().ends_with("/checkpoint"))
    }

    /// Bodies of what the runtime posted: `response` or `error`.
    pub(crate) fn posted(&self, what: &str) -> Vec<Value> {
        let posted = self.requests.iter().filter(|request| {
            let path = request.path();
            path.starts_with("/2018-06-01/") && path.ends_with(&format!("/{what}"))
        });
        posted.map(Request::json).collect()
    }
}
