//! Loose ends: work that nobody awaits when the handler returns, work below a context that is over,
//! and panics.

use super::*;
use outlast::{Config, ErrorKind, Function, Retry};

/// Tells when it is dropped.
struct Guard(Counter);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add();
    }
}

#[tokio::test]
async fn a_step_that_nobody_awaits_is_finished_before_the_handlers_result_counts() {
    let run = kit(async |ctx| {
        let _unawaited = ctx.step("slow", async |_| busy(secs(30)).await).spawn();
        Ok("done")
    })
    .run(())
    .await;
    assert_eq!(run.result::<String>().unwrap(), "done");
    assert_eq!(status(&run, "slow"), OperationStatus::Succeeded);
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn work_that_waits_when_the_handler_returns_is_given_up() {
    let run = kit(async |ctx| {
        let _wait = ctx.named_wait("wait", secs(60)).spawn();
        let _flaky = ctx
            .step("flaky", async |step| flaky(step.attempt(), 2))
            .retry(Retry::fixed(secs(60)))
            .spawn();
        let _child = ctx
            .run_in_child_context("child", async |ctx| {
                ctx.step("first", async |_| busy(secs(5)).await).await?;
                ctx.wait(secs(60)).await
            })
            .spawn();
        Ok("done")
    })
    .run(())
    .await;
    assert_eq!(run.result::<String>().unwrap(), "done");
    assert_eq!(reasons(&run), [None]);
    assert_eq!(
        status(&run, "first"),
        OperationStatus::Succeeded,
        "it was running"
    );
    assert_eq!(status(&run, "flaky"), OperationStatus::Pending);
    assert_eq!(status(&run, "wait"), OperationStatus::Started);
    assert_eq!(status(&run, "child"), OperationStatus::Started);
}

#[tokio::test]
async fn work_that_waits_when_the_handler_returns_is_an_error_on_request() {
    let check = async |waits: bool, expected: Option<&str>| {
        let function = Function::new("f", move |ctx: Context, (): ()| async move {
            let _step = ctx.step("slow", async |_| busy(secs(3)).await).spawn();
            let _wait = waits.then(|| ctx.wait(secs(60)).spawn());
            Ok::<_, outlast::Error>("done")
        })
        .config(Config::new().fail_on_unawaited(true));
        let run = TestKit::of(function).run(()).await;
        let error = run.error().and_then(|error| error.error_type.as_deref());
        assert_eq!(error, expected);
    };
    check(true, Some("UnawaitedError")).await;
    check(false, None).await;
}

#[tokio::test]
async fn a_handlers_error_waits_for_running_steps_too() {
    let run = kit(async |ctx| {
        let _unawaited = ctx.step("slow", async |_| busy(secs(30)).await).spawn();
        Err::<(), _>(outlast::Error::new("Mine", "no"))
    })
    .run(())
    .await;
    assert_eq!(run.error().unwrap().error_type.as_deref(), Some("Mine"));
    assert_eq!(status(&run, "slow"), OperationStatus::Succeeded);
}

#[tokio::test]
async fn work_spawned_in_a_context_ends_with_it_and_writes_nothing_more() {
    let (dropped, finished) = (Counter::default(), Counter::default());
    let counters = (dropped.clone(), finished.clone());
    let run = kit(move |ctx| {
        let (dropped, finished) = counters.clone();
        async move {
            ctx.run_in_child_context("child", async |ctx| {
                let (guard, finished) = (dropped.clone(), finished.clone());
                let _orphan = ctx
                    .step("orphan", move |_| {
                        let (guard, finished) = (Guard(guard.clone()), finished.clone());
                        async move {
                            tokio::time::sleep(secs(10)).await;
                            finished.add();
                            drop(guard);
                            Ok::<_, io::Error>(())
                        }
                    })
                    .spawn();
                let _nested = ctx
                    .run_in_child_context("nested", async |ctx| {
                        let _deep = ctx.named_wait("deep", secs(1)).spawn();
                        ctx.named_wait("shallow", secs(2)).await
                    })
                    .spawn();
                // Aborted before its first poll.
                ctx.step("short", async |_| busy(secs(1)).await).await?;
                let _never = ctx.step("never", async |_| busy(secs(0)).await).spawn();
                Ok(())
            })
            .await?;
            ctx.step("after", async |_| busy(secs(30)).await).await
        }
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    assert_eq!((dropped.get(), finished.get()), (1, 0));
    assert_eq!(status(&run, "orphan"), OperationStatus::Started);
    assert!(run.operation("never").is_none());
    assert_eq!(status(&run, "nested"), OperationStatus::Started);
    assert_eq!(reasons(&run), [None]);
    let text = run.requests_text();
    let (_, later) = text.split_once("RunInChildContext child SUCCEED!").unwrap();
    assert_eq!(later, "\nStep after START~\nStep after SUCCEED!");
}

#[tokio::test]
async fn branches_that_a_batch_no_longer_needs_end_with_it() {
    let dropped = Counter::default();
    let counted = dropped.clone();
    let run = kit(move |ctx| {
        let dropped = counted.clone();
        async move {
            let first = outlast::Completion {
                min_successful: Some(1),
                ..outlast::Completion::default()
            };
            ctx.map("m", 0..4_u64, async |ctx, item| {
                let _guard = Guard(dropped.clone());
                if item == 3 {
                    ctx.wait(secs(1_000)).await?;
                }
                ctx.step("work", async |_| busy(secs(item * 5 + 1)).await)
                    .await
            })
            .completion(first)
            .await?;
            ctx.step("after", async |_| busy(secs(60)).await).await
        }
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    assert_eq!(dropped.get(), 4);
    assert_eq!(reasons(&run), [None]);
    assert_eq!(refreshes(&run), 0, "an orphaned wait is not asked about");
}

#[tokio::test]
async fn a_panic_in_the_body_of_a_spawned_step_fails_the_step() {
    let run = kit(async |ctx| {
        let step = ctx.step("panics", async |_| -> Result<u32, io::Error> {
            panic!("ouch")
        });
        let error = step.retry(Retry::none()).spawn().await.unwrap_err();
        Ok((error.kind(), error.error_type().to_owned()))
    })
    .run(())
    .await;
    let expected = (ErrorKind::Step, "panic".to_owned());
    assert_eq!(run.result::<(ErrorKind, String)>().unwrap(), expected);
}

#[tokio::test]
async fn a_panic_in_a_body_that_awaits_a_handle_leaves_no_actor_behind() {
    let run = kit(async |ctx| {
        let slow = ctx.step("slow", async |_| busy(secs(2)).await).spawn();
        let slow = Arc::new(std::sync::Mutex::new(Some(slow)));
        let step = ctx.step("panics", move |_| {
            let handle = slow.lock().unwrap().take().unwrap();
            async move {
                tokio::select! {
                    slow = handle => slow,
                    () = tokio::time::sleep(secs(1)) => panic!("ouch"),
                }
            }
        });
        let failed = step.retry(Retry::none()).await.is_err();
        ctx.wait(secs(60)).await?;
        Ok(failed)
    })
    .run(())
    .await;
    assert!(run.result::<bool>().unwrap());
    assert_eq!(reasons(&run).len(), 2);
}

#[tokio::test]
async fn a_panic_in_orchestrating_code_fails_the_execution_wherever_it_runs() {
    let check = async |kit: TestKit| {
        let run = kit.run(()).await;
        let error = run.error().unwrap();
        assert_eq!(
            (error.error_type.as_deref(), error.error_message.as_deref()),
            (Some("panic"), Some("ouch"))
        );
        assert_eq!(reasons(&run), [None]);
    };
    check(kit(async |ctx| {
        let _busy = ctx.wait(secs(5)).spawn();
        if ctx.request_id() != "" {
            panic!("ouch");
        }
        Ok(())
    }))
    .await;
    check(kit(async |ctx| {
        ctx.run_in_child_context("in place", async |ctx| -> Result<()> {
            ctx.step("before", async |_| busy(secs(1)).await).await?;
            panic!("ouch")
        })
        .await
    }))
    .await;
    check(kit(async |ctx| {
        let child = ctx
            .run_in_child_context("spawned", async |ctx| -> Result<()> {
                ctx.step("before", async |_| busy(secs(1)).await).await?;
                panic!("ouch")
            })
            .spawn();
        ctx.wait(secs(60)).await?;
        child.await
    }))
    .await;
}
