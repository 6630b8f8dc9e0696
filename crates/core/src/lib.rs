//! The pure rules of Outlast.
//!
//! This crate decides and never acts: it knows no clock, no chance, no IO and no async. `now` and
//! random bytes are arguments, so every decision can be repeated from its inputs. The engine, the
//! embedded mode, the users' test kit and the simulator all run this code; there is one
//! implementation of every rule.
//!
//! The service side is event-sourced: [`Execution::decide`] turns one input into records, and
//! folding records is the only way an [`Execution`] changes. The order is always: decide, commit
//! the records, act. Where to look: `record` (what can happen), `operation` and `operations` (one
//! of them, all of them), `execution` (the fold), `decide` (the door), `checkpoint` and `validate`
//! (what handlers write), `invocation` (what they answer), `delivery` (what arrives from outside),
//! `intent` (what the outside must do), `history`, `state`, `describe` and `why` (what can be read),
//! `codec` and `snapshot` (what is kept).
//!
//! ```
//! use outlast_core::{Env, Execution, Input, Outcome, Quotas, Start, Target, record, token, wire};
//! use outlast_core::time::Timestamp;
//!
//! let keys = token::Keys::new(token::Key::new(1, [7; 32]));
//! let env = Env {
//!     now: Timestamp::from_millis(1_767_225_600_000),
//!     random: [1; 32],
//!     keys: &keys,
//!     limits: &Quotas::unlimited(),
//!     resolve: &|_| Target::Refused(wire::ErrorObject::default()),
//!     load: &record::nothing,
//! };
//! let start = Start {
//!     function: "arn:aws:lambda:us-east-1:123456789012:function:order:1".parse()?,
//!     name: None,
//!     input: Some("{}".into()),
//!     config: wire::DurableConfig {
//!         execution_timeout: 60,
//!         retention_period_in_days: None,
//!         kms_key_arn: None,
//!     },
//!     synchronous: false,
//!     tenant: None,
//!     trace: None,
//!     client_context: None,
//!     parent: None,
//! };
//! let (mut execution, mut records) = Execution::start(&env, start)?;
//!
//! assert!(execution.wants_invocation(env.now));
//! let begun = execution.decide(&env, Input::Invoke { invocation_id: "first".into() })?;
//! records.extend(begun.records);
//!
//! let answer = wire::InvocationOutput::succeeded(Some("42".into()));
//! let ended = execution.decide(&env, Input::Complete {
//!     invocation_id: "first".into(),
//!     outcome: Outcome::Output(answer),
//! })?;
//! records.extend(ended.records);
//!
//! assert_eq!(execution.status(), wire::ExecutionStatus::Succeeded);
//! assert_eq!(Execution::from_records(&records)?, execution);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arn;
pub mod batch;
mod checkpoint;
pub mod codec;
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
pub mod json;
pub mod limits;
pub mod operation;
mod operations;
#[cfg(test)]
mod properties;
pub mod random;
pub mod record;
pub mod replay;
pub mod retry;
pub mod schedule;
pub mod snapshot;
pub mod start;
pub mod state;
pub mod tenancy;
pub mod time;
pub mod token;
pub mod transcript;
mod validate;
mod why;
pub mod wire;
#[cfg(test)]
mod world;

pub use codec::Undecodable;
pub use decide::{Decision, Env, Input, Reply, Target};
pub use error::{Code, Corrupt, Rejection};
pub use execution::Execution;
pub use intent::Intent;
pub use invocation::Outcome;
pub use limits::Quotas;
pub use record::Record;
pub use start::Start;
pub use tenancy::Tenancy;
