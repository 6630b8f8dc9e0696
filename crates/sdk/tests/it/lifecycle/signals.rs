//! Signals against the lifecycle: before the wait, after it, too late, in order, and only once.

use super::*;
use outlast::ErrorKind;

#[tokio::test]
async fn a_signal_that_came_before_its_wait_is_consumed_without_suspending() {
    let mut run = kit(async |ctx| ctx.wait_signal::<u32>("go").await)
        .start(())
        .await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<u32>().unwrap(), 7);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_signal_that_comes_after_its_wait_resumes_the_execution() {
    let mut run = kit(async |ctx| ctx.wait_signal::<u32>("go").await)
        .run(())
        .await;
    assert_eq!(reasons(&run), [Some(TerminationReason::CallbackPending)]);
    run.signal("stop", 1).await.unwrap();
    run.run_until_complete().await;
    assert!(
        run.result::<u32>().is_err(),
        "another name is another signal"
    );
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<u32>().unwrap(), 7);
}

#[tokio::test]
async fn a_signal_is_noticed_in_process_while_a_body_runs() {
    let mut run = kit(async |ctx| {
        let busy = ctx.step("busy", async |_| busy(secs(30)).await).spawn();
        let signal = ctx.wait_signal::<u32>("go").await?;
        busy.await.map(|_| signal)
    })
    .start(())
    .await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<u32>().unwrap(), 7);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn a_signal_that_comes_after_the_timeout_is_kept_for_the_next_wait() {
    let mut run = kit(async |ctx| {
        let late = ctx.wait_signal::<u32>("go").timeout(secs(5)).await;
        let kind = late.map_err(|error| error.kind());
        ctx.wait(secs(60)).await?;
        let kept = ctx.wait_signal::<u32>("go").await?;
        Ok((kind == Err(ErrorKind::SignalTimeout), kept))
    })
    .start(())
    .await;
    run.advance(secs(10)).await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<(bool, u32)>().unwrap(), (true, 7));
}

#[tokio::test]
async fn signals_of_one_name_are_consumed_in_the_order_they_came() {
    let mut run = kit(async |ctx| {
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(ctx.wait_signal::<u32>("go").await?);
        }
        Ok(seen)
    })
    .start(())
    .await;
    for number in [3, 1] {
        run.signal("go", number).await.unwrap();
    }
    run.run_until_complete().await;
    for number in [2, 9] {
        run.signal("go", number).await.unwrap();
        run.run_until_complete().await;
    }
    assert_eq!(run.result::<Vec<u32>>().unwrap(), [3, 1, 2, 9]);
}

#[tokio::test]
async fn several_waits_of_one_name_are_served_in_the_order_they_started() {
    let mut run = kit(async |ctx| {
        let waits = (0..3).map(|_| ctx.wait_signal::<u32>("go").future());
        let seen = futures::future::join_all(waits).await;
        seen.into_iter().collect::<Result<Vec<u32>>>()
    })
    .run(())
    .await;
    for number in [3, 1, 2] {
        run.signal("go", number).await.unwrap();
    }
    run.run_until_complete().await;
    assert_eq!(run.result::<Vec<u32>>().unwrap(), [3, 1, 2]);
}

#[tokio::test]
async fn a_signal_that_was_consumed_is_never_delivered_again() {
    let mut run = kit(async |ctx| {
        let first = ctx.wait_signal::<u32>("go").await?;
        // Replayed from the top after each of these.
        ctx.wait(secs(5)).await?;
        ctx.wait(secs(5)).await?;
        let again = ctx.wait_signal::<u32>("go").timeout(secs(5)).await;
        Ok((first, again.err().map(|error| error.kind())))
    })
    .start(())
    .await;
    run.signal("go", 7).await.unwrap();
    run.run_until_complete().await;
    assert_eq!(
        run.result::<(u32, Option<ErrorKind>)>().unwrap(),
        (7, Some(ErrorKind::SignalTimeout))
    );
}
