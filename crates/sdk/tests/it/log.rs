//! Logging and replay suppression.

use outlast::{Config, Context, Function, Result, testing::TestKit};
use std::time::Duration;

async fn chatty(ctx: Context, (): ()) -> Result<()> {
    tracing::info!(stage = "first", "starting");
    ctx.step("charge", async |step| {
        tracing::info!("charging");
        if step.attempt() == 1 {
            Err("declined")
        } else {
            Ok(())
        }
    })
    .await?;
    tracing::info!("charged");
    ctx.wait(Duration::from_secs(5)).await?;
    tracing::info!("done");
    Ok(())
}

fn messages(run: &outlast::testing::TestRun) -> Vec<&str> {
    run.logs()
        .iter()
        .map(|line| line.message.as_str())
        .collect()
}

#[tokio::test]
async fn replayed_code_is_silent_and_every_attempt_of_a_step_speaks() {
    let run = TestKit::new("chatty", chatty).run(()).await;
    assert_eq!(run.invocations().len(), 3);
    assert_eq!(
        messages(&run),
        ["starting", "charging", "charging", "charged", "done"]
    );
}

#[tokio::test]
async fn replayed_code_speaks_when_asked_to() {
    let config = Config::new().log_while_replaying(true);
    let run = TestKit::of(Function::new("chatty", chatty).config(config))
        .run(())
        .await;
    let starting = messages(&run)
        .into_iter()
        .filter(|message| *message == "starting")
        .count();
    assert_eq!(starting, 3);
}

#[tokio::test]
async fn lines_carry_the_execution_and_the_operation() {
    let run = TestKit::new("chatty", chatty).run(()).await;
    let line = |message: &str| {
        run.logs()
            .iter()
            .rfind(|line| line.message == message)
            .unwrap()
    };
    let starting = &line("starting").fields;
    assert_eq!(starting["executionArn"], run.arn());
    assert_eq!(starting["requestId"], "request-1");
    assert_eq!(starting["stage"], "first");
    assert!(!starting.contains_key("operationId"));
    let charging = &line("charging").fields;
    assert_eq!(
        charging["operationId"],
        run.operation("charge").unwrap().id.as_str()
    );
    assert_eq!(charging["operationName"], "charge");
    assert_eq!(charging["attempt"], 2);
    assert_eq!(charging["requestId"], "request-2");
}
