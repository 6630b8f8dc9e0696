//! The rules of a batch, one test each, limits at the edge.

use crate::{
    error::Code,
    id::OperationId,
    limits::{CALLBACK_TIMEOUT_SECONDS_MAX, DELAY_SECONDS_MAX, PAYLOAD_BYTES_MAX, Quotas},
    wire::{
        ChainedInvokeOptions, ErrorObject, OperationAction as Action, OperationType as Type,
        OperationUpdate, StepOptions, WaitOptions,
    },
    world::*,
};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};

/// A running handler that has started a context `c`, a step `s` and a wait `w`.
fn world() -> World {
    let mut world = World::new();
    world.invoke();
    world.checkpoint([
        named("ctx", start_context("c")),
        named("one", inside("c", start_step("s"))),
        start_wait("w", 10),
    ]);
    world
}

fn refusal(updates: Vec<OperationUpdate>) -> Option<String> {
    let mut world = world();
    let before = world.token.clone();
    let refused = world.try_checkpoint(updates).err()?;
    assert_eq!(refused.code, Code::InvalidParameterValue);
    assert!(!refused.is_stale_token(), "{refused}");
    assert_eq!(
        world.token, before,
        "a refused batch does not use up the token"
    );
    world.checkpoint([]);
    Some(refused.message)
}

#[track_caller]
fn refused(updates: impl Into<Vec<OperationUpdate>>, reason: &str) {
    let message = refusal(updates.into()).expect("refused");
    assert!(
        message.contains(reason),
        "{message:?} does not say {reason:?}"
    );
}

#[track_caller]
fn accepted(updates: impl Into<Vec<OperationUpdate>>) {
    assert_eq!(refusal(updates.into()), None);
}

fn execution(action: Action) -> OperationUpdate {
    update(Type::Execution, action, "execution-result-1")
}

#[test]
fn b1_only_one_execution_update() {
    let twice = [execution(Action::Succeed), execution(Action::Succeed)];
    refused(twice, "multiple execution updates");
}

#[test]
fn b2_an_execution_update_comes_last() {
    refused([execution(Action::Succeed), start_step("n")], "last");
    accepted([start_step("n"), execution(Action::Succeed)]);
}

#[test]
fn b3_an_operation_may_come_twice_only_as_start_and_end() {
    accepted([start_step("n"), succeed_step("n", "1")]);
    accepted([start_step("n"), fail_step("n", "no")]);
    accepted([start_step("n"), retry_step("n", 1)]);
    accepted([start_context("n"), succeed_context("n", false)]);
    let twice = "updated twice";
    refused([start_step("n"), start_step("n")], twice);
    refused([succeed_step("n", "1"), succeed_step("n", "1")], twice);
    refused([succeed_step("n", "1"), start_step("n")], twice);
    let thrice = [start_step("n"), retry_step("n", 1), succeed_step("n", "1")];
    refused(thrice, twice);
    let cancel = update(Type::Wait, Action::Cancel, "n");
    refused([start_wait("n", 1), cancel], twice);
}

#[test]
fn b4_a_parent_is_a_context_that_exists_or_started_earlier_in_the_batch() {
    accepted([inside("c", start_step("n"))]);
    accepted([start_context("d"), inside("d", start_step("n"))]);
    accepted([succeed_context("d", false), inside("d", start_step("n"))]);
    refused(
        [inside("d", start_step("n")), start_context("d")],
        "invalid parent",
    );
    refused([inside("s", start_step("n"))], "invalid parent");
    refused([inside("n", start_context("n"))], "invalid parent");
    let root = world().execution.profile().arn.id.clone();
    refused([inside(&root, start_step("n"))], "invalid parent");
}

#[test]
fn b5_an_operation_keeps_its_type_label_name_and_parent() {
    refused(
        [update(Type::Context, Action::Succeed, "s")],
        "inconsistent type",
    );
    let labelled = OperationUpdate {
        sub_type: Some("Step".into()),
        ..succeed_step("s", "1")
    };
    refused([labelled], "inconsistent subtype");
    refused([named("two", succeed_step("s", "1"))], "inconsistent name");
    accepted([named("one", succeed_step("s", "1"))]);
    accepted([inside("c", succeed_step("s", "1"))]);
    refused(
        [start_context("d"), inside("d", succeed_step("s", "1"))],
        "inconsistent parent",
    );
    refused(
        [
            named("a", start_step("n")),
            named("b", succeed_step("n", "1")),
        ],
        "inconsistent name",
    );
    let root = world().execution.profile().arn.id.clone();
    refused([start_step(&root)], "inconsistent type");
}

#[test]
fn b6_an_action_must_be_one_of_the_type() {
    for (operation_type, action) in [
        (Type::Context, Action::Retry),
        (Type::Step, Action::Cancel),
        (Type::Wait, Action::Succeed),
        (Type::Callback, Action::Cancel),
        (Type::Callback, Action::Succeed),
        (Type::ChainedInvoke, Action::Cancel),
        (Type::Execution, Action::Start),
    ] {
        refused([update(operation_type, action, "n")], "invalid action");
    }
}

#[test]
fn b7_the_status_must_allow_the_action() {
    refused([start_step("s")], "already exists");
    refused([start_context("c")], "already exists");
    refused([start_wait("w", 1)], "already exists");
    refused(
        [update(Type::Wait, Action::Cancel, "n")],
        "cannot be cancelled",
    );
    accepted([update(Type::Wait, Action::Cancel, "w")]);
    accepted([succeed_step("n", "1")]);
    accepted([succeed_context("n", false)]);
    accepted([retry_step("n", 1)]);
}

#[test]
fn b8_and_b9_payload_and_error_fit_the_action() {
    let error = || Some(Arc::new(ErrorObject::new("E", "m")));
    for operation_type in [Type::Step, Type::Context, Type::Execution] {
        let succeed = OperationUpdate {
            error: error(),
            ..update(operation_type, Action::Succeed, "n")
        };
        refused([succeed], "error cannot be given with SUCCEED");
        let fail = OperationUpdate {
            payload: Some("1".into()),
            ..update(operation_type, Action::Fail, "n")
        };
        refused([fail], "payload cannot be given with FAIL");
    }
    let both = OperationUpdate {
        payload: Some("1".into()),
        ..retry_step("n", 1)
    };
    refused([both], "cannot both be given");
    let neither = OperationUpdate {
        error: None,
        ..retry_step("n", 1)
    };
    accepted([neither]);
    for step_options in [
        None,
        Some(StepOptions {
            next_attempt_delay_seconds: None,
        }),
    ] {
        let without = OperationUpdate {
            step_options,
            ..retry_step("n", 1)
        };
        refused([without], "step options invalid");
    }
}

#[test]
fn b10_step_options_on_other_actions_are_ignored() {
    let start = OperationUpdate {
        step_options: retry_step("n", 1).step_options,
        ..start_step("n")
    };
    accepted([start]);
}

#[test]
fn b11_a_wait_needs_its_duration() {
    for wait_options in [None, Some(WaitOptions { wait_seconds: None })] {
        let wait = OperationUpdate {
            wait_options,
            ..start_wait("n", 1)
        };
        refused([wait], "wait options missing");
    }
}

#[test]
fn b12_an_invoke_needs_a_well_formed_target_at_home() {
    let without = OperationUpdate {
        chained_invoke_options: None,
        ..start_invoke("n", "plain")
    };
    refused([without], "options missing");
    refused([start_invoke("n", "not a name")], "invalid function name");
    refused([start_invoke("n", "")], "invalid function name");
    refused(
        [start_invoke("n", "000000000000:function:plain")],
        "another account",
    );
    let arn = |region: &str| format!("arn:aws:lambda:{region}:123456789012:function:plain");
    refused([start_invoke("n", &arn("eu-west-1"))], "another region");
    accepted([start_invoke("n", &arn("us-east-1"))]);
    let tenant = |tenant: &str| OperationUpdate {
        chained_invoke_options: Some(ChainedInvokeOptions {
            function_name: "plain".into(),
            tenant_id: Some(tenant.into()),
            x_amzn_trace_id: None,
        }),
        ..start_invoke("n", "plain")
    };
    accepted([tenant("a")]);
    refused([tenant("")], "invalid tenant");
    let traced = |length: usize| OperationUpdate {
        chained_invoke_options: Some(ChainedInvokeOptions {
            function_name: "plain".into(),
            tenant_id: None,
            x_amzn_trace_id: Some("t".repeat(length)),
        }),
        ..start_invoke("n", "plain")
    };
    accepted([traced(8_191)]);
    accepted([traced(8_192)]);
    refused([traced(8_193)], "trace header too long");
}

#[test]
fn b13_payloads_and_errors_keep_their_sizes() {
    let payload = |bytes: usize| succeed_step("n", &"x".repeat(bytes));
    accepted([payload(PAYLOAD_BYTES_MAX - 1)]);
    accepted([payload(PAYLOAD_BYTES_MAX)]);
    refused([payload(PAYLOAD_BYTES_MAX + 1)], "payload too large");
    let error = |bytes: usize| OperationUpdate {
        error: Some(Arc::new(ErrorObject {
            error_message: Some("x".repeat(bytes - 4)),
            error_type: Some("type".into()),
            ..ErrorObject::default()
        })),
        ..fail_step("n", "")
    };
    accepted([error(1_048_575)]);
    accepted([error(1_048_576)]);
    refused([error(1_048_577)], "error too large");
}

#[test]
fn b13_the_operator_may_lower_the_sizes() {
    let mut world = World::with(|quotas| {
        quotas.payload_bytes_max = 10;
        quotas.error_bytes_max = 5;
    });
    world.invoke();
    world.checkpoint([succeed_step("a", "1234567890")]);
    assert!(
        world
            .try_checkpoint([succeed_step("b", "12345678901")])
            .is_err()
    );
    world.checkpoint([fail_step("c", "1")]);
    assert!(world.try_checkpoint([fail_step("d", "12")]).is_err());
}

#[test]
fn b13_an_execution_result_may_be_larger_if_somebody_waits_for_it() {
    for (synchronous, most) in [(false, 1_048_576), (true, 6_291_456)] {
        for (bytes, legal) in [(most - 1, true), (most, true), (most + 1, false)] {
            let mut start = start();
            start.synchronous = synchronous;
            start.config = config(900);
            let mut world = World::starting(start, Quotas::unlimited());
            world.invoke();
            let result = OperationUpdate {
                payload: Some("x".repeat(bytes).into()),
                ..execution(Action::Succeed)
            };
            assert_eq!(world.try_checkpoint([result]).is_ok(), legal, "{bytes}");
        }
    }
}

#[test]
fn b14_numbers_keep_their_ranges() {
    refused([start_wait("n", 0)], "WaitSeconds");
    accepted([start_wait("n", 1)]);
    accepted([start_wait("n", DELAY_SECONDS_MAX - 1)]);
    accepted([start_wait("n", DELAY_SECONDS_MAX)]);
    refused([start_wait("n", DELAY_SECONDS_MAX + 1)], "WaitSeconds");
    accepted([retry_step("n", 0)]);
    accepted([retry_step("n", DELAY_SECONDS_MAX)]);
    refused(
        [retry_step("n", DELAY_SECONDS_MAX + 1)],
        "NextAttemptDelaySeconds",
    );
    let most = CALLBACK_TIMEOUT_SECONDS_MAX;
    accepted([start_callback("n", 0, 0)]);
    accepted([start_callback("n", most, most)]);
    refused([start_callback("n", most + 1, 0)], "TimeoutSeconds");
    refused(
        [start_callback("n", 0, most + 1)],
        "HeartbeatTimeoutSeconds",
    );
}

#[test]
fn b14_the_aws_mode_refuses_a_retry_without_delay() {
    let mut world = World::starting(start(), Quotas::aws());
    world.invoke();
    assert!(world.try_checkpoint([retry_step("n", 0)]).is_err());
    world.checkpoint([retry_step("n", 1)]);
}

#[test]
fn texts_keep_their_lengths_and_alphabets() {
    let text = |length: usize| "x".repeat(length);
    refused([start_step("")], "Id must be");
    accepted([start_step(&text(63))]);
    accepted([start_step(&text(64))]);
    refused([start_step(&text(65))], "Id must be");
    refused([start_step("a b")], "Id must be");
    refused([inside("a.b", start_step("n"))], "ParentId must be");
    refused([named("", start_step("n"))], "Name must be");
    accepted([named(&text(255), start_step("n"))]);
    accepted([named(&text(256), start_step("n"))]);
    refused([named(&text(257), start_step("n"))], "Name must be");
    accepted([named(" printable ~", start_step("n"))]);
    refused([named("tab\t", start_step("n"))], "Name must be");
    refused([named("\u{e9}", start_step("n"))], "Name must be");
    let label = |label: &str| OperationUpdate {
        sub_type: Some(label.into()),
        ..start_step("n")
    };
    accepted([label(&text(31))]);
    accepted([label(&text(32))]);
    refused([label(&text(33))], "SubType must be");
    refused([label("")], "SubType must be");
}

#[test]
fn a_wait_for_a_signal_needs_a_name() {
    let nameless = OperationUpdate {
        name: None,
        ..wait_signal("n", "x", 0)
    };
    refused([nameless], "needs the signal's name");
    accepted([wait_signal("n", "x", 0)]);
}

#[test]
fn a_request_holds_a_limited_number_of_updates() {
    let updates = |count: usize| -> Vec<OperationUpdate> {
        (0..count)
            .map(|number| succeed_step(&format!("n{number}"), "1"))
            .collect()
    };
    accepted(updates(999));
    accepted(updates(1_000));
    refused(updates(1_001), "updates in one request");
}

#[test]
fn one_bad_update_spoils_the_whole_batch() {
    let mut world = world();
    let records = world.records.len();
    let batch = vec![
        succeed_step("s", "1"),
        start_wait("n", 5),
        start_context("c"),
    ];
    assert!(world.try_checkpoint(batch).is_err());
    assert_eq!(world.records.len(), records);
    assert!(
        world
            .execution
            .operation(&OperationId::from("n"), &crate::record::nothing)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_batch_is_judged_against_what_is_due_by_now() {
    let mut world = world();
    world.checkpoint([retry_step("s", 5)]);
    world.advance(4_999);
    assert!(world.try_checkpoint([start_step("s")]).is_err());
    world.advance(1);
    let response = world.checkpoint([start_step("s")]);
    assert_eq!(ids(&response.new_execution_state.operations), ["s"]);
    world.advance(10_000);
    let cancel = update(Type::Wait, Action::Cancel, "w");
    assert!(world.try_checkpoint([cancel]).is_err(), "the wait is over");
}
