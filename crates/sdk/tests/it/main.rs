//! The SDK, capability by capability, on the test kit.

mod smoke;
mod step;
