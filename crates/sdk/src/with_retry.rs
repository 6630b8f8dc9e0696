//! Retrying a whole block of durable operations.

use crate::{
    backend::BoxFuture,
    builder::startable,
    child::run_context,
    codec::Coding,
    context::Context,
    error::{Error, ErrorKind, Result},
    future::Running,
    operation::Op,
    retry::Retry,
};
use outlast_core::wire::{OperationType, sub_type};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, time::Duration};

impl Context {
    /// Runs a block of durable operations, and runs it again from its start when it fails, with
    /// durable waits in between.
    ///
    /// Each attempt has a context of its own, so a later one may take another path. The strategy
    /// looks at recorded errors again on every replay: unlike a step's it must be deterministic.
    ///
    /// ```
    /// # use outlast::{Context, Result, Retry};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let total: u32 = ctx
    ///     .with_retry("price", Retry::exponential(), async |ctx, attempt| {
    ///         ctx.invoke("quote", "pricing:live", attempt).await
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn with_retry<'a, T, F, Fut>(&self, name: &str, retry: Retry, body: F) -> WithRetry<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Context, u32) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let mut op = self
            .claim(name)
            .operation(OperationType::Context, sub_type::RUN_IN_CHILD_CONTEXT);
        if let Some(problem) = retry.problem() {
            op.reject(problem);
        }
        WithRetry {
            op,
            retry,
            body: Box::new(move |ctx, attempt| Box::pin(body(ctx, attempt))),
        }
    }
}

type Body<'a, T> = Box<dyn Fn(Context, u32) -> BoxFuture<'a, Result<T>> + Send + Sync + 'a>;

/// A block to be retried, not started; see [`Context::with_retry`].
#[must_use = "a retried block does nothing unless it is awaited or spawned"]
pub struct WithRetry<'a, T> {
    op: Op,
    retry: Retry,
    body: Body<'a, T>,
}

startable!(WithRetry [T] T where { T: Serialize + DeserializeOwned + Send + 'static });

impl<'a, T: Serialize + DeserializeOwned + Send + 'static> WithRetry<'a, T> {
    fn run(self) -> Running<'a, T> {
        let Self { op, retry, body } = self;
        let coding = op.scope.coding.clone();
        Running::new(op, move |op| {
            let seed = op.seed(0);
            run_context(op, coding, false, move |ctx| {
                attempts(ctx, retry, body, seed)
            })
        })
    }
}

async fn attempts<T>(ctx: Context, retry: Retry, body: Body<'_, T>, seed: u64) -> Result<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let mut attempt = 1;
    loop {
        let op = ctx
            .claim(&format!("attempt-{attempt}"))
            .operation(OperationType::Context, sub_type::RUN_IN_CHILD_CONTEXT);
        let coding: Coding = op.scope.coding.clone();
        let run = Running::new(op, |op| {
            run_context(op, coding, false, |ctx| body(ctx, attempt))
        });
        let error = match run.await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(delay) = retry.decide(error.record(), None, attempt, seed) else {
            return Err(exhausted(error, attempt));
        };
        ctx.named_wait(
            &format!("retry-delay-{attempt}"),
            Duration::from_secs(u64::from(delay)),
        )
        .await?;
        attempt += 1;
    }
}

/// The last error, with the number of attempts for those who read it.
fn exhausted(error: Error, attempts: u32) -> Error {
    let mut record = error.into_record();
    record
        .stack_trace
        .get_or_insert_default()
        .push(format!("gave up after {attempts} attempts"));
    Error::from_record(ErrorKind::ChildContext, None, record)
}

impl<T> fmt::Debug for WithRetry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithRetry")
            .field("op", &self.op)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
