//! The functions that are measured. Their steps do nothing but return a number.

use crate::bench::probe::Probe;
use outlast::{App, Context, Result};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Does nothing.
pub(crate) const NOTHING: &str = "nothing";
/// Steps one after another.
pub(crate) const SEQUENTIAL: &str = "sequential";
/// Steps side by side.
pub(crate) const FANOUT: &str = "fanout";
/// The branches of a map, a step in each.
pub(crate) const MAP: &str = "map";
/// Waits for hours.
pub(crate) const SLEEPER: &str = "sleeper";
/// Waits until all of its kind are due.
pub(crate) const HERD: &str = "herd";
/// Steps, then a wait.
pub(crate) const RESUME: &str = "resume";

/// Longer than any measurement.
const SLEEP: Duration = Duration::from_secs(10 * 86_400);

/// What the one moment is known by that a herd waits for.
pub(crate) const HERD_NUMBER: u64 = 0;
/// No timer is shorter.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The input of [`RESUME`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct History {
    /// Which execution this is, counted by the caller.
    pub(crate) number: u64,
    /// Steps before the wait.
    pub(crate) steps: u32,
    /// How long the wait is.
    pub(crate) wait_seconds: u32,
}

/// A program of all of them.
pub(crate) fn app(probe: &Arc<Probe>) -> App {
    App::new()
        .function(NOTHING, async |_: Context, _: u32| outlast::ok(()))
        .function(SEQUENTIAL, with(probe, sequential))
        .function(FANOUT, with(probe, fanout))
        .function(MAP, with(probe, map))
        .function(SLEEPER, with(probe, sleeper))
        .function(HERD, with(probe, herd))
        .function(RESUME, with(probe, resume))
}

fn with<I, Fut, H>(probe: &Arc<Probe>, handler: H) -> impl Fn(Context, I) -> Fut + use<I, Fut, H>
where
    H: Fn(Context, I, Arc<Probe>) -> Fut,
{
    let probe = probe.clone();
    move |ctx, input| handler(ctx, input, probe.clone())
}

async fn sequential(ctx: Context, steps: u32, probe: Arc<Probe>) -> Result<u32> {
    for number in 0..steps {
        step(&ctx, number, &probe).await?;
    }
    Ok(steps)
}

async fn step(ctx: &Context, number: u32, probe: &Probe) -> Result<u32> {
    let begun = Instant::now();
    let value = ctx.step("step", async |_| outlast::ok(number)).await?;
    probe.step_done(begun.elapsed());
    Ok(value)
}

async fn fanout(ctx: Context, steps: u32, probe: Arc<Probe>) -> Result<u64> {
    let begun = Instant::now();
    let spawned = |number| {
        ctx.step("step", move |_| async move { outlast::ok(number) })
            .spawn()
    };
    let running: Vec<_> = (0..steps).map(spawned).collect();
    let mut sum = 0;
    for step in running {
        sum += u64::from(step.await?);
        probe.step_done(begun.elapsed());
    }
    Ok(sum)
}

async fn map(ctx: Context, steps: u32, probe: Arc<Probe>) -> Result<u32> {
    let numbers: Vec<u32> = (0..steps).collect();
    let branch = async |ctx: Context, number: &u32| step(&ctx, *number, &probe).await;
    ctx.map("map", &numbers, branch).await?;
    Ok(steps)
}

async fn sleeper(ctx: Context, _: u32, probe: Arc<Probe>) -> Result<()> {
    probe.falls_asleep();
    ctx.wait(SLEEP).await
}

async fn herd(ctx: Context, _: u32, probe: Arc<Probe>) -> Result<()> {
    probe.falls_asleep();
    let left = probe
        .due_time(HERD_NUMBER)
        .map(|due| due.saturating_duration_since(Instant::now()));
    ctx.wait(left.unwrap_or_default().max(WAIT_MIN)).await?;
    probe.goes_on(HERD_NUMBER);
    Ok(())
}

async fn resume(ctx: Context, history: History, probe: Arc<Probe>) -> Result<u32> {
    for number in 0..history.steps {
        let body = async |_| {
            probe.step_runs();
            outlast::ok(number)
        };
        ctx.step("step", body).await?;
    }
    let wait = Duration::from_secs(history.wait_seconds.into());
    // The engine counts from its commit, a moment later: what is measured is never too good.
    probe.waits_until(history.number, Instant::now() + wait);
    ctx.wait(wait).await?;
    probe.goes_on(history.number);
    Ok(history.steps)
}
