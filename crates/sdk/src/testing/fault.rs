//! Failures that the test kit can inject, each at a place that can be named.

use crate::backend::BackendError;
use std::time::Duration;

/// A failure to inject. Checkpoint requests are counted from 1 over all invocations of the
/// execution under test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The process dies before request `n` is applied.
    CrashBefore(u64),
    /// The process dies after request `n` was applied, before it sees the answer.
    CrashAfter(u64),
    /// The process dies in the body of this step, in this attempt, after its start was recorded.
    CrashInBody {
        /// The step's name.
        step: String,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// Request `n` is applied, and its answer is lost on the way.
    LoseResponse(u64),
    /// Request `n` arrives twice, as when a client repeats it; the second answer is used.
    DuplicateRequest(u64),
    /// The answer to request `n` lists every operation twice.
    DuplicateResponse(u64),
    /// Request `n` carries a token that is no longer valid.
    StaleToken(u64),
    /// The answer to request `n` carries no token: the invocation may write no more.
    MissingToken(u64),
    /// Request `n` is refused.
    Refuse(u64, BackendError),
    /// Request `n` takes this long.
    Slow(u64, Duration),
    /// The fire-and-forget start of this operation never arrives.
    LoseStart(String),
}

/// What happens to one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) crash_before: bool,
    pub(super) crash_after: bool,
    pub(super) lose_response: bool,
    pub(super) duplicate_request: bool,
    pub(super) duplicate_response: bool,
    pub(super) stale_token: bool,
    pub(super) missing_token: bool,
    pub(super) refuse: Option<BackendError>,
    pub(super) slow: Option<Duration>,
}

/// The faults that concern request `number`.
pub(super) fn plan(faults: &[Fault], number: u64) -> Plan {
    let mut plan = Plan::default();
    for fault in faults {
        match fault {
            Fault::CrashBefore(n) => plan.crash_before |= *n == number,
            Fault::CrashAfter(n) => plan.crash_after |= *n == number,
            Fault::LoseResponse(n) => plan.lose_response |= *n == number,
            Fault::DuplicateRequest(n) => plan.duplicate_request |= *n == number,
            Fault::DuplicateResponse(n) => plan.duplicate_response |= *n == number,
            Fault::StaleToken(n) => plan.stale_token |= *n == number,
            Fault::MissingToken(n) => plan.missing_token |= *n == number,
            Fault::Refuse(n, error) if *n == number => plan.refuse = Some(error.clone()),
            Fault::Slow(n, delay) if *n == number => plan.slow = Some(*delay),
            Fault::Refuse(..)
            | Fault::Slow(..)
            | Fault::CrashInBody { .. }
            | Fault::LoseStart(_) => {}
        }
    }
    plan
}
