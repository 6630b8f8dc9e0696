//! A server as a home of the examples, and what the runner says when things go wrong.

use crate::{
    runner::{Home, Outcome, Script},
    server::Server,
};
use outlast::{
    App, Context, Function, Result,
    core::wire::{ExecutionStatus, OperationStatus},
    testing::{Answer, CloudRunner},
};
use serde_json::Value;
use std::time::Duration;

/// How often a test looks at its execution.
const LOOK: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3_600);

/// A server of its own for every execution, which skips the time in which nothing happens.
pub(crate) struct Cloud;

impl Home for Cloud {
    async fn run(&self, function: Function, input: Value, script: Script) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::begin(folder.path(), "127.0.0.1:0", &["--test-clock"]);
        let name = function.name().to_owned();
        let app = App::new().register(function);
        let worker = app.work_for(&server.remote).await.unwrap();
        let runner = CloudRunner::new(&server.remote, &name)
            .poll_interval(LOOK)
            .skip_time();
        let runner = script.answers().fold(runner, |runner, (name, answer)| {
            runner.callback(&name, answer)
        });
        let run = runner.run(input).await;
        assert_eq!(run.why(), "");
        worker.shut_down().await;
        Outcome {
            status: run.status(),
            result: run.result::<Value>().ok(),
            error: run.error().cloned(),
            history: run.history().to_vec(),
        }
    }
}

async fn desk(ctx: Context, number: u32) -> Result<String> {
    let sum: u32 = ctx
        .run_in_child_context("sum", async |ctx| {
            let one = ctx.step("one", async |_| outlast::ok(number)).await?;
            let two = ctx.step("two", async |_| outlast::ok(number)).await?;
            Ok(one + two)
        })
        .await?;
    ctx.wait(HOUR).await?;
    let ask = async |_: String| outlast::ok(());
    let answer: String = ctx.wait_for_callback("ask", ask).timeout(HOUR).await?;
    Ok(format!("{sum} {answer}"))
}

#[tokio::test]
async fn a_run_tells_what_the_test_kit_tells() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::begin(folder.path(), "127.0.0.1:0", &["--test-clock"]);
    let desk = Function::new("desk", desk).per_tenant();
    let worker = App::new().register(desk).work_for(&server.remote);
    let _worker = worker.await.unwrap();
    let runner = CloudRunner::new(&server.remote, "desk")
        .poll_interval(LOOK)
        .tenant("t")
        .skip_time()
        .callback("ask", Answer::succeed("yes").after(HOUR / 2));
    let run = runner.run(2).await;
    assert_eq!(run.result::<String>().unwrap(), "4 yes");
    assert_eq!(run.raw_result(), Some("\"4 yes\""));
    assert_eq!(run.status(), ExecutionStatus::Succeeded);
    assert_eq!((run.error(), run.why()), (None, ""));
    assert_eq!(run.invocations(), 3);
    assert_eq!(run.elapsed().as_secs() / 60, 90);
    let children: Vec<_> = run
        .children("sum")
        .iter()
        .map(|child| child.name.clone())
        .collect();
    assert_eq!(children, [Some("one".into()), Some("two".into())]);
    assert_eq!(run.attempts("one"), 1);
    let one = run.operation("one").unwrap();
    assert_eq!(one.status, OperationStatus::Succeeded);
    assert_eq!(
        one.step_details.as_ref().unwrap().result.as_deref(),
        Some("2")
    );
    assert!(run.callback_id("ask").is_err(), "it is answered");
    assert_eq!(
        run.operations()[0].id.as_str(),
        run.arn().rsplit('/').next().unwrap()
    );
    assert!(
        run.history_text().contains("WaitStarted"),
        "{}",
        run.history_text()
    );
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_given_back_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::begin(folder.path(), "127.0.0.1:0", &[]);
    let worker = App::new().function("desk", desk).work_for(&server.remote);
    let _worker = worker.await.unwrap();
    let runner = CloudRunner::new(&server.remote, "desk").poll_interval(LOOK);
    let run = runner.clone().timeout(Duration::from_secs(1)).run(2).await;
    assert_eq!(run.status(), ExecutionStatus::Running);
    let error = run.result::<String>().unwrap_err();
    assert!(
        error.message().contains("did not end within 1 s"),
        "{error}"
    );
    let skipping = runner.clone().skip_time().run(2).await;
    assert!(
        skipping.why().contains("--test-clock"),
        "{}",
        skipping.why()
    );
    let unknown = CloudRunner::new(&server.remote, "dask").run(2).await;
    assert_eq!(
        unknown.error().unwrap().error_type.as_deref(),
        Some("NotStarted")
    );
}
