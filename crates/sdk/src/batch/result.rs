//! What a batch gives back.

use crate::error::{Error, ErrorKind, Result};
use outlast_core::{
    batch::{Batch, BatchStatus, CompletionReason, ItemStatus},
    wire::ErrorObject,
};
use serde::{Deserialize, Serialize};

/// The items of a batch that started, in index order, and why it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult<T> {
    all: Vec<BatchItem<T>>,
    completion_reason: CompletionReason,
}

/// One item of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItem<T> {
    /// Its index in the batch.
    pub index: usize,
    /// Whether it succeeded, failed, or was unfinished when the batch ended.
    pub status: ItemStatus,
    /// Its value, if it succeeded.
    #[serde(
        default = "Option::default",
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[serde(bound(deserialize = "T: Deserialize<'de>"))]
    pub result: Option<T>,
    /// Its error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// A member that is there has a value, also when the value is null.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<T> BatchItem<T> {
    fn new(index: usize, outcome: Option<Result<T>>) -> Self {
        let (status, result, error) = match outcome {
            None => (ItemStatus::Started, None, None),
            Some(Ok(value)) => (ItemStatus::Succeeded, Some(value), None),
            Some(Err(error)) => (ItemStatus::Failed, None, Some(error.into_record())),
        };
        Self {
            index,
            status,
            result,
            error,
        }
    }
}

impl<T> BatchResult<T> {
    pub(super) fn new(batch: &Batch, outcomes: Vec<Option<Result<T>>>) -> Self {
        let started = batch.statuses().len();
        Self::rebuilt(
            batch.verdict().unwrap_or(CompletionReason::AllCompleted),
            outcomes.into_iter().take(started).collect(),
        )
    }

    pub(super) fn rebuilt(
        completion_reason: CompletionReason,
        outcomes: Vec<Option<Result<T>>>,
    ) -> Self {
        let all = outcomes
            .into_iter()
            .enumerate()
            .map(|(index, outcome)| BatchItem::new(index, outcome))
            .collect();
        Self {
            all,
            completion_reason,
        }
    }

    /// Every item that started. Items that never did are left out.
    pub fn items(&self) -> &[BatchItem<T>] {
        &self.all
    }

    /// Why the batch ended.
    pub fn completion_reason(&self) -> CompletionReason {
        self.completion_reason
    }

    /// Whether the batch as a whole succeeded.
    pub fn status(&self) -> BatchStatus {
        BatchStatus::of(self.completion_reason, self.failure_count() as u64)
    }

    /// Values of the items that succeeded, in index order.
    pub fn results(&self) -> impl Iterator<Item = &T> {
        self.all.iter().filter_map(|item| item.result.as_ref())
    }

    /// Errors of the items that failed, in index order.
    pub fn errors(&self) -> impl Iterator<Item = &ErrorObject> {
        self.all.iter().filter_map(|item| item.error.as_ref())
    }

    /// Items that succeeded.
    pub fn succeeded(&self) -> impl Iterator<Item = &BatchItem<T>> {
        self.with_status(ItemStatus::Succeeded)
    }

    /// Items that failed.
    pub fn failed(&self) -> impl Iterator<Item = &BatchItem<T>> {
        self.with_status(ItemStatus::Failed)
    }

    /// Items that were unfinished when the batch ended.
    pub fn started(&self) -> impl Iterator<Item = &BatchItem<T>> {
        self.with_status(ItemStatus::Started)
    }

    fn with_status(&self, status: ItemStatus) -> impl Iterator<Item = &BatchItem<T>> {
        self.all.iter().filter(move |item| item.status == status)
    }

    /// How many items started.
    pub fn total_count(&self) -> usize {
        self.all.len()
    }

    /// How many items succeeded.
    pub fn success_count(&self) -> usize {
        self.succeeded().count()
    }

    /// How many items failed.
    pub fn failure_count(&self) -> usize {
        self.failed().count()
    }

    /// How many items were unfinished when the batch ended.
    pub fn started_count(&self) -> usize {
        self.started().count()
    }

    /// Whether any item failed.
    pub fn has_failure(&self) -> bool {
        self.failure_count() > 0
    }

    /// The error of the first failed item, or of a batch that its own rule ended as a failure.
    ///
    /// # Errors
    /// That error.
    pub fn throw_if_error(&self) -> Result<()> {
        if let Some(item) = self.failed().next() {
            let record = item.error.clone().unwrap_or_default();
            return Err(Error::from_record(ErrorKind::ChildContext, None, record));
        }
        match self.status() {
            BatchStatus::Succeeded => Ok(()),
            BatchStatus::Failed => Err(Error::of_kind(
                ErrorKind::Batch,
                None,
                "the batch was ended as a failure",
            )),
        }
    }

    /// The values in index order, or the first error.
    ///
    /// # Errors
    /// As [`throw_if_error`](Self::throw_if_error).
    pub fn into_values(self) -> Result<Vec<T>> {
        self.throw_if_error()?;
        Ok(self
            .all
            .into_iter()
            .filter_map(|item| item.result)
            .collect())
    }
}

impl<T> BatchResult<Vec<T>> {
    /// Chunks as items: each item of a chunk shares its chunk's fate.
    pub(super) fn flatten(self, sizes: &[usize]) -> BatchResult<T> {
        let mut all = Vec::new();
        for (chunk, size) in self.all.into_iter().zip(sizes) {
            let mut values = chunk.result.map(Vec::into_iter);
            for _ in 0..*size {
                let result = values.as_mut().and_then(Iterator::next);
                all.push(BatchItem {
                    index: all.len(),
                    status: chunk.status,
                    result,
                    error: chunk.error.clone(),
                });
            }
        }
        BatchResult {
            all,
            completion_reason: self.completion_reason,
        }
    }
}
