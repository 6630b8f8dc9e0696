//! What the functions and clients of a measurement note while it runs.

use crate::bench::histogram::Histogram;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Counters and times; everybody shares one.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    executions: AtomicU64,
    steps: AtomicU64,
    asleep: AtomicU64,
    awake: AtomicU64,
    latest_nanos: AtomicU64,
    /// From a start to the end of its execution, or whatever a workload takes as its figure.
    pub(crate) execution_times: Histogram,
    /// From a start to its acknowledgement.
    pub(crate) start_times: Histogram,
    /// From the beginning of a step to its durable end.
    pub(crate) step_times: Histogram,
    /// From the time a timer was due to the code after it.
    pub(crate) late_times: Histogram,
    due: Mutex<BTreeMap<u64, Instant>>,
}

impl Probe {
    /// An execution has ended, or has been started where nobody waits for its end.
    pub(crate) fn execution_done(&self, time: Duration) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.execution_times.add(time);
    }

    /// A step is durable.
    pub(crate) fn step_done(&self, time: Duration) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.step_times.add(time);
    }

    /// The body of a step runs, which it does once; its time is not noted.
    pub(crate) fn step_runs(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A handler has nothing left to do but wait.
    pub(crate) fn falls_asleep(&self) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    /// An execution is about to wait until `due`. Said again by every replay; the first counts.
    pub(crate) fn waits_until(&self, execution: u64, due: Instant) {
        self.due().entry(execution).or_insert(due);
    }

    /// The code after the wait runs.
    pub(crate) fn goes_on(&self, execution: u64) {
        if let Some(due) = self.due_time(execution) {
            let late = due.elapsed();
            self.late_times.add(late);
            let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
            self.latest_nanos.fetch_max(nanos, Ordering::Relaxed);
            self.awake.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Until when an execution waits.
    pub(crate) fn due_time(&self, execution: u64) -> Option<Instant> {
        self.due().get(&execution).copied()
    }

    /// Executions that have told until when they wait.
    pub(crate) fn waits(&self) -> u64 {
        self.due().len() as u64
    }

    /// Executions so far.
    pub(crate) fn executions(&self) -> u64 {
        self.executions.load(Ordering::Relaxed)
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Handlers that fell asleep so far.
    pub(crate) fn asleep(&self) -> u64 {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Handlers that went on after their wait so far.
    pub(crate) fn awake(&self) -> u64 {
        self.awake.load(Ordering::Relaxed)
    }

    /// How late the latest of them was.
    pub(crate) fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest_nanos.load(Ordering::Relaxed))
    }

    /// Forgets the times of what was done before a measurement; the counters go on.
    pub(crate) fn forget_times(&self) {
        self.execution_times.clear();
        self.start_times.clear();
        self.step_times.clear();
        self.late_times.clear();
    }

    fn due(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
