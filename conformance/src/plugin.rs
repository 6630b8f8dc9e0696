//! Suite 10: plugins.

mod recorder;

use crate::{Failed, Records, Requirement, requirement, seconds};
use outlast::{Config, Context, Error, Result, Retry, core::wire::OperationType};
use recorder::{Manner, Recorder};

const NAME: &str = "CONFPLUGIN";

pub(crate) fn requirements(records: &Records) -> Vec<Requirement> {
    let brief = || Recorder::new(NAME, records);
    let of = |only| brief().only(only);
    let step = || of(OperationType::Step);
    let wait = || of(OperationType::Wait);
    let context = || of(OperationType::Context);
    let named = |name, manner| Recorder::new(name, records).manner(manner);
    let failing = || {
        let plugin = named("CONFPLUGIN-FAULTY", Manner::Failing);
        plugin.only(OperationType::Step)
    };
    let panicking = || {
        let plugin = named("CONFPLUGIN-FAULTY", Manner::Panicking);
        plugin.only(OperationType::Step)
    };
    let healthy = || named("CONFPLUGIN-HEALTHY", Manner::Healthy).only(OperationType::Step);
    let first = named("CONFPLUGIN-A", Manner::Healthy);
    let second = named("CONFPLUGIN-B", Manner::Healthy);
    vec![
        seen_by(requirement("10-1", greet), [brief()]),
        seen_by(requirement("10-2", greet), [step()]),
        seen_by(requirement("10-3", retried), [step()]),
        seen_by(requirement("10-4", greet), [failing()]),
        seen_by(requirement("10-5", greet), [first, second]),
        seen_by(requirement("10-6", waits), [brief()]),
        seen_by(requirement("10-7", fails), [brief()]),
        seen_by(requirement("10-8", greet), [step()]),
        seen_by(requirement("10-9", waits), [wait()]),
        seen_by(requirement("10-10", waits), [wait()]),
        seen_by(requirement("10-11", greet_in_a_child), [brief()]),
        seen_by(requirement("10-12", branches), [context()]),
        seen_by(requirement("10-13", one_retried), [step()]),
        seen_by(requirement("10-14", second_fails), [step()]),
        seen_by(requirement("10-15", exhausted), [step()]),
        seen_by(requirement("10-16", waits), [brief()]),
        seen_by(requirement("10-17", greet), [panicking(), healthy()]),
        seen_by(requirement("10-18", two_waits), [wait()]),
        seen_by(requirement("10-19", waits_then_answers), [brief().whole()]),
        seen_by(requirement("10-20", named_step), [step().whole()]),
        seen_by(requirement("10-21", flaky), [step().whole()]),
        seen_by(requirement("10-22", named_step), [step().whole()]),
        seen_by(requirement("10-23", named_branches), [context().whole()]),
    ]
}

/// The requirement, observed by these plugins.
fn seen_by(requirement: Requirement, plugins: impl IntoIterator<Item = Recorder>) -> Requirement {
    let config = plugins.into_iter().fold(Config::new(), |config, plugin| {
        config.plugin(move || plugin.clone())
    });
    requirement.with_config(config)
}

async fn greet(ctx: Context, name: String) -> Result<String> {
    ctx.step("", async |_| {
        tracing::info!("Greeting step running for: {name}");
        Ok::<_, Error>(format!("Hello, {name}!"))
    })
    .await
}

/// Fails in its first attempt.
async fn succeed_later(ctx: &Context, name: &str, result: &str) -> Result<String> {
    ctx.step(name, async |step| {
        if step.attempt() < 2 {
            Err(Failed)
        } else {
            Ok(result.to_owned())
        }
    })
    .retry(Retry::fixed(seconds(1)))
    .await
}

async fn retried(ctx: Context, (): ()) -> Result<String> {
    succeed_later(&ctx, "", "Operation succeeded").await
}

async fn waits(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(2)).await
}

async fn fails(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Err(Failed))
        .retry(Retry::none())
        .await
}

async fn greet_in_a_child(ctx: Context, name: String) -> Result<String> {
    ctx.run_in_child_context("", async |ctx| greet(ctx, name.clone()).await)
        .await
}

async fn branches(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("parallel")
        .max_concurrency(1)
        .branch("", async |_| Ok("task-1".to_owned()))
        .branch("", async |_| Ok("task-2".to_owned()))
        .await?
        .into_values()
}

async fn one_retried(ctx: Context, (): ()) -> Result<String> {
    ctx.step("", async |_| Ok::<_, Error>(())).await?;
    succeed_later(&ctx, "", "Operation succeeded").await
}

#[derive(Debug, thiserror::Error)]
#[error("boom")]
struct Boom;

async fn second_fails(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Ok::<_, Error>("task-a".to_owned()))
        .await?;
    ctx.step("", async |_| Err(Boom)).retry(Retry::none()).await
}

async fn exhausted(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Err(Failed))
        .retry(Retry::fixed(seconds(1)).max_attempts(2))
        .await
}

async fn two_waits(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("waits")
        .branch("", async |ctx| {
            ctx.named_wait("short", seconds(2)).await?;
            Ok("short-done".to_owned())
        })
        .branch("", async |ctx| {
            ctx.named_wait("long", seconds(8)).await?;
            Ok("long-done".to_owned())
        })
        .await?
        .into_values()
}

async fn waits_then_answers(ctx: Context, input: String) -> Result<String> {
    ctx.wait(seconds(2)).await?;
    Ok(format!("done-{input}"))
}

async fn named_step(ctx: Context, (): ()) -> Result<String> {
    ctx.step("greet", async |_| Ok::<_, Error>("task-a".to_owned()))
        .await
}

async fn flaky(ctx: Context, (): ()) -> Result<String> {
    succeed_later(&ctx, "flaky", "ok").await
}

async fn named_branches(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("ctx")
        .max_concurrency(1)
        .branch("branch-a", async |ctx| {
            ctx.step("inner", async |_| Ok::<_, Error>("x".to_owned()))
                .await?;
            ctx.wait(seconds(2)).await?;
            Ok("a-done".to_owned())
        })
        .branch("branch-b", async |_| Ok("b-done".to_owned()))
        .await?
        .into_values()
}
