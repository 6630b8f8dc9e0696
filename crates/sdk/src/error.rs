//! The one error type of the SDK.
//!
//! A failed operation raises an error built *from its record*, on the first run exactly as on
//! replay, so that user code cannot tell the two apart. Control flow (suspension, a lost token, a
//! replay mismatch) is never an [`Error`]: futures simply do not resolve and cannot be caught.

use outlast_core::{
    id::Position,
    replay::Identity,
    wire::{ErrorObject, OperationType, error_type},
};
use serde::de::DeserializeOwned;
use std::{any::TypeId, error::Error as StdError, fmt, sync::Arc};

/// What the SDK's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `Ok(value)` with the SDK's error type, for bodies that cannot fail.
///
/// ```
/// # use outlast::{Context, Result};
/// # async fn example(ctx: Context) -> Result<()> {
/// let answer: u32 = ctx.step("answer", async |_| outlast::ok(42)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Never.
pub fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What went wrong, for programs to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A step failed for good.
    Step,
    /// An at-most-once step was interrupted before its outcome was known, or a step's process died
    /// too often.
    StepInterrupted,
    /// The outside reported a callback as failed.
    CallbackFailed,
    /// A callback's time ran out.
    CallbackTimeout,
    /// A callback's heartbeat stopped.
    CallbackHeartbeat,
    /// The step that hands out a callback id failed for good.
    CallbackSubmitter,
    /// No signal came in time.
    SignalTimeout,
    /// An invoked function failed.
    InvokeFailed,
    /// An invoked function timed out.
    InvokeTimedOut,
    /// An invoked function was stopped.
    InvokeStopped,
    /// A condition's check failed, or its attempts ran out.
    Condition,
    /// A child context failed.
    ChildContext,
    /// A batch ended without what its completion rule asked for.
    Batch,
    /// An input of a combinator failed, or all of them did.
    Combinator,
    /// A value could not be written or read.
    Codec,
    /// An option, name or duration is not allowed.
    InvalidInput,
    /// A durable operation was started inside the body of a step.
    NestedInStep,
    /// A context was used inside the body of another context.
    WrongContext,
    /// A context was used outside its invocation, for example in a task of the user's own.
    ForeignTask,
    /// Something this home of the program cannot do.
    Unsupported,
    /// An execution that somebody waited for did not succeed.
    Execution,
    /// The engine cannot do its work: its folder is in use, damaged, full or gone.
    Engine,
    /// The user's own error.
    User,
}

impl ErrorKind {
    /// The error type written to records when the error has no more specific one.
    pub(crate) fn wire_type(self) -> &'static str {
        match self {
            Self::Step => "StepError",
            Self::StepInterrupted => "StepInterruptedError",
            Self::CallbackFailed => "CallbackError",
            Self::CallbackTimeout => error_type::CALLBACK_TIMEOUT,
            Self::CallbackHeartbeat => error_type::CALLBACK_HEARTBEAT,
            Self::CallbackSubmitter => "CallbackSubmitterError",
            Self::SignalTimeout => "SignalTimeoutError",
            Self::InvokeFailed | Self::InvokeTimedOut | Self::InvokeStopped => "InvokeError",
            Self::Condition => "WaitForConditionError",
            Self::ChildContext => "ChildContextError",
            Self::Batch => "BatchCompletionError",
            Self::Combinator => "CombinatorError",
            Self::Codec => "SerDesError",
            Self::InvalidInput => "InvalidInputError",
            Self::NestedInStep => "NestedInStepError",
            Self::WrongContext => "WrongContextError",
            Self::ForeignTask => "ForeignTaskError",
            Self::Unsupported => "UnsupportedError",
            Self::Execution => "ExecutionError",
            Self::Engine => "EngineError",
            Self::User => "Error",
        }
    }
}

/// Which operation an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationRef {
    /// Its type.
    pub operation_type: OperationType,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// Where it stands in the execution.
    pub position: Position,
}

impl OperationRef {
    pub(crate) fn of(identity: &Identity) -> Self {
        Self {
            operation_type: identity.operation_type,
            name: identity.name.clone(),
            position: identity.position.clone(),
        }
    }
}

impl fmt::Display for OperationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.operation_type {
            OperationType::Execution => "execution",
            OperationType::Context => "context",
            OperationType::Step => "step",
            OperationType::Wait => "wait",
            OperationType::Callback => "callback",
            OperationType::ChainedInvoke => "invoke",
        };
        match &self.name {
            Some(name) => write!(f, "{label} '{name}' ({})", self.position),
            None => write!(f, "{label} {}", self.position),
        }
    }
}

/// Why an operation, or the handler, failed.
///
/// `{}` prints one line, `{:#}` the chain of causes.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: Option<OperationRef>,
    record: ErrorObject,
    source: Option<BoxError>,
}

impl Error {
    /// The user's own error, for functions that return [`Result`].
    ///
    /// ```
    /// # fn parse(text: &str) -> outlast::Result<u32> {
    /// text.parse().map_err(outlast::Error::other)
    /// # }
    /// # assert_eq!(parse("x").unwrap_err().kind(), outlast::ErrorKind::User);
    /// ```
    pub fn other<E: Into<BoxError> + 'static>(error: E) -> Self {
        let (record, source) = describe(error);
        match source.downcast::<Self>() {
            Ok(error) => *error,
            Err(source) => Self(Box::new(Inner {
                kind: ErrorKind::User,
                operation: None,
                record,
                source: Some(source),
            })),
        }
    }

    /// The user's own error, from a type name and a message.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self::from_record(ErrorKind::User, None, ErrorObject::new(error_type, message))
    }

    pub(crate) fn from_record(
        kind: ErrorKind,
        operation: Option<OperationRef>,
        record: ErrorObject,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            record,
            source: None,
        }))
    }

    pub(crate) fn of_kind(
        kind: ErrorKind,
        operation: Option<OperationRef>,
        message: impl Into<String>,
    ) -> Self {
        Self::from_record(kind, operation, ErrorObject::new(kind.wire_type(), message))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Which operation it is about, if one.
    pub fn operation(&self) -> Option<&OperationRef> {
        self.0.operation.as_ref()
    }

    /// The error as data, as it is recorded.
    pub fn record(&self) -> &ErrorObject {
        &self.0.record
    }

    /// The recorded message.
    pub fn message(&self) -> &str {
        self.0.record.error_message.as_deref().unwrap_or_default()
    }

    /// The recorded name of the error's type.
    pub fn error_type(&self) -> &str {
        self.0.record.error_type.as_deref().unwrap_or_default()
    }

    /// The error as its author's type, if the step that raised it records typed errors
    /// (see [`Step::typed_error`](crate::Step::typed_error)).
    pub fn typed_error<E: DeserializeOwned>(&self) -> Option<E> {
        serde_json::from_str(self.0.record.error_data.as_deref()?).ok()
    }

    pub(crate) fn into_record(self) -> ErrorObject {
        self.0.record
    }

    /// Re-labels the error with the operation that now reports it.
    pub(crate) fn with_kind(mut self, kind: ErrorKind, operation: OperationRef) -> Self {
        self.0.kind = kind;
        self.0.operation = Some(operation);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            operation,
            record,
            source,
        } = &*self.0;
        match operation {
            Some(operation) => write!(f, "{operation} failed: {record}")?,
            None if *kind == ErrorKind::User => f.write_str(self.message())?,
            None => write!(f, "{record}")?,
        }
        if f.alternate() {
            for cause in record.stack_trace.iter().flatten() {
                write!(f, ": {cause}")?;
            }
            if let Some(mut cause) = source.as_deref().and_then(StdError::source) {
                loop {
                    write!(f, ": {cause}")?;
                    let Some(next) = cause.source() else { break };
                    cause = next;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("record", &self.0.record)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().and_then(StdError::source)
    }
}

/// The record of a user's error, and the error itself for a retry strategy to look at.
///
/// The type name of a concrete error is recorded; a boxed one has lost its name. An [`Error`] that
/// passes through (an operation's failure that the body did not handle) keeps its record.
pub(crate) fn describe<E: Into<BoxError> + 'static>(error: E) -> (ErrorObject, BoxError) {
    let anonymous = [
        TypeId::of::<BoxError>(),
        TypeId::of::<String>(),
        TypeId::of::<&'static str>(),
    ];
    let error_type = if anonymous.contains(&TypeId::of::<E>()) {
        ErrorKind::User.wire_type()
    } else {
        short_type_name::<E>()
    };
    let boxed: BoxError = error.into();
    if let Some(error) = boxed.downcast_ref::<Error>() {
        return (error.record().clone(), boxed);
    }
    let mut record = ErrorObject::new(error_type, clipped(boxed.to_string()));
    let mut causes = Vec::new();
    let mut cause = boxed.source();
    while let Some(error) = cause.filter(|_| causes.len() < 10) {
        causes.push(clipped(error.to_string()));
        cause = error.source();
    }
    if !causes.is_empty() {
        record.stack_trace = Some(causes);
    }
    (record, boxed)
}

/// Longest text of an error that is recorded; the service refuses error objects above 1 MiB.
const ERROR_TEXT_BYTES_MAX: usize = 64 * 1_024;

/// A text cut to what is recorded, with a note of what it was.
pub(crate) fn clipped(text: String) -> String {
    if text.len() <= ERROR_TEXT_BYTES_MAX {
        return text;
    }
    let end = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
    format!(
        "{} … ({} bytes in all)",
        text.get(..end).unwrap_or_default(),
        text.len()
    )
}

/// The name of a type without its modules and parameters: recorded names must survive a refactor.
fn short_type_name<E>() -> &'static str {
    let full = std::any::type_name::<E>();
    let head = full.split('<').next().unwrap_or(full);
    head.rsplit("::").next().unwrap_or(head)
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .map(clipped)
        .unwrap_or_else(|| "a value that is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("card declined")]
    struct Declined(#[source] std::fmt::Error);

    #[test]
    fn a_concrete_error_is_recorded_by_type_message_and_causes() {
        let (record, _) = describe(Declined(std::fmt::Error));
        assert_eq!(record.error_type.as_deref(), Some("Declined"));
        assert_eq!(record.error_message.as_deref(), Some("card declined"));
        assert_eq!(record.stack_trace.unwrap().len(), 1);
    }

    #[test]
    fn texts_and_boxes_are_plain_errors_and_our_own_keeps_its_record() {
        assert_eq!(describe("no").0, ErrorObject::new("Error", "no"));
        assert_eq!(
            describe(String::from("no")).0,
            ErrorObject::new("Error", "no")
        );
        let boxed: BoxError = Error::new("Mine", "no").into();
        assert_eq!(describe(boxed).0, ErrorObject::new("Mine", "no"));
        assert_eq!(Error::other(Error::new("Mine", "no")).error_type(), "Mine");
    }

    #[test]
    fn a_long_message_is_cut_at_the_limit_and_says_so() {
        let message = |bytes: usize| describe("é".repeat(bytes / 2)).0.error_message.unwrap();
        for bytes in [ERROR_TEXT_BYTES_MAX - 2, ERROR_TEXT_BYTES_MAX] {
            assert_eq!(message(bytes).len(), bytes);
        }
        let cut = message(ERROR_TEXT_BYTES_MAX + 2);
        assert!(cut.ends_with("… (65538 bytes in all)") && cut.len() < ERROR_TEXT_BYTES_MAX + 40);
    }

    #[test]
    fn display_is_one_line_and_alternate_is_the_chain() {
        let error = Error::other(Declined(std::fmt::Error));
        assert_eq!(error.to_string(), "card declined");
        assert!(format!("{error:#}").starts_with("card declined: an error occurred"));
    }
}
