//! How the API says no: the service's exceptions, as its clients expect them on the wire.
//!
//! What is wrong is decided elsewhere; here it only gets its name, status and spelling.

use crate::route::RouteError;
use outlast_core::{Code, Rejection};

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// The exception's name.
    pub(crate) name: &'static str,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The member of the body that carries the message: the model spells it in two ways.
    pub(crate) member: &'static str,
    /// What is wrong, for people.
    pub(crate) message: String,
}

impl ApiError {
    /// One of the exceptions that the core knows too.
    pub(crate) fn of(code: Code, message: impl Into<String>) -> Self {
        Self::from(Rejection::new(code, message))
    }

    /// A value of a path or query that breaks its range or pattern.
    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::of(Code::Validation, message)
    }

    /// A parameter that is not acceptable.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::of(Code::InvalidParameterValue, message)
    }

    /// Something that is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::of(Code::ResourceNotFound, message)
    }

    /// A body that is not JSON.
    pub(crate) fn serialization(message: impl Into<String>) -> Self {
        Self {
            name: "SerializationException",
            status: 400,
            member: "message",
            message: message.into(),
        }
    }

    /// A caller who is not known, or may not ask for this.
    pub(crate) fn of_caller(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            status,
            member: "message",
            message: message.into(),
        }
    }

    /// The server is about to go; another one, or the same, may come soon.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            name: "ServiceException",
            status: 503,
            member: "Message",
            message: message.into(),
        }
    }

    /// Something that is there already, or is still needed.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self {
            name: "ResourceConflictException",
            status: 409,
            member: "message",
            message: message.into(),
        }
    }

    /// Somebody else has changed it since the caller looked.
    pub(crate) fn precondition(message: impl Into<String>) -> Self {
        Self {
            name: "PreconditionFailedException",
            status: 412,
            member: "message",
            message: message.into(),
        }
    }

    /// A body that is longer than any request may be.
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        let message = format!("the body is longer than {bytes_max} bytes");
        Self::of(Code::RequestTooLarge, message)
    }

    /// Whether the fault is the caller's.
    pub(crate) const fn is_senders(&self) -> bool {
        self.status < 500
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        Self {
            name: rejection.code.name(),
            status: rejection.code.http_status(),
            member: rejection.code.message_member(),
            message: rejection.message,
        }
    }
}

impl From<outlast_engine::Error> for ApiError {
    fn from(error: outlast_engine::Error) -> Self {
        error.to_rejection().into()
    }
}

impl From<RouteError> for ApiError {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::Unknown => Self {
                name: "UnknownOperationException",
                status: 404,
                member: "message",
                message: error.to_string(),
            },
            RouteError::Malformed => Self::validation(error.to_string()),
        }
    }
}
