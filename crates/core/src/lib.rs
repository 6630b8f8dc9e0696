//! The pure rules of Outlast.
//!
//! This crate decides and never acts: it knows no clock, no chance, no IO and no async. `now` and
//! random bytes are arguments, so every decision can be repeated from its inputs. The engine, the
//! embedded mode, the users' test kit and the simulator all run this code; there is one
//! implementation of every rule.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arn;
mod checkpoint;
pub mod decide;
pub mod delivery;
pub mod describe;
pub mod error;
pub mod event;
pub mod execution;
pub mod history;
pub mod id;
pub mod intent;
mod invariants;
pub mod invocation;
pub mod limits;
pub mod operation;
mod operations;
#[cfg(test)]
mod properties;
pub mod random;
pub mod record;
pub mod start;
pub mod state;
pub mod time;
pub mod token;
pub mod transcript;
mod validate;
mod why;
pub mod wire;
#[cfg(test)]
mod world;

pub use decide::{Decision, Env, Input, Reply, Target};
pub use error::{Code, Corrupt, Rejection};
pub use execution::Execution;
pub use intent::Intent;
pub use invocation::Outcome;
pub use limits::Quotas;
pub use record::Record;
pub use start::Start;
