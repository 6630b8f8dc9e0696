//! Completion in process: while something else keeps the invocation alive, operations that become
//! due are asked about, together and not too often.

use super::*;
use outlast::{Config, Function, Retry, WaitStrategy, testing::Answer};

#[tokio::test]
async fn a_retry_runs_in_process_while_a_body_keeps_the_invocation_alive() {
    let run = kit(async |ctx| {
        let flaky = ctx
            .step("flaky", async |step| flaky(step.attempt(), 3))
            .retry(Retry::fixed(secs(4)))
            .spawn();
        ctx.step("busy", async |_| busy(secs(30)).await).await?;
        flaky.await
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 3);
    assert_eq!(reasons(&run), [None]);
    insta::assert_snapshot!(run.requests_text(), @"
    Step busy START~, Step flaky START~, Step flaky RETRY!
    (refresh)
    Step flaky START~, Step flaky RETRY!
    (refresh)
    Step flaky START~, Step flaky SUCCEED!
    Step busy SUCCEED!
    ");
}

#[tokio::test]
async fn a_callback_is_noticed_in_process_by_polling_slower_and_slower() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("c").await?;
        let busy = ctx.step("busy", async |_| busy(secs(60)).await).spawn();
        let noticed = callback.result().await?;
        let remaining = ctx.remaining_time().unwrap();
        busy.await?;
        Ok((noticed, 3_600 - remaining.as_secs()))
    })
    .callback("c", Answer::succeed("yes").after(secs(5)))
    .run(())
    .await;
    // Asked about at 1, 2, 4 and 7 seconds.
    assert_eq!(
        run.result::<(String, u64)>().unwrap(),
        ("yes".to_owned(), 7)
    );
    assert_eq!((reasons(&run).len(), refreshes(&run)), (1, 4));
}

#[tokio::test]
async fn a_condition_is_checked_again_in_process() {
    let run = kit(async |ctx| {
        let busy = ctx.step("busy", async |_| busy(secs(60)).await).spawn();
        let until = WaitStrategy::until(|n: &u32| *n >= 3).fixed_delay(secs(7));
        let n = ctx
            .wait_for_condition("poll", 0, async |n, _| Ok::<_, io::Error>(n + 1), until)
            .await?;
        busy.await?;
        Ok(n)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 3);
    assert_eq!((reasons(&run).len(), refreshes(&run)), (1, 2));
}

#[tokio::test]
async fn operations_due_at_one_instant_share_one_refresh() {
    let run = kit(async |ctx| {
        let mut handles: Vec<_> = (0..100).map(|_| ctx.wait(secs(5)).spawn()).collect();
        handles.extend((0..100).map(|_| ctx.wait(secs(6)).spawn()));
        ctx.step("busy", async |_| busy(secs(30)).await).await?;
        for handle in handles {
            handle.await?;
        }
        Ok(())
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    assert_eq!((reasons(&run).len(), refreshes(&run)), (1, 2));
}

#[tokio::test]
async fn a_change_in_any_answer_wakes_its_waiter() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("c").await?;
        let early = ctx.step("early", async |_| busy(millis(700)).await).spawn();
        let late = ctx.step("late", async |_| busy(secs(5)).await).spawn();
        let answer = callback.result().await?;
        let left = ctx.remaining_time().unwrap();
        early.await?;
        late.await?;
        Ok((answer, left.as_millis()))
    })
    .callback("c", Answer::succeed("yes").after(millis(500)))
    .run(())
    .await;
    // The write of 'early' brought the news at 700 ms; nobody had to ask.
    assert_eq!(
        run.result::<(String, u128)>().unwrap(),
        ("yes".to_owned(), 3_600_000 - 700)
    );
    assert_eq!((reasons(&run).len(), refreshes(&run)), (1, 0));
}

#[tokio::test]
async fn polling_stops_a_second_before_the_deadline() {
    for (limit, expected) in [(9_999, 0), (10_000, 1), (10_001, 1)] {
        let run = kit(async |ctx| {
            let wait = ctx.wait(secs(9)).spawn();
            ctx.step("busy", async |_| busy(millis(9_600)).await)
                .await?;
            wait.await
        })
        .function_timeout(millis(limit))
        .run(())
        .await;
        run.result::<()>().unwrap();
        assert_eq!(refreshes(&run), expected, "{limit} ms");
    }
}

#[tokio::test]
async fn an_operation_that_is_no_longer_asked_about_stays_so_when_it_is_polled_again() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("c").await?;
        let answer = callback.result();
        let ticks = ctx.step("ticks", async |_| {
            // Every tick polls the whole handler, the callback's future included.
            for _ in 0..40 {
                tokio::time::sleep(millis(100)).await;
            }
            Ok::<_, io::Error>(1)
        });
        let (ticks, answer) = tokio::join!(ticks, answer);
        ticks?;
        answer
    })
    .function_timeout(millis(4_500))
    .callback("c", Answer::succeed("yes").after(secs(10)))
    .run(())
    .await;
    assert_eq!(run.result::<String>().unwrap(), "yes");
    // At 1 and 2 seconds; the next would be at 4, too close to the deadline.
    assert_eq!(refreshes(&run), 2);
}

#[tokio::test]
async fn staying_alive_for_a_wait_or_a_retry_that_is_due_soon_saves_an_invocation() {
    let check = async |window: u64, invocations: usize| {
        let function = Function::new("f", async |ctx: Context, (): ()| {
            ctx.wait(secs(2)).await?;
            ctx.step("flaky", async |step| flaky(step.attempt(), 2))
                .retry(Retry::fixed(secs(2)))
                .await
        })
        .config(Config::new().keep_alive(millis(window)));
        let run = TestKit::of(function).run(()).await;
        assert_eq!(run.result::<u32>().unwrap(), 2);
        assert_eq!(run.invocations().len(), invocations, "{window} ms");
    };
    check(0, 3).await;
    check(1_999, 3).await;
    check(2_000, 1).await;
    check(2_001, 1).await;
}

#[tokio::test]
async fn nothing_stays_alive_for_an_operation_that_may_never_end() {
    let function = Function::new("f", async |ctx: Context, (): ()| {
        ctx.wait_signal::<String>("s").await
    })
    .config(Config::new().keep_alive(secs(30)));
    let mut run = TestKit::of(function).start(()).await;
    run.run_once().await;
    assert_eq!((run.invocations().len(), refreshes(&run)), (1, 0));
}

#[tokio::test]
async fn the_polling_of_a_function_can_be_replaced() {
    let function = Function::new("f", async |ctx: Context, (): ()| {
        let callback = ctx.create_callback::<String>("c").await?;
        let busy = ctx.step("busy", async |_| busy(secs(10)).await).spawn();
        let answer = callback.result().await?;
        busy.await.map(|_| answer)
    })
    .config(Config::new().polling(|_| millis(500)));
    let run = TestKit::of(function)
        .callback("c", Answer::succeed("yes").after(millis(2_800)))
        .run(())
        .await;
    assert_eq!(run.result::<String>().unwrap(), "yes");
    // At 1, 1.5, 2, 2.5 and 3 seconds.
    assert_eq!(refreshes(&run), 5);
}
