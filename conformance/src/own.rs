//! Our own requirements, for what the official ones leave out: `conformance/requirements` says what
//! each handler does and what is done to it meanwhile.

use crate::{Requirement, requirement, seconds};
use outlast::{Context, Error, Result, Retry};
use std::time::Duration;

/// More than AWS Lambda allows in one execution.
const MANY: u32 = 3_100;

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("stop-1", waits_long),
        requirement("stop-2", approved),
        requirement("list-1", greet),
        requirement("name-1", greet),
        requirement("name-2", approved),
        requirement("timeout-1", waits_long).with_execution_timeout(seconds(3)),
        requirement("timeout-2", approved).with_execution_timeout(seconds(3)),
        requirement("paging-1", five_steps),
        requirement("many-1", many),
        requirement("crash-1", step_then_wait),
        requirement("crash-2", slow_step),
        requirement("crash-3", approved),
        requirement("crash-4", retried),
        requirement("function-timeout-1", hangs_once),
        requirement("payload-1", greet),
        requirement("signal-1", signalled),
        requirement("signal-2", signal_missed),
        requirement("tenant-1", greet),
        requirement("version-1", greet),
    ]
}

async fn greet(ctx: Context, name: String) -> Result<String> {
    ctx.step("greet", async |_| Ok::<_, Error>(format!("Hello, {name}!")))
        .await
}

async fn waits_long(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(600)).await
}

async fn approved(ctx: Context, (): ()) -> Result<String> {
    ctx.create_callback("approval").await?.result().await
}

async fn five_steps(ctx: Context, (): ()) -> Result<u32> {
    let mut sum = 0;
    for number in 1..=5 {
        sum += ctx.step("", async |_| Ok::<_, Error>(number)).await?;
    }
    Ok(sum)
}

async fn many(ctx: Context, (): ()) -> Result<u32> {
    let mut done = 0;
    for _ in 0..MANY {
        done += ctx.step("", async |_| Ok::<_, Error>(1)).await?;
    }
    // The next invocation has them all to replay, page by page.
    ctx.wait(seconds(1)).await?;
    Ok(done)
}

async fn step_then_wait(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("once", async |_| Ok::<_, Error>("kept".to_owned()))
        .await?;
    ctx.wait(seconds(3)).await?;
    Ok(value)
}

async fn slow_step(ctx: Context, (): ()) -> Result<String> {
    ctx.step("slow", async |_| {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok::<_, Error>("done".to_owned())
    })
    .await
}

async fn retried(ctx: Context, (): ()) -> Result<u32> {
    ctx.step("retried", async |step| {
        if step.attempt() < 2 {
            Err(crate::Failed)
        } else {
            Ok(step.attempt())
        }
    })
    .retry(Retry::fixed(seconds(5)))
    .await
}

async fn hangs_once(ctx: Context, (): ()) -> Result<String> {
    let is_first = !ctx.is_replaying();
    ctx.step("slow", async |_| {
        if is_first {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Ok::<_, Error>("done".to_owned())
    })
    .await
}

async fn signalled(ctx: Context, (): ()) -> Result<String> {
    ctx.wait_signal("go").await
}

async fn signal_missed(ctx: Context, (): ()) -> Result<String> {
    let signal = ctx.wait_signal::<String>("go").timeout(seconds(2)).await;
    Ok(signal.unwrap_or_else(|_| "nobody came".to_owned()))
}
