//! The HTTP of the Runtime API: the headers of an invocation, the answers, and bodies within bounds.

use crate::host::ANSWER_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Body,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use std::pin::pin;

/// Read and thrown away of a body that is too large, so that its sender gets to read the refusal.
const DISCARDED_BYTES_MAX: usize = 8 * ANSWER_BYTES_MAX;

pub(super) const ERROR_TYPE: HeaderName =
    HeaderName::from_static("lambda-runtime-function-error-type");
pub(super) const INVOCATION_ID: HeaderName =
    HeaderName::from_static("lambda-runtime-invocation-id");
/// What a worker says of the tenants whose calls it takes.
pub(super) const TENANTS: HeaderName = HeaderName::from_static("outlast-tenants");

/// What a worker gets to know of an invocation.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) id: &'a str,
    pub(super) deadline_ms: u64,
    pub(super) function: &'a str,
    pub(super) trace: Option<&'a str>,
    pub(super) client_context: Option<&'a str>,
    pub(super) tenant: Option<&'a str>,
    pub(super) body: Bytes,
}

impl Event<'_> {
    pub(super) fn response(self) -> Response<Full<Bytes>> {
        let deadline = self.deadline_ms.to_string();
        let headers = [
            ("lambda-runtime-aws-request-id", Some(self.id)),
            ("lambda-runtime-deadline-ms", Some(&*deadline)),
            ("lambda-runtime-invoked-function-arn", Some(self.function)),
            ("lambda-runtime-trace-id", self.trace),
            ("lambda-runtime-client-context", self.client_context),
            ("lambda-runtime-aws-tenant-id", self.tenant),
            ("lambda-runtime-invocation-id", Some(self.id)),
        ];
        let mut response = json(StatusCode::OK, self.body);
        for (name, value) in headers {
            let Some(value) = value else { continue };
            match HeaderValue::from_str(value) {
                Ok(value) => {
                    let name = HeaderName::from_static(name);
                    response.headers_mut().insert(name, value);
                }
                Err(_) => tracing::warn!(name, "a header cannot carry its value and is left out"),
            }
        }
        response
    }
}

/// A worker's report was taken.
pub(super) fn accepted() -> Response<Full<Bytes>> {
    json(
        StatusCode::ACCEPTED,
        Bytes::from_static(br#"{"status":"OK"}"#),
    )
}

/// A worker's report was refused.
pub(crate) fn refused(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    let document = serde_json::json!({ "errorMessage": message, "errorType": kind });
    json(status, document.to_string().into())
}

pub(super) fn json(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBody {
    /// It has more bytes than a handler may answer.
    TooLarge,
    /// Its sender stopped in the middle.
    Broken,
}

/// A whole body with its trailers, or why not.
pub(crate) async fn collect<B>(body: B) -> Result<(Bytes, HeaderMap), NoBody>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut parts = Parts::default();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| NoBody::Broken)?;
        match frame.into_data() {
            Ok(data) => parts.add(data)?,
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    Ok((parts.whole()?, trailers))
}

/// The parts of a body. Most have one, which is not copied.
#[derive(Default)]
struct Parts {
    first: Bytes,
    more: BytesMut,
    bytes: usize,
}

impl Parts {
    fn add(&mut self, data: Bytes) -> Result<(), NoBody> {
        let before = self.bytes;
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > DISCARDED_BYTES_MAX {
            return Err(NoBody::TooLarge);
        }
        if self.bytes > ANSWER_BYTES_MAX {
            (self.first, self.more) = Default::default();
        } else if before == 0 {
            self.first = data;
        } else {
            self.more
                .extend_from_slice(&std::mem::take(&mut self.first));
            self.more.extend_from_slice(&data);
        }
        Ok(())
    }

    fn whole(self) -> Result<Bytes, NoBody> {
        match self.bytes <= ANSWER_BYTES_MAX {
            false => Err(NoBody::TooLarge),
            true if self.more.is_empty() => Ok(self.first),
            true => Ok(self.more.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collected(parts: &[usize]) -> Result<usize, NoBody> {
        let frames = parts.iter().map(|bytes| {
            let data = Bytes::from(vec![b'a'; *bytes]);
            Ok::<_, std::convert::Infallible>(hyper::body::Frame::data(data))
        });
        let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
        collect(body).await.map(|(body, _)| body.len())
    }

    #[tokio::test]
    async fn a_body_is_whole_or_refused_however_it_is_cut() {
        assert_eq!(collected(&[]).await, Ok(0));
        assert_eq!(collected(&[0, 3, 0, 4]).await, Ok(7));
        let half = ANSWER_BYTES_MAX / 2;
        assert_eq!(collected(&[half, half - 1]).await, Ok(ANSWER_BYTES_MAX - 1));
        assert_eq!(collected(&[half, half]).await, Ok(ANSWER_BYTES_MAX));
        assert_eq!(collected(&[half, half, 1]).await, Err(NoBody::TooLarge));
        assert_eq!(collected(&[half; 40]).await, Err(NoBody::TooLarge));
    }

    #[test]
    fn a_value_that_no_header_can_carry_is_left_out() {
        let event = Event {
            id: "i",
            deadline_ms: 7,
            function: "arn",
            trace: Some("a\nb"),
            client_context: None,
            tenant: Some("t"),
            body: Bytes::new(),
        };
        let headers = event.response().headers().clone();
        assert!(!headers.contains_key("lambda-runtime-trace-id"));
        assert_eq!(headers.get("Lambda-Runtime-Aws-Tenant-Id").unwrap(), "t");
        assert_eq!(headers.get("Lambda-Runtime-Deadline-Ms").unwrap(), "7");
    }
}
