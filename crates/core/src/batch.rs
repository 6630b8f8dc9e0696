//! When a map or parallel is finished, and which item runs next.
//!
//! A [`Batch`] is told what happened to its items and answers what to do; it runs nothing, keeps no
//! results and knows no operation ids. [`Summary`] is what is stored in place of a result that is
//! too large.

mod summary;
#[cfg(test)]
mod tests;

pub use summary::{Kind, Recorded, Summary, Unreadable};

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::num::NonZeroUsize;
use serde::{Deserialize, Serialize};

/// What a batch waits for.
///
/// With no criterion at all the first failure ends it; setting any criterion takes that away.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Completion {
    /// Successes that are enough.
    pub min_successful: Option<u64>,
    /// Failures that are still fine.
    pub tolerated_failure_count: Option<u64>,
    /// Failures that are still fine, in percent (0 to 100) of all items, started or not.
    pub tolerated_failure_percentage: Option<f64>,
}

impl Completion {
    /// Every item must succeed; the first failure ends the batch. The default.
    pub const fn all_successful() -> Self {
        Self {
            min_successful: None,
            tolerated_failure_count: None,
            tolerated_failure_percentage: None,
        }
    }

    /// Every item runs to its end, whatever fails.
    pub const fn all_completed() -> Self {
        Self {
            tolerated_failure_percentage: Some(100.0),
            ..Self::all_successful()
        }
    }

    /// The first success is enough; failures do not end the batch.
    pub const fn first_successful() -> Self {
        Self::min_successful(1)
    }

    /// `count` successes are enough; failures do not end the batch.
    pub const fn min_successful(count: u64) -> Self {
        Self {
            min_successful: Some(count),
            ..Self::all_successful()
        }
    }

    /// Every item runs unless more than `count` fail.
    pub const fn tolerated_failures(count: u64) -> Self {
        Self {
            tolerated_failure_count: Some(count),
            ..Self::all_successful()
        }
    }

    /// Every item runs unless more than this percentage of all items fails.
    pub const fn tolerated_percentage(percentage: f64) -> Self {
        Self {
            tolerated_failure_percentage: Some(percentage),
            ..Self::all_successful()
        }
    }

    /// Refuses criteria that a batch of `total` items can never meet or that cannot be meant.
    ///
    /// # Errors
    /// Names the criterion and its value.
    pub fn validate(&self, total: u64) -> Result<(), InvalidCompletion> {
        match self.min_successful {
            Some(value) if value == 0 || value > total => {
                return Err(InvalidCompletion::MinSuccessful { value, total });
            }
            Some(_) | None => {}
        }
        match self.tolerated_failure_percentage {
            // A NaN is in no range.
            Some(value) if !(0.0..=100.0).contains(&value) => {
                Err(InvalidCompletion::ToleratedPercentage { value })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Why a batch with these counts is over, or `None` while it is not.
    ///
    /// Depends on the counts alone, so on no order of arrival.
    pub fn verdict(&self, counts: Counts) -> Option<CompletionReason> {
        if self.tolerance_exceeded(counts) {
            Some(CompletionReason::FailureToleranceExceeded)
        } else if counts.all_finished() {
            Some(CompletionReason::AllCompleted)
        } else if self.min_successful.is_some_and(|n| counts.succeeded >= n) {
            Some(CompletionReason::MinSuccessfulReached)
        } else {
            None
        }
    }

    fn tolerance_exceeded(&self, counts: Counts) -> bool {
        if *self == Self::all_successful() {
            return counts.failed > 0;
        }
        self.tolerated_failure_count
            .is_some_and(|tolerated| counts.failed > tolerated)
            || self
                .tolerated_failure_percentage
                .is_some_and(|tolerated| counts.failed_percentage() > tolerated)
    }
}

/// Why a [`Completion`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCompletion {
    /// No batch of this size can have that many successes, or none are asked for.
    #[error("min_successful is {value}, allowed is 1 to {total}, the number of items")]
    MinSuccessful {
        /// What was asked for.
        value: u64,
        /// Items in the batch.
        total: u64,
    },
    /// Not a percentage.
    #[error("tolerated_failure_percentage is {value}, allowed is 0 to 100")]
    ToleratedPercentage {
        /// What was asked for.
        value: f64,
    },
}

/// How many items there are and how many have finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items in the batch, started or not.
    pub total: u64,
    /// Items that succeeded.
    pub succeeded: u64,
    /// Items that failed.
    pub failed: u64,
}

impl Counts {
    /// Whether nothing is left to finish.
    pub const fn all_finished(self) -> bool {
        self.succeeded.saturating_add(self.failed) >= self.total
    }

    /// Multiplies before it divides: a whole percentage is then exact, and equality is tolerated.
    fn failed_percentage(self) -> f64 {
        if self.failed == 0 {
            return 0.0;
        }
        100.0 * self.failed as f64 / self.total as f64
    }
}

/// Why a batch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CompletionReason {
    /// Every item finished.
    AllCompleted,
    /// Enough items succeeded.
    MinSuccessfulReached,
    /// More items failed than is tolerated.
    FailureToleranceExceeded,
    /// The caller's own rule ended it as a success.
    #[serde(alias = "PREDICATE_MATCHED")]
    CustomCompletionSucceeded,
    /// The caller's own rule ended it as a failure.
    CustomCompletionFailed,
}

/// What the caller's own rule says about the batch as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Custom {
    /// Go on.
    #[default]
    Continue,
    /// The batch is over and succeeded.
    Succeed,
    /// The batch is over and failed.
    Fail,
}

/// Who decides when a batch is over. The two exclude each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Thresholds.
    Thresholds(Completion),
    /// The caller, through [`Batch::judge`]; failures alone never end the batch.
    Custom,
}

/// Where an item that was started is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ItemStatus {
    /// Finished with a result.
    Succeeded,
    /// Finished with an error.
    Failed,
    /// Not finished.
    Started,
}

/// An item as the batch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// Holds no slot: not started, or started by an earlier invocation and not yet by this one.
    Idle,
    /// Holds a slot until it finishes, also while it is suspended.
    InFlight,
    /// Finished with a result.
    Succeeded,
    /// Finished with an error.
    Failed,
}

/// The decisions of one map or parallel.
///
/// ```
/// use outlast_core::batch::{Batch, Completion, CompletionReason, Rule};
///
/// let mut batch = Batch::new(3, None, Rule::Thresholds(Completion::first_successful()));
/// while batch.next_to_start().is_some() {}
/// batch.finish(2, false);
/// assert_eq!(batch.verdict(), None);
/// batch.finish(0, true);
/// assert_eq!(batch.verdict(), Some(CompletionReason::MinSuccessfulReached));
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    items: Vec<Item>,
    max_concurrency: usize,
    rule: Rule,
    /// Admitted before any other item.
    resumed: VecDeque<usize>,
    /// Every item below has had its turn in index order.
    cursor: usize,
    /// Items start in index order, so the started ones are exactly those below.
    started_below: usize,
    in_flight: usize,
    counts: Counts,
    /// Set once and kept: what finishes later changes statuses, not the reason.
    reason: Option<CompletionReason>,
}

impl Batch {
    /// A batch of `total` items of which none has started; no `max_concurrency` means no bound.
    ///
    /// The rule is taken as it is: [`Completion::validate`] belongs before the first checkpoint.
    pub fn new(total: usize, max_concurrency: Option<NonZeroUsize>, rule: Rule) -> Self {
        let mut batch = Self {
            items: vec![Item::Idle; total],
            max_concurrency: max_concurrency.map_or(usize::MAX, NonZeroUsize::get),
            rule,
            resumed: VecDeque::new(),
            cursor: 0,
            started_below: 0,
            in_flight: 0,
            counts: Counts {
                total: total as u64,
                ..Counts::default()
            },
            reason: None,
        };
        batch.apply_thresholds();
        batch
    }

    /// Names items that earlier invocations left traces of; they are admitted before all others,
    /// in the order given. Indexes outside the batch are ignored.
    ///
    /// Whatever lies below a named index was started too, even if it left no trace: an item may
    /// have been interrupted before its first checkpoint.
    pub fn resume(&mut self, started: impl IntoIterator<Item = usize>) {
        let total = self.items.len();
        for index in started.into_iter().filter(|index| *index < total) {
            self.resumed.push_back(index);
            self.started_below = self.started_below.max(index + 1);
        }
    }

    /// The item to start now, which holds a slot from here on; `None` when the batch is over,
    /// every slot is taken or every item has started.
    pub fn next_to_start(&mut self) -> Option<usize> {
        if self.verdict().is_some() || self.in_flight >= self.max_concurrency {
            return None;
        }
        loop {
            let index = self.resumed.pop_front().unwrap_or_else(|| {
                self.cursor += 1;
                self.cursor - 1
            });
            // Past the end: nothing is left. A named index is always inside.
            let Some(item) = self.items.get_mut(index) else {
                self.cursor = self.items.len();
                return None;
            };
            if *item == Item::Idle {
                *item = Item::InFlight;
                self.in_flight += 1;
                self.started_below = self.started_below.max(index + 1);
                return Some(index);
            }
        }
    }

    /// Records how an item ended. Whether it was news: an item that never started or has already
    /// finished changes nothing.
    pub fn finish(&mut self, index: usize, ok: bool) -> bool {
        let started = index < self.started_below;
        let Some(item) = self.items.get_mut(index).filter(|_| started) else {
            return false;
        };
        match item {
            Item::Succeeded | Item::Failed => return false,
            Item::InFlight => self.in_flight -= 1,
            Item::Idle => {}
        }
        if ok {
            *item = Item::Succeeded;
            self.counts.succeeded += 1;
        } else {
            *item = Item::Failed;
            self.counts.failed += 1;
        }
        self.apply_thresholds();
        true
    }

    /// Applies what the caller's own rule says; to be asked once before the first item starts and
    /// after every change. Only a batch under [`Rule::Custom`] listens.
    pub fn judge(&mut self, custom: Custom) {
        if self.rule != Rule::Custom || self.reason.is_some() {
            return;
        }
        self.reason = match custom {
            Custom::Succeed => Some(CompletionReason::CustomCompletionSucceeded),
            Custom::Fail => Some(CompletionReason::CustomCompletionFailed),
            Custom::Continue => self.verdict(),
        };
    }

    /// Why the batch is over, or `None` while it is not.
    pub fn verdict(&self) -> Option<CompletionReason> {
        // A custom rule that never spoke must not keep a finished batch waiting.
        self.reason.or(self
            .counts
            .all_finished()
            .then_some(CompletionReason::AllCompleted))
    }

    /// How the batch as a whole ended, or `None` while it has not.
    pub fn status(&self) -> Option<BatchStatus> {
        self.verdict()
            .map(|reason| BatchStatus::of(reason, self.counts.failed))
    }

    /// Items in all and finished ones.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Items that hold a slot.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The started items' statuses in index order, from item 0; items that never started are left
    /// out.
    pub fn statuses(&self) -> impl ExactSizeIterator<Item = ItemStatus> {
        self.items
            .iter()
            .take(self.started_below)
            .map(|item| match item {
                Item::Idle | Item::InFlight => ItemStatus::Started,
                Item::Succeeded => ItemStatus::Succeeded,
                Item::Failed => ItemStatus::Failed,
            })
    }

    fn apply_thresholds(&mut self) {
        if let (Rule::Thresholds(completion), None) = (self.rule, self.reason) {
            self.reason = completion.verdict(self.counts);
        }
    }
}

/// How a batch as a whole ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BatchStatus {
    /// No item failed, or the caller's own rule says so.
    Succeeded,
    /// Some item failed, or the caller's own rule says so.
    Failed,
}

impl BatchStatus {
    /// The status that goes with a reason and a number of failed items.
    pub const fn of(reason: CompletionReason, failed: u64) -> Self {
        match reason {
            CompletionReason::CustomCompletionSucceeded => Self::Succeeded,
            CompletionReason::CustomCompletionFailed => Self::Failed,
            CompletionReason::AllCompleted
            | CompletionReason::MinSuccessfulReached
            | CompletionReason::FailureToleranceExceeded => {
                if failed == 0 {
                    Self::Succeeded
                } else {
                    Self::Failed
                }
            }
        }
    }
}
