//! Losers, latecomers and circles: who waits for whom when not everybody is awaited.

use super::*;
use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use outlast::{Config, DurableFuture, Function, Retry, StepContext, testing::Answer};
use std::{
    pin::{Pin, pin},
    sync::Mutex,
};

type Slot<T> = Arc<Mutex<Option<DurableFuture<T>>>>;

fn slot<T>(handle: DurableFuture<T>) -> Slot<T> {
    Arc::new(Mutex::new(Some(handle)))
}

/// A body that waits a moment and then awaits the handle in the slot.
fn awaits(
    slot: &Slot<u32>,
    after: Duration,
) -> impl Fn(StepContext) -> Body + Send + Sync + 'static {
    let slot = slot.clone();
    move |_| {
        let slot = slot.clone();
        Box::pin(async move {
            tokio::time::sleep(after).await;
            take(&slot).await
        })
    }
}

type Body = BoxFuture<'static, Result<u32>>;

fn take<T>(slot: &Slot<T>) -> DurableFuture<T> {
    slot.lock().unwrap().take().expect("it is awaited once")
}

#[tokio::test]
async fn a_body_that_awaits_a_step_which_is_being_retried_suspends_and_finishes() {
    for spawned in [false, true] {
        let bodies = Counter::default();
        let counted = bodies.clone();
        let run = kit(move |ctx| {
            let bodies = counted.clone();
            async move {
                let flaky = ctx
                    .step("flaky", async |step| flaky(step.attempt(), 3))
                    .retry(Retry::fixed(secs(60)))
                    .spawn();
                let flaky = slot(flaky);
                let sum = ctx.step("sum", move |_| {
                    bodies.add();
                    let flaky = take(&flaky);
                    async move { flaky.await.map(|attempt| attempt * 10) }
                });
                if spawned {
                    sum.spawn().await
                } else {
                    sum.await
                }
            }
        })
        .run(())
        .await;
        assert_eq!(run.result::<u32>().unwrap(), 30);
        let suspended = Some(TerminationReason::RetryScheduled);
        assert_eq!(reasons(&run), [suspended, suspended, None]);
        assert_eq!(
            bodies.get(),
            3,
            "the body is dropped at each suspension and runs again"
        );
        assert_eq!((run.attempts("flaky"), run.attempts("sum")), (3, 1));
    }
}

#[tokio::test]
async fn a_chain_of_bodies_each_awaiting_the_next_suspends_and_finishes() {
    let run = kit(async |ctx| {
        let mut last = ctx
            .step("flaky", async |step| flaky(step.attempt(), 2))
            .retry(Retry::fixed(secs(60)))
            .spawn();
        for _ in 0..20 {
            let before = slot(last);
            let next = ctx.step("next", move |_| {
                let before = take(&before);
                async move { before.await.map(|sum| sum + 1) }
            });
            last = next.spawn();
        }
        last.await
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 22);
    assert_eq!(
        reasons(&run),
        [Some(TerminationReason::RetryScheduled), None]
    );
}

/// Spawns two steps whose bodies await each other's handles, and waits until both do.
async fn circle(ctx: &Context) -> Result<()> {
    let (left, right): (Slot<u32>, Slot<u32>) = (Slot::default(), Slot::default());
    let first = ctx.step("left", awaits(&right, secs(1)));
    let second = ctx.step("right", awaits(&left, secs(1)));
    *left.lock().unwrap() = Some(first.spawn());
    *right.lock().unwrap() = Some(second.spawn());
    let both = (left, right);
    let watch = ctx.step("watch", move |_| {
        let (left, right) = both.clone();
        async move {
            tokio::time::sleep(secs(2)).await;
            Ok::<_, io::Error>(left.lock().unwrap().is_none() && right.lock().unwrap().is_none())
        }
    });
    assert!(watch.await?, "both bodies await the other's handle");
    Ok(())
}

#[tokio::test]
async fn bodies_that_await_each_other_hold_neither_the_handler_nor_the_invocation() {
    let run = kit(async |ctx| circle(&ctx).await).run(()).await;
    run.result::<()>().unwrap();
    assert_eq!(reasons(&run), [None]);
    let run = kit(async |ctx| {
        circle(&ctx).await?;
        ctx.wait(secs(60)).await
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(
        reasons(&run),
        [Some(TerminationReason::WaitScheduled), None]
    );
}

#[tokio::test]
async fn bodies_that_await_each_other_are_an_error_where_unawaited_work_is_one() {
    let function = Function::new("f", async |ctx: Context, (): ()| circle(&ctx).await)
        .config(Config::new().fail_on_unawaited(true));
    let run = TestKit::of(function)
        .function_timeout(secs(3_600))
        .run(())
        .await;
    let error = run.error().unwrap();
    assert_eq!(error.error_type.as_deref(), Some("UnawaitedError"));
}

#[tokio::test]
async fn waiting_for_what_nobody_will_ever_finish_is_an_error_and_not_a_hang() {
    let run = kit(async |ctx| {
        let leaked: Slot<u32> = Slot::default();
        let inner = leaked.clone();
        ctx.run_in_child_context("child", async move |ctx| {
            let handle = ctx.step("orphan", async |_| busy(secs(60)).await).spawn();
            *inner.lock().unwrap() = Some(handle);
            Ok(())
        })
        .await?;
        let leaked = take(&leaked);
        let leaked = slot(leaked);
        // Through a body, so that more than the handler is stuck.
        ctx.step("stuck", async |_| take(&leaked).await).await
    })
    .run(())
    .await;
    let error = run.error().expect("it fails");
    assert_eq!(error.error_type.as_deref(), Some("DeadlockError"));
    let message = error.error_message.as_deref().unwrap();
    assert!(message.contains("2 Step 'stuck': executing"), "{message}");
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_losing_wait_does_not_suspend_a_race_before_its_outcome_is_recorded() {
    let run = kit(async |ctx| {
        type Input = Pin<Box<dyn Future<Output = Result<u32>> + Send>>;
        let step: Input = Box::pin(ctx.step("step", async |_| busy(secs(3)).await).future());
        let wait = ctx.named_wait("loser", secs(10)).future();
        let wait: Input = Box::pin(async move { wait.await.map(|()| 2) });
        let first = ctx.race("race", [step, wait]).await?;
        // The race is decided; what follows suspends with its loser still pending.
        ctx.wait(secs(60)).await?;
        Ok(first)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    // The loser wakes the execution once more, as every pending operation does.
    assert_eq!(reasons(&run).len(), 3);
    assert_eq!(status(&run, "race"), OperationStatus::Succeeded);
}

#[tokio::test]
async fn a_wait_that_lost_a_select_does_not_hold_what_follows() {
    let run = kit(async |ctx| {
        let mut wait = pin!(ctx.wait(secs(10)).future());
        let won = tokio::select! {
            step = ctx.step("step", async |_| busy(secs(3)).await).future() => step?,
            _ = &mut wait => 0,
        };
        // Kept, not polled: its end at 10 s concerns nobody.
        let next = ctx.step("next", async |_| busy(secs(30)).await).await?;
        Ok(won + next)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 2);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_finished_handle_that_is_kept_does_not_make_its_owner_look_stuck() {
    let run = kit(async |ctx| {
        let first = ctx.step("first", async |_| busy(secs(1)).await).spawn();
        let mut second = ctx.step("second", async |_| busy(secs(2)).await).spawn();
        let won = tokio::select! {
            biased;
            first = first => first?,
            _ = &mut second => 100,
        };
        // 'second' finishes in the meantime; its handle was polled and is not polled now.
        tokio::time::sleep(secs(9)).await;
        Ok(won + second.await?)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 2);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_finished_wait_that_is_kept_does_not_make_its_owner_look_stuck() {
    let run = kit(async |ctx| {
        let busy_step = ctx.step("busy", async |_| busy(secs(9)).await).spawn();
        let mut wait = pin!(ctx.wait(secs(2)).future());
        tokio::select! {
            biased;
            quick = ctx.step("quick", async |_| busy(secs(1)).await).future() => quick?,
            _ = &mut wait => 0,
        };
        busy_step.await?;
        tokio::time::sleep(secs(9)).await;
        wait.await.map(|()| 1)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_handle_polled_inside_a_future_that_is_gone_does_not_hold_the_invocation() {
    for keeps in [false, true] {
        let run = kit(move |ctx| async move {
            let slow = ctx.step("slow", async |_| busy(secs(5)).await).spawn();
            let slow = Arc::new(tokio::sync::Mutex::new(slow));
            let quick = ctx.step("quick", async |_| busy(secs(1)).await).spawn();
            let inside = slow.clone();
            // The stream drops the future, and with it the waker that the handle was given.
            let mut stream: FuturesUnordered<_> = [async move {
                let mut slow = inside.lock().await;
                tokio::select! { slow = &mut *slow => slow, quick = quick => quick }
            }]
            .into_iter()
            .collect();
            stream.next().await.unwrap()?;
            let kept = keeps.then_some(slow);
            ctx.wait(secs(60)).await?;
            drop(kept);
            Ok(())
        })
        .run(())
        .await;
        run.result::<()>().unwrap();
        assert_eq!(
            reasons(&run),
            [Some(TerminationReason::WaitScheduled), None],
            "kept: {keeps}"
        );
        // It suspended when 'slow' was over, 55 s before the wait was: nobody asked about the wait.
        assert_eq!(refreshes(&run), 0);
    }
}

#[tokio::test]
async fn spawned_work_outlives_whoever_awaited_it() {
    let run = kit(async |ctx| {
        let mut handle = Some(ctx.step("slow", async |_| busy(secs(5)).await).spawn());
        // A future that awaits the handle and is dropped with it.
        tokio::select! {
            biased;
            quick = ctx.step("quick", async |_| busy(secs(1)).await).future() => quick?,
            slow = async { handle.take().unwrap().await } => slow?,
        };
        ctx.wait(secs(60)).await
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(status(&run, "slow"), OperationStatus::Succeeded);
    assert_eq!(run.attempts("slow"), 1);
}

#[tokio::test]
async fn a_waiter_counts_before_the_work_it_waits_for_stops_counting() {
    // Each link ends exactly when the next begins: if the count touched zero in between, the
    // pending wait would suspend the invocation there.
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(3_000)).spawn();
        for _ in 0..50 {
            let handle = ctx.step("link", async |_| busy(secs(0)).await).spawn();
            handle.await?;
            ctx.run_in_child_context("child", async |ctx| {
                ctx.step("inner", async |_| busy(secs(0)).await)
                    .spawn()
                    .await
            })
            .spawn()
            .await?;
        }
        wait.await
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!(
        reasons(&run),
        [Some(TerminationReason::WaitScheduled), None]
    );
    let first = &run.invocations()[0];
    let updates = first.requests.iter().map(|request| request.updates.len());
    assert_eq!(updates.sum::<usize>(), 1 + 50 * 2 + 50 * 4);
}

#[tokio::test]
async fn a_callback_that_is_answered_while_its_race_is_being_lost_is_not_lost() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("c").await?;
        let mut answer = pin!(callback.result());
        let mut rounds = 0;
        loop {
            let tick = ctx.step("tick", async |_| busy(millis(300)).await).future();
            rounds += 1;
            tokio::select! {
                biased;
                answer = &mut answer => return Ok((answer?, rounds)),
                tick = tick => tick?,
            };
        }
    })
    .callback("c", Answer::succeed("yes").after(millis(700)))
    .run(())
    .await;
    assert_eq!(
        run.result::<(String, u32)>().unwrap(),
        ("yes".to_owned(), 3)
    );
}

#[tokio::test]
async fn the_report_names_a_body_that_is_stuck_on_something_foreign() {
    let run = kit(async |ctx| {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let receive = Arc::new(Mutex::new(Some(receive)));
        let stuck = ctx.step("stuck", move |_| {
            let receive = receive.lock().unwrap().take();
            async move { receive.unwrap().await.map(|()| 1) }
        });
        let stuck = stuck.spawn();
        let _wait = ctx.named_wait("pause", secs(60)).spawn();
        ctx.step("work", async |_| busy(secs(1)).await).await?;
        let report = ctx.lifecycle();
        send.send(()).unwrap();
        stuck.await?;
        Ok((report.why, report.tree))
    })
    .run(())
    .await;
    let (why, tree) = run.result::<(String, String)>().unwrap();
    assert_eq!(
        why,
        "not suspending: the body of step 'stuck' (1) waits for something that is not durable, \
         the handler is running"
    );
    insta::assert_snapshot!(tree, @"
    1 Step 'stuck': executing
    2 Wait 'pause': idle, not awaited, asks again at 1767225660.000
    (1 completed)
    ");
}

#[tokio::test]
async fn the_report_names_a_loser_that_is_kept_but_never_polled() {
    let run = kit(async |ctx| {
        let mut loser = pin!(ctx.step("loser", async |_| busy(secs(2)).await).future());
        tokio::select! {
            biased;
            quick = ctx.step("quick", async |_| busy(secs(1)).await).future() => quick?,
            loser = &mut loser => loser?,
        };
        ctx.step("later", async |_| busy(secs(5)).await).await?;
        let why = ctx.lifecycle().why;
        loser.await?;
        Ok(why)
    })
    .run(())
    .await;
    assert_eq!(
        run.result::<String>().unwrap(),
        "not suspending: the body of step 'loser' (1) was woken and has not been polled since, \
         the handler is running"
    );
}

#[tokio::test]
async fn spawned_operations_show_whether_they_are_awaited() {
    let run = kit(async |ctx| {
        let awaited = ctx.named_wait("awaited", secs(60)).spawn();
        let _unawaited = ctx.named_wait("unawaited", secs(60)).spawn();
        let look = async {
            ctx.step("work", async |_| busy(secs(1)).await).await?;
            Ok(ctx.lifecycle().tree)
        };
        tokio::select! {
            biased;
            _ = awaited => unreachable!("it takes longer"),
            tree = look => tree,
        }
    })
    .run(())
    .await;
    insta::assert_snapshot!(run.result::<String>().unwrap(), @"
    1 Wait 'awaited': idle, awaited, asks again at 1767225660.000
    2 Wait 'unawaited': idle, not awaited, asks again at 1767225660.000
    (1 completed)
    ");
}
