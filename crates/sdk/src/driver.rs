//! The driver of one invocation: polls the handler, its spawned work and the writer, and ends when
//! the handler has returned, everything waits, or a fault was recorded.
//!
//! All of it runs in one task. The handler's future is owned here: suspending is dropping it. A
//! fault is checked before anything else, so that no completion or suspension can overtake it.

use crate::{
    actor::{Acting, Registration},
    error::Error,
};
use crate::{
    backend::{BackendError, BoxFuture, SharedBackend},
    checkpoint::{Batch, Delivery, Due},
    context::Scope,
    error::panic_message,
    invocation::{HandlerResult, Invocation},
    lifecycle::{Fault, State, TerminationReason, Verdict},
    plugin::{ChangeInfo, OperationInfo},
};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use outlast_core::{
    id::OperationId,
    replay::Change,
    time::Timestamp,
    wire::{CheckpointRequest, ErrorObject, Operation, OperationStatus},
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context as Poller, Poll, Waker},
    time::Duration,
};
use tokio::time::Sleep;

/// How the handler ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It returned.
    Returned(HandlerResult),
    /// Everything waits for the backend.
    Suspended(TerminationReason),
    /// Something ended it from inside.
    Fault(Fault),
}

/// What the writer got back for a batch.
type Written = (Batch, Result<Answer, BackendError>);

struct Answer {
    token: Option<String>,
    operations: Vec<Operation>,
}

/// After this many rounds without a pause, the runtime gets its turn.
const ROUNDS_MAX: u32 = 128;
/// Before suspending, the runtime gets this many turns to deliver wakes that are on their way.
const GRACE_TURNS: u32 = 2;

pub(crate) struct Driver<'a> {
    invocation: &'a Arc<Invocation>,
    backend: &'a SharedBackend,
    handler: Option<BoxFuture<'static, HandlerResult>>,
    actor: u64,
    returned: Option<HandlerResult>,
    spawned: FuturesUnordered<BoxFuture<'static, ()>>,
    writing: Option<BoxFuture<'a, Written>>,
    pushed: BoxFuture<'a, ()>,
    sleep: Option<(Timestamp, Pin<Box<Sleep>>)>,
    waker: Waker,
    grace: u32,
    requests: u64,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(
        invocation: &'a Arc<Invocation>,
        scope: &Arc<Scope>,
        backend: &'a SharedBackend,
        handler: BoxFuture<'static, HandlerResult>,
    ) -> Self {
        let registration = Registration::new(&invocation.lifecycle, "the handler");
        let actor = registration.actor;
        let guarded = AssertUnwindSafe(handler).catch_unwind().map(|outcome| {
            outcome.unwrap_or_else(|panic| Err(Error::new("panic", panic_message(panic.as_ref()))))
        });
        Self {
            invocation,
            backend,
            handler: Some(Box::pin(Acting::new(
                registration,
                scope.clone(),
                None,
                guarded,
            ))),
            actor,
            returned: None,
            spawned: FuturesUnordered::new(),
            writing: None,
            pushed: backend.0.changed(&invocation.arn),
            sleep: None,
            waker: Waker::from(Arc::new(DriverWaker(Arc::downgrade(invocation)))),
            grace: 0,
            requests: 0,
        }
    }

    /// Runs to the end; also tells how many requests were made.
    pub(crate) async fn run(mut self) -> (Ending, u64) {
        let ending = poll_fn(|poller| self.poll(poller)).await;
        self.with(State::begin_end);
        self.drop_user_code();
        (ending, self.requests)
    }

    /// Suspending is dropping: destructors of the user's values run now, and may panic.
    fn drop_user_code(&mut self) {
        let (handler, spawned) = (self.handler.take(), std::mem::take(&mut self.spawned));
        for dropped in [
            catch_unwind(AssertUnwindSafe(|| drop(handler))),
            catch_unwind(AssertUnwindSafe(|| drop(spawned))),
        ] {
            if let Err(panic) = dropped {
                let panic = panic_message(panic.as_ref());
                tracing::warn!(panic, "a value panicked while the invocation ended");
            }
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.invocation.lifecycle.with(change)
    }

    fn poll(&mut self, poller: &mut Poller<'_>) -> Poll<Ending> {
        for _ in 0..ROUNDS_MAX {
            self.with(|state| {
                state.attach_driver(None);
                state.take_news();
            });
            self.poll_handler();
            self.poll_spawned(poller);
            self.poll_writer(poller);
            self.poll_pushes(poller);
            if let Some(ending) = self.with(State::take_fault).map(Ending::Fault) {
                return Poll::Ready(ending);
            }
            if self.with(|state| state.take_news()) {
                continue;
            }
            if let Some(poll) = self.settle(poller) {
                return poll;
            }
        }
        poller.waker().wake_by_ref();
        Poll::Pending
    }

    /// Nothing moves right now: end, pause, or (with `None`) look again.
    fn settle(&mut self, poller: &mut Poller<'_>) -> Option<Poll<Ending>> {
        let verdict = self.with(|state| match (state.verdict(), &self.returned) {
            (Verdict::Deadlock(_), Some(_)) => Verdict::Suspend(TerminationReason::CallbackPending),
            (verdict, _) => verdict,
        });
        match verdict {
            Verdict::Busy => {}
            Verdict::Flush => {
                self.with(|state| state.queue.request_flush());
                return None;
            }
            Verdict::Suspend(_) if self.stays_alive() => {}
            Verdict::Suspend(_) | Verdict::Deadlock(_)
                if self.grace < GRACE_TURNS && !self.is_alone() =>
            {
                self.grace += 1;
                poller.waker().wake_by_ref();
                return Some(Poll::Pending);
            }
            Verdict::Suspend(reason) => {
                return Some(match self.returned.take() {
                    Some(result) => self.finish(result),
                    None => Poll::Ready(Ending::Suspended(reason)),
                });
            }
            Verdict::Deadlock(tree) => {
                let message = format!("everything waits and nothing will ever wake it:\n{tree}");
                return Some(Poll::Ready(Ending::Fault(Fault::Execution(
                    ErrorObject::new("DeadlockError", message),
                ))));
            }
        }
        self.grace = 0;
        if self.poll_timers(poller) {
            return None;
        }
        // News that came since the last look must not wait for the next wake.
        let news = self.with(|state| {
            state.attach_driver(Some(poller.waker()));
            state.take_news() || state.is_woken(self.actor)
        });
        if news { None } else { Some(Poll::Pending) }
    }

    /// The handler returned and all that it left behind has come to rest.
    fn finish(&mut self, result: HandlerResult) -> Poll<Ending> {
        let waiting = self.with(|state| state.actors_alive());
        if waiting > 0 {
            if self.invocation.config.fail_on_unawaited {
                let message = format!(
                    "the handler returned while {waiting} spawned operations still waited: await their handles"
                );
                return Poll::Ready(Ending::Fault(Fault::Execution(ErrorObject::new(
                    "UnawaitedError",
                    message,
                ))));
            }
            tracing::warn!(
                waiting,
                "the handler returned while spawned operations still waited; they are given up"
            );
        }
        Poll::Ready(Ending::Returned(result))
    }

    /// Whether the handler has returned and left nothing behind that a wake could still reach.
    fn is_alone(&self) -> bool {
        self.returned.is_some() && self.with(|state| state.actors_alive() == 0)
    }

    /// Whether an operation is due so soon that staying is cheaper than being invoked again.
    fn stays_alive(&self) -> bool {
        let config = &self.invocation.config;
        self.returned.is_none()
            && !config.keep_alive.is_zero()
            && self.with(|state| state.next_due()).is_some_and(|at| {
                Duration::from_millis(at.millis_since(config.clock.now())) <= config.keep_alive
            })
    }

    fn poll_handler(&mut self) {
        let Some(handler) = &mut self.handler else {
            return;
        };
        if !self
            .invocation
            .lifecycle
            .with(|state| state.is_woken(self.actor))
        {
            return;
        }
        // Its wakes arrive as news through the lifecycle; no other waker is needed.
        if let Poll::Ready(result) = handler.as_mut().poll(&mut Poller::from_waker(&self.waker)) {
            self.returned = Some(result);
            self.handler = None;
        }
    }

    fn poll_spawned(&mut self, poller: &mut Poller<'_>) {
        let new = std::mem::take(
            &mut *self
                .invocation
                .inline
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.spawned.extend(new);
        while let Poll::Ready(Some(())) = self.spawned.poll_next_unpin(poller) {}
    }

    fn poll_pushes(&mut self, poller: &mut Poller<'_>) {
        // Asking costs a home behind a server a connection: only while something can change.
        if self.with(|state| state.journal.pending()) == 0 {
            return;
        }
        while self.pushed.as_mut().poll(poller).is_ready() {
            self.pushed = self.backend.0.changed(&self.invocation.arn);
            self.with(|state| {
                state.queue.request_refresh();
                state.notify_driver();
            });
        }
    }

    // --- the writer ---------------------------------------------------------------------------

    fn poll_writer(&mut self, poller: &mut Poller<'_>) {
        loop {
            match &mut self.writing {
                Some(writing) => {
                    let Poll::Ready((batch, result)) = writing.as_mut().poll(poller) else {
                        return;
                    };
                    self.writing = None;
                    self.absorb(&batch, result);
                }
                None => {
                    let now = self.invocation.config.clock.now();
                    if !self.is_due(now) {
                        return;
                    }
                    let (batch, token) =
                        self.with(|state| (state.queue.seal(), state.token.clone()));
                    self.requests += 1;
                    self.invocation.trace(&batch.updates, &batch.deliveries);
                    self.writing =
                        Some(Box::pin(write(self.invocation, self.backend, batch, token)));
                }
            }
        }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.with(|state| {
            !state.has_fault()
                && match self.queue_due(state) {
                    Due::Now => true,
                    Due::At(at) => at <= now,
                    Due::Never => false,
                }
        })
    }

    fn queue_due(&self, state: &State) -> Due {
        let config = &self.invocation.config;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        state
            .queue
            .due(ms(config.linger), ms(config.checkpoint_delay))
    }

    fn absorb(&self, batch: &Batch, result: Result<Answer, BackendError>) {
        match result {
            Ok(Answer { token, operations }) => {
                let changes = self.with(|state| state.accept(batch, token, operations));
                self.announce(&changes);
            }
            Err(error) => {
                let code = error
                    .code
                    .clone()
                    .unwrap_or_else(|| "BackendError".to_owned());
                let record = ErrorObject::new(code, format!("a checkpoint failed: {error}"));
                let fault = if error.is_retryable() {
                    Fault::Invocation(record)
                } else {
                    Fault::Execution(record)
                };
                self.with(|state| state.fail(fault));
            }
        }
    }

    /// Tells the plugins what an answer changed.
    fn announce(&self, changes: &[(OperationId, Change)]) {
        let hooks = &self.invocation.hooks;
        self.log(changes);
        if hooks.is_empty() || changes.is_empty() {
            return;
        }
        let (changed, operations) = self.with(|state| {
            let changed: Vec<_> = changes
                .iter()
                .filter_map(|(id, _)| {
                    let operation = state.journal.get(id)?;
                    Some(OperationInfo::from_record(operation, false))
                })
                .collect();
            (changed, state.journal.iter().cloned().collect())
        });
        for (info, (_, change)) in changed.iter().zip(changes) {
            if change.closed() {
                hooks.each("operation_end", |plugin| plugin.operation_end(info));
            }
        }
        let info = ChangeInfo {
            execution_arn: self.invocation.arn.clone(),
            changed,
            operations,
        };
        hooks.each("operations_changed", |plugin| {
            plugin.operations_changed(&info)
        });
    }

    /// Tells the log what an answer changed, now that it is durable.
    fn log(&self, changes: &[(OperationId, Change)]) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for (id, change) in changes {
            let Some(operation) = self.with(|state| state.journal.get(id).cloned()) else {
                continue;
            };
            let event = match change.after {
                OperationStatus::Started => "operation_started",
                OperationStatus::Pending => "operation_retry_scheduled",
                OperationStatus::Ready => "operation_ready",
                OperationStatus::Succeeded => "operation_succeeded",
                OperationStatus::Failed
                | OperationStatus::Cancelled
                | OperationStatus::TimedOut
                | OperationStatus::Stopped => "operation_failed",
            };
            tracing::debug!(
                executionArn = &*self.invocation.arn,
                operationId = id.as_str(),
                operationName = operation.name.as_deref(),
                status = change.after.as_str(),
                "{event}"
            );
        }
    }

    // --- timers -------------------------------------------------------------------------------

    /// Sleeps until the next linger, batching delay or due operation. True if something is due now.
    fn poll_timers(&mut self, poller: &mut Poller<'_>) -> bool {
        let now = self.invocation.config.clock.now();
        let (operation, queue) = self.with(|state| {
            // The answer that is on its way may bring the news that a timer would ask for.
            let operation = state.next_timer().filter(|_| !state.queue.is_in_flight());
            (operation, self.queue_due(state))
        });
        let queue = match queue {
            Due::At(at) => Some(at),
            Due::Now => Some(now),
            Due::Never => None,
        };
        let Some(next) = operation.into_iter().chain(queue).min() else {
            self.sleep = None;
            return false;
        };
        if next > now {
            let delay = Duration::from_millis(next.millis_since(now));
            match &mut self.sleep {
                Some((at, _)) if *at == next => {}
                Some((at, sleep)) => {
                    *at = next;
                    sleep.as_mut().reset(tokio::time::Instant::now() + delay);
                }
                None => self.sleep = Some((next, Box::pin(tokio::time::sleep(delay)))),
            }
            let elapsed = self
                .sleep
                .as_mut()
                .is_some_and(|(_, sleep)| sleep.as_mut().poll(poller).is_ready());
            if elapsed {
                // The wall clock may lag behind the timer; look again, by the wall clock.
                self.sleep = None;
            }
            return elapsed;
        }
        self.sleep = None;
        let invocation = self.invocation;
        self.with(|state| {
            state.fire_timers(now, |misses| invocation.next_poll(misses));
            state.notify_driver();
        });
        true
    }
}

/// Sends one batch and reads the whole answer. A batch that is refused for good leaves its finished
/// steps with a recorded failure, so that their bodies do not run again.
async fn write(
    invocation: &Invocation,
    backend: &SharedBackend,
    batch: Batch,
    token: String,
) -> Written {
    let arn = &*invocation.arn;
    let kept = batch.updates.clone();
    let request = CheckpointRequest {
        checkpoint_token: token.clone(),
        updates: kept,
        client_token: None,
    };
    let response = match backend.0.checkpoint(arn, request).await {
        Ok(response) => response,
        Err(error) => {
            if !error.is_retryable() {
                let updates = Batch::failures_in_place(&batch.updates, &error.to_string());
                if !updates.is_empty() {
                    let waited = vec![Delivery::Synchronous; updates.len()];
                    invocation.trace(&updates, &waited);
                    let request = CheckpointRequest {
                        checkpoint_token: token,
                        updates,
                        client_token: None,
                    };
                    if let Err(error) = backend.0.checkpoint(arn, request).await {
                        tracing::warn!(%error, "the failure of a refused checkpoint could not be recorded");
                    }
                }
            }
            return (batch, Err(error));
        }
    };
    let mut operations = response.new_execution_state.operations;
    let mut marker = response.new_execution_state.next_marker.unwrap_or_default();
    while let Some(token) = response
        .checkpoint_token
        .as_deref()
        .filter(|_| !marker.is_empty())
    {
        match backend.0.state(arn, token, &marker).await {
            Ok(page) => {
                operations.extend(page.operations);
                marker = page.next_marker.unwrap_or_default();
            }
            Err(error) => return (batch, Err(error)),
        }
    }
    (
        batch,
        Ok(Answer {
            token: response.checkpoint_token,
            operations,
        }),
    )
}

/// The handler's waker: a wake is news for the driver.
struct DriverWaker(std::sync::Weak<Invocation>);

impl std::task::Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        if let Some(invocation) = self.0.upgrade() {
            invocation.lifecycle.with(State::notify_driver);
        }
    }
}
