//! The examples do what they say, also when things go wrong, and after a crash anywhere.
//!
//! They are run through [`runner::Home`], so that the same tests can later run where the examples
//! are deployed; only crashes need the test kit.

#![expect(
    unreachable_pub,
    reason = "the examples' handlers are written as in a library"
)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod agent;
mod fan_out;
mod order;
mod poll_job;
mod runner;
mod saga;
