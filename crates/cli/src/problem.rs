//! Why a command could not do what it was asked, and the exit code that says so.

use std::fmt;

/// What kind of problem it is: the exit codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something is wrong.
    Wrong,
    /// The program was called the wrong way.
    Usage,
    /// What was asked for is not there.
    NotFound,
    /// The endpoint refused: it may not be done, or not now.
    Refused,
    /// The endpoint cannot be reached.
    Unreachable,
}

impl Cause {
    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Wrong => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unreachable => 5,
        }
    }
}

/// A problem: what, the value, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its kind.
    pub(crate) cause: Cause,
    /// The service's exception, if it refused.
    pub(crate) exception: Option<String>,
    message: String,
}

impl Problem {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            exception: None,
            message: message.into(),
        }
    }

    /// Something is wrong.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(Cause::Wrong, message)
    }

    /// The program was called the wrong way.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Cause::Usage, message)
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Cause::NotFound, message)
    }

    /// The endpoint cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Cause::Unreachable, message)
    }

    /// The endpoint answered with a status that is no success.
    pub(crate) fn refused(status: u16, exception: Option<&str>, message: String) -> Self {
        let unknown = exception == Some("UnknownOperationException");
        let (cause, remedy) = match status {
            404 if unknown => (
                Cause::Refused,
                "; the endpoint does not offer this: it needs an Outlast server of this version",
            ),
            404 => (Cause::NotFound, ""),
            400..=499 => (Cause::Refused, ""),
            _ => (Cause::Wrong, ""),
        };
        let what = exception.map_or(String::new(), |name| format!("{name}: "));
        Self {
            cause,
            exception: exception.map(str::to_owned),
            message: format!("{what}{message}{remedy}"),
        }
    }

    /// The endpoint does not offer what was asked for.
    pub(crate) fn not_offered(message: impl Into<String>) -> Self {
        Self::new(Cause::Refused, message)
    }

    /// With what helps, if it is about who is asking.
    pub(crate) fn about_the_caller(mut self, is_aws: bool) -> Self {
        let exception = self.exception.as_deref().unwrap_or_default();
        if let Some(remedy) = outlast_http::remedy(exception, is_aws) {
            self.message = format!("{}; {remedy}", self.message);
        }
        self
    }

    /// The same, with what helps.
    pub(crate) fn and(mut self, remedy: &str) -> Self {
        self.message += remedy;
        self
    }

    /// Whether the endpoint does not know the operation at all.
    pub(crate) fn is_unknown_operation(&self) -> bool {
        self.exception.as_deref() == Some("UnknownOperationException")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_the_exit_code_that_is_documented() {
        let code = |status, exception| {
            Problem::refused(status, exception, String::new())
                .cause
                .code()
        };
        assert_eq!(code(404, Some("ResourceNotFoundException")), 3);
        assert_eq!(code(404, Some("UnknownOperationException")), 4);
        for (status, expected) in [
            (399, 1),
            (400, 4),
            (401, 4),
            (403, 4),
            (409, 4),
            (429, 4),
            (499, 4),
            (500, 1),
            (503, 1),
        ] {
            assert_eq!(code(status, None), expected, "{status}");
        }
        assert_eq!(Problem::wrong("").cause.code(), 1);
        assert_eq!(Problem::usage("").cause.code(), 2);
        assert_eq!(Problem::not_found("").cause.code(), 3);
        assert_eq!(Problem::unreachable("").cause.code(), 5);
    }
}
