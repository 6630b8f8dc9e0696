//! A worker whose life somebody watches: it was started here, or its keeper tells how it is.
//!
//! The host asks it only two things, which a connection cannot answer: whether it is dead, and, by
//! its deadlines, whether it has to die.

use crate::host::lock;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Numbers of workers and connections; they only have to differ.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that nobody else has in this process.
pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A worker whose keeper knows when it dies.
pub struct Worker {
    number: u64,
    life: watch::Sender<Life>,
    /// Invocations it has, with the moment at which each of them has run too long.
    deadlines: Mutex<BTreeMap<Arc<str>, Instant>>,
}

/// What is known of a worker's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Life {
    /// It has asked for work: its start is over.
    polled: bool,
    /// Invocations it has been given.
    invocations: u64,
    /// It reported that it could not start.
    start_failed: bool,
    /// Somebody wants a fresh worker in its stead.
    unwanted: bool,
    /// It is dead, and of what.
    dead: Option<Arc<str>>,
    /// Grows when `deadlines` changes.
    changes: u64,
}

impl Worker {
    /// A worker that lives.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            number: number(),
            life: watch::Sender::new(Life::default()),
            deadlines: Mutex::default(),
        })
    }

    /// The worker died: what it was doing has failed with `Runtime.ExitError`.
    pub fn died(&self, of: &str) {
        self.life.send_modify(|life| {
            life.dead.get_or_insert_with(|| of.into());
        });
    }

    /// Whether it has asked for work at least once.
    pub fn has_polled(&self) -> bool {
        self.life.borrow().polled
    }

    /// Whether it has reported that it could not start.
    pub fn start_failed(&self) -> bool {
        self.life.borrow().start_failed
    }

    /// How many invocations it has been given.
    pub fn invocations(&self) -> u64 {
        self.life.borrow().invocations
    }

    /// Waits until it has asked for work.
    pub async fn polled(&self) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| life.polled).await;
    }

    /// Waits until the worker has to be replaced: an invocation has run past its deadline, or calls
    /// wait that this worker may not serve. Safe to drop and to call again.
    pub async fn has_to_die(&self) -> Doom {
        let mut life = self.life.subscribe();
        loop {
            if life.borrow_and_update().unwanted {
                return Doom::Unwanted;
            }
            let first = lock(&self.deadlines).values().min().copied();
            let overdue = async {
                match first {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = overdue => return Doom::Overdue,
                // The sender is a field of this worker: it cannot be gone.
                _ = life.changed() => {}
            }
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life.borrow().dead.is_some()
    }

    /// Waits for its death and says of what it died.
    pub(crate) async fn dead(&self) -> Arc<str> {
        let mut life = self.life.subscribe();
        loop {
            if let Some(of) = &life.borrow_and_update().dead {
                return of.clone();
            }
            let _ = life.changed().await;
        }
    }

    pub(crate) fn polls(&self) {
        self.life
            .send_if_modified(|life| !std::mem::replace(&mut life.polled, true));
    }

    pub(crate) fn cannot_start(&self) {
        self.life.send_modify(|life| life.start_failed = true);
    }

    pub(crate) fn is_unwanted(&self) {
        self.life.send_modify(|life| life.unwanted = true);
    }

    pub(crate) fn has(&self, invocation: &Arc<str>, until: Instant) {
        lock(&self.deadlines).insert(invocation.clone(), until);
        self.life.send_modify(|life| {
            life.changes += 1;
            life.invocations += 1;
        });
    }

    /// It answered, in time or not: it is free again.
    pub(crate) fn answered(&self, invocation: &str) {
        if lock(&self.deadlines).remove(invocation).is_some() {
            self.life.send_modify(|life| life.changes += 1);
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("number", &self.number)
            .field("life", &*self.life.borrow())
            .finish_non_exhaustive()
    }
}

/// Why a worker has to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doom {
    /// It has an invocation that has run past its deadline.
    Overdue,
    /// It has served one tenant, and calls of another wait.
    Unwanted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_worker_has_to_die_at_its_first_deadline() {
        let worker = Worker::new();
        let start = Instant::now();
        worker.has(&"a".into(), start + Duration::from_secs(9));
        worker.has(&"b".into(), start + Duration::from_secs(5));
        assert_eq!(worker.has_to_die().await, Doom::Overdue);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        worker.answered("b");
        assert_eq!(worker.has_to_die().await, Doom::Overdue);
        assert_eq!(start.elapsed(), Duration::from_secs(9));
        assert_eq!(worker.invocations(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_invocations_lives_until_it_is_unwanted() {
        let worker = Worker::new();
        worker.has(&"a".into(), Instant::now() + Duration::from_secs(1));
        worker.answered("a");
        worker.answered("a");
        let waited = tokio::time::timeout(Duration::from_secs(100), worker.has_to_die());
        assert!(waited.await.is_err());
        worker.is_unwanted();
        assert_eq!(worker.has_to_die().await, Doom::Unwanted);
    }

    #[tokio::test]
    async fn a_death_is_told_once_and_to_everybody() {
        let worker = Worker::new();
        worker.died("one cause");
        worker.died("another");
        assert_eq!(&*worker.dead().await, "one cause");
        assert!(worker.is_dead());
    }
}
