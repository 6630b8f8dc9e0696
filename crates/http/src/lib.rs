//! What both ends of Outlast's HTTP share, and all of what its clients need to reach an endpoint:
//! a server of ours or AWS Lambda, encrypted or not.
//!
//! [`Endpoint`] says where it is, [`Credentials`] as whom to ask there, [`Choice`] finds both from
//! what was given and the environment; [`Http`] sends requests over connections that are kept.
//! [`sigv4`] signs and verifies. What is asked, how often and what an answer means is the caller's.

pub mod client;
pub mod credentials;
pub mod endpoint;
pub mod options;
mod profile;
mod remedy;
pub mod secret;
pub mod sigv4;
mod stream;
pub mod tls;

pub use client::{Call, Failure, Http, Own, Reply};
pub use credentials::{Credentials, Keys};
pub use endpoint::{Endpoint, Place};
pub use options::{Choice, Options, Unusable};
pub use remedy::remedy;
pub use secret::Secret;

use outlast_core::time::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// The world's time: what signatures are compared with, whatever clock an engine has.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "a signature is of the moment it is sent"
    )]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
