//! Where the functions of a measurement run: on an engine in this process, or on a server.

use crate::{
    arguments::Home as Kind,
    bench::{functions::app, probe::Probe, process, server::ServerProcess},
};
use anyhow::Context;
use outlast::{Embedded, Execution, Remote, StartExecution, Worker, core::wire::ExecutionStatus};
use outlast_engine::store::{self, Query, Status, counted::Counted};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc, time::Duration};

/// Heads read at a time.
const LIST_MAX: usize = 1_000;

/// Clients of a home.
#[derive(Clone)]
pub(crate) enum Client {
    Embedded(Arc<Embedded>),
    Remote(Remote),
}

impl Client {
    /// Starts an execution.
    pub(crate) fn start<I: Serialize>(&self, function: &str, input: &I) -> StartExecution {
        match self {
            Self::Embedded(home) => home.start(function, input),
            Self::Remote(server) => server.start(function, input),
        }
    }

    /// An execution that was started.
    ///
    /// # Errors
    /// When it is not the ARN of an execution.
    pub(crate) fn execution(&self, arn: &str) -> outlast::Result<Execution> {
        match self {
            Self::Embedded(home) => home.execution(arn),
            Self::Remote(server) => server.execution(arn),
        }
    }
}

/// A home at work.
pub(crate) enum Home {
    Embedded(Arc<Embedded>),
    Remote(Box<Served>),
}

/// A server, and this process as its worker.
pub(crate) struct Served {
    server: Remote,
    worker: Worker,
    process: ServerProcess,
}

/// How an engine is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub(crate) store: Status,
    pub(crate) invocations: usize,
}

/// What the processes of a home have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu: Option<Duration>,
    pub(crate) rss_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct ServerHealth {
    reason: Option<Arc<str>>,
    disk_full: bool,
    invocations: usize,
    commits: u64,
    commit_bytes: u64,
    syncs: u64,
    written_bytes: u64,
    disk_bytes: u64,
    index_lag_bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    durable_executions: Vec<serde::de::IgnoredAny>,
    next_marker: Option<String>,
}

impl Home {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it cannot be used, or no server comes up on it.
    pub(crate) async fn open(
        kind: Kind,
        folder: &Path,
        probe: &Arc<Probe>,
    ) -> anyhow::Result<Self> {
        match kind {
            Kind::Embedded => {
                let store = store::open(folder).context("the folder cannot be used")?;
                let home = app(probe).open_on(Arc::new(Counted::new(store))).await?;
                Ok(Self::Embedded(Arc::new(home)))
            }
            Kind::Remote => {
                let process = ServerProcess::begin(folder).await?;
                let server = Remote::new(process.endpoint())?;
                let worker = app(probe).work_for(&server).await?;
                Ok(Self::Remote(Box::new(Served {
                    server,
                    worker,
                    process,
                })))
            }
        }
    }

    /// Which kind it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Embedded(_) => Kind::Embedded,
            Self::Remote(_) => Kind::Remote,
        }
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Embedded(home) => Client::Embedded(home.clone()),
            Self::Remote(served) => Client::Remote(served.server.clone()),
        }
    }

    /// Ends cleanly; nothing can be started any more.
    ///
    /// # Errors
    /// When a server does not end.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(home) => {
                home.engine().shut_down().await;
                Ok(())
            }
            Self::Remote(served) => {
                let Served {
                    worker, process, ..
                } = *served;
                worker.shut_down().await;
                process.end().await
            }
        }
    }

    /// How the engine is.
    ///
    /// # Errors
    /// When a server cannot be asked.
    pub(crate) async fn health(&self) -> anyhow::Result<Health> {
        match self {
            Self::Embedded(home) => {
                let health = home.health();
                Ok(Health {
                    store: health.store,
                    invocations: health.invocations,
                })
            }
            Self::Remote(served) => {
                let health = served.server.get("/health").await?;
                let health: ServerHealth = serde_json::from_value(health)?;
                Ok(Health {
                    store: Status {
                        poisoned: health.reason,
                        full: health.disk_full,
                        index_lag_bytes: health.index_lag_bytes,
                        written_bytes: health.written_bytes,
                        disk_bytes: health.disk_bytes,
                        syncs: health.syncs,
                        commits: health.commits,
                        commit_bytes: health.commit_bytes,
                    },
                    invocations: health.invocations,
                })
            }
        }
    }

    /// What this process has used, and what the server's has, if there is one.
    pub(crate) fn used(&self) -> (Used, Option<Used>) {
        let own = Used {
            cpu: process::cpu_time(),
            rss_bytes: process::rss_bytes(),
        };
        let server = match self {
            Self::Embedded(_) => None,
            Self::Remote(served) => Some(served.process.used()),
        };
        (own, server)
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
        match self {
            Self::Embedded(home) => count_here(home, status, function),
            Self::Remote(served) => count_there(&served.server, status, function).await,
        }
    }
}

fn count_here(home: &Embedded, status: ExecutionStatus, function: &str) -> anyhow::Result<u64> {
    let mut query = Query {
        statuses: vec![status],
        function: Some(function.into()),
        max: LIST_MAX,
        ..Query::default()
    };
    let mut count = 0;
    loop {
        let page = home.engine().list(&query)?;
        count += page.len() as u64;
        match page.last() {
            Some((id, head)) if page.len() == LIST_MAX => {
                query.after = Some((head.started, *id));
            }
            _ => return Ok(count),
        }
    }
}

async fn count_there(
    server: &Remote,
    status: ExecutionStatus,
    function: &str,
) -> anyhow::Result<u64> {
    let path = format!(
        "/2025-12-01/functions/{function}/durable-executions?Statuses={status}&MaxItems={LIST_MAX}"
    );
    let (mut count, mut next) = (0, path.clone());
    loop {
        let page: Listed = serde_json::from_value(server.get(&next).await?)?;
        count += page.durable_executions.len() as u64;
        match page.next_marker {
            Some(marker) => next = format!("{path}&Marker={marker}"),
            None => return Ok(count),
        }
    }
}
