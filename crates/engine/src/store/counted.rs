//! A layer over a store that counts what the engine hands to it.
//!
//! What a store writes in the end also holds its index; how large commits are is seen only here.

use super::{Commit, Committing, Status, Store, layer::Layer};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Id, version and three times.
const HEAD_BYTES: usize = 16 + 4 * 8;

/// The layer: its status says how many commits there were, and how large they were together.
pub struct Counted {
    inner: Arc<dyn Store>,
    commits: AtomicU64,
    bytes: AtomicU64,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted")
            .field("commits", &self.commits)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Counted {
    /// Counts what goes to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            commits: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Layer for Counted {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn commit(&self, commit: Commit) -> Committing {
        let head = &commit.head;
        let names = head.function.len() + head.function_version.len() + head.name.len();
        let snapshot = commit.snapshot.as_ref().map_or(0, Vec::len);
        let bytes = commit.records.bytes.len() + snapshot + names + HEAD_BYTES;
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.inner.commit(commit)
    }

    fn status(&self) -> Status {
        Status {
            commits: self.commits.load(Ordering::Relaxed),
            commit_bytes: self.bytes.load(Ordering::Relaxed),
            ..self.inner.status()
        }
    }
}
