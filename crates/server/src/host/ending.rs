//! How a hosted call ended, for durable and for plain functions alike.

use bytes::Bytes;
use outlast_core::{
    Outcome,
    intent::InvokeOutcome,
    wire::{ErrorObject, error_type},
};
use std::time::Duration;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The handler answered.
    Answered(Bytes),
    /// The handler raised an error, ran out of time, answered something impossible, or died.
    Failed(ErrorObject),
    /// There is no such function.
    Missing(ErrorObject),
    /// No handler saw the call.
    NotStarted(ErrorObject),
}

impl Ending {
    /// The worker died with the call.
    pub(crate) fn exited(message: impl Into<String>) -> Self {
        Self::Failed(ErrorObject::new(error_type::RUNTIME_EXIT, message))
    }

    /// The handler ran past the function's timeout.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self::Failed(ErrorObject::new(
            error_type::SANDBOX_TIMEDOUT,
            format!("Task timed out after {:.2} seconds", limit.as_secs_f64()),
        ))
    }

    /// The worker answered more than a handler may.
    pub(crate) fn too_large() -> Self {
        Self::Failed(ErrorObject::new(
            "Function.ResponseSizeTooLarge",
            format!(
                "the answer is larger than {} bytes",
                crate::host::ANSWER_BYTES_MAX
            ),
        ))
    }

    /// What it means for a durable function.
    pub(crate) fn durable(self) -> Outcome {
        match self {
            Self::Answered(body) => Outcome::Answered(body.into()),
            Self::Failed(error) => Outcome::Failed(error),
            Self::Missing(error) => Outcome::FunctionMissing(error),
            Self::NotStarted(error) => Outcome::NotStarted(error),
        }
    }

    /// What it means for a call of a plain function, which is called once. How much of a result an
    /// execution may keep is for the core to say: whoever waits on a connection gets all of it.
    pub(crate) fn plain(self) -> InvokeOutcome {
        match self {
            Self::Answered(body) => answered(&body),
            Self::Failed(error) | Self::Missing(error) | Self::NotStarted(error) => {
                InvokeOutcome::Failed(error)
            }
        }
    }
}

fn answered(body: &[u8]) -> InvokeOutcome {
    let refused = |message: String| {
        InvokeOutcome::Failed(ErrorObject {
            error_message: Some(message),
            ..ErrorObject::default()
        })
    };
    match std::str::from_utf8(body) {
        Ok("") => InvokeOutcome::Succeeded(None),
        Ok(text) => InvokeOutcome::Succeeded(Some(text.into())),
        Err(_) => refused("the result is not UTF-8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_result_is_text_or_nothing() {
        let of = |body: &'static str| Ending::Answered(body.into()).plain();
        assert_eq!(of(""), InvokeOutcome::Succeeded(None));
        assert_eq!(of("a"), InvokeOutcome::Succeeded(Some("a".into())));
        let invalid = Ending::Answered(Bytes::from_static(b"\xff")).plain();
        let InvokeOutcome::Failed(error) = invalid else {
            panic!("{invalid:?}")
        };
        assert_eq!(error.error_type, None);
    }

    #[test]
    fn a_timeout_has_the_same_type_for_both_kinds() {
        let ending = Ending::timed_out(Duration::from_secs(3));
        let durable = ending.clone().durable();
        let InvokeOutcome::Failed(plain) = ending.plain() else {
            panic!("not failed")
        };
        assert_eq!(durable, Outcome::timed_out(3));
        assert_eq!(durable, Outcome::Failed(plain));
    }
}
