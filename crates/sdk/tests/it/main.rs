//! The SDK, capability by capability, on the test kit.

mod bad_input;
mod body;
#[cfg(test)]
mod direct;
mod failures;
mod fake;
#[cfg(test)]
mod lifecycle;
mod log;
mod plugins;
mod replay;
mod requests;
mod show;
mod smoke;
#[cfg(test)]
mod stress;
