//! A layer over a store that counts what the engine hands to it.
//!
//! The disk's limit is measured with commits of the same size, so their size has to be known; what
//! a store writes in the end also holds its index and is no measure of that.

use outlast_engine::store::{Commit, Committing, Store, layer::Layer};
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

impl Layer for Counted {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn commit(&self, commit: Commit) -> Committing {
        self.commits.add(&commit);
        self.inner.commit(commit)
    }
}
