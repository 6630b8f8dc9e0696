//! Where an invocation's checkpoints go.
//!
//! A backend carries requests; it decides nothing. The SDK retries nothing on top of it.

#[cfg(feature = "lambda")]
pub mod lambda;

use outlast_core::wire::{
    CheckpointRequest, CheckpointResponse, INVALID_TOKEN_MESSAGE, StatePage, error_type,
};
use std::{fmt, future::Future, pin::Pin, sync::Arc};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The service an invocation writes to: AWS Lambda, an Outlast engine, or the test kit.
pub trait Backend: Send + Sync + 'static {
    /// Applies updates and answers what changed. Called by one writer, one request at a time.
    fn checkpoint<'a>(
        &'a self,
        execution_arn: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>>;

    /// Reads the next page of operations.
    fn state<'a>(
        &'a self,
        execution_arn: &'a str,
        checkpoint_token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>>;

    /// Resolves when an operation of this execution changed on its own. A backend that can tell
    /// saves the SDK from polling; the default never resolves.
    fn changed<'a>(&'a self, _execution_arn: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    /// What this home of the program can do.
    fn abilities(&self) -> Abilities {
        Abilities::OUTLAST
    }
}

/// What differs between the homes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Signals are delivered by name.
    pub signals: bool,
    /// An invocation that no longer matches its record is held for a fixed build instead of
    /// failing the execution.
    pub holds_mismatches: bool,
    /// Changes are pushed, so nothing needs to be polled.
    pub pushes_changes: bool,
}

impl Abilities {
    /// An Outlast engine that is polled.
    pub const OUTLAST: Self = Self {
        signals: true,
        holds_mismatches: true,
        pushes_changes: false,
    };
    /// AWS Lambda durable functions.
    pub const LAMBDA: Self = Self {
        signals: false,
        holds_mismatches: false,
        pushes_changes: false,
    };
}

/// Why a request to the backend failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// HTTP status, if the service answered.
    pub status: Option<u16>,
    /// The service's exception name, if it gave one.
    pub code: Option<String>,
    /// What it said.
    pub message: String,
}

impl BackendError {
    /// The service could not be reached, or its answer could not be read.
    pub fn transport(message: impl Into<String>) -> Self {
        Self {
            status: None,
            code: None,
            message: message.into(),
        }
    }

    /// The service answered with an error.
    pub fn service(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: Some(status),
            code: Some(code.into()),
            message: message.into(),
        }
    }

    /// Whether repeating the invocation can help. Everything unknown is worth another try; a
    /// request the service refuses for good fails the execution.
    pub fn is_retryable(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        let stale_token = code == error_type::INVALID_PARAMETER
            && self
                .message
                .get(..INVALID_TOKEN_MESSAGE.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(INVALID_TOKEN_MESSAGE));
        let broken_key = [
            "KMSAccessDenied",
            "KMSDisabled",
            "KMSInvalidState",
            "KMSNotFound",
        ]
        .iter()
        .any(|prefix| code.starts_with(prefix));
        match self.status {
            _ if stale_token => true,
            _ if broken_key => false,
            Some(429) | None => true,
            Some(status) => !(400..500).contains(&status),
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, self.status) {
            (Some(code), Some(status)) => write!(f, "{code} ({status}): {}", self.message),
            (None, Some(status)) => write!(f, "status {status}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for BackendError {}

/// A shared backend.
#[derive(Clone)]
pub(crate) struct SharedBackend(pub(crate) Arc<dyn Backend>);

impl fmt::Debug for SharedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedBackend")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_as_the_service_means_them() {
        let check = |status, code: &str, message: &str, retryable| {
            assert_eq!(
                BackendError::service(status, code, message).is_retryable(),
                retryable,
                "{status} {code} {message}"
            );
        };
        check(500, "ServiceException", "", true);
        check(503, "", "", true);
        check(429, "TooManyRequestsException", "", true);
        check(
            400,
            "InvalidParameterValueException",
            "Invalid checkpoint token: expired",
            true,
        );
        check(
            400,
            "InvalidParameterValueException",
            "Invalid Checkpoint Token",
            true,
        );
        check(
            400,
            "InvalidParameterValueException",
            "payload too large",
            false,
        );
        check(
            400,
            "ValidationException",
            "Invalid checkpoint token",
            false,
        );
        check(403, "AccessDeniedException", "", false);
        check(404, "ResourceNotFoundException", "", false);
        check(413, "RequestTooLargeException", "", false);
        check(502, "KMSDisabledException", "", false);
        check(502, "KMSAccessDeniedException", "", false);
        check(502, "BadGateway", "", true);
        check(302, "", "", true);
        assert!(BackendError::transport("reset").is_retryable());
    }
}
