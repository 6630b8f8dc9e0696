//! A first look at every operation on the test kit.

use outlast::{
    Context, ErrorKind, Result, Retry, WaitStrategy,
    testing::{Answer, TestKit},
};
use std::time::Duration;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test]
async fn waits_end_and_steps_run_between() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<u32> {
        ctx.wait(secs(5)).await?;
        let n = ctx.step("s", async |_| Ok::<_, std::io::Error>(1)).await?;
        ctx.wait(secs(10)).await?;
        Ok(n)
    })
    .run(())
    .await;
    println!("{}\n{}", run.history_text(), run.requests_text());
    assert_eq!(run.result::<u32>().unwrap(), 1);
}

#[tokio::test]
async fn callbacks_and_children() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<String> {
        let a: String = ctx
            .wait_for_callback("approve", async |_id| Ok::<_, std::io::Error>(()))
            .timeout(secs(100))
            .await?;
        let b: String = ctx
            .run_in_child_context("child", async |ctx| {
                let x: String = ctx
                    .step("x", async |_| Ok::<_, std::io::Error>("x".to_string()))
                    .await?;
                ctx.wait(secs(3)).await?;
                Ok(x)
            })
            .await?;
        Ok(a + &b)
    })
    .callback("approve", Answer::succeed("yes").after(secs(20)))
    .run(())
    .await;
    println!("{}\n{}", run.history_text(), run.requests_text());
    assert_eq!(run.result::<String>().unwrap(), "yesx");
    assert_eq!(run.invocations().len(), 3);
}

#[tokio::test]
async fn maps_keep_the_order_of_their_items() {
    let run = TestKit::new(
        "f",
        async |ctx: Context, items: Vec<u32>| -> Result<Vec<u32>> {
            ctx.map("m", &items, async |ctx, item| {
                if item % 2 == 0 {
                    ctx.wait(secs(2)).await?;
                }
                ctx.step("double", async |_| Ok::<_, std::io::Error>(item * 2))
                    .await
            })
            .max_concurrency(2)
            .await?
            .into_values()
        },
    )
    .run([1, 2, 3, 4])
    .await;
    println!("{}\n{}", run.history_text(), run.requests_text());
    assert_eq!(run.result::<Vec<u32>>().unwrap(), [2, 4, 6, 8]);
}

#[tokio::test]
async fn spawn_and_race() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| -> Result<(u32, String)> {
        let flaky = ctx
            .step(
                "flaky",
                async |s| if s.attempt() < 2 { Err("no") } else { Ok(7u32) },
            )
            .retry(Retry::fixed(secs(4)))
            .spawn();
        let got = std::sync::Mutex::new(Some(flaky));
        let sum = ctx
            .step("sum", async |_| {
                let handle = got.lock().unwrap().take();
                match handle {
                    Some(h) => h.await,
                    None => Ok(0),
                }
            })
            .await;
        let _ = sum;
        let slow = ctx.step("slow", async |_| {
            tokio::time::sleep(secs(3)).await;
            Ok::<_, std::io::Error>("slow".to_string())
        });
        let w = ctx.wait(secs(10)).future();
        let a: std::pin::Pin<Box<dyn Future<Output = Result<String>> + Send>> =
            Box::pin(slow.future());
        let b: std::pin::Pin<Box<dyn Future<Output = Result<String>> + Send>> =
            Box::pin(async move {
                w.await?;
                Ok("wait".to_string())
            });
        let first = ctx.race("race", [a, b]).await?;
        Ok((1, first))
    })
    .run(())
    .await;
    println!("{}\n{}", run.history_text(), run.requests_text());
    println!("{:?} {:?}", run.status(), run.error());
    assert_eq!(run.result::<(u32, String)>().unwrap(), (1, "slow".into()));
}

#[tokio::test]
async fn conditions_invokes_signals() {
    let mut run = TestKit::new(
        "f",
        async |ctx: Context, (): ()| -> Result<(u32, u32, String)> {
            let n = ctx
                .wait_for_condition(
                    "poll",
                    0u32,
                    async |n, _| Ok::<_, std::io::Error>(n + 1),
                    WaitStrategy::until(|n| *n >= 3).fixed_delay(secs(2)),
                )
                .await?;
            let doubled: u32 = ctx.invoke("inv", "double", n).await?;
            let s: String = ctx.wait_signal("go").await?;
            Ok((n, doubled, s))
        },
    )
    .plain("double", async |n: u32| Ok::<_, std::io::Error>(n * 2))
    .run(())
    .await;
    println!("why: {}", run.why());
    run.signal("go", "now").await.unwrap();
    run.run_until_complete().await;
    println!("{}\n{}", run.history_text(), run.requests_text());
    assert_eq!(
        run.result::<(u32, u32, String)>().unwrap(),
        (3, 6, "now".into())
    );
}

#[tokio::test]
async fn a_crash_anywhere_is_survived_and_recordings_replay() {
    let kit = TestKit::new(
        "f",
        async |ctx: Context, items: Vec<u32>| -> Result<Vec<u32>> {
            let a = ctx
                .map("m", &items, async |ctx, item| {
                    if item % 2 == 0 {
                        ctx.wait(secs(2)).await?;
                    }
                    ctx.step("double", async |_| Ok::<_, std::io::Error>(item * 2))
                        .await
                })
                .max_concurrency(2)
                .await?
                .into_values();
            ctx.wait(secs(1)).await?;
            a
        },
    );
    let report = kit.crash_everywhere([1, 2, 3, 4]).await;
    println!("{report:?}");
    report.assert_same();
    assert!(report.crashes > 10);
    let run = kit.run([1, 2]).await;
    let rec = outlast::testing::Recording::of(&run);
    kit.replay_check(&rec).await.assert_compatible();
    let rec = outlast::testing::Recording::from_history(run.arn(), run.history());
    kit.replay_check(&rec).await.assert_compatible();
    let _ = ErrorKind::Step;
}
