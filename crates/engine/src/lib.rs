//! The engine of Outlast: the async shell around the pure core.
//!
//! It stores, wakes and invokes; every rule is `outlast-core`'s. One decision of the core becomes
//! one commit of a [`Store`](store::Store), and nothing is acknowledged before that commit is
//! durable. The engine knows neither HTTP nor AWS: hosts of functions implement an invoker, front
//! doors call the engine's methods.

pub mod disk;
pub mod journal;
pub mod store;
