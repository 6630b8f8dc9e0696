//! What functions print: read from, and added to, the lines that are kept in memory.

use super::{Api, Asked, number};
use crate::{
    answer::{Answered, empty, json},
    catalogue::reference,
    error::ApiError,
    host::process::{Line, LineSink as _, Stream},
    logs::{Kept, LINES_MAX},
    route::{LogAction, Query},
};
use hyper::StatusCode;
use outlast_core::arn::LATEST;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Lines of an answer unless it is asked for another number.
const LINES_DEFAULT: u32 = 100;
/// Lines that may be added at once.
const ADDED_MAX: usize = 1_000;
/// Seconds that a request may wait for a line.
const WAIT_SECONDS_MAX: u32 = 60;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    lines: Vec<Kept>,
    /// The number to ask for what follows.
    last: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Added {
    #[serde(default)]
    lines: Vec<AddedLine>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AddedLine {
    #[serde(default)]
    process: u32,
    stream: Stream,
    text: String,
}

impl Api {
    pub(super) async fn logs(&self, name: &str, action: LogAction, asked: &Asked<'_>) -> Answered {
        let function = reference(name, None)?;
        let entry = self.catalogue.get(&function)?;
        let qualifier = function.qualifier.as_deref().unwrap_or(LATEST);
        let function = entry.find(qualifier)?.function();
        match action {
            LogAction::Read => self.read_logs(&function.name, asked.query).await,
            LogAction::Add => {
                let added: Added = asked.json()?;
                if added.lines.len() > ADDED_MAX {
                    let message = format!("Lines may have {ADDED_MAX} entries at most");
                    return Err(ApiError::validation(message));
                }
                for line in &added.lines {
                    self.options.logs.line(Line {
                        function,
                        process: line.process,
                        stream: line.stream,
                        text: &line.text,
                    });
                }
                Ok(empty(StatusCode::NO_CONTENT))
            }
        }
    }

    async fn read_logs(&self, function: &str, query: Query<'_>) -> Answered {
        let max = number(query, "MaxItems")?.unwrap_or(LINES_DEFAULT) as usize;
        if !(1..=LINES_MAX).contains(&max) {
            let message = format!("MaxItems must be 1 to {LINES_MAX}");
            return Err(ApiError::validation(message));
        }
        let seconds = number(query, "WaitSeconds")?.unwrap_or_default();
        if seconds > WAIT_SECONDS_MAX {
            let message = format!("WaitSeconds must be 0 to {WAIT_SECONDS_MAX}");
            return Err(ApiError::validation(message));
        }
        let after = query.get("After")?.map(|after| after.parse::<u64>());
        let after = after.transpose();
        let after = after.map_err(|_| ApiError::validation("After must be a line's number"))?;
        let logs = &self.options.logs;
        if let Some(after) = after
            && seconds > 0
        {
            let limit = Duration::from_secs(seconds.into());
            let _ = tokio::time::timeout(limit, logs.grown(function, after)).await;
        }
        // Read first: whatever is printed in between is asked for the next time.
        let newest = logs.newest();
        let lines = logs.read(function, after, max);
        let last = lines.last().map_or(newest, |line| line.number);
        json(StatusCode::OK, &Page { lines, last })
    }
}
