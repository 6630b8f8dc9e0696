//! Who runs the handlers of functions that live in other processes.
//!
//! A host is an [`Invoker`](outlast_engine::invoker::Invoker): the engine gives it a call and gets
//! back how the call ended. There are two kinds: [`runtime`], which workers ask for work over the
//! Lambda Runtime API, and [`push`], which calls something that answers the Lambda Invoke API.
//! [`process`] starts and watches workers of the first kind.
//!
//! A host counts the time a function may take itself, from the moment a worker has the call: the
//! time in the queue is not the function's. Whoever registers a hosted function with the engine
//! therefore gives the engine no timeout for it.
//!
//! Hosts decide nothing about executions: what an answer or a failure means is the core's, when to
//! try again is the engine's.

pub mod announced;
pub mod document;
mod ending;
pub mod hosts;
pub mod listener;
pub mod peer;
pub mod process;
pub mod push;
mod queue;
pub mod runtime;
pub mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest answer or error report of a handler, in bytes (published limit of the Lambda service:
/// 6 MiB).
pub const ANSWER_BYTES_MAX: usize = outlast_core::limits::EXECUTION_RESULT_BYTES_MAX;

/// Locks; what a panicking thread left behind is used as it is, since every change here is made in
/// one piece.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
