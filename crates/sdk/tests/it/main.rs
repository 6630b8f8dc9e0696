//! The SDK, capability by capability, on the test kit.

mod body;
mod log;
mod plugins;
mod smoke;
