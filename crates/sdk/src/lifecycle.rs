//! The central lifecycle of one invocation: who runs, who waits, and whether it may suspend.
//!
//! One lock guards everything that the suspension decision needs: the journal of operations, the
//! checkpoint queue, and the *actors* (the handler, child contexts, step bodies, spawned work).
//! Operations report here and never decide. An actor is *blocked* when its last poll was pending, at
//! least one of its durable futures is parked, and no wake is outstanding. The invocation suspends
//! when no actor is runnable and nothing waits to be written; counters tell, nothing is scanned.
//!
//! Two orderings keep the counters honest: a new actor is registered before its creator can block,
//! and a completion counts its wakes under the same lock that publishes it, before the finishing
//! side stops counting. Wakers are called after the lock is released; until the last one has been
//! called nothing is decided. An actor becomes runnable through its own waker only, never because
//! somebody thinks it should: a waker may belong to a future that nobody polls any more.

mod drift;
mod report;

use crate::{
    checkpoint::{Batch, Queue},
    error::OperationRef,
};
use hashbrown::HashMap;
use outlast_core::{
    id::OperationId,
    replay::{Change, Identity, Journal, Mismatch},
    time::Timestamp,
    wire::{ErrorObject, Operation, OperationStatus, OperationType, sub_type},
};
pub use report::{Holder, Report};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

/// Names an actor within its invocation; never reused.
pub(crate) type ActorId = u64;

/// Where an operation is in its life within this invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationState {
    /// User code of a step or a condition's check is running.
    Executing,
    /// Its retry is scheduled; user code will run again.
    RetryWaiting,
    /// It waits for an outside event that nobody awaits yet.
    IdleNotAwaited,
    /// It waits for an outside event, and somebody awaits it.
    IdleAwaited,
    /// It is finished and its resources are released.
    Completed,
}

/// Why an invocation suspended. Diagnostic only: the answer is always PENDING.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TerminationReason {
    /// A step waits for its next attempt.
    RetryScheduled,
    /// A wait is running.
    WaitScheduled,
    /// Callbacks, signals, invokes or conditions are open.
    CallbackPending,
}

/// What ends an invocation from inside, past all user code. The first one wins.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The token was withdrawn: answer PENDING, whatever the handler did.
    Superseded,
    /// The execution fails.
    Execution(ErrorObject),
    /// The invocation fails and is repeated by the backend.
    Invocation(ErrorObject),
    /// Today's code does not match the record.
    Mismatch(Box<Mismatch>),
}

/// What an actor is called, written out only when somebody asks.
#[derive(Clone, Debug)]
pub(crate) enum Label {
    Named(&'static str),
    /// The body of a step, a check or a context.
    Body(Arc<Identity>),
    /// An operation that was spawned.
    Spawned(Arc<Identity>),
}

impl From<&'static str> for Label {
    fn from(name: &'static str) -> Self {
        Self::Named(name)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Body(identity) => write!(f, "the body of {}", OperationRef::of(identity)),
            Self::Spawned(identity) => {
                write!(f, "spawned {} {}", identity.sub_type, identity.position)
            }
        }
    }
}

/// One piece of user code with a stack of its own: the handler, a child context's body, a step's
/// body, spawned work.
struct Actor {
    label: Label,
    /// Its durable futures that are pending and have not been woken since.
    parked: u32,
    /// A wake is outstanding: it will be polled.
    woken: bool,
    /// Its code is on a stack right now.
    polled: bool,
    blocked: bool,
    /// Who awaits its end: there is one handle to spawned work, and its last poll counts.
    waiter: Option<Waker>,
}

/// An operation that is open in this invocation.
struct Entry {
    identity: Arc<Identity>,
    state: OperationState,
    waiter: Option<Waker>,
    next_poll: Option<Timestamp>,
    /// It becomes due by itself; others are only asked about now and then.
    is_timed: bool,
    misses: u32,
}

/// Everything behind the one lock.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) journal: Journal,
    /// Operations that earlier invocations recorded, by context, and that the code has not come to.
    ahead: HashMap<Option<OperationId>, usize>,
    pub(crate) queue: Queue,
    pub(crate) token: String,
    actors: HashMap<ActorId, Actor>,
    last_actor: ActorId,
    runnable: usize,
    entries: HashMap<OperationId, Entry>,
    completed: u64,
    retrying_steps: usize,
    idle_waits: usize,
    timers: BTreeSet<(Timestamp, OperationId)>,
    fault: Option<Fault>,
    /// The driver is done; what is dropped from now on is dropped on purpose.
    ending: bool,
    ended: bool,
    dirty: bool,
    driver: Option<Waker>,
    /// To be called once the lock is released.
    wakes: Vec<Waker>,
    /// Wakes that were decided and not called yet.
    waking: usize,
}

/// What the driver should do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Somebody runs, or something is being written.
    Busy,
    /// Everybody waits, and updates linger: write them first.
    Flush,
    /// Everybody waits for the backend.
    Suspend(TerminationReason),
    /// Everybody waits, and nobody will ever be woken.
    Deadlock(String),
}

/// The lock and its rules.
#[derive(Default)]
pub(crate) struct Lifecycle(Mutex<State>);

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lifecycle")
    }
}

impl Lifecycle {
    /// Runs `change` under the lock, then calls the wakers it collected, and the driver's if there
    /// is news for it.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakes) = self.locked(change);
        if !wakes.is_empty() {
            let called = wakes.len();
            wakes.into_iter().for_each(Waker::wake);
            self.locked(|state| state.woke(called));
        }
        result
    }

    fn locked<R>(&self, change: impl FnOnce(&mut State) -> R) -> (R, Vec<Waker>) {
        let (result, wakes, driver) = {
            let mut state = self.lock();
            let result = change(&mut state);
            let driver = if state.dirty {
                state.driver.take()
            } else {
                None
            };
            (result, std::mem::take(&mut state.wakes), driver)
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        (result, wakes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    // --- the driver ---------------------------------------------------------------------------

    /// The driver is about to look: later news shall wake it.
    pub(crate) fn attach_driver(&mut self, waker: Option<&Waker>) {
        self.driver = waker.cloned();
    }

    /// Whether there was news since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// Makes the driver look again.
    pub(crate) fn notify_driver(&mut self) {
        self.dirty = true;
    }

    /// Whether the invocation may suspend, by the four rules and the actors' counters.
    pub(crate) fn verdict(&self) -> Verdict {
        let undecided = self.waking > 0 || self.fault.is_some();
        if self.runnable > 0 || undecided || self.queue.is_busy() {
            return Verdict::Busy;
        }
        debug_assert_eq!(self.drift(), None, "a counter of the lifecycle is wrong");
        if !self.queue.is_idle() {
            return Verdict::Flush;
        }
        if self.journal.pending() == 0 {
            return Verdict::Deadlock(self.report().tree);
        }
        Verdict::Suspend(if self.retrying_steps > 0 {
            TerminationReason::RetryScheduled
        } else if self.idle_waits > 0 {
            TerminationReason::WaitScheduled
        } else {
            TerminationReason::CallbackPending
        })
    }

    /// Records what ends this invocation; the first fault wins.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.dirty = true;
    }

    pub(crate) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// The driver has decided how the invocation ends.
    pub(crate) fn begin_end(&mut self) {
        self.ending = true;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Releases every waker and timer; nothing resolves any more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.timers.clear();
        self.entries.clear();
        self.queue.clear();
        self.driver = None;
        self.retrying_steps = 0;
        self.idle_waits = 0;
        for actor in self.actors.values_mut() {
            actor.waiter = None;
        }
    }

    /// Actors that still exist; none may when an invocation has ended.
    pub(crate) fn actors_alive(&self) -> usize {
        self.actors.len()
    }

    // --- actors -------------------------------------------------------------------------------

    /// Registers an actor as runnable, before anything can wait for it.
    pub(crate) fn add_actor(&mut self, label: Label) -> ActorId {
        self.last_actor += 1;
        self.actors.insert(
            self.last_actor,
            Actor {
                label,
                parked: 0,
                woken: true,
                polled: false,
                blocked: false,
                waiter: None,
            },
        );
        self.runnable += 1;
        self.last_actor
    }

    /// An actor is finished or dropped: the wake of its waiter counts first, then it stops
    /// counting.
    pub(crate) fn remove_actor(&mut self, id: ActorId) {
        let Some(actor) = self.actors.remove(&id) else {
            return;
        };
        self.release(actor.waiter);
        if !actor.blocked {
            self.runnable -= 1;
        }
        self.dirty = true;
    }

    /// An actor is being polled.
    pub(crate) fn enter(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.woken = false;
            actor.polled = true;
            if std::mem::take(&mut actor.blocked) {
                self.runnable += 1;
            }
        }
    }

    /// An actor's poll was pending: it is blocked if a durable future is parked and nothing woke it
    /// meanwhile.
    pub(crate) fn leave(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.polled = false;
            if actor.parked > 0 && !actor.woken && !actor.blocked {
                actor.blocked = true;
                self.runnable -= 1;
                self.dirty |= self.runnable == 0;
            }
        }
    }

    /// An actor was woken and will be polled.
    pub(crate) fn wake(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.woken = true;
            if std::mem::take(&mut actor.blocked) {
                self.runnable += 1;
            }
        }
    }

    pub(crate) fn is_woken(&self, id: ActorId) -> bool {
        self.actors.get(&id).is_some_and(|actor| actor.woken)
    }

    /// A durable future of this actor is pending.
    pub(crate) fn park(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.parked += 1;
        }
    }

    /// A durable future of this actor is woken, finished or dropped. If it was the last one and the
    /// actor was blocked, the actor now waits for something foreign, which counts as running.
    pub(crate) fn unpark(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.parked = actor.parked.saturating_sub(1);
            if actor.parked == 0 && std::mem::take(&mut actor.blocked) {
                self.runnable += 1;
            }
        }
    }

    /// Whether an actor is gone; if not, `waiter` is told when it is.
    pub(crate) fn wait_for_actor(&mut self, id: ActorId, waiter: &Waker) -> bool {
        match self.actors.get_mut(&id) {
            None => true,
            Some(actor) => {
                actor.waiter = Some(waiter.clone());
                false
            }
        }
    }

    /// Whether somebody awaits the end of an actor.
    pub(crate) fn is_awaited(&self, id: ActorId) -> bool {
        self.actors
            .get(&id)
            .is_some_and(|actor| actor.waiter.is_some())
    }

    fn release(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        for waker in wakers {
            self.waking += 1;
            self.wakes.push(waker);
        }
    }

    /// So many wakers have been called; whoever they belong to counts as running by now.
    fn woke(&mut self, called: usize) {
        self.waking -= called;
        self.dirty |= self.waking == 0 && self.runnable == 0;
    }

    // --- replay -------------------------------------------------------------------------------

    /// Takes over an operation that an earlier invocation recorded.
    pub(crate) fn load(&mut self, operation: Operation) {
        *self.ahead.entry(operation.parent_id.clone()).or_default() += 1;
        self.journal.put(operation);
    }

    /// The code has come to an operation that an earlier invocation may have recorded.
    pub(crate) fn claimed(&mut self, identity: &Identity) {
        if self.journal.contains(&identity.id)
            && let Some(ahead) = self.ahead.get_mut(&identity.parent_id)
        {
            *ahead = ahead.saturating_sub(1);
        }
    }

    /// Whether operations of this context were recorded that the code has not come to.
    pub(crate) fn is_ahead(&self, context: &Option<OperationId>) -> bool {
        self.ahead.get(context).is_some_and(|ahead| *ahead > 0)
    }

    // --- operations ---------------------------------------------------------------------------

    /// Moves an operation to another state of its life, registering it if it is new.
    pub(crate) fn mark(&mut self, identity: &Arc<Identity>, state: OperationState) {
        if self.ended {
            return;
        }
        let known = self.entries.get(&identity.id).map(|entry| entry.state);
        if known == Some(state) {
            return;
        }
        if let Some(before) = known {
            self.count(identity, before, false);
        }
        if state == OperationState::Completed {
            self.completed += 1;
            if let Some(entry) = self.entries.remove(&identity.id) {
                self.disarm(&identity.id, entry.next_poll);
                self.release(entry.waiter);
            }
            return;
        }
        self.count(identity, state, true);
        self.entries
            .entry(identity.id.clone())
            .or_insert_with(|| Entry {
                identity: identity.clone(),
                state,
                waiter: None,
                next_poll: None,
                is_timed: false,
                misses: 0,
            })
            .state = state;
    }

    /// Keeps the counters behind the termination reason.
    fn count(&mut self, identity: &Identity, state: OperationState, up: bool) {
        let counter = if is_retrying_step(identity, state) {
            &mut self.retrying_steps
        } else if is_idle_wait(identity, state) {
            &mut self.idle_waits
        } else {
            return;
        };
        *counter = if up {
            *counter + 1
        } else {
            counter.saturating_sub(1)
        };
    }

    /// The record of an operation that no longer waits, or `None` after registering `waiter`.
    /// Looking and registering are one step: no completion can slip between them.
    pub(crate) fn wait_for_change(
        &mut self,
        identity: &Arc<Identity>,
        waiter: &Waker,
        first_poll: impl FnOnce(&Operation) -> Option<Timestamp>,
    ) -> Option<Arc<Operation>> {
        let record = self.journal.get(&identity.id)?.clone();
        if is_settled(&record) {
            return Some(record);
        }
        if let Some(entry) = self.entries.get_mut(&identity.id) {
            entry.waiter = Some(waiter.clone());
            // Once it was asked about, the cadence decides, also that it is not asked about again.
            if entry.next_poll.is_none()
                && entry.misses == 0
                && let Some(at) = first_poll(&record)
            {
                entry.next_poll = Some(at);
                entry.is_timed = record.due().is_some();
                self.timers.insert((at, identity.id.clone()));
                self.dirty = true;
            }
        }
        None
    }

    /// Nobody waits for the operation any more; the backend still does.
    pub(crate) fn stop_waiting(&mut self, identity: &Arc<Identity>) {
        let Some(entry) = self.entries.get_mut(&identity.id) else {
            return;
        };
        entry.waiter = None;
        let next_poll = entry.next_poll.take();
        self.disarm(&identity.id, next_poll);
        if self
            .entries
            .get(&identity.id)
            .is_some_and(|entry| entry.state == OperationState::IdleAwaited)
        {
            self.mark(identity, OperationState::IdleNotAwaited);
        }
    }

    /// The future of an operation was dropped: a body that was running runs no more.
    pub(crate) fn give_up(&mut self, id: &OperationId) {
        if self
            .entries
            .get(id)
            .is_some_and(|entry| entry.state == OperationState::Executing)
        {
            self.entries.remove(id);
        }
    }

    /// A spawned operation is now awaited through its handle.
    pub(crate) fn mark_awaited(&mut self, identity: &Arc<Identity>) {
        if self
            .entries
            .get(&identity.id)
            .is_some_and(|entry| entry.state == OperationState::IdleNotAwaited)
        {
            self.mark(identity, OperationState::IdleAwaited);
        }
    }

    fn disarm(&mut self, id: &OperationId, next_poll: Option<Timestamp>) {
        if let Some(at) = next_poll {
            self.timers.remove(&(at, id.clone()));
        }
    }

    /// When the next waiting operation should be asked about.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// When the next waiting operation becomes due by itself. Operations that are only asked about
    /// now and then have no such moment.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let is_timed = |id| self.entries.get(id).is_some_and(|entry| entry.is_timed);
        self.timers
            .iter()
            .find(|(_, id)| is_timed(id))
            .map(|(at, _)| *at)
    }

    /// Timers that are due ask for one refresh together and are armed again by `cadence`.
    pub(crate) fn fire_timers(
        &mut self,
        now: Timestamp,
        cadence: impl Fn(u32) -> Option<Timestamp>,
    ) {
        while let Some((at, id)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.timers.remove(&(at, id.clone()));
            self.queue.request_refresh();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.misses += 1;
                entry.next_poll = cadence(entry.misses).map(|next| next.max(now.plus_millis(1)));
                if let Some(next) = entry.next_poll {
                    self.timers.insert((next, id));
                }
            }
        }
    }

    /// Publishes changed operations and wakes whoever waited for them, in one step. Duplicates
    /// change nothing. Returns what changed.
    pub(crate) fn absorb(&mut self, operations: Vec<Operation>) -> Vec<(OperationId, Change)> {
        let mut changes = Vec::with_capacity(operations.len());
        for operation in operations {
            let id = operation.id.clone();
            let settled = is_settled(&operation);
            let change = self.journal.put(operation);
            if change.before != Some(change.after) {
                changes.push((id.clone(), change));
            }
            if settled && let Some(entry) = self.entries.get_mut(&id) {
                let waiter = entry.waiter.take();
                let next_poll = entry.next_poll.take();
                entry.misses = 0;
                self.disarm(&id, next_poll);
                self.release(waiter);
            }
        }
        changes
    }

    /// The batch was accepted: store the new token and what changed, then let its callers go on.
    pub(crate) fn accept(
        &mut self,
        batch: &Batch,
        token: Option<String>,
        operations: Vec<Operation>,
    ) -> Vec<(OperationId, Change)> {
        let changes = self.absorb(operations);
        match token {
            Some(token) => self.token = token,
            None => self.fail(Fault::Superseded),
        }
        let waiters: Vec<Waker> = self.queue.acknowledge(batch.last).collect();
        self.release(waiters);
        self.dirty = true;
        changes
    }
}

/// A condition is a step on the wire, but what it waits for is its condition.
fn is_retrying_step(identity: &Identity, state: OperationState) -> bool {
    state == OperationState::RetryWaiting && *identity.sub_type != *sub_type::WAIT_FOR_CONDITION
}

fn is_idle_wait(identity: &Identity, state: OperationState) -> bool {
    let is_idle = matches!(
        state,
        OperationState::IdleAwaited | OperationState::IdleNotAwaited
    );
    is_idle && identity.operation_type == OperationType::Wait
}

/// Whether a waiting operation has something for its waiter: an outcome, or a retry that is due.
fn is_settled(operation: &Operation) -> bool {
    operation.status.is_terminal() || operation.status == OperationStatus::Ready
}

#[cfg(test)]
mod tests;
