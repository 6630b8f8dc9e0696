//! An execution as callers of the API see it.

use crate::{
    error::Rejection,
    execution::Execution,
    record::Load,
    time::{Timestamp, epoch_seconds},
    wire::{DurableConfig, ErrorObject, ExecutionStatus, Payload},
};
use alloc::{string::String, string::ToString as _, sync::Arc};
use serde::{Deserialize, Serialize};

/// The answer to GetDurableExecution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Description {
    /// Its ARN.
    pub durable_execution_arn: Arc<str>,
    /// Its name.
    pub durable_execution_name: Arc<str>,
    /// The function's ARN, qualified with the version that runs.
    pub function_arn: String,
    /// The version that runs.
    pub version: Arc<str>,
    /// Where it is in its life.
    pub status: ExecutionStatus,
    /// When it started.
    #[serde(with = "epoch_seconds")]
    pub start_timestamp: Timestamp,
    /// When it ended.
    #[serde(
        default,
        with = "epoch_seconds::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub end_timestamp: Option<Timestamp>,
    /// Its input, if data was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_payload: Option<Payload>,
    /// Its result, if data was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Its error, if data was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
    /// The settings it started with.
    pub durable_config: DurableConfig,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_header: Option<TraceHeader>,
    /// Whether data was asked for.
    pub execution_data_included: bool,
}

/// The trace an execution belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TraceHeader {
    /// The header's text.
    pub x_amzn_trace_id: String,
}

/// One entry of a list of executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Summary {
    /// Its ARN.
    pub durable_execution_arn: Arc<str>,
    /// Its name.
    pub durable_execution_name: Arc<str>,
    /// The function's ARN, qualified with the version that runs.
    pub function_arn: String,
    /// Where it is in its life.
    pub status: ExecutionStatus,
    /// When it started.
    #[serde(with = "epoch_seconds")]
    pub start_timestamp: Timestamp,
    /// When it ended.
    #[serde(
        default,
        with = "epoch_seconds::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub end_timestamp: Option<Timestamp>,
    /// Key the account encrypts with.
    #[serde(rename = "KMSKeyArn", default, skip_serializing_if = "Option::is_none")]
    pub kms_key_arn: Option<String>,
}

impl Execution {
    /// The answer to GetDurableExecution, with or without payloads.
    ///
    /// # Errors
    /// When a payload is not in memory and `load` does not find its record.
    pub fn describe(&self, include_data: bool, load: Load<'_>) -> Result<Description, Rejection> {
        let summary = self.summary();
        let input = self.held_input().filter(|_| include_data);
        let result = self.result.as_ref().filter(|_| include_data);
        let error = self.error.as_ref().filter(|_| include_data);
        Ok(Description {
            durable_execution_arn: summary.durable_execution_arn,
            durable_execution_name: summary.durable_execution_name,
            function_arn: summary.function_arn,
            version: self.profile.arn.function.version.clone(),
            status: self.status,
            start_timestamp: self.started,
            end_timestamp: self.ended,
            input_payload: input.map(|input| input.read(load)).transpose()?,
            result: result.map(|result| result.read(load)).transpose()?,
            error: error
                .map(|error| error.read(load).map(|error| (*error).clone()))
                .transpose()?,
            durable_config: self.profile.config.clone(),
            trace_header: self.profile.trace.clone().map(|trace| TraceHeader {
                x_amzn_trace_id: trace,
            }),
            execution_data_included: include_data,
        })
    }

    /// Its entry in a list.
    pub fn summary(&self) -> Summary {
        Summary {
            durable_execution_arn: self.arn_text.clone(),
            durable_execution_name: self.profile.arn.name.clone(),
            function_arn: self.profile.arn.function.to_string(),
            status: self.status,
            start_timestamp: self.started,
            end_timestamp: self.ended,
            kms_key_arn: self.profile.config.kms_key_arn.clone(),
        }
    }
}
