//! What the batch suites return of a batch: some of its numbers, by name.

use outlast::BatchResult;
use serde_json::{Value, json};

/// Why it ended, how, and all its counts.
pub(crate) fn outcome<T>(batch: &BatchResult<T>) -> Value {
    json!({
        "completionReason": batch.completion_reason(),
        "status": batch.status(),
        "successCount": batch.success_count(),
        "failureCount": batch.failure_count(),
        "totalCount": batch.total_count(),
    })
}

/// Why it ended, and all its counts.
pub(crate) fn reason_and_counts<T>(batch: &BatchResult<T>) -> Value {
    json!({
        "completionReason": batch.completion_reason(),
        "successCount": batch.success_count(),
        "failureCount": batch.failure_count(),
        "totalCount": batch.total_count(),
    })
}

/// Why it ended, and how many succeeded of how many that started.
pub(crate) fn reason_and_successes<T>(batch: &BatchResult<T>) -> Value {
    json!({
        "completionReason": batch.completion_reason(),
        "successCount": batch.success_count(),
        "totalCount": batch.total_count(),
    })
}

/// How many succeeded of how many that started.
pub(crate) fn successes<T>(batch: &BatchResult<T>) -> Value {
    json!({ "successCount": batch.success_count(), "totalCount": batch.total_count() })
}

/// What the accessors give.
pub(crate) fn accessors<T>(batch: &BatchResult<T>) -> Value {
    json!({
        "hasFailure": batch.has_failure(),
        "successCount": batch.succeeded().count(),
        "failureCount": batch.failed().count(),
        "errorCount": batch.errors().count(),
    })
}
