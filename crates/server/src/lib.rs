//! HTTP for the engine of Outlast: the AWS Lambda durable-execution API in front of it, and the
//! hosts that run handlers in other processes behind it.
//!
//! It translates; every rule is `outlast-core`'s, and how state is kept is `outlast-engine`'s. A
//! request goes through [`Server`] (connections and their limits), [`route`] (what is asked),
//! [`auth`] (who asks, and whether they may), `api` (one file per group of operations) and back as
//! an `answer` or an `error`. Which functions there are is the [`catalogue`]'s to say; [`hosting`]
//! chooses the [`host`] that runs each.

mod answer;
mod api;
pub mod auth;
pub mod catalogue;
pub mod config;
mod error;
mod events;
pub mod host;
pub mod hosting;
pub mod keys;
pub mod logs;
mod metrics;
pub mod operation;
pub mod route;
mod server;
pub mod tls;

pub use outlast_http::{secret, sigv4};
pub use server::{Options, Server};
