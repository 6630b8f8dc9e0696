//! The OpenTelemetry suites: programs that are judged by the spans they leave behind.
//!
//! Both views are asked for the same programs, so each is here once and served twice.

use crate::{Failed, Requirement, requirement, seconds};
use outlast::{
    Completion, Config, Context, Error, Function, Result, Retry, WaitStrategy, telemetry::Telemetry,
};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Every requirement of a view, named `otel-<view>-<number>`, and the long-running ones, named
/// `otel-long-running-<number>`, with `-by-execution` where that is the view.
pub fn requirements(view: &str, telemetry: &Telemetry) -> Vec<Requirement> {
    let config = || Config::new().plugin(telemetry.plugin());
    let id = |number| format!("otel-{view}-{number}");
    let long = |number| match view {
        "invocation" => format!("otel-long-running-{number}"),
        other => format!("otel-long-running-{number}-by-{other}"),
    };
    // Targets are traced too, each in the view of who calls it.
    let target = |what: &str| format!("conformance-otel-{view}-{what}");
    let echo = Function::new(&target("echo"), echo).config(config());
    let refuse = Function::new(&target("refuse"), refuse).config(config());
    let wait = Function::new(&target("wait"), long_target).config(config());
    let mut all = vec![
        requirement(id(1), success),
        requirement(id(2), wait_and_resume),
        requirement(id(3), retried),
        requirement(id(4), step_fails),
        requirement(id(5), in_a_child),
        requirement(id(6), branches),
        requirement(id(7), items),
        requirement(id(8), failure_handled),
        requirement(id(9), condition),
        requirement(id(10), callback),
        requirement(id(11), calling("otel-invoke", &echo)).with_targets([echo]),
        requirement(id(12), child_fails),
        requirement(id(13), branch_fails),
        requirement(id(14), item_fails),
        requirement(id(15), interrupted).with_execution_timeout(seconds(3)),
        requirement(id(16), condition_fails),
        requirement(id(17), callback_fails),
        requirement(id(18), calling("otel-failed-invoke", &refuse)).with_targets([refuse]),
        requirement(id(19), fails),
        requirement(id(20), in_a_virtual_context),
        requirement(long(1), long_wait),
        requirement(long(2), long_retry),
        requirement(long(3), long_callback),
        requirement(long(4), calling("otel-long-invoke", &wait)).with_targets([wait]),
    ];
    for requirement in &mut all {
        requirement.function = requirement.function.clone().config(config());
    }
    all
}

async fn pass(ctx: &Context, name: &str) -> Result<()> {
    ctx.step(name, async |_| Ok::<_, Error>(())).await
}

async fn fail(ctx: &Context, name: &str) -> Result<()> {
    let failing = ctx.step(name, async |_| Err::<(), _>(Failed));
    failing.retry(Retry::none()).await
}

/// Fails once.
async fn flaky(ctx: &Context, name: &str, delay: Duration) -> Result<()> {
    ctx.step(name, async |step| match step.attempt() {
        1 => Err(Failed),
        _ => Ok(()),
    })
    .retry(Retry::fixed(delay).max_attempts(2))
    .await
}

async fn success(ctx: Context, _: Value) -> Result<()> {
    pass(&ctx, "otel-success").await
}

async fn wait_and_resume(ctx: Context, _: Value) -> Result<()> {
    ctx.named_wait("otel-wait", seconds(1)).await?;
    pass(&ctx, "otel-after-resume").await
}

async fn retried(ctx: Context, _: Value) -> Result<()> {
    flaky(&ctx, "otel-retry", seconds(1)).await
}

async fn step_fails(ctx: Context, _: Value) -> Result<()> {
    fail(&ctx, "otel-terminal-failure").await
}

async fn in_a_child(ctx: Context, _: Value) -> Result<()> {
    ctx.run_in_child_context("otel-child-context", async |ctx| {
        pass(&ctx, "otel-child-step").await
    })
    .await
}

async fn branches(ctx: Context, _: Value) -> Result<Vec<()>> {
    ctx.parallel("otel-parallel")
        .branch("otel-parallel-branch-a", async |ctx| {
            pass(&ctx, "otel-parallel-step-a").await
        })
        .branch("otel-parallel-branch-b", async |ctx| {
            pass(&ctx, "otel-parallel-step-b").await
        })
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn items(ctx: Context, _: Value) -> Result<Vec<()>> {
    ctx.map("otel-map", [0, 1], async |ctx, item| {
        pass(&ctx, &format!("otel-map-step-{item}")).await
    })
    .item_namer(|_, index| format!("otel-map-iteration-{index}"))
    .max_concurrency(1)
    .await?
    .into_values()
}

async fn failure_handled(ctx: Context, _: Value) -> Result<()> {
    match fail(&ctx, "otel-handled-failure").await {
        Ok(()) => Ok(()),
        Err(_) => pass(&ctx, "otel-recovery-step").await,
    }
}

async fn condition(ctx: Context, _: Value) -> Result<u32> {
    let count = async |state, _| Ok::<_, Error>(state + 1);
    let twice = WaitStrategy::until(|state| *state >= 2).fixed_delay(seconds(1));
    ctx.wait_for_condition("otel-condition", 0, count, twice)
        .await
}

async fn callback(ctx: Context, _: Value) -> Result<String> {
    ctx.wait_for_callback("otel-callback", async |_| Ok::<_, Error>(()))
        .await
}

/// Invokes a function that is already there.
fn calling(
    name: &'static str,
    target: &Function,
) -> impl Fn(Context, Value) -> outlast::backend::BoxFuture<'static, Result<Value>> + use<> {
    let target = format!("{}:$LATEST", target.name());
    move |ctx, input| {
        let target = target.clone();
        Box::pin(async move { ctx.invoke(name, &target, &input).await })
    }
}

/// The caller has suspended before the answer comes: one that was faster would be no continuation.
const UNTIL_THE_CALLER_WAITS: Duration = Duration::from_secs(1);

async fn echo(_: Context, input: Value) -> Result<Value> {
    tokio::time::sleep(UNTIL_THE_CALLER_WAITS).await;
    Ok(input)
}

async fn refuse(_: Context, _: Value) -> Result<Value> {
    tokio::time::sleep(UNTIL_THE_CALLER_WAITS).await;
    Err(Error::other(Failed))
}

async fn child_fails(ctx: Context, _: Value) -> Result<()> {
    ctx.run_in_child_context("otel-failed-child-context", async |_| {
        Err(Error::other(Failed))
    })
    .await
}

async fn branch_fails(ctx: Context, _: Value) -> Result<()> {
    let batch = ctx
        .parallel::<()>("otel-failed-parallel")
        .branch("otel-failed-parallel-branch", async |_| {
            Err(Error::other(Failed))
        })
        .completion(Completion::tolerated_failures(1))
        .await?;
    batch.throw_if_error()
}

async fn item_fails(ctx: Context, _: Value) -> Result<()> {
    let batch = ctx
        .map("otel-failed-map", [0], async |_, _| {
            Err::<(), _>(Error::other(Failed))
        })
        .item_namer(|_, index| format!("otel-failed-map-iteration-{index}"))
        .completion(Completion::tolerated_failures(1))
        .await?;
    batch.throw_if_error()
}

async fn interrupted(ctx: Context, _: Value) -> Result<()> {
    ctx.named_wait("otel-interrupted-wait", seconds(60)).await
}

async fn condition_fails(ctx: Context, _: Value) -> Result<u32> {
    let once = WaitStrategy::until(|state| *state > 0).fixed_delay(seconds(1));
    ctx.wait_for_condition("otel-failed-condition", 0, async |_, _| Err(Failed), once)
        .await
}

async fn callback_fails(ctx: Context, _: Value) -> Result<String> {
    ctx.wait_for_callback("otel-failed-callback", async |_| Ok::<_, Error>(()))
        .await
}

async fn fails(_: Context, _: Value) -> Result<()> {
    Err(Error::other(Failed))
}

async fn in_a_virtual_context(ctx: Context, _: Value) -> Result<String> {
    ctx.run_in_child_context("otel-virtual-context", async |_| {
        Ok("virtual-complete".to_owned())
    })
    .flat()
    .await
}

// --- long-running -------------------------------------------------------------------------------

/// How long it takes; the runner writes the number as text.
#[derive(Deserialize)]
struct Long {
    delay_seconds: String,
}

impl Long {
    fn delay(&self) -> Result<Duration> {
        let number = self.delay_seconds.parse();
        number.map(seconds).map_err(Error::other)
    }
}

async fn long_wait(ctx: Context, long: Long) -> Result<()> {
    ctx.named_wait("otel-long-wait", long.delay()?).await?;
    pass(&ctx, "otel-after-long-wait").await
}

async fn long_retry(ctx: Context, long: Long) -> Result<()> {
    flaky(&ctx, "otel-long-retry", long.delay()?).await
}

async fn long_callback(ctx: Context, _: Value) -> Result<String> {
    ctx.wait_for_callback("otel-long-callback", async |_| Ok::<_, Error>(()))
        .await
}

async fn long_target(ctx: Context, long: Long) -> Result<()> {
    ctx.named_wait("otel-long-invoke-target-wait", long.delay()?)
        .await
}
