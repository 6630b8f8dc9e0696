//! How the service says no.
//!
//! A [`Rejection`] is the caller's mistake (or, rarely, ours) in the words of the service's API. It
//! is not the failure of user code, which is data, and not the failure of a store, which the core
//! never meets.

use crate::wire::INVALID_TOKEN_MESSAGE;
use alloc::{format, string::String};

/// The exceptions of the service's API, and one of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A parameter, a token or an update is not acceptable.
    InvalidParameterValue,
    /// A query or path value breaks its range or pattern.
    Validation,
    /// There is no such function, execution or callback.
    ResourceNotFound,
    /// The callback was closed or expired before this call.
    CallbackTimeout,
    /// The execution name is taken by a start with another payload.
    DurableExecutionAlreadyStarted,
    /// Slow down.
    TooManyRequests,
    /// The body of a start is too large.
    RequestTooLarge,
    /// The body of a start is not JSON.
    InvalidRequestContent,
    /// Our own: the execution is not in the state this request needs.
    Conflict,
    /// A fault of the engine. The in-memory execution must be thrown away and loaded again.
    Service,
}

impl Code {
    /// The exception's name, as in the `x-amzn-ErrorType` header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidParameterValue => "InvalidParameterValueException",
            Self::Validation => "ValidationException",
            Self::ResourceNotFound => "ResourceNotFoundException",
            Self::CallbackTimeout => "CallbackTimeoutException",
            Self::DurableExecutionAlreadyStarted => "DurableExecutionAlreadyStartedException",
            Self::TooManyRequests => "TooManyRequestsException",
            Self::RequestTooLarge => "RequestTooLargeException",
            Self::InvalidRequestContent => "InvalidRequestContentException",
            Self::Conflict => "ConflictException",
            Self::Service => "ServiceException",
        }
    }

    /// The HTTP status of the answer.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::InvalidParameterValue
            | Self::Validation
            | Self::CallbackTimeout
            | Self::InvalidRequestContent => 400,
            Self::ResourceNotFound => 404,
            Self::DurableExecutionAlreadyStarted | Self::Conflict => 409,
            Self::RequestTooLarge => 413,
            Self::TooManyRequests => 429,
            Self::Service => 500,
        }
    }

    /// The body member that carries the message; the service's model spells it in two ways.
    pub const fn message_member(self) -> &'static str {
        match self {
            Self::InvalidParameterValue
            | Self::Validation
            | Self::TooManyRequests
            | Self::RequestTooLarge
            | Self::InvalidRequestContent => "message",
            Self::ResourceNotFound
            | Self::CallbackTimeout
            | Self::DurableExecutionAlreadyStarted
            | Self::Conflict
            | Self::Service => "Message",
        }
    }
}

/// A refused request. Nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct Rejection {
    /// Which exception.
    pub code: Code,
    /// What is wrong, for people.
    pub message: String,
}

impl Rejection {
    /// A refusal with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// A parameter that is not acceptable.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidParameterValue, message)
    }

    /// A checkpoint token that is not (or no longer) valid. SDKs look at how the message begins.
    pub fn stale_token(reason: &str) -> Self {
        Self::invalid(format!("{INVALID_TOKEN_MESSAGE}: {reason}"))
    }

    /// Whether this is a refused token, which an SDK answers by ending its invocation.
    pub fn is_stale_token(&self) -> bool {
        self.code == Code::InvalidParameterValue && self.message.starts_with(INVALID_TOKEN_MESSAGE)
    }
}

/// Records that do not form an execution: damaged, reordered or written by a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record}: {reason}")]
pub struct Corrupt {
    /// The number of the record that does not fit.
    pub record: u64,
    /// Why it does not.
    pub reason: String,
}

impl Corrupt {
    pub(crate) fn new(record: u64, reason: impl Into<String>) -> Self {
        Self {
            record,
            reason: reason.into(),
        }
    }
}

impl From<Corrupt> for Rejection {
    /// A decision wrote a record its own fold refuses: a defect of the core.
    fn from(corrupt: Corrupt) -> Self {
        Self::new(Code::Service, format!("internal: {corrupt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_services_name_status_and_spelling() {
        for (code, name, status, member) in [
            (
                Code::InvalidParameterValue,
                "InvalidParameterValueException",
                400,
                "message",
            ),
            (Code::Validation, "ValidationException", 400, "message"),
            (
                Code::ResourceNotFound,
                "ResourceNotFoundException",
                404,
                "Message",
            ),
            (
                Code::CallbackTimeout,
                "CallbackTimeoutException",
                400,
                "Message",
            ),
            (
                Code::DurableExecutionAlreadyStarted,
                "DurableExecutionAlreadyStartedException",
                409,
                "Message",
            ),
            (
                Code::TooManyRequests,
                "TooManyRequestsException",
                429,
                "message",
            ),
            (
                Code::RequestTooLarge,
                "RequestTooLargeException",
                413,
                "message",
            ),
            (
                Code::InvalidRequestContent,
                "InvalidRequestContentException",
                400,
                "message",
            ),
            (Code::Conflict, "ConflictException", 409, "Message"),
            (Code::Service, "ServiceException", 500, "Message"),
        ] {
            assert_eq!(code.name(), name);
            assert_eq!(code.http_status(), status, "{name}");
            assert_eq!(code.message_member(), member, "{name}");
        }
    }

    #[test]
    fn a_stale_token_is_recognised_by_code_and_beginning() {
        let refused = Rejection::stale_token("it has already been used");
        assert!(refused.is_stale_token());
        assert_eq!(
            refused.message,
            "Invalid checkpoint token: it has already been used"
        );
        assert!(!Rejection::invalid("other").is_stale_token());
        assert!(!Rejection::new(Code::Service, INVALID_TOKEN_MESSAGE).is_stale_token());
    }
}
