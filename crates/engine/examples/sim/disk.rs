//! The simulated disk: commits become durable late, in groups, or not at all.

use crate::{plan::How, shadow::Moment, world::World};
use futures::FutureExt as _;
use outlast::core::{arn::ExecutionId, time::Timestamp};
use outlast_engine::store::{
    About, Commit, CommitError, Committing, Head, Query, Run, Status, Store, StoreError, Stored,
    Wake, memory::MemoryStore,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, oneshot};

/// Reads of the disk in one millisecond, at most.
const READS_MAX: u64 = 20_000;

/// A store whose commits wait for the simulation; reads see what is durable.
pub(crate) struct Disk {
    world: Arc<World>,
    kept: Arc<MemoryStore>,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Pending>,
    /// Why nothing is acknowledged any more.
    poisoned: Option<Arc<str>>,
    /// True time until which the disk is full.
    full_until: u64,
    /// Commits since the boot.
    commits: u64,
    closed: bool,
    /// The power is gone: nothing is answered.
    dead: bool,
    /// Reads at this moment of true time.
    reads: (u64, u64),
}

/// What was handed over, and when.
struct Pending {
    change: Change,
    moment: Moment,
    reply: oneshot::Sender<Result<(), CommitError>>,
}

enum Change {
    Commit(Commit),
    Delete(ExecutionId, u64),
    Setting(String, Vec<u8>),
}

impl Disk {
    /// What a machine finds when it boots: the same content, nothing under way.
    pub(crate) fn new(world: Arc<World>, kept: Arc<MemoryStore>) -> Self {
        Self {
            world,
            kept,
            state: Mutex::default(),
            news: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, change: Change) -> Committing {
        let moment = self.world.moment();
        let (reply, committing) = Committing::queued();
        let mut state = self.state();
        if state.closed {
            return Committing::done(Err(CommitError::Closed));
        }
        let pending = Pending {
            change,
            moment,
            reply,
        };
        state.queue.push_back(pending);
        drop(state);
        self.news.notify_one();
        committing
    }

    /// Writes what is handed over, for as long as there is power. `end` is what this boot ends
    /// with, if it ends.
    pub(crate) async fn work(&self, end: Option<How>) {
        loop {
            let waiting = self.state().queue.len() as u64;
            if waiting == 0 || self.state().dead {
                self.news.notified().await;
                continue;
            }
            let delay = self.world.delay();
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            if self.world.fault(8) {
                let until = self.world.true_time() + self.world.below(5_000);
                self.state().full_until = until;
                self.world.note("the disk is full");
                self.world.count("disk full");
            }
            // A group is durable together; how much of the queue it takes is chance.
            let waiting = self.state().queue.len() as u64;
            for _ in 0..=self.world.below(waiting) {
                self.write_next(end);
            }
        }
    }

    fn write_next(&self, end: Option<How>) {
        let mut state = self.state();
        if state.dead {
            return;
        }
        let Some(pending) = state.queue.pop_front() else {
            return;
        };
        let Pending {
            change,
            moment,
            reply,
        } = pending;
        state.commits += 1;
        let commits = state.commits;
        let full = state.full_until > self.world.true_time();
        let mut outcome = match &state.poisoned {
            Some(reason) => Err(CommitError::Poisoned(reason.clone())),
            None if full => Err(CommitError::Full("the disk is full".into())),
            None => Ok(()),
        };
        let mut applied = outcome.is_ok();
        let mut cut = false;
        match end {
            Some(How::AtCommit(number, durable)) if commits == number => {
                state.dead = true;
                cut = true;
                applied &= durable;
            }
            Some(How::Poison(number)) if commits == number => {
                let reason: Arc<str> = "the sync failed".into();
                state.poisoned = Some(reason.clone());
                // Nobody knows what a failed sync has written.
                applied &= self.world.below(2) == 0;
                outcome = Err(CommitError::Poisoned(reason));
                self.world.note("a sync fails");
            }
            Some(How::AtCommit(..) | How::Poison(_) | How::After(_) | How::ShutDown(_)) | None => {}
        }
        drop(state);
        if applied {
            let stored = self.apply(change, moment);
            outcome = outcome.and(stored);
        }
        if cut {
            self.world.power_cut.notify_one();
            return;
        }
        let _ = reply.send(outcome);
    }

    /// Somebody reads, which may fail. An engine that reads without end while no time passes will
    /// never stop.
    fn read(&self) -> Result<(), StoreError> {
        let now = self.world.true_time();
        let mut state = self.state();
        let (at, reads) = state.reads;
        state.reads = if at == now {
            (now, reads + 1)
        } else {
            (now, 1)
        };
        let spins = state.reads.1 == READS_MAX;
        drop(state);
        if spins {
            self.world.violated("the engine runs in a circle");
            self.world.power_cut.notify_one();
        }
        if self.world.fault(20) {
            self.world.count("unreadable");
            self.world.note("the disk cannot be read");
            return Err(StoreError::Unreadable("a read failed".into()));
        }
        Ok(())
    }

    fn apply(&self, change: Change, moment: Moment) -> Result<(), CommitError> {
        let now = |committing: Committing| {
            committing
                .now_or_never()
                .unwrap_or(Err(CommitError::Closed))
        };
        match change {
            Change::Commit(commit) => {
                let stored = now(self.kept.commit(commit.clone()));
                if stored.is_ok() {
                    if commit.snapshot.is_some() {
                        self.world.count("snapshots");
                    }
                    self.world.durable(&commit, moment);
                }
                stored
            }
            Change::Delete(id, expected) => {
                let stored = now(self.kept.delete(id, expected));
                if stored.is_ok() {
                    self.world.deleted(id);
                }
                stored
            }
            Change::Setting(key, value) => now(self.kept.put_setting(&key, value)),
        }
    }
}

impl Store for Disk {
    fn commit(&self, commit: Commit) -> Committing {
        self.queue(Change::Commit(commit))
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.queue(Change::Delete(execution, expected))
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.read()?;
        self.kept.head(execution)
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.read()?;
        let found = self.kept.load(execution)?;
        if let Some(Stored {
            snapshot: Some(_),
            records,
            ..
        }) = &found
        {
            self.world.count("folded from a snapshot");
            if !records.is_empty() {
                self.world.count("folded from a snapshot and a tail");
            }
        }
        Ok(found)
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.read()?;
        self.kept.records(execution, from, bytes_max)
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.read()?;
        self.kept.find(function, name)
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.read()?;
        self.kept.due(after, until, max)
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.kept.list(query)
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read()?;
        self.kept.setting(key)
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        self.queue(Change::Setting(key.to_owned(), value))
    }

    fn status(&self) -> Status {
        let state = self.state();
        Status {
            poisoned: state.poisoned.clone(),
            full: state.full_until > self.world.true_time(),
            ..Status::default()
        }
    }

    fn about(&self) -> About {
        self.kept.about()
    }

    /// What was handed over is durable, what comes later is refused.
    fn close(&self) {
        self.state().closed = true;
        while !self.state().queue.is_empty() && !self.state().dead {
            self.write_next(None);
        }
    }
}
