//! A herd: executions whose timers are all due at once, and what another function's executions feel
//! of it. Timers count in whole seconds, so the herd comes within a second of its moment.

use crate::{
    arguments::Herd,
    bench::{
        clients::{Clients, Load},
        functions::{HERD, HERD_NUMBER, SEQUENTIAL},
        probe::Probe,
        report::Figures,
        stand::Stand,
    },
};
use anyhow::{bail, ensure};
use indicatif::ProgressBar;
use outlast::core::wire::ExecutionStatus;
use std::time::Duration;
use tokio::time::Instant;

/// Steps of the other function.
pub(crate) const OTHER_STEPS: u32 = 1;

/// Clients that start the herd.
const START_CONCURRENCY: u32 = 256;
/// If nobody says when the herd is due, so many start and fall asleep per second at least.
const STARTS_PER_SECOND_MIN: u32 = 1_000;
/// Seconds on top, for what does not depend on the size of the herd.
const WAIT_SECONDS_MIN: u32 = 10;
/// How often the end of the herd is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long nothing may move before the herd is given up.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Seconds from the first start to the time the herd is due.
pub(crate) fn wait_seconds(herd: &Herd) -> u32 {
    let needed = herd
        .seconds
        .saturating_add(herd.count / STARTS_PER_SECOND_MIN);
    let enough = needed.saturating_add(WAIT_SECONDS_MIN);
    herd.wait_seconds.unwrap_or(enough)
}

/// Measures.
///
/// # Errors
/// When an execution cannot be started, the herd is due before all of it sleeps, or it never ends.
pub(crate) async fn measure(stand: &Stand, herd: &Herd) -> anyhow::Result<Figures> {
    let count = u64::from(herd.count);
    let due = Instant::now() + Duration::from_secs(wait_seconds(herd).into());
    stand.probe.waits_until(HERD_NUMBER, due);
    let starts_per_second = start(stand, count).await?;
    let period = Duration::from_secs(herd.seconds.into());
    ensure!(
        Instant::now() + period < due,
        "the herd is due before the others can be measured without it; give --wait-seconds more"
    );
    let before = others_before(stand, herd, period).await?;
    tokio::time::sleep_until(due).await;
    stand.probe.forget_times();
    let first = stand.read().await?;
    let mut clients = Clients::begin(stand, others(herd));
    drain(stand, &mut clients, count).await?;
    let last = stand.read().await?;
    let during = Figures::between(&first, &last).with_times(&stand.probe);
    clients.stop().await?;
    stand.rest(Probe::awake, count).await?;
    let drained = stand.probe.latest();
    Ok(Figures {
        executions: count,
        executions_per_second: Some(count as f64 / drained.as_secs_f64()),
        starts_per_second: Some(starts_per_second),
        others_before: Some(before.executions),
        others: Some(during.executions),
        p50_before_ms: before.p50_ms,
        p99_before_ms: before.p99_ms,
        drain_ms: Some(drained.as_secs_f64() * 1e3),
        cpu_seconds_per_1000_executions: during
            .cpu_seconds
            .map(|cpu| cpu * 1e3 / (count + during.executions) as f64),
        lost: Some(stand.count(ExecutionStatus::Running, HERD).await?),
        ..during
    })
}

/// Starts the herd and waits until all of it sleeps; gives how many started in a second.
async fn start(stand: &Stand, count: u64) -> anyhow::Result<f64> {
    let load = Load {
        concurrency: START_CONCURRENCY,
        function: HERD,
        input: 0,
        count: Some(count),
        until_end: false,
    };
    let bar = stand.output.progress("starting", count);
    let begun = Instant::now();
    Clients::begin(stand, load)
        .finish(&stand.probe, &bar)
        .await?;
    let starts_per_second = count as f64 / begun.elapsed().as_secs_f64();
    stand.rest(Probe::asleep, count).await?;
    stand.settle().await?;
    Ok(starts_per_second)
}

fn others(herd: &Herd) -> Load {
    Load {
        concurrency: herd.concurrency,
        function: SEQUENTIAL,
        input: OTHER_STEPS,
        count: None,
        until_end: true,
    }
}

/// The other function while the herd sleeps.
async fn others_before(stand: &Stand, herd: &Herd, period: Duration) -> anyhow::Result<Figures> {
    stand.probe.forget_times();
    let bar = stand.output.progress("without the herd", period.as_secs());
    let first = stand.read().await?;
    let mut clients = Clients::begin(stand, others(herd));
    clients.work(period, &bar).await?;
    clients.stop().await?;
    Ok(Figures::between(&first, &stand.read().await?).with_times(&stand.probe))
}

/// Lets the others work until all of the herd has gone on.
async fn drain(stand: &Stand, clients: &mut Clients, count: u64) -> anyhow::Result<()> {
    let bar = stand.output.progress("the herd", count);
    let (mut seen, mut moved) = (0, Instant::now());
    while seen < count {
        clients.work(LOOK, &ProgressBar::hidden()).await?;
        let awake = stand.probe.awake();
        if awake > seen {
            (seen, moved) = (awake, Instant::now());
        } else if moved.elapsed() > STALL_MAX {
            bail!("only {seen} of the herd of {count} went on");
        }
        bar.set_position(seen);
    }
    bar.finish_and_clear();
    Ok(())
}
