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

pub mod batch;
pub mod id;
pub mod limits;
pub mod random;
pub mod replay;
pub mod retry;
pub mod schedule;
pub mod time;
pub mod wire;
