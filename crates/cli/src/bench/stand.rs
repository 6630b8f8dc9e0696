//! The test stand: an embedded home on a folder, and readings of what it and the process have done.

use crate::{
    bench::{
        clients::{Clients, Load},
        counted::{Commits, Counted},
        functions::{NOTHING, app},
        probe::Probe,
        process,
    },
    output::Output,
};
use anyhow::{Context, bail};
use outlast::{Embedded, core::wire::ExecutionStatus};
use outlast_engine::store::{self, Query, Status};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Clients that fill the folder.
const FILL_CONCURRENCY: u32 = 256;
/// Heads read at a time.
const LIST_MAX: usize = 1_000;
/// How often the stand looks whether something has come about.
const LOOK: Duration = Duration::from_millis(5);
/// How long the index may take to catch up before a measurement goes on without.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How long the last task of an engine that was shut down may hold its folder.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// An embedded home and what is known about it.
pub(crate) struct Stand {
    folder: PathBuf,
    home: Arc<Embedded>,
    /// What functions and clients note.
    pub(crate) probe: Arc<Probe>,
    commits: Arc<Commits>,
    /// Where progress is shown.
    pub(crate) output: Output,
}

/// What has been done and used at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) cpu: Option<Duration>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) store: Status,
    pub(crate) commits: u64,
    pub(crate) commit_bytes: u64,
    pub(crate) executions: u64,
    pub(crate) steps: u64,
}

impl Stand {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) async fn open(folder: &Path, output: Output) -> anyhow::Result<Self> {
        let (probe, commits) = (Arc::default(), Arc::default());
        let home = open_home(folder, &probe, &commits).await?;
        Ok(Self {
            folder: folder.to_owned(),
            home: Arc::new(home),
            probe,
            commits,
            output,
        })
    }

    /// The home.
    pub(crate) fn home(&self) -> &Arc<Embedded> {
        &self.home
    }

    /// Ends cleanly; nothing can be started any more.
    pub(crate) async fn close(&self) {
        self.home.engine().shut_down().await;
    }

    /// Ends cleanly and opens the folder again. Gives the time when opening it began.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) async fn reopen(self) -> anyhow::Result<(Self, Instant)> {
        self.close().await;
        // The old home has to go first: it holds the folder.
        drop(self.home);
        let closed = Instant::now();
        loop {
            let begun = Instant::now();
            match open_home(&self.folder, &self.probe, &self.commits).await {
                Ok(home) => {
                    let home = Arc::new(home);
                    return Ok((Self { home, ..self }, begun));
                }
                // The folder is free when the last task of the old engine is gone.
                Err(error) if closed.elapsed() > RELEASE_MAX => return Err(error),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Makes sure that the folder holds so many closed executions.
    ///
    /// # Errors
    /// When an execution cannot be made.
    pub(crate) async fn prefill(&self, wanted: u64) -> anyhow::Result<()> {
        if wanted == 0 {
            return Ok(());
        }
        let closed = self.count(ExecutionStatus::Succeeded, None)?;
        let Some(missing) = wanted.checked_sub(closed).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let load = Load {
            concurrency: FILL_CONCURRENCY,
            function: NOTHING,
            input: 0,
            count: Some(missing),
            until_end: true,
        };
        let bar = self.output.progress("filling the folder", missing);
        Clients::begin(self, load).finish(&self.probe, &bar).await
    }

    /// Counts executions in one state, of one function if it is named.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn count(
        &self,
        status: ExecutionStatus,
        function: Option<&str>,
    ) -> anyhow::Result<u64> {
        let mut query = Query {
            statuses: vec![status],
            function: function.map(Into::into),
            max: LIST_MAX,
            ..Query::default()
        };
        let mut count = 0;
        loop {
            let page = self.home.engine().list(&query)?;
            count += page.len() as u64;
            match page.last() {
                Some((id, head)) if page.len() == LIST_MAX => {
                    query.after = Some((head.started, *id));
                }
                _ => return Ok(count),
            }
        }
    }

    /// Waits until everything that is durable is indexed, within reason.
    pub(crate) async fn settle(&self) {
        let begun = Instant::now();
        while self.home.health().store.index_lag_bytes > 0 && begun.elapsed() < SETTLE_MAX {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until `there` and no handler runs.
    ///
    /// # Errors
    /// When the engine fails, or nothing moves for too long.
    pub(crate) async fn rest(&self, there: impl Fn(&Probe) -> u64, all: u64) -> anyhow::Result<()> {
        let (mut seen, mut moved) = (0, Instant::now());
        loop {
            let now = there(&self.probe);
            let health = self.home.health();
            if now >= all && health.invocations == 0 {
                return Ok(());
            }
            if let Some(reason) = health.store.poisoned {
                bail!("the store no longer works: {reason}");
            }
            if now > seen {
                (seen, moved) = (now, Instant::now());
            } else if moved.elapsed() > SETTLE_MAX {
                bail!("only {seen} of {all} executions came to rest");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads everything that is counted.
    pub(crate) fn read(&self) -> Reading {
        let (commits, commit_bytes) = self.commits.get();
        Reading {
            at: Instant::now(),
            cpu: process::cpu_time(),
            rss_bytes: process::rss_bytes(),
            store: self.home.health().store,
            commits,
            commit_bytes,
            executions: self.probe.executions(),
            steps: self.probe.steps(),
        }
    }
}

async fn open_home(
    folder: &Path,
    probe: &Arc<Probe>,
    commits: &Arc<Commits>,
) -> anyhow::Result<Embedded> {
    let store = store::open(folder).context("the folder cannot be used")?;
    let store = Arc::new(Counted::new(store, commits));
    Ok(app(probe).open_on(store).await?)
}
