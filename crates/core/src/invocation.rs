//! Invocations: who may begin one, what its answer means, and when it is repeated.
//!
//! One invocation per execution at a time. An answer counts only if it comes from the current one;
//! a failure never consumes attempts of steps, it repeats the invocation.

use crate::{
    decide::{Reply, Turn},
    error::{Code, Rejection},
    execution::{Execution, Invocation},
    id::OperationId,
    json,
    limits::{EMPTY_PENDING_ATTEMPTS_MAX, EXECUTION_RESULT_BYTES_MAX, PAYLOAD_BYTES_MAX},
    random::SplitMix64,
    record::{Change, Ending, HoldCause, SharedError},
    time::Timestamp,
    wire::{
        ErrorObject, ExecutionStatus, InvocationInput, InvocationOutput, InvocationStatus,
        error_type,
    },
};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::Value;

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler answered these bytes.
    Answered(Vec<u8>),
    /// The handler answered, already read.
    Output(InvocationOutput),
    /// The handler raised an error, its process died, or it ran past the function's timeout.
    Failed(ErrorObject),
    /// The function or its version no longer exists.
    FunctionMissing(ErrorObject),
    /// The call never reached a handler: throttled, or no way to it.
    NotStarted(ErrorObject),
    /// Nobody knows: whoever made the call is gone. The handler may still be running somewhere.
    Lost,
}

impl Outcome {
    /// The handler's process died.
    pub fn exited(message: &str) -> Self {
        Self::Failed(ErrorObject::new(error_type::RUNTIME_EXIT, message))
    }

    /// The handler ran past the function's timeout.
    pub fn timed_out(seconds: u32) -> Self {
        Self::Failed(ErrorObject::new(
            error_type::SANDBOX_TIMEDOUT,
            format!("Task timed out after {seconds}.00 seconds"),
        ))
    }

    /// The function or its version no longer exists.
    pub fn function_missing(function: &str) -> Self {
        Self::FunctionMissing(ErrorObject::new(
            error_type::RESOURCE_NOT_FOUND,
            format!("function not found: {function}"),
        ))
    }
}

/// What an ended invocation means for its execution.
enum Verdict {
    Close(
        ExecutionStatus,
        Option<crate::wire::Payload>,
        Option<ErrorObject>,
    ),
    Suspend,
    EmptyPending,
    Fail(ErrorObject),
    Hold(ErrorObject),
    Undelivered(ErrorObject),
    Lost,
}

impl Turn<'_> {
    pub(crate) fn invoke(&mut self, invocation: Arc<str>) -> Result<Reply, Rejection> {
        if !self.execution.wants_invocation(self.now) {
            return Err(Rejection::new(
                Code::Conflict,
                "the execution does not want to be invoked now",
            ));
        }
        self.settle(self.now)?;
        let updated_operation_ids = self.updated_ids();
        self.write(Change::InvocationStarted {
            invocation: invocation.clone(),
        })?;
        let execution = &*self.execution;
        Ok(Reply::Invoke(Box::new(InvocationInput {
            durable_execution_arn: execution.arn_text.clone(),
            checkpoint_token: execution.mint_token(self.env.keys, &invocation),
            initial_execution_state: execution.first_page(self.env)?,
            updated_operation_ids,
        })))
    }

    /// What changed from outside since a handler last saw state, as far as it will see it.
    fn updated_ids(&self) -> Vec<OperationId> {
        let operations = &self.execution.operations;
        let mut known = HashMap::new();
        operations
            .updated()
            .iter()
            .filter_map(|index| operations.get(*index))
            .filter(|operation| {
                !self.env.limits.hide_closed_children
                    || !operations.is_hidden(operation, &mut known)
            })
            .map(|operation| operation.id().clone())
            .collect()
    }

    pub(crate) fn complete(
        &mut self,
        invocation: &Arc<str>,
        outcome: Outcome,
    ) -> Result<Reply, Rejection> {
        let current = self.execution.gate.invocation.clone();
        let Some(current) = current.filter(|current| current.id == *invocation) else {
            return Ok(Reply::Completed { current: false });
        };
        self.settle(self.now)?;
        let verdict = self.judge(outcome);
        if self.execution.status.is_terminal() {
            self.trail(&current, verdict)?;
        } else {
            self.conclude(&current, verdict)?;
        }
        Ok(Reply::Completed { current: true })
    }

    fn judge(&self, outcome: Outcome) -> Verdict {
        let output = match outcome {
            Outcome::Answered(bytes) => match read_output(&bytes) {
                Ok(output) => output,
                Err(problem) => return Verdict::invalid(problem),
            },
            Outcome::Output(output) => match check_output(output) {
                Ok(output) => output,
                Err(problem) => return Verdict::invalid(problem),
            },
            Outcome::Failed(error) => {
                let mismatch = error.error_type.as_deref() == Some(error_type::REPLAY_MISMATCH);
                return match (mismatch, self.env.limits.hold_on_mismatch) {
                    (false, _) => Verdict::Fail(error),
                    (true, true) => Verdict::Hold(error),
                    (true, false) => Verdict::Close(ExecutionStatus::Failed, None, Some(error)),
                };
            }
            Outcome::FunctionMissing(error) => {
                return Verdict::Close(ExecutionStatus::Failed, None, Some(error));
            }
            Outcome::NotStarted(error) => return Verdict::Undelivered(error),
            Outcome::Lost => return Verdict::Lost,
        };
        match output.status {
            InvocationStatus::Succeeded => {
                let limit = self.execution.result_bytes_max();
                match &output.result {
                    Some(result) if result.len() > limit => Verdict::invalid(format!(
                        "execution output too large: {} bytes, {limit} are allowed",
                        result.len()
                    )),
                    _ => Verdict::Close(ExecutionStatus::Succeeded, output.result, None),
                }
            }
            InvocationStatus::Failed => Verdict::Close(ExecutionStatus::Failed, None, output.error),
            InvocationStatus::Pending if self.execution.may_suspend() => Verdict::Suspend,
            InvocationStatus::Pending => Verdict::EmptyPending,
        }
    }

    /// The execution has closed before: only the end of the invocation is recorded.
    fn trail(&mut self, current: &Invocation, verdict: Verdict) -> Result<(), Rejection> {
        let error = match verdict {
            Verdict::Undelivered(_) | Verdict::Lost => {
                return self.dropped(current, None, Ending::Clean);
            }
            Verdict::Close(_, _, error) => error,
            Verdict::Fail(error) | Verdict::Hold(error) => Some(error),
            Verdict::Suspend | Verdict::EmptyPending => None,
        };
        self.completed(current, error.map(Arc::new), Ending::Clean)
    }

    fn conclude(&mut self, current: &Invocation, verdict: Verdict) -> Result<(), Rejection> {
        let now = self.now;
        match verdict {
            Verdict::Close(status, result, error) => {
                let error = error.map(Arc::new);
                self.completed(current, error.clone(), Ending::Clean)?;
                self.close_execution(status, result, error)
            }
            Verdict::Suspend => self.completed(current, None, Ending::Clean),
            Verdict::EmptyPending => self.repeat_empty_pending(current),
            Verdict::Fail(error) => self.repeat_failed(current, Arc::new(error)),
            Verdict::Hold(error) => {
                let reason = Arc::new(error);
                let ending = Ending::Failed {
                    retry_at: now,
                    interrupted: false,
                };
                self.completed(current, Some(reason.clone()), ending)?;
                self.hold_unless_held(HoldCause::Mismatch, reason)
            }
            Verdict::Undelivered(error) => {
                let retry_at = self.backoff();
                let ending = Ending::Undelivered { retry_at };
                self.dropped(current, Some(Arc::new(error)), ending)
            }
            Verdict::Lost => self.repeat_lost(current),
        }
    }

    fn repeat_empty_pending(&mut self, current: &Invocation) -> Result<(), Rejection> {
        let error = Arc::new(ErrorObject::new(
            error_type::INVALID_PARAMETER,
            "cannot return PENDING without pending operations",
        ));
        let before = self.execution.gate.empty_pendings;
        if before.saturating_add(1) >= EMPTY_PENDING_ATTEMPTS_MAX {
            self.completed(current, Some(error.clone()), Ending::Clean)?;
            return self.close_execution(ExecutionStatus::Failed, None, Some(error));
        }
        // Not all failures in a row: there may have been progress between them.
        let retry_at = self.backoff_after(before);
        self.completed(current, Some(error), Ending::EmptyPending { retry_at })
    }

    fn repeat_failed(&mut self, current: &Invocation, error: SharedError) -> Result<(), Rejection> {
        if self.is_last_attempt() {
            self.completed(current, Some(error.clone()), Ending::Clean)?;
            return self.close_execution(ExecutionStatus::Failed, None, Some(error));
        }
        let ending = Ending::Failed {
            retry_at: self.backoff(),
            interrupted: true,
        };
        self.completed(current, Some(error.clone()), ending)?;
        self.hold_if_stalled(error)
    }

    /// Whoever made the call died, perhaps because of it: repeat at once, but not for ever.
    fn repeat_lost(&mut self, current: &Invocation) -> Result<(), Rejection> {
        let error = Arc::new(ErrorObject::new(
            error_type::RUNTIME_EXIT,
            "the process that ran the invocation died",
        ));
        if self.is_last_attempt() {
            self.dropped(current, Some(error.clone()), Ending::Clean)?;
            return self.close_execution(ExecutionStatus::Failed, None, Some(error));
        }
        let ending = Ending::Failed {
            retry_at: self.now,
            interrupted: true,
        };
        self.dropped(current, Some(error.clone()), ending)?;
        self.hold_if_stalled(error)
    }

    fn is_last_attempt(&self) -> bool {
        let attempts = self.execution.gate.failures.saturating_add(1);
        let cap = self.env.limits.invocation_attempts_max;
        cap.is_some_and(|cap| attempts >= cap)
    }

    fn hold_if_stalled(&mut self, reason: SharedError) -> Result<(), Rejection> {
        let stalled = self.execution.gate.stalled;
        let limit = self.env.limits.stalled_invocations_max;
        if limit.is_none_or(|limit| stalled < limit) {
            return Ok(());
        }
        self.hold_unless_held(HoldCause::NoProgress, reason)
    }

    fn hold_unless_held(&mut self, cause: HoldCause, reason: SharedError) -> Result<(), Rejection> {
        if self.execution.hold.is_some() {
            return Ok(());
        }
        self.write(Change::Held { cause, reason })
    }

    /// Records the end of an invocation that reached its handler.
    pub(crate) fn completed(
        &mut self,
        current: &Invocation,
        error: Option<SharedError>,
        ending: Ending,
    ) -> Result<(), Rejection> {
        self.write(Change::InvocationCompleted {
            invocation: current.id.clone(),
            started: current.started,
            error,
            ending,
        })
    }

    fn dropped(
        &mut self,
        current: &Invocation,
        error: Option<SharedError>,
        ending: Ending,
    ) -> Result<(), Rejection> {
        self.write(Change::InvocationDropped {
            invocation: current.id.clone(),
            error,
            ending,
        })
    }

    /// When a failed invocation is repeated.
    fn backoff(&self) -> Timestamp {
        let gate = &self.execution.gate;
        self.backoff_after(gate.failures.max(gate.undelivered))
    }

    /// The delay doubles with each failure in a row, and a random part of up to half spreads
    /// executions that failed together.
    fn backoff_after(&self, failures: u32) -> Timestamp {
        let limits = self.env.limits;
        let doublings = failures.min(32);
        let longest = limits.invocation_retry_ms_max;
        let shortest = limits.invocation_retry_ms_min.min(longest);
        let full = shortest.saturating_mul(1 << doublings).min(longest);
        let least = (full / 2).max(shortest);
        let seed = self.env.random.iter().take(8);
        let seed = seed.fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let spread = SplitMix64::new(seed).below(full - least + 1);
        self.now.plus_millis(least + spread)
    }
}

impl Verdict {
    fn invalid(problem: String) -> Self {
        let error = ErrorObject::new(error_type::INVALID_PARAMETER, problem);
        Self::Close(ExecutionStatus::Failed, None, Some(error))
    }
}

impl Execution {
    /// Whether a handler may answer PENDING: something is pending, or something changed that it
    /// has not seen, or it will be invoked anyway.
    pub(crate) fn may_suspend(&self) -> bool {
        !self.operations.open().is_empty()
            || !self.operations.unseen().is_empty()
            || self.gate.requested
    }

    /// Largest result: what a waiting caller can be sent, or what an event may carry.
    pub(crate) fn result_bytes_max(&self) -> usize {
        if self.profile.synchronous {
            EXECUTION_RESULT_BYTES_MAX
        } else {
            PAYLOAD_BYTES_MAX
        }
    }
}

/// Reads what a handler answered.
///
/// # Errors
/// With the problem, in words, when it is not a legal output.
pub fn read_output(bytes: &[u8]) -> Result<InvocationOutput, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Raw {
        status: Option<Value>,
        result: Option<Value>,
        error: Option<Value>,
    }
    let text =
        core::str::from_utf8(bytes).map_err(|_| String::from("invocation output is not UTF-8"))?;
    // A list would also be read into a struct, member by member.
    if !text.trim_ascii_start().starts_with('{') {
        return Err("invocation output is not a JSON object".into());
    }
    let raw: Raw = json::read(bytes)
        .map_err(|problem| format!("invocation output is not a valid JSON object: {problem}"))?;
    let status = match raw.status.as_ref().and_then(Value::as_str) {
        Some("SUCCEEDED") => InvocationStatus::Succeeded,
        Some("FAILED") => InvocationStatus::Failed,
        Some("PENDING") => InvocationStatus::Pending,
        Some(other) => return Err(format!("invocation output has unknown Status \"{other}\"")),
        None => return Err("invocation output has no Status".into()),
    };
    let result = match raw.result {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.into()),
        Some(_) => return Err("Result of the invocation output is not a string".into()),
    };
    let error = match raw.error {
        None | Some(Value::Null) => None,
        Some(value @ Value::Object(_)) => Some(
            serde_json::from_value(value)
                .map_err(|problem| format!("Error of the invocation output: {problem}"))?,
        ),
        Some(_) => return Err("Error of the invocation output is not an object".into()),
    };
    check_output(InvocationOutput {
        status,
        result,
        error,
    })
}

fn check_output(output: InvocationOutput) -> Result<InvocationOutput, String> {
    match output.status {
        InvocationStatus::Succeeded if output.error.is_some() => {
            Err("invocation output SUCCEEDED must not have an Error".into())
        }
        InvocationStatus::Failed if output.result.is_some() => {
            Err("invocation output FAILED must not have a Result".into())
        }
        InvocationStatus::Succeeded | InvocationStatus::Failed | InvocationStatus::Pending => {
            Ok(output)
        }
    }
}

/// Reads an error report of a Lambda runtime: `errorType`, `errorMessage`, `errorData` and
/// `stackTrace`, whose frames may be texts or lists. What is no such report becomes the message.
pub fn read_runtime_error(body: &str) -> ErrorObject {
    let Ok(Value::Object(report)) = serde_json::from_str(body) else {
        return ErrorObject {
            error_message: Some(body.into()).filter(|text: &String| !text.is_empty()),
            ..ErrorObject::default()
        };
    };
    let as_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), String::from)
    };
    let text = |member: &str| {
        let value = report.get(member).filter(|value| !value.is_null());
        value.map(as_text)
    };
    ErrorObject {
        error_type: text("errorType"),
        error_message: text("errorMessage"),
        error_data: text("errorData"),
        stack_trace: report
            .get("stackTrace")
            .and_then(Value::as_array)
            .map(|frames| frames.iter().map(as_text).collect()),
    }
}

#[cfg(test)]
mod tests;
