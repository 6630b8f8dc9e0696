//! The store whose commit point is SQLite.
//!
//! One thread writes: it takes everything that is queued, commits it as one transaction with one
//! sync, and answers. Another copies the write-ahead log into the database, off the path of commits.
//! Reads have connections of their own. [`tables`] and [`reader`] know neither threads nor queues.

pub mod checker;
pub mod reader;
mod schema;
pub mod tables;

use super::{
    About, Change, Commit, CommitError, Committing, Head, Query, Run, Status, Store, StoreError,
    Stored, Wake,
    folder::{Folder, OpenError},
    queue::{Group, Queue},
};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use reader::Reader;
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};
use tables::{Checkpointer, Log, Options, Role, Tables};

/// The database within the folder.
pub const DATABASE_FILE: &str = "outlast.db";

/// Frames of the write-ahead log (8 MiB) that are worth a pass of the thread that copies them.
const CHECKPOINT_FRAMES: u64 = 1_024;

/// Keeps executions in one SQLite database in one folder.
#[derive(Debug)]
pub struct SqliteStore {
    queue: Arc<Queue>,
    status: Arc<Mutex<Status>>,
    closed_cleanly: Option<bool>,
    /// Two, so that a long list does not hold up everybody else.
    readers: [Mutex<Reader>; 2],
    writer: Mutex<Option<JoinHandle<()>>>,
    // Last, so that the lock goes when every connection is closed.
    folder: Folder,
}

impl SqliteStore {
    /// Opens the store in the folder at `path`, making it if it is not there.
    ///
    /// # Errors
    /// When somebody else has it open, its format is newer, it is damaged, or the disk refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let folder = Folder::open(path)?;
        let database = folder.path().join(DATABASE_FILE);
        let tables = Tables::open(&database, Options::new(Role::CommitPoint))?;
        // The database may be new: its entry in the folder has to be as durable as what is in it.
        folder.sync().map_err(|error| OpenError::io(path, &error))?;
        Self::start(folder, tables)
    }

    fn start(folder: Folder, tables: Tables) -> Result<Self, OpenError> {
        let closed_cleanly = tables.closed_cleanly();
        let readers = [Mutex::new(tables.reader()?), Mutex::new(tables.reader()?)];
        let checkpointer = tables.checkpointer()?;
        let queue = Arc::new(Queue::default());
        let status = Arc::new(Mutex::new(Status::default()));
        let failed = |error: std::io::Error| OpenError::io(folder.path(), &error);
        let (nudge, nudges) = sync_channel(1);
        let copier = spawn("outlast-log", move || copy_log(&checkpointer, &nudges));
        let writer = Writer {
            tables,
            // The store is told when the writer ends, whatever ends it.
            queue: CloseOnDrop(Arc::clone(&queue)),
            status: Arc::clone(&status),
            nudge,
            copier: copier.map_err(failed)?,
            log: Log::default(),
        };
        let writer = spawn("outlast-writer", move || writer.run()).map_err(failed)?;
        Ok(Self {
            queue,
            status,
            closed_cleanly,
            readers,
            writer: Mutex::new(Some(writer)),
            folder,
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let [first, second] = &self.readers;
        match first.try_lock() {
            Ok(reader) => read(&reader),
            Err(_) => read(&second.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

impl Store for SqliteStore {
    fn commit(&self, commit: Commit) -> Committing {
        self.queue.push(Change::Commit(commit))
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.queue.push(Change::Delete {
            execution,
            expected,
        })
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.read(|reader| reader.head(execution))
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.read(|reader| reader.load(execution))
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.read(|reader| reader.records(execution, from, bytes_max))
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.read(|reader| reader.find(function, name))
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.read(|reader| reader.due(after, until, max))
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.read(|reader| reader.list(query))
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|reader| reader.setting(key))
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        let key = key.into();
        self.queue.push(Change::Setting { key, value })
    }

    fn status(&self) -> Status {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        Status {
            disk_bytes: self.folder.bytes().unwrap_or(0),
            ..status.clone()
        }
    }

    fn about(&self) -> About {
        About {
            kind: "SQLite, one database",
            format: Some(tables::FORMAT.unsigned_abs()),
            sync: "before every acknowledgement: SQLite's log, synchronous=FULL",
            closed_cleanly: self.closed_cleanly,
        }
    }

    fn close(&self) {
        self.queue.close();
        // Held while waiting, so that a second caller also returns only when all is done.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes to the store panicked");
        }
        self.folder.release();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread that writes.
struct Writer {
    tables: Tables,
    queue: CloseOnDrop,
    status: Arc<Mutex<Status>>,
    nudge: SyncSender<()>,
    copier: JoinHandle<()>,
    log: Log,
}

/// Closes the queue when the writer ends: nobody may wait for a thread that is gone.
struct CloseOnDrop(Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
        // What it did not take is never written; who waits for it is told.
        drop(self.0.take());
    }
}

impl Writer {
    fn run(mut self) {
        while let Some(group) = self.queue.0.take() {
            self.write(group);
        }
        // First the copier: closing cannot shorten a log that another is copying.
        drop(self.nudge);
        if self.copier.join().is_err() {
            tracing::error!("the thread that copies the write-ahead log panicked");
        }
        self.tables.close();
    }

    fn write(&mut self, group: Group) {
        let outcomes = self.tables.apply(&group.changes);
        self.note(&outcomes);
        group.answer(outcomes);
        self.measure_log();
    }

    /// Brings the status up to date before anybody hears of the outcomes.
    fn note(&self, outcomes: &[Result<(), CommitError>]) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |outcome: &Result<(), CommitError>| matches!(outcome, Err(CommitError::Full(_)));
        let full = outcomes.iter().any(full);
        let written = outcomes.iter().any(Result::is_ok);
        // A transaction that changed nothing did not wait for the disk, nor learn how full it is.
        if full || written {
            status.full = full;
        }
        status.syncs += u64::from(written);
        status.poisoned = self.tables.poisoned().cloned();
    }

    /// Sees how the log has grown, and has it copied when that is worth it.
    fn measure_log(&mut self) {
        // Only figures depend on it; what is wrong with the disk will show in a commit.
        let Ok(log) = self.tables.log() else {
            return;
        };
        let written = log.written_since(&self.log);
        self.log = log;
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.written_bytes += written;
        drop(status);
        if log.frames - log.copied.min(log.frames) >= CHECKPOINT_FRAMES {
            // A nudge that is already there is as good as this one.
            let _ = self.nudge.try_send(());
        }
    }
}

/// The thread that copies the log. It ends when the writer, who nudges it, has ended.
fn copy_log(checkpointer: &Checkpointer, nudges: &Receiver<()>) {
    while nudges.recv().is_ok() {
        if let Err(error) = checkpointer.run() {
            // Nothing is lost: the log keeps what could not be copied.
            tracing::warn!(%error, "the write-ahead log was not copied");
        }
    }
}

#[cfg(test)]
mod tests;
