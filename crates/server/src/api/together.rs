//! Checkpoints of several executions in one request, for workers that run many: a line of JSON each,
//! and a line of JSON each in the answer, in the same order. What one is refused is no other's.

use super::{Api, execution::writable, json};
use crate::{
    answer::{Answered, raw, write_operations},
    error::ApiError,
};
use futures_util::future::join_all;
use hyper::StatusCode;
use outlast_core::wire::{CheckpointRequest, CheckpointResponse};
use serde::{Deserialize, Serialize};

/// Checkpoints of one request.
const TOGETHER_MAX: usize = 128;
/// Room for a line of the answer.
const LINE_BYTES: usize = 1_024;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct One {
    durable_execution_arn: Box<str>,
    checkpoint: CheckpointRequest,
}

/// What became of one.
#[derive(Serialize)]
enum Became<'a> {
    Answer(&'a CheckpointResponse),
    Refused(Refused<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Refused<'a> {
    status: u16,
    exception: &'a str,
    message: &'a str,
}

impl Api {
    pub(super) async fn checkpoints(&self, body: &[u8]) -> Answered {
        let lines: Vec<&[u8]> = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        if lines.len() > TOGETHER_MAX {
            let message = format!(
                "{} checkpoints came together, {TOGETHER_MAX} may",
                lines.len()
            );
            return Err(ApiError::validation(message));
        }
        let answers = join_all(lines.iter().map(|line| self.one(line))).await;
        let mut bytes = Vec::with_capacity(answers.len() * LINE_BYTES);
        for answer in &answers {
            let became = match answer {
                Ok(response) => Became::Answer(response),
                Err(error) => Became::Refused(Refused {
                    status: error.status,
                    exception: error.name,
                    message: &error.message,
                }),
            };
            write_operations(&mut bytes, &became)?;
            bytes.push(b'\n');
        }
        Ok(raw(StatusCode::OK, bytes))
    }

    async fn one(&self, line: &[u8]) -> Result<CheckpointResponse, ApiError> {
        let One {
            durable_execution_arn,
            checkpoint,
        } = json(line)?;
        let execution = writable(&durable_execution_arn)?;
        Ok(self.engine.checkpoint(execution, checkpoint).await?)
    }
}
