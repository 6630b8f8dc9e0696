//! Durable execution for Rust: ordinary async code whose every step survives a crash.
//!
//! ```
//! use outlast::{Context, Result};
//! use std::time::Duration;
//!
//! # #[derive(serde::Deserialize)] struct Order { id: u32, items: Vec<String> }
//! # async fn charge(_: u32) -> Result<String, std::io::Error> { Ok("paid".into()) }
//! # async fn mail(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//! # async fn pack(_: &str) -> Result<String, std::io::Error> { Ok("packed".into()) }
//! async fn order(ctx: Context, order: Order) -> Result<Vec<String>> {
//!     // The result is checkpointed: after a crash the body does not run again.
//!     let receipt: String = ctx.step("charge", async |_| charge(order.id).await).await?;
//!     // No compute is held while this waits.
//!     ctx.wait(Duration::from_secs(3600)).await?;
//!     let _answer: String = ctx.wait_for_callback("approve", async |id| mail(&id).await).await?;
//!     ctx.map("pack", &order.items, async |ctx, item| ctx.step("pack", async |_| pack(item).await).await)
//!         .max_concurrency(10)
//!         .await?
//!         .into_values()
//! }
//! ```
//!
//! A handler is called again from its top whenever its execution goes on; what was recorded is
//! returned instead of run. Code between operations must therefore be deterministic: no clock, no
//! chance, no iteration over unordered maps; use [`Context::now`], [`Context::uuid`] and
//! [`Context::random`], and put everything with an effect into a [step](Context::step).

mod actor;
mod app;
mod attempt;
pub mod backend;
mod batch;
mod builder;
mod callback;
mod checkpoint;
mod child;
#[cfg(any(feature = "embedded", feature = "remote"))]
mod client;
mod clock;
pub mod codec;
mod combine;
mod condition;
mod config;
mod context;
mod driver;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod function;
mod future;
mod invocation;
mod invoke;
mod lifecycle;
#[cfg(feature = "log")]
pub mod log;
mod operation;
pub mod plugin;
#[cfg(feature = "remote")]
mod remote;
mod retry;
mod saga;
mod signal;
mod step;
#[cfg(feature = "otel")]
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod wait;
mod with_retry;

pub use app::App;
pub use batch::{
    BatchItem, BatchResult, BatchStatus, Completion, CompletionDecision, CompletionReason, Counts,
    ItemStatus, Map, Nesting, Parallel,
};
pub use callback::{Callback, CreateCallback, WaitForCallback};
pub use child::Child;
#[cfg(any(feature = "embedded", feature = "remote"))]
pub use client::{Execution, PendingCallback, StartExecution};
pub use clock::{Clock, SystemClock};
pub use combine::Combine;
pub use condition::{WaitForCondition, WaitStep, WaitStrategy};
pub use config::{Config, Executor};
pub use context::Context;
#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use error::{BoxError, Error, ErrorKind, OperationRef, Result, ok};
pub use function::Function;
pub use future::{DurableFuture, Running};
pub use invocation::{InvocationError, LambdaContext, Outcome, Request, invoke};
pub use invoke::Invoke;
pub use lifecycle::{Holder, OperationState, Report, TerminationReason};
pub use outlast_core as core;
#[cfg(feature = "embedded")]
pub use outlast_engine as engine;
#[cfg(feature = "remote")]
pub use remote::{Remote, RemoteOptions, Worker};
pub use retry::{Failure, Jitter, Retry, RetryDecision};
pub use saga::Saga;
pub use signal::WaitSignal;
pub use step::{Semantics, Step, StepContext};
pub use wait::Wait;
pub use with_retry::WithRetry;

/// The README's code is compiled and run like every other example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So is the code of the guide to testing.
#[cfg(all(doctest, feature = "testing", feature = "remote"))]
#[doc = include_str!("../../../docs/guide/testing.md")]
struct TestingGuide;

/// And that of the guide to traces.
#[cfg(all(doctest, feature = "otel"))]
#[doc = include_str!("../../../docs/guide/telemetry.md")]
struct TelemetryGuide;
