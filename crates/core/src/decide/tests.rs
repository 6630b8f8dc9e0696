//! Stop, timeout, retention, damaged journals, and executions of great size.

use super::*;
use crate::{record, world::*};
use alloc::string::String;

fn running() -> World {
    let mut world = World::new();
    world.invoke();
    world
}

#[test]
fn stopping_closes_at_once_and_leaves_operations_as_they_are() {
    let mut world = running();
    world.checkpoint([start_wait("w", 5), start_step("s")]);
    world.advance(1_000);
    let error = ErrorObject::new("Operator", "enough");
    let reply = world.decide(Input::Stop {
        error: Some(error.clone()),
    });
    assert_eq!(reply, Ok(Reply::Stopped { at: at(1_000) }));
    assert_eq!(world.execution.status(), ExecutionStatus::Stopped);
    assert_eq!(world.execution.error(), Some(&error));
    assert_eq!(world.status("w"), OperationStatus::Started);
    assert_eq!(world.execution.next_wake(), None);
    world.advance(60_000).tick();
    assert_eq!(
        world.status("w"),
        OperationStatus::Started,
        "timers are dropped"
    );
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    let again = world.decide(Input::Stop { error: None });
    assert_eq!(again, Ok(Reply::Stopped { at: at(1_000) }));
    insta::assert_snapshot!(world.event_types(), @"WaitStarted StepStarted ExecutionStopped");
}

#[test]
fn stopping_without_a_word_leaves_an_empty_error() {
    let mut world = World::new();
    world.decide(Input::Stop { error: None }).unwrap();
    assert_eq!(world.execution.error(), Some(&ErrorObject::default()));
}

#[test]
fn an_execution_times_out_while_suspended_retrying_or_running() {
    let situations: [fn(&mut World); 4] = [
        |_| (),
        |world| drop(world.invoke()),
        |world| {
            world.invoke();
            world.checkpoint([start_callback("c", 0, 0)]);
            world.suspend();
        },
        |world| {
            world.invoke();
            world.crash();
        },
    ];
    for situation in situations {
        let mut world = World::new();
        situation(&mut world);
        world.now = at(100_000_000 - 1);
        world.tick();
        assert_eq!(world.execution.status(), ExecutionStatus::Running);
        assert!(world.execution.next_wake().unwrap() <= at(100_000_000));
        world.advance(1);
        assert!(!world.execution.wants_invocation(world.now));
        world.tick();
        assert_eq!(world.execution.status(), ExecutionStatus::TimedOut);
        let error = world.execution.error().unwrap();
        assert_eq!(error.error_type, None);
        assert!(
            error
                .error_message
                .as_ref()
                .unwrap()
                .contains("100000 seconds")
        );
    }
}

#[test]
fn a_timeout_found_late_is_recorded_late() {
    let mut world = World::new();
    world.now = at(500_000_000);
    world.tick();
    assert_eq!(world.execution.ended(), Some(at(500_000_000)));
}

#[test]
fn a_wait_that_ends_with_the_execution_does_not_end() {
    let mut world = running();
    world.checkpoint([start_wait("w", 100_000)]);
    world.suspend();
    world.now = at(100_000_000);
    world.tick();
    assert_eq!(world.status("w"), OperationStatus::Started);
    assert_eq!(world.execution.status(), ExecutionStatus::TimedOut);
}

#[test]
fn retention_begins_with_the_end() {
    let mut world = running();
    assert_eq!(world.execution.retention_due(), None);
    world.succeed("1");
    assert_eq!(world.execution.retention_due(), Some(at(14 * 86_400_000)));
    let mut begin = start();
    begin.config.retention_period_in_days = Some(90);
    let mut world = World::starting(begin, Quotas::unlimited());
    world.invoke();
    world.advance(5).succeed("1");
    assert_eq!(
        world.execution.retention_due(),
        Some(at(5 + 90 * 86_400_000))
    );
}

#[test]
fn hold_resume_and_fail_ask_for_the_right_state() {
    let reason = || ErrorObject::new("Operator", "m");
    let conflict = |reply: Result<Reply, Rejection>| {
        assert_eq!(reply.unwrap_err().code, Code::Conflict);
    };
    let mut world = running();
    conflict(world.decide(Input::Resume));
    conflict(world.decide(Input::FailHeld));
    world.decide(Input::Hold { reason: reason() }).unwrap();
    world.decide(Input::Resume).unwrap();
    world.decide(Input::Hold { reason: reason() }).unwrap();
    world.now = at(100_000_000);
    conflict(world.decide(Input::Resume));
    world.tick();
    conflict(world.decide(Input::Hold { reason: reason() }));
}

#[test]
fn records_survive_their_serial_form() {
    let mut world = running();
    world.checkpoint([
        start_step("s"),
        retry_step("s", 1),
        start_callback("c", 5, 1),
        start_invoke("i", "durable:1"),
        wait_signal("g", "go", 5),
    ]);
    world.signal("go", "1");
    world.signal("go", "2");
    world.crash();
    world.advance(2_000).tick();
    world.decide(Input::Stop { error: None }).unwrap();
    let text = serde_json::to_string(&world.records).unwrap();
    let back: Vec<Record> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, world.records);
    assert_eq!(Execution::from_records(&back).unwrap(), world.execution);
}

#[test]
fn a_damaged_journal_is_reported_and_never_panics() {
    let mut world = running();
    world.checkpoint([start_step("s"), start_wait("w", 1), start_context("c")]);
    world.checkpoint([succeed_step("s", "1")]);
    world.advance(1_000).succeed("1");
    let sound = world.records.clone();
    assert!(Execution::from_records(&[]).is_err());
    for at in 0..sound.len() {
        let mut missing = sound.clone();
        missing.remove(at);
        if at + 1 < sound.len() {
            let corrupt = Execution::from_records(&missing).unwrap_err();
            assert!(corrupt.record <= at as u64 + 1);
        }
        let mut doubled = sound.clone();
        doubled.insert(at, sound[at].clone());
        assert!(Execution::from_records(&doubled).is_err(), "{at} twice");
        for other in 0..sound.len() {
            let mut replaced = sound.clone();
            replaced[at].change = sound[other].change.clone();
            if let Ok(folded) = Execution::from_records(&replaced) {
                assert!(folded.check_invariants().is_ok());
            }
        }
        let mut earlier = sound.clone();
        earlier[at].at = Timestamp::from_millis(1);
        assert_eq!(Execution::from_records(&earlier).is_err(), at > 0);
    }
}

#[test]
fn every_prefix_of_a_journal_is_an_execution() {
    let mut world = running();
    world.checkpoint([start_step("s"), retry_step("s", 1), start_wait("w", 1)]);
    world.suspend();
    world.advance(1_000);
    world.invoke();
    world.checkpoint([succeed_step("s", "1")]);
    world.succeed("1");
    for length in 1..=world.records.len() {
        let folded = Execution::from_records(&world.records[..length]).unwrap();
        assert_eq!(folded.records(), length as u64);
    }
}

/// Ten thousand waits in one execution, fired one by one: linear work, or this test takes minutes.
#[test]
fn ten_thousand_waits_stay_linear() {
    let mut world = running();
    world.checked = false;
    for batch in 0..10 {
        let waits =
            (0..1_000u32).map(|n| start_wait(&format!("{batch}-{n}"), 1 + batch * 1_000 + n));
        world.checkpoint(waits.collect::<Vec<_>>());
    }
    assert_eq!(world.execution.next_wake(), Some(at(1_000)));
    world.suspend();
    world.now = at(10_000_000);
    world.tick();
    assert_eq!(
        world.execution.next_wake(),
        Some(world.execution.deadline())
    );
    let input = world.invoke();
    assert_eq!(input.updated_operation_ids.len(), 10_000);
    world.check();
}

#[test]
fn a_hundred_thousand_operations_stay_linear() {
    let mut execution = World::new().execution;
    let world = World::new();
    let mut records = world.records.clone();
    let mut token = String::new();
    let mut run = |input: Input| {
        let decision = world.env(|env| execution.decide(env, input)).unwrap();
        records.extend(decision.records);
        if let Reply::Invoke(input) = decision.reply {
            token = input.checkpoint_token;
        } else if let Reply::Checkpoint(response) = decision.reply {
            token = response.checkpoint_token.unwrap();
        }
        token.clone()
    };
    let mut token = run(Input::Invoke {
        invocation_id: "i".into(),
    });
    for number in 0..5_000 {
        let steps = (0..10).flat_map(|step| {
            let id = format!("{number}-{step}");
            [
                start_step(&id),
                succeed_step(&id, "1"),
                start_wait(&format!("w{id}"), 5),
            ]
        });
        token = run(Input::Checkpoint(CheckpointRequest {
            checkpoint_token: token,
            updates: steps.collect(),
            client_token: Some(format!("{number}")),
        }));
    }
    assert_eq!(execution.operation_count(), 100_001);
    assert_eq!(Execution::from_records(&records).unwrap(), execution);
    execution.check_invariants().unwrap();
    let page = execution.history(&records, crate::history::Query::default(), &record::nothing);
    assert_eq!(page.unwrap().events.len(), 100);
}
