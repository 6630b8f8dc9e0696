//! Signals: messages to an execution by name, kept until somebody waits for them.
//!
//! On the wire a signal is a CALLBACK operation with a label of its own, so that histories stay
//! valid for every client. Only Outlast delivers signals.

use crate::{
    builder::startable,
    callback::{closed, timeout_seconds},
    codec::{Codec, Coding},
    context::Context,
    error::{Error, ErrorKind},
    future::Running,
    lifecycle::OperationState,
    operation::Op,
};
use outlast_core::wire::{
    CallbackOptions, OperationAction, OperationStatus, OperationType, sub_type,
};
use serde::de::DeserializeOwned;
use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

impl Context {
    /// Waits for the next signal of this name.
    ///
    /// Signals that came earlier are kept and consumed in order, each once. Without a timeout the
    /// wait is unbounded. A wait that loses a race stays open and takes the next signal of its name;
    /// in a loop give the wait a timeout instead of racing it.
    ///
    /// ```
    /// # use outlast::{Context, ErrorKind, Result};
    /// # use std::time::Duration;
    /// # async fn example(ctx: Context) -> Result<()> {
    /// match ctx.wait_signal::<String>("order-confirmed").timeout(Duration::from_secs(3600)).await {
    ///     Ok(who) => println!("confirmed by {who}"),
    ///     Err(error) if error.kind() == ErrorKind::SignalTimeout => println!("nobody confirmed"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn wait_signal<T>(&self, name: &str) -> WaitSignal<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let mut op = self
            .claim(name)
            .operation(OperationType::Callback, sub_type::SIGNAL);
        if name.is_empty() {
            op.reject("a signal needs a name");
        }
        if !op.scope.invocation.abilities.signals && op.problem.is_none() {
            let message = "signals are delivered by Outlast only; on AWS Lambda use a callback";
            op.problem = Some(Error::of_kind(ErrorKind::Unsupported, None, message));
        }
        WaitSignal {
            op,
            options: CallbackOptions::default(),
            coding: Coding::default(),
            marker: PhantomData,
        }
    }
}

/// A wait for a signal, not started; see [`Context::wait_signal`].
#[must_use = "nobody waits for the signal unless this is awaited or spawned"]
pub struct WaitSignal<'a, T> {
    op: Op,
    options: CallbackOptions,
    coding: Coding,
    marker: PhantomData<fn() -> &'a T>,
}

impl<T> WaitSignal<'_, T> {
    /// How long to wait; afterwards the error is of kind [`ErrorKind::SignalTimeout`], and a signal
    /// that comes later is kept for the next wait.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout_seconds = timeout_seconds(&mut self.op, "signal's timeout", timeout);
        self
    }

    /// The codec of the signal's payload. Without one a `String` is taken as it is and any other
    /// type is read as JSON.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }
}

startable!(WaitSignal [T] T where { T: DeserializeOwned + Send + 'static });

impl<'a, T: DeserializeOwned + Send + 'static> WaitSignal<'a, T> {
    fn run(self) -> Running<'a, T> {
        let Self {
            op,
            options,
            coding,
            marker: _,
        } = self;
        Running::new(op, move |mut op| async move {
            op.check()?;
            if op.meet().await.is_none() {
                op.mark(OperationState::Executing);
                let mut update = op.update(OperationAction::Start);
                update.callback_options = Some(options);
                op.commit(update).await;
            }
            let record = closed(&op).await;
            match record.status {
                OperationStatus::Succeeded => op.decode_external(&coding, record.result()).await,
                OperationStatus::TimedOut => {
                    Err(op.failure(ErrorKind::SignalTimeout, record.error()))
                }
                OperationStatus::Started
                | OperationStatus::Pending
                | OperationStatus::Ready
                | OperationStatus::Failed
                | OperationStatus::Cancelled
                | OperationStatus::Stopped => {
                    Err(op.failure(ErrorKind::CallbackFailed, record.error()))
                }
            }
        })
    }
}

impl<T> fmt::Debug for WaitSignal<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitSignal")
            .field("op", &self.op)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
