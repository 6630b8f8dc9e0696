//! How many processes a function has: one, and more while calls wait and all it has are busy.
//!
//! Processes that crash are started again by whoever keeps them, with a pause that grows.

use outlast::core::arn::LATEST;
use outlast_server::{
    host::{
        process::{LineSink, Processes, Program},
        runtime::Backlog,
    },
    hosting::Hosting,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::interval};

/// How often to look at what waits.
const PERIOD: Duration = Duration::from_millis(100);

/// Runs the processes of one function.
pub(crate) struct Supervisor {
    pub(crate) hosting: Arc<Hosting>,
    pub(crate) sink: Arc<dyn LineSink>,
    pub(crate) name: String,
    pub(crate) program: Program,
    /// Processes of one version, at most.
    pub(crate) workers_max: usize,
}

impl Supervisor {
    /// Keeps as many as it takes, until it is told to stop. Dropping it kills them.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut workers: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut running = JoinSet::new();
        let mut looking = interval(PERIOD);
        loop {
            tokio::select! {
                _ = looking.tick() => {}
                // A sender that is gone wants no processes either.
                _ = stop.wait_for(|stop| *stop) => break,
            }
            for (function, backlog) in self.hosting.runtimes().backlogs() {
                if *function.name != *self.name {
                    continue;
                }
                let count = workers.entry(function.version.clone()).or_default();
                let first = *function.version == *LATEST;
                if !wants_more(*count, backlog, first) || *count >= self.workers_max {
                    continue;
                }
                let host = self
                    .hosting
                    .runtimes()
                    .get(&function.name, &function.version);
                let Some(host) = host else { continue };
                *count += 1;
                let processes = Processes::new(host, self.program.clone(), self.sink.clone());
                let mut stop = stop.clone();
                running.spawn(processes.run(async move {
                    let _ = stop.wait_for(|stop| *stop).await;
                }));
            }
        }
        while running.join_next().await.is_some() {}
    }
}

/// Whether a version with so many processes needs another one. The version that is being written
/// always has one, so that its first call need not wait for it.
fn wants_more(count: usize, backlog: Backlog, first: bool) -> bool {
    match count {
        0 => first || backlog.waiting > 0,
        _ => backlog.waiting > 0 && backlog.assigned >= count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backlog(waiting: usize, assigned: usize) -> Backlog {
        Backlog {
            waiting,
            assigned,
            workers: 0,
            asking: 0,
        }
    }

    #[test]
    fn processes_are_added_when_calls_wait_and_all_are_busy() {
        assert!(wants_more(0, backlog(0, 0), true));
        assert!(!wants_more(0, backlog(0, 0), false));
        assert!(wants_more(0, backlog(1, 0), false));
        assert!(!wants_more(1, backlog(0, 1), true), "nothing waits");
        assert!(
            !wants_more(2, backlog(5, 1), true),
            "one of two is still starting"
        );
        assert!(wants_more(2, backlog(1, 2), true));
    }
}
