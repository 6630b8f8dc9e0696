//! The exact sequence of checkpoint requests of every operation: on its first run, and for each
//! state in which a later invocation can find its record.
//!
//! `!` marks an update whose caller waited, `~` one that nobody waited for. The states are reached
//! by killing the process right after the request that produces them.

mod batches;
mod contexts;
mod step;
mod waiting;

use crate::{
    fake::{Fake, recorded},
    show::{Sure, answer, calls, calls_of, millis, secs},
};
use insta::assert_snapshot as check;
use outlast::{
    Completion, CompletionDecision, Context, Error, Function, Nesting, Result, Retry, WaitStrategy,
    core::wire::{InvocationStatus, OperationAction, OperationStatus, OperationType},
    testing::{Answer, Fault, TestKit},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

type Input<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

fn crash_in(step: &str, attempt: u32) -> Fault {
    Fault::CrashInBody {
        step: step.to_owned(),
        attempt,
    }
}
