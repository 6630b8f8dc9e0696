//! The clock of a server that is tested: it stands still while an execution only waits, until
//! somebody skips to what it waits for.

use super::Api;
use crate::{
    answer::{Answered, json},
    error::ApiError,
    route::Query,
};
use hyper::StatusCode;
use outlast_core::time::Timestamp;
use outlast_engine::clock::TestClock;
use serde::Serialize;

/// What time it is, and what an execution makes of it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Clock {
    now_millis: u64,
    /// What tells this moment from any other of the execution's life.
    version: u64,
    /// Nobody works on it, and nobody is about to.
    resting: bool,
    /// When it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_millis: Option<u64>,
}

impl Api {
    pub(super) async fn clock(&self, arn: &str) -> Answered {
        self.test_clock()?;
        let execution = self.known(arn).await?;
        let resting = self.engine.resting(execution).await?;
        let clock = Clock {
            now_millis: self.engine.now().as_millis(),
            version: resting.records,
            resting: resting.is_resting,
            wake_millis: resting.wake.map(Timestamp::as_millis),
        };
        json(StatusCode::OK, &clock)
    }

    /// Moves the clock, unless something has happened to the execution since the caller looked.
    pub(super) async fn skip(&self, arn: &str, query: Query<'_>) -> Answered {
        let clock = self.test_clock()?;
        let execution = self.known(arn).await?;
        let (version, until) = (millis(query, "Version")?, millis(query, "Until")?);
        let resting = self.engine.resting(execution).await?;
        if resting.is_resting && resting.records == version {
            clock.skip_to(Timestamp::from_millis(until));
            self.engine.time_has_passed();
        }
        self.clock(arn).await
    }

    fn test_clock(&self) -> Result<&TestClock, ApiError> {
        let missing = || ApiError::not_found("the server was not started with --test-clock");
        self.options.test_clock.as_deref().ok_or_else(missing)
    }
}

fn millis(query: Query<'_>, name: &str) -> Result<u64, ApiError> {
    let text = query.get(name)?;
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| ApiError::validation(format!("{name} must be a number")))
}
