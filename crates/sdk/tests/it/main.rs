//! The SDK, capability by capability, on the test kit.

// Marked as tests so that clippy lets their helpers unwrap, too.
#[cfg(test)]
mod direct;
#[cfg(test)]
mod lifecycle;
mod smoke;
mod step;
#[cfg(test)]
mod stress;
