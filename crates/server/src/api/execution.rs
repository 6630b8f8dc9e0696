//! The service's operations on an execution: checkpoint, state, get, history, stop.

use super::{Api, Asked, flag, number};
use crate::{
    answer::{Answered, json, operations},
    error::ApiError,
    route::{ExecutionAction, Query},
};
use hyper::StatusCode;
use outlast_core::{
    Rejection,
    arn::{ExecutionArn, ExecutionId},
    limits::CHECKPOINT_TOKEN_LENGTH_MAX,
    time::{Timestamp, epoch_seconds},
    wire::{CheckpointRequest, ErrorObject},
};
use outlast_engine::HistoryPart;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Stopped {
    #[serde(with = "epoch_seconds")]
    stop_timestamp: Timestamp,
}

impl Api {
    pub(super) async fn execution(
        &self,
        arn: &str,
        action: ExecutionAction,
        asked: &Asked<'_>,
    ) -> Answered {
        match action {
            ExecutionAction::Checkpoint => {
                let execution = writable(arn)?;
                let request: CheckpointRequest = asked.json()?;
                operations(&self.engine.checkpoint(execution, request).await?)
            }
            ExecutionAction::State => self.state(arn, asked.query).await,
            ExecutionAction::Get => {
                let include_data = flag(asked.query, "IncludeExecutionData")?.unwrap_or(true);
                let execution = self.known(arn).await?;
                let description = self.engine.describe(execution, include_data).await?;
                json(StatusCode::OK, &description)
            }
            ExecutionAction::History => self.history(arn, asked.query).await,
            ExecutionAction::Stop => {
                let error: ErrorObject = asked.json()?;
                let execution = self.known(arn).await?;
                let stop_timestamp = self.engine.stop(execution, Some(error)).await?;
                json(StatusCode::OK, &Stopped { stop_timestamp })
            }
        }
    }

    async fn state(&self, arn: &str, query: Query<'_>) -> Answered {
        let execution = writable(arn)?;
        let token = query.get("CheckpointToken")?;
        let token = token.ok_or_else(|| ApiError::validation("CheckpointToken is missing"))?;
        if token.len() > CHECKPOINT_TOKEN_LENGTH_MAX {
            return Err(ApiError::validation("CheckpointToken is too long"));
        }
        let marker = query.get("Marker")?.map(Into::into);
        let max_items = number(query, "MaxItems")?;
        let page = self
            .engine
            .state(execution, token.into(), marker, max_items);
        operations(&page.await?)
    }

    async fn history(&self, arn: &str, query: Query<'_>) -> Answered {
        let part = HistoryPart {
            marker: query.get("Marker")?.map(Into::into),
            max_items: number(query, "MaxItems")?,
            reverse_order: flag(query, "ReverseOrder")?.unwrap_or(false),
            omit_data: !flag(query, "IncludeExecutionData")?.unwrap_or(true),
        };
        let execution = self.known(arn).await?;
        json(StatusCode::OK, &self.engine.history(execution, part).await?)
    }

    /// The execution with this ARN, which must exist.
    pub(super) async fn known(&self, arn: &str) -> Result<ExecutionId, ApiError> {
        let _: ExecutionArn = parse(arn)?;
        Ok(self.engine.identify(arn).await?)
    }
}

/// The execution that a handler writes to. That it exists is seen from the token.
pub(super) fn writable(arn: &str) -> Result<ExecutionId, ApiError> {
    parse(arn)?
        .execution_id()
        .ok_or_else(|| Rejection::stale_token("there is no such execution").into())
}

fn parse(arn: &str) -> Result<ExecutionArn, ApiError> {
    arn.parse()
        .map_err(|rejection: Rejection| ApiError::validation(rejection.message))
}
