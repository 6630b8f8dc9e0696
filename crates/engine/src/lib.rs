//! The engine of Outlast: the async shell around the pure core.
//!
//! It stores, wakes and invokes; every rule is `outlast-core`'s. One decision of the core becomes
//! one commit of a [`Store`](store::Store), and nothing is acknowledged before that commit is
//! durable. The engine knows neither HTTP nor AWS: hosts of functions implement an
//! [`Invoker`](invoker::Invoker), front doors call the methods of [`Engine`].

mod cell;
mod cells;
mod check;
pub mod clock;
mod counts;
pub mod disk;
mod dispatch;
mod engine;
mod error;
mod frame;
mod function;
mod intents;
pub mod invoker;
pub mod journal;
mod quarantine;
pub mod random;
mod reading;
mod requests;
mod stopped;
pub mod store;
mod unbroken;
mod wakes;

pub use check::{Sound, check};
pub use counts::{Lane, Running, Totals};
pub use engine::{Engine, Options, Parts, Started, WeakEngine};
pub use error::Error;
pub use function::{Known, Registered};
pub use requests::{End, Health, HistoryPart, Resting, execution_id};
