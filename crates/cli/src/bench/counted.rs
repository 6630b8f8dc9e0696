//! A layer over a store that counts what the engine hands to it.
//!
//! The disk's limit is measured with commits of the same size, so their size has to be known; what
//! a store writes in the end also holds its index and is no measure of that.

use outlast::core::{arn::ExecutionId, time::Timestamp};
use outlast_engine::store::{
    About, Commit, Committing, Head, Query, Run, Status, Store, StoreError, Stored, Wake,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Id, version and three times.
const HEAD_BYTES: usize = 16 + 4 * 8;

/// Commits so far.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Commits {
    /// How many, and how large together.
    pub(crate) fn get(&self) -> (u64, u64) {
        let count = self.count.load(Ordering::Relaxed);
        (count, self.bytes.load(Ordering::Relaxed))
    }

    fn add(&self, commit: &Commit) {
        let head = &commit.head;
        let names = head.function.len() + head.function_version.len() + head.name.len();
        let snapshot = commit.snapshot.as_ref().map_or(0, Vec::len);
        let bytes = commit.records.bytes.len() + snapshot + names + HEAD_BYTES;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The layer.
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    commits: Arc<Commits>,
}

impl Counted {
    /// Counts what goes to `inner`.
    pub(crate) fn new(inner: Arc<dyn Store>, commits: &Arc<Commits>) -> Self {
        Self {
            inner,
            commits: commits.clone(),
        }
    }
}

impl Store for Counted {
    fn commit(&self, commit: Commit) -> Committing {
        self.commits.add(&commit);
        self.inner.commit(commit)
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.inner.delete(execution, expected)
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.inner.head(execution)
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.inner.load(execution)
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.inner.records(execution, from, bytes_max)
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.inner.find(function, name)
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.inner.due(after, until, max)
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.inner.list(query)
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.setting(key)
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        self.inner.put_setting(key, value)
    }

    fn status(&self) -> Status {
        self.inner.status()
    }

    fn about(&self) -> About {
        self.inner.about()
    }

    fn close(&self) {
        self.inner.close();
    }
}
