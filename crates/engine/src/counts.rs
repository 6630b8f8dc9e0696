//! What has become of executions since the engine was opened, counted.

use outlast_core::wire::ExecutionStatus;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Executions since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Started here.
    pub started: u64,
    /// Ended with a result.
    pub succeeded: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Ended because their time was over.
    pub timed_out: u64,
    /// Ended by somebody.
    pub stopped: u64,
}

/// A function version that executions wait for or run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The function's name.
    pub function: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// Executions that wait for an invocation.
    pub waiting: usize,
    /// Invocations in flight.
    pub invocations: usize,
}

/// The counters behind [`Totals`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    stopped: AtomicU64,
}

impl Counts {
    /// An execution was stored.
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// An execution ended like this.
    pub(crate) fn ended(&self, status: ExecutionStatus) {
        let counter = match status {
            ExecutionStatus::Running => return,
            ExecutionStatus::Succeeded => &self.succeeded,
            ExecutionStatus::Failed => &self.failed,
            ExecutionStatus::TimedOut => &self.timed_out,
            ExecutionStatus::Stopped => &self.stopped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            started: read(&self.started),
            succeeded: read(&self.succeeded),
            failed: read(&self.failed),
            timed_out: read(&self.timed_out),
            stopped: read(&self.stopped),
        }
    }
}
