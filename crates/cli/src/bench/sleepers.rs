//! Executions that wait for hours: how fast they start, what each costs at rest, and how long a
//! restart takes with all of them there.

use crate::{
    arguments::Sleepers,
    bench::{
        clients::{Clients, Load},
        functions::{NOTHING, SLEEPER},
        probe::Probe,
        report::Figures,
        stand::Stand,
    },
};
use outlast::core::wire::ExecutionStatus;

/// Measures.
///
/// # Errors
/// When an execution cannot be started, or the folder cannot be opened again.
pub(crate) async fn measure(stand: Stand, sleepers: &Sleepers) -> anyhow::Result<(Stand, Figures)> {
    let count = u64::from(sleepers.count);
    let load = Load {
        concurrency: sleepers.concurrency,
        function: SLEEPER,
        input: 0,
        count: Some(count),
        until_end: false,
    };
    let bar = stand.output.progress("starting", count);
    let first = stand.read().await?;
    let clients = Clients::begin(&stand, load);
    clients.finish(&stand.probe, &bar).await?;
    let started = stand.read().await?;
    stand.rest(Probe::asleep, count).await?;
    let last = stand.read().await?;
    // A start is cheap as long as its handler waits its turn, so the rate counts until all sleep.
    let mut figures = Figures::between(&first, &last).with_times(&stand.probe);
    figures.starts_per_second = Some(count as f64 / (started.at - first.at).as_secs_f64());
    figures.rest_ms = Some((last.at - started.at).as_secs_f64() * 1e3);
    stand.settle().await?;
    let rested = stand.read().await?;
    figures.server_rss_bytes = rested.server.and_then(|server| server.rss_bytes);
    figures.worker_rss_bytes = rested.server.and(rested.own.rss_bytes);
    figures.rss_bytes = rested.rss_bytes();
    figures.disk_bytes = rested.store.disk_bytes;
    figures.index_lag_bytes_end = rested.store.index_lag_bytes;
    let grown = rested.rss_bytes().zip(first.rss_bytes());
    figures.rss_bytes_per_sleeper =
        grown.map(|(last, first)| last.saturating_sub(first) as f64 / count as f64);
    let stand = restart(stand, &mut figures).await?;
    Ok((stand, figures))
}

async fn restart(stand: Stand, figures: &mut Figures) -> anyhow::Result<Stand> {
    let before = stand.count(ExecutionStatus::Running, SLEEPER).await?;
    let (stand, begun) = stand.reopen().await?;
    stand.client().start(NOTHING, &0).await?;
    figures.restart_ms = Some(begun.elapsed().as_secs_f64() * 1e3);
    let after = stand.count(ExecutionStatus::Running, SLEEPER).await?;
    figures.lost = Some(before.saturating_sub(after));
    Ok(stand)
}
