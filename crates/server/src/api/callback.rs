//! Answers to callbacks and signs of life. The id alone says which execution is meant.

use super::{Api, json};
use crate::{
    answer::{Answered, raw},
    error::ApiError,
    route::CallbackAction,
};
use bytes::Bytes;
use hyper::StatusCode;
use outlast_core::{delivery::Arrival, wire::Payload};

impl Api {
    pub(super) async fn callback(
        &self,
        callback_id: &str,
        action: CallbackAction,
        body: Bytes,
    ) -> Answered {
        let id = callback_id.into();
        let arrival = match action {
            CallbackAction::Succeed => Arrival::CallbackSucceeded {
                callback_id: id,
                result: payload(&body)?,
            },
            CallbackAction::Fail => Arrival::CallbackFailed {
                callback_id: id,
                error: json(&body)?,
            },
            CallbackAction::Heartbeat => Arrival::CallbackHeartbeat { callback_id: id },
        };
        self.engine.callback(callback_id, arrival).await?;
        Ok(raw(StatusCode::OK, "{}"))
    }
}

/// Bytes as a payload; none are no payload.
pub(super) fn payload(body: &[u8]) -> Result<Option<Payload>, ApiError> {
    if body.is_empty() {
        return Ok(None);
    }
    match std::str::from_utf8(body) {
        Ok(text) => Ok(Some(text.into())),
        Err(_) => Err(ApiError::invalid("the body is not UTF-8")),
    }
}
