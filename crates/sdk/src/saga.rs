//! Sagas: undoing what was done, in reverse, when a later part fails.

use crate::{
    backend::BoxFuture,
    context::Context,
    error::{BoxError, Error, Result, clipped},
    retry::Retry,
    step::StepContext,
};
use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

impl Context {
    /// Runs a block that notes, after each part, how to undo it; if the block fails, what was noted
    /// is undone in reverse order, and the block's error is returned.
    ///
    /// Each compensation is a step of its own, retried and recorded, so a crash in the middle of
    /// undoing continues where it was. A compensation that fails for good does not keep the others
    /// from running; its error is reported in the trace of the returned one.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn reserve() -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn release(_: u32) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn charge() -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let receipt: u32 = ctx
    ///     .saga(async |saga| {
    ///         let room = ctx.step("reserve", async |_| reserve().await).await?;
    ///         saga.undo("release", move |_| release(room));
    ///         ctx.step("charge", async |_| charge().await).await
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The block's own error, after everything noted was undone.
    pub async fn saga<'a, T, F, Fut>(&self, body: F) -> Result<T>
    where
        F: FnOnce(Saga<'a>) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let saga = Saga {
            undo: Arc::default(),
        };
        match body(saga.clone()).await {
            Ok(value) => Ok(value),
            Err(error) => Err(saga.roll_back(self, error).await),
        }
    }
}

type Undo<'a> = Box<dyn Fn(StepContext) -> BoxFuture<'a, Result<()>> + Send + Sync + 'a>;

/// What a saga has to undo if it fails; see [`Context::saga`].
///
/// A handle: the block owns it, because a block that borrowed it could not be shown to be `Send`.
#[derive(Clone)]
pub struct Saga<'a> {
    undo: Arc<Mutex<Vec<Compensation<'a>>>>,
}

struct Compensation<'a> {
    name: String,
    retry: Retry,
    body: Undo<'a>,
}

impl<'a> Saga<'a> {
    /// Notes how to undo the part that was just done. The compensation is a step of this name.
    pub fn undo<E, F, Fut>(&self, name: &str, body: F)
    where
        E: Into<BoxError> + Send + 'static,
        F: Fn(StepContext) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<(), E>> + Send + 'a,
    {
        self.undo_with(name, Retry::default(), body);
    }

    /// Notes how to undo, with a retry strategy of its own.
    pub fn undo_with<E, F, Fut>(&self, name: &str, retry: Retry, body: F)
    where
        E: Into<BoxError> + Send + 'static,
        F: Fn(StepContext) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<(), E>> + Send + 'a,
    {
        let body: Undo<'a> = Box::new(move |step| {
            let future = body(step);
            Box::pin(async move { future.await.map_err(Error::other) })
        });
        self.noted().push(Compensation {
            name: name.to_owned(),
            retry,
            body,
        });
    }

    /// How many parts would be undone now.
    pub fn len(&self) -> usize {
        self.noted().len()
    }

    /// Whether there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.noted().is_empty()
    }

    fn noted(&self) -> MutexGuard<'_, Vec<Compensation<'a>>> {
        self.undo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn roll_back(self, ctx: &Context, error: Error) -> Error {
        let kind = error.kind();
        let operation = error.operation().cloned();
        let mut record = error.into_record();
        let noted = std::mem::take(&mut *self.noted());
        for Compensation { name, retry, body } in noted.into_iter().rev() {
            if let Err(failed) = ctx.step(&name, body).retry(retry).await {
                record
                    .stack_trace
                    .get_or_insert_default()
                    .push(clipped(format!("compensation: {failed}")));
            }
        }
        Error::from_record(kind, operation, record)
    }
}

impl fmt::Debug for Saga<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.noted().iter().map(|undo| &undo.name))
            .finish()
    }
}
