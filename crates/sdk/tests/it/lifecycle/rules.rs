//! The four termination rules, alone and together, and the reason a suspension gives.

use super::*;
use outlast::{
    Retry,
    TerminationReason::*,
    WaitStrategy,
    testing::{Answer, Fault},
};

#[tokio::test]
async fn with_nothing_else_to_do_a_wait_suspends() {
    let run = kit(async |ctx| ctx.wait(secs(5)).await).run(()).await;
    run.result::<()>().unwrap();
    assert_eq!(reasons(&run), [Some(WaitScheduled), None]);
    assert_eq!(refreshes(&run), 0);
}

#[tokio::test]
async fn an_executing_body_keeps_the_invocation_while_a_wait_is_pending() {
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(5)).spawn();
        ctx.step("busy", async |_| busy(secs(20)).await).await?;
        wait.await
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_request_in_flight_keeps_the_invocation_while_everything_waits() {
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(5)).spawn();
        ctx.step("first", async |_| busy(millis(0)).await).await?;
        ctx.step("second", async |_| busy(millis(0)).await).await?;
        wait.await
    })
    .fault(Fault::Slow(2, secs(30)))
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_refresh_in_flight_keeps_the_invocation_while_everything_waits() {
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(5)).spawn();
        // Ends a second after the refresh went out, and writes nothing.
        ctx.run_in_child_context("idle", async |_| {
            tokio::time::sleep(secs(6)).await;
            Ok(())
        })
        .flat()
        .await?;
        wait.await
    })
    .fault(Fault::Slow(2, secs(10)))
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(reasons(&run), [None]);
    insta::assert_snapshot!(run.requests_text(), @"
    Wait START!
    (refresh)
    ");
}

#[tokio::test]
async fn a_start_that_lingers_is_written_before_the_invocation_suspends() {
    let run = kit(async |ctx| {
        let flaky = ctx
            .step("flaky", async |step| flaky(step.attempt(), 2))
            .spawn();
        let flaky = std::sync::Mutex::new(Some(flaky));
        ctx.step("after", async |_| {
            let handle = flaky.lock().unwrap().take();
            handle.unwrap().await
        })
        .await
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 2);
    assert_eq!(reasons(&run), [Some(RetryScheduled), None]);
    // The body of 'after' was dropped with its start recorded: it runs again without another one.
    insta::assert_snapshot!(run.requests_text(), @"
    Step after START~, Step flaky START~, Step flaky RETRY!

    Step flaky START~, Step flaky SUCCEED!
    Step after SUCCEED!
    ");
}

#[tokio::test]
async fn all_rules_together_keep_the_invocation_until_the_last_one_is_over() {
    let run = kit(async |ctx| {
        let short = ctx.wait(secs(5)).spawn();
        let long = ctx.wait(secs(12)).spawn();
        let busy = ctx.step("busy", async |_| busy(secs(6)).await).spawn();
        let (short, long, busy) = tokio::join!(short, long, busy);
        short.and(long).and(busy.map(drop))
    })
    .fault(Fault::Slow(2, secs(3)))
    .fault(Fault::Slow(3, secs(3)))
    .run(())
    .await;
    run.result::<()>().unwrap();
    // The body ends at 6 s and its outcome is written at about 11 s; nothing holds on until 12 s.
    assert_eq!(reasons(&run), [Some(WaitScheduled), None]);
}

#[tokio::test]
async fn a_handler_that_is_about_to_finish_is_not_suspended() {
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(5)).future();
        let step = ctx.step("quick", async |_| busy(millis(1)).await).future();
        // The loser is pending when the handler returns.
        tokio::select! {
            step = step => step,
            wait = wait => wait.map(|()| 0),
        }
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn every_kind_of_operation_gives_its_reason() {
    let retry = kit(async |ctx| {
        ctx.step("flaky", async |step| flaky(step.attempt(), 2))
            .sub_type("Payment")
            .await
    });
    assert_eq!(reasons(&retry.run(()).await)[0], Some(RetryScheduled));
    let wait = kit(async |ctx| ctx.wait(secs(1)).await);
    assert_eq!(reasons(&wait.run(()).await)[0], Some(WaitScheduled));
    let callback = kit(async |ctx| ctx.create_callback::<String>("c").await?.result().await)
        .callback("c", Answer::succeed("yes").after(secs(1)));
    assert_eq!(reasons(&callback.run(()).await)[0], Some(CallbackPending));
    let signal = kit(async |ctx| ctx.wait_signal::<String>("s").await);
    assert_eq!(reasons(&signal.run(()).await)[0], Some(CallbackPending));
    let invoke = kit(async |ctx| ctx.invoke::<_, u32>("i", "other", 1).await)
        .scripted("other", [Answer::json(1).after(secs(1))]);
    assert_eq!(reasons(&invoke.run(()).await)[0], Some(CallbackPending));
    let condition = kit(async |ctx| {
        let until = WaitStrategy::until(|n: &u32| *n > 1).fixed_delay(secs(1));
        ctx.wait_for_condition("poll", 0, async |n, _| Ok::<_, io::Error>(n + 1), until)
            .await
    });
    assert_eq!(reasons(&condition.run(()).await)[0], Some(CallbackPending));
}

#[tokio::test]
async fn a_retry_is_a_better_reason_than_a_wait_and_a_wait_than_a_callback() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("c").await?;
        let flaky = ctx
            .step("flaky", async |step| flaky(step.attempt(), 2))
            .retry(Retry::fixed(secs(2)));
        let (flaky, wait, callback) = tokio::join!(flaky, ctx.wait(secs(4)), callback.result());
        flaky.and(wait).and(callback)
    })
    .callback("c", Answer::succeed("yes").after(secs(6)))
    .run(())
    .await;
    assert_eq!(run.result::<String>().unwrap(), "yes");
    assert_eq!(
        reasons(&run),
        [
            Some(RetryScheduled),
            Some(WaitScheduled),
            Some(CallbackPending),
            None
        ]
    );
}

#[tokio::test]
async fn a_wait_that_nobody_awaits_is_still_a_reason() {
    let run = kit(async |ctx| {
        let _unawaited = ctx.wait(secs(60)).spawn();
        ctx.create_callback::<String>("c").await?.result().await
    })
    .callback("c", Answer::succeed("yes").after(secs(6)))
    .run(())
    .await;
    assert_eq!(run.result::<String>().unwrap(), "yes");
    assert_eq!(reasons(&run), [Some(WaitScheduled), None]);
}

#[tokio::test]
async fn a_mismatch_is_stronger_than_a_suspension_and_than_a_result() {
    let function = |steps: bool, suspends: bool| {
        outlast::Function::new("f", move |ctx: Context, (): ()| async move {
            let spawned = if steps {
                ctx.step("was a wait", async |_| busy(secs(0)).await)
                    .spawn()
            } else {
                ctx.run_in_child_context("was a wait", async |ctx| {
                    ctx.wait(secs(1)).await?;
                    Ok(1)
                })
                .spawn()
            };
            if suspends {
                ctx.wait(secs(50)).await?;
            }
            drop(spawned);
            Ok::<_, outlast::Error>(())
        })
    };
    for suspends in [false, true] {
        let mut run = TestKit::of(function(false, true)).start(()).await;
        run.run_once().await;
        run.deploy(function(true, suspends)).await;
        run.run_until_complete().await;
        let held = run.held().expect("it is held for a fixed build");
        assert_eq!(
            held.error_type.as_deref(),
            Some("NonDeterministicExecutionError"),
            "{held}"
        );
    }
}
