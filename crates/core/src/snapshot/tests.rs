//! A snapshot and the records after it make the same execution as all records.

use super::*;
use crate::{
    decide::{Env, Input},
    id::Position,
    properties::{any_journal, config},
    record::{Change, OperationChange, ParentLink, Record, Starting, Subject},
    token::unhex,
    wire::{CheckpointRequest, ErrorObject, OperationStatus, sub_type},
    world::*,
};
use alloc::vec;
use proptest::prelude::*;

/// A journal and a snapshot of it as format 1 wrote them.
const FORMAT_1: &str = include_str!("format_1.txt");

fn taken(execution: &Execution) -> Vec<u8> {
    let mut bytes = Vec::new();
    execution.snapshot(&mut bytes);
    bytes
}

fn released(execution: &Execution) -> Execution {
    let mut execution = execution.clone();
    execution.release_payloads();
    execution
}

/// Takes a snapshot after every record and folds the rest into what it restores.
fn check(journal: &[Record]) {
    let whole = released(&Execution::from_records(journal).unwrap());
    let mut execution = Execution::from_records(&journal[..1]).unwrap();
    for (index, record) in journal.iter().enumerate() {
        if index > 0 {
            execution.apply(record).unwrap();
        }
        let mut restored = Execution::from_snapshot(&taken(&execution)).unwrap();
        assert_eq!(restored, released(&execution), "after record {index}");
        for record in &journal[index + 1..] {
            restored.apply(record).unwrap();
        }
        assert_eq!(released(&restored), whole, "from record {index} on");
    }
}

/// A child of another execution with a bit of everything: nested and named operations, a step to
/// retry, waits, callbacks, invokes not yet started, buffered signals, a slot, a hold.
fn full_world() -> World {
    let start = crate::Start {
        parent: Some(ParentLink {
            execution: crate::arn::ExecutionArn::new(
                function("parent"),
                "run".into(),
                crate::arn::ExecutionId::from_bits(7),
            ),
            operation: Position::root().child(1).id(),
        }),
        name: None,
        ..start()
    };
    let mut world = World::starting(start, crate::Quotas::unlimited());
    let digest = Position::root().child(2).id();
    world.invoke();
    world.advance(5).checkpoint([
        named("block", start_context("block")),
        inside("block", named("charge", start_step("inner"))),
        start_step(digest.as_str()),
        retry_step("again", 30),
        poll_step("poll", "\"state\"", 40),
        start_wait("wait", 60),
        start_callback("reply", 100, 10),
        wait_signal("signal", "go", 0),
        start_invoke("child", "durable:1"),
        start_invoke("plain", "plain"),
        start_invoke("missing", "missing"),
    ]);
    world.advance(7);
    world.crash();
    world.signal("other", "1");
    world.signal("other", "2");
    world.advance(2_000).invoke();
    let request = CheckpointRequest {
        checkpoint_token: world.token.clone().unwrap(),
        updates: vec![succeed_step("inner", "\"paid\""), fail_step("f", "no")],
        client_token: Some("client".into()),
    };
    world.send(request).unwrap();
    world.answer_callback("reply", "\"yes\"").unwrap();
    world.crash();
    let reason = ErrorObject::new("Operator", "wait");
    world.decide(Input::Hold { reason }).unwrap();
    world
}

#[test]
fn a_full_execution_is_restored_at_every_record() {
    let mut world = full_world();
    assert!(world.execution.hold.is_some() && world.execution.gate.slot.is_some());
    world.decide(Input::Resume).unwrap();
    world.advance(200_000_000).tick();
    assert!(world.execution.notify_parent);
    check(&world.records);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_life_is_restored_at_every_record(journal in any_journal()) {
        check(&journal);
    }
}

#[test]
fn a_restored_execution_acts_as_the_one_it_was_taken_of() {
    let mut world = full_world();
    let load = |number: u64| world.records.get(usize::try_from(number).ok()?).cloned();
    let restored = Execution::from_snapshot(&taken(&world.execution)).unwrap();
    assert!(restored.intents(&crate::record::nothing).is_err());
    let intents = world.execution.intents(&crate::record::nothing).unwrap();
    assert_eq!(intents.len(), 2);
    assert_eq!(restored.intents(&load).unwrap(), intents);
    assert_eq!(
        restored.operations(&load).unwrap(),
        world.execution.operations(&load).unwrap()
    );

    world.decide(Input::Resume).unwrap();
    world.advance(100_000);
    let invoke = Input::Invoke {
        invocation_id: "last".into(),
    };
    let mut restored = Execution::from_snapshot(&taken(&world.execution)).unwrap();
    let load = |number: u64| world.records.get(usize::try_from(number).ok()?).cloned();
    let mut original = world.execution.clone();
    let (first, second) = world.env(|env| {
        let env = Env {
            load: &load,
            ..*env
        };
        (
            original.decide(&env, invoke.clone()),
            restored.decide(&env, invoke),
        )
    });
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(released(&original), released(&restored));
}

#[test]
fn a_snapshot_holds_no_payload() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([succeed_step("s", "\"a large result\"")]);
    world.signal("go", "\"a large signal\"");
    let bytes = taken(&world.execution);
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("order") && !holds("a large") && !holds("{\"n\":1}"));
    assert_eq!(taken(&released(&world.execution)), bytes);
}

#[test]
fn snapshots_of_format_1_are_read_and_written_as_ever() {
    let mut lines: Vec<Vec<u8>> = FORMAT_1.lines().map(|line| unhex(line).unwrap()).collect();
    let snapshot = lines.pop().unwrap();
    let journal: Vec<Record> = lines
        .iter()
        .map(|bytes| Record::decode(bytes).unwrap())
        .collect();
    let execution = Execution::from_records(&journal).unwrap();
    assert_eq!(taken(&execution), snapshot);
    let restored = Execution::from_snapshot(&snapshot).unwrap();
    assert_eq!(restored, released(&execution));
    assert!(restored.hold.is_some() && restored.gate.slot.is_some());
}

#[test]
fn no_flipped_bit_of_a_snapshot_does_harm() {
    let bytes = taken(&full_world().execution);
    for length in 0..bytes.len() {
        assert!(Execution::from_snapshot(&bytes[..length]).is_err());
    }
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        for bit in 0..8 {
            damaged[index] = bytes[index] ^ 1 << bit;
            if let Ok(execution) = Execution::from_snapshot(&damaged) {
                let again = Execution::from_snapshot(&taken(&execution));
                assert_eq!(again, Ok(execution));
            }
        }
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(Execution::from_snapshot(&longer).is_err());
}

#[test]
fn a_newer_snapshot_is_refused_with_the_remedy() {
    let mut bytes = taken(&World::new().execution);
    bytes[0] = SNAPSHOT_FORMAT + 1;
    let newer = Undecodable::Newer {
        at: 0,
        what: "snapshot format",
        tag: 2,
    };
    assert_eq!(Execution::from_snapshot(&bytes), Err(newer));
}

/// A small execution whose operations are these.
fn with_operations(change: impl FnOnce(&mut Vec<Operation>)) -> (Execution, usize) {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([start_context("a"), inside("a", start_context("b"))]);
    let mut list = world.execution.operations.list().to_vec();
    change(&mut list);
    let count = list.len();
    world.execution.operations = Operations::restore(list, true).unwrap();
    (world.execution, count)
}

fn reason(execution: &Execution) -> Result<(), &'static str> {
    match Execution::from_snapshot(&taken(execution)) {
        Ok(restored) => {
            assert_eq!(restored, released(execution));
            Ok(())
        }
        Err(Undecodable::Damaged { reason, .. }) => Err(reason),
        Err(newer) => panic!("{newer}"),
    }
}

#[test]
fn a_parent_comes_before_its_children() {
    for (parent, expected) in [
        (1, Ok(())),
        (2, Err("unknown parent")),
        (3, Err("unknown parent")),
    ] {
        let (execution, _) = with_operations(|list| list[2].parent = Some(parent));
        assert_eq!(reason(&execution), expected, "{parent}");
    }
}

#[test]
fn an_operation_is_there_once() {
    let (execution, _) = with_operations(|_| ());
    let mut list = execution.operations.list().to_vec();
    list.push(list[1].clone());
    assert_eq!(
        Operations::restore(list, true),
        Err("an operation is there twice")
    );
}

#[test]
fn what_is_unseen_is_there_and_holds_what_is_updated() {
    let (mut execution, count) = with_operations(|_| ());
    let count = u32::try_from(count).unwrap();
    let damaged = Err("what is unseen is not there");
    let mut mark = |unseen: &[u32], updated: &[u32]| {
        let set = |numbers: &[u32]| numbers.iter().copied().collect();
        execution
            .operations
            .restore_unseen(set(unseen), set(updated))?;
        reason(&execution)
    };
    assert_eq!(mark(&[0, count - 1], &[count - 1]), Ok(()));
    assert_eq!(mark(&[count], &[]), damaged);
    assert_eq!(mark(&[count + 1], &[]), damaged);
    assert_eq!(mark(&[1], &[2]), damaged);
}

#[test]
fn an_id_that_is_not_ours_is_refused() {
    let mut execution = World::new().execution;
    let mut profile = (*execution.profile).clone();
    profile.arn.id = "not-a-uuid".into();
    execution.profile = Arc::new(profile);
    assert_eq!(
        reason(&execution),
        Err("the execution id is not a UUID of ours")
    );
}

#[test]
fn as_many_operations_as_fit_are_made_room_for() {
    let (execution, _) = with_operations(|_| ());
    let mut smallest = execution.operations.list()[1].clone();
    smallest.identity.id = "".into();
    let mut bytes = Vec::new();
    write_operation(&smallest, smallest.started, &mut bytes);
    assert_eq!(bytes.len(), OPERATION_BYTES_MIN);
}

/// A journal of many finished steps, as our SDK numbers them.
fn steps(count: u32) -> Vec<Record> {
    let mut journal = World::new().records;
    let mut events = 1;
    for number in 0..count {
        let identity = Identity {
            id: Position::root().child(u64::from(number) + 1).id(),
            operation_type: OperationType::Step,
            parent: None,
            name: Some("charge".into()),
            sub_type: Some(sub_type::STEP.into()),
        };
        let begin = OperationChange::Started(Starting::Step);
        let end = OperationChange::Closed {
            status: OperationStatus::Succeeded,
            result: Some("{\"charged\":true}".into()),
            error: None,
            attempt: 1,
            replay_children: false,
        };
        for (subject, change) in [
            (Subject::New(identity), begin),
            (Subject::Known(number + 1), end),
        ] {
            events += 1;
            journal.push(Record {
                number: events - 1,
                events,
                at: at(events * 10),
                change: Change::Operation { subject, change },
            });
        }
    }
    journal
}

#[test]
fn a_finished_step_takes_few_bytes() {
    const COUNT: u32 = 100_000;
    let mut execution = Execution::from_records(&steps(COUNT)).unwrap();
    execution.operations.mark_seen();
    let bytes = taken(&execution);
    let each = bytes.len() as u64 / u64::from(COUNT);
    let named = 32 + "charge".len() as u64;
    assert!(each - named <= 24, "{each}");
    assert_eq!(
        Execution::from_snapshot(&bytes).unwrap(),
        released(&execution)
    );
}
