//! Stores that stand before another and change little of what it does: to count, to spoil, to check.
//!
//! A layer says which store is behind it and writes down only what it does differently. Every method
//! of the contract is listed here, once, so that layers need not follow each change of it.

use super::{About, Commit, Committing, Head, Query, Run, Status, Store, StoreError, Stored, Wake};
use outlast_core::{arn::ExecutionId, time::Timestamp};

/// A store before another. What is not written down is what the store behind does.
///
/// The methods are those of [`Store`], which every layer is.
pub trait Layer: Send + Sync + 'static {
    /// The store behind.
    fn behind(&self) -> &dyn Store;

    /// See [`Store::commit`].
    fn commit(&self, commit: Commit) -> Committing {
        self.behind().commit(commit)
    }

    /// See [`Store::delete`].
    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        self.behind().delete(execution, expected)
    }

    /// See [`Store::records`].
    ///
    /// # Errors
    /// When they cannot be read.
    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.behind().records(execution, from, bytes_max)
    }

    /// See [`Store::due`].
    ///
    /// # Errors
    /// When the index cannot be read.
    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.behind().due(after, until, max)
    }

    /// See [`Store::status`].
    fn status(&self) -> Status {
        self.behind().status()
    }
}

impl<L: Layer> Store for L {
    fn commit(&self, commit: Commit) -> Committing {
        Layer::commit(self, commit)
    }

    fn delete(&self, execution: ExecutionId, expected: u64) -> Committing {
        Layer::delete(self, execution, expected)
    }

    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.behind().head(execution)
    }

    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.behind().load(execution)
    }

    fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        Layer::records(self, execution, from, bytes_max)
    }

    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.behind().find(function, name)
    }

    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        Layer::due(self, after, until, max)
    }

    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.behind().list(query)
    }

    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.behind().setting(key)
    }

    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        self.behind().put_setting(key, value)
    }

    fn status(&self) -> Status {
        Layer::status(self)
    }

    fn about(&self) -> About {
        self.behind().about()
    }

    fn close(&self) {
        self.behind().close();
    }
}
