//! The stored decision of a batch whose result is too large to be stored itself.
//!
//! Knows the forms of all official SDKs; says nothing about how results are rebuilt from it.

use super::{Batch, BatchStatus, CompletionReason, ItemStatus};
use crate::limits::PAYLOAD_BYTES_MAX;
use alloc::{string::String, vec, vec::Vec};
use serde::{Deserialize, Serialize};

/// Which operation a summary belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// A map.
    #[serde(rename = "MapResult")]
    Map,
    /// A parallel.
    #[serde(rename = "ParallelResult")]
    Parallel,
}

/// What a summary says about one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Finished with a result.
    Succeeded,
    /// Finished with an error.
    Failed,
    /// Finished; the writer left the outcome to the item's own record.
    Finished,
    /// Started and not finished.
    Started,
    /// Not finished; the writer does not tell whether it was started.
    Unfinished,
}

/// The decision of a batch, stored when its result is too large to be stored itself.
///
/// Replay takes it verbatim and rebuilds the results from the items' own records. Written in one
/// form, read in those of all official SDKs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Items that were started (Java: all items).
    pub total_count: u64,
    /// Why the batch was over.
    pub completion_reason: CompletionReason,
    /// How the batch ended, where the writer says so.
    pub status: Option<BatchStatus>,
    /// What became of each item, from item 0; `None` in summaries that predate item data.
    pub items: Option<Vec<Recorded>>,
    /// What the program's own summary function said.
    pub summary: Option<String>,
}

impl Summary {
    /// The summary of a finished batch as JSON text; `None` while it is not finished.
    ///
    /// `summary` is the program's own text. Should the text outgrow what a payload may hold, the
    /// index list is left out: it repeats what the item statuses say, for other SDKs.
    pub fn write(batch: &Batch, kind: Kind, summary: Option<&str>) -> Option<String> {
        let counts = batch.counts();
        let (mut started, mut completed) = (Vec::new(), Vec::new());
        let mut item_statuses = String::new();
        for (index, status) in batch.statuses().enumerate() {
            let (list, letter) = match status {
                ItemStatus::Succeeded => (&mut completed, 'S'),
                ItemStatus::Failed => (&mut completed, 'F'),
                ItemStatus::Started => (&mut started, '-'),
            };
            list.push(index as u64);
            item_statuses.push(letter);
        }
        let started_count = started.len() as u64;
        let shorter_is_started = started.len() <= completed.len();
        let mut written = Written {
            kind,
            total_count: item_statuses.len() as u64,
            completion_reason: batch.verdict()?,
            started_indexes: shorter_is_started.then_some(started),
            completed_indexes: (!shorter_is_started).then_some(completed),
            started_count,
            success_count: counts.succeeded,
            failure_count: counts.failed,
            status: batch.status()?,
            item_statuses,
            summary,
        };
        let text = serde_json::to_string(&written).ok()?;
        if text.len() <= PAYLOAD_BYTES_MAX {
            return Some(text);
        }
        written.started_indexes = None;
        written.completed_indexes = None;
        serde_json::to_string(&written).ok()
    }

    /// Reads a summary that any of the SDKs wrote.
    ///
    /// # Errors
    /// When the text is no summary or contradicts itself.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let found: Found = serde_json::from_str(text)?;
        let listed = found.items.as_ref().map(|items| items.len() as u64);
        let total_count = found
            .total_count
            .or(found.size)
            .or(listed)
            .ok_or(Unreadable::Missing("totalCount"))?;
        Ok(Self {
            total_count,
            completion_reason: found
                .completion_reason
                .ok_or(Unreadable::Missing("completionReason"))?,
            status: found.status,
            items: found.recorded(total_count)?,
            summary: found
                .summary
                .as_ref()
                .and_then(|s| s.as_str())
                .map(Into::into),
        })
    }
}

/// Why a stored summary cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not JSON, or fields of the wrong kind.
    #[error("batch summary is not in a known form")]
    Form(#[from] serde_json::Error),
    /// A field without which no result can be rebuilt.
    #[error("batch summary has no {0}")]
    Missing(&'static str),
    /// An item status that is none of `S`, `F` and `-`.
    #[error("batch summary has the unknown item status {0:?}")]
    Status(char),
    /// More items than any summary can describe.
    #[error("batch summary counts {0} items, the most is {PAYLOAD_BYTES_MAX}")]
    Items(u64),
    /// An index that is not below the number of items.
    #[error("batch summary names item {index} of {total}")]
    Index {
        /// The index.
        index: u64,
        /// Items in the summary.
        total: u64,
    },
    /// Index list and item statuses disagree.
    #[error("batch summary has item statuses that contradict its index list")]
    Contradiction,
}

/// The form we write.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    total_count: u64,
    completion_reason: CompletionReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_indexes: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_indexes: Option<Vec<u64>>,
    started_count: u64,
    success_count: u64,
    failure_count: u64,
    status: BatchStatus,
    item_statuses: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

/// Every field that some SDK writes and that replay needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    total_count: Option<u64>,
    /// Java's name for the number of branches.
    size: Option<u64>,
    #[serde(alias = "completionStatus")]
    completion_reason: Option<CompletionReason>,
    status: Option<BatchStatus>,
    started_indexes: Option<Vec<u64>>,
    completed_indexes: Option<Vec<u64>>,
    item_statuses: Option<String>,
    /// Java stores the whole result with its values nulled.
    items: Option<Vec<FoundItem>>,
    /// A string by contract, but nothing depends on it.
    summary: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct FoundItem {
    status: FoundStatus,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum FoundStatus {
    Succeeded,
    Failed,
    Started,
    #[serde(alias = "NOT_STARTED")]
    Skipped,
}

impl Found {
    fn recorded(&self, total: u64) -> Result<Option<Vec<Recorded>>, Unreadable> {
        let by_index = self.by_index(total)?;
        let Some(letters) = &self.item_statuses else {
            return Ok(by_index.or_else(|| self.by_item()));
        };
        let items = by_letter(letters, total)?;
        let finished = |item: &Recorded| !matches!(item, Recorded::Started | Recorded::Unfinished);
        match by_index {
            Some(other) if !other.iter().map(finished).eq(items.iter().map(finished)) => {
                Err(Unreadable::Contradiction)
            }
            Some(_) | None => Ok(Some(items)),
        }
    }

    /// Python and Rust name the unfinished items or the finished ones, whichever are fewer.
    fn by_index(&self, total: u64) -> Result<Option<Vec<Recorded>>, Unreadable> {
        let (indexes, named, others) = match (&self.started_indexes, &self.completed_indexes) {
            (Some(started), _) => (started, Recorded::Started, Recorded::Finished),
            (None, Some(completed)) => (completed, Recorded::Finished, Recorded::Started),
            (None, None) => return Ok(None),
        };
        // The list may be short and the count anything: do not allocate what a payload claims.
        let length = usize::try_from(total)
            .ok()
            .filter(|length| *length <= PAYLOAD_BYTES_MAX)
            .ok_or(Unreadable::Items(total))?;
        let mut items = vec![others; length];
        for &index in indexes {
            let item = usize::try_from(index).ok().and_then(|i| items.get_mut(i));
            *item.ok_or(Unreadable::Index { index, total })? = named;
        }
        Ok(Some(items))
    }

    fn by_item(&self) -> Option<Vec<Recorded>> {
        let recorded = |item: &FoundItem| match item.status {
            FoundStatus::Succeeded => Recorded::Succeeded,
            FoundStatus::Failed => Recorded::Failed,
            FoundStatus::Started => Recorded::Started,
            FoundStatus::Skipped => Recorded::Unfinished,
        };
        Some(self.items.as_ref()?.iter().map(recorded).collect())
    }
}

/// One letter per index. As many letters as started items means that every `-` was started.
fn by_letter(letters: &str, total: u64) -> Result<Vec<Recorded>, Unreadable> {
    let all_started = letters.len() as u64 == total;
    let recorded = |letter| match letter {
        'S' => Ok(Recorded::Succeeded),
        'F' => Ok(Recorded::Failed),
        '-' if all_started => Ok(Recorded::Started),
        '-' => Ok(Recorded::Unfinished),
        other => Err(Unreadable::Status(other)),
    };
    letters.chars().map(recorded).collect()
}
