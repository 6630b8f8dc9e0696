//! The server as its clients meet it: over HTTP, on a port of its own, with handlers that write
//! their checkpoints over the same port.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod callbacks;
mod client;
mod executions;
mod functions;
mod home;
mod hosting;
mod invoke;
mod lists;
mod own;
mod script;
mod security;
mod together;
mod traffic;
