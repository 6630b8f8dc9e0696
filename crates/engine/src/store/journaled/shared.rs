//! What the threads of a store share, and what each of them does.
//!
//! Locks are taken in the order tables, journal, overlay, and never held over an answer. Every step
//! of a thread is a method that returns, so that tests can take the steps one by one.

use super::{
    super::{
        About, Change, CommitError, Committing, Status,
        folder::{Folder, OpenError},
        queue::{Group, Queue},
        sqlite::{
            checker::{Checked, Checker},
            tables::{self, Check, Log, Role, Tables},
        },
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
    damage: Vec<Damage>,
    closed_cleanly: Option<bool>,
    queue: Queue<Queued>,
    journal: Mutex<Journal>,
    keeper: Keeper,
    overlay: Mutex<Overlay>,
    /// A round has finished, or will not.
    indexed: Condvar,
    /// There is enough for a round, or the store is closing.
    wanted: Condvar,
    readers: Readers,
    /// Until the index has been checked, if that is necessary.
    checker: Mutex<Option<Checker>>,
    /// The store is closing.
    closing: Arc<AtomicBool>,
    tables: Mutex<Option<Tables>>,
    poisoned: OnceLock<Arc<str>>,
    full: AtomicBool,
    index_full: AtomicBool,
    written: AtomicBool,
    counters: Counters,
    // Last, so that the lock goes when every connection is closed.
    folder: Folder,
}

#[derive(Debug, Default)]
struct Counters {
    written_bytes: AtomicU64,
    index_written_bytes: AtomicU64,
    index_log: Mutex<Log>,
    disk_bytes: AtomicU64,
    syncs: AtomicU64,
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
        let mut setup = tables::Options::new(Role::Index);
        if options.check_first {
            setup.check = Check::Before;
        }
        let tables = Tables::open(&path, setup)?;
        let closing = Arc::new(AtomicBool::new(false));
        let checker = tables.checker(&closing)?;
        // Its entry in the folder has to be durable before a segment it covers may go.
        folder
            .sync()
            .map_err(|error| OpenError::io(&path, &error))?;
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
            closed_cleanly: tables.closed_cleanly(),
            queue: Queue::default(),
            journal: Mutex::new(journal),
            overlay: Mutex::new(overlay),
            indexed: Condvar::new(),
            wanted: Condvar::new(),
            readers: Readers::new(readers),
            checker: Mutex::new(checker),
            closing,
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
            written_bytes: self.counters.written_bytes.load(Ordering::Relaxed)
                + self.counters.index_written_bytes.load(Ordering::Relaxed),
            // A folder that cannot be read has other ways to show it.
            disk_bytes: self.counters.disk_bytes.load(Ordering::Relaxed)
                + self.folder.bytes().unwrap_or(0),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
            ..Status::default()
        }
    }

    pub(super) fn about(&self) -> About {
        About {
            kind: "a journal, with an index in SQLite behind it",
            // A folder is as new as the newest part of it.
            format: Some(tables::FORMAT.unsigned_abs().max(journal::FORMAT.into())),
            sync: "before every acknowledgement: fdatasync of the journal, shared by all that wait",
            closed_cleanly: self.closed_cleanly,
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
        self.queue.push(Queued { change, hint })
    }

    /// Lets others open the folder, when nothing will be written any more.
    pub(super) fn release(&self) {
        self.folder.release();
    }

    /// Refuses changes from now on; those queued are still written.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.queue.close();
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
            match self.queue.take() {
                Some(group) => self.write(group),
                None => break,
            }
        }
        self.written.store(true, Ordering::Release);
        drop(lock(&self.overlay));
        self.wanted.notify_all();
    }

    /// Makes a group durable and answers those who wait for it.
    fn write(&self, mut group: Group<Queued>) {
        let batch = std::mem::take(&mut group.changes);
        let length = batch.len();
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
        let (full, outcomes) = match outcome {
            Ok((first, outcomes)) => {
                writer::publish(batch, &outcomes, first, &self.overlay);
                (false, outcomes)
            }
            Err(AppendError::Full(reason)) => (true, vec![Err(CommitError::Full(reason)); length]),
            Err(AppendError::Poisoned(reason)) => (false, vec![Err(self.poison(reason)); length]),
        };
        self.full.store(full, Ordering::Relaxed);
        group.answer(outcomes);
        if lock(&self.overlay).bytes() >= self.options.round_bytes {
            self.wanted.notify_one();
        }
    }

    fn count(&self, journal: &Journal) {
        let counters = &self.counters;
        (counters.written_bytes).store(journal.written(), Ordering::Relaxed);
        (counters.disk_bytes).store(journal.disk_bytes(), Ordering::Relaxed);
        counters.syncs.store(journal.syncs(), Ordering::Relaxed);
    }

    fn poison(&self, reason: Arc<str>) -> CommitError {
        let first = self.poisoned.get_or_init(|| {
            tracing::error!(%reason, "the store acknowledges nothing any more");
            reason
        });
        CommitError::Poisoned(first.clone())
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

    /// Whether the index was not closed and has not been checked since.
    pub(super) fn is_to_be_checked(&self) -> bool {
        lock(&self.checker).is_some()
    }

    /// The checker's thread: reads the whole index, once. A store whose index is damaged stops,
    /// because what it would go on to acknowledge may rest on what is not true.
    pub(super) fn check_index(&self) {
        let Some(checker) = lock(&self.checker).take() else {
            return;
        };
        let checked = checker.run();
        drop(checker);
        let mut tables = lock(&self.tables);
        match (checked, tables.as_mut()) {
            (Checked::Sound, Some(tables)) => tables.found_sound(),
            (Checked::Sound, None) => {}
            (Checked::Damaged(reason), tables) => {
                let path = self.folder.path().join(INDEX_FILE);
                let path = path.display();
                let reason: Arc<str> =
                    format!("{path} is damaged: {reason}; restore it from a backup").into();
                self.poison(reason.clone());
                if let Some(tables) = tables {
                    tables.found_damaged(reason);
                }
                drop(lock(&self.overlay));
                self.indexed.notify_all();
            }
            (Checked::Unfinished(reason), _) => {
                tracing::warn!(%reason, "the index was not checked; the next open begins again");
            }
        }
    }

    /// The indexer's thread.
    pub(super) fn index_until_closed(&self) {
        let _stopped = Stopped(self);
        loop {
            let last = self.wait_for_round();
            let indexed = self.index();
            // An index that failed stays as it is; the journal has everything.
            if last || matches!(indexed, Indexed::Failed(_)) {
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
            outcome = if let CommitError::Full(reason) = error {
                Indexed::Full(reason)
            } else {
                Indexed::Failed(error.to_string().into())
            };
        }
        // Only figures depend on it; what is wrong with the disk shows in a round.
        if let Ok(log) = tables.log() {
            let before = std::mem::replace(&mut *lock(&self.counters.index_log), log);
            let written = log.written_since(&before);
            (self.counters.index_written_bytes).fetch_add(written, Ordering::Relaxed);
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

#[cfg(test)]
impl Shared {
    /// Writes what is queued.
    pub(super) fn write_queued(&self) {
        if let Some(group) = self.queue.try_take() {
            self.write(group);
        }
    }

    pub(super) fn overlay(&self) -> MutexGuard<'_, Overlay> {
        lock(&self.overlay)
    }

    /// Does something to the tables of the index.
    pub(super) fn with_tables(&self, act: impl FnOnce(&mut Tables)) {
        act(lock(&self.tables).as_mut().unwrap());
    }

    /// Ends a round that a test has begun.
    pub(super) fn apply_round(&self, round: &super::overlay::Round) {
        let mut tables = lock(&self.tables);
        let tables = tables.as_mut().unwrap();
        let outcomes = tables.apply_at(&round.changes(), round.position);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        self.overlay().finish_round(round);
    }
}

/// A thread that panics must not leave anybody waiting for it.
struct Stopped<'a>(&'a Shared);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        if std::thread::panicking() {
            shared.poison("a thread of the store panicked".into());
            shared.queue.close();
            // Dropping the answers tells those who wait that the store has stopped.
            drop(shared.queue.take());
            shared.written.store(true, Ordering::Release);
            drop(lock(&shared.overlay));
            shared.wanted.notify_all();
            shared.indexed.notify_all();
        }
    }
}
