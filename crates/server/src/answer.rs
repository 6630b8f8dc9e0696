//! Answers: bodies in the service's JSON, and the headers its clients look for.

use crate::error::ApiError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use serde_json::{
    Serializer,
    ser::{CompactFormatter, Formatter},
};
use std::io;

/// A whole answer.
pub(crate) type Answer = Response<Full<Bytes>>;

/// An answer, or a refusal that becomes one.
pub(crate) type Answered = Result<Answer, ApiError>;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Seconds after which a throttled client may try again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// How a client may say who it is.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
/// What Prometheus reads.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
/// Most answers fit into this without growing.
const BODY_BYTES: usize = 1_024;

/// An answer with these bytes as its body.
pub(crate) fn raw(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// An answer that Prometheus reads.
pub(crate) fn metrics(text: String) -> Answer {
    let mut answer = raw(StatusCode::OK, text);
    answer.headers_mut().insert(CONTENT_TYPE, METRICS);
    answer
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

/// An answer with a JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answered {
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => Ok(raw(status, bytes)),
        Err(error) => Err(unwritable(&error)),
    }
}

/// An answer with operations in it. They carry timestamps as integers of milliseconds, as handlers
/// get them; in an HTTP body they are seconds with a fraction.
pub(crate) fn operations(body: &impl Serialize) -> Answered {
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    write_operations(&mut bytes, body)?;
    Ok(raw(StatusCode::OK, bytes))
}

/// Appends a body with operations in it.
pub(crate) fn write_operations(bytes: &mut Vec<u8>, body: &impl Serialize) -> Result<(), ApiError> {
    let mut serializer = Serializer::with_formatter(bytes, TimestampsInSeconds);
    body.serialize(&mut serializer)
        .map_err(|error| unwritable(&error))
}

/// The answer to a request that was refused.
pub(crate) fn refusal(error: &ApiError) -> Answer {
    let blame = if error.is_senders() {
        "User"
    } else {
        "Service"
    };
    let mut body = serde_json::Map::new();
    body.insert("Type".into(), blame.into());
    body.insert(error.member.into(), error.message.as_str().into());
    let throttled = error.status == StatusCode::TOO_MANY_REQUESTS.as_u16();
    if throttled {
        body.insert("Reason".into(), "CallerRateLimitExceeded".into());
    }
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = raw(status, serde_json::Value::Object(body).to_string());
    let headers = answer.headers_mut();
    headers.insert(ERROR_TYPE, HeaderValue::from_static(error.name));
    if throttled {
        headers.insert(RETRY_AFTER, RETRY_SECONDS);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, BEARER);
    }
    answer
}

/// Adds a header, unless its value cannot be one.
pub(crate) fn header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Says which request this is the answer to.
pub(crate) fn identify(answer: &mut Answer, request_id: &str) {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        answer.headers_mut().insert(REQUEST_ID, value);
    }
}

fn unwritable(error: &serde_json::Error) -> ApiError {
    ApiError::of(
        outlast_core::Code::Service,
        format!("the answer cannot be written: {error}"),
    )
}

/// Writes 64-bit numbers, which in operations are always timestamps, as seconds.
struct TimestampsInSeconds;

impl Formatter for TimestampsInSeconds {
    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, ms: u64) -> io::Result<()> {
        let formatter = &mut CompactFormatter;
        formatter.write_u64(writer, ms / 1_000)?;
        let fraction = ms % 1_000;
        let digit = |number: u64| b'0' + u8::try_from(number % 10).unwrap_or(0);
        writer.write_all(&[
            b'.',
            digit(fraction / 100),
            digit(fraction / 10),
            digit(fraction),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use outlast_core::{
        time::Timestamp,
        wire::{Operation, OperationStatus, OperationType, StatePage, StepDetails, WaitDetails},
    };
    use serde_json::{Value, json};

    async fn body(answer: Answer) -> String {
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn timestamps_of_operations_are_seconds_and_other_numbers_stay() {
        let at = Timestamp::from_millis;
        let new = |id: &str, kind| Operation::new(id.into(), kind, OperationStatus::Pending, at(7));
        let mut step = new("s", OperationType::Step);
        step.end_timestamp = Some(at(1_767_225_600_120));
        step.step_details = Some(StepDetails {
            attempt: 3,
            next_attempt_timestamp: Some(at(1_767_225_601_000)),
            interruptions: 2,
            ..StepDetails::default()
        });
        let mut wait = new("w", OperationType::Wait);
        wait.wait_details = Some(WaitDetails {
            scheduled_end_timestamp: Some(at(1_001)),
        });
        let page = StatePage {
            operations: vec![step, wait],
            next_marker: None,
        };
        let text = body(operations(&page).unwrap()).await;
        assert!(text.contains(r#""StartTimestamp":0.007"#), "{text}");
        assert!(text.contains(r#""EndTimestamp":1767225600.120"#), "{text}");
        assert!(
            text.contains(r#""NextAttemptTimestamp":1767225601.000"#),
            "{text}"
        );
        assert!(text.contains(r#""ScheduledEndTimestamp":1.001"#), "{text}");
        assert!(
            text.contains(r#""Attempt":3"#) && text.contains(r#""Interruptions":2"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<StatePage>(&text).unwrap(), page);
    }

    #[tokio::test]
    async fn a_refusal_names_its_exception_in_header_and_spelling() {
        for (error, status, name, expected) in [
            (
                ApiError::invalid("bad"),
                400,
                "InvalidParameterValueException",
                json!({"Type": "User", "message": "bad"}),
            ),
            (
                ApiError::not_found("gone"),
                404,
                "ResourceNotFoundException",
                json!({"Type": "User", "Message": "gone"}),
            ),
            (
                ApiError::of(outlast_core::Code::Service, "broken"),
                500,
                "ServiceException",
                json!({"Type": "Service", "Message": "broken"}),
            ),
            (
                ApiError::of(outlast_core::Code::TooManyRequests, "slow"),
                429,
                "TooManyRequestsException",
                json!({"Type": "User", "message": "slow", "Reason": "CallerRateLimitExceeded"}),
            ),
        ] {
            let answer = refusal(&error);
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()["x-amzn-errortype"], name);
            assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
            let body: Value = serde_json::from_str(&body(answer).await).unwrap();
            assert_eq!(body, expected);
        }
    }
}
