//! Starting: checks, limits, names.

use super::*;
use crate::{
    limits::Quotas,
    record,
    token::{Key, Keys},
    world,
    world::{World, at, config, function},
};

fn try_start(change: impl FnOnce(&mut Start)) -> Result<Execution, Rejection> {
    let mut start = world::start();
    change(&mut start);
    let keys = Keys::new(Key::new(1, [0; 32]));
    let env = Env {
        now: at(0),
        random: [5; 32],
        keys: &keys,
        limits: &Quotas::unlimited(),
        resolve: &world::resolve,
        load: &record::nothing,
    };
    Execution::start(&env, start).map(|(execution, records)| {
        assert_eq!(Execution::from_records(&records).unwrap(), execution);
        execution
    })
}

fn code(change: impl FnOnce(&mut Start)) -> Option<Code> {
    try_start(change).err().map(|refused| refused.code)
}

#[test]
fn a_nameless_execution_gets_a_name_and_an_id() {
    let execution = try_start(|start| start.name = None).unwrap();
    assert_eq!(execution.name().len(), 36);
    assert_ne!(execution.name(), &*execution.profile().arn.id);
    let named = try_start(|_| ()).unwrap();
    assert_eq!(named.name(), "run");
    assert_eq!(execution.deadline(), at(100_000_000));
}

#[test]
fn an_absent_input_is_an_empty_object() {
    let execution = try_start(|start| start.input = None).unwrap();
    assert_eq!(execution.input().map(|text| &**text), Some("{}"));
}

#[test]
fn an_input_must_be_json_unless_a_handler_sends_it() {
    for (text, legal) in [
        ("null", true),
        ("1", true),
        ("\"a\"", true),
        ("", false),
        ("{", false),
        ("{} {}", false),
    ] {
        let refused = code(|start| start.input = Some(text.into()));
        assert_eq!(refused.is_none(), legal, "{text}");
        if !legal {
            assert_eq!(refused, Some(Code::InvalidRequestContent));
        }
    }
    let parent = World::new().execution.profile().arn.clone();
    let child = |start: &mut Start| {
        start.input = Some("not json".into());
        start.parent = Some(ParentLink {
            execution: parent,
            operation: "i".into(),
        });
    };
    assert_eq!(code(child), None);
}

#[test]
fn an_input_keeps_its_size() {
    for (synchronous, most) in [(false, 1_048_576), (true, 6_291_456)] {
        for (bytes, legal) in [(most - 1, true), (most, true), (most + 1, false)] {
            let refused = code(|start| {
                start.synchronous = synchronous;
                start.config = config(900);
                start.input = Some(format!("\"{}\"", "x".repeat(bytes - 2)).into());
            });
            let expected = (!legal).then_some(Code::RequestTooLarge);
            assert_eq!(refused, expected, "{bytes}");
        }
    }
}

#[test]
fn a_caller_waits_for_fifteen_minutes_at_most() {
    for (seconds, synchronous, legal) in [
        (899, true, true),
        (900, true, true),
        (901, true, false),
        (901, false, true),
    ] {
        let refused = code(|start| {
            start.synchronous = synchronous;
            start.config = config(seconds);
        });
        assert_eq!(refused.is_none(), legal, "{seconds}");
    }
}

#[test]
fn settings_keep_their_ranges() {
    for (seconds, legal) in [
        (0, false),
        (1, true),
        (31_622_399, true),
        (31_622_400, true),
        (31_622_401, false),
    ] {
        assert_eq!(
            code(|start| start.config = config(seconds)).is_none(),
            legal,
            "{seconds}"
        );
    }
    for (days, legal) in [(0, false), (1, true), (89, true), (90, true), (91, false)] {
        let refused = code(|start| start.config.retention_period_in_days = Some(days));
        assert_eq!(refused.is_none(), legal, "{days}");
    }
}

#[test]
fn names_tenants_and_traces_are_checked() {
    assert!(code(|start| start.name = Some("a b".into())).is_some());
    assert!(code(|start| start.name = Some("x".repeat(65).into())).is_some());
    assert!(code(|start| start.tenant = Some(String::new())).is_some());
    assert!(code(|start| start.trace = Some("x".repeat(8_192))).is_none());
    assert!(code(|start| start.trace = Some("x".repeat(8_193))).is_some());
}

#[test]
fn a_client_context_travels_with_synchronous_starts_only() {
    for synchronous in [false, true] {
        let execution = try_start(|start| {
            start.synchronous = synchronous;
            start.config = config(60);
            start.client_context = Some("{}".into());
        })
        .unwrap();
        assert_eq!(execution.profile().client_context.is_some(), synchronous);
    }
}

#[test]
fn a_name_belongs_to_the_first_start_with_the_same_input_and_version() {
    let mut world = World::new();
    let same: Payload = "{\"n\":1}".into();
    let other: Payload = "{\"n\": 1}".into();
    let new_version = Function {
        version: "2".into(),
        ..function("order")
    };
    for closed in [false, true] {
        if closed {
            world.invoke();
            world.succeed("1");
        }
        let owner = world.execution.reservation();
        let arn = world.execution.profile().arn.clone();
        assert_eq!(reuse(None, &function("order"), Some(&same)), Ok(Reuse::New));
        assert_eq!(
            reuse(Some(&owner), &function("order"), Some(&same)),
            Ok(Reuse::Existing(arn))
        );
        for (function, input) in [
            (function("order"), Some(&other)),
            (function("order"), None),
            (new_version.clone(), Some(&same)),
        ] {
            let refused = reuse(Some(&owner), &function, input).unwrap_err();
            assert_eq!(refused.code, Code::DurableExecutionAlreadyStarted);
            assert_eq!(refused.code.http_status(), 409);
        }
    }
}

#[test]
fn an_absent_input_equals_an_empty_object_when_a_name_is_reused() {
    let owner = try_start(|start| start.input = None).unwrap().reservation();
    let explicit: Payload = "{}".into();
    assert!(reuse(Some(&owner), &function("order"), Some(&explicit)).is_ok());
    assert!(reuse(Some(&owner), &function("order"), None).is_ok());
}
