//! Clients in a closed loop: each starts an execution and goes on when that is done.

use crate::bench::{home, probe::Probe, stand::Stand};
use indicatif::ProgressBar;
use serde::de::IgnoredAny;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(200);
/// How long clients may finish what they have begun.
const GRACE: Duration = Duration::from_secs(5);

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// How many clients.
    pub(crate) concurrency: u32,
    /// The function they start.
    pub(crate) function: &'static str,
    /// Its input.
    pub(crate) input: u32,
    /// Executions in all; without end if absent.
    pub(crate) count: Option<u64>,
    /// Whether they wait for the end, or only until the start is durable.
    pub(crate) until_end: bool,
}

/// Clients at work; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Clients {
    tasks: JoinSet<outlast::Result<()>>,
    stop: Arc<AtomicBool>,
    before: u64,
}

impl Clients {
    /// Lets clients begin.
    pub(crate) fn begin(stand: &Stand, load: Load) -> Self {
        let before = stand.probe.executions();
        let stop = Arc::new(AtomicBool::new(false));
        let left = Arc::new(AtomicU64::new(load.count.unwrap_or(u64::MAX)));
        let mut tasks = JoinSet::new();
        for _ in 0..load.concurrency {
            let client = Client {
                home: stand.client(),
                probe: stand.probe.clone(),
                stop: stop.clone(),
                left: left.clone(),
            };
            tasks.spawn(client.work(load));
        }
        Self {
            tasks,
            stop,
            before,
        }
    }

    /// Lets them work for a while.
    ///
    /// # Errors
    /// When one of them cannot go on.
    pub(crate) async fn work(&mut self, period: Duration, bar: &ProgressBar) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Some(left) = period.checked_sub(begun.elapsed()) {
            bar.set_position(begun.elapsed().as_secs());
            match tokio::time::timeout(left.min(TICK), self.tasks.join_next()).await {
                Ok(Some(ended)) => ended??,
                Ok(None) => break,
                Err(_) => {}
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Waits until all executions are done.
    ///
    /// # Errors
    /// When a client cannot go on.
    pub(crate) async fn finish(mut self, probe: &Probe, bar: &ProgressBar) -> anyhow::Result<()> {
        loop {
            bar.set_position(probe.executions().saturating_sub(self.before));
            match tokio::time::timeout(TICK, self.tasks.join_next()).await {
                Ok(Some(ended)) => ended??,
                Ok(None) => break,
                Err(_) => {}
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Lets them finish what they have begun, within reason; then they are gone.
    ///
    /// # Errors
    /// When one of them could not go on.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + GRACE;
        while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, self.tasks.join_next()).await
        {
            ended??;
        }
        self.tasks.shutdown().await;
        Ok(())
    }
}

struct Client {
    home: home::Client,
    probe: Arc<Probe>,
    stop: Arc<AtomicBool>,
    left: Arc<AtomicU64>,
}

impl Client {
    async fn work(self, load: Load) -> outlast::Result<()> {
        while !self.stop.load(Ordering::Relaxed) && self.takes_one() {
            let begun = Instant::now();
            let execution = self.home.start(load.function, &load.input).await?;
            self.probe.start_times.add(begun.elapsed());
            if load.until_end {
                execution.result::<IgnoredAny>().await?;
            }
            self.probe.execution_done(begun.elapsed());
        }
        Ok(())
    }

    fn takes_one(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.is_ok()
    }
}
