//! The SDK, capability by capability, on the test kit.

mod log;
mod smoke;
mod step;
