//! Durable futures: an operation that runs where it is awaited, and a handle to one that was
//! spawned.

use crate::{
    actor::{Acting, Current, Park, Registration, misuse},
    backend::BoxFuture,
    context::Scope,
    error::{Error, ErrorKind, Result, panic_message},
    lifecycle::{ActorId, Fault, Label},
    operation::Op,
};
use futures_util::{FutureExt as _, future::FusedFuture, task::AtomicWaker};
use outlast_core::{replay::Identity, wire::ErrorObject};
use pin_project_lite::pin_project;
use std::{
    cell::Cell,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as Poller, Poll},
};

/// A durable operation that runs in place, while it is polled.
///
/// Builders turn into this when they are awaited, or by their `future` method for code that wants a
/// future, such as `join_all`. Dropping it gives the operation up: a running body is cancelled, and
/// what was recorded stays recorded.
#[must_use = "a durable operation does nothing unless it is awaited or spawned"]
pub struct Running<'a, T> {
    inner: Option<BoxFuture<'a, Result<T>>>,
    scope: Arc<Scope>,
    identity: Arc<Identity>,
    park: Park,
    started: bool,
}

impl<'a, T> Running<'a, T> {
    /// The operation `op`, run by `body` once it is polled.
    pub(crate) fn new<F, Fut>(op: Op, body: F) -> Self
    where
        F: FnOnce(Op) -> Fut,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let scope = op.scope.clone();
        let identity = op.identity.clone();
        let park = Park::new(&scope.invocation.lifecycle);
        Self {
            inner: Some(Box::pin(body(op))),
            scope,
            identity,
            park,
            started: false,
        }
    }
}

impl<'a, T: Send + 'a> Running<'a, T> {
    /// The same operation with its value changed, so that operations of different types can race.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # use std::time::Duration;
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let answer = ctx.step("slow", async |_| outlast::ok(7)).future().map(Some);
    /// let give_up = ctx.wait(Duration::from_secs(60)).future().map(|()| None);
    /// let first: Option<u32> = ctx.race("first", [answer, give_up]).await?;
    /// # Ok(()) }
    /// ```
    pub fn map<U: Send + 'a>(self, change: impl FnOnce(T) -> U + Send + 'a) -> Running<'a, U> {
        let scope = self.scope.clone();
        let identity = self.identity.clone();
        let park = Park::new(&scope.invocation.lifecycle);
        Running {
            inner: Some(Box::pin(async move { self.await.map(change) })),
            scope,
            identity,
            park,
            started: false,
        }
    }
}

impl<T> Future for Running<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let actor = Current::peek(|current| {
            current
                .filter(|current| Arc::ptr_eq(&current.scope.invocation, &this.scope.invocation))
                .filter(|current| this.started || current.body.is_none())
                .map(|current| current.actor)
        });
        let Some(actor) = actor else {
            let problem = misuse(&this.scope);
            quietly(|| this.inner = None);
            this.park.leave();
            return match problem {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            };
        };
        this.started = true;
        let Some(inner) = &mut this.inner else {
            let message = format!(
                "the operation at {} was awaited again after it had finished",
                this.identity.position
            );
            return Poll::Ready(Err(Error::of_kind(ErrorKind::InvalidInput, None, message)));
        };
        let waker = this.park.begin(poller);
        match inner.as_mut().poll(&mut Poller::from_waker(waker)) {
            Poll::Pending => {
                this.park.enter(actor);
                Poll::Pending
            }
            Poll::Ready(result) => {
                this.inner = None;
                this.park.leave();
                Poll::Ready(result)
            }
        }
    }
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else {
            return;
        };
        let unnoticed = self.started && cfg!(debug_assertions) && !QUIET.get();
        if unnoticed
            && !self
                .scope
                .invocation
                .lifecycle
                .with(|state| state.is_ending())
        {
            tracing::warn!(
                position = self.identity.position.as_str(),
                operation = &*self.identity.sub_type,
                "a durable operation was dropped before it finished, and nothing recorded why: \
                 use race or select_ok, whose outcome a replay repeats"
            );
        }
        quietly(|| drop(inner));
        let id = &self.identity.id;
        self.scope.invocation.lifecycle.with(|state| {
            if self.started {
                state.give_up(id);
            } else {
                // An input of a recorded combinator, for example: made, and not needed.
                state.journal.pass(id);
            }
        });
    }
}

thread_local! {
    /// Whether operations are being dropped on purpose.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Drops operations whose loss is recorded or part of another loss, without a warning for each.
pub(crate) fn quietly<R>(work: impl FnOnce() -> R) -> R {
    let before = QUIET.replace(true);
    let result = work();
    QUIET.set(before);
    result
}

impl<T> FusedFuture for Running<'_, T> {
    fn is_terminated(&self) -> bool {
        self.inner.is_none()
    }
}

impl<T> fmt::Debug for Running<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("position", &self.identity.position)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Running<'static, T> {
    /// Starts the operation in the background.
    pub(crate) fn spawn(self) -> DurableFuture<T> {
        let scope = self.scope.clone();
        let identity = self.identity.clone();
        let lifecycle = scope.invocation.lifecycle.clone();
        let shared = Arc::new(Spawned::default());
        if let Some(error) = misuse(&scope) {
            shared.put(Err(error));
            return DurableFuture {
                shared,
                actor: 0,
                identity,
                park: Park::new(&lifecycle),
                done: false,
            };
        }
        let registration = Registration::new(&lifecycle, Label::Spawned(identity.clone()));
        let actor = registration.actor;
        let result = shared.clone();
        let invocation = scope.invocation.clone();
        let body = AssertUnwindSafe(self)
            .catch_unwind()
            .map(move |outcome| match outcome {
                Ok(outcome) => result.put(outcome),
                Err(panic) => {
                    let error = ErrorObject::new("panic", panic_message(panic.as_ref()));
                    invocation
                        .lifecycle
                        .with(|state| state.fail(Fault::Execution(error)));
                }
            });
        let body = Acting::new(registration, scope.clone(), None, body);
        scope.adopt(Arc::downgrade(&shared) as Weak<dyn Stop>);
        scope.invocation.spawn(Box::pin(Task {
            body: Some(body),
            shared: shared.clone(),
        }));
        DurableFuture {
            shared,
            actor,
            identity,
            park: Park::new(&lifecycle),
            done: false,
        }
    }
}

/// What spawned work shares with its handle and with the context it belongs to.
struct Spawned<T> {
    outcome: Mutex<Option<Result<T>>>,
    stopped: AtomicBool,
    waker: AtomicWaker,
}

impl<T> Default for Spawned<T> {
    fn default() -> Self {
        Self {
            outcome: Mutex::new(None),
            stopped: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }
}

impl<T> Spawned<T> {
    fn put(&self, outcome: Result<T>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn take(&self) -> Option<Result<T>> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.take()
    }
}

/// Spawned work that its context can end.
pub(crate) trait Stop: Send + Sync {
    fn stop(&self);
    /// Whether there is nothing left to stop.
    fn is_stopped(&self) -> bool;
}

impl<T: Send> Stop for Spawned<T> {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

pin_project! {
    /// Spawned work as the executor sees it: it ends when the body does or when it is stopped.
    struct Task<F, T> {
        #[pin]
        body: Option<F>,
        shared: Arc<Spawned<T>>,
    }
}

impl<F: Future<Output = ()>, T: Send> Future for Task<F, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<()> {
        let mut this = self.project();
        // In this order: whoever stops it later finds the waker.
        this.shared.waker.register(poller.waker());
        let pending = !this.shared.is_stopped()
            && this
                .body
                .as_mut()
                .as_pin_mut()
                .is_some_and(|body| body.poll(poller).is_pending());
        if pending && !this.shared.is_stopped() {
            return Poll::Pending;
        }
        this.body.set(None);
        this.shared.stopped.store(true, Ordering::Release);
        Poll::Ready(())
    }
}

/// A handle to a spawned operation: it has started, awaiting it waits for its outcome.
///
/// It may be awaited anywhere in the code of its invocation, also inside the body of a step; a step
/// that waits for nothing but a handle does not keep the invocation alive. Dropping the handle does
/// not stop the operation.
#[must_use = "the outcome of a spawned operation is lost unless its handle is awaited"]
pub struct DurableFuture<T> {
    shared: Arc<Spawned<T>>,
    actor: ActorId,
    identity: Arc<Identity>,
    park: Park,
    done: bool,
}

impl<T> Future for DurableFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        // Checked before looking for the outcome: whether it is allowed must not depend on timing.
        let current = Current::get()
            .filter(|current| this.park.belongs_to(&current.scope.invocation.lifecycle));
        let Some(current) = current else {
            let message = "a durable future was awaited outside the handler's own code";
            return Poll::Ready(Err(Error::of_kind(ErrorKind::ForeignTask, None, message)));
        };
        if let Some(body) = current.body.as_ref().filter(|body| body.at_most_once) {
            let message = format!(
                "the body of {} waits for another operation; it would be dropped at suspension, which an at-most-once \
                 step does not survive: await the handle before the step",
                body.operation
            );
            return Poll::Ready(Err(Error::of_kind(
                ErrorKind::NestedInStep,
                Some(body.operation.clone()),
                message,
            )));
        }
        let waker = this.park.begin(poller);
        let finished = current.scope.invocation.lifecycle.with(|state| {
            state.mark_awaited(&this.identity);
            state.wait_for_actor(this.actor, waker)
        });
        if finished {
            // The outcome is stored before the actor goes; without one it was given up for good.
            if let Some(result) = this.shared.take() {
                return this.finish(result);
            }
        }
        this.park.enter(current.actor);
        Poll::Pending
    }
}

impl<T> DurableFuture<T> {
    /// The operation has ended for whoever awaits it: its context's time moves on.
    fn finish(&mut self, result: Result<T>) -> Poll<Result<T>> {
        self.done = true;
        self.park.leave();
        // The body of a step does not run again on replay, so what it awaits moves no time.
        if let Some(current) = Current::get().filter(|current| current.body.is_none()) {
            let lifecycle = &current.scope.invocation.lifecycle;
            let record = lifecycle.with(|state| state.journal.get(&self.identity.id).cloned());
            current
                .scope
                .passed(record.and_then(|record| record.end_timestamp));
        }
        Poll::Ready(result)
    }
}

impl<T> FusedFuture for DurableFuture<T> {
    fn is_terminated(&self) -> bool {
        self.done
    }
}

impl<T> fmt::Debug for DurableFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFuture")
            .field("position", &self.identity.position)
            .finish_non_exhaustive()
    }
}
