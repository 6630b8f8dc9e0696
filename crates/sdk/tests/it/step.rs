use outlast::{Context, Result, Retry, testing::TestKit};
use std::time::Duration;

async fn one(ctx: Context, name: String) -> Result<String> {
    ctx.step("greet", async |_| {
        Ok::<_, std::io::Error>(format!("Hello, {name}!"))
    })
    .await
}

#[tokio::test]
async fn a_quick_step_is_one_request() {
    let run = TestKit::new("one", one).run("World").await;
    assert_eq!(run.result::<String>().unwrap(), "Hello, World!");
    insta::assert_snapshot!(run.requests_text(), @"Step greet START~, Step greet SUCCEED!");
    insta::assert_snapshot!(run.history_text(), @"");
}

#[tokio::test]
async fn a_failing_step_is_retried_after_its_delay() {
    let run = TestKit::new("flaky", async |ctx: Context, (): ()| {
        ctx.step("flaky", async |step| {
            if step.attempt() < 3 {
                Err("not yet")
            } else {
                Ok(step.attempt())
            }
        })
        .retry(Retry::fixed(Duration::from_secs(7)))
        .await
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 3);
    insta::assert_snapshot!(run.requests_text(), @"");
    insta::assert_snapshot!(run.history_text(), @"");
}
