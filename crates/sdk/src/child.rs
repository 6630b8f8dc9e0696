//! Child contexts: a block of durable operations with a result of its own.
//!
//! [`run_context`] is the one path that every recorded block takes: child contexts, batch items,
//! attempts of a retried block, a callback with its submitter.

use crate::{
    attempt::{self, Announced},
    backend::BoxFuture,
    builder::startable,
    checkpoint::Delivery,
    codec::{Codec, Coding},
    context::{CloseOnDrop, Context, Mode, Scope},
    error::{Error, ErrorKind, Result},
    future::Running,
    lifecycle::Label,
    operation::Op,
    plugin::OperationInfo,
    step::relabel,
};
use outlast_core::wire::{
    ErrorObject, OperationAction, OperationStatus, OperationType, Payload, sub_type,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, sync::Arc};

impl Context {
    /// Runs a block of durable operations and records its result as one.
    ///
    /// Once the result is recorded the block never runs again; its inner operations are no longer
    /// needed. Blocks that run concurrently must each have a context of their own, and their bodies
    /// must use it.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let total: u32 = ctx
    ///     .run_in_child_context("totals", async |ctx| {
    ///         let net: u32 = ctx.step("net", async |_| Ok::<_, std::io::Error>(100)).await?;
    ///         let tax: u32 = ctx.step("tax", async |_| Ok::<_, std::io::Error>(19)).await?;
    ///         Ok(net + tax)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn run_in_child_context<'a, T, F, Fut>(&self, name: &str, body: F) -> Child<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Context) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        Child {
            op: self
                .claim(name)
                .operation(OperationType::Context, sub_type::RUN_IN_CHILD_CONTEXT),
            body: Box::new(move |ctx| Box::pin(body(ctx))),
            coding: Coding::default(),
            flat: false,
        }
    }
}

/// The body of a context.
pub(crate) type ContextBody<'a, T> =
    Box<dyn FnOnce(Context) -> BoxFuture<'a, Result<T>> + Send + 'a>;

/// A child context that has not started; see [`Context::run_in_child_context`].
#[must_use = "a child context does nothing unless it is awaited or spawned"]
pub struct Child<'a, T> {
    op: Op,
    body: ContextBody<'a, T>,
    coding: Coding,
    flat: bool,
}

impl<T> Child<'_, T> {
    /// The codec of the block's result.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }

    /// A label other than `RunInChildContext`, for those who read the history.
    pub fn sub_type(mut self, label: &str) -> Self {
        relabel(&mut self.op, label);
        self
    }

    /// Records nothing for the block itself: its operations stand under the context around it, and
    /// the block runs again on every replay.
    pub fn flat(mut self) -> Self {
        self.flat = true;
        self
    }
}

startable!(Child [T] T where { T: Serialize + DeserializeOwned + Send + 'static });

impl<'a, T: Serialize + DeserializeOwned + Send + 'static> Child<'a, T> {
    fn run(self) -> Running<'a, T> {
        let Self {
            op,
            body,
            coding,
            flat,
        } = self;
        let coding = coding.or(&op.scope.coding);
        Running::new(op, move |op| run_context(op, coding, flat, body))
    }
}

/// How a context's value becomes its payload and comes back.
pub(crate) trait Pack<T>: Send + Sync {
    /// The payload to store.
    fn pack<'s>(&self, op: &'s Op, value: &T) -> BoxFuture<'s, Result<Option<Payload>>>;

    /// The value of a stored payload.
    fn unpack(&self, op: &Op, payload: Option<&Payload>) -> impl Future<Output = Result<T>> + Send;

    /// What to store instead of a payload that is too large.
    fn summary(&self, _value: &T) -> Option<String> {
        None
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Pack<T> for Coding {
    fn pack<'s>(&self, op: &'s Op, value: &T) -> BoxFuture<'s, Result<Option<Payload>>> {
        let encoded = op.encode(self, value);
        Box::pin(async move { encoded.await.map(Some) })
    }

    async fn unpack(&self, op: &Op, payload: Option<&Payload>) -> Result<T> {
        op.decode(self, payload).await
    }
}

/// Runs a block as a recorded context, or returns what an earlier run recorded.
///
/// A `flat` block has a namespace of its own but no record.
pub(crate) async fn run_context<T, P, F, Fut>(mut op: Op, pack: P, flat: bool, body: F) -> Result<T>
where
    P: Pack<T>,
    F: FnOnce(Context) -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
    T: Send,
{
    op.check()?;
    if flat {
        return run_flat(&op, body).await;
    }
    let record = op.meet().await;
    let mode = match record.as_deref() {
        None => {
            op.send(op.update(OperationAction::Start), Delivery::FireAndForget)
                .await;
            Mode::Execution
        }
        Some(record) => match record.status {
            OperationStatus::Succeeded if record.replays_children() => Mode::ReplaySucceeded,
            OperationStatus::Succeeded => {
                op.finish(record);
                return pack.unpack(&op, record.result()).await;
            }
            OperationStatus::Failed => {
                op.finish(record);
                return Err(op.failure(ErrorKind::ChildContext, record.error()));
            }
            OperationStatus::Started => {
                let inside = Some(op.id().clone());
                let lifecycle = &op.scope.invocation.lifecycle;
                match lifecycle.with(|state| state.is_ahead(&inside)) {
                    true => Mode::Replay,
                    false => Mode::Execution,
                }
            }
            status @ (OperationStatus::Pending
            | OperationStatus::Ready
            | OperationStatus::Cancelled
            | OperationStatus::TimedOut
            | OperationStatus::Stopped) => return op.unexpected(status).await,
        },
    };
    let result = run_body(&op, op.inner_scope(mode, false), body).await;
    if mode == Mode::ReplaySucceeded {
        if let Some(record) = record.as_deref() {
            op.finish(record);
        }
        let packed = pack.pack(&op, &result?);
        let payload = packed.await?;
        return pack.unpack(&op, payload.as_ref()).await;
    }
    close(&op, &pack, result).await
}

/// Whether a context without a record still has recorded operations to repeat.
fn mode_by_children(op: &Op) -> Mode {
    let first = op.identity.position.child(1);
    if op.scope.invocation.has_record_at_or_below(&first) {
        Mode::Replay
    } else {
        Mode::Execution
    }
}

async fn run_body<T, F, Fut>(op: &Op, scope: Arc<Scope>, body: F) -> Result<T>
where
    F: FnOnce(Context) -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
    T: Send,
{
    let _close = CloseOnDrop(scope.clone());
    let announced = Announced::context(op, scope.mode() != Mode::Execution);
    let label = Label::Body(op.identity.clone());
    // Called inside the context: what the closure does before its future belongs to it too.
    let ctx = Context::new(scope.clone());
    let future = async { body(ctx).await };
    let result = attempt::run_context(&scope, label, &announced, future).await;
    announced.end(result.as_ref().err().map(Error::record));
    result
}

async fn run_flat<T, F, Fut>(op: &Op, body: F) -> Result<T>
where
    F: FnOnce(Context) -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
    T: Send,
{
    op.meet_virtual().await;
    let mode = if op.scope.mode() == Mode::ReplaySucceeded {
        Mode::ReplaySucceeded
    } else {
        mode_by_children(op)
    };
    let scope = op.inner_scope(mode, true);
    let hooks = &op.scope.invocation.hooks;
    if !hooks.is_empty() && mode != Mode::ReplaySucceeded {
        let mut info = op.info();
        info.is_replay = mode == Mode::Replay;
        scope.announce_with_news(info);
        // It runs on every replay, and an earlier invocation may have told of its end.
        if mode == Mode::Execution && !op.scope.is_replaying() {
            scope.has_news();
        }
    }
    let result = run_body(op, scope.clone(), body).await;
    op.scope.passed(None);
    if let Some(info) = scope.announced() {
        let ended = virtual_end(info, op, result.as_ref().err().map(Error::record));
        hooks.each("operation_end", |plugin| plugin.operation_end(&ended));
    }
    result.map_err(|error| {
        Error::from_record(
            ErrorKind::ChildContext,
            Some(op.reference()),
            error.into_record(),
        )
    })
}

fn virtual_end(mut info: OperationInfo, op: &Op, error: Option<&ErrorObject>) -> OperationInfo {
    info.status = Some(if error.is_none() {
        OperationStatus::Succeeded
    } else {
        OperationStatus::Failed
    });
    info.end_timestamp = Some(op.now());
    info.error = error.cloned();
    info
}

/// Records how a context ended and gives back what was recorded.
async fn close<T, P: Pack<T>>(op: &Op, pack: &P, result: Result<T>) -> Result<T> {
    // Packed here and now: no future may hold on to the value, which need not be `Sync`.
    let packed = result.map(|value| (pack.pack(op, &value), pack.summary(&value)));
    let written = async {
        let (packed, summary) = packed?;
        let payload = packed.await?;
        let back = pack.unpack(op, payload.as_ref()).await?;
        Ok::<_, Error>((payload, summary, back))
    };
    match written.await {
        Ok((payload, summary, back)) => {
            op.close(payload, || summary).await;
            Ok(back)
        }
        Err(error) => Err(op.close_failed(ErrorKind::ChildContext, error).await),
    }
}

impl<T> fmt::Debug for Child<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("op", &self.op)
            .field("flat", &self.flat)
            .finish_non_exhaustive()
    }
}
