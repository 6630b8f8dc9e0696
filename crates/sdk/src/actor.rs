//! Actors and parked futures: how polls become facts for the lifecycle.
//!
//! [`Acting`] wraps a body (the handler, a child context, a step, spawned work) and reports its
//! polls; a thread-local names the actor whose code is on the stack, so that a durable future knows
//! with whom it parks and whether it may be started here at all.

use crate::{
    context::{Mode, Scope},
    error::{Error, ErrorKind, OperationRef},
    lifecycle::{ActorId, Label, Lifecycle},
    plugin::AttemptInfo,
};
use futures_util::task::AtomicWaker;
use outlast_core::id::OperationId;
use pin_project_lite::pin_project;
use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context as Poller, Poll, Wake, Waker},
};
use tracing::{Span, field};

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The actor whose code is being polled on this thread.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) actor: ActorId,
    pub(crate) scope: Arc<Scope>,
    pub(crate) body: Option<Arc<Body>>,
}

/// The step or check whose body is running.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) operation_id: OperationId,
    pub(crate) operation: OperationRef,
    pub(crate) attempt: u32,
    pub(crate) at_most_once: bool,
}

impl Current {
    /// The current actor, if this thread is polling one.
    pub(crate) fn get() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Looks at the current actor without cloning it.
    pub(crate) fn peek<R>(look: impl FnOnce(Option<&Self>) -> R) -> R {
        CURRENT.with_borrow(|current| look(current.as_ref()))
    }
}

/// Puts an actor on the thread for the length of a poll, panics included.
struct OnThread(Option<Current>);

impl OnThread {
    fn put(current: Current) -> Self {
        Self(CURRENT.replace(Some(current)))
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Counts an actor for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration {
    lifecycle: Arc<Lifecycle>,
    pub(crate) actor: ActorId,
}

impl Registration {
    pub(crate) fn new(lifecycle: &Arc<Lifecycle>, label: impl Into<Label>) -> Self {
        let actor = lifecycle.with(|state| state.add_actor(label.into()));
        Self {
            lifecycle: lifecycle.clone(),
            actor,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.lifecycle.with(|state| state.remove_actor(self.actor));
    }
}

pin_project! {
    /// A body whose polls are reported to the lifecycle.
    pub(crate) struct Acting<F> {
        #[pin]
        inner: F,
        scope: Arc<Scope>,
        body: Option<Arc<Body>>,
        info: Option<Arc<AttemptInfo>>,
        span: Span,
        waker: Option<(Waker, Waker)>,
        // Last: the actor stops counting only after its future and its futures' guards are gone.
        registration: Option<Registration>,
    }
}

impl<F> Acting<F> {
    pub(crate) fn new(
        registration: Registration,
        scope: Arc<Scope>,
        body: Option<Arc<Body>>,
        inner: F,
    ) -> Self {
        let span = {
            // Whoever makes more of `tracing`'s spans finds below what those of an invocation are.
            let hooks = &scope.invocation.hooks;
            let is_first = scope.parent.is_none() && body.is_none() && !hooks.is_empty();
            let _around = is_first.then(|| hooks.around(&scope.invocation.arn, None));
            span(&scope, body.as_deref())
        };
        Self {
            inner,
            scope,
            body,
            info: None,
            span,
            waker: None,
            registration: Some(registration),
        }
    }
}

/// The span user code runs in, with the fields that log lines carry.
fn span(scope: &Scope, body: Option<&Body>) -> Span {
    let invocation = &scope.invocation;
    match body {
        Some(body) => tracing::info_span!(
            "durable_operation",
            executionArn = &*invocation.arn,
            requestId = &*invocation.request.request_id,
            operationId = body.operation_id.as_str(),
            operationName = body.operation.name.as_deref(),
            attempt = body.attempt,
        ),
        None => tracing::info_span!(
            "durable_execution",
            executionArn = &*invocation.arn,
            requestId = &*invocation.request.request_id,
            operationId = scope.record_id.as_ref().map(OperationId::as_str),
            isReplay = field::Empty,
        ),
    }
}

impl<F> Acting<F> {
    /// Lets plugins know for whom the body is polled.
    pub(crate) fn announced(self, info: Option<Arc<AttemptInfo>>) -> Self {
        Self { info, ..self }
    }
}

impl<F: Future> Future for Acting<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(registration) = this.registration.as_ref() else {
            return Poll::Pending;
        };
        let Registration { lifecycle, actor } = registration;
        let waker = match this.waker {
            Some((outer, wrapped)) if outer.will_wake(poller.waker()) => wrapped.clone(),
            _ => {
                let outer = poller.waker().clone();
                let wrapped = Waker::from(Arc::new(ActorWaker {
                    lifecycle: Arc::downgrade(lifecycle),
                    actor: *actor,
                    outer: outer.clone(),
                }));
                *this.waker = Some((outer, wrapped.clone()));
                wrapped
            }
        };
        lifecycle.with(|state| state.enter(*actor));
        let result = {
            let invocation = &this.scope.invocation;
            let _around = (!invocation.hooks.is_empty()).then(|| {
                invocation
                    .hooks
                    .around(&invocation.arn, this.info.as_deref())
            });
            if this.body.is_none() && !this.span.is_disabled() {
                this.span
                    .record("isReplay", this.scope.mode() != Mode::Execution);
            }
            let _span = this.span.enter();
            let _on_thread = OnThread::put(Current {
                actor: *actor,
                scope: this.scope.clone(),
                body: this.body.clone(),
            });
            this.inner.poll(&mut Poller::from_waker(&waker))
        };
        match result {
            Poll::Pending => lifecycle.with(|state| state.leave(*actor)),
            Poll::Ready(_) => *this.registration = None,
        }
        result
    }
}

/// Wakes the task and marks the actor, so that a wake which is on its way counts as running.
struct ActorWaker {
    lifecycle: Weak<Lifecycle>,
    actor: ActorId,
    outer: Waker,
}

impl Wake for ActorWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            lifecycle.with(|state| state.wake(self.actor));
        }
        self.outer.wake_by_ref();
    }
}

/// Marks a durable future as parked with the actor that polls it, until it is woken, ready or
/// dropped.
///
/// A future that was woken is no longer parked, even if its owner does not poll it again (a loser of
/// a race that is kept): otherwise its owner would seem to wait for an operation that is over.
#[derive(Debug)]
pub(crate) struct Park {
    lifecycle: Arc<Lifecycle>,
    /// Made when the future is first polled: many never are.
    slot: Option<(Arc<Slot>, Waker)>,
}

/// What a parked future shares with its waker. The actor changes under the lifecycle's lock only.
#[derive(Debug)]
struct Slot {
    lifecycle: Weak<Lifecycle>,
    /// The actor it is parked with; 0 for none.
    actor: AtomicU64,
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl Park {
    pub(crate) fn new(lifecycle: &Arc<Lifecycle>) -> Self {
        Self {
            lifecycle: lifecycle.clone(),
            slot: None,
        }
    }

    /// Whether the future belongs to this lifecycle.
    pub(crate) fn belongs_to(&self, lifecycle: &Arc<Lifecycle>) -> bool {
        Arc::ptr_eq(&self.lifecycle, lifecycle)
    }

    /// The future is about to be polled, with the waker that is returned.
    pub(crate) fn begin(&mut self, poller: &Poller<'_>) -> &Waker {
        let (slot, waker) = self.slot.get_or_insert_with(|| {
            let slot = Arc::new(Slot {
                lifecycle: Arc::downgrade(&self.lifecycle),
                actor: AtomicU64::new(0),
                woken: AtomicBool::new(false),
                outer: AtomicWaker::new(),
            });
            let waker = Waker::from(slot.clone());
            (slot, waker)
        });
        // In this order: a wake that the flag does not tell about then reaches the owner.
        slot.outer.register(poller.waker());
        slot.woken.store(false, Ordering::SeqCst);
        waker
    }

    /// The future is pending in `actor`'s poll.
    pub(crate) fn enter(&self, actor: ActorId) {
        let Some((slot, _)) = &self.slot else {
            return;
        };
        if slot.actor.load(Ordering::SeqCst) == actor {
            return;
        }
        self.lifecycle.with(|state| {
            let before = slot.actor.swap(actor, Ordering::SeqCst);
            if before != 0 {
                state.unpark(before);
            }
            state.park(actor);
            // Woken in the middle of the poll. The waker sets its flag before it looks for an actor,
            // and here it is the other way round: one of the two sees the other.
            if slot.woken.load(Ordering::SeqCst) && slot.actor.swap(0, Ordering::SeqCst) != 0 {
                state.unpark(actor);
            }
        });
    }

    /// The future is ready or gone.
    pub(crate) fn leave(&self) {
        if let Some((slot, _)) = &self.slot {
            slot.leave(&self.lifecycle);
        }
    }
}

impl Slot {
    fn leave(&self, lifecycle: &Lifecycle) {
        if self.actor.load(Ordering::SeqCst) == 0 {
            return;
        }
        lifecycle.with(|state| {
            let actor = self.actor.swap(0, Ordering::SeqCst);
            if actor != 0 {
                state.unpark(actor);
            }
        });
    }
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            self.leave(&lifecycle);
        }
        self.outer.wake();
    }
}

impl Drop for Park {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Why code that runs here may not start an operation on `scope`, if so.
pub(crate) fn misuse(scope: &Arc<Scope>) -> Option<Error> {
    Current::peek(|current| {
        let (kind, message) = match current {
            None => (
                ErrorKind::ForeignTask,
                "a durable operation was started outside the handler's own code, for example in a task of your own: \
                 use the operation's spawn() instead"
                    .to_owned(),
            ),
            Some(current) if !Arc::ptr_eq(&current.scope.invocation, &scope.invocation) => (
                ErrorKind::ForeignTask,
                "the context belongs to another invocation: contexts must not be kept across invocations".to_owned(),
            ),
            Some(Current { body: Some(body), .. }) => (
                ErrorKind::NestedInStep,
                format!(
                    "a durable operation was started inside the body of {}: start it before the step, or use a child \
                     context instead of the step",
                    body.operation
                ),
            ),
            Some(current) if !Arc::ptr_eq(&current.scope, scope) => (
                ErrorKind::WrongContext,
                format!(
                    "the context of {} was used inside the body of {}: use the context that the body receives",
                    scope.position, current.scope.position
                ),
            ),
            Some(_) => return None,
        };
        Some(Error::of_kind(kind, None, message))
    })
}
