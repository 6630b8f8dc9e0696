//! Callbacks: replies from outside, each identified by an id that is handed out.

use crate::{
    backend::BoxFuture,
    builder::startable,
    child::{Pack, run_context},
    clock::whole_seconds,
    codec::{Codec, Coding},
    context::Context,
    error::{BoxError, Error, ErrorKind, Result},
    future::Running,
    lifecycle::{Fault, OperationState},
    operation::Op,
    retry::Retry,
};
use outlast_core::{
    limits::CALLBACK_TIMEOUT_SECONDS_MAX,
    wire::{
        CallbackOptions, ErrorObject, Operation, OperationAction, OperationStatus, OperationType,
        Payload, error_type, sub_type,
    },
};
use serde::de::DeserializeOwned;
use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

impl Context {
    /// Opens a callback and gives a handle with its id and, to be awaited, its result.
    ///
    /// Code that sends the id to the outside world must itself be a step; or use
    /// [`wait_for_callback`](Context::wait_for_callback), which does that. A callback that failed
    /// reports so where its *result* is awaited, not where it is created.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let approval = ctx.create_callback::<String>("approval").await?;
    /// ctx.step("send", async |_| send(approval.id()).await).await?;
    /// let answer = approval.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn create_callback<T>(&self, name: &str) -> CreateCallback<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let op = self
            .claim(name)
            .operation(OperationType::Callback, sub_type::CALLBACK);
        CreateCallback {
            op,
            options: CallbackOptions::default(),
            coding: Coding::default(),
            marker: PhantomData,
        }
    }

    /// Opens a callback, hands its id to `submit`, and waits for the reply.
    ///
    /// `submit` runs as a step: it is retried, and never repeated once it succeeded. The id is the
    /// same in every attempt, so it also serves to drop duplicates.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # use std::time::Duration;
    /// # async fn mail(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let answer: String = ctx
    ///     .wait_for_callback("approve", async |id| mail(&id).await)
    ///     .timeout(Duration::from_secs(2 * 24 * 3600))
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_for_callback<'a, T, E, F, Fut>(
        &self,
        name: &str,
        submit: F,
    ) -> WaitForCallback<'a, T>
    where
        T: DeserializeOwned + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: Fn(String) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<(), E>> + Send + 'a,
    {
        WaitForCallback {
            op: self
                .claim(name)
                .operation(OperationType::Context, sub_type::WAIT_FOR_CALLBACK),
            submit: Box::new(move |id| {
                let future = submit(id);
                Box::pin(async move { future.await.map_err(Error::other) })
            }),
            options: CallbackOptions::default(),
            retry: Retry::default(),
            coding: Coding::default(),
            marker: PhantomData,
        }
    }
}

/// Seconds of a callback's timeout; the problem is noted on the operation.
pub(crate) fn timeout_seconds(op: &mut Op, what: &str, timeout: Duration) -> Option<u32> {
    if timeout.is_zero() {
        op.reject(format!("the {what} is zero: leave it out for none"));
    }
    let seconds = whole_seconds(timeout, CALLBACK_TIMEOUT_SECONDS_MAX);
    if seconds.is_none() {
        op.reject(format!("the {what} of {timeout:?} is too long, {CALLBACK_TIMEOUT_SECONDS_MAX} seconds are allowed"));
    }
    seconds
}

/// A callback that has not been opened; see [`Context::create_callback`].
#[must_use = "a callback is not opened unless it is awaited"]
pub struct CreateCallback<'a, T> {
    op: Op,
    options: CallbackOptions,
    coding: Coding,
    marker: PhantomData<fn() -> &'a T>,
}

impl<T> CreateCallback<'_, T> {
    /// How long to wait for the reply.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout_seconds = timeout_seconds(&mut self.op, "callback's timeout", timeout);
        self
    }

    /// How long the outside may be silent between heartbeats.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.options.heartbeat_timeout_seconds =
            timeout_seconds(&mut self.op, "callback's heartbeat timeout", timeout);
        self
    }

    /// The codec of the reply. Without one a `String` is taken as it is and any other type is read
    /// as JSON.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }
}

startable!(CreateCallback [T] Callback<T> where { T: DeserializeOwned + Send + 'static });

impl<'a, T: DeserializeOwned + Send + 'static> CreateCallback<'a, T> {
    fn run(self) -> Running<'a, Callback<T>> {
        let Self {
            op,
            options,
            coding,
            marker: _,
        } = self;
        Running::new(op, move |mut op| async move {
            op.check()?;
            let id = open(&op, options).await;
            // Opening is over; waiting for the reply is another matter, and not spawned.
            op.spawned = false;
            Ok(Callback {
                id,
                op,
                coding,
                marker: PhantomData,
            })
        })
    }
}

/// The id of an open callback, opening it first if there is no record of it.
async fn open(op: &Op, options: CallbackOptions) -> Arc<str> {
    let record = match op.meet().await {
        Some(record) => record,
        None => {
            op.mark(OperationState::Executing);
            let mut update = op.update(OperationAction::Start);
            update.callback_options = Some(options);
            op.commit(update).await
        }
    };
    if record.status == OperationStatus::Started {
        op.mark(OperationState::IdleNotAwaited);
    }
    // When it ended, if it has, is not known to every replay: the reply tells, not the opening.
    op.scope.passed(None);
    let details = record.callback_details.as_ref();
    match details.and_then(|details| details.callback_id.clone()) {
        Some(id) => id,
        None => {
            let message = format!("the backend gave no id for {}", op.reference());
            op.abort(Fault::Execution(ErrorObject::new("ProtocolError", message)))
                .await
        }
    }
}

/// The text of a callback's reply, or why there is none.
async fn reply(op: &Op) -> Result<Option<Payload>> {
    let record = closed(op).await;
    match failure(op, &record) {
        Some(error) => Err(error),
        None => Ok(record.result().cloned()),
    }
}

/// An open callback.
pub struct Callback<T> {
    id: Arc<str>,
    op: Op,
    coding: Coding,
    marker: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Callback<T> {
    /// The id that completes it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the reply.
    pub fn result(self) -> Running<'static, T> {
        let Self { op, coding, .. } = self;
        Running::new(op, move |op| async move {
            let text = reply(&op).await?;
            op.decode_external(&coding, text.as_ref()).await
        })
    }
}

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is a capability: whoever has it can complete the callback.
        f.debug_struct("Callback")
            .field("op", &self.op)
            .finish_non_exhaustive()
    }
}

/// The record of a callback or signal once it is over.
pub(crate) async fn closed(op: &Op) -> Arc<Operation> {
    let record = match op.record() {
        Some(record) if record.status.is_terminal() => record,
        _ => op.change(OperationState::IdleAwaited).await,
    };
    op.finish(&record);
    record
}

/// Why a callback has no result.
fn failure(op: &Op, record: &Operation) -> Option<Error> {
    if record.status == OperationStatus::Succeeded {
        return None;
    }
    let error = record.error();
    let error_type = error.and_then(|error| error.error_type.as_deref());
    let kind = match (record.status, error_type) {
        (OperationStatus::TimedOut, Some(error_type::CALLBACK_HEARTBEAT)) => {
            ErrorKind::CallbackHeartbeat
        }
        (OperationStatus::TimedOut, _) => ErrorKind::CallbackTimeout,
        _ => ErrorKind::CallbackFailed,
    };
    Some(op.failure(kind, error))
}

type Submit<'a> = Box<dyn Fn(String) -> BoxFuture<'a, Result<()>> + Send + Sync + 'a>;

/// A callback with its submitter, not started; see [`Context::wait_for_callback`].
#[must_use = "a callback is not opened unless it is awaited or spawned"]
pub struct WaitForCallback<'a, T> {
    op: Op,
    submit: Submit<'a>,
    options: CallbackOptions,
    retry: Retry,
    coding: Coding,
    marker: PhantomData<fn() -> T>,
}

impl<T> WaitForCallback<'_, T> {
    /// How long to wait for the reply.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout_seconds = timeout_seconds(&mut self.op, "callback's timeout", timeout);
        self
    }

    /// How long the outside may be silent between heartbeats.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.options.heartbeat_timeout_seconds =
            timeout_seconds(&mut self.op, "callback's heartbeat timeout", timeout);
        self
    }

    /// When a failed submission is repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        if let Some(problem) = retry.problem() {
            self.op.reject(problem);
        }
        self.retry = retry;
        self
    }

    /// The codec of the reply. Without one a `String` is taken as it is and any other type is read
    /// as JSON.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }
}

startable!(WaitForCallback [T] T where { T: DeserializeOwned + Send + 'static });

/// The reply as it came: its text is the context's payload, not a JSON string around it.
struct Raw;

impl Pack<Option<Payload>> for Raw {
    fn pack<'s>(
        &self,
        _: &'s Op,
        value: &Option<Payload>,
    ) -> BoxFuture<'s, Result<Option<Payload>>> {
        let value = value.clone();
        Box::pin(async move { Ok(value) })
    }

    async fn unpack(&self, _: &Op, payload: Option<&Payload>) -> Result<Option<Payload>> {
        Ok(payload.cloned())
    }
}

impl<'a, T: DeserializeOwned + Send + 'static> WaitForCallback<'a, T> {
    fn run(self) -> Running<'a, T> {
        let Self {
            op,
            submit,
            options,
            retry,
            coding,
            marker: _,
        } = self;
        Running::new(op, move |op| async move {
            let shared = Op {
                problem: None,
                scope: op.scope.clone(),
                identity: op.identity.clone(),
                since: op.since,
                spawned: op.spawned,
            };
            let name = op.identity.name.clone();
            let raw = run_context(op, Raw, false, |ctx| {
                exchange(ctx, name, submit, options, retry)
            })
            .await;
            let raw = raw.map_err(|error| relabel(error, &shared))?;
            shared.decode_external(&coding, raw.as_ref()).await
        })
    }
}

/// Opens the callback, submits its id, and waits for the reply's text.
async fn exchange(
    ctx: Context,
    name: Option<Arc<str>>,
    submit: Submit<'_>,
    options: CallbackOptions,
    retry: Retry,
) -> Result<Option<Payload>> {
    let mut callback =
        ctx.create_callback::<Option<String>>(&inner_name(name.as_deref(), "callback"));
    callback.options = options;
    let callback = callback.await?;
    let submitted = ctx
        .step(&inner_name(name.as_deref(), "submitter"), |_| {
            submit(callback.id().to_owned())
        })
        .retry(retry)
        .await;
    if let Err(error) = submitted {
        // The record must tell a failed submission from a failed callback, also on replay.
        let mut record = error.into_record();
        let cause = record
            .error_type
            .replace(ErrorKind::CallbackSubmitter.wire_type().to_owned());
        record.stack_trace.get_or_insert_default().extend(cause);
        return Err(Error::from_record(
            ErrorKind::CallbackSubmitter,
            None,
            record,
        ));
    }
    Ok(callback.result().await?.map(Payload::from))
}

/// The name of an inner operation, kept within the service's limit.
fn inner_name(name: Option<&str>, role: &str) -> String {
    let Some(name) = name else {
        return String::new();
    };
    let room = outlast_core::limits::NAME_LENGTH_MAX - role.len() - 1;
    // Names are printable ASCII, so every cut is a character boundary.
    format!("{}-{role}", name.get(..room).unwrap_or(name))
}

/// Gives the error of the whole exchange the kind of what failed inside it.
fn relabel(error: Error, op: &Op) -> Error {
    if error.kind() != ErrorKind::ChildContext {
        return error;
    }
    let kind = match error.error_type() {
        error_type::CALLBACK_TIMEOUT => ErrorKind::CallbackTimeout,
        error_type::CALLBACK_HEARTBEAT => ErrorKind::CallbackHeartbeat,
        submitter if submitter == ErrorKind::CallbackSubmitter.wire_type() => {
            ErrorKind::CallbackSubmitter
        }
        _ => ErrorKind::CallbackFailed,
    };
    error.with_kind(kind, op.reference())
}

impl<T> fmt::Debug for CreateCallback<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateCallback")
            .field("op", &self.op)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WaitForCallback<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForCallback")
            .field("op", &self.op)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
