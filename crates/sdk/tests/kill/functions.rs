//! The functions that run while the process is killed, and what each comes to.
//!
//! A function's input is a number that no other execution of it has, and its result follows from it,
//! except for what was sent from outside: that is compared with what the sender noted.

use crate::ledger::Ledger;
use outlast::{App, Context, Error, ErrorKind, Result, Retry};
use serde::{Deserialize, Serialize};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::mpsc::UnboundedSender;

/// What functions share with whoever answers them.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) ledger: Arc<Ledger>,
    /// Callback ids that wait for an answer, and their executions.
    pub(crate) asked: UnboundedSender<(String, String)>,
}

/// Functions that clients start; `leaf` is started by `parent`.
pub(crate) const FUNCTIONS: [&str; 9] = [
    "sequence", "retried", "cautious", "sleeper", "mapper", "approve", "listen", "forever",
    "parent",
];

/// The result that an execution must come to, if it follows from its input alone.
pub(crate) fn expected(function: &str, input: u64) -> Option<String> {
    let result = match function {
        "sequence" => (0..5).map(|i| input + i).sum(),
        "retried" => input + 3,
        "sleeper" => input * 2 + 1,
        "mapper" => (0..4).map(|i| input + i).sum::<u64>() + input * 2 + 1,
        "parent" => (0..3).map(|i| input * 2 + i).sum::<u64>() + input,
        _ => return None,
    };
    Some(result.to_string())
}

/// Whether an execution takes seconds, so that a client does not wait for it before it goes on.
pub(crate) fn is_slow(function: &str) -> bool {
    matches!(function, "retried" | "cautious" | "sleeper" | "mapper")
}

/// The program.
pub(crate) fn app(world: &World) -> App {
    App::new()
        .function("sequence", with(world, sequence))
        .function("retried", with(world, retried))
        .function("cautious", with(world, cautious))
        .function("sleeper", with(world, sleeper))
        .function("mapper", with(world, mapper))
        .function("approve", with(world, approve))
        .function("listen", with(world, listen))
        .function("forever", with(world, forever))
        .function("parent", with(world, parent))
        .function("leaf", with(world, leaf))
}

fn with<I, F, Fut>(
    world: &World,
    handler: F,
) -> impl Fn(Context, I) -> Fut + Send + Sync + 'static + use<I, F, Fut>
where
    F: Fn(World, Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
{
    let world = world.clone();
    move |ctx, input| handler(world.clone(), ctx, input)
}

impl World {
    /// A step whose body notes that it ran, and whose caller notes that it was acknowledged.
    async fn step(&self, ctx: &Context, name: &str, value: u64) -> Result<u64> {
        let body = async |step: outlast::StepContext| {
            let attempt = step.attempt().to_string();
            let arn = step.execution_arn();
            self.ledger.note(["ran", arn, name, &attempt, "least"]);
            tokio::time::sleep(Duration::from_millis(value % 4)).await;
            outlast::ok(value)
        };
        let value = ctx.step(name, body).await?;
        self.ledger.note(["got", ctx.execution_arn(), name]);
        Ok(value)
    }

    /// A step that must not run twice in one attempt.
    async fn careful_step(&self, ctx: &Context, name: &str, retry: Retry) -> Result<()> {
        let body = async |step: outlast::StepContext| {
            let attempt = step.attempt().to_string();
            let arn = step.execution_arn();
            self.ledger.note(["ran", arn, name, &attempt, "most"]);
            tokio::time::sleep(Duration::from_millis(5)).await;
            outlast::ok(())
        };
        ctx.step(name, body).at_most_once().retry(retry).await?;
        self.ledger.note(["got", ctx.execution_arn(), name]);
        Ok(())
    }
}

async fn sequence(world: World, ctx: Context, input: u64) -> Result<u64> {
    let mut sum = 0;
    for i in 0..5 {
        sum += world.step(&ctx, &format!("step-{i}"), input + i).await?;
    }
    Ok(sum)
}

async fn retried(world: World, ctx: Context, input: u64) -> Result<u64> {
    let body = async |step: outlast::StepContext| {
        let attempt = step.attempt();
        let arn = step.execution_arn();
        let text = attempt.to_string();
        world.ledger.note(["ran", arn, "flaky", &text, "least"]);
        if attempt < 3 {
            return Err(Error::new("Flaky", "not yet"));
        }
        Ok(input + u64::from(attempt))
    };
    let retry = Retry::fixed(Duration::from_secs(1));
    let value = ctx.step("flaky", body).retry(retry).await?;
    world.ledger.note(["got", ctx.execution_arn(), "flaky"]);
    Ok(value)
}

/// Whether the step that runs once at most was interrupted.
async fn cautious(world: World, ctx: Context, _: u64) -> Result<bool> {
    let often = Retry::fixed(Duration::from_secs(1)).max_attempts(1_000);
    world.careful_step(&ctx, "repeated", often).await?;
    match world.careful_step(&ctx, "single", Retry::none()).await {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::StepInterrupted => Ok(true),
        Err(error) => Err(error),
    }
}

async fn sleeper(world: World, ctx: Context, input: u64) -> Result<u64> {
    let before = world.step(&ctx, "before", input).await?;
    ctx.wait(Duration::from_secs(1 + input % 2)).await?;
    Ok(before + world.step(&ctx, "after", input + 1).await?)
}

async fn mapper(world: World, ctx: Context, input: u64) -> Result<u64> {
    let world = &world;
    let items = ctx.map("items", 0..4_u64, async |ctx, i| {
        world.step(&ctx, &format!("item-{i}"), input + i).await
    });
    let mut values = items.max_concurrency(2).await?.into_values()?;
    let both = ctx
        .parallel("both")
        .branch("quick", async |ctx| world.step(&ctx, "quick", input).await)
        .branch("slow", async |ctx| {
            ctx.wait(Duration::from_secs(1)).await?;
            world.step(&ctx, "slow", input + 1).await
        });
    values.extend(both.await?.into_values()?);
    Ok(values.iter().sum())
}

/// What the callback was answered with.
async fn approve(world: World, ctx: Context, input: u64) -> Result<String> {
    world.step(&ctx, "before", input).await?;
    let arn = ctx.execution_arn().to_owned();
    let submit = async |id: String| {
        world.ledger.note(["asked", &arn, &id]);
        // Nobody listens any more when the process is about to end.
        let _ = world.asked.send((arn.clone(), id));
        outlast::ok(())
    };
    let answer = ctx.wait_for_callback("approve", submit).await?;
    world.step(&ctx, "after", input).await?;
    Ok(answer)
}

/// The first two signals.
async fn listen(_: World, ctx: Context, _: u64) -> Result<Vec<String>> {
    let first = ctx.wait_signal("number").await?;
    let second = ctx.wait_signal("number").await?;
    Ok(vec![first, second])
}

async fn forever(world: World, ctx: Context, input: u64) -> Result<()> {
    world.step(&ctx, "before", input).await?;
    ctx.wait(Duration::from_secs(3_600)).await
}

/// What a parent gives a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Errand {
    parent: String,
    index: u64,
    input: u64,
}

async fn parent(world: World, ctx: Context, input: u64) -> Result<u64> {
    let errand = |index| Errand {
        parent: ctx.execution_arn().to_owned(),
        index,
        input,
    };
    let calls = ctx.map("calls", 0..3, async |ctx, index| {
        ctx.invoke::<_, u64>("call", "leaf", errand(index)).await
    });
    let sum: u64 = calls.await?.into_values()?.iter().sum();
    Ok(sum + world.step(&ctx, "after", input).await?)
}

async fn leaf(world: World, ctx: Context, errand: Errand) -> Result<u64> {
    let (arn, index) = (ctx.execution_arn(), errand.index.to_string());
    world.ledger.note(["child", &errand.parent, &index, arn]);
    let value = world.step(&ctx, "step", errand.input).await?;
    Ok(value + errand.input + errand.index)
}
