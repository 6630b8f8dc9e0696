//! What accepted checkpoints do: tokens, replays, deltas, each action's effect, quotas.

use crate::{
    decide::Input,
    intent::Intent,
    invocation::Outcome,
    limits::Quotas,
    record::IntentKey,
    wire::{
        CheckpointRequest, ErrorObject, ExecutionStatus, OperationAction as Action,
        OperationStatus, OperationStatus as Status, OperationType as Type, OperationUpdate,
        error_type,
    },
    world::*,
};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};

fn running() -> World {
    let mut world = World::new();
    world.invoke();
    world
}

fn request(world: &World, client_token: Option<&str>) -> CheckpointRequest {
    CheckpointRequest {
        checkpoint_token: world.token.clone().unwrap(),
        updates: Vec::new(),
        client_token: client_token.map(String::from),
    }
}

#[test]
fn each_checkpoint_uses_up_its_token_even_an_empty_one() {
    let mut world = running();
    let first = world.token.clone().unwrap();
    world.checkpoint([]);
    assert_ne!(world.token, Some(first.clone()));
    assert_eq!(world.execution.sequence(), 1);
    world.token = Some(first);
    let refused = world.try_checkpoint([]).unwrap_err();
    assert!(refused.is_stale_token(), "{refused}");
    assert!(refused.message.starts_with("Invalid checkpoint token"));
}

#[test]
fn a_token_dies_with_its_invocation() {
    let mut world = running();
    world.checkpoint([start_wait("w", 5)]);
    let old = world.token.clone();
    world.suspend();
    world.token = old.clone();
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    world.advance(5_000);
    world.invoke();
    let new = core::mem::replace(&mut world.token, old);
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    world.token = new;
    world.checkpoint([]);
}

#[test]
fn a_token_of_another_execution_is_stale() {
    let mut start = start();
    start.parent = Some(crate::record::ParentLink {
        execution: World::new().execution.profile().arn.clone(),
        operation: "i".into(),
    });
    let mut other = World::starting(start, Quotas::unlimited());
    other.invoke();
    let mut world = running();
    world.token = other.token;
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    world.token = Some("nonsense".into());
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
}

#[test]
fn a_token_dies_with_the_execution_even_before_the_timeout_is_recorded() {
    let mut world = running();
    world.now = at(100_000_000 - 1);
    world.checkpoint([]);
    world.now = at(100_000_000);
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    assert_eq!(world.execution.status(), ExecutionStatus::Running);
    world.tick();
    assert_eq!(world.execution.status(), ExecutionStatus::TimedOut);
}

#[test]
fn an_http_retry_gets_the_same_answer_and_changes_nothing() {
    let mut world = running();
    let mut first = request(&world, Some("retry-1"));
    first.updates = vec![start_step("a"), start_callback("b", 60, 0)];
    let answer = world.send(first.clone()).unwrap();
    world.advance(1_000);
    world.answer_callback("b", "1").unwrap();
    let records = world.records.len();
    assert_eq!(world.send(first.clone()).unwrap(), answer);
    assert_eq!(world.records.len(), records);
    // The slot is part of the fold: it answers after a restart, too.
    world.execution = crate::Execution::from_records(&world.records).unwrap();
    assert_eq!(world.send(first).unwrap(), answer);
    let next = world.checkpoint([]);
    assert_eq!(ids(&next.new_execution_state.operations), ["b"]);
}

#[test]
fn a_retry_is_recognised_by_both_tokens_only() {
    let mut world = running();
    let first = request(&world, Some("one"));
    world.send(first.clone()).unwrap();
    for client_token in [Some("two"), None] {
        let other = CheckpointRequest {
            client_token: client_token.map(String::from),
            ..first.clone()
        };
        assert!(world.send(other).unwrap_err().is_stale_token());
    }
    let second = request(&world, Some("one"));
    world.send(second).unwrap();
    assert!(
        world.send(first).unwrap_err().is_stale_token(),
        "one slot only"
    );
}

#[test]
fn a_retry_is_answered_until_the_next_invocation_starts() {
    let mut world = running();
    let mut first = request(&world, Some("one"));
    first.updates = vec![start_wait("w", 1)];
    let answer = world.send(first.clone()).unwrap();
    world.complete(Outcome::Lost);
    assert_eq!(world.send(first.clone()).unwrap(), answer);
    assert!(world.try_checkpoint([]).unwrap_err().is_stale_token());
    world.advance(1_000);
    world.invoke();
    assert!(world.send(first).unwrap_err().is_stale_token());
}

#[test]
fn a_retry_is_lost_when_the_execution_closes() {
    let mut world = running();
    let first = request(&world, Some("one"));
    world.send(first.clone()).unwrap();
    world.decide(Input::Stop { error: None }).unwrap();
    assert!(world.send(first).unwrap_err().is_stale_token());
    let mut world = running();
    let mut last = request(&world, Some("one"));
    last.updates = vec![update(Type::Execution, Action::Succeed, "e")];
    world.send(last.clone()).unwrap();
    assert!(world.send(last).unwrap_err().is_stale_token());
}

#[test]
fn a_retry_keeps_its_answer_when_keys_rotate() {
    let mut world = running();
    let first = request(&world, Some("one"));
    let answer = world.send(first.clone()).unwrap();
    world.keys = world
        .keys
        .clone()
        .rotated(crate::token::Key::new(2, [1; 32]));
    assert_eq!(world.send(first).unwrap(), answer);
    world.checkpoint([]);
}

#[test]
fn client_tokens_keep_their_length_and_alphabet() {
    for (token, legal) in [
        (String::new(), false),
        ("x".into(), true),
        ("x".repeat(63), true),
        ("x".repeat(64), true),
        ("x".repeat(65), false),
        ("a b".into(), false),
    ] {
        let mut world = running();
        let request = request(&world, Some(&token));
        assert_eq!(world.send(request).is_ok(), legal, "{token:?}");
    }
}

#[test]
fn an_answer_holds_this_batch_and_everything_else_unseen() {
    let mut world = running();
    let response = world.checkpoint([start_wait("w", 5), start_callback("c", 0, 0)]);
    assert_eq!(ids(&response.new_execution_state.operations), ["w", "c"]);
    assert_eq!(response.new_execution_state.next_marker, None);
    assert!(
        world
            .checkpoint([])
            .new_execution_state
            .operations
            .is_empty()
    );
    world.answer_callback("c", "\"yes\"").unwrap();
    world.advance(5_000);
    let response = world.checkpoint([start_step("s")]);
    assert_eq!(
        ids(&response.new_execution_state.operations),
        ["w", "c", "s"]
    );
    let statuses: Vec<Status> = response
        .new_execution_state
        .operations
        .iter()
        .map(|operation| operation.status)
        .collect();
    assert_eq!(
        statuses,
        [Status::Succeeded, Status::Succeeded, Status::Started]
    );
}

#[test]
fn a_step_counts_finished_attempts_and_keeps_its_first_start() {
    let mut world = running();
    world.checkpoint([start_step("s")]);
    let details = |world: &World| world.operation("s").step_details.unwrap();
    assert_eq!(details(&world).attempt, 0);
    world.advance(10).checkpoint([retry_step("s", 2)]);
    let step = world.operation("s");
    assert_eq!(step.status, Status::Pending);
    assert_eq!(details(&world).attempt, 1);
    assert_eq!(details(&world).next_attempt_timestamp, Some(at(2_010)));
    assert!(details(&world).error.is_some());
    world.advance(2_000).checkpoint([]);
    assert_eq!(world.status("s"), Status::Ready);
    assert_eq!(details(&world).next_attempt_timestamp, None);
    world.checkpoint([start_step("s")]);
    assert!(
        details(&world).error.is_some(),
        "kept while the next attempt runs"
    );
    world.advance(5).checkpoint([succeed_step("s", "7")]);
    let step = world.operation("s");
    assert_eq!(step.start_timestamp, at(0));
    assert_eq!(step.end_timestamp, Some(at(2_015)));
    assert_eq!(details(&world).attempt, 2);
    assert_eq!(details(&world).result.as_deref(), Some("7"));
    assert_eq!(details(&world).error, None);
}

#[test]
fn the_state_of_a_polled_condition_stays_readable_until_it_is_replaced() {
    let mut world = running();
    world.checkpoint([start_step("s"), poll_step("s", "1", 1)]);
    let state = |world: &World| world.operation("s").step_details.unwrap().result;
    assert_eq!(state(&world).as_deref(), Some("1"));
    world.advance(1_000).checkpoint([]);
    assert_eq!(
        (world.status("s"), state(&world).as_deref()),
        (Status::Ready, Some("1"))
    );
    world.checkpoint([start_step("s")]);
    assert_eq!(
        (world.status("s"), state(&world).as_deref()),
        (Status::Started, Some("1"))
    );
    world.checkpoint([poll_step("s", "2", 1)]);
    assert_eq!(state(&world).as_deref(), Some("2"));
}

#[test]
fn a_retry_with_an_error_keeps_the_polled_state_and_one_with_a_state_clears_the_error() {
    let mut world = running();
    world.checkpoint([start_step("s"), poll_step("s", "1", 0)]);
    world.checkpoint([retry_step("s", 0)]);
    let details = world.operation("s").step_details.unwrap();
    assert_eq!(details.result.as_deref(), Some("1"));
    assert!(details.error.is_some());
    world.checkpoint([poll_step("s", "2", 0)]);
    let details = world.operation("s").step_details.unwrap();
    assert_eq!(
        (details.result.as_deref(), details.error),
        (Some("2"), None)
    );
}

#[test]
fn a_step_may_end_without_having_started() {
    let mut world = running();
    world.checkpoint([
        succeed_step("a", "1"),
        fail_step("b", "no"),
        retry_step("c", 1),
    ]);
    for id in ["a", "b", "c"] {
        assert_eq!(world.operation(id).step_details.unwrap().attempt, 1, "{id}");
    }
    insta::assert_snapshot!(world.event_types(), @"StepSucceeded StepFailed StepFailed");
}

#[test]
fn a_failed_step_has_no_result() {
    let mut world = running();
    world.checkpoint([start_step("s"), poll_step("s", "1", 1)]);
    world.advance(1_000).checkpoint([fail_step("s", "no")]);
    let details = world.operation("s").step_details.unwrap();
    assert_eq!((details.result, details.attempt), (None, 2));
}

#[test]
fn a_wait_ends_at_its_time_or_when_cancelled() {
    let mut world = running();
    world.checkpoint([start_wait("a", 2), start_wait("b", 2)]);
    let details = world.operation("a").wait_details.unwrap();
    assert_eq!(details.scheduled_end_timestamp, Some(at(2_000)));
    world
        .advance(1_999)
        .checkpoint([update(Type::Wait, Action::Cancel, "b")]);
    assert_eq!(world.status("a"), Status::Started);
    assert_eq!(world.status("b"), Status::Cancelled);
    world.advance(1).checkpoint([]);
    assert_eq!(world.status("a"), Status::Succeeded);
    assert_eq!(world.operation("a").end_timestamp, Some(at(2_000)));
    world.complete(Outcome::Lost);
    assert!(world.execution.wants_invocation(world.now));
    insta::assert_snapshot!(world.event_types(), @"WaitStarted WaitStarted WaitCancelled WaitSucceeded");
}

#[test]
fn contexts_keep_whether_their_children_are_needed() {
    let mut world = running();
    world.checkpoint([start_context("a"), succeed_context("a", true)]);
    world.checkpoint([succeed_context("b", false)]);
    let error = ErrorObject::new("E", "m");
    world.checkpoint([
        start_context("c"),
        OperationUpdate {
            error: Some(Arc::new(error.clone())),
            ..update(Type::Context, Action::Fail, "c")
        },
    ]);
    assert!(world.operation("a").replays_children());
    assert!(!world.operation("b").replays_children());
    assert_eq!(
        world.operation("b").result().map(|text| &**text),
        Some("\"done\"")
    );
    assert_eq!(world.operation("c").error(), Some(&error));
}

#[test]
fn an_execution_update_closes_under_any_id() {
    for (action, status) in [
        (Action::Succeed, ExecutionStatus::Succeeded),
        (Action::Fail, ExecutionStatus::Failed),
    ] {
        let mut world = running();
        world.checkpoint([start_step("s")]);
        let mut close = update(Type::Execution, action, "execution-result-17");
        if action == Action::Succeed {
            close.payload = Some("\"big\"".into());
        } else {
            close.error = Some(Arc::new(ErrorObject::new("E", "m")));
        }
        let response = world.checkpoint([succeed_step("s", "1"), close]);
        assert_eq!(response.checkpoint_token, None);
        let root = world.execution.profile().arn.id.clone();
        assert_eq!(ids(&response.new_execution_state.operations), [&*root, "s"]);
        assert_eq!(world.execution.status(), status);
        assert_eq!(world.execution.operation_count(), 2, "no second operation");
        let late = Outcome::Answered(b"{\"Status\":\"SUCCEEDED\",\"Result\":\"\"}".to_vec());
        assert!(!world.complete(late), "the invocation is over");
        assert_eq!(world.execution.status(), status);
        assert_eq!(
            world.event_types(),
            format!(
                "StepStarted StepSucceeded InvocationCompleted Execution{}",
                if action == Action::Fail {
                    "Failed"
                } else {
                    "Succeeded"
                }
            )
        );
    }
}

#[test]
fn the_id_of_an_existing_step_on_an_execution_update_means_the_execution() {
    let mut world = running();
    world.checkpoint([start_step("s")]);
    world.checkpoint([update(Type::Execution, Action::Succeed, "s")]);
    assert_eq!(world.execution.status(), ExecutionStatus::Succeeded);
    assert_eq!(world.status("s"), Status::Started);
}

#[test]
fn a_refused_target_fails_its_invoke_in_the_same_answer() {
    let mut world = running();
    let response = world.checkpoint([named("call", start_invoke("i", "missing"))]);
    let [invoke] = &response.new_execution_state.operations[..] else {
        panic!("one operation");
    };
    assert_eq!(invoke.status, Status::Failed);
    let error = invoke.error().unwrap();
    assert_eq!(
        error.error_type.as_deref(),
        Some(error_type::RESOURCE_NOT_FOUND)
    );
    assert!(world.intents.is_empty());
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 ChainedInvokeStarted call missing
      3 +0.000 ChainedInvokeFailed call error=ResourceNotFoundException: function not found: missing
    "#);
}

#[test]
fn a_durable_target_becomes_exactly_one_child() {
    let mut world = running();
    world.checkpoint([start_invoke("i", "durable:1")]);
    assert_eq!(world.status("i"), Status::Started);
    let [Intent::StartChild(start)] = &world.intents[..] else {
        panic!("{:?}", world.intents);
    };
    let child = World::starting((**start).clone(), Quotas::unlimited());
    let again = World::starting((**start).clone(), Quotas::unlimited());
    assert_eq!(child.execution.arn(), again.execution.arn());
    let parent = child.execution.profile().parent.as_ref().unwrap();
    assert_eq!(parent.execution, world.execution.profile().arn);
    assert_eq!(parent.operation.as_str(), "i");
    assert_eq!(
        child.execution.input().map(|text| &**text),
        Some("{\"x\":1}")
    );
    let json = serde_json::to_value(&world.events()[1]).unwrap();
    let details = &json["ChainedInvokeStartedDetails"];
    assert_eq!(
        details["DurableExecutionArn"],
        child.execution.arn().as_ref()
    );
    assert_eq!(details["ExecutedVersion"], "1");
    let key = world.intents[0].key();
    assert_eq!(key, IntentKey::Invoke("i".into()));
    assert_eq!(
        world.execution.intents(&crate::record::nothing).unwrap(),
        world.intents
    );
    world
        .decide(Input::Acknowledge(vec![key.clone(), key]))
        .unwrap();
    assert!(
        world
            .execution
            .intents(&crate::record::nothing)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_plain_target_is_invoked_with_the_payload_or_an_empty_object() {
    let mut world = running();
    let without = OperationUpdate {
        payload: None,
        ..start_invoke("b", "plain")
    };
    world.checkpoint([start_invoke("a", "plain"), without]);
    let inputs: Vec<&str> = world
        .intents
        .iter()
        .map(|intent| match intent {
            Intent::InvokePlain(invoke) => &*invoke.input,
            Intent::StartChild(_) | Intent::NotifyParent(_) => panic!("{intent:?}"),
        })
        .collect();
    assert_eq!(inputs, ["{\"x\":1}", "{}"]);
}

#[test]
fn invokes_inherit_tenant_and_trace_unless_they_name_their_own() {
    let mut begin = start();
    begin.tenant = Some("parent".into());
    begin.trace = Some("Root=1".into());
    let mut world = World::starting(begin, Quotas::unlimited());
    world.invoke();
    let mut own = start_invoke("b", "plain");
    let options = own.chained_invoke_options.as_mut().unwrap();
    options.tenant_id = Some("own".into());
    options.x_amzn_trace_id = Some("Root=2".into());
    world.checkpoint([start_invoke("a", "plain"), own]);
    let tenants: Vec<(Option<&str>, Option<&str>)> = world
        .intents
        .iter()
        .map(|intent| match intent {
            Intent::InvokePlain(call) => (call.tenant.as_deref(), call.trace.as_deref()),
            Intent::StartChild(_) | Intent::NotifyParent(_) => panic!("{intent:?}"),
        })
        .collect();
    assert_eq!(
        tenants,
        [
            (Some("parent"), Some("Root=1")),
            (Some("own"), Some("Root=2"))
        ]
    );
}

#[test]
fn a_target_that_is_not_for_this_tenant_fails_at_once() {
    let mut begin = start();
    begin.tenant = Some("parent".into());
    let mut world = World::starting(begin, Quotas::unlimited());
    world.invoke();
    let mut named = start_invoke("c", "shared");
    let options = named.chained_invoke_options.as_mut().unwrap();
    options.tenant_id = Some("own".into());
    let response = world.checkpoint([
        start_invoke("a", "shared"),
        start_invoke("b", "per-tenant:1"),
        named,
    ]);
    let operations = &response.new_execution_state.operations;
    let status = |id: &str| {
        let found = operations.iter().find(|it| it.id.as_str() == id);
        found.unwrap().status
    };
    // What is inherited is left out where it would be refused; what is named is not.
    assert_eq!(status("a"), OperationStatus::Started);
    assert_eq!(status("b"), OperationStatus::Started);
    assert_eq!(status("c"), OperationStatus::Failed);
    let tenants: Vec<Option<&str>> = world
        .intents
        .iter()
        .map(|intent| match intent {
            Intent::InvokePlain(call) => call.tenant.as_deref(),
            Intent::StartChild(child) => child.tenant.as_deref(),
            Intent::NotifyParent(_) => panic!("{intent:?}"),
        })
        .collect();
    assert_eq!(tenants, [None, Some("parent")]);
}

#[test]
fn children_of_a_closed_context_are_accepted() {
    let mut world = running();
    world.checkpoint([start_context("c"), succeed_context("c", false)]);
    let response = world.checkpoint([inside("c", start_step("late"))]);
    assert_eq!(ids(&response.new_execution_state.operations), ["late"]);
    world.checkpoint([succeed_step("late", "1")]);
}

/// Whether an execution with these quotas survives `updates`, one checkpoint each.
fn survives(change: impl FnOnce(&mut Quotas), updates: Vec<Vec<OperationUpdate>>) -> bool {
    let mut world = World::with(change);
    world.invoke();
    for batch in updates {
        let response = world.checkpoint(batch);
        if world.execution.status() == ExecutionStatus::Failed {
            assert_eq!(response.checkpoint_token, None);
            let error = world.execution.error().unwrap();
            assert_eq!(
                error.error_type.as_deref(),
                Some(error_type::QUOTA_EXCEEDED)
            );
            return false;
        }
    }
    true
}

#[test]
fn b15_too_many_operations_fail_the_execution() {
    let pair = |id: &str| vec![start_step(id), succeed_step(id, "1")];
    let most = |quotas: &mut Quotas| quotas.operations_max = Some(2);
    assert!(survives(most, vec![pair("a")]));
    assert!(survives(most, vec![pair("a"), pair("b")]));
    assert!(!survives(most, vec![pair("a"), pair("b"), pair("c")]));
    let retried = vec![start_step("a"), retry_step("a", 1)];
    assert!(survives(most, vec![retried.clone()]));
    assert!(!survives(most, vec![retried, pair("b")]), "a retry counts");
    let closed = vec![succeed_step("a", "1"), succeed_step("b", "1")];
    assert!(!survives(most, vec![closed, pair("c")]));
}

#[test]
fn b15_too_many_bytes_fail_the_execution() {
    let input = start().input.unwrap().len() as u64;
    let most = |quotas: &mut Quotas| quotas.data_bytes_max = Some(input + 10);
    assert!(survives(most, vec![vec![succeed_step("a", "123456789")]]));
    assert!(survives(most, vec![vec![succeed_step("a", "1234567890")]]));
    assert!(!survives(
        most,
        vec![vec![succeed_step("a", "12345678901")]]
    ));
    let two = vec![vec![succeed_step("a", "123456")], vec![fail_step("b", "1")]];
    assert!(
        !survives(most, two),
        "errors count, and so does what was written before"
    );
}

#[test]
fn b15_a_batch_that_breaks_a_quota_leaves_nothing_behind() {
    let mut world = World::with(|quotas| quotas.operations_max = Some(0));
    world.invoke();
    let response = world.checkpoint([start_step("a")]);
    let root = world.execution.profile().arn.id.clone();
    assert_eq!(ids(&response.new_execution_state.operations), [&*root]);
    insta::assert_snapshot!(world.event_types(), @"InvocationCompleted ExecutionFailed");
}

#[test]
fn checkpoints_of_a_held_execution_are_still_accepted() {
    let mut world = running();
    let reason = ErrorObject::new("Operator", "maintenance");
    world.decide(Input::Hold { reason }).unwrap();
    world.checkpoint([start_step("a")]);
}
