//! Durable execution for Rust.
