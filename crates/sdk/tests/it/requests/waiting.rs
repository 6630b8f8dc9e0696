//! The requests of what waits for the outside: waits, callbacks, invokes, signals, conditions.

use super::*;

// --- wait, callback, invoke, signal --------------------------------------------------------

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

    => FAILED Callback.Timeout: Callback timed out
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

    => FAILED Callback.Timeout: Callback timed out
    ");
}

// --- wait_for_callback ---------------------------------------------------------------------

pub(super) fn exchange(failures: u32) -> TestKit {
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

// --- wait_for_condition --------------------------------------------------------------------

pub(super) fn condition(until: u32, body_takes: u64) -> TestKit {
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
