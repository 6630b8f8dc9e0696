//! What has become of executions since the engine was opened, and how many run, counted.

use crate::{
    engine::{Engine, Inner, lock},
    function::{NameAndVersion, lane},
    store::{Query, StoreError},
};
use outlast_core::{Execution, arn::ExecutionId, wire::ExecutionStatus};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Executions that are read at a time when they are counted.
const PAGE: usize = 1_000;

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

/// The executions of a function version that have not ended, most of them at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The function's name.
    pub function: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// How many.
    pub executions: u64,
}

/// The counters behind [`Totals`] and [`Running`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    running: Mutex<Population>,
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    stopped: AtomicU64,
}

impl Counts {
    /// An execution was stored.
    pub(crate) fn started(&self, execution: &Execution) {
        self.started.fetch_add(1, Ordering::Relaxed);
        let function = lane(&execution.profile().arn.function);
        lock(&self.running).add(execution.id(), function);
    }

    /// An execution ended.
    pub(crate) fn ended(&self, execution: &Execution) {
        let function = lane(&execution.profile().arn.function);
        lock(&self.running).remove(execution.id(), function);
        let counter = match execution.status() {
            ExecutionStatus::Running => return,
            ExecutionStatus::Succeeded => &self.succeeded,
            ExecutionStatus::Failed => &self.failed,
            ExecutionStatus::TimedOut => &self.timed_out,
            ExecutionStatus::Stopped => &self.stopped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How many run, by function version; nothing until those of before have been counted.
    pub(crate) fn running(&self) -> Option<Vec<Running>> {
        let counted = match &*lock(&self.running) {
            Population::Unknown | Population::Counting { .. } => return None,
            Population::Counted(counted) => counted.clone(),
        };
        let running = counted.into_iter().map(|((function, version), count)| {
            let executions = u64::try_from(count).unwrap_or_default();
            Running {
                function,
                version,
                executions,
            }
        });
        Some(running.collect())
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

/// Who has not ended.
///
/// A restart finds executions that only the store knows, and reading all of them takes a while in
/// which others start and end. Until then single ones are kept, so that none counts twice.
#[derive(Debug, Default)]
enum Population {
    /// Nobody has asked, or the store could not be read.
    #[default]
    Unknown,
    Counting {
        started: BTreeMap<ExecutionId, NameAndVersion>,
        ended: BTreeSet<ExecutionId>,
    },
    Counted(BTreeMap<NameAndVersion, i64>),
}

impl Population {
    fn counting() -> Self {
        Self::Counting {
            started: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    fn add(&mut self, execution: ExecutionId, function: NameAndVersion) {
        match self {
            Self::Unknown => {}
            Self::Counting { started, .. } => drop(started.insert(execution, function)),
            Self::Counted(counted) => change(counted, function, 1),
        }
    }

    fn remove(&mut self, execution: ExecutionId, function: NameAndVersion) {
        match self {
            Self::Unknown => {}
            Self::Counting { ended, .. } => drop(ended.insert(execution)),
            Self::Counted(counted) => change(counted, function, -1),
        }
    }

    /// Takes up those that were found to run while single ones were kept.
    fn found(&mut self, mut found: BTreeMap<ExecutionId, NameAndVersion>) {
        let Self::Counting { started, ended } = self else {
            return;
        };
        found.extend(std::mem::take(started));
        let ended = std::mem::take(ended);
        let mut counted = BTreeMap::new();
        for (execution, function) in found {
            if !ended.contains(&execution) {
                change(&mut counted, function, 1);
            }
        }
        *self = Self::Counted(counted);
    }
}

fn change(counted: &mut BTreeMap<NameAndVersion, i64>, function: NameAndVersion, by: i64) {
    let count = counted.entry(function.clone()).or_default();
    *count += by;
    if *count == 0 {
        counted.remove(&function);
    }
}

impl Engine {
    /// From now on, [`Health::running`](crate::Health::running) tells how many executions have not ended. Those that are
    /// there are read once, a page at a time; others start and end meanwhile.
    pub async fn count_running(&self) {
        let running = &self.inner.counts.running;
        *lock(running) = Population::counting();
        match self.inner.found_running().await {
            Ok(found) => lock(running).found(found),
            // A number would be wrong; what cannot be read is said by whoever needs it.
            Err(_) => *lock(running) = Population::Unknown,
        }
    }
}

impl Inner {
    async fn found_running(&self) -> Result<BTreeMap<ExecutionId, NameAndVersion>, StoreError> {
        let mut found = BTreeMap::new();
        let mut query = Query {
            statuses: vec![ExecutionStatus::Running],
            max: PAGE,
            ..Query::default()
        };
        // There may be millions of executions; their functions are few.
        let mut functions = BTreeSet::<NameAndVersion>::new();
        loop {
            let page = self.store.list(&query)?;
            let Some((last, head)) = page.last() else {
                return Ok(found);
            };
            query.after = Some((head.started, *last));
            for (execution, head) in page {
                let function = (head.function, head.function_version);
                let known = functions.get(&function).cloned();
                let function = known.unwrap_or_else(|| {
                    functions.insert(function.clone());
                    function
                });
                found.insert(execution, function);
            }
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_counts_twice_who_starts_or_ends_while_others_are_counted() {
        let id = |bits: u128| ExecutionId::from_bits(bits);
        let of = |name: &str| -> NameAndVersion { (name.into(), "1".into()) };
        let mut population = Population::counting();
        // 1 and 2 were there before; 3 and 4 start, and of each pair one ends.
        population.add(id(3), of("new"));
        population.add(id(4), of("new"));
        population.remove(id(4), of("new"));
        population.remove(id(2), of("old"));
        // The store was read before 2 and 4 had ended.
        let found = (1..=4).map(|bits| (id(bits), of(if bits < 3 { "old" } else { "new" })));
        population.found(found.collect());
        let counted = |population: &Population| match population {
            Population::Counted(counted) => counted.clone(),
            Population::Unknown | Population::Counting { .. } => panic!("not counted"),
        };
        let expected = BTreeMap::from([(of("new"), 1), (of("old"), 1)]);
        assert_eq!(counted(&population), expected);
        population.add(id(5), of("old"));
        population.remove(id(3), of("new"));
        assert_eq!(counted(&population), BTreeMap::from([(of("old"), 2)]));
    }
}
