//! The SDK, capability by capability, on the test kit.

#[expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails like a test: by a panic"
)]
mod bad_input;
mod failures;
#[expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails like a test: by a panic"
)]
mod fake;
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of tests fails like a test: by a panic"
)]
mod replay;
mod requests;
mod show;
mod smoke;
mod step;
