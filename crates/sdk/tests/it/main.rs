//! The SDK, capability by capability, on the test kit.

// Each is marked as a test so that clippy lets its helpers unwrap, too.
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod body;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod log;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod show;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod stress;
#[cfg(test)]
#[cfg(feature = "otel")]
mod telemetry;
#[cfg(test)]
#[cfg(feature = "otel")]
mod telemetry_shapes;
