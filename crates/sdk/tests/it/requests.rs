//! The exact sequence of checkpoint requests of every operation: on its first run, and for each
//! state in which a later invocation can find its record.
//!
//! `!` marks an update whose caller waited, `~` one that nobody waited for. The states are reached
//! by killing the process right after the request that produces them.

use crate::{
    fake::{Fake, recorded},
    show::{Sure, answer, calls, calls_of, millis, secs},
};
use insta::assert_snapshot as check;
use outlast::{
    Completion, CompletionDecision, Context, Error, Function, Nesting, Result, Retry, WaitStrategy,
    core::wire::{InvocationStatus, OperationAction, OperationStatus, OperationType},
    testing::{Answer, Fault, TestKit},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

type Input<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

fn crash_in(step: &str, attempt: u32) -> Fault {
    Fault::CrashInBody {
        step: step.to_owned(),
        attempt,
    }
}

// --- step -------------------------------------------------------------------------------------

fn step(body_takes: u64) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        ctx.step("s", async |_| {
            tokio::time::sleep(millis(body_takes)).await;
            Sure::Ok("x".to_owned())
        })
        .await
    })
}

fn flaky(retry: Retry, failures: u32) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| {
        let retry = retry.clone();
        async move {
            ctx.step("s", async |step| match step.attempt() {
                attempt if attempt <= failures => Err("boom"),
                _ => Ok("ok".to_owned()),
            })
            .retry(retry)
            .await
        }
    })
}

#[tokio::test]
async fn a_quick_step_is_one_request_and_a_slow_one_shows_its_start() {
    check!(calls_of(step(0)).await, @r#"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(step(19)).await, @r#"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(step(21)).await, @r#"
    Step s START~
    Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_ready_step_starts_afresh() {
    check!(calls_of(flaky(Retry::fixed(secs(10)), 2)).await, @r#"
    Step s START~, Step s RETRY!
    => PENDING

    Step s START~, Step s RETRY!
    => PENDING

    Step s START~, Step s SUCCEED!
    => SUCCEEDED "ok"
    "#);
}

#[tokio::test]
async fn a_step_that_was_started_runs_again_without_a_second_start() {
    check!(calls_of(step(250).fault(crash_in("s", 1))).await, @r#"
    Step s START~
    => killed

    Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    // The start is lost with the process when the body is quick: nothing is recorded.
    check!(calls_of(step(0).fault(Fault::CrashBefore(1))).await, @r#"
    Step s START~, Step s SUCCEED!
    => killed

    Step s START~, Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_pending_step_waits_for_its_retry() {
    check!(calls_of(flaky(Retry::fixed(secs(10)), 1).fault(Fault::CrashAfter(1))).await, @r#"
    Step s START~, Step s RETRY!
    => killed

    => PENDING

    Step s START~, Step s SUCCEED!
    => SUCCEEDED "ok"
    "#);
}

#[tokio::test]
async fn a_finished_step_writes_nothing() {
    check!(calls_of(step(0).fault(Fault::CrashAfter(1))).await, @r#"
    Step s START~, Step s SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
    check!(calls_of(flaky(Retry::none(), 1).fault(Fault::CrashAfter(1))).await, @"
    Step s START~, Step s FAIL!
    => killed

    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_step_without_retries_fails_at_once() {
    check!(calls_of(flaky(Retry::none(), 1)).await, @"
    Step s START~, Step s FAIL!
    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_step_fails_when_its_attempts_are_used_up() {
    check!(calls_of(flaky(Retry::fixed(secs(10)).max_attempts(2), 9)).await, @"
    Step s START~, Step s RETRY!
    => PENDING

    Step s START~, Step s FAIL!
    => FAILED Error: boom
    ");
}

fn careful(retry: Retry) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| {
        let retry = retry.clone();
        async move {
            ctx.step("s", async |_| Sure::Ok("x".to_owned()))
                .at_most_once()
                .retry(retry)
                .await
        }
    })
}

#[tokio::test]
async fn an_at_most_once_step_waits_for_its_start() {
    check!(calls_of(careful(Retry::none())).await, @r#"
    Step s START!
    Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn an_interrupted_at_most_once_step_is_not_run_but_judged() {
    check!(calls_of(careful(Retry::none()).fault(crash_in("s", 1))).await, @"
    Step s START!
    Step s SUCCEED!
    => killed

    Step s FAIL!
    => FAILED StepInterruptedError: the step was interrupted before its outcome was known
    ");
    check!(calls_of(careful(Retry::fixed(secs(10))).fault(crash_in("s", 1))).await, @r#"
    Step s START!
    Step s SUCCEED!
    => killed

    Step s RETRY!
    => PENDING

    Step s START!
    Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(careful(Retry::fixed(secs(10))).fault(Fault::CrashAfter(1))).await, @r#"
    Step s START!
    => killed

    Step s RETRY!
    => PENDING

    Step s START!
    Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_finished_at_most_once_step_writes_nothing() {
    check!(calls_of(careful(Retry::none()).fault(Fault::CrashAfter(2))).await, @r#"
    Step s START!
    Step s SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_pending_at_most_once_step_waits_and_a_ready_one_starts_afresh() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.step("s", async |step| match step.attempt() {
            1 => Err("boom"),
            _ => Ok(1),
        })
        .at_most_once()
        .retry(Retry::fixed(secs(10)))
        .await
    });
    check!(calls_of(kit.fault(Fault::CrashAfter(2))).await, @"
    Step s START!
    Step s RETRY!
    => killed

    => PENDING

    Step s START!
    Step s SUCCEED!
    => SUCCEEDED 1
    ");
}

#[tokio::test]
async fn statuses_that_an_operation_never_has_are_fatal_and_write_nothing() {
    let step = Function::new("f", async |ctx: Context, (): ()| {
        // Not even a program that handles every error may go on.
        let _ = ctx.step("", async |_| Sure::Ok(1)).await;
        Sure::Ok(1)
    });
    let condition = Function::new("f", async |ctx: Context, (): ()| {
        let strategy = WaitStrategy::until(|_| true);
        let _ = ctx
            .wait_for_condition("", 0, async |n: u32, _| Sure::Ok(n), strategy)
            .await;
        Sure::Ok(1)
    });
    let wait = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.wait(secs(1)).await;
        Sure::Ok(1)
    });
    let child = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.run_in_child_context("", async |_| Ok(1)).await;
        Sure::Ok(1)
    });
    let map = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.map("", [1], async |_, item| Ok(item)).await;
        Sure::Ok(1)
    });
    let mut lines = Vec::new();
    for (function, operation_type, label) in [
        (step, OperationType::Step, "Step"),
        (condition, OperationType::Step, "WaitForCondition"),
        (wait, OperationType::Wait, "Wait"),
        (child, OperationType::Context, "RunInChildContext"),
        (map, OperationType::Context, "Map"),
    ] {
        for status in [
            OperationStatus::Cancelled,
            OperationStatus::TimedOut,
            OperationStatus::Stopped,
        ] {
            let backend = Arc::new(Fake::default());
            let found = vec![recorded(1, operation_type, label, status)];
            let outcome = backend.invoke(&function, found).await;
            assert!(backend.written().is_empty());
            lines.push(format!("{label} {}", answer(&outcome.answer.unwrap())));
        }
    }
    check!(lines.join("\n"), @"
    Step FAILED UnexpectedStatusError: step 1 has the status CANCELLED, which such an operation never has
    Step FAILED UnexpectedStatusError: step 1 has the status TIMED_OUT, which such an operation never has
    Step FAILED UnexpectedStatusError: step 1 has the status STOPPED, which such an operation never has
    WaitForCondition FAILED UnexpectedStatusError: step 1 has the status CANCELLED, which such an operation never has
    WaitForCondition FAILED UnexpectedStatusError: step 1 has the status TIMED_OUT, which such an operation never has
    WaitForCondition FAILED UnexpectedStatusError: step 1 has the status STOPPED, which such an operation never has
    Wait FAILED UnexpectedStatusError: wait 1 has the status CANCELLED, which such an operation never has
    Wait FAILED UnexpectedStatusError: wait 1 has the status TIMED_OUT, which such an operation never has
    Wait FAILED UnexpectedStatusError: wait 1 has the status STOPPED, which such an operation never has
    RunInChildContext FAILED UnexpectedStatusError: context 1 has the status CANCELLED, which such an operation never has
    RunInChildContext FAILED UnexpectedStatusError: context 1 has the status TIMED_OUT, which such an operation never has
    RunInChildContext FAILED UnexpectedStatusError: context 1 has the status STOPPED, which such an operation never has
    Map FAILED UnexpectedStatusError: context 1 has the status CANCELLED, which such an operation never has
    Map FAILED UnexpectedStatusError: context 1 has the status TIMED_OUT, which such an operation never has
    Map FAILED UnexpectedStatusError: context 1 has the status STOPPED, which such an operation never has
    ");
}

// --- wait, callback, invoke, signal -----------------------------------------------------------

fn wait() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.named_wait("w", secs(10)).await?;
        Ok::<_, Error>("done")
    })
}

#[tokio::test]
async fn a_wait_is_one_request_in_all() {
    check!(calls_of(wait()).await, @r#"
    Wait w START!
    => PENDING

    => SUCCEEDED "done"
    "#);
}

#[tokio::test]
async fn a_started_wait_is_not_started_again() {
    check!(calls_of(wait().fault(Fault::CrashAfter(1))).await, @r#"
    Wait w START!
    => killed

    => PENDING

    => SUCCEEDED "done"
    "#);
}

fn callback() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        let callback = ctx
            .create_callback::<String>("cb")
            .timeout(secs(60))
            .await?;
        callback.result().await
    })
}

#[tokio::test]
async fn a_callback_is_one_request_in_all() {
    let kit = callback().callback("cb", Answer::succeed("R").after(secs(5)));
    check!(calls_of(kit.clone()).await, @r#"
    Callback cb START!
    => PENDING

    => SUCCEEDED "R"
    "#);
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @r#"
    Callback cb START!
    => killed

    => PENDING

    => SUCCEEDED "R"
    "#);
}

#[tokio::test]
async fn a_callback_that_failed_or_timed_out_writes_nothing() {
    check!(calls_of(callback().callback("cb", Answer::fail("Ext", "no").after(secs(5)))).await, @"
    Callback cb START!
    => PENDING

    => FAILED Ext: no
    ");
    check!(calls_of(callback()).await, @"
    Callback cb START!
    => PENDING

    => FAILED Callback.Timeout: callback timed out
    ");
}

#[tokio::test]
async fn a_failed_callback_is_created_again_and_fails_where_it_is_awaited() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let callback = ctx.create_callback::<String>("cb").await?;
        let between = ctx.step("between", async |_| Sure::Ok(1)).await?;
        ctx.wait(secs(10)).await?;
        let result = callback.result().await;
        Ok::<_, Error>((between, result.map_err(|error| error.message().to_owned())))
    })
    .callback("cb", Answer::fail("Ext", "no").after(secs(5)));
    check!(calls_of(kit).await, @r#"
    Callback cb START!
    Step between START~, Step between SUCCEED!
    Wait START!
    => PENDING

    => PENDING

    => SUCCEEDED [1,{"Err":"no"}]
    "#);
}

fn invoke() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.invoke::<_, u32>("inv", "other", 1).await
    })
}

#[tokio::test]
async fn an_invoke_is_one_request_in_all() {
    let kit = invoke().scripted("other", [Answer::json(2).after(secs(5))]);
    check!(calls_of(kit.clone()).await, @"
    ChainedInvoke inv START!
    => PENDING

    => SUCCEEDED 2
    ");
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @"
    ChainedInvoke inv START!
    => killed

    => PENDING

    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn an_invoke_that_failed_or_timed_out_writes_nothing() {
    let kit = |answer: Answer| invoke().scripted("other", [answer.after(secs(5))]);
    check!(calls_of(kit(Answer::fail("Ext", "no"))).await, @"
    ChainedInvoke inv START!
    => PENDING

    => FAILED Ext: no
    ");
    check!(calls_of(kit(Answer::time_out())).await, @"
    ChainedInvoke inv START!
    => PENDING

    => FAILED ChainedInvoke.Timeout: the invoked function timed out
    ");
}

#[tokio::test]
async fn an_invoke_that_is_refused_at_once_does_not_suspend() {
    check!(calls_of(invoke()).await, @"
    ChainedInvoke inv START!
    => FAILED ResourceNotFoundException: function not found: other; register it with the test kit
    ");
}

fn signal() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.wait_signal::<u32>("go").timeout(secs(60)).await
    })
}

#[tokio::test]
async fn a_signal_that_came_first_does_not_suspend() {
    let mut run = signal().start(()).await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    check!(calls(&run), @"
    Signal go START!
    => SUCCEEDED 7
    ");
}

#[tokio::test]
async fn a_signal_that_comes_later_is_one_request_in_all() {
    let mut run = signal().fault(Fault::CrashAfter(1)).start(()).await;
    run.run_once().await;
    run.advance(secs(5)).await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    check!(calls(&run), @"
    Signal go START!
    => killed

    => PENDING

    => SUCCEEDED 7
    ");
}

#[tokio::test]
async fn a_signal_that_never_comes_times_out() {
    check!(calls_of(signal()).await, @"
    Signal go START!
    => PENDING

    => FAILED Callback.Timeout: callback timed out
    ");
}

// --- wait_for_callback ------------------------------------------------------------------------

fn exchange(failures: u32) -> TestKit {
    let submissions = Arc::new(AtomicU32::new(0));
    TestKit::new("f", move |ctx: Context, (): ()| {
        let submissions = submissions.clone();
        async move {
            ctx.wait_for_callback::<String, _, _, _>("wfc", async |_| {
                if submissions.fetch_add(1, Ordering::Relaxed) < failures {
                    Err("nosub")
                } else {
                    Ok(())
                }
            })
            .retry(Retry::fixed(secs(10)).max_attempts(2))
            .await
        }
    })
    .callback("wfc", Answer::succeed("R").after(secs(30)))
}

#[tokio::test]
async fn waiting_for_a_callback_opens_it_submits_it_and_closes_its_context() {
    check!(calls_of(exchange(0)).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    => SUCCEEDED "R"
    "#);
}

#[tokio::test]
async fn waiting_for_a_callback_goes_on_from_every_state() {
    check!(calls_of(exchange(0).fault(Fault::CrashAfter(1))).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    => killed

    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    => SUCCEEDED "R"
    "#);
    check!(calls_of(exchange(0).fault(Fault::CrashAfter(2))).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => killed

    => PENDING

    WaitForCallback wfc SUCCEED!
    => SUCCEEDED "R"
    "#);
    check!(calls_of(exchange(0).fault(Fault::CrashAfter(3))).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    => killed

    => SUCCEEDED "R"
    "#);
    check!(calls_of(exchange(0).fault(crash_in("wfc-submitter", 1))).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => killed

    Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    => SUCCEEDED "R"
    "#);
}

#[tokio::test]
async fn a_submitter_is_retried_and_its_failure_closes_the_context() {
    check!(calls_of(exchange(1)).await, @r#"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter RETRY!
    => PENDING

    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    => SUCCEEDED "R"
    "#);
    check!(calls_of(exchange(2)).await, @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter RETRY!
    => PENDING

    Step wfc-submitter START~, Step wfc-submitter FAIL!
    WaitForCallback wfc FAIL!
    => FAILED CallbackSubmitterError: nosub
    ");
    check!(calls_of(exchange(2).fault(Fault::CrashAfter(4))).await, @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter RETRY!
    => PENDING

    Step wfc-submitter START~, Step wfc-submitter FAIL!
    WaitForCallback wfc FAIL!
    => killed

    => FAILED CallbackSubmitterError: nosub
    ");
}

#[tokio::test]
async fn a_reply_that_is_a_failure_closes_the_context() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.wait_for_callback::<String, _, _, _>("wfc", async |_| Sure::Ok(()))
            .await
    })
    .callback("wfc", Answer::fail("Ext", "no").after(secs(5)));
    check!(calls_of(kit.clone()).await, @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc FAIL!
    => FAILED Ext: no
    ");
    check!(calls_of(kit.fault(Fault::CrashAfter(3))).await, @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc FAIL!
    => killed

    => FAILED Ext: no
    ");
}

// --- wait_for_condition -----------------------------------------------------------------------

fn condition(until: u32, body_takes: u64) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        let check = move |n: u32, _| async move {
            tokio::time::sleep(millis(body_takes)).await;
            Sure::Ok(n + 1)
        };
        let strategy = WaitStrategy::until(move |n: &u32| *n >= until)
            .fixed_delay(secs(10))
            .max_attempts(3);
        ctx.wait_for_condition("cond", 0, check, strategy).await
    })
}

#[tokio::test]
async fn a_condition_starts_before_every_poll() {
    check!(calls_of(condition(1, 0)).await, @"
    WaitForCondition cond START~, WaitForCondition cond SUCCEED!
    => SUCCEEDED 1
    ");
    check!(calls_of(condition(2, 0)).await, @"
    WaitForCondition cond START~, WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~, WaitForCondition cond SUCCEED!
    => SUCCEEDED 2
    ");
    check!(calls_of(condition(2, 250)).await, @"
    WaitForCondition cond START~
    WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~
    WaitForCondition cond SUCCEED!
    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn a_condition_goes_on_from_every_state() {
    check!(calls_of(condition(2, 250).fault(crash_in("cond", 2))).await, @"
    WaitForCondition cond START~
    WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~
    => killed

    WaitForCondition cond SUCCEED!
    => SUCCEEDED 2
    ");
    check!(calls_of(condition(2, 0).fault(Fault::CrashAfter(1))).await, @"
    WaitForCondition cond START~, WaitForCondition cond RETRY!
    => killed

    => PENDING

    WaitForCondition cond START~, WaitForCondition cond SUCCEED!
    => SUCCEEDED 2
    ");
    check!(calls_of(condition(2, 0).fault(Fault::CrashAfter(2))).await, @"
    WaitForCondition cond START~, WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~, WaitForCondition cond SUCCEED!
    => killed

    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn a_condition_fails_when_its_checks_are_used_up_or_one_fails() {
    check!(calls_of(condition(9, 0)).await, @"
    WaitForCondition cond START~, WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~, WaitForCondition cond RETRY!
    => PENDING

    WaitForCondition cond START~, WaitForCondition cond FAIL!
    => FAILED WaitForConditionError: the condition was not met after 3 checks
    ");
    let broken = TestKit::new("f", async |ctx: Context, (): ()| {
        let strategy = WaitStrategy::until(|_| true);
        ctx.wait_for_condition(
            "cond",
            0,
            async |_: u32, _| Err::<u32, _>("chkfail"),
            strategy,
        )
        .await
    });
    check!(calls_of(broken.clone()).await, @"
    WaitForCondition cond START~, WaitForCondition cond FAIL!
    => FAILED Error: chkfail
    ");
    check!(calls_of(broken.fault(Fault::CrashAfter(1))).await, @"
    WaitForCondition cond START~, WaitForCondition cond FAIL!
    => killed

    => FAILED Error: chkfail
    ");
}

// --- child contexts ---------------------------------------------------------------------------

fn child() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            let value: String = ctx.step("s", async |_| Sure::Ok("x".to_owned())).await?;
            ctx.named_wait("w", secs(10)).await?;
            Ok(value)
        })
        .await
    })
}

#[tokio::test]
async fn a_child_context_starts_with_its_first_operation_and_ends_with_a_request_of_its_own() {
    check!(calls_of(child()).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_child_context_goes_on_from_every_state() {
    check!(calls_of(child().fault(Fault::CrashAfter(1))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    => killed

    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(child().fault(Fault::CrashAfter(2))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => killed

    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(child().fault(Fault::CrashAfter(3))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_child_context_without_operations_is_one_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |_| Ok("x".to_owned()))
            .await
    });
    check!(calls_of(kit).await, @r#"
    RunInChildContext ch START~, RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_failing_child_context_records_the_escaping_error() {
    let direct = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |_| Err::<(), _>(Error::new("Mine", "chfail")))
            .await
    });
    check!(calls_of(direct.clone()).await, @"
    RunInChildContext ch START~, RunInChildContext ch FAIL!
    => FAILED Mine: chfail
    ");
    check!(calls_of(direct.fault(Fault::CrashAfter(1))).await, @"
    RunInChildContext ch START~, RunInChildContext ch FAIL!
    => killed

    => FAILED Mine: chfail
    ");
    let through_a_step = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            ctx.step("s", async |_| Err::<(), _>("boom"))
                .retry(Retry::none())
                .await
        })
        .await
    });
    check!(calls_of(through_a_step.clone()).await, @"
    RunInChildContext ch START~, Step s START~, Step s FAIL!
    RunInChildContext ch FAIL!
    => FAILED Error: boom
    ");
    check!(calls_of(through_a_step.fault(Fault::CrashAfter(1))).await, @"
    RunInChildContext ch START~, Step s START~, Step s FAIL!
    => killed

    RunInChildContext ch FAIL!
    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_flat_context_writes_nothing_of_its_own() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            ctx.step("s", async |_| Sure::Ok("x".to_owned())).await
        })
        .flat()
        .await
    });
    check!(calls_of(kit.clone()).await, @r#"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @r#"
    Step s START~, Step s SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_context_that_suspends_at_once_is_flushed_before_the_answer() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let callback = ctx.create_callback::<String>("cb").await?;
        ctx.run_in_child_context("ch", async |_| callback.result().await)
            .await
    })
    .callback("cb", Answer::succeed("R").after(secs(5)));
    check!(calls_of(kit.clone()).await, @r#"
    Callback cb START!
    RunInChildContext ch START~
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "R"
    "#);
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @r#"
    Callback cb START!
    => killed

    RunInChildContext ch START~
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "R"
    "#);
}

// --- batches ----------------------------------------------------------------------------------

fn map(concurrency: usize, nesting: Nesting, body_takes: u64) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        ctx.map("m", [1, 2], async |ctx, item| {
            ctx.step("s", move |_| async move {
                tokio::time::sleep(millis(body_takes)).await;
                Sure::Ok(item * 10)
            })
            .await
        })
        .max_concurrency(concurrency)
        .nesting(nesting)
        .await?
        .into_values()
    })
}

#[tokio::test]
async fn a_map_runs_its_items_one_after_another() {
    check!(calls_of(map(1, Nesting::Nested, 0)).await, @"
    Map m START~, MapIteration map-item-0 START~, Step s START~, Step s SUCCEED!
    MapIteration map-item-0 SUCCEED!
    MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
    MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
}

#[tokio::test]
async fn a_map_batches_what_its_items_do_side_by_side() {
    check!(calls_of(map(2, Nesting::Nested, 0)).await, @"
    Map m START~, MapIteration map-item-0 START~, Step s START~, Step s SUCCEED!, MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
    MapIteration map-item-0 SUCCEED!, MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
    check!(calls_of(map(2, Nesting::Nested, 250)).await, @"
    Map m START~, MapIteration map-item-0 START~, Step s START~, MapIteration map-item-1 START~, Step s START~
    Step s SUCCEED!, Step s SUCCEED!
    MapIteration map-item-0 SUCCEED!, MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
}

#[tokio::test]
async fn a_flat_map_records_no_items() {
    check!(calls_of(map(1, Nesting::Flat, 0)).await, @"
    Map m START~, Step s START~, Step s SUCCEED!
    Step s START~, Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
    check!(calls_of(map(2, Nesting::Flat, 0)).await, @"
    Map m START~, Step s START~, Step s SUCCEED!, Step s START~, Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
    check!(calls_of(map(1, Nesting::Flat, 0).fault(Fault::CrashAfter(1))).await, @"
    Map m START~, Step s START~, Step s SUCCEED!
    => killed

    Step s START~, Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
}

#[tokio::test]
async fn a_map_goes_on_from_every_state() {
    for request in 1..=5 {
        let shown = calls_of(map(1, Nesting::Nested, 0).fault(Fault::CrashAfter(request))).await;
        let (_, resumed) = shown.split_once("=> killed\n\n").unwrap();
        insta::allow_duplicates! {
            match request {
                1 => check!(resumed, @"
                MapIteration map-item-0 SUCCEED!
                MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
                MapIteration map-item-1 SUCCEED!
                Map m SUCCEED!
                => SUCCEEDED [10,20]
                "),
                2 => check!(resumed, @"
                MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
                MapIteration map-item-1 SUCCEED!
                Map m SUCCEED!
                => SUCCEEDED [10,20]
                "),
                3 => check!(resumed, @"
                MapIteration map-item-1 SUCCEED!
                Map m SUCCEED!
                => SUCCEEDED [10,20]
                "),
                4 => check!(resumed, @"
                Map m SUCCEED!
                => SUCCEEDED [10,20]
                "),
                _ => check!(resumed, @"=> SUCCEEDED [10,20]"),
            }
        }
    }
}

#[tokio::test]
async fn started_items_of_a_map_run_again_without_a_second_start() {
    let kit = map(2, Nesting::Nested, 250).fault(Fault::CrashAfter(1));
    check!(calls_of(kit).await, @"
    Map m START~, MapIteration map-item-0 START~, Step s START~, MapIteration map-item-1 START~, Step s START~
    => killed

    Step s SUCCEED!, Step s SUCCEED!
    MapIteration map-item-0 SUCCEED!, MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [10,20]
    ");
}

#[tokio::test]
async fn an_empty_map_is_one_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", [0; 0], async |_, item: u32| Ok(item))
            .await?
            .into_values()
    });
    check!(calls_of(kit).await, @"
    Map m START~, Map m SUCCEED!
    => SUCCEEDED []
    ");
}

#[tokio::test]
async fn a_parallel_of_constants_is_two_requests() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.parallel("p")
            .branch("", async |_| Ok("A".to_owned()))
            .branch("second", async |_| Ok("B".to_owned()))
            .await?
            .into_values()
    });
    check!(calls_of(kit).await, @r#"
    Parallel p START~, ParallelBranch parallel-branch-0 START~, ParallelBranch parallel-branch-0 SUCCEED!, ParallelBranch second START~, ParallelBranch second SUCCEED!
    Parallel p SUCCEED!
    => SUCCEEDED ["A","B"]
    "#);
}

fn waiting_item(body_takes: u64) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        ctx.map("m", [0, 1], async |ctx, item| {
            if item == 1 {
                ctx.named_wait("w", secs(1)).await?;
                return Ok("w".to_owned());
            }
            ctx.step("s", move |_| async move {
                tokio::time::sleep(millis(body_takes)).await;
                Sure::Ok("q".to_owned())
            })
            .await
        })
        .await?
        .into_values()
    })
}

#[tokio::test]
async fn a_waiting_item_suspends_only_when_no_other_can_run() {
    check!(calls_of(waiting_item(0)).await, @r#"
    Map m START~, MapIteration map-item-0 START~, Step s START~, Step s SUCCEED!, MapIteration map-item-1 START~, Wait w START!
    MapIteration map-item-0 SUCCEED!
    => PENDING

    MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED ["q","w"]
    "#);
    // The wait comes due while the other item runs: it is asked about, and goes on here.
    check!(calls_of(waiting_item(1_600)).await, @r#"
    Map m START~, MapIteration map-item-0 START~, Step s START~, MapIteration map-item-1 START~, Wait w START!
    (refresh)
    MapIteration map-item-1 SUCCEED!
    Step s SUCCEED!
    MapIteration map-item-0 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED ["q","w"]
    "#);
}

#[tokio::test]
async fn waits_that_are_due_together_are_asked_about_once() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", [0, 1, 2], async |ctx, item| {
            if item > 0 {
                return ctx.named_wait("w", secs(1)).await;
            }
            ctx.step("s", async |_| {
                tokio::time::sleep(millis(1_600)).await;
                Sure::Ok(())
            })
            .await
        })
        .nesting(Nesting::Flat)
        .await?
        .into_values()
    });
    check!(calls_of(kit).await, @"
    Map m START~, Step s START~, Wait w START!, Wait w START!
    (refresh)
    Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [null,null,null]
    ");
}

#[tokio::test]
async fn a_waiting_item_keeps_its_slot() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", [0, 1], async |ctx, item| {
            if item == 0 {
                ctx.named_wait("w", secs(1)).await?;
                return Ok("w".to_owned());
            }
            ctx.step("s", async |_| Sure::Ok("q".to_owned())).await
        })
        .max_concurrency(1)
        .await?
        .into_values()
    });
    check!(calls_of(kit).await, @r#"
    Map m START~, MapIteration map-item-0 START~, Wait w START!
    => PENDING

    MapIteration map-item-0 SUCCEED!
    MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
    MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED ["w","q"]
    "#);
}

#[tokio::test]
async fn a_map_that_ends_early_writes_nothing_for_what_was_unfinished() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let result = ctx
            .map("m", [0, 1, 2], async |ctx, item| {
                ctx.step("s", move |_| async move {
                    tokio::time::sleep(millis(item * 100)).await;
                    Sure::Ok(item)
                })
                .await
            })
            .completion(Completion::first_successful())
            .await?;
        Ok::<_, Error>((result.completion_reason(), result.started_count()))
    });
    check!(calls_of(kit).await, @r#"
    Map m START~, MapIteration map-item-0 START~, Step s START~, Step s SUCCEED!, MapIteration map-item-1 START~, Step s START~, MapIteration map-item-2 START~, Step s START~
    MapIteration map-item-0 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED ["MIN_SUCCESSFUL_REACHED",2]
    "#);
}

#[tokio::test]
async fn a_failing_item_ends_the_map_and_the_map_succeeds() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", [0, 1, 2], async |_, item| match item {
            1 => Err(Error::new("Mine", "no")),
            _ => Ok(item),
        })
        .max_concurrency(1)
        .await?
        .into_values()
    });
    check!(calls_of(kit.clone()).await, @"
    Map m START~, MapIteration map-item-0 START~, MapIteration map-item-0 SUCCEED!
    MapIteration map-item-1 START~, MapIteration map-item-1 FAIL!
    Map m SUCCEED!
    => FAILED Mine: no
    ");
    check!(calls_of(kit.fault(Fault::CrashAfter(3))).await, @"
    Map m START~, MapIteration map-item-0 START~, MapIteration map-item-0 SUCCEED!
    MapIteration map-item-1 START~, MapIteration map-item-1 FAIL!
    Map m SUCCEED!
    => killed

    => FAILED Mine: no
    ");
}

#[tokio::test]
async fn a_custom_rule_can_end_a_map_before_anything_starts() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let result = ctx
            .map("m", [0, 1], async |_, item| Ok(item))
            .complete_when(|_, _| CompletionDecision::Fail)
            .await?;
        Ok::<_, Error>((result.completion_reason(), result.total_count()))
    });
    check!(calls_of(kit).await, @r#"
    Map m START~, Map m SUCCEED!
    => SUCCEEDED ["CUSTOM_COMPLETION_FAILED",0]
    "#);
}

#[tokio::test]
async fn batched_items_share_an_iteration() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", 0..5, async |ctx, item| {
            ctx.step("s", move |_| async move { Sure::Ok(item) }).await
        })
        .batch_size(3)
        .await?
        .into_values()
    });
    check!(calls_of(kit).await, @"
    Map m START~, MapIteration map-item-0 START~, Step s START~, Step s SUCCEED!, MapIteration map-item-1 START~, Step s START~, Step s SUCCEED!
    Step s START~, Step s SUCCEED!, Step s START~, Step s SUCCEED!
    Step s START~, Step s SUCCEED!, MapIteration map-item-1 SUCCEED!
    MapIteration map-item-0 SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [0,1,2,3,4]
    ");
}

// --- combinators ------------------------------------------------------------------------------

fn inputs(ctx: &Context) -> [Input<String>; 2] {
    let step = ctx.step("slow", async |_| {
        tokio::time::sleep(secs(3)).await;
        Sure::Ok("step".to_owned())
    });
    let wait = ctx.named_wait("w", secs(10)).future();
    [
        Box::pin(step.future()),
        Box::pin(async { wait.await.map(|()| "wait".to_owned()) }),
    ]
}

#[tokio::test]
async fn a_race_records_its_winner_before_the_loser_can_suspend_it() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let inputs = inputs(&ctx);
        let first = ctx.race("race", inputs).await?;
        ctx.wait(secs(1)).await?;
        Ok::<_, Error>(first)
    });
    check!(calls_of(kit.clone()).await, @r#"
    RunInChildContext race START~, Step slow START~, Wait w START!
    Step slow SUCCEED!
    RunInChildContext race SUCCEED!
    Wait START!
    => PENDING

    => SUCCEEDED "step"
    "#);
    // Recorded: the inputs are made, and nothing of them runs.
    check!(calls_of(kit.fault(Fault::CrashAfter(4))).await, @r#"
    RunInChildContext race START~, Step slow START~, Wait w START!
    Step slow SUCCEED!
    RunInChildContext race SUCCEED!
    Wait START!
    => killed

    => SUCCEEDED "step"
    "#);
}

#[tokio::test]
async fn joins_record_all_outcomes() {
    let all = TestKit::new("f", async |ctx: Context, (): ()| {
        let inputs = inputs(&ctx);
        ctx.try_join_all("all", inputs).await
    });
    check!(calls_of(all).await, @r#"
    RunInChildContext all START~, Step slow START~, Wait w START!
    Step slow SUCCEED!
    => PENDING

    RunInChildContext all SUCCEED!
    => SUCCEEDED ["step","wait"]
    "#);
    let settled = TestKit::new("f", async |ctx: Context, (): ()| {
        let good = ctx.step("good", async |_| Ok::<_, &str>(1));
        let bad = ctx.step("bad", async |_| Err("no")).retry(Retry::none());
        let outcomes = ctx.join_all("settled", [good, bad]).await?;
        Ok::<_, Error>(
            outcomes
                .into_iter()
                .map(|outcome| outcome.ok())
                .collect::<Vec<_>>(),
        )
    });
    check!(calls_of(settled).await, @"
    RunInChildContext settled START~, Step good START~, Step good SUCCEED!, Step bad START~, Step bad FAIL!
    RunInChildContext settled SUCCEED!
    => SUCCEEDED [1,null]
    ");
}

#[tokio::test]
async fn a_combinator_whose_inputs_fail_records_its_failure() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let bad = |name| {
            ctx.step(name, async |_| Err::<u32, _>("no"))
                .retry(Retry::none())
        };
        ctx.select_ok("any", [bad("a"), bad("b")]).await
    });
    check!(calls_of(kit.clone()).await, @"
    RunInChildContext any START~, Step a START~, Step a FAIL!, Step b START~, Step b FAIL!
    RunInChildContext any FAIL!
    => FAILED CombinatorError: all 2 inputs failed: Error: no; Error: no
    ");
    check!(calls_of(kit.fault(Fault::CrashAfter(2))).await, @"
    RunInChildContext any START~, Step a START~, Step a FAIL!, Step b START~, Step b FAIL!
    RunInChildContext any FAIL!
    => killed

    => FAILED CombinatorError: all 2 inputs failed: Error: no; Error: no
    ");
    let first = TestKit::new("f", async |ctx: Context, (): ()| {
        let bad = ctx.step("bad", async |_| Err("no")).retry(Retry::none());
        let slow = ctx.step("slow", async |_| {
            tokio::time::sleep(secs(1)).await;
            Ok::<_, &str>(1)
        });
        ctx.try_join_all("all", [bad.future(), slow.future()]).await
    });
    check!(calls_of(first).await, @"
    RunInChildContext all START~, Step bad START~, Step bad FAIL!, Step slow START~
    RunInChildContext all FAIL!
    => FAILED Error: no
    ");
}

#[tokio::test]
async fn empty_joins_are_recorded() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.try_join_all::<u32, _>("all", Vec::<Input<u32>>::new())
            .await
    });
    check!(calls_of(kit).await, @"
    RunInChildContext all START~, RunInChildContext all SUCCEED!
    => SUCCEEDED []
    ");
}

// --- with_retry and saga ----------------------------------------------------------------------

fn block(failures: u32) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        let retry = Retry::fixed(secs(10)).max_attempts(2);
        ctx.with_retry("block", retry, async |ctx, attempt| {
            ctx.step("s", move |_| async move {
                match attempt <= failures {
                    true => Err("boom"),
                    false => Ok(attempt),
                }
            })
            .retry(Retry::none())
            .await
        })
        .await
    })
}

#[tokio::test]
async fn a_retried_block_has_a_context_per_attempt_and_a_wait_between() {
    check!(calls_of(block(0)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-1 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 1
    ");
    check!(calls_of(block(1)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-2 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 2
    ");
    check!(calls_of(block(2)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-2 FAIL!
    RunInChildContext block FAIL!
    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_retried_block_goes_on_after_a_crash_in_its_wait() {
    check!(calls_of(block(1).fault(Fault::CrashAfter(3))).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => killed

    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-2 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn a_saga_undoes_in_reverse_each_part_as_a_step() {
    async fn handler(ctx: Context, (): ()) -> Result<()> {
        ctx.saga(async |saga| {
            for part in ["a", "b"] {
                ctx.step(part, async |_| Sure::Ok(1)).await?;
                saga.undo(&format!("undo-{part}"), async |_| Sure::Ok(()));
            }
            ctx.step("c", async |_| Err("no"))
                .retry(Retry::none())
                .await
        })
        .await
    }
    let kit = TestKit::new("f", handler);
    check!(calls_of(kit.clone()).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    Step c START~, Step c FAIL!
    Step undo-b START~, Step undo-b SUCCEED!
    Step undo-a START~, Step undo-a SUCCEED!
    => FAILED Error: no
    ");
    // A crash in the middle of undoing continues where it was.
    check!(calls_of(kit.fault(Fault::CrashAfter(4))).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    Step c START~, Step c FAIL!
    Step undo-b START~, Step undo-b SUCCEED!
    => killed

    Step undo-a START~, Step undo-a SUCCEED!
    => FAILED Error: no
    ");
}

// --- spawned work, sequences ------------------------------------------------------------------

#[tokio::test]
async fn steps_in_sequence_never_share_a_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.step("s1", async |_| Sure::Ok(1)).await?;
        ctx.named_wait("w", secs(1)).await?;
        ctx.step("s2", async |_| Sure::Ok(2)).await
    });
    check!(calls_of(kit).await, @"
    Step s1 START~, Step s1 SUCCEED!
    Wait w START!
    => PENDING

    Step s2 START~, Step s2 SUCCEED!
    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn spawned_operations_share_a_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let first = ctx.step("s1", async |_| Sure::Ok(1)).spawn();
        let second = ctx.named_wait("w", secs(1)).spawn();
        let third = ctx.step("s2", async |_| Sure::Ok(2)).spawn();
        let sum = first.await? + third.await?;
        second.await?;
        Ok::<_, Error>(sum)
    });
    check!(calls_of(kit).await, @"
    Step s1 START~, Step s1 SUCCEED!, Wait w START!, Step s2 START~, Step s2 SUCCEED!
    => PENDING

    => SUCCEEDED 3
    ");
}

#[tokio::test]
async fn an_operation_that_is_never_awaited_records_nothing() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let _unused = ctx.step("unused", async |_| Sure::Ok(1));
        ctx.step("used", async |_| Sure::Ok(2)).await
    });
    let run = kit.run(()).await;
    check!(calls(&run), @"
    Step used START~, Step used SUCCEED!
    => SUCCEEDED 2
    ");
    // It has consumed a position all the same.
    let second = outlast::core::id::Position::root().child(2).id();
    assert_eq!(run.operation("used").unwrap().id, second);
}

#[tokio::test]
async fn a_handler_without_operations_asks_nothing() {
    check!(calls_of(TestKit::new("f", async |_: Context, (): ()| Sure::Ok(1))).await, @"=> SUCCEEDED 1");
}

#[tokio::test]
async fn every_update_names_its_operation_and_its_parent() {
    let kits = [
        exchange(1),
        child(),
        map(2, Nesting::Nested, 250),
        map(2, Nesting::Flat, 0),
        block(1),
        condition(2, 250),
    ];
    for kit in kits {
        let run = kit.run(()).await;
        let mut nested = 0;
        let requests = run.invocations().iter().flat_map(|i| &i.requests);
        for (update, _) in requests.flat_map(|request| &request.updates) {
            let mut operations = run.operations().iter();
            let operation = operations.find(|known| known.id == update.id).unwrap();
            assert_eq!(update.parent_id, operation.parent_id);
            assert_eq!(update.name, operation.name);
            assert_eq!(update.sub_type, operation.sub_type);
            nested += usize::from(update.parent_id.is_some());
        }
        let has_children = run
            .operations()
            .iter()
            .any(|known| known.parent_id.is_some());
        assert_eq!(nested > 0, has_children);
    }
}

// --- large results ----------------------------------------------------------------------------

/// A text whose JSON form has this many bytes.
fn text_of(bytes: usize) -> String {
    "x".repeat(bytes - 2)
}

#[tokio::test]
async fn a_context_result_above_256_kib_is_replaced_and_its_body_runs_again_on_replay() {
    let kit = |bytes: usize| {
        TestKit::new("f", move |ctx: Context, (): ()| async move {
            let text: String = ctx
                .run_in_child_context("ch", async |ctx| {
                    let x: String = ctx.step("s", async |_| Sure::Ok("x".to_owned())).await?;
                    Ok(x.repeat(bytes - 2))
                })
                .await?;
            ctx.named_wait("w", secs(1)).await?;
            Ok::<_, Error>(text == text_of(bytes))
        })
    };
    for (bytes, stored, children) in [
        (262_143, 262_143, false),
        (262_144, 262_144, false),
        (262_145, 0, true),
    ] {
        let run = kit(bytes).run(()).await;
        let context = run
            .operation("ch")
            .unwrap()
            .context_details
            .clone()
            .unwrap();
        assert_eq!(context.result.as_deref().map(str::len), Some(stored));
        assert_eq!(context.replay_children, children);
        insta::allow_duplicates! {
            check!(calls(&run), @"
            RunInChildContext ch START~, Step s START~, Step s SUCCEED!
            RunInChildContext ch SUCCEED!
            Wait w START!
            => PENDING

            => SUCCEEDED true
            ");
        }
    }
}

#[tokio::test]
async fn the_size_of_a_context_result_is_counted_in_bytes_not_characters() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let text: String = ctx
            .run_in_child_context("ch", async |_| Ok("ä".repeat(131_072)))
            .await?;
        Ok::<_, Error>(text.len())
    });
    let run = kit.run(()).await;
    assert!(run.operation("ch").unwrap().replays_children());
    assert_eq!(run.result::<usize>().unwrap(), 262_144);
}

#[tokio::test]
async fn a_large_batch_result_is_replaced_by_a_summary_and_rebuilt_from_its_items() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let texts: Vec<String> = ctx
            .map("m", [0, 1], async |_, item: usize| {
                Ok("x".repeat(200_000 + item))
            })
            .await?
            .into_values()?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(texts.iter().map(String::len).collect::<Vec<_>>())
    });
    let run = kit.run(()).await;
    check!(calls(&run), @"
    Map m START~, MapIteration map-item-0 START~, MapIteration map-item-0 SUCCEED!, MapIteration map-item-1 START~, MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED [200000,200001]
    ");
    let stored = run.operation("m").unwrap().context_details.clone().unwrap();
    check!(stored.result.unwrap(), @r#"{"type":"MapResult","totalCount":2,"completionReason":"ALL_COMPLETED","startedIndexes":[],"startedCount":0,"successCount":2,"failureCount":0,"status":"SUCCEEDED","itemStatuses":"SS"}"#);
    assert!(stored.replay_children);
    assert_eq!(run.result::<Vec<usize>>().unwrap(), [200_000, 200_001]);
}

#[tokio::test]
async fn a_large_race_records_only_its_winner_and_reads_it_again() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let text = |name: &'static str, after: u64| {
            ctx.step(name, move |_| async move {
                tokio::time::sleep(millis(after)).await;
                Sure::Ok(name.repeat(300_000))
            })
        };
        let inputs = [text("a", 500), text("b", 100)];
        let first: String = ctx.race("race", inputs).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(first.get(..1).unwrap_or_default().to_owned())
    });
    let run = kit.run(()).await;
    check!(calls(&run), @r#"
    RunInChildContext race START~, Step a START~, Step b START~
    Step b SUCCEED!
    RunInChildContext race SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED "b"
    "#);
    check!(run.operation("race").unwrap().result().unwrap(), @r#"{"winner":1}"#);
    assert_eq!(run.result::<String>().unwrap(), "b");
}

#[tokio::test]
async fn a_large_callback_reply_is_not_stored_twice() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let reply: String = ctx.wait_for_callback("wfc", async |_| Sure::Ok(())).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(reply.len())
    });
    let run = kit
        .callback("wfc", Answer::succeed(&"x".repeat(262_145)))
        .run(())
        .await;
    assert!(run.operation("wfc").unwrap().replays_children());
    check!(calls(&run), @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED 262145
    ");
}

#[tokio::test]
async fn a_final_result_above_the_answer_limit_travels_as_an_update() {
    const LIMIT: usize = 6 * 1024 * 1024 - 50;
    for (bytes, answered, written) in [
        (LIMIT - 1, LIMIT - 1, 0),
        (LIMIT, LIMIT, 0),
        (LIMIT + 1, 0, LIMIT + 1),
    ] {
        let function = Function::new("f", move |_: Context, (): ()| async move {
            Sure::Ok(text_of(bytes))
        });
        let backend = Arc::new(Fake::default());
        let outcome = backend.invoke(&function, Vec::new()).await;
        let answer = outcome.answer.unwrap();
        assert_eq!(answer.status, InvocationStatus::Succeeded);
        assert_eq!(answer.result.map(|result| result.len()), Some(answered));
        let updates: Vec<_> = backend
            .written()
            .into_iter()
            .flat_map(|r| r.updates)
            .collect();
        assert_eq!(updates.len(), usize::from(written > 0));
        for update in updates {
            // The execution's own id, and nothing that belongs to operations.
            assert_eq!(update.id.as_str(), "e1");
            assert_eq!(update.operation_type, OperationType::Execution);
            assert_eq!(update.action, OperationAction::Succeed);
            assert_eq!(update.payload.map(|payload| payload.len()), Some(written));
            assert!(
                update.name.is_none() && update.sub_type.is_none() && update.parent_id.is_none()
            );
        }
    }
}

#[tokio::test]
async fn a_final_error_above_the_answer_limit_travels_as_an_update() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| -> Result<()> {
        ctx.step("s", async |_| Sure::Ok(1)).await?;
        Err(Error::new("Mine", "e".repeat(6 * 1024 * 1024)))
    });
    let run = kit
        .quotas(|quotas| quotas.error_bytes_max = 8 * 1024 * 1024)
        .run(())
        .await;
    check!(calls(&run), @"
    Step s START~, Step s SUCCEED!
    EXECUTION FAIL!
    => FAILED without an error
    ");
    assert_eq!(run.error().unwrap().error_type.as_deref(), Some("Mine"));
}
