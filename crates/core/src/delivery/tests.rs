//! What arrives from outside: callbacks, heartbeats, signals, outcomes of chained invokes.

use super::*;
use crate::{
    decide::Input,
    intent::Intent,
    invocation::Outcome,
    limits::Quotas,
    wire::{OperationAction, error_type},
    world::*,
};
use alloc::vec;

fn running() -> World {
    let mut world = World::new();
    world.invoke();
    world
}

/// A suspended execution with the open callback `c`.
fn waiting(timeout: u32, heartbeat: u32) -> World {
    let mut world = running();
    world.checkpoint([start_callback("c", timeout, heartbeat)]);
    world.suspend();
    world
}

fn error_type_of(world: &World, id: &str) -> Option<alloc::string::String> {
    world.operation(id).error()?.error_type.clone()
}

#[test]
fn a_callback_takes_the_first_answer_only() {
    let mut world = waiting(0, 0);
    assert_eq!(
        world.answer_callback("c", "1"),
        Ok(Receipt::Taken("c".into()))
    );
    assert!(world.execution.wants_invocation(world.now));
    let refused = world.answer_callback("c", "2").unwrap_err();
    assert_eq!(refused.code, Code::CallbackTimeout);
    assert_eq!(world.status("c"), OperationStatus::Succeeded);
    assert_eq!(world.operation("c").result().map(|text| &**text), Some("1"));
}

#[test]
fn an_empty_answer_means_no_result() {
    let mut world = waiting(0, 0);
    let callback_id = world.callback_id("c");
    let arrival = Arrival::CallbackSucceeded {
        callback_id,
        result: None,
    };
    world.deliver(arrival).unwrap();
    assert_eq!(world.operation("c").result(), None);
}

#[test]
fn a_failed_callback_keeps_the_error_as_sent_even_an_empty_one() {
    for error in [ErrorObject::new("Refused", "no"), ErrorObject::default()] {
        let mut world = waiting(0, 0);
        let callback_id = world.callback_id("c");
        let arrival = Arrival::CallbackFailed {
            callback_id,
            error: error.clone(),
        };
        world.deliver(arrival).unwrap();
        assert_eq!(world.status("c"), OperationStatus::Failed);
        assert_eq!(world.operation("c").error(), Some(&error));
        assert!(world.execution.wants_invocation(world.now));
    }
}

#[test]
fn a_callback_times_out_at_its_deadline() {
    let mut world = waiting(10, 0);
    world.advance(9_999).tick();
    assert_eq!(world.status("c"), OperationStatus::Started);
    assert_eq!(world.execution.next_wake(), Some(at(10_000)));
    world.advance(1).tick();
    assert_eq!(world.status("c"), OperationStatus::TimedOut);
    assert_eq!(
        error_type_of(&world, "c").as_deref(),
        Some(error_type::CALLBACK_TIMEOUT)
    );
    assert!(world.execution.wants_invocation(world.now));
}

#[test]
fn an_answer_at_or_after_the_deadline_is_refused_before_any_sweep() {
    for (ms, accepted) in [(9_999, true), (10_000, false), (10_001, false)] {
        let mut world = waiting(10, 0);
        world.advance(ms);
        assert_eq!(world.answer_callback("c", "1").is_ok(), accepted, "{ms}");
    }
}

#[test]
fn an_answer_stored_in_time_counts_even_if_it_is_folded_late() {
    let mut world = waiting(10, 0);
    let callback_id = world.callback_id("c");
    let arrival = Arrival::CallbackSucceeded {
        callback_id,
        result: Some("1".into()),
    };
    let stored = at(9_999);
    world.advance(60_000);
    let delivery = Delivery {
        at: stored,
        arrival,
    };
    world.decide(Input::Deliver(vec![delivery])).unwrap();
    assert_eq!(world.status("c"), OperationStatus::Succeeded);
}

#[test]
fn heartbeats_move_the_heartbeat_deadline_and_nothing_else() {
    let mut world = waiting(25, 10);
    let callback_id = world.callback_id("c");
    let beat = |world: &mut World| {
        let callback_id = callback_id.clone();
        world.deliver(Arrival::CallbackHeartbeat { callback_id })
    };
    world.advance(9_999);
    beat(&mut world).unwrap();
    assert!(!world.execution.wants_invocation(world.now));
    world.advance(9_999);
    beat(&mut world).unwrap();
    assert_eq!(
        world.execution.next_wake(),
        Some(at(25_000)),
        "the overall deadline stays"
    );
    world.now = at(25_000);
    world.tick();
    assert_eq!(
        error_type_of(&world, "c").as_deref(),
        Some(error_type::CALLBACK_TIMEOUT)
    );
    assert!(beat(&mut world).is_err());
    insta::assert_snapshot!(world.event_types(), @"CallbackStarted InvocationCompleted CallbackTimedOut");
}

#[test]
fn a_missed_heartbeat_times_out() {
    let mut world = waiting(0, 10);
    world.advance(10_000).tick();
    assert_eq!(world.status("c"), OperationStatus::TimedOut);
    assert_eq!(
        error_type_of(&world, "c").as_deref(),
        Some(error_type::CALLBACK_HEARTBEAT)
    );
}

#[test]
fn of_two_deadlines_at_the_same_moment_the_overall_one_is_named() {
    let mut world = waiting(10, 10);
    world.advance(10_000).tick();
    assert_eq!(
        error_type_of(&world, "c").as_deref(),
        Some(error_type::CALLBACK_TIMEOUT)
    );
}

#[test]
fn a_heartbeat_by_a_clock_that_went_back_closes_nothing() {
    let mut world = running();
    world.advance(60_000);
    world.checkpoint([start_callback("c", 0, 10)]);
    world.suspend();
    world.now = at(0);
    let callback_id = world.callback_id("c");
    world
        .deliver(Arrival::CallbackHeartbeat { callback_id })
        .unwrap();
    assert_eq!(world.status("c"), OperationStatus::Started);
}

#[test]
fn a_heartbeat_without_heartbeat_timeout_does_nothing() {
    let mut world = waiting(10, 0);
    let records = world.records.len();
    let callback_id = world.callback_id("c");
    world
        .deliver(Arrival::CallbackHeartbeat { callback_id })
        .unwrap();
    assert_eq!(world.records.len(), records);
}

#[test]
fn callback_ids_are_told_apart_as_malformed_unknown_or_late() {
    let mut world = waiting(0, 0);
    let deliver = |world: &mut World, callback_id: Arc<str>| {
        let arrival = Arrival::CallbackSucceeded {
            callback_id,
            result: None,
        };
        world.deliver(arrival).map_err(|refused| refused.code)
    };
    assert_eq!(
        deliver(&mut world, "nonsense".into()),
        Err(Code::InvalidParameterValue)
    );
    let unknown = CallbackId::new(world.execution.id(), 1, &[77; 32]).mint(&world.keys);
    assert_eq!(
        deliver(&mut world, unknown.into()),
        Err(Code::ResourceNotFound)
    );
    let other = crate::arn::ExecutionId::from_bits(1);
    let elsewhere = CallbackId::new(other, 1, &[77; 32]).mint(&world.keys);
    assert_eq!(
        deliver(&mut world, elsewhere.into()),
        Err(Code::ResourceNotFound)
    );
    let no_callback = CallbackId::new(world.execution.id(), 0, &[77; 32]).mint(&world.keys);
    assert_eq!(
        deliver(&mut world, no_callback.into()),
        Err(Code::ResourceNotFound)
    );
    let genuine = world.callback_id("c");
    world.decide(Input::Stop { error: None }).unwrap();
    assert_eq!(deliver(&mut world, genuine), Err(Code::CallbackTimeout));
}

#[test]
fn callback_ids_are_unique_within_and_across_executions() {
    let mut world = running();
    world.checkpoint([start_callback("a", 0, 0), start_callback("b", 0, 0)]);
    assert_ne!(world.callback_id("a"), world.callback_id("b"));
    let parsed = CallbackId::parse(&world.keys, &world.callback_id("b")).unwrap();
    assert_eq!(parsed.execution, world.execution.id());
}

#[test]
fn a_callback_may_be_answered_while_its_invocation_runs() {
    let mut world = running();
    world.checkpoint([start_callback("c", 0, 0)]);
    world.answer_callback("c", "1").unwrap();
    let response = world.checkpoint([]);
    assert_eq!(ids(&response.new_execution_state.operations), ["c"]);
}

#[test]
fn answers_keep_their_sizes() {
    let most = crate::limits::PAYLOAD_BYTES_MAX;
    for (bytes, accepted) in [(most - 1, true), (most, true), (most + 1, false)] {
        let mut world = waiting(0, 0);
        assert_eq!(
            world.answer_callback("c", &"x".repeat(bytes)).is_ok(),
            accepted
        );
        let mut world = running();
        let arrival = Arrival::Signal {
            name: "s".into(),
            payload: Some("x".repeat(bytes).into()),
        };
        assert_eq!(world.deliver(arrival).is_ok(), accepted);
        let mut world = waiting(0, 0);
        let callback_id = world.callback_id("c");
        let error = ErrorObject {
            error_data: Some("x".repeat(bytes)),
            ..ErrorObject::default()
        };
        let arrival = Arrival::CallbackFailed { callback_id, error };
        assert_eq!(world.deliver(arrival).is_ok(), accepted);
    }
}

#[test]
fn a_signal_before_its_wait_is_consumed_at_once() {
    let mut world = running();
    assert_eq!(world.signal("go", "1"), Receipt::Buffered);
    assert_eq!(world.signal("go", "2"), Receipt::Buffered);
    assert_eq!(world.signal("other", "x"), Receipt::Buffered);
    let response = world.checkpoint([wait_signal("a", "go", 0)]);
    let [wait] = &response.new_execution_state.operations[..] else {
        panic!("one operation");
    };
    assert_eq!(wait.status, OperationStatus::Succeeded);
    assert_eq!(wait.result().map(|text| &**text), Some("1"));
    world.checkpoint([wait_signal("b", "go", 0), wait_signal("c", "go", 0)]);
    assert_eq!(world.operation("b").result().map(|text| &**text), Some("2"));
    assert_eq!(world.status("c"), OperationStatus::Started);
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 CallbackStarted go
      3 +0.000 CallbackSucceeded go result=1
      4 +0.000 CallbackStarted go
      5 +0.000 CallbackSucceeded go result=2
      6 +0.000 CallbackStarted go
    "#);
}

#[test]
fn a_wait_before_its_signal_is_completed_and_wakes() {
    let mut world = running();
    world.checkpoint([wait_signal("a", "go", 0)]);
    world.suspend();
    assert_eq!(world.signal("go", "1"), Receipt::Taken("a".into()));
    assert!(world.execution.wants_invocation(world.now));
    let input = world.invoke();
    assert_eq!(input.updated_operation_ids, vec!["a".into()]);
    // Replays see the recorded payload; the signal is not delivered again.
    world.checkpoint([wait_signal("b", "go", 0)]);
    assert_eq!(world.status("b"), OperationStatus::Started);
}

#[test]
fn several_waits_consume_in_operation_order() {
    let mut world = running();
    world.checkpoint([wait_signal("z", "go", 0), wait_signal("a", "go", 0)]);
    assert_eq!(world.signal("go", "1"), Receipt::Taken("z".into()));
    assert_eq!(world.signal("go", "2"), Receipt::Taken("a".into()));
    assert_eq!(world.signal("go", "3"), Receipt::Buffered);
}

#[test]
fn a_signal_after_the_timeout_stays_for_the_next_wait() {
    let mut world = running();
    world.checkpoint([wait_signal("a", "go", 10)]);
    world.suspend();
    world.advance(10_000);
    assert_eq!(world.signal("go", "late"), Receipt::Buffered);
    assert_eq!(world.status("a"), OperationStatus::TimedOut);
    world.invoke();
    world.checkpoint([wait_signal("b", "go", 10)]);
    assert_eq!(
        world.operation("b").result().map(|text| &**text),
        Some("late")
    );
}

#[test]
fn a_wait_whose_context_has_ended_takes_no_signal() {
    let mut world = running();
    world.checkpoint([
        start_context("c"),
        inside("c", wait_signal("orphan", "go", 0)),
        wait_signal("live", "go", 0),
    ]);
    world.checkpoint([succeed_context("c", false)]);
    assert_eq!(world.signal("go", "1"), Receipt::Taken("live".into()));
    assert_eq!(world.signal("go", "2"), Receipt::Buffered);
    assert_eq!(world.status("orphan"), OperationStatus::Started);
}

#[test]
fn a_signal_without_payload_is_a_signal() {
    let mut world = running();
    let arrival = Arrival::Signal {
        name: "go".into(),
        payload: None,
    };
    assert_eq!(world.deliver(arrival), Ok(Receipt::Buffered));
    world.checkpoint([wait_signal("a", "go", 0)]);
    assert_eq!(world.status("a"), OperationStatus::Succeeded);
    assert_eq!(world.operation("a").result(), None);
}

#[test]
fn an_ordinary_callback_is_deaf_to_signals_of_its_name() {
    let mut world = running();
    world.checkpoint([named("go", start_callback("c", 0, 0))]);
    assert_eq!(world.signal("go", "1"), Receipt::Buffered);
    assert_eq!(world.status("c"), OperationStatus::Started);
}

#[test]
fn buffered_signals_are_limited() {
    let mut world = World::with(|quotas| quotas.signals_buffered_max = 2);
    world.invoke();
    world.checkpoint([wait_signal("a", "go", 0)]);
    world.signal("x", "1");
    world.signal("y", "1");
    let refused = world.deliver(Arrival::Signal {
        name: "z".into(),
        payload: None,
    });
    assert_eq!(refused.unwrap_err().code, Code::TooManyRequests);
    assert_eq!(
        world.signal("go", "1"),
        Receipt::Taken("a".into()),
        "nothing is buffered"
    );
    world.checkpoint([wait_signal("b", "x", 0)]);
    world.signal("z", "1");
}

#[test]
fn a_closed_execution_takes_no_signals() {
    let mut world = running();
    world.succeed("1");
    let refused = world.deliver(Arrival::Signal {
        name: "go".into(),
        payload: None,
    });
    assert_eq!(refused.unwrap_err().code, Code::Conflict);
    let mut world = running();
    let refused = world.deliver(Arrival::Signal {
        name: "\n".into(),
        payload: None,
    });
    assert_eq!(refused.unwrap_err().code, Code::InvalidParameterValue);
}

fn invoked(world: &mut World, outcome: InvokeOutcome) -> Result<Receipt, Rejection> {
    world.deliver(Arrival::Invoked {
        operation: "i".into(),
        outcome,
    })
}

#[test]
fn every_outcome_of_a_target_maps_to_the_waiting_operation() {
    let error = || ErrorObject::new("E", "m");
    let too_large = "x".repeat(crate::limits::PAYLOAD_BYTES_MAX + 1);
    for (outcome, status, event) in [
        (
            InvokeOutcome::Succeeded(Some("1".into())),
            OperationStatus::Succeeded,
            "Succeeded",
        ),
        (
            InvokeOutcome::Succeeded(None),
            OperationStatus::Succeeded,
            "Succeeded",
        ),
        (
            InvokeOutcome::Succeeded(Some(too_large.into())),
            OperationStatus::Failed,
            "Failed",
        ),
        (
            InvokeOutcome::Failed(error()),
            OperationStatus::Failed,
            "Failed",
        ),
        (
            InvokeOutcome::timed_out(60),
            OperationStatus::TimedOut,
            "TimedOut",
        ),
        (
            InvokeOutcome::Stopped(error()),
            OperationStatus::Stopped,
            "Stopped",
        ),
    ] {
        let mut world = running();
        world.checkpoint([start_invoke("i", "plain")]);
        world.suspend();
        let failed = !matches!(status, OperationStatus::Succeeded);
        assert_eq!(invoked(&mut world, outcome), Ok(Receipt::Taken("i".into())));
        assert_eq!(world.status("i"), status);
        assert_eq!(world.operation("i").error().is_some(), failed);
        assert!(world.execution.wants_invocation(world.now));
        assert!(
            world
                .event_types()
                .ends_with(&format!("ChainedInvoke{event}"))
        );
        assert!(
            !world
                .execution
                .is_outstanding(&IntentKey::Invoke("i".into()))
        );
        assert_eq!(
            invoked(&mut world, InvokeOutcome::Succeeded(None)),
            Ok(Receipt::Dropped)
        );
        assert_eq!(world.status("i"), status, "the first outcome stays");
    }
}

#[test]
fn the_outcome_of_a_child_reaches_its_parent() {
    type End = fn(&mut World);
    let ends: [(End, OperationStatus); 4] = [
        (|child| child.succeed("\"r\""), OperationStatus::Succeeded),
        (
            |child| child.answer("{\"Status\":\"FAILED\"}"),
            OperationStatus::Failed,
        ),
        (
            |child| child.advance(60_000).tick(),
            OperationStatus::TimedOut,
        ),
        (
            |child| drop(child.decide(Input::Stop { error: None })),
            OperationStatus::Stopped,
        ),
    ];
    for (end, status) in ends {
        let mut parent = running();
        parent.checkpoint([start_invoke("i", "durable:1")]);
        let Some(Intent::StartChild(start)) = parent.intents.pop() else {
            panic!("a child");
        };
        let mut child = World::starting(*start, Quotas::unlimited());
        child.invoke();
        end(&mut child);
        let Some(Intent::NotifyParent(notice)) = child.intents.pop() else {
            panic!("a notice");
        };
        assert_eq!(notice.parent.execution, parent.execution.profile().arn);
        assert_eq!(
            child
                .execution
                .intents(&crate::record::nothing)
                .unwrap()
                .len(),
            1
        );
        invoked(&mut parent, notice.outcome).unwrap();
        assert_eq!(parent.status("i"), status);
        if status == OperationStatus::TimedOut {
            let error = parent.operation("i").error().cloned().unwrap();
            assert_eq!(
                error.error_type.as_deref(),
                Some(error_type::CHAINED_INVOKE_TIMEOUT)
            );
            assert!(error.error_message.unwrap().contains("60"));
        }
        child
            .decide(Input::Acknowledge(vec![IntentKey::Parent]))
            .unwrap();
        assert!(
            child
                .execution
                .intents(&crate::record::nothing)
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn an_outcome_for_a_closed_parent_is_dropped_and_not_asked_for_again() {
    let mut world = running();
    world.checkpoint([start_invoke("i", "plain")]);
    world.decide(Input::Stop { error: None }).unwrap();
    assert!(
        world
            .execution
            .is_outstanding(&IntentKey::Invoke("i".into()))
    );
    assert_eq!(
        invoked(&mut world, InvokeOutcome::Succeeded(None)),
        Ok(Receipt::Dropped)
    );
    assert!(
        !world
            .execution
            .is_outstanding(&IntentKey::Invoke("i".into()))
    );
    assert_eq!(
        world.status("i"),
        OperationStatus::Started,
        "open operations keep their status"
    );
}

#[test]
fn an_outcome_for_no_invoke_is_refused() {
    let mut world = running();
    assert_eq!(
        invoked(&mut world, InvokeOutcome::Succeeded(None))
            .unwrap_err()
            .code,
        Code::ResourceNotFound
    );
    world.checkpoint([start_step("i")]);
    assert!(invoked(&mut world, InvokeOutcome::Succeeded(None)).is_err());
}

#[test]
fn children_started_by_the_batch_that_closes_are_started_all_the_same() {
    let mut world = running();
    let close = update(OperationType::Execution, OperationAction::Succeed, "e");
    world.checkpoint([start_invoke("i", "durable:1"), close]);
    assert!(matches!(&world.intents[..], [Intent::StartChild(_)]));
}

#[test]
fn deliveries_and_timers_interleave_by_time() {
    let mut world = running();
    world.checkpoint([
        start_callback("a", 10, 0),
        start_callback("b", 10, 0),
        start_wait("w", 5),
    ]);
    world.suspend();
    let answer = |world: &World, id: &str, ms: u64| Delivery {
        at: at(ms),
        arrival: Arrival::CallbackSucceeded {
            callback_id: world.callback_id(id),
            result: None,
        },
    };
    let deliveries = vec![answer(&world, "a", 7_000), answer(&world, "b", 12_000)];
    world.advance(20_000);
    let Ok(crate::Reply::Delivered(receipts)) = world.decide(Input::Deliver(deliveries)) else {
        panic!("receipts");
    };
    assert!(receipts[0].is_ok() && receipts[1].is_err());
    insta::assert_snapshot!(world.event_types(), @"CallbackStarted CallbackStarted WaitStarted InvocationCompleted WaitSucceeded CallbackSucceeded CallbackTimedOut");
}

#[test]
fn a_clock_that_runs_back_is_not_believed() {
    let mut world = waiting(10, 0);
    world.advance(5_000).tick();
    world.answer_callback("c", "1").unwrap();
    world.now = at(1_000);
    world.invoke();
    world.complete(Outcome::exited("x"));
    let times: Vec<Timestamp> = world.records.iter().map(|record| record.at).collect();
    assert!(times.is_sorted());
}
