//! The SDK's remote home against the real program: `outlast serve` in a process of its own, workers
//! and clients in this one.
//!
//! The examples' own tests run here, too: the same files as on the test kit, through
//! [`CloudRunner`](outlast::testing::CloudRunner).

#![cfg(unix)]
#![expect(
    unreachable_pub,
    reason = "the examples' handlers are written as in a library"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod cloud;
mod life;
#[path = "../both/program.rs"]
mod program;
mod restart;
mod roles;
mod secure;
mod server;

#[path = "../../../sdk/tests/examples/agent.rs"]
mod agent;
#[path = "../../../sdk/tests/examples/fan_out.rs"]
mod fan_out;
#[path = "../../../sdk/tests/examples/order.rs"]
mod order;
#[path = "../../../sdk/tests/examples/poll_job.rs"]
mod poll_job;
#[path = "../../../sdk/tests/examples/runner.rs"]
mod runner;
#[path = "../../../sdk/tests/examples/saga.rs"]
mod saga;

/// Where the examples' tests run.
fn home() -> cloud::Cloud {
    cloud::Cloud
}
