//! Polling: start an export in somebody else's system, ask now and then until it is done, and fetch
//! the file. Between two questions nothing runs.

use outlast::{Context, Error, ErrorKind, Function, Result, WaitStrategy};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub table: String,
    /// How much of it each question finds done, in percent: how fast the other system is.
    pub percent_per_check: u32,
}

/// Where an export stands; recorded between two questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Progress {
    Running { percent: u32 },
    Done { file: String },
    Failed { reason: String },
}

/// The durable function, ready for any home.
pub fn function() -> Function {
    Function::new("export", export)
}

/// The handler: gives the text of the exported file.
pub async fn export(ctx: Context, request: Request) -> Result<String> {
    let id: String = ctx
        .step("start", async |step| {
            exporter::start(&request.table, &step.idempotency_key()).await
        })
        .await?;

    let progress = ctx
        .wait_for_condition(
            "export",
            Progress::Running { percent: 0 },
            async |progress, _| exporter::progress(&id, progress, request.percent_per_check).await,
            // After 30 s, then half as long again each time, up to 10 min; 12 questions in all.
            WaitStrategy::until(|progress| !matches!(progress, Progress::Running { .. }))
                .initial_delay(Duration::from_secs(30))
                .backoff_rate(1.5)
                .max_delay(Duration::from_secs(600))
                .max_attempts(12),
        )
        .await;

    match progress {
        Ok(Progress::Done { file }) => {
            ctx.step("fetch", async |_| exporter::fetch(&file).await)
                .await
        }
        Ok(Progress::Failed { reason }) => Err(Error::new("ExportFailed", reason)),
        // Not done after the last question, or a question went wrong: leave nothing running there.
        Ok(Progress::Running { .. }) | Err(_) => {
            ctx.step("cancel", async |_| exporter::cancel(&id).await)
                .await?;
            Err(match progress.err() {
                Some(error) if error.kind() == ErrorKind::Condition => error,
                _ => Error::new("ExportUnfinished", "the export ended undecided"),
            })
        }
    }
}

/// Stands in for the other system. Its progress depends on the recorded one, so that a question
/// that is asked twice gets the same answer twice.
mod exporter {
    use super::Progress;

    pub async fn start(table: &str, _idempotency_key: &str) -> Result<String, std::io::Error> {
        Ok(format!("export-of-{table}"))
    }

    pub async fn progress(
        id: &str,
        before: Progress,
        percent_per_check: u32,
    ) -> Result<Progress, std::io::Error> {
        let percent = match before {
            Progress::Running { percent } => percent + percent_per_check,
            Progress::Done { .. } | Progress::Failed { .. } => 100,
        };
        Ok(match percent {
            _ if id.ends_with("locked") && percent > 50 => Progress::Failed {
                reason: "the table is locked".to_owned(),
            },
            ..100 => Progress::Running { percent },
            _ => Progress::Done {
                file: format!("{id}.csv"),
            },
        })
    }

    pub async fn fetch(file: &str) -> Result<String, std::io::Error> {
        Ok(format!("contents of {file}"))
    }

    pub async fn cancel(_id: &str) -> Result<(), std::io::Error> {
        Ok(())
    }
}
