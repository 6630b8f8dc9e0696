//! The requests of steps.

use super::*;

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
