//! One run of user code for an operation: counted as an actor, guarded against panics, bounded in
//! time, and announced to the plugins.

use crate::{
    actor::{Acting, Body, Registration},
    context::Scope,
    error::panic_message,
    invocation::Invocation,
    lifecycle::Label,
    operation::Op,
    plugin::{AttemptInfo, AttemptOutcome, AttemptStatus, OperationInfo},
};
use futures_util::{FutureExt as _, future::CatchUnwind};
use outlast_core::wire::ErrorObject;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, UnwindSafe},
    pin::Pin,
    sync::Arc,
    task::{Context as Poller, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// How an attempt failed, if not with the user's own error.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The body panicked.
    Panic(String),
    /// The body took too long.
    Timeout(Duration),
}

impl Broken {
    pub(crate) fn record(&self) -> ErrorObject {
        match self {
            Self::Panic(message) => ErrorObject::new("panic", message.clone()),
            Self::Timeout(limit) => ErrorObject::new(
                "StepTimeoutError",
                format!("the step's body took longer than its timeout of {limit:?}"),
            ),
        }
    }
}

/// Runs the body of a step or a check.
pub(crate) fn run<T>(
    op: &Op,
    body: Arc<Body>,
    announced: &Announced,
    timeout: Option<Duration>,
    future: impl Future<Output = T> + Send,
) -> impl Future<Output = Result<T, Broken>> + Send {
    let label = Label::Body(op.identity.clone());
    let registration = Registration::new(&op.scope.invocation.lifecycle, label);
    let acting =
        Acting::new(registration, op.scope.clone(), Some(body), future).announced(announced.info());
    Guarded {
        inner: AssertUnwindSafe(acting).catch_unwind(),
        limit: timeout.map(|limit| (limit, Box::pin(sleep(limit)))),
    }
}

pin_project! {
    /// A body that may panic and may take too long. A future of its own, because an `async` block
    /// would keep room for several copies of the user's.
    struct Guarded<F> {
        #[pin]
        inner: CatchUnwind<F>,
        limit: Option<(Duration, Pin<Box<Sleep>>)>,
    }
}

impl<F: Future + UnwindSafe> Future for Guarded<F> {
    type Output = Result<F::Output, Broken>;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(outcome) = this.inner.poll(poller) {
            return Poll::Ready(
                outcome.map_err(|panic| Broken::Panic(panic_message(panic.as_ref()))),
            );
        }
        if let Some((limit, sleep)) = this.limit
            && sleep.as_mut().poll(poller).is_ready()
        {
            return Poll::Ready(Err(Broken::Timeout(*limit)));
        }
        Poll::Pending
    }
}

/// Tells the plugins about an attempt: its start now, its end when told, or that it was given up.
pub(crate) struct Announced {
    invocation: Arc<Invocation>,
    info: Option<Arc<AttemptInfo>>,
}

impl Announced {
    /// The attempt of a step or a check.
    pub(crate) fn step(op: &Op, body: &Body) -> Self {
        Self::start(op, body.attempt, body.at_most_once, false)
    }

    /// The run of a context's body.
    pub(crate) fn context(op: &Op, is_replaying_children: bool) -> Self {
        Self::start(op, 1, false, is_replaying_children)
    }

    fn start(op: &Op, attempt: u32, at_most_once: bool, is_replaying_children: bool) -> Self {
        let invocation = op.scope.invocation.clone();
        if invocation.hooks.is_empty() {
            return Self {
                invocation,
                info: None,
            };
        }
        let record = op.record();
        let operation = match &record {
            Some(record) => OperationInfo::from_record(record, true),
            None => op.info(),
        };
        let info = AttemptInfo {
            operation,
            attempt,
            start_timestamp: op.now(),
            at_most_once,
            is_replaying_children,
        };
        invocation
            .hooks
            .each("attempt_start", |plugin| plugin.attempt_start(&info));
        Self {
            invocation,
            info: Some(Arc::new(info)),
        }
    }

    /// What the body's polls are announced with.
    pub(crate) fn info(&self) -> Option<Arc<AttemptInfo>> {
        self.info.clone()
    }

    pub(crate) fn end(mut self, error: Option<&ErrorObject>) {
        let status = if error.is_none() {
            AttemptStatus::Succeeded
        } else {
            AttemptStatus::Failed
        };
        self.tell(status, error.cloned());
    }

    fn tell(&mut self, status: AttemptStatus, error: Option<ErrorObject>) {
        if let Some(info) = self.info.take() {
            let outcome = AttemptOutcome {
                end_timestamp: self.invocation.config.clock.now(),
                status,
                error,
            };
            self.invocation
                .hooks
                .each("attempt_end", |plugin| plugin.attempt_end(&info, &outcome));
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.tell(AttemptStatus::Incomplete, None);
    }
}

/// Runs the body of a context as an actor of its own.
pub(crate) fn run_context<T>(
    scope: &Arc<Scope>,
    label: Label,
    announced: &Announced,
    future: impl Future<Output = T> + Send,
) -> impl Future<Output = T> + Send {
    let registration = Registration::new(&scope.invocation.lifecycle, label);
    Acting::new(registration, scope.clone(), None, future).announced(announced.info())
}
