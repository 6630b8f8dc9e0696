//! Invocations: what their answers mean, when they are repeated, when the execution is held.

use super::*;
use crate::{
    decide::Input,
    limits::Quotas,
    wire::{OperationAction as Action, OperationStatus, OperationType as Type},
    world::*,
};
use alloc::vec;

fn running() -> World {
    let mut world = World::new();
    world.invoke();
    world
}

#[track_caller]
fn closed(world: &World, status: ExecutionStatus, error_type: Option<&str>) {
    assert_eq!(world.execution.status(), status, "{}", world.history());
    let error = world.execution.error();
    assert_eq!(
        error.and_then(|error| error.error_type.as_deref()),
        error_type
    );
}

#[test]
fn the_first_input_carries_arn_token_and_the_execution_with_its_payload() {
    let mut world = World::new();
    assert!(world.execution.wants_invocation(world.now));
    let input = world.invoke();
    assert_eq!(&input.durable_execution_arn, world.execution.arn());
    assert!(!input.checkpoint_token.is_empty());
    assert!(input.updated_operation_ids.is_empty());
    let [root] = &input.initial_execution_state.operations[..] else {
        panic!("one operation");
    };
    assert_eq!(root.operation_type, Type::Execution);
    assert_eq!(
        root.id.as_str(),
        input.durable_execution_arn.rsplit('/').next().unwrap()
    );
    let details = root.execution_details.as_ref().unwrap();
    assert_eq!(details.input_payload.as_deref(), Some("{\"n\":1}"));
}

#[test]
fn only_one_invocation_runs_at_a_time() {
    let mut world = running();
    assert!(!world.execution.wants_invocation(world.now));
    let refused = world.try_invoke().unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
}

#[test]
fn success_closes_with_or_without_result() {
    for (text, result) in [
        ("{\"Status\":\"SUCCEEDED\",\"Result\":\"1\"}", Some("1")),
        ("{\"Status\":\"SUCCEEDED\",\"Result\":\"\"}", Some("")),
        ("{\"Status\":\"SUCCEEDED\",\"Result\":null}", None),
        ("{\"Status\":\"SUCCEEDED\",\"Error\":null}", None),
        ("{\"Status\":\"SUCCEEDED\",\"Extra\":1}", None),
    ] {
        let mut world = running();
        world.answer(text);
        closed(&world, ExecutionStatus::Succeeded, None);
        assert_eq!(
            world.execution.result().map(|text| &**text),
            result,
            "{text}"
        );
        assert_eq!(
            world.event_types(),
            "InvocationCompleted ExecutionSucceeded"
        );
        assert_eq!(world.execution.next_wake(), None);
    }
}

#[test]
fn failure_closes_with_or_without_error() {
    let mut world = running();
    world.answer("{\"Status\":\"FAILED\",\"Error\":{\"ErrorType\":\"E\",\"ErrorMessage\":\"m\"}}");
    closed(&world, ExecutionStatus::Failed, Some("E"));
    insta::assert_snapshot!(world.history(), @r#"
      1 +0.000 ExecutionStarted run input={"n":1} timeout=100000s
      2 +0.000 InvocationCompleted error=E: m
      3 +0.000 ExecutionFailed run error=E: m
    "#);
    let mut world = running();
    world.answer(r#"{"Status":"FAILED","Error":{"ErrorType":"E","ErrorMessage":"cut \ud83d"}}"#);
    closed(&world, ExecutionStatus::Failed, Some("E"));
    let message = world
        .execution
        .error()
        .and_then(|it| it.error_message.as_deref());
    assert_eq!(message, Some("cut \u{fffd}"));
    let mut world = running();
    world.answer("{\"Status\":\"FAILED\"}");
    closed(&world, ExecutionStatus::Failed, None);
    assert!(world.execution.error().is_none());
}

#[test]
fn an_output_that_breaks_the_protocol_fails_at_once() {
    for bytes in [
        &b"{\"Status\":\"FAILED\",\"Result\":\"1\"}"[..],
        b"{\"Status\":\"SUCCEEDED\",\"Error\":{}}",
        b"{\"Status\":\"SUCCEEDED\",\"Error\":\"text\"}",
        b"{\"Status\":\"SUCCEEDED\",\"Result\":1}",
        b"{\"Status\":\"DONE\"}",
        b"{\"Status\":1}",
        b"{\"Result\":\"1\"}",
        b"[\"SUCCEEDED\"]",
        b"\"SUCCEEDED\"",
        b"null",
        b"",
        b"{",
        b"\xff\xfe",
    ] {
        let mut world = running();
        world.checkpoint([start_wait("w", 5)]);
        world.complete(Outcome::Answered(bytes.to_vec()));
        closed(
            &world,
            ExecutionStatus::Failed,
            Some(error_type::INVALID_PARAMETER),
        );
        let events = world.events();
        let Some(crate::event::Details::InvocationCompleted { error, .. }) =
            events.iter().rev().nth(1).map(|event| &event.details)
        else {
            panic!("{}", world.history());
        };
        assert!(error.is_some());
    }
}

#[test]
fn outputs_already_read_obey_the_same_rules() {
    let mut world = running();
    let mut output = InvocationOutput::failed(None);
    output.result = Some("1".into());
    world.complete(Outcome::Output(output));
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::INVALID_PARAMETER),
    );
}

#[test]
fn a_result_over_the_limit_fails_the_execution() {
    for (synchronous, most) in [(false, 1_048_576), (true, 6_291_456)] {
        for (bytes, legal) in [(most - 1, true), (most, true), (most + 1, false)] {
            let mut start = start();
            start.synchronous = synchronous;
            start.config = config(900);
            let mut world = World::starting(start, Quotas::unlimited());
            world.invoke();
            world.succeed(&"x".repeat(bytes));
            if legal {
                closed(&world, ExecutionStatus::Succeeded, None);
            } else {
                closed(
                    &world,
                    ExecutionStatus::Failed,
                    Some(error_type::INVALID_PARAMETER),
                );
                let message = world.execution.error().unwrap().error_message.as_ref();
                assert!(message.unwrap().contains("too large"));
            }
        }
    }
}

#[test]
fn pending_is_legal_while_something_is_pending() {
    for open in [
        start_wait("o", 5),
        start_callback("o", 0, 0),
        start_invoke("o", "plain"),
        retry_step("o", 5),
    ] {
        let mut world = running();
        world.checkpoint([open]);
        world.suspend();
        assert_eq!(
            world.event_types().rsplit(' ').next(),
            Some("InvocationCompleted")
        );
        assert!(!world.execution.wants_invocation(world.now));
        assert_eq!(world.execution.status(), ExecutionStatus::Running);
    }
}

#[test]
fn pending_is_legal_when_the_handler_has_not_seen_a_change() {
    let mut world = running();
    world.checkpoint([start_wait("w", 5)]);
    world.advance(5_000);
    world.suspend();
    assert!(world.execution.wants_invocation(world.now));
    let input = world.invoke();
    assert_eq!(input.updated_operation_ids, vec!["w".into()]);
    insta::assert_snapshot!(world.event_types(), @"WaitStarted WaitSucceeded InvocationCompleted");
}

#[test]
fn pending_with_nothing_pending_is_repeated_and_fails_the_third_time() {
    let mut world = running();
    // A started step and a ready one are the handler's to move.
    world.checkpoint([start_step("s"), retry_step("r", 1)]);
    world.advance(1_000).checkpoint([]);
    for attempt in 1..=2 {
        world.suspend();
        assert_eq!(
            world.execution.status(),
            ExecutionStatus::Running,
            "{attempt}"
        );
        world.now = world.execution.next_wake().unwrap();
        world.invoke();
    }
    world.suspend();
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::INVALID_PARAMETER),
    );
    let tail = "InvocationCompleted InvocationCompleted InvocationCompleted ExecutionFailed";
    assert!(world.event_types().ends_with(tail));
    let errors = world
        .events()
        .iter()
        .filter(|event| {
            matches!(
                &event.details,
                crate::event::Details::InvocationCompleted { error: Some(_), .. }
            )
        })
        .count();
    assert_eq!(errors, 3);
}

#[test]
fn empty_pendings_are_counted_in_a_row_only() {
    let mut world = running();
    for _ in 0..5 {
        for _ in 0..2 {
            world.suspend();
            world.now = world.execution.next_wake().unwrap();
            world.invoke();
        }
        let id = alloc::format!("w{}", world.records.len());
        world.checkpoint([start_wait(&id, 1)]);
        world.suspend();
        world.advance(1_000);
        world.invoke();
    }
    assert_eq!(world.execution.status(), ExecutionStatus::Running);
}

#[test]
fn empty_pendings_of_invocations_that_wrote_something_are_not_counted() {
    let mut world = running();
    let mut delays = vec![];
    for round in 0..5 {
        let [callback, step] = ["c", "s"].map(|kind| alloc::format!("{kind}{round}"));
        world.checkpoint([start_callback(&callback, 0, 0), start_step(&step)]);
        world.answer_callback(&callback, "1").unwrap();
        world.checkpoint([succeed_step(&step, "1")]);
        world.suspend();
        let wake = world.execution.next_wake().unwrap();
        delays.push(wake.millis_since(world.now));
        world.now = wake;
        world.invoke();
    }
    delays.dedup();
    assert_eq!(delays.len(), 1, "they grow: {delays:?}");
    world.answer("{\"Status\":\"SUCCEEDED\"}");
    closed(&world, ExecutionStatus::Succeeded, None);
}

#[test]
fn a_change_the_handler_saw_earns_no_extra_invocation() {
    let mut world = running();
    world.checkpoint([start_callback("c", 0, 0), start_wait("w", 100)]);
    world.answer_callback("c", "1").unwrap();
    world.checkpoint([]);
    world.suspend();
    assert!(!world.execution.wants_invocation(world.now));
}

#[test]
fn changes_while_idle_are_named_in_the_next_input() {
    let mut world = running();
    world.checkpoint([
        start_wait("w", 5),
        start_callback("c", 0, 0),
        start_invoke("i", "plain"),
        retry_step("r", 5),
        start_wait("later", 50),
        start_context("closed"),
        inside("closed", start_wait("hidden", 5)),
    ]);
    world.checkpoint([succeed_context("closed", false)]);
    world.suspend();
    world.advance(5_000);
    world.answer_callback("c", "1").unwrap();
    world
        .deliver(crate::delivery::Arrival::Invoked {
            operation: "i".into(),
            outcome: crate::intent::InvokeOutcome::Succeeded(None),
        })
        .unwrap();
    let input = world.invoke();
    let updated: Vec<&str> = input
        .updated_operation_ids
        .iter()
        .map(OperationId::as_str)
        .collect();
    assert_eq!(updated, ["w", "c", "i", "r"]);
    assert!(
        world
            .checkpoint([])
            .new_execution_state
            .operations
            .is_empty()
    );
}

#[test]
fn a_failed_invocation_is_repeated_with_growing_delays_and_keeps_checkpoints() {
    let mut world = running();
    world.checkpoint([start_step("s")]);
    let mut delays = Vec::new();
    for _ in 0..10 {
        world.crash();
        assert!(!world.execution.wants_invocation(world.now));
        let retry_at = world.execution.next_wake().unwrap();
        delays.push(retry_at.millis_since(world.now));
        assert!(world.execution.why(world.now).contains("repeated"));
        world.now = retry_at;
        world.invoke();
    }
    for (doublings, delay) in (0..).zip(delays) {
        let full = (1_000u64 << doublings).min(60_000);
        assert!(
            (full / 2).max(1_000) <= delay && delay <= full,
            "{doublings}: {delay}"
        );
    }
    assert_eq!(world.status("s"), OperationStatus::Started);
    assert_eq!(world.operation("s").step_details.unwrap().attempt, 0);
    let crashes = world.event_types();
    assert_eq!(crashes.matches("InvocationCompleted").count(), 10);
}

#[test]
fn a_clean_invocation_resets_the_delay() {
    let mut world = running();
    for _ in 0..4 {
        world.crash();
        world.now = world.execution.next_wake().unwrap();
        world.invoke();
    }
    world.checkpoint([start_wait("w", 1)]);
    world.suspend();
    world.advance(1_000);
    world.invoke();
    world.crash();
    let retry_at = world.execution.next_wake().unwrap();
    assert_eq!(retry_at.millis_since(world.now), 1_000);
}

#[test]
fn a_retry_absorbs_what_arrives_meanwhile() {
    let mut world = running();
    world.checkpoint([start_callback("c", 0, 0)]);
    world.crash();
    world.answer_callback("c", "1").unwrap();
    assert!(
        !world.execution.wants_invocation(world.now),
        "the delay holds"
    );
    world.now = world.execution.next_wake().unwrap();
    let input = world.invoke();
    assert_eq!(input.updated_operation_ids, vec!["c".into()]);
    world.succeed("1");
    insta::assert_snapshot!(world.event_types(), @"CallbackStarted InvocationCompleted CallbackSucceeded InvocationCompleted ExecutionSucceeded");
}

#[test]
fn every_kind_of_failure_shows_its_error() {
    for (outcome, error_type) in [
        (
            Outcome::Failed(ErrorObject::new("KeyError", "x")),
            "KeyError",
        ),
        (Outcome::exited("exit status 1"), error_type::RUNTIME_EXIT),
        (Outcome::timed_out(3), error_type::SANDBOX_TIMEDOUT),
    ] {
        let mut world = running();
        world.complete(outcome);
        assert_eq!(world.execution.status(), ExecutionStatus::Running);
        assert!(world.history().contains(error_type), "{}", world.history());
    }
}

#[test]
fn a_missing_function_fails_the_execution() {
    let mut world = running();
    world.complete(Outcome::function_missing("order:1"));
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::RESOURCE_NOT_FOUND),
    );
    insta::assert_snapshot!(world.event_types(), @"InvocationCompleted ExecutionFailed");
}

#[test]
fn a_call_that_reached_nobody_leaves_no_event_and_interrupts_nothing() {
    let mut world = World::with(|quotas| quotas.invocation_attempts_max = Some(2));
    world.invoke();
    world.checkpoint([start_step("s")]);
    let mut before = 0;
    for _ in 0..8 {
        world.complete(Outcome::NotStarted(ErrorObject::new(
            "Throttled",
            "slow down",
        )));
        let retry_at = world.execution.next_wake().unwrap();
        let delay = retry_at.millis_since(world.now);
        assert!(delay >= before / 2, "{delay} after {before}");
        before = delay;
        world.now = retry_at;
        world.invoke();
    }
    assert_eq!(world.execution.status(), ExecutionStatus::Running);
    assert_eq!(world.operation("s").step_details.unwrap().interruptions, 0);
    insta::assert_snapshot!(world.event_types(), @"StepStarted");
}

#[test]
fn a_lost_invocation_is_repeated_at_once_without_an_event() {
    let mut world = running();
    world.checkpoint([start_step("s")]);
    let old = world.invocation.clone();
    world.complete(Outcome::Lost);
    assert!(world.execution.wants_invocation(world.now));
    world.invoke();
    assert_eq!(world.operation("s").step_details.unwrap().interruptions, 1);
    // The old one answers after all: it is no longer the current one.
    let new = core::mem::replace(&mut world.invocation, old);
    let output = InvocationOutput::failed(Some(ErrorObject::new("E", "stale token")));
    assert!(!world.complete(Outcome::Output(output)));
    assert_eq!(world.execution.status(), ExecutionStatus::Running);
    world.invocation = new;
    world.succeed("1");
    insta::assert_snapshot!(world.event_types(), @"StepStarted InvocationCompleted ExecutionSucceeded");
}

#[test]
fn interruptions_are_counted_per_attempt() {
    let mut world = running();
    let interruptions = |world: &World| world.operation("s").step_details.unwrap().interruptions;
    world.checkpoint([
        start_step("s"),
        start_step("done"),
        succeed_step("done", "1"),
    ]);
    for expected in 1..=3 {
        world.crash();
        assert_eq!(interruptions(&world), expected);
        world.now = world.execution.next_wake().unwrap();
        let input = world.invoke();
        let seen = input.initial_execution_state.operations.iter();
        let seen = seen.filter_map(|operation| operation.step_details.as_ref());
        let seen: Vec<u32> = seen.map(|details| details.interruptions).collect();
        assert_eq!(seen, [expected, 0]);
    }
    world.checkpoint([retry_step("s", 1)]);
    assert_eq!(interruptions(&world), 0);
    world.suspend();
    world.advance(1_000);
    world.invoke();
    world.checkpoint([start_step("s")]);
    world.crash();
    assert_eq!(interruptions(&world), 1);
}

#[test]
fn the_operators_cap_fails_the_execution_with_the_last_error() {
    for (cap, failing) in [(1, 1), (2, 2), (3, 3)] {
        let mut world = World::with(|quotas| quotas.invocation_attempts_max = Some(cap));
        for _ in 1..failing {
            world.invoke();
            world.crash();
            assert_eq!(world.execution.status(), ExecutionStatus::Running);
            world.now = world.execution.next_wake().unwrap();
        }
        world.invoke();
        world.crash();
        closed(
            &world,
            ExecutionStatus::Failed,
            Some(error_type::RUNTIME_EXIT),
        );
    }
    let mut world = World::with(|quotas| quotas.invocation_attempts_max = Some(1));
    world.invoke();
    world.complete(Outcome::Lost);
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::RUNTIME_EXIT),
    );
}

fn mismatch() -> Outcome {
    Outcome::Failed(ErrorObject::new(
        error_type::REPLAY_MISMATCH,
        "expected STEP a, found WAIT",
    ))
}

#[test]
fn a_replay_mismatch_holds_the_execution_until_resumed() {
    let mut world = running();
    world.checkpoint([start_step("s")]);
    world.complete(mismatch());
    assert_eq!(world.execution.status(), ExecutionStatus::Running);
    assert_eq!(world.execution.hold().unwrap().cause, HoldCause::Mismatch);
    assert!(world.execution.why(world.now).contains("expected STEP a"));
    assert_eq!(world.operation("s").step_details.unwrap().interruptions, 0);
    world.advance(3_600_000);
    assert!(!world.execution.wants_invocation(world.now));
    assert_eq!(
        world.execution.next_wake(),
        Some(world.execution.deadline())
    );
    world.decide(Input::Resume).unwrap();
    assert!(world.execution.wants_invocation(world.now));
    world.invoke();
    world.succeed("1");
    insta::assert_snapshot!(world.event_types(), @"StepStarted InvocationCompleted InvocationCompleted ExecutionSucceeded");
}

#[test]
fn a_held_execution_can_be_failed_with_its_reason() {
    let mut world = running();
    world.complete(mismatch());
    world.decide(Input::FailHeld).unwrap();
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::REPLAY_MISMATCH),
    );
    assert_eq!(
        world.decide(Input::Resume).unwrap_err().code,
        Code::Conflict
    );
}

#[test]
fn in_aws_mode_a_replay_mismatch_fails_the_execution() {
    let mut world = World::starting(start(), Quotas::aws());
    world.invoke();
    world.complete(mismatch());
    closed(
        &world,
        ExecutionStatus::Failed,
        Some(error_type::REPLAY_MISMATCH),
    );
}

#[test]
fn invocations_without_progress_hold_the_execution() {
    let mut world = World::with(|quotas| quotas.stalled_invocations_max = Some(3));
    let fail = |world: &mut World| {
        world.now = world.execution.next_wake().unwrap_or(world.now);
        world.invoke();
        world.crash();
    };
    world.invoke();
    world.checkpoint([start_callback("c", 0, 0)]);
    world.crash();
    fail(&mut world);
    assert!(world.execution.hold().is_none(), "-1");
    // Something arrives: that is progress.
    world.answer_callback("c", "1").unwrap();
    fail(&mut world);
    fail(&mut world);
    assert!(world.execution.hold().is_none(), "-1 again");
    fail(&mut world);
    assert_eq!(world.execution.hold().unwrap().cause, HoldCause::NoProgress);
    assert!(!world.execution.wants_invocation(at(99_000_000)));
    world.decide(Input::Resume).unwrap();
    world.invoke();
    world.crash();
    assert!(world.execution.hold().is_none(), "the count begins again");
}

#[test]
fn an_accepted_update_counts_as_progress_but_an_empty_poll_does_not() {
    let mut world = World::with(|quotas| quotas.stalled_invocations_max = Some(2));
    for number in 0..5 {
        world.now = world
            .execution
            .next_wake()
            .unwrap()
            .min(world.now.plus_seconds(60));
        world.invoke();
        world.checkpoint([start_step(&alloc::format!("s{number}"))]);
        world.crash();
    }
    assert!(world.execution.hold().is_none());
    world.advance(60_000);
    world.invoke();
    world.checkpoint([]);
    world.crash();
    assert!(world.execution.hold().is_some());
}

#[test]
fn a_held_execution_still_takes_callbacks_and_times_out() {
    let mut world = running();
    world.checkpoint([start_callback("c", 0, 0), start_wait("w", 5)]);
    world.complete(mismatch());
    world.answer_callback("c", "1").unwrap();
    world.advance(5_000).tick();
    assert_eq!(world.status("w"), OperationStatus::Succeeded);
    world.now = world.execution.deadline();
    world.tick();
    closed(&world, ExecutionStatus::TimedOut, None);
}

#[test]
fn an_operator_may_hold_and_resume_without_an_extra_invocation() {
    let mut world = running();
    world.checkpoint([start_wait("w", 100)]);
    world.suspend();
    let reason = ErrorObject::new("Operator", "maintenance");
    world
        .decide(Input::Hold {
            reason: reason.clone(),
        })
        .unwrap();
    let records = world.records.len();
    world.decide(Input::Hold { reason }).unwrap();
    assert_eq!(world.records.len(), records, "held once");
    world.decide(Input::Resume).unwrap();
    assert!(!world.execution.wants_invocation(world.now));
    world.advance(100_000);
    world.invoke();
}

#[test]
fn an_output_after_the_end_only_completes_the_invocation() {
    for outcome in [
        Outcome::Output(InvocationOutput::succeeded(Some("1".into()))),
        Outcome::Output(InvocationOutput::failed(None)),
        Outcome::Output(InvocationOutput::pending()),
        Outcome::exited("killed"),
        mismatch(),
    ] {
        let mut world = running();
        world.decide(Input::Stop { error: None }).unwrap();
        world.complete(outcome);
        closed(&world, ExecutionStatus::Stopped, None);
        assert_eq!(world.event_types(), "ExecutionStopped InvocationCompleted");
        assert!(world.execution.invocation().is_none());
    }
    let mut world = running();
    world.decide(Input::Stop { error: None }).unwrap();
    world.complete(Outcome::Lost);
    assert_eq!(world.event_types(), "ExecutionStopped");
}

#[test]
fn an_output_that_comes_with_the_timeout_is_too_late() {
    let mut world = running();
    world.now = world.execution.deadline();
    world.succeed("1");
    closed(&world, ExecutionStatus::TimedOut, None);
    insta::assert_snapshot!(world.event_types(), @"ExecutionTimedOut InvocationCompleted");
}

#[test]
fn one_sentence_says_where_an_execution_is() {
    let mut world = World::new();
    assert!(world.execution.why(world.now).contains("free worker"));
    world.invoke();
    assert!(world.execution.why(world.now).contains("invocation-1"));
    world.checkpoint([named("nap", start_wait("w", 60)), start_callback("c", 0, 0)]);
    world.suspend();
    insta::assert_snapshot!(world.execution.why(world.now), @r#"It waits for the timer "nap", set 2026-01-01T00:00:00Z (it ends at 2026-01-01T00:01:00Z), and for one other operation."#);
    world.advance(60_000);
    world.invoke();
    let cancel_nothing = update(Type::Wait, Action::Cancel, "w");
    assert!(world.try_checkpoint([cancel_nothing]).is_err());
    world.succeed("1");
    assert_eq!(
        world.execution.why(world.now),
        "It succeeded at 2026-01-01T00:01:00Z."
    );
}

#[test]
fn error_reports_of_runtimes_are_read() {
    let report = "{\"errorType\":\"T\",\"errorMessage\":\"m\",\"stackTrace\":[\"a\",[\"f\",1]],\"errorData\":null}";
    let error = read_runtime_error(report);
    assert_eq!(error.error_type.as_deref(), Some("T"));
    assert_eq!(error.error_message.as_deref(), Some("m"));
    assert_eq!(error.error_data, None);
    assert_eq!(error.stack_trace.unwrap(), ["a", "[\"f\",1]"]);
    assert_eq!(
        read_runtime_error("oops").error_message.as_deref(),
        Some("oops")
    );
    assert_eq!(read_runtime_error(""), ErrorObject::default());
}
