//! What the threads of a store share, and what each of them does.
//!
//! Locks are taken in the order queue, journal, overlay, and never held over an answer. Every step
//! of a thread is a method that returns, so that tests can take the steps one by one.

use super::{
    super::{
        Change, CommitError, Committing, Status,
        folder::{Folder, OpenError},
        sqlite::tables::{self, Role, Tables},
    },
    INDEX_FILE, JOURNAL_FOLDER, Options, damage,
    indexer::{self, Indexed},
    overlay::Overlay,
    read::View,
    readers::Readers,
    refused,
    writer::{self, Hint, Queued},
};
use crate::{
    disk::Disk,
    journal::{self, AppendError, Damage, Journal, Keeper},
};
use outlast_core::arn::ExecutionId;
use std::{
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

/// How long to wait before trying again to write an index that found no room.
const FULL_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Shared {
    options: Options,
    folder: Folder,
    damage: Vec<Damage>,
    queue: Mutex<Queue>,
    /// Something was queued, or the store is closing.
    arrived: Condvar,
    /// The queue has room again.
    drained: Condvar,
    journal: Mutex<Journal>,
    keeper: Keeper,
    overlay: Mutex<Overlay>,
    /// A round has finished, or will not.
    indexed: Condvar,
    /// There is enough for a round, or the store is closing.
    wanted: Condvar,
    readers: Readers,
    tables: Mutex<Option<Tables>>,
    poisoned: OnceLock<Arc<str>>,
    full: AtomicBool,
    index_full: AtomicBool,
    written: AtomicBool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    written_bytes: AtomicU64,
    disk_bytes: AtomicU64,
    syncs: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    items: Vec<Queued>,
    bytes: usize,
    closed: bool,
    /// Whether the writer sleeps and must be woken.
    idle: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn open(
        folder: Folder,
        disk: Arc<dyn Disk>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let path = folder.path().join(INDEX_FILE);
        let tables = Tables::open(&path, tables::Options::new(Role::Index))?;
        let readers = (0..options.readers.max(1))
            .map(|_| tables.reader())
            .collect::<Result<Vec<_>, _>>()?;
        let unreadable = |error: super::StoreError| OpenError::Damaged {
            path: path.clone(),
            reason: error.to_string().into(),
        };
        let position = tables.position().map_err(unreadable)?.unwrap_or(0);
        let reader = tables.reader()?;
        let mut overlay = Overlay::new(position, options.cached_executions);
        let known = reader.setting(damage::SETTING).map_err(unreadable)?;
        overlay.remember_damaged(damage::decode(&known.unwrap_or_default()));
        let mut failure = None;
        let opened = journal::open(disk, options.segment_bytes, position, |frame| {
            if failure.is_none() {
                failure = damage::replay(frame, &mut overlay, &reader).err();
            }
        });
        let (journal, recovered) =
            opened.map_err(|error| refused(&folder.path().join(JOURNAL_FOLDER), error))?;
        if let Some(error) = failure {
            return Err(unreadable(error));
        }
        for lost in &recovered.damage {
            tracing::error!(?lost, "part of the journal is lost");
        }
        overlay.reach(journal.sequence());
        Ok(Self {
            keeper: journal.keeper(),
            folder,
            damage: recovered.damage,
            queue: Mutex::default(),
            arrived: Condvar::new(),
            drained: Condvar::new(),
            journal: Mutex::new(journal),
            overlay: Mutex::new(overlay),
            indexed: Condvar::new(),
            wanted: Condvar::new(),
            readers: Readers::new(readers),
            tables: Mutex::new(Some(tables)),
            poisoned: OnceLock::new(),
            full: AtomicBool::new(false),
            index_full: AtomicBool::new(false),
            written: AtomicBool::new(false),
            counters: Counters::default(),
            options,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(super) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    pub(super) fn damaged(&self) -> Vec<(ExecutionId, Arc<str>)> {
        let overlay = lock(&self.overlay);
        (overlay.damaged_all().iter())
            .map(|(execution, reason)| (*execution, reason.clone()))
            .collect()
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            overlay: &self.overlay,
            readers: &self.readers,
        }
    }

    pub(super) fn status(&self) -> Status {
        Status {
            poisoned: self.poisoned.get().cloned(),
            full: self.full.load(Ordering::Relaxed),
            index_lag_bytes: lock(&self.overlay).bytes(),
            written_bytes: self.counters.written_bytes.load(Ordering::Relaxed),
            // A folder that cannot be read has other ways to show it.
            disk_bytes: self.counters.disk_bytes.load(Ordering::Relaxed)
                + self.folder.bytes().unwrap_or(0),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
        }
    }

    /// Queues a change; waits only if the queue is full.
    pub(super) fn hand_over(&self, change: Change) -> Committing {
        if let Some(reason) = self.poisoned.get() {
            return Committing::done(Err(CommitError::Poisoned(reason.clone())));
        }
        // A read that fails is tried again, and answered, by the writer.
        let hint = Hint::read(&change, &self.overlay, &self.readers)
            .ok()
            .flatten();
        let bytes = writer::queued_bytes(&change);
        let (answer, committing) = Committing::queued();
        let mut queue = lock(&self.queue);
        while queue.bytes >= self.options.queue_bytes_max && !queue.closed {
            queue = (self.drained.wait(queue)).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed {
            return Committing::done(Err(CommitError::Closed));
        }
        queue.bytes += bytes;
        queue.items.push(Queued {
            change,
            hint,
            answer,
        });
        let wake = std::mem::take(&mut queue.idle);
        drop(queue);
        if wake {
            self.arrived.notify_one();
        }
        committing
    }

    /// Refuses changes from now on; those queued are still written.
    pub(super) fn close(&self) {
        lock(&self.queue).closed = true;
        self.arrived.notify_all();
        self.drained.notify_all();
        // Whoever is about to wait holds this lock until it does.
        drop(lock(&self.overlay));
        self.wanted.notify_all();
    }

    /// The writer's thread. `segments` is told which segment to make ready.
    pub(super) fn write_until_closed(&self, segments: &mpsc::Sender<u64>) {
        let _stopped = Stopped(self);
        let mut told = 0;
        loop {
            let next = lock(&self.journal).next_segment();
            if next != told && segments.send(next).is_ok() {
                told = next;
            }
            if !self.write_queued(true) {
                break;
            }
        }
        self.written.store(true, Ordering::Release);
        drop(lock(&self.overlay));
        self.wanted.notify_all();
    }

    /// Writes what is queued, if told so after waiting for something. Answers whether there can be
    /// more.
    pub(super) fn write_queued(&self, wait: bool) -> bool {
        let mut items = {
            let mut queue = lock(&self.queue);
            while wait && queue.items.is_empty() && !queue.closed {
                queue.idle = true;
                queue = (self.arrived.wait(queue)).unwrap_or_else(PoisonError::into_inner);
            }
            queue.idle = false;
            queue.bytes = 0;
            std::mem::take(&mut queue.items)
        };
        self.drained.notify_all();
        if items.is_empty() {
            return false;
        }
        while !items.is_empty() {
            let mut bytes = 0;
            let fitting = (items.iter())
                .take_while(|queued| {
                    bytes += writer::queued_bytes(&queued.change);
                    bytes <= self.options.batch_bytes_max
                })
                .count();
            let rest = items.split_off(fitting.max(1));
            self.write_batch(std::mem::replace(&mut items, rest));
        }
        true
    }

    fn write_batch(&self, batch: Vec<Queued>) {
        let outcome = match self.refusal() {
            Some(refusal) => Err(refusal),
            None => {
                let mut journal = lock(&self.journal);
                let first = journal.sequence();
                let outcome = writer::write(&batch, &self.overlay, &self.readers, &mut journal);
                self.count(&journal);
                outcome.map(|outcomes| (first, outcomes))
            }
        };
        let (full, refusal) = match outcome {
            Ok((first, outcomes)) => {
                self.full.store(false, Ordering::Relaxed);
                writer::publish(batch, outcomes, first, &self.overlay);
                if lock(&self.overlay).bytes() >= self.options.round_bytes {
                    self.wanted.notify_one();
                }
                return;
            }
            Err(AppendError::Full(reason)) => (true, CommitError::Full(reason)),
            Err(AppendError::Poisoned(reason)) => (false, self.poison(reason)),
        };
        self.full.store(full, Ordering::Relaxed);
        for queued in batch {
            // Whoever waited may have gone.
            let _ = queued.answer.send(Err(refusal.clone()));
        }
    }

    fn count(&self, journal: &Journal) {
        let counters = &self.counters;
        (counters.written_bytes).store(journal.written(), Ordering::Relaxed);
        (counters.disk_bytes).store(journal.disk_bytes(), Ordering::Relaxed);
        counters.syncs.store(journal.syncs(), Ordering::Relaxed);
    }

    fn poison(&self, reason: Arc<str>) -> CommitError {
        tracing::error!(%reason, "the store acknowledges nothing any more");
        CommitError::Poisoned(self.poisoned.get_or_init(|| reason).clone())
    }

    /// Waits until the index has caught up so far that more may be accepted; says why if it cannot.
    fn refusal(&self) -> Option<AppendError> {
        let mut overlay = lock(&self.overlay);
        loop {
            if let Some(reason) = self.poisoned.get() {
                return Some(AppendError::Poisoned(reason.clone()));
            }
            if overlay.bytes() < self.options.lag_bytes_max {
                return None;
            }
            if self.index_full.load(Ordering::Relaxed) {
                return Some(AppendError::Full("no room for the index".into()));
            }
            self.wanted.notify_one();
            overlay = (self.indexed.wait(overlay)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The indexer's thread.
    pub(super) fn index_until_closed(&self) {
        let _stopped = Stopped(self);
        loop {
            let last = self.wait_for_round();
            let indexed = self.index();
            if last {
                break;
            }
            if matches!(indexed, Indexed::Full(_)) {
                let overlay = lock(&self.overlay);
                drop(self.wanted.wait_timeout(overlay, FULL_PAUSE));
            }
        }
        if let Some(tables) = lock(&self.tables).take() {
            tables.close();
        }
    }

    /// Waits until a round is worth its while; answers whether it is the last.
    fn wait_for_round(&self) -> bool {
        let overlay = lock(&self.overlay);
        let idle = |overlay: &mut Overlay| {
            overlay.bytes() < self.options.round_bytes && !self.written.load(Ordering::Acquire)
        };
        drop((self.wanted).wait_timeout_while(overlay, self.options.round_interval, idle));
        self.written.load(Ordering::Acquire)
    }

    /// Brings the index up to date.
    pub(super) fn index(&self) -> Indexed {
        let mut tables = lock(&self.tables);
        let Some(tables) = tables.as_mut() else {
            return Indexed::Nothing;
        };
        let mut outcome = indexer::index(&self.overlay, tables);
        if let Indexed::UpTo(position) = outcome
            && let Err(error) = indexer::release(&self.journal, &self.keeper, tables, position)
        {
            outcome = match error {
                CommitError::Full(reason) => Indexed::Full(reason),
                error => Indexed::Failed(error.to_string().into()),
            };
        }
        match &outcome {
            Indexed::Nothing => {}
            Indexed::UpTo(_) => self.index_full.store(false, Ordering::Relaxed),
            Indexed::Full(_) => self.index_full.store(true, Ordering::Relaxed),
            Indexed::Failed(reason) => {
                self.poison(reason.clone());
            }
        }
        // Whoever is about to wait for this holds the lock until it does.
        drop(lock(&self.overlay));
        self.indexed.notify_all();
        outcome
    }
}

/// A thread that panics must not leave anybody waiting for it.
struct Stopped<'a>(&'a Shared);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        if std::thread::panicking() {
            shared.poison("a thread of the store panicked".into());
            let mut queue = lock(&shared.queue);
            queue.closed = true;
            // Dropping the answers tells those who wait that the store has stopped.
            queue.items.clear();
            drop(queue);
            shared.drained.notify_all();
            shared.written.store(true, Ordering::Release);
            drop(lock(&shared.overlay));
            shared.wanted.notify_all();
            shared.indexed.notify_all();
        }
    }
}
