//! What an answer of the server means.

use crate::backend::BackendError;
use hyper::header::HeaderName;
use outlast_http::{Failure, Reply, Unusable};
use serde::{Deserialize, de::DeserializeOwned};

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// The code of an endpoint that cannot be used as it is, however often it is tried.
pub(super) const UNUSABLE: &str = "UnusableEndpoint";

/// What the server says when it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    #[serde(alias = "Message", alias = "errorMessage")]
    message: String,
    #[serde(rename = "errorType")]
    error_type: Option<String>,
}

/// The answer to a request that was not refused.
pub(super) fn accepted(reply: Reply) -> Result<Reply, BackendError> {
    if reply.status.is_success() {
        return Ok(reply);
    }
    let refusal: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
    // AWS appends an address to some names.
    let code = reply.header(&ERROR_TYPE);
    let code = code.and_then(|code| code.split(':').next());
    Err(BackendError {
        status: Some(reply.status.as_u16()),
        code: code.map(ToOwned::to_owned).or(refusal.error_type),
        message: refusal.message,
    })
}

/// The body as JSON.
pub(super) fn json<T: DeserializeOwned>(reply: &Reply) -> Result<T, BackendError> {
    serde_json::from_slice(&reply.body).map_err(|error| BackendError {
        status: None,
        code: Some("ProtocolError".to_owned()),
        message: format!("the server's answer cannot be read: {error}"),
    })
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        let code = matches!(failure, Failure::Impossible(_)).then(|| UNUSABLE.to_owned());
        Self {
            code,
            ..Self::transport(failure.to_string())
        }
    }
}

impl From<Unusable> for BackendError {
    fn from(unusable: Unusable) -> Self {
        Self {
            code: Some(UNUSABLE.to_owned()),
            ..Self::transport(unusable.to_string())
        }
    }
}
