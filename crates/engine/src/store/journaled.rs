//! The log-first store: a journal is the commit point, SQLite behind it is the index.
//!
//! A commit is checked against its execution's version, appended to the journal with everything
//! else that is queued, and answered after one sync. What the index does not have yet is kept in
//! memory and laid over every read. A second thread takes it to the index in large transactions, in
//! which an execution that started and closed meanwhile is written once; a third makes the next
//! segment ready. After a crash the journal is replayed from the position that the index holds.
//!
//! Memory is bounded: when more than [`Options::lag_bytes_max`] are waiting for the index, commits
//! wait. Payloads of any size travel through the journal; there are no blob files.

mod codec;
mod damage;
mod indexer;
mod overlay;
mod read;
mod readers;
mod shared;
#[cfg(test)]
mod tests;
mod writer;

use super::{
    About, Change, Commit, Committing, Head, Query, Run, Status, Store, StoreError, Stored, Wake,
    folder::{Folder, OpenError},
};
use crate::{
    disk::{Disk, RealDisk},
    journal::{self, Damage},
};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use shared::Shared;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// The folder of the journal, in the folder of the store.
const JOURNAL_FOLDER: &str = "journal";
/// The database of the index.
const INDEX_FILE: &str = "index.db";

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a segment of the journal; the first few are smaller.
    pub segment_bytes: u64,
    /// Bytes that may wait for the index before commits wait too.
    pub lag_bytes_max: u64,
    /// Bytes after which an index transaction begins.
    pub round_bytes: u64,
    /// Time after which an index transaction begins, however little there is.
    pub round_interval: Duration,
    /// Open executions whose head stays in memory after it has been indexed.
    pub cached_executions: usize,
    /// Read connections of the index.
    pub readers: usize,
    /// Whether an index that was not closed is checked before the store is open, however long that
    /// takes. If not, it is checked beside, and the store stops if it is found damaged.
    pub check_first: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            lag_bytes_max: 32 << 20,
            round_bytes: 8 << 20,
            round_interval: Duration::from_secs(1),
            cached_executions: 16_384,
            readers: 4,
            check_first: false,
        }
    }
}

/// The log-first store.
#[derive(Debug)]
pub struct JournaledStore {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl JournaledStore {
    /// Opens the store in a folder, making it if it is not there.
    ///
    /// # Errors
    /// When another process has it open, its format is newer, or it cannot be read.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let folder = Folder::open(path)?;
        let journal = path.join(JOURNAL_FOLDER);
        let disk = RealDisk::new(&journal).map_err(|error| OpenError::io(&journal, &error))?;
        Self::open_on(folder, Arc::new(disk), options)
    }

    /// Opens a store whose journal is on a disk of its own.
    ///
    /// # Errors
    /// As [`JournaledStore::open`].
    pub fn open_on(
        folder: Folder,
        disk: Arc<dyn Disk>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::open(folder, disk, options)?);
        let (wanted, segments) = mpsc::channel();
        let mut threads = Vec::new();
        let mut start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
            thread
                .map(|thread| threads.push(thread))
                .map_err(|error| OpenError::io(shared.path(), &error))
        };
        let keeper = shared.keeper().clone();
        start(
            "outlast-segments",
            Box::new(move || {
                segments
                    .into_iter()
                    .for_each(|number| keeper.prepare(number))
            }),
        )?;
        let writer = shared.clone();
        start(
            "outlast-journal",
            Box::new(move || writer.write_until_closed(&wanted)),
        )?;
        let indexer = shared.clone();
        start(
            "outlast-index",
            Box::new(move || indexer.index_until_closed()),
        )?;
        if shared.is_to_be_checked() {
            let checker = shared.clone();
            start("outlast-check", Box::new(move || checker.check_index()))?;
        }
        Ok(Self {
            shared,
            threads: Mutex::new(threads),
        })
    }

    /// What was found damaged in the journal when the store was opened.
    pub fn damage(&self) -> &[Damage] {
        self.shared.damage()
    }

    /// Executions that cannot be read any more, and why.
    pub fn damaged(&self) -> Vec<(ExecutionId, Arc<str>)> {
        self.shared.damaged()
    }
}

impl Store for JournaledStore {
    fn commit(&self, commit: Commit) -> Committing {
        self.shared.hand_over(Change::Commit(commit))
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.shared.hand_over(Change::Delete {
            execution,
            expected,
        })
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.shared.view().head(execution)
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.shared.view().load(execution)
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.shared.view().records(execution, from, bytes_max)
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.shared.view().find(function, name)
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.shared.view().due(after, until, max)
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.shared.view().list(query)
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.view().setting(key)
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        self.shared.hand_over(Change::Setting {
            key: key.into(),
            value,
        })
    }

    fn status(&self) -> Status {
        self.shared.status()
    }

    fn about(&self) -> About {
        self.shared.about()
    }

    fn close(&self) {
        self.shared.close();
        // Held while waiting, so that a second caller also returns only when all is done.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
        self.shared.release();
    }
}

impl Drop for JournaledStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Says in the words of a folder why its journal cannot be opened.
fn refused(path: &Path, error: journal::OpenError) -> OpenError {
    let path = path.to_owned();
    match error {
        journal::OpenError::Io(error) => OpenError::io(&path, &error),
        journal::OpenError::Newer { found } => OpenError::NewerFormat {
            path,
            found: found.into(),
            supported: journal::FORMAT.into(),
        },
        missing @ journal::OpenError::Missing { .. } => OpenError::Damaged {
            path,
            reason: missing.to_string().into(),
        },
    }
}
