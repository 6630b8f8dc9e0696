//! The examples do what they say, also when things go wrong, and after a crash anywhere.
//!
//! They are run through [`runner::Home`]: here on the test kit, and by the tests of `outlast-cli` on a
//! server. Crashes need the test kit everywhere.

#![expect(
    unreachable_pub,
    reason = "the examples' handlers are written as in a library"
)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod agent;
mod fan_out;
mod kit;
mod order;
mod poll_job;
mod runner;
mod saga;

/// Where these tests run.
fn home() -> kit::Kit {
    kit::Kit
}
