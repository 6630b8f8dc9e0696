//! The SDK, capability by capability, on the test kit.

mod bad_input;
mod failures;
mod fake;
mod log;
mod plugins;
mod replay;
mod requests;
mod show;
mod smoke;
