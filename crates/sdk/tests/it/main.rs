//! The SDK, capability by capability, on the test kit.

mod body;
mod log;
mod smoke;
mod step;
