//! The test stand: a home on a folder, and readings of what it and its processes have done.

use crate::{
    arguments::Home as Kind,
    bench::{
        clients::{Clients, Load},
        functions::NOTHING,
        home::{Client, Home, Used},
        probe::Probe,
    },
    output::Output,
};
use anyhow::bail;
use outlast::core::wire::ExecutionStatus;
use outlast_engine::store::Status;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Clients that fill the folder.
const FILL_CONCURRENCY: u32 = 256;
/// How often the stand looks whether something has come about.
const LOOK: Duration = Duration::from_millis(5);
/// How long the index may take to catch up before a measurement goes on without.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How long the last task of an engine that was shut down may hold its folder.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A home and what is known about it.
pub(crate) struct Stand {
    folder: PathBuf,
    home: Home,
    /// What functions and clients note.
    pub(crate) probe: Arc<Probe>,
    /// Where progress is shown.
    pub(crate) output: Output,
    /// Commits of the homes that were closed, and their bytes.
    before: (u64, u64),
}

/// What has been done and used at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// This process: the engine's own, or the worker's and the clients'.
    pub(crate) own: Used,
    /// The server's process, if there is one.
    pub(crate) server: Option<Used>,
    pub(crate) store: Status,
    pub(crate) commits: u64,
    pub(crate) commit_bytes: u64,
    pub(crate) executions: u64,
    pub(crate) steps: u64,
}

impl Reading {
    /// Processor time of all processes.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self.server {
            None => self.own.cpu,
            Some(server) => Some(self.own.cpu? + server.cpu?),
        }
    }

    /// Memory of all processes.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        match self.server {
            None => self.own.rss_bytes,
            Some(server) => Some(self.own.rss_bytes? + server.rss_bytes?),
        }
    }
}

impl Stand {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) async fn open(kind: Kind, folder: &Path, output: Output) -> anyhow::Result<Self> {
        let probe = Arc::default();
        let home = Home::open(kind, folder, &probe).await?;
        Ok(Self {
            folder: folder.to_owned(),
            home,
            probe,
            output,
            before: (0, 0),
        })
    }

    /// A client of the home.
    pub(crate) fn client(&self) -> Client {
        self.home.client()
    }

    /// Ends cleanly.
    ///
    /// # Errors
    /// When the home does not end.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.home.close().await
    }

    /// Ends cleanly and opens the folder again. Gives the time when opening it began.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) async fn reopen(self) -> anyhow::Result<(Self, Instant)> {
        let Reading {
            commits,
            commit_bytes,
            ..
        } = self.read().await?;
        let kind = self.home.kind();
        // The old home has to go first: it holds the folder.
        self.home.close().await?;
        let closed = Instant::now();
        loop {
            let begun = Instant::now();
            match Home::open(kind, &self.folder, &self.probe).await {
                Ok(home) => {
                    let stand = Self {
                        home,
                        before: (commits, commit_bytes),
                        ..self
                    };
                    return Ok((stand, begun));
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
        let closed = self.count(ExecutionStatus::Succeeded, NOTHING).await?;
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

    /// Counts the executions of a function in one state.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(crate) async fn count(
        &self,
        status: ExecutionStatus,
        function: &str,
    ) -> anyhow::Result<u64> {
        self.home.count(status, function).await
    }

    /// Waits until everything that is durable is indexed, within reason.
    ///
    /// # Errors
    /// When the home cannot be asked.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.home.health().await?.store.index_lag_bytes > 0 && begun.elapsed() < SETTLE_MAX {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until `there` and no handler runs.
    ///
    /// # Errors
    /// When the engine fails, or nothing moves for too long.
    pub(crate) async fn rest(&self, there: impl Fn(&Probe) -> u64, all: u64) -> anyhow::Result<()> {
        let (mut seen, mut moved) = (0, Instant::now());
        loop {
            let now = there(&self.probe);
            let health = self.home.health().await?;
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
    ///
    /// # Errors
    /// When the home cannot be asked.
    pub(crate) async fn read(&self) -> anyhow::Result<Reading> {
        let store = self.home.health().await?.store;
        let (own, server) = self.home.used();
        let (commits, commit_bytes) = self.before;
        Ok(Reading {
            at: Instant::now(),
            own,
            server,
            commits: commits + store.commits,
            commit_bytes: commit_bytes + store.commit_bytes,
            store,
            executions: self.probe.executions(),
            steps: self.probe.steps(),
        })
    }
}
