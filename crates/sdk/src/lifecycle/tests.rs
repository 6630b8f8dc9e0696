//! The lifecycle alone: counters, waiters, timers and verdicts, without a handler or a backend.
//! What they add up to is tested in `tests/it/lifecycle.rs` and `tests/it/stress.rs`.

use super::*;
use crate::checkpoint::Delivery;
use outlast_core::{
    id::Position,
    wire::{OperationAction, OperationUpdate, StepDetails, WaitDetails},
};
use std::{
    sync::{
        Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Wake,
};

const NOW: Timestamp = Timestamp::from_millis(1_000);

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (bell.clone(), Waker::from(bell))
    }

    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn identity(number: u64, operation_type: OperationType, label: &str) -> Arc<Identity> {
    let position = Position::root().child(number);
    Arc::new(Identity {
        id: position.id(),
        position,
        operation_type,
        sub_type: label.into(),
        name: None,
        parent_id: None,
    })
}

fn step(number: u64) -> Arc<Identity> {
    identity(number, OperationType::Step, sub_type::STEP)
}

fn wait(number: u64) -> Arc<Identity> {
    identity(number, OperationType::Wait, sub_type::WAIT)
}

fn callback(number: u64) -> Arc<Identity> {
    identity(number, OperationType::Callback, sub_type::CALLBACK)
}

fn record(identity: &Identity, status: OperationStatus) -> Operation {
    Operation::new(identity.id.clone(), identity.operation_type, status, NOW)
}

/// A wait that ends at `end`.
fn open_wait(identity: &Identity, end: u64) -> Operation {
    let mut operation = record(identity, OperationStatus::Started);
    operation.wait_details = Some(WaitDetails {
        scheduled_end_timestamp: Some(Timestamp::from_millis(end)),
    });
    operation
}

/// A lifecycle with a blocked handler and one wait that is pending and awaited: it would suspend.
fn at_rest() -> (State, ActorId) {
    let mut state = State::default();
    let handler = state.add_actor("the handler".into());
    let wait = wait(1);
    state.absorb(vec![open_wait(&wait, 9_000)]);
    state.mark(&wait, OperationState::IdleAwaited);
    block(&mut state, handler);
    assert_eq!(
        state.verdict(),
        Verdict::Suspend(TerminationReason::WaitScheduled)
    );
    (state, handler)
}

/// Polls an actor that ends up waiting for one more durable future.
fn block(state: &mut State, actor: ActorId) {
    state.enter(actor);
    state.park(actor);
    state.leave(actor);
}

fn update(number: u64) -> OperationUpdate {
    let id = Position::root().child(number).id();
    OperationUpdate::new(id, OperationType::Step, OperationAction::Start)
}

fn push(state: &mut State, delivery: Delivery) -> u64 {
    state.queue.push(update(7), delivery, NOW)
}

/// Calls the wakers that a change collected, as `Lifecycle::with` does after unlocking.
fn deliver(state: &mut State) -> usize {
    let wakes = std::mem::take(&mut state.wakes);
    let called = wakes.len();
    wakes.into_iter().for_each(Waker::wake);
    state.woke(called);
    called
}

// --- actors -----------------------------------------------------------------------------------

#[test]
fn a_new_actor_counts_as_running_before_its_first_poll() {
    let (mut state, _) = at_rest();
    let spawned = state.add_actor("spawned".into());
    assert!(state.is_woken(spawned));
    assert_eq!(state.verdict(), Verdict::Busy);
    assert_eq!(state.drift(), None);
}

#[test]
fn an_actor_blocks_only_if_its_poll_was_pending_with_a_parked_future_and_without_a_wake() {
    for (parks, woken_inside, blocks) in [
        (0, false, false),
        (0, true, false),
        (1, false, true),
        (1, true, false),
        (2, false, true),
    ] {
        let mut state = State::default();
        let actor = state.add_actor("handler".into());
        state.enter(actor);
        (0..parks).for_each(|_| state.park(actor));
        if woken_inside {
            state.wake(actor);
        }
        state.leave(actor);
        assert_eq!(
            state.runnable == 0,
            blocks,
            "{parks} parked, {woken_inside}"
        );
        assert_eq!(state.drift(), None);
    }
}

#[test]
fn a_wake_makes_a_blocked_actor_runnable_and_the_next_poll_uses_it_up() {
    let (mut state, handler) = at_rest();
    state.wake(handler);
    state.wake(handler);
    assert!(state.is_woken(handler));
    assert_eq!((state.runnable, state.verdict()), (1, Verdict::Busy));
    state.enter(handler);
    assert!(!state.is_woken(handler));
    state.leave(handler);
    assert_eq!(state.runnable, 0);
    assert_eq!(state.drift(), None);
}

#[test]
fn a_poll_that_nobody_asked_for_changes_no_counter() {
    let (mut state, handler) = at_rest();
    for _ in 0..3 {
        state.enter(handler);
        assert_eq!(state.runnable, 1);
        state.leave(handler);
        assert_eq!(state.runnable, 0);
    }
    assert_eq!(state.drift(), None);
}

#[test]
fn an_actor_whose_last_durable_future_went_waits_for_something_foreign_and_counts_as_running() {
    let (mut state, handler) = at_rest();
    state.park(handler);
    state.unpark(handler);
    assert_eq!(state.runnable, 0, "one of two went");
    state.unpark(handler);
    assert_eq!(state.runnable, 1, "both went");
    state.unpark(handler);
    assert_eq!(state.runnable, 1, "going twice changes nothing");
    assert_eq!(state.drift(), None);
}

#[test]
fn actors_go_once_whatever_they_were_doing() {
    let (mut state, handler) = at_rest();
    let running = state.add_actor("running".into());
    for actor in [running, handler, running, handler, 99] {
        state.remove_actor(actor);
        assert_eq!(state.drift(), None);
    }
    assert_eq!((state.actors_alive(), state.runnable), (0, 0));
    // Reports about actors that are gone are late, not wrong.
    state.enter(handler);
    state.park(handler);
    state.wake(handler);
    state.unpark(handler);
    state.leave(handler);
    assert_eq!((state.actors_alive(), state.runnable), (0, 0));
}

#[test]
fn actor_ids_are_never_reused() {
    let mut state = State::default();
    let first = state.add_actor("first".into());
    state.remove_actor(first);
    assert_ne!(state.add_actor("second".into()), first);
}

// --- waiters ----------------------------------------------------------------------------------

#[test]
fn a_waiter_counts_before_the_actor_it_waits_for_stops_counting() {
    let (mut state, _) = at_rest();
    let spawned = state.add_actor("spawned".into());
    let (bell, waker) = Bell::new();
    assert!(!state.wait_for_actor(spawned, &waker));
    assert!(state.is_awaited(spawned));
    state.remove_actor(spawned);
    assert_eq!(state.runnable, 0);
    assert_eq!(state.verdict(), Verdict::Busy, "its wake is on its way");
    assert_eq!((deliver(&mut state), bell.rings()), (1, 1));
    assert!(state.take_news(), "the decision has to be made again");
    assert!(state.wait_for_actor(spawned, &waker));
    assert!(!state.is_awaited(spawned));
}

#[test]
fn a_wake_that_reaches_nobody_does_not_hold_the_invocation() {
    let (state, _) = at_rest();
    let lifecycle = Lifecycle(Mutex::new(state));
    let spawned = lifecycle.with(|state| state.add_actor("spawned".into()));
    // The handle was polled inside a future that is gone: its waker leads nowhere.
    lifecycle.with(|state| state.wait_for_actor(spawned, Waker::noop()));
    lifecycle.with(|state| state.remove_actor(spawned));
    assert_eq!(
        lifecycle.with(|state| state.verdict()),
        Verdict::Suspend(TerminationReason::WaitScheduled)
    );
}

/// Looks at the lifecycle while it is being woken.
struct Prying {
    lifecycle: Weak<Lifecycle>,
    saw_busy: AtomicUsize,
}

impl Wake for Prying {
    fn wake(self: Arc<Self>) {
        let lifecycle = self.lifecycle.upgrade().unwrap();
        let busy = lifecycle.with(|state| state.verdict() == Verdict::Busy);
        self.saw_busy
            .fetch_add(usize::from(busy), Ordering::Relaxed);
    }
}

#[test]
fn wakers_are_called_without_the_lock_and_nothing_is_decided_until_the_last_was_called() {
    let (state, _) = at_rest();
    let lifecycle = Arc::new(Lifecycle(Mutex::new(state)));
    let waiters: Vec<Arc<Prying>> = (0..3)
        .map(|_| {
            Arc::new(Prying {
                lifecycle: Arc::downgrade(&lifecycle),
                saw_busy: AtomicUsize::new(0),
            })
        })
        .collect();
    let mut spawned = Vec::new();
    for waiter in &waiters {
        spawned.push(lifecycle.with(|state| {
            let actor = state.add_actor("spawned".into());
            state.wait_for_actor(actor, &Waker::from(waiter.clone()));
            actor
        }));
    }
    lifecycle.with(|state| spawned.iter().for_each(|actor| state.remove_actor(*actor)));
    for waiter in &waiters {
        assert_eq!(waiter.saw_busy.load(Ordering::Relaxed), 1);
    }
    lifecycle.with(|state| assert_ne!(state.verdict(), Verdict::Busy));
}

#[test]
fn the_last_poll_of_a_waiter_is_the_one_that_is_woken() {
    let (mut state, _) = at_rest();
    let spawned = state.add_actor("spawned".into());
    let ((first, old), (second, new)) = (Bell::new(), Bell::new());
    state.wait_for_actor(spawned, &old);
    state.wait_for_actor(spawned, &new);
    state.remove_actor(spawned);
    deliver(&mut state);
    assert_eq!((first.rings(), second.rings()), (0, 1));
}

#[test]
fn the_driver_is_woken_once_and_only_for_news() {
    let lifecycle = Lifecycle::default();
    let (bell, waker) = Bell::new();
    lifecycle.with(|state| state.attach_driver(Some(&waker)));
    lifecycle.with(|state| state.verdict());
    assert_eq!(bell.rings(), 0);
    lifecycle.with(State::notify_driver);
    lifecycle.with(State::notify_driver);
    assert_eq!(bell.rings(), 1);
    assert!(lifecycle.with(State::take_news));
    assert!(!lifecycle.with(State::take_news));
}

#[test]
fn the_last_actor_to_block_is_news() {
    let mut state = State::default();
    let (first, second) = (state.add_actor("a".into()), state.add_actor("b".into()));
    block(&mut state, first);
    assert!(!state.take_news());
    block(&mut state, second);
    assert!(state.take_news());
}

// --- operations -------------------------------------------------------------------------------

#[test]
fn a_settled_record_is_returned_at_once_and_an_open_one_registers_the_waiter() {
    use OperationStatus as Status;
    for (status, settled) in [
        (Status::Started, false),
        (Status::Pending, false),
        (Status::Ready, true),
        (Status::Succeeded, true),
        (Status::Failed, true),
        (Status::Cancelled, true),
        (Status::TimedOut, true),
        (Status::Stopped, true),
    ] {
        let mut state = State::default();
        let step = step(1);
        state.absorb(vec![record(&step, status)]);
        state.mark(&step, OperationState::RetryWaiting);
        let found = state.wait_for_change(&step, Waker::noop(), |_| None);
        assert_eq!(found.is_some(), settled, "{status}");
    }
}

#[test]
fn a_change_wakes_its_waiter_and_counts_until_the_waker_was_called() {
    let (mut state, _) = at_rest();
    let wait = wait(1);
    let (bell, waker) = Bell::new();
    state.wait_for_change(&wait, &waker, |_| None);
    state.absorb(vec![record(&wait, OperationStatus::Succeeded)]);
    assert_eq!(state.verdict(), Verdict::Busy);
    deliver(&mut state);
    assert_eq!(bell.rings(), 1);
    assert!(state.wait_for_change(&wait, &waker, |_| None).is_some());
}

#[test]
fn a_duplicate_terminal_notice_is_neither_a_change_nor_a_wake() {
    let (mut state, _) = at_rest();
    let wait = wait(1);
    let (bell, waker) = Bell::new();
    state.wait_for_change(&wait, &waker, |_| None);
    let done = record(&wait, OperationStatus::Succeeded);
    let late = record(&wait, OperationStatus::Failed);
    let changes = state.absorb(vec![done.clone(), done.clone(), late]);
    assert_eq!(changes.len(), 1);
    assert!(changes[0].1.closed());
    assert_eq!(state.absorb(vec![done]), []);
    deliver(&mut state);
    assert_eq!(bell.rings(), 1);
    let kept = state.wait_for_change(&wait, &waker, |_| None).unwrap();
    assert_eq!(kept.status, OperationStatus::Succeeded);
}

#[test]
fn completing_an_operation_releases_its_timer_and_its_waiter_and_completing_it_again_nothing() {
    let (mut state, _) = at_rest();
    let wait = wait(1);
    let (bell, waker) = Bell::new();
    state.wait_for_change(&wait, &waker, Operation::due);
    assert_eq!(state.next_timer(), Some(Timestamp::from_millis(9_000)));
    for _ in 0..2 {
        state.mark(&wait, OperationState::Completed);
        deliver(&mut state);
        assert_eq!((state.next_timer(), bell.rings()), (None, 1));
        assert_eq!(state.drift(), None);
    }
}

#[test]
fn an_operation_that_is_no_longer_awaited_keeps_counting_but_is_not_polled() {
    let (mut state, _) = at_rest();
    let wait = wait(1);
    state.wait_for_change(&wait, Waker::noop(), Operation::due);
    state.stop_waiting(&wait);
    assert_eq!(state.next_timer(), None);
    assert_eq!(
        state.entries[&wait.id].state,
        OperationState::IdleNotAwaited
    );
    assert_eq!(
        state.verdict(),
        Verdict::Suspend(TerminationReason::WaitScheduled)
    );
    state.mark_awaited(&wait);
    assert_eq!(state.entries[&wait.id].state, OperationState::IdleAwaited);
    state.stop_waiting(&callback(9));
    assert_eq!(state.drift(), None);
}

#[test]
fn a_body_that_is_dropped_is_no_longer_listed_and_a_wait_that_is_dropped_still_is() {
    let (mut state, _) = at_rest();
    let step = step(2);
    state.mark(&step, OperationState::Executing);
    assert!(state.report().tree.contains("2 Step: executing"));
    state.give_up(&step.id);
    state.give_up(&wait(1).id);
    let tree = state.report().tree;
    assert!(!tree.contains("Step") && tree.contains("1 Wait"), "{tree}");
}

// --- timers -----------------------------------------------------------------------------------

/// Waits for `wait`, which ends at `end`.
fn arm(state: &mut State, wait: &Arc<Identity>, end: u64) {
    state.absorb(vec![open_wait(wait, end)]);
    state.mark(wait, OperationState::IdleAwaited);
    state.wait_for_change(wait, Waker::noop(), Operation::due);
}

#[test]
fn timers_due_at_one_instant_ask_for_one_refresh_and_later_ones_for_another() {
    let mut state = State::default();
    (1..=100).for_each(|number| arm(&mut state, &wait(number), 2_000));
    arm(&mut state, &wait(101), 2_001);
    assert_eq!(state.next_timer(), Some(Timestamp::from_millis(2_000)));
    state.fire_timers(Timestamp::from_millis(1_999), |_| None);
    assert!(state.queue.is_idle());
    state.fire_timers(Timestamp::from_millis(2_000), |_| None);
    let batch = state.queue.seal();
    assert!(batch.updates.is_empty());
    state.accept(&batch, Some("t".into()), Vec::new());
    assert!(state.queue.is_idle(), "one request served all hundred");
    assert_eq!(state.next_timer(), Some(Timestamp::from_millis(2_001)));
    assert_eq!(state.drift(), None);
}

#[test]
fn a_timer_that_missed_follows_the_cadence_until_that_says_stop() {
    let mut state = State::default();
    let wait = wait(1);
    arm(&mut state, &wait, 2_000);
    let cadence = |misses: u32| {
        let at = Timestamp::from_millis(2_000 + u64::from(misses) * 1_000);
        (misses < 3).then_some(at)
    };
    for expected in [Some(3_000), Some(4_000), None] {
        let now = state.next_timer().unwrap();
        state.fire_timers(now, cadence);
        assert_eq!(state.next_timer(), expected.map(Timestamp::from_millis));
    }
    // Polled again for another reason: it stays silent, although its time has come.
    state.wait_for_change(&wait, Waker::noop(), Operation::due);
    assert_eq!(state.next_timer(), None);
    assert_eq!(state.drift(), None);
}

#[test]
fn a_cadence_of_nothing_cannot_make_the_driver_spin() {
    let mut state = State::default();
    arm(&mut state, &wait(1), 2_000);
    let now = Timestamp::from_millis(5_000);
    state.fire_timers(now, |_| Some(now));
    assert_eq!(state.next_timer(), Some(now.plus_millis(1)));
}

#[test]
fn a_retry_that_became_ready_starts_its_cadence_from_the_beginning() {
    let mut state = State::default();
    let step = step(1);
    let pending = |at| {
        let mut operation = record(&step, OperationStatus::Pending);
        operation.step_details = Some(StepDetails {
            next_attempt_timestamp: Some(Timestamp::from_millis(at)),
            ..StepDetails::default()
        });
        operation
    };
    state.absorb(vec![pending(2_000)]);
    state.mark(&step, OperationState::RetryWaiting);
    state.wait_for_change(&step, Waker::noop(), Operation::due);
    state.fire_timers(Timestamp::from_millis(2_000), |_| None);
    state.absorb(vec![record(&step, OperationStatus::Ready)]);
    state.mark(&step, OperationState::Executing);
    state.absorb(vec![pending(8_000)]);
    state.mark(&step, OperationState::RetryWaiting);
    state.wait_for_change(&step, Waker::noop(), Operation::due);
    assert_eq!(state.next_timer(), Some(Timestamp::from_millis(8_000)));
}

#[test]
fn only_operations_that_become_due_by_themselves_have_a_due_time() {
    let mut state = State::default();
    let callback = callback(1);
    state.absorb(vec![record(&callback, OperationStatus::Started)]);
    state.mark(&callback, OperationState::IdleAwaited);
    state.wait_for_change(&callback, Waker::noop(), |_| {
        Some(Timestamp::from_millis(2_000))
    });
    assert_eq!(state.next_timer(), Some(Timestamp::from_millis(2_000)));
    assert_eq!(state.next_due(), None);
    arm(&mut state, &wait(2), 5_000);
    assert_eq!(state.next_due(), Some(Timestamp::from_millis(5_000)));
}

// --- verdicts ---------------------------------------------------------------------------------

type Disturb = fn(&mut State);

/// The four rules, and what this design adds to them: each alone keeps the invocation.
const RULES: [(&str, Disturb, Verdict); 7] = [
    (
        "an update is queued",
        |state| {
            push(state, Delivery::Synchronous);
        },
        Verdict::Busy,
    ),
    (
        "a lone start is queued",
        |state| {
            push(state, Delivery::FireAndForget);
        },
        Verdict::Flush,
    ),
    (
        "a request is in flight",
        |state| drop(state.queue.seal()),
        Verdict::Busy,
    ),
    (
        "a refresh is wanted",
        |state| state.queue.request_refresh(),
        Verdict::Busy,
    ),
    (
        "a body is executing",
        |state| {
            state.add_actor("body".into());
        },
        Verdict::Busy,
    ),
    (
        "a wake is on its way",
        |state| state.release([Waker::noop().clone()]),
        Verdict::Busy,
    ),
    (
        "a fault is recorded",
        |state| state.fail(Fault::Superseded),
        Verdict::Busy,
    ),
];

#[test]
fn each_rule_alone_keeps_the_invocation() {
    for (rule, disturb, expected) in RULES {
        let (mut state, _) = at_rest();
        disturb(&mut state);
        assert_eq!(state.verdict(), expected, "{rule}");
    }
}

#[test]
fn any_two_rules_together_keep_the_invocation() {
    for (first, one, _) in RULES {
        for (second, other, _) in RULES {
            let (mut state, _) = at_rest();
            one(&mut state);
            other(&mut state);
            let verdict = state.verdict();
            assert!(
                matches!(verdict, Verdict::Busy | Verdict::Flush),
                "{first}, {second}: {verdict:?}"
            );
        }
    }
}

#[test]
fn with_nothing_pending_waiting_is_a_deadlock_and_the_open_operations_are_named() {
    let mut state = State::default();
    let handler = state.add_actor("the handler".into());
    state.mark(&step(1), OperationState::Executing);
    block(&mut state, handler);
    let Verdict::Deadlock(tree) = state.verdict() else {
        panic!("{:?}", state.verdict());
    };
    assert_eq!(tree, "1 Step: executing\n(0 completed)");
}

#[test]
fn the_reason_is_the_most_urgent_operation_that_waits() {
    use OperationState::{Executing, IdleAwaited, IdleNotAwaited, RetryWaiting};
    let labelled = || identity(2, OperationType::Step, "Payment");
    let condition = || identity(3, OperationType::Step, sub_type::WAIT_FOR_CONDITION);
    let check = |marks: &[(Arc<Identity>, OperationState)], reason| {
        let mut state = State::default();
        for (identity, waiting) in marks {
            state.mark(identity, *waiting);
        }
        state.absorb(vec![record(&callback(99), OperationStatus::Started)]);
        assert_eq!(state.verdict(), Verdict::Suspend(reason), "{marks:?}");
    };
    let (retry, timer, other) = (
        TerminationReason::RetryScheduled,
        TerminationReason::WaitScheduled,
        TerminationReason::CallbackPending,
    );
    check(&[(step(1), RetryWaiting), (wait(4), IdleAwaited)], retry);
    check(&[(labelled(), RetryWaiting), (wait(4), IdleAwaited)], retry);
    check(&[(wait(4), IdleAwaited), (callback(5), IdleAwaited)], timer);
    check(&[(wait(4), IdleNotAwaited)], timer);
    check(
        &[(condition(), RetryWaiting), (wait(4), IdleAwaited)],
        timer,
    );
    check(&[(condition(), RetryWaiting)], other);
    check(&[(callback(5), IdleNotAwaited)], other);
    check(&[(step(1), Executing)], other);
}

#[test]
fn the_reason_follows_the_states_as_they_change() {
    let (mut state, _) = at_rest();
    let step = step(2);
    let reason = |state: &State| {
        let Verdict::Suspend(reason) = state.verdict() else {
            panic!("{:?}", state.verdict());
        };
        reason
    };
    state.mark(&step, OperationState::RetryWaiting);
    state.mark(&step, OperationState::RetryWaiting);
    assert_eq!(reason(&state), TerminationReason::RetryScheduled);
    state.mark(&step, OperationState::Executing);
    assert_eq!(reason(&state), TerminationReason::WaitScheduled);
    state.mark(&step, OperationState::RetryWaiting);
    state.mark(&step, OperationState::Completed);
    assert_eq!(reason(&state), TerminationReason::WaitScheduled);
}

#[test]
fn the_first_fault_wins() {
    let mut state = State::default();
    assert!(state.take_fault().is_none());
    state.fail(Fault::Execution(ErrorObject::new("First", "")));
    state.fail(Fault::Superseded);
    assert!(state.has_fault());
    assert!(state.take_news());
    assert!(
        matches!(state.take_fault(), Some(Fault::Execution(error)) if error.error_type.as_deref() == Some("First"))
    );
}

#[test]
fn an_accepted_batch_publishes_its_records_and_releases_its_callers_in_one_step() {
    let (mut state, _) = at_rest();
    let (bell, waker) = Bell::new();
    let number = push(&mut state, Delivery::Synchronous);
    assert!(!state.queue.wait(number, &waker));
    let batch = state.queue.seal();
    let done = record(&wait(1), OperationStatus::Succeeded);
    let changes = state.accept(&batch, Some("next".into()), vec![done]);
    assert_eq!((changes.len(), state.token.as_str()), (1, "next"));
    assert_eq!(state.verdict(), Verdict::Busy, "the caller is being woken");
    deliver(&mut state);
    assert_eq!(bell.rings(), 1);
    assert!(state.queue.wait(number, &waker));
}

#[test]
fn an_answer_without_a_token_ends_the_invocation_as_superseded() {
    let (mut state, _) = at_rest();
    push(&mut state, Delivery::Synchronous);
    let batch = state.queue.seal();
    state.accept(&batch, None, Vec::new());
    assert!(matches!(state.take_fault(), Some(Fault::Superseded)));
}

// --- the end ----------------------------------------------------------------------------------

#[test]
fn the_end_releases_every_waker_and_timer_and_nothing_comes_back() {
    let (mut state, handler) = at_rest();
    let (bell, waker) = Bell::new();
    let wait = wait(1);
    state.wait_for_change(&wait, &waker, Operation::due);
    state.wait_for_actor(handler, &waker);
    let number = push(&mut state, Delivery::Synchronous);
    state.queue.wait(number, &waker);
    state.attach_driver(Some(&waker));
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 5);
    state.end();
    assert_eq!(Arc::strong_count(&bell), 1, "all wakers are gone");
    assert_eq!((state.next_timer(), state.drift()), (None, None));
    state.mark(&wait, OperationState::IdleAwaited);
    assert!(state.entries.is_empty(), "it is too late to register");
    state.remove_actor(handler);
    assert_eq!((state.actors_alive(), deliver(&mut state)), (0, 0));
}

// --- saying why -------------------------------------------------------------------------------

#[test]
fn drifting_counters_are_noticed() {
    let wrong: [(&str, Disturb); 4] = [
        ("runnable", |state| state.runnable += 1),
        ("retrying_steps", |state| state.retrying_steps += 1),
        ("idle_waits", |state| state.idle_waits = 0),
        ("timers", |state| {
            state.timers.insert((NOW, wait(1).id.clone()));
        }),
    ];
    for (name, disturb) in wrong {
        let (mut state, _) = at_rest();
        disturb(&mut state);
        assert_eq!(state.drift(), Some(name));
    }
    let (mut state, handler) = at_rest();
    state.actors.get_mut(&handler).unwrap().woken = true;
    assert_eq!(state.drift(), Some("blocked"));
}

#[test]
fn the_report_names_who_waits_for_something_foreign_before_who_runs() {
    let (mut state, handler) = at_rest();
    let stuck = state.add_actor("the body of step 'stuck' (2)".into());
    state.enter(stuck);
    state.leave(stuck);
    state.enter(handler);
    assert_eq!(
        state.report().why,
        "not suspending: the body of step 'stuck' (2) waits for something that is not durable, \
         the handler is running"
    );
    state.leave(handler);
    state.add_actor("spawned Step 3".into());
    let report = state.report();
    assert_eq!(
        report.why,
        "not suspending: the body of step 'stuck' (2) waits for something that is not durable, \
         spawned Step 3 was woken and has not been polled since"
    );
    let holder = &report.holders[0];
    assert!(holder.waits_for_foreign && !holder.is_polled);
    for spawned in ["spawned Step 4", "spawned Step 5", "spawned Step 6"] {
        state.add_actor(spawned.into());
    }
    assert!(
        state
            .report()
            .why
            .ends_with("spawned Step 4 was woken and has not been polled since, and 2 more")
    );
}

#[test]
fn the_report_tells_what_is_being_written_and_that_it_suspends() {
    let (mut state, _) = at_rest();
    let why = |state: &State| state.report().why;
    assert_eq!(
        why(&state),
        "suspending: everything waits and 1 operations are pending"
    );
    state.release([Waker::noop().clone()]);
    assert_eq!(why(&state), "not suspending: a wake is on its way");
    deliver(&mut state);
    push(&mut state, Delivery::Synchronous);
    assert_eq!(why(&state), "not suspending: updates wait to be written");
    state.queue.seal();
    assert_eq!(
        why(&state),
        "not suspending: a checkpoint request is in flight"
    );
    let idle = State::default();
    assert_eq!(why(&idle), "stuck: everything waits and nothing is pending");
}

#[test]
fn the_tree_is_sorted_by_position_and_indented_by_depth() {
    let mut state = State::default();
    for number in [10, 2] {
        state.mark(&wait(number), OperationState::IdleAwaited);
    }
    let mut inner = (*step(1)).clone();
    inner.position = Position::root().child(2).child(1);
    inner.id = inner.position.id();
    inner.name = Some("inner".into());
    state.mark(&Arc::new(inner), OperationState::RetryWaiting);
    state.mark(&step(7), OperationState::Completed);
    assert_eq!(
        state.report().tree,
        "2 Wait: idle, awaited\n  2-1 Step 'inner': waiting for its retry\n10 Wait: idle, awaited\n(1 completed)"
    );
}
