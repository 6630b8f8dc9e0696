//! Events: their order, their JSON, their pages; the protocol's worked examples.

use super::*;
use crate::{
    decide::Input,
    delivery::Arrival,
    id::OperationId,
    intent::InvokeOutcome,
    record::nothing,
    transcript,
    wire::{OperationAction, OperationUpdate},
    world::*,
};
use alloc::{format, vec};
use serde_json::json;

#[test]
fn a_step_with_one_retry_reads_as_in_the_protocol() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([named("charge", start_step("s"))]);
    world.checkpoint([retry_step("s", 2)]);
    world.suspend();
    world.advance(2_000);
    let input = world.invoke();
    assert_eq!(input.updated_operation_ids, vec!["s".into()]);
    world.checkpoint([start_step("s")]);
    world.checkpoint([succeed_step("s", "42")]);
    world.succeed("42");
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 StepStarted charge
      3 +0.000 StepFailed charge attempt=1 next=2s error=Boom: again
      4 +0.000 InvocationCompleted
      5 +2.000 StepStarted charge
      6 +2.000 StepSucceeded charge attempt=2 result=42
      7 +2.000 InvocationCompleted
      8 +2.000 ExecutionSucceeded run result=42
    "#);
}

#[test]
fn a_callback_during_a_wait_reads_as_in_the_protocol() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([named("ask", start_callback("c", 0, 0))]);
    world.checkpoint([named("nap", start_wait("w", 10))]);
    world.suspend();
    world.advance(3_000);
    world.answer_callback("c", "\"yes\"").unwrap();
    world.invoke();
    world.suspend();
    world.advance(7_000);
    world.invoke();
    world.succeed("\"yes\"");
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 CallbackStarted ask
      3 +0.000 WaitStarted nap 10s
      4 +0.000 InvocationCompleted
      5 +3.000 CallbackSucceeded ask result="yes"
      6 +3.000 InvocationCompleted
      7 +10.000 WaitSucceeded nap 10s
      8 +10.000 InvocationCompleted
      9 +10.000 ExecutionSucceeded run result="yes"
    "#);
}

#[test]
fn a_crash_inside_an_at_most_once_step_reads_as_in_the_protocol() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([named("pay", start_step("s"))]);
    world.crash();
    world.now = world.execution.next_wake().unwrap();
    world.invoke();
    world.checkpoint([fail_step("s", "interrupted")]);
    world.answer("{\"Status\":\"FAILED\",\"Error\":{\"ErrorType\":\"Boom\"}}");
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 StepStarted pay
      3 +0.000 InvocationCompleted error=Runtime.ExitError: exit status 1
      4 +1.000 StepFailed pay attempt=1 error=Boom: interrupted
      5 +1.000 InvocationCompleted error=Boom
      6 +1.000 ExecutionFailed run error=Boom
    "#);
}

#[test]
fn a_step_closed_after_a_crash_has_no_second_start() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([start_step("s")]);
    world.crash();
    world.now = world.execution.next_wake().unwrap();
    world.invoke();
    world.checkpoint([succeed_step("s", "1")]);
    insta::assert_snapshot!(world.event_types(), @"StepStarted InvocationCompleted StepSucceeded");
}

#[test]
fn polls_of_a_condition_are_successes_with_a_next_delay() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([named("poll", start_step("s")), poll_step("s", "1", 5)]);
    world.suspend();
    world.advance(5_000);
    world.invoke();
    world.checkpoint([start_step("s"), succeed_step("s", "2")]);
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 StepStarted poll
      3 +0.000 StepSucceeded poll attempt=1 next=5s result=1
      4 +0.000 InvocationCompleted
      5 +5.000 StepStarted poll
      6 +5.000 StepSucceeded poll attempt=2 result=2
    "#);
}

/// An execution that has seen every kind of operation.
fn busy() -> World {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([
        OperationUpdate {
            sub_type: Some("RunInChildContext".into()),
            ..named("child", start_context("c"))
        },
        named("inner", inside("c", succeed_step("s", "1"))),
        succeed_context("c", false),
    ]);
    world.checkpoint([
        start_wait("w", 3),
        start_wait("x", 3),
        start_callback("cb", 60, 20),
        start_invoke("i", "durable:1"),
        start_invoke("p", "plain"),
        start_invoke("m", "missing"),
        retry_step("r", 30),
    ]);
    world.checkpoint([update(OperationType::Wait, OperationAction::Cancel, "x")]);
    world.suspend();
    world.advance(3_250).tick();
    let outcome = InvokeOutcome::Succeeded(Some("\"ok\"".into()));
    let operation: OperationId = "i".into();
    world
        .deliver(Arrival::Invoked { operation, outcome })
        .unwrap();
    world.advance(17_000).tick();
    world
        .decide(Input::Stop {
            error: Some(ErrorObject::new("Stopped", "enough")),
        })
        .unwrap();
    world
}

#[test]
fn every_kind_of_event_has_its_line() {
    insta::assert_snapshot!(busy().history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 ContextStarted child
      3 +0.000 StepSucceeded inner attempt=1 result=1
      4 +0.000 ContextSucceeded child result="done"
      5 +0.000 WaitStarted #w 3s
      6 +0.000 WaitStarted #x 3s
      7 +0.000 CallbackStarted #cb timeout=60s heartbeat=20s
      8 +0.000 ChainedInvokeStarted #i durable:1 input={"x":1}
      9 +0.000 ChainedInvokeStarted #p plain input={"x":1}
     10 +0.000 ChainedInvokeStarted #m missing
     11 +0.000 ChainedInvokeFailed #m error=ResourceNotFoundException: function not found: missing
     12 +0.000 StepFailed #r attempt=1 next=30s error=Boom: again
     13 +0.000 WaitCancelled #x
     14 +0.000 InvocationCompleted
     15 +3.250 WaitSucceeded #w 3s
     16 +3.250 ChainedInvokeSucceeded #i result="ok"
     17 +20.250 CallbackTimedOut #cb error=Callback.Heartbeat: Callback timed out on heartbeat
     18 +20.250 ExecutionStopped run error=Stopped: enough
    "#);
}

#[test]
fn events_have_the_services_json() {
    let world = busy();
    let events = world.events();
    let json = |number: usize| serde_json::to_value(&events[number - 1]).unwrap();
    let id = &*world.execution.profile().arn.id;
    assert_eq!(
        json(1),
        json!({
            "EventType": "ExecutionStarted", "EventId": 1, "EventTimestamp": 1_767_225_600.0,
            "Id": id, "Name": "run",
            "ExecutionStartedDetails": {
                "Input": {"Payload": "{\"n\":1}", "Truncated": false}, "ExecutionTimeout": 100_000
            }
        })
    );
    assert_eq!(
        json(2),
        json!({
            "EventType": "ContextStarted", "EventId": 2, "EventTimestamp": 1_767_225_600.0,
            "Id": "c", "Name": "child", "SubType": "RunInChildContext",
            "ContextStartedDetails": {}
        })
    );
    assert_eq!(
        json(3),
        json!({
            "EventType": "StepSucceeded", "EventId": 3, "EventTimestamp": 1_767_225_600.0,
            "Id": "s", "Name": "inner", "ParentId": "c",
            "StepSucceededDetails": {
                "Result": {"Payload": "1", "Truncated": false},
                "RetryDetails": {"CurrentAttempt": 1}
            }
        })
    );
    assert_eq!(
        json(5)["WaitStartedDetails"],
        json!({"Duration": 3, "ScheduledEndTimestamp": 1_767_225_603.0})
    );
    assert_eq!(
        json(7)["CallbackStartedDetails"],
        json!({"CallbackId": &*world.callback_id("cb"), "Timeout": 60, "HeartbeatTimeout": 20})
    );
    assert_eq!(
        json(10)["ChainedInvokeStartedDetails"],
        json!({"FunctionName": "missing"})
    );
    assert_eq!(
        json(12)["StepFailedDetails"],
        json!({
            "Error": {"Payload": {"ErrorType": "Boom", "ErrorMessage": "again"}, "Truncated": false},
            "RetryDetails": {"CurrentAttempt": 1, "NextAttemptDelaySeconds": 30}
        })
    );
    assert_eq!(json(13)["WaitCancelledDetails"], json!({}));
    assert_eq!(
        json(14),
        json!({
            "EventType": "InvocationCompleted", "EventId": 14, "EventTimestamp": 1_767_225_600.0,
            "InvocationCompletedDetails": {
                "StartTimestamp": 1_767_225_600.0, "EndTimestamp": 1_767_225_600.0,
                "RequestId": "invocation-1"
            }
        })
    );
    assert_eq!(json(15)["EventTimestamp"], 1_767_225_603.25);
}

#[test]
fn events_read_back_from_their_json() {
    for event in busy().events() {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            serde_json::from_str::<Event>(&text).unwrap(),
            event,
            "{text}"
        );
    }
}

#[test]
fn without_data_payloads_are_cut_and_everything_else_stays() {
    let world = busy();
    let query = Query {
        omit_data: true,
        ..Query::default()
    };
    let page = world
        .execution
        .history(&world.records, query, &nothing)
        .unwrap();
    let text = serde_json::to_string(&page).unwrap();
    assert!(!text.contains("Payload") && !text.contains("\"Truncated\":false"));
    assert!(text.contains("CallbackId") && text.contains("RetryDetails"));
    assert!(text.contains("\"Duration\":3") && text.contains("durable:1"));
    assert_eq!(page.events.len(), world.events().len());
}

fn walk(world: &World, max_items: u32, reverse_order: bool) -> Vec<u64> {
    let mut found = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let query = Query {
            marker: marker.as_deref(),
            max_items: Some(max_items),
            reverse_order,
            omit_data: false,
        };
        let page = world
            .execution
            .history(&world.records, query, &nothing)
            .unwrap();
        assert!(page.events.len() <= max_items as usize);
        found.extend(page.events.iter().map(|event| event.event_id));
        marker = page.next_marker;
        if marker.is_none() {
            return found;
        }
    }
}

#[test]
fn pages_go_both_ways_without_gaps() {
    let world = busy();
    let forward: Vec<u64> = (1..=18).collect();
    let backward: Vec<u64> = (1..=18).rev().collect();
    for max_items in [1, 2, 5, 17, 18, 19] {
        assert_eq!(walk(&world, max_items, false), forward, "{max_items}");
        assert_eq!(walk(&world, max_items, true), backward, "{max_items}");
    }
}

#[test]
fn a_marker_stays_valid_while_events_are_appended_but_keeps_its_direction() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([start_step("a"), start_step("b")]);
    let page = |world: &World, marker: Option<&str>, reverse_order: bool| {
        let query = Query {
            marker,
            max_items: Some(2),
            reverse_order,
            omit_data: false,
        };
        world.execution.history(&world.records, query, &nothing)
    };
    let marker = page(&world, None, false).unwrap().next_marker.unwrap();
    world.checkpoint([start_step("c")]);
    let next = page(&world, Some(&marker), false).unwrap();
    let numbers: Vec<u64> = next.events.iter().map(|event| event.event_id).collect();
    assert_eq!((numbers, next.next_marker), (vec![3, 4], None));
    assert!(page(&world, Some(&marker), true).is_err());
    assert!(page(&world, Some("x"), false).is_err());
    assert_eq!(page(&world, Some(""), false).unwrap().events.len(), 2);
}

#[test]
fn an_empty_page_beyond_the_end_is_not_an_error() {
    let world = busy();
    let beyond = marker(19, false);
    let query = Query {
        marker: Some(&beyond),
        ..Query::default()
    };
    let page = world
        .execution
        .history(&world.records, query, &nothing)
        .unwrap();
    assert_eq!(page, Page::default());
}

#[test]
fn pages_keep_their_bytes() {
    let mut world = World::new();
    world.checked = false;
    world.invoke();
    for number in 0..12 {
        world.checkpoint([succeed_step(&format!("s{number}"), &"x".repeat(1_000_000))]);
    }
    let page = world
        .execution
        .history(&world.records, Query::default(), &nothing)
        .unwrap();
    assert_eq!(page.events.len(), 6);
    assert_eq!(walk(&world, 100, false).len(), 13);
}

#[test]
fn a_page_can_be_cut_from_a_part_of_the_journal() {
    let world = busy();
    let whole = world.events();
    let from = world.records.len() / 2;
    let first = world.records[from].events + 1;
    let start = marker(first, false);
    let query = Query {
        marker: Some(&start),
        ..Query::default()
    };
    let part = world
        .execution
        .history(&world.records[from..], query, &nothing)
        .unwrap();
    let expected = &whole[usize::try_from(first).unwrap() - 1..];
    assert_eq!(transcript::text(&part.events), transcript::text(expected));
}

#[test]
fn a_consumed_signal_shows_its_payload_even_when_dropped_from_memory() {
    let mut world = World::new();
    world.invoke();
    world.signal("go", "\"payload\"");
    world.checkpoint([wait_signal("a", "go", 0)]);
    let whole = world.events();
    world.execution.release_payloads();
    let load = |number: u64| world.records.get(usize::try_from(number).ok()?).cloned();
    let read = world
        .execution
        .history(&world.records, Query::default(), &load)
        .unwrap();
    assert_eq!(read.events, whole);
    assert!(
        world
            .execution
            .history(&world.records, Query::default(), &nothing)
            .is_err()
    );
}

#[test]
fn descriptions_have_the_services_json() {
    let mut begin = start();
    begin.trace = Some("Root=1".into());
    let mut world = World::starting(begin, crate::Quotas::unlimited());
    let arn = world.execution.arn().clone();
    let describe = |world: &World, data: bool| {
        serde_json::to_value(world.execution.describe(data, &nothing).unwrap()).unwrap()
    };
    assert_eq!(
        describe(&world, true),
        json!({
            "DurableExecutionArn": &*arn, "DurableExecutionName": "run",
            "FunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:order:1",
            "Version": "1", "Status": "RUNNING", "StartTimestamp": 1_767_225_600.0,
            "InputPayload": "{\"n\":1}", "DurableConfig": {"ExecutionTimeout": 100_000},
            "TraceHeader": {"XAmznTraceId": "Root=1"}, "ExecutionDataIncluded": true
        })
    );
    world.invoke();
    world.advance(1_500).succeed("7");
    let described = describe(&world, true);
    assert_eq!(described["Result"], "7");
    assert_eq!(described["EndTimestamp"], 1_767_225_601.5);
    let described = describe(&world, false);
    assert!(described.get("Result").is_none() && described.get("InputPayload").is_none());
    assert_eq!(described["ExecutionDataIncluded"], false);
    let summary = serde_json::to_value(world.execution.summary()).unwrap();
    assert_eq!(summary["Status"], "SUCCEEDED");
}
