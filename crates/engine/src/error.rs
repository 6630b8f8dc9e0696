//! How the engine says no.

use crate::store::{CommitError, StoreError};
use outlast_core::{Code, Rejection, arn::ExecutionId};
use std::sync::Arc;

/// Why a request was not carried out. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is refused by the rules.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store took no commit.
    #[error("nothing was written: {0}")]
    NotWritten(CommitError),
    /// The store could not be read.
    #[error(transparent)]
    Unreadable(#[from] StoreError),
    /// What is stored about this execution makes no sense; everything else goes on.
    #[error("execution {execution} is quarantined: {reason}")]
    Quarantined {
        /// Which one.
        execution: ExecutionId,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// The engine is shutting down, or its store has failed.
    #[error("the engine has stopped: {0}")]
    Stopped(Arc<str>),
}

impl Error {
    /// The refusal in the words of the service's API.
    pub fn to_rejection(&self) -> Rejection {
        match self {
            Self::Rejected(rejection) => rejection.clone(),
            Self::NotWritten(CommitError::Full(_)) => {
                Rejection::new(Code::TooManyRequests, self.to_string())
            }
            Self::NotWritten(_)
            | Self::Unreadable(_)
            | Self::Quarantined { .. }
            | Self::Stopped(_) => Rejection::new(Code::Service, self.to_string()),
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::Rejected(Rejection::new(Code::ResourceNotFound, what))
    }
}
