//! Which operations a handler gets, on which page.

use super::*;
use crate::{
    decide::{Input, Reply},
    error::Code,
    record::nothing,
    wire::{CheckpointRequest, OperationType, OperationUpdate},
    world::*,
};
use alloc::{string::ToString as _, vec};

fn pages(world: &World, max_items: Option<u32>) -> Vec<Vec<String>> {
    let token = world.token.clone().unwrap();
    let mut pages = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let page = world
            .env(|env| {
                world
                    .execution
                    .state_page(env, &token, marker.as_deref(), max_items)
            })
            .unwrap();
        let ids = page.operations.iter();
        pages.push(ids.map(|operation| operation.id.to_string()).collect());
        marker = page.next_marker;
        if marker.is_none() {
            return pages;
        }
    }
}

fn steps(count: usize, payload: &str) -> Vec<OperationUpdate> {
    (0..count)
        .map(|number| succeed_step(&format!("s{number}"), payload))
        .collect()
}

#[test]
fn pages_hold_what_was_asked_for_and_begin_with_the_execution() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint(steps(9, "1"));
    for (max_items, sizes) in [
        (Some(1), &[1; 10][..]),
        (Some(4), &[4, 4, 2]),
        (Some(9), &[9, 1]),
        (Some(10), &[10]),
        (Some(11), &[10]),
        (None, &[10]),
        (Some(0), &[10]),
    ] {
        let pages = pages(&world, max_items);
        let found: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(found, sizes, "{max_items:?}");
        assert_eq!(pages[0][0], *world.execution.profile().arn.id);
    }
}

#[test]
fn the_number_of_items_is_limited() {
    assert_eq!(page_items(None).unwrap(), 100);
    assert_eq!(page_items(Some(0)).unwrap(), 100);
    assert_eq!(page_items(Some(1)).unwrap(), 1);
    assert_eq!(page_items(Some(999)).unwrap(), 999);
    assert_eq!(page_items(Some(1_000)).unwrap(), 1_000);
    assert_eq!(page_items(Some(1_001)).unwrap_err().code, Code::Validation);
}

#[test]
fn pages_keep_their_bytes_but_hold_one_operation_at_least() {
    let mut world = World::with(|quotas| quotas.page_bytes_max = 2_000);
    world.invoke();
    world.checkpoint(steps(4, &"x".repeat(1_000)));
    world.complete(crate::Outcome::Lost);
    let input = world.invoke();
    assert_eq!(input.initial_execution_state.operations.len(), 2);
    assert!(input.initial_execution_state.next_marker.is_some());
    let sizes: Vec<usize> = pages(&world, None).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1, 1, 1]);
    world.quotas.page_bytes_max = 1;
    let sizes: Vec<usize> = pages(&world, None).iter().map(Vec::len).collect();
    assert_eq!(sizes, [1; 5]);
}

#[test]
fn the_first_page_in_the_input_continues_through_the_api() {
    let mut world = World::with(|quotas| quotas.page_bytes_max = 2_000);
    world.invoke();
    world.checkpoint(steps(6, "1"));
    world.complete(crate::Outcome::Lost);
    let input = world.invoke();
    let first = input.initial_execution_state;
    let marker = first.next_marker.unwrap();
    let token = input.checkpoint_token;
    let rest = world
        .env(|env| world.execution.state_page(env, &token, Some(&marker), None))
        .unwrap();
    let all = ids(&first.operations).len() + ids(&rest.operations).len();
    assert_eq!((all, rest.next_marker), (7, None));
}

#[test]
fn reading_changes_nothing_and_needs_the_current_token() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([start_wait("w", 5)]);
    let old = world.token.clone().unwrap();
    pages(&world, None);
    world.advance(5_000);
    let response = world.checkpoint([]);
    assert_eq!(ids(&response.new_execution_state.operations), ["w"]);
    let refused = world.env(|env| world.execution.state_page(env, &old, None, None));
    assert!(refused.unwrap_err().is_stale_token());
}

#[test]
fn markers_hold_until_the_next_checkpoint() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint(steps(3, "1"));
    let read = |world: &World, marker: &str| {
        let token = world.token.clone().unwrap();
        world.env(|env| {
            world
                .execution
                .state_page(env, &token, Some(marker), Some(1))
        })
    };
    let marker = read(&world, "").unwrap().next_marker.unwrap();
    assert!(read(&world, &marker).is_ok());
    world.checkpoint([]);
    for marker in [
        marker.as_str(),
        "zz",
        "00",
        &"0".repeat(24),
        &"f".repeat(24),
    ] {
        assert_eq!(
            read(&world, marker).unwrap_err().code,
            Code::InvalidParameterValue,
            "{marker}"
        );
    }
}

#[test]
fn children_of_closed_contexts_are_left_out_transitively() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([
        start_context("a"),
        inside("a", start_step("a1")),
        inside("a", start_context("ab")),
        inside("ab", start_step("ab1")),
        start_context("r"),
        inside("r", start_step("r1")),
        inside("r", start_context("rb")),
        inside("rb", start_step("rb1")),
        start_context("o"),
        inside("o", start_step("o1")),
    ]);
    world.checkpoint([
        succeed_context("a", false),
        succeed_context("r", true),
        succeed_context("rb", false),
    ]);
    let root = world.execution.profile().arn.id.to_string();
    let visible = pages(&world, None).concat();
    assert_eq!(visible, [&root, "a", "r", "r1", "rb", "o", "o1"]);
    world.complete(crate::Outcome::Lost);
    let input = world.invoke();
    assert_eq!(ids(&input.initial_execution_state.operations), visible);
    assert_eq!(
        world
            .execution
            .operations(&crate::record::nothing)
            .unwrap()
            .len(),
        11
    );
    // Still known to later checkpoints.
    assert!(world.try_checkpoint([start_step("ab1")]).is_err());
    world.checkpoint([succeed_step("ab1", "1")]);
    world.quotas.hide_closed_children = false;
    assert_eq!(pages(&world, None).concat().len(), 11);
}

#[test]
fn a_failed_context_hides_its_children_too() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([start_context("a"), inside("a", start_step("a1"))]);
    world.checkpoint([update(
        OperationType::Context,
        crate::wire::OperationAction::Fail,
        "a",
    )]);
    assert_eq!(pages(&world, None).concat().len(), 2);
}

#[test]
fn payloads_dropped_from_memory_are_read_from_their_records() {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([succeed_step("s", "\"result\""), fail_step("f", "error")]);
    let token = world.token.clone().unwrap();
    let page = world
        .env(|env| world.execution.state_page(env, &token, None, None))
        .unwrap();
    let mut execution = world.execution.clone();
    execution.release_payloads();
    assert_eq!(execution.input(), None);
    let unreadable = world.env(|env| execution.state_page(env, &token, None, None));
    assert_eq!(unreadable.unwrap_err().code, Code::Service);
    let load = |number: u64| {
        let index = usize::try_from(number).ok()?;
        world.records.get(index).cloned()
    };
    let read = world.env(|env| {
        let env = Env {
            load: &load,
            ..*env
        };
        execution.state_page(&env, &token, None, None)
    });
    assert_eq!(read.unwrap(), page);
}

#[test]
fn repeated_answers_and_intents_are_read_from_their_records_too() {
    let mut world = World::new();
    world.invoke();
    world.signal("go", "\"payload\"");
    let request = CheckpointRequest {
        checkpoint_token: world.token.clone().unwrap(),
        updates: vec![
            succeed_step("s", "\"result\""),
            start_invoke("i", "plain"),
            wait_signal("w", "go", 0),
        ],
        client_token: Some("client".into()),
    };
    let answer = world.send(request.clone()).unwrap();
    let intents = world.execution.intents(&nothing).unwrap();
    world.signal("later", "1");
    world.execution.release_payloads();
    assert!(world.execution.intents(&nothing).is_err());
    let load = |number: u64| world.records.get(usize::try_from(number).ok()?).cloned();
    assert_eq!(world.execution.intents(&load).unwrap(), intents);
    let mut execution = world.execution.clone();
    let again = world.env(|env| {
        let env = Env {
            load: &load,
            ..*env
        };
        execution.decide(&env, Input::Checkpoint(request))
    });
    assert_eq!(again.unwrap().reply, Reply::Checkpoint(answer));
}
