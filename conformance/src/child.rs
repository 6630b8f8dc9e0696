//! Suite 3: child contexts.

use crate::{Crash, Failed, Requirement, requirement, seconds};
use outlast::{Config, Context, Error, Result, Retry, codec};
use serde::Deserialize;
use serde_json::Value;

pub(crate) fn requirements(crash: &Crash) -> Vec<Requirement> {
    let lost = crash.clone();
    let replays_logged = || Config::new().log_while_replaying(true);
    vec![
        requirement("3-1", basic),
        requirement("3-2", named),
        requirement("3-3", sequential),
        requirement("3-4", fails),
        requirement("3-5", failure_handled),
        requirement("3-6", nested),
        requirement("3-7", step_retried),
        requirement("3-8", step_retries_exhausted),
        requirement("3-9", replay_skips),
        requirement("3-10", step_and_wait),
        requirement("3-11", large_result).with_config(replays_logged()),
        requirement("3-12", move |ctx, input| {
            interrupted(ctx, input, lost.clone())
        })
        .losing_its_process(),
        requirement("3-13", wait_inside),
        requirement("3-14", custom_codec),
        requirement("3-15", fails_without_step),
        requirement("3-16", null_result),
        requirement("3-17", only_logs).with_config(replays_logged()),
        requirement("3-18", step_and_wait_inside_and_after),
    ]
}

/// A step that gives back what it is given.
async fn echo(ctx: &Context, input: &str) -> Result<String> {
    ctx.step("", async |_| Ok::<_, Error>(input.to_owned()))
        .await
}

async fn basic(ctx: Context, input: String) -> Result<String> {
    ctx.run_in_child_context("", async |ctx| echo(&ctx, &input).await)
        .await
}

#[derive(Deserialize)]
struct Named {
    name: String,
    value: String,
}

async fn named(ctx: Context, input: Named) -> Result<String> {
    ctx.run_in_child_context(&input.name, async |ctx| echo(&ctx, &input.value).await)
        .await
}

async fn sequential(ctx: Context, input: String) -> Result<String> {
    ctx.run_in_child_context("sequential", async |ctx| {
        let first = echo(&ctx, &input).await?;
        echo(&ctx, &first).await
    })
    .await
}

async fn fails(ctx: Context, (): ()) -> Result<()> {
    ctx.run_in_child_context("failing", async |ctx| {
        ctx.step("", async |_| Err(Failed))
            .retry(Retry::none())
            .await
    })
    .await
}

async fn failure_handled(ctx: Context, input: String) -> Result<String> {
    let failed: Result<()> = ctx
        .run_in_child_context("", async |ctx| {
            ctx.step("", async |_| Err(Failed))
                .retry(Retry::none())
                .await
        })
        .await;
    match failed {
        Err(_) => echo(&ctx, &input).await,
        Ok(()) => Ok("did not fail".to_owned()),
    }
}

async fn nested(ctx: Context, input: String) -> Result<String> {
    ctx.run_in_child_context("outer", async |ctx| {
        let outer = echo(&ctx, &input).await?;
        ctx.run_in_child_context("inner", async |ctx| echo(&ctx, &outer).await)
            .await
    })
    .await
}

async fn step_retried(ctx: Context, input: String) -> Result<String> {
    ctx.run_in_child_context("retried", async |ctx| {
        ctx.step("", async |step| {
            if step.attempt() < 2 {
                Err(Failed)
            } else {
                Ok(input.clone())
            }
        })
        .retry(Retry::fixed(seconds(1)))
        .await
    })
    .await
}

async fn step_retries_exhausted(ctx: Context, (): ()) -> Result<()> {
    ctx.run_in_child_context("exhausted", async |ctx| {
        ctx.step("", async |_| Err(Failed))
            .retry(Retry::fixed(seconds(1)).max_attempts(2))
            .await
    })
    .await
}

async fn replay_skips(ctx: Context, input: String) -> Result<String> {
    let value = ctx
        .run_in_child_context("", async |ctx| echo(&ctx, &input).await)
        .await?;
    ctx.wait(seconds(1)).await?;
    Ok(value)
}

async fn step_and_wait(ctx: Context, input: String) -> Result<String> {
    ctx.run_in_child_context("step-and-wait", async |ctx| {
        let value = echo(&ctx, &input).await?;
        ctx.wait(seconds(1)).await?;
        Ok(value)
    })
    .await
}

async fn large_result(ctx: Context, input: String) -> Result<usize> {
    let large = ctx
        .run_in_child_context("large", async |ctx| {
            tracing::info!("{input}");
            let small = ctx
                .step("", async |_| Ok::<_, Error>("x".to_owned()))
                .await?;
            Ok(small.repeat(300 * 1024))
        })
        .await?;
    ctx.wait(seconds(1)).await?;
    Ok(large.len())
}

async fn interrupted(ctx: Context, input: String, crash: Crash) -> Result<String> {
    // Nothing in the new process remembers the lost one, but the record does.
    let is_first = !ctx.is_replaying();
    ctx.run_in_child_context("", async |ctx| {
        ctx.step("", async |_| {
            if is_first {
                match crash.now().await {}
            }
            Ok::<_, Error>(input.clone())
        })
        .await
    })
    .await
}

async fn wait_inside(ctx: Context, input: String) -> Result<String> {
    let value = ctx
        .run_in_child_context("waiting", async |ctx| {
            ctx.wait(seconds(1)).await?;
            Ok(input)
        })
        .await?;
    echo(&ctx, &value).await
}

async fn custom_codec(ctx: Context, input: String) -> Result<String> {
    let uppercase = codec::from_fns(
        |value| Ok(value.as_str().unwrap_or_default().to_uppercase()),
        |text| Ok(Value::from(text)),
    );
    ctx.run_in_child_context("shouting", async |ctx| echo(&ctx, &input).await)
        .codec(uppercase)
        .await
}

async fn fails_without_step(ctx: Context, (): ()) -> Result<()> {
    ctx.run_in_child_context("failing", async |_| Err(Error::other(Failed)))
        .await
}

async fn null_result(ctx: Context, (): ()) -> Result<()> {
    ctx.run_in_child_context("nothing", async |_| Ok(())).await
}

async fn only_logs(ctx: Context, input: String) -> Result<String> {
    let value = ctx
        .run_in_child_context("logging", async |_| {
            tracing::info!("{input}");
            Ok(input)
        })
        .await?;
    ctx.wait(seconds(1)).await?;
    Ok(value)
}

async fn step_and_wait_inside_and_after(ctx: Context, input: String) -> Result<String> {
    let inner = ctx
        .run_in_child_context("inside", async |ctx| {
            let value = echo(&ctx, &input).await?;
            ctx.wait(seconds(1)).await?;
            Ok(value)
        })
        .await?;
    let outer = echo(&ctx, &inner).await?;
    ctx.wait(seconds(1)).await?;
    Ok(outer)
}
