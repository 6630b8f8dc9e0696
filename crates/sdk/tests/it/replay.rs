//! Replay: what code sees the second time is what it saw the first time, and it can tell which time
//! it is.

use crate::show::{Sure, calls, millis, secs};
use insta::assert_snapshot as check;
use outlast::{
    Context, Error, ErrorKind, Function, Result, Retry, WaitStrategy,
    core::wire::ExecutionStatus,
    testing::{Answer, Fault, Recording, TestKit},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// What handlers note down outside their execution, over all invocations.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(String, String)>>>);

impl Notes {
    fn note(&self, label: &str, value: impl ToString) {
        self.0
            .lock()
            .unwrap()
            .push((label.to_owned(), value.to_string()));
    }

    /// Everything there is to see of an error.
    fn error(&self, label: &str, error: &Option<Error>) {
        let text = error
            .as_ref()
            .map(|error| format!("{error:?} | {error} | {error:#}"));
        self.note(label, text.unwrap_or_default());
    }

    /// Whether code of this context is being repeated.
    fn mode(&self, label: &str, ctx: &Context) {
        self.note(label, if ctx.is_replaying() { "replay" } else { "live" });
    }

    /// Every note in order, a line for each invocation (they begin with the label `top`).
    fn text(&self) -> String {
        let notes = self.0.lock().unwrap();
        let line = |(label, value): &(String, String)| {
            let before = if label == "top" { "\n" } else { ", " };
            format!("{before}{label} {value}")
        };
        notes
            .iter()
            .map(line)
            .collect::<String>()
            .trim_start()
            .to_owned()
    }

    /// Asserts that every label was noted several times, always with the same value.
    fn assert_stable(&self, labels: usize) {
        let mut values = BTreeMap::<String, Vec<String>>::new();
        for (label, value) in self.0.lock().unwrap().iter() {
            values.entry(label.clone()).or_default().push(value.clone());
        }
        assert_eq!(values.len(), labels, "{:#?}", values.keys());
        for (label, values) in values {
            assert!(values.len() > 1, "{label} was never replayed");
            let first = values.first();
            assert!(
                values.iter().all(|value| Some(value) == first),
                "{label}: {values:#?}"
            );
        }
    }
}

/// A kit around a handler that takes notes.
fn noting<T, H, Fut>(handler: H) -> (TestKit, Notes)
where
    T: Serialize + Send + 'static,
    H: Fn(Context, Notes) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    let notes = Notes::default();
    let given = notes.clone();
    let kit = TestKit::new("f", move |ctx: Context, (): ()| handler(ctx, given.clone()));
    (kit, notes)
}

// --- replay mode ------------------------------------------------------------------------------

#[tokio::test]
async fn a_context_replays_until_its_next_operation_is_not_recorded() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        ctx.step("a", async |_| Sure::Ok(1)).await?;
        notes.mode("after-a", &ctx);
        ctx.wait(secs(1)).await?;
        notes.mode("after-wait", &ctx);
        ctx.step("b", async |_| Sure::Ok(1)).await?;
        notes.mode("after-b", &ctx);
        ctx.wait(secs(1)).await
    });
    kit.run(()).await;
    check!(notes.text(), @"
    top live, after-a live
    top replay, after-a replay, after-wait live, after-b live
    top replay, after-a replay, after-wait replay, after-b replay
    ");
}

#[tokio::test]
async fn an_unfinished_step_ends_replay_before_it() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        ctx.step("a", async |_| Sure::Ok(1)).await?;
        notes.mode("after-a", &ctx);
        let retried = ctx.step("r", async |step| {
            notes.mode("in-r", &ctx);
            if step.attempt() < 2 { Err("no") } else { Ok(1) }
        });
        let retried = retried.retry(Retry::fixed(secs(1))).await;
        notes.mode("after-r", &ctx);
        retried
    });
    kit.run(()).await;
    check!(notes.text(), @"
    top live, after-a live, in-r live
    top replay, after-a replay, in-r live, after-r live
    ");
}

#[tokio::test]
async fn an_unfinished_wait_ends_replay_after_it() {
    // The step keeps the invocation alive while the wait, found unfinished, comes to its end.
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        let step = ctx
            .step("slow", async |_| {
                tokio::time::sleep(secs(5)).await;
                Sure::Ok(1)
            })
            .spawn();
        ctx.wait(secs(2)).await?;
        notes.mode("after-wait", &ctx);
        step.await
    });
    kit.fault(Fault::CrashAfter(1)).run(()).await;
    check!(notes.text(), @"
    top live
    top replay, after-wait live
    ");
}

#[tokio::test]
async fn each_context_replays_by_its_own_records() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        let both = ctx.map("m", ["first", "second"], async |ctx, name| {
            notes.mode(&format!("{name}-top"), &ctx);
            if name == "second" {
                // Not recorded before the crash.
                tokio::time::sleep(secs(1)).await;
            }
            ctx.step(name, async |_| Sure::Ok(1)).await?;
            notes.mode(&format!("{name}-after"), &ctx);
            ctx.wait(secs(1)).await
        });
        both.await?.throw_if_error()?;
        notes.mode("after-map", &ctx);
        Ok(())
    });
    kit.fault(Fault::CrashAfter(2)).run(()).await;
    check!(notes.text(), @"
    top live, first-top live, second-top live, first-after live
    top replay, first-top replay, first-after replay, second-top live, second-after live
    top replay, second-top replay, second-after replay, after-map live
    ");
}

#[tokio::test]
async fn a_rebuilt_body_replays_from_start_to_end() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        let text: String = ctx
            .run_in_child_context("large", async |ctx| {
                notes.mode("in-top", &ctx);
                ctx.step("s", async |_| Sure::Ok(1)).await?;
                notes.mode("in-after", &ctx);
                Ok("x".repeat(300_000))
            })
            .await?;
        notes.mode("after", &ctx);
        ctx.wait(secs(1)).await?;
        Ok(text.len())
    });
    kit.run(()).await;
    check!(notes.text(), @"
    top live, in-top live, in-after live, after live
    top replay, in-top replay, in-after replay, after replay
    ");
}

#[tokio::test]
async fn keyed_operations_count_for_replay() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.mode("top", &ctx);
        ctx.keyed("a").step("a", async |_| Sure::Ok(1)).await?;
        notes.mode("after-a", &ctx);
        let inner = async |ctx: Context| {
            notes.mode("in-top", &ctx);
            ctx.keyed("b").step("b", async |_| Sure::Ok(1)).await?;
            notes.mode("in-after-b", &ctx);
            ctx.keyed("w").wait(secs(1)).await
        };
        ctx.keyed("ch").run_in_child_context("ch", inner).await?;
        notes.mode("after-ch", &ctx);
        ctx.step("c", async |_| Sure::Ok(1)).await
    });
    kit.run(()).await;
    check!(notes.text(), @"
    top live, after-a live, in-top live, in-after-b live
    top replay, after-a replay, in-top replay, in-after-b replay, after-ch live
    ");
}

#[tokio::test]
async fn a_rebuilt_body_never_runs_what_had_not_finished_and_writes_nothing() {
    let (kit, notes) = noting(async |ctx, notes| {
        let text: String = ctx
            .run_in_child_context("large", async |ctx| {
                let loser = ctx.step("loser", async |_| {
                    notes.note("loser", "runs");
                    tokio::time::sleep(secs(9)).await;
                    Sure::Ok("loser".to_owned())
                });
                let winner = ctx.step("winner", async |_| {
                    notes.note("winner", "runs");
                    tokio::time::sleep(secs(1)).await;
                    Sure::Ok("winner".to_owned())
                });
                // The loser comes first: in a rebuilt body it must not be the one that answers.
                let both = futures::future::select(loser.future(), winner.future());
                let (first, _) = both.await.factor_first();
                Ok(first?.repeat(100_000))
            })
            .await?;
        ctx.wait(secs(1)).await?;
        Ok(text.get(..6).unwrap_or_default().to_owned())
    });
    let run = kit.run(()).await;
    assert_eq!(run.result::<String>().unwrap(), "winner");
    check!(notes.text(), @", loser runs, winner runs");
    check!(calls(&run), @r#"
    RunInChildContext large START~, Step loser START~, Step winner START~
    Step winner SUCCEED!
    RunInChildContext large SUCCEED!
    Wait START!
    => PENDING

    => SUCCEEDED "winner"
    "#);
}

// --- errors -----------------------------------------------------------------------------------

#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
enum Declined {
    #[error("the limit of {limit} is exceeded")]
    Limit { limit: u32 },
}

#[tokio::test]
async fn typed_errors_survive_replay() {
    let (kit, notes) = noting(async |ctx, notes| {
        let charge = ctx.step("charge", async |_| {
            Err::<(), _>(Declined::Limit { limit: 7 })
        });
        let error = charge.retry(Retry::none()).typed_error().await.unwrap_err();
        assert_eq!(
            error.typed_error::<Declined>(),
            Some(Declined::Limit { limit: 7 })
        );
        notes.note("error", format!("{:?}", error.typed_error::<Declined>()));
        // Of a step that does not ask for it, only name and message are kept.
        let plain = ctx.step("plain", async |_| {
            Err::<(), _>(Declined::Limit { limit: 7 })
        });
        let error = plain.retry(Retry::none()).await.unwrap_err();
        assert!(error.typed_error::<Declined>().is_none());
        assert_eq!(error.error_type(), "Declined");
        ctx.wait(secs(1)).await
    });
    kit.run(()).await.result::<()>().unwrap();
    notes.assert_stable(1);
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] std::fmt::Error);

/// Every operation fails once; whoever sees the errors cannot tell the first run from a replay.
async fn fail_everywhere(ctx: Context, notes: Notes) -> Result<()> {
    fail_in_steps(&ctx, &notes).await;
    fail_outside(&ctx, &notes).await?;
    fail_in_blocks(&ctx, &notes).await?;
    ctx.wait(secs(1)).await
}

fn boom(ctx: &Context) -> outlast::Step<'static, u32, Outer> {
    ctx.step("boom", async |_| Err::<u32, _>(Outer(std::fmt::Error)))
        .retry(Retry::none())
}

async fn fail_in_steps(ctx: &Context, notes: &Notes) {
    let note = |label: &str, error: Option<Error>| notes.error(label, &error);
    note("step", boom(ctx).await.err());
    let panics = ctx.step("panics", async |_| -> Sure<u32> { panic!("by design") });
    note("panic", panics.retry(Retry::none()).await.err());
    let slow = ctx.step("slow", async |_| {
        tokio::time::sleep(secs(2)).await;
        Sure::Ok(1)
    });
    note(
        "timeout",
        slow.timeout(secs(1)).retry(Retry::none()).await.err(),
    );
    let unwritable = ctx.step("map", async |_| Sure::Ok(BTreeMap::from([((1, 2), 3)])));
    note("codec", unwritable.await.err());
    let strategy = WaitStrategy::until(|_: &u32| false).max_attempts(1);
    let condition = ctx.wait_for_condition("cond", 0, async |n: u32, _| Sure::Ok(n), strategy);
    note("condition", condition.await.err());
}

async fn fail_outside(ctx: &Context, notes: &Notes) -> Result<()> {
    let note = |label: &str, error: Option<Error>| notes.error(label, &error);
    note(
        "callback",
        ctx.create_callback::<u32>("cb").await?.result().await.err(),
    );
    let late = ctx.create_callback::<u32>("late").timeout(secs(1)).await?;
    note("callback-timeout", late.result().await.err());
    let silent = ctx
        .create_callback::<u32>("silent")
        .heartbeat_timeout(secs(1))
        .await?;
    note("heartbeat", silent.result().await.err());
    let exchange = ctx.wait_for_callback::<u32, _, _, _>("wfc", async |_| Sure::Ok(()));
    note("exchange", exchange.await.err());
    let exchange = ctx.wait_for_callback::<u32, _, _, _>("unsent", async |_| Err("nosub"));
    note("submitter", exchange.retry(Retry::none()).await.err());
    note(
        "invoke",
        ctx.invoke::<_, u32>("inv", "other", 1).await.err(),
    );
    note(
        "invoke-timeout",
        ctx.invoke::<_, u32>("inv", "other", 1).await.err(),
    );
    note(
        "signal",
        ctx.wait_signal::<u32>("go").timeout(secs(1)).await.err(),
    );
    Ok(())
}

async fn fail_in_blocks(ctx: &Context, notes: &Notes) -> Result<()> {
    let note = |label: &str, error: Option<Error>| notes.error(label, &error);
    let child = ctx.run_in_child_context("ch", async |ctx| {
        ctx.invoke::<_, u32>("inv", "other", 1).await
    });
    note("child", child.await.err());
    let items = ctx.map("m", [1, 2], async |_, _| {
        Err::<u32, _>(Error::new("Mine", "no"))
    });
    note("map", items.await?.into_values().err());
    note("select_ok", {
        let inputs = [boom(ctx), boom(ctx)];
        ctx.select_ok("any", inputs).await.err()
    });
    note("race", {
        let inputs = [boom(ctx)];
        ctx.race("race", inputs).await.err()
    });
    let inputs = [boom(ctx)];
    note(
        "join_all",
        ctx.join_all("all", inputs)
            .await?
            .pop()
            .and_then(Result::err),
    );
    let large = ctx.step("large", async |_| Ok::<_, Outer>(300_000));
    let texts = [boom(ctx), large];
    let settled = ctx
        .join_all(
            "large",
            texts.map(|step| async { Ok("x".repeat(step.await? as usize)) }),
        )
        .await?;
    note("large-join", settled.into_iter().find_map(Result::err));
    let block = ctx.with_retry(
        "block",
        Retry::fixed(secs(1)).max_attempts(2),
        async |_, _| Err::<u32, _>(Error::new("Mine", "no")),
    );
    note("with_retry", block.await.err());
    let saga = async |saga: outlast::Saga<'static>| {
        saga.undo_with("undo", Retry::none(), async |_| Err("stuck"));
        boom(ctx).await
    };
    note("saga", ctx.saga(saga).await.err());
    Ok(())
}

#[tokio::test]
async fn errors_are_the_same_on_the_first_run_and_on_every_replay() {
    let (kit, notes) = noting(fail_everywhere);
    let kit = kit
        .callback("cb", Answer::fail("Ext", "no"))
        .callback("wfc", Answer::fail("Ext", "no"))
        .scripted(
            "other",
            [
                Answer::fail("Ext", "no"),
                Answer::time_out(),
                Answer::fail("Ext", "no"),
            ],
        );
    let run = kit.run(()).await;
    assert_eq!(
        run.status(),
        ExecutionStatus::Succeeded,
        "{:?}",
        run.error()
    );
    notes.assert_stable(21);
}

#[tokio::test]
async fn an_interrupted_step_is_of_its_own_kind_now_and_later() {
    let (kit, notes) = noting(async |ctx, notes| {
        let step = ctx
            .step("s", async |_| Sure::Ok(1))
            .at_most_once()
            .retry(Retry::none());
        let error = step.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StepInterrupted);
        notes.note("error", format!("{error:?}"));
        ctx.wait(secs(1)).await
    });
    let fault = Fault::CrashInBody {
        step: "s".to_owned(),
        attempt: 1,
    };
    kit.fault(fault).run(()).await.result::<()>().unwrap();
    notes.assert_stable(1);
}

// --- time, chance, identity -------------------------------------------------------------------

fn now(ctx: &Context) -> String {
    let since = ctx.now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{} ms", since.as_millis() - 1_767_225_600_000)
}

#[tokio::test]
async fn the_time_is_when_the_last_operation_ended() {
    let (kit, notes) = noting(async |ctx, notes| {
        notes.note("top", now(&ctx));
        ctx.step("s", async |_| {
            tokio::time::sleep(secs(2)).await;
            Sure::Ok(1)
        })
        .await?;
        notes.note("after-step", now(&ctx));
        ctx.wait(secs(10)).await?;
        notes.note("after-wait", now(&ctx));
        let callback = ctx.create_callback::<String>("cb").await?;
        notes.note("callback-open", now(&ctx));
        let slow = ctx
            .step("slow", async |_| {
                tokio::time::sleep(secs(5)).await;
                Sure::Ok(1)
            })
            .spawn();
        ctx.wait(secs(1)).await?;
        notes.note("beside-spawned", now(&ctx));
        slow.await?;
        notes.note("after-spawned", now(&ctx));
        callback.result().await?;
        notes.note("callback-done", now(&ctx));
        ctx.wait(secs(1)).await
    });
    let run = kit
        .callback("cb", Answer::succeed("R").after(secs(60)))
        .run(())
        .await;
    run.result::<()>().unwrap();
    check!(notes.text().lines().last().unwrap(), @"top 0 ms, after-step 2000 ms, after-wait 12000 ms, callback-open 12000 ms, beside-spawned 13000 ms, after-spawned 17000 ms, callback-done 72000 ms");
    notes.assert_stable(7);
}

#[tokio::test]
async fn the_time_in_an_item_does_not_depend_on_which_sibling_was_faster() {
    let (kit, notes) = noting(async |ctx, notes| {
        ctx.wait(secs(1)).await?;
        let items = ctx.map("m", [9, 5, 1], async |ctx, seconds| {
            notes.note(&format!("start-{seconds}"), now(&ctx));
            ctx.step("s", move |_| async move {
                tokio::time::sleep(secs(seconds)).await;
                Sure::Ok(1)
            })
            .await?;
            notes.note(&format!("after-{seconds}"), now(&ctx));
            ctx.wait(secs(60)).await
        });
        items.max_concurrency(2).await?.throw_if_error()
    });
    kit.run(()).await.result::<()>().unwrap();
    notes.assert_stable(6);
}

#[tokio::test]
async fn chance_and_keys_are_the_same_on_every_replay_and_differ_everywhere_else() {
    let (kit, notes) = noting(async |ctx, notes| {
        for n in 0..3 {
            notes.note(&format!("uuid-{n}"), ctx.uuid());
            notes.note(&format!("random-{n}"), ctx.random());
        }
        ctx.run_in_child_context("ch", async |ctx| {
            notes.note("inner-uuid", ctx.uuid());
            ctx.step("s", async |step| {
                notes.note("idempotency", step.idempotency_key());
                notes.note(&format!("attempt-{}", step.attempt()), step.attempt_key());
                if step.attempt() < 2 { Err("no") } else { Ok(1) }
            })
            .retry(Retry::fixed(secs(1)))
            .await?;
            ctx.wait(secs(1)).await
        })
        .await
    });
    let crash = |attempt| Fault::CrashInBody {
        step: "s".to_owned(),
        attempt,
    };
    kit.fault(crash(1))
        .fault(crash(2))
        .run(())
        .await
        .result::<()>()
        .unwrap();
    notes.assert_stable(10);
    let values = notes.0.lock().unwrap();
    let distinct: std::collections::BTreeSet<&String> =
        values.iter().map(|(_, value)| value).collect();
    assert_eq!(distinct.len(), 10);
}

#[tokio::test]
async fn keyed_operations_keep_their_identity_when_others_move() {
    let handler = async |ctx: Context, (): ()| {
        let a: String = ctx
            .keyed("a")
            .step("charge", async |_| Sure::Ok("old a".to_owned()))
            .await?;
        let b: String = ctx
            .keyed("b")
            .step("ship", async |_| Sure::Ok("old b".to_owned()))
            .await?;
        ctx.keyed("w").wait(secs(1)).await?;
        Ok::<_, Error>(a + &b)
    };
    let reordered = Function::new("f", async |ctx: Context, (): ()| {
        let new: String = ctx
            .keyed("new")
            .step("mail", async |_| Sure::Ok("new, ".to_owned()))
            .await?;
        let b: String = ctx
            .keyed("b")
            .step("ship", async |_| Sure::Ok("new b".to_owned()))
            .await?;
        let a: String = ctx
            .keyed("a")
            .step("charge", async |_| Sure::Ok("new a".to_owned()))
            .await?;
        ctx.keyed("w").wait(secs(1)).await?;
        Ok::<_, Error>(new + &a + &b)
    });
    let mut run = TestKit::new("f", handler).start(()).await;
    run.run_once().await;
    run.deploy(reordered).await;
    run.run_until_complete().await;
    assert_eq!(run.result::<String>().unwrap(), "new, old aold b");
    check!(calls(&run), @r#"
    Step charge START~, Step charge SUCCEED!
    Step ship START~, Step ship SUCCEED!
    Wait START!
    => PENDING

    Step mail START~, Step mail SUCCEED!
    => SUCCEEDED "new, old aold b"
    "#);
}

// --- crash everywhere -------------------------------------------------------------------------

/// A bit of everything.
async fn everything(ctx: Context, (): ()) -> Result<String> {
    let flaky = ctx.step(
        "flaky",
        async |step| if step.attempt() < 2 { Err("no") } else { Ok(1) },
    );
    let flaky = flaky.retry(Retry::fixed(secs(1))).spawn();
    let items = ctx.map("m", [1, 2, 3], async |ctx, item| {
        if item == 2 {
            ctx.wait(secs(5)).await?;
        }
        ctx.step("double", move |_| async move { Sure::Ok(item * 2) })
            .await
    });
    let doubled: Vec<u32> = items.max_concurrency(2).await?.into_values()?;
    let reply: String = ctx.wait_for_callback("wfc", async |_| Sure::Ok(())).await?;
    let strategy = WaitStrategy::until(|n: &u32| *n >= 2).fixed_delay(secs(1));
    let polled = ctx
        .wait_for_condition("cond", 0, async |n: u32, _| Sure::Ok(n + 1), strategy)
        .await?;
    let invoked: u32 = ctx.invoke("inv", "other", polled).await?;
    let block = ctx.with_retry("block", Retry::fixed(secs(1)), async |ctx, attempt| {
        let text: String = ctx.step("text", async |_| Sure::Ok("x".to_owned())).await?;
        if attempt < 2 {
            Err(Error::new("Mine", "no"))
        } else {
            Ok(text.repeat(300_000))
        }
    });
    let text = block.await?;
    Ok(format!(
        "{} {doubled:?} {reply} {polled} {invoked} {} {}",
        flaky.await?,
        text.len(),
        ctx.uuid()
    ))
}

fn everything_kit() -> TestKit {
    TestKit::new("f", everything)
        .callback("wfc", Answer::succeed("R").after(secs(3)))
        .scripted("other", [Answer::json(4)])
}

#[tokio::test]
async fn a_crash_at_any_checkpoint_changes_nothing() {
    let report = everything_kit().crash_everywhere(()).await;
    report.assert_same();
    check!(report.baseline, @r#"Succeeded with "1 [2, 4, 6] R 2 4 300000 c7d4c78e-9c8c-847c-bac7-040fa230a01a""#);
    assert!(report.crashes >= 40, "{}", report.crashes);
}

#[tokio::test]
async fn at_most_once_steps_never_repeat_a_body_wherever_the_process_dies() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let step = ctx
            .step("once", async |_| Sure::Ok(1))
            .at_most_once()
            .retry(Retry::none());
        Ok::<_, Error>(step.await.is_ok())
    });
    let report = kit.crash_everywhere(()).await;
    report.assert_same();
    // After the start, and before the outcome was written.
    assert_eq!((report.crashes, report.interrupted), (4, 2));
}

#[tokio::test]
async fn a_handler_that_a_crash_changes_is_reported() {
    let calls = Arc::new(Mutex::new(0));
    let kit = TestKit::new("f", move |ctx: Context, (): ()| {
        let calls = calls.clone();
        async move {
            // A counter of the process: what a handler must not look at.
            *calls.lock().unwrap() += 1;
            let before = *calls.lock().unwrap();
            ctx.step("s", async |_| Sure::Ok(1)).await?;
            let after = *calls.lock().unwrap();
            ctx.step("t", async |_| Sure::Ok(1)).await?;
            Ok::<_, Error>(after - before + u32::from(after > 1))
        }
    });
    let report = kit.crash_everywhere(()).await;
    assert!(!report.divergences.is_empty());
    check!(format!("{:?}: {}", report.divergences[0].fault, report.divergences[0].difference), @"CrashBefore(1): the outcome is Succeeded with 1");
}

// --- replay check -----------------------------------------------------------------------------

async fn order(ctx: Context, (): ()) -> Result<u32> {
    let charge = ctx.step("charge", async |_| Sure::Ok(1)).await?;
    ctx.named_wait("settle", secs(1)).await?;
    let ship = ctx.step("ship", async |_| Sure::Ok(2)).await?;
    Ok(charge + ship)
}

async fn recording() -> Recording {
    Recording::of(&TestKit::new("f", order).run(()).await)
}

async fn differences(kit: TestKit) -> String {
    kit.replay_check(&recording().await).await.to_string()
}

#[tokio::test]
async fn code_that_fits_its_recording_is_compatible() {
    let kit = TestKit::new("f", order);
    kit.replay_check(&recording().await)
        .await
        .assert_compatible();
    // A body may change: it does not run again.
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let charge = ctx.step("charge", async |_| Sure::Ok(100)).await?;
        ctx.named_wait("settle", secs(99)).await?;
        let ship = ctx.step("ship", async |_| Sure::Ok(200)).await?;
        Ok::<_, Error>(charge + ship)
    });
    kit.replay_check(&recording().await)
        .await
        .assert_compatible();
}

#[tokio::test]
async fn what_changed_is_told_as_a_diff() {
    let renamed = TestKit::new("f", async |ctx: Context, (): ()| {
        let charge = ctx.step("charge-card", async |_| Sure::Ok(1)).await?;
        Ok::<_, Error>(charge)
    });
    check!(differences(renamed).await, @r#"
    operation 1 differs from its record in its name
      - recorded: Step "charge" (name "charge")
      + current:  Step "charge-card" (name "charge-card")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
    let removed = TestKit::new("f", async |ctx: Context, (): ()| {
        let charge = ctx.step("charge", async |_| Sure::Ok(1)).await?;
        ctx.named_wait("settle", secs(1)).await?;
        Ok::<_, Error>(charge + 2)
    });
    check!(differences(removed).await, @"- recorded: STEP ship is no longer performed");
    let added = TestKit::new("f", async |ctx: Context, (): ()| {
        let sum = order(ctx.clone(), ()).await?;
        ctx.step("mail", async |_| Sure::Ok(sum)).await
    });
    check!(differences(added).await, @"
    + current:  STEP mail START is not recorded
    + current:  STEP mail SUCCEED is not recorded
    ");
    let result = TestKit::new("f", async |ctx: Context, (): ()| {
        Ok::<_, Error>(order(ctx, ()).await? * 10)
    });
    check!(differences(result).await, @"
    - recorded: the result 3
    + current:  the result 30
    ");
    let fails = TestKit::new("f", async |ctx: Context, (): ()| -> Result<u32> {
        order(ctx, ()).await?;
        Err(Error::new("Mine", "changed my mind"))
    });
    check!(differences(fails).await, @"
    - recorded: it succeeded
    + current:  it fails with Mine: changed my mind
    ");
}

#[tokio::test]
async fn an_unfinished_recording_may_go_on_with_new_work() {
    let mut run = TestKit::new("f", order).start(()).await;
    run.run_once().await;
    let recording = Recording::of(&run);
    TestKit::new("f", order)
        .replay_check(&recording)
        .await
        .assert_compatible();
    let renamed = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.step("pay", async |_| Sure::Ok(1)).await
    });
    assert!(!renamed.replay_check(&recording).await.is_compatible());
}

#[tokio::test]
async fn a_history_is_as_good_as_a_recording() {
    let kit = everything_kit();
    let run = kit.run(()).await;
    let recording = Recording::from_history(run.arn(), run.history());
    kit.replay_check(&recording).await.assert_compatible();
    // It survives being stored as JSON, too.
    let stored = serde_json::to_string(&recording).unwrap();
    let recording: Recording = serde_json::from_str(&stored).unwrap();
    kit.replay_check(&recording).await.assert_compatible();
}

#[tokio::test]
async fn large_results_are_recognised_in_a_history() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let leaf: String = ctx
            .run_in_child_context("leaf", async |_| Ok("x".repeat(300_000)))
            .await?;
        let text = |after: u64| {
            ctx.step("s", move |_| async move {
                tokio::time::sleep(millis(after)).await;
                Sure::Ok("x".repeat(300_000))
            })
        };
        let inputs = [text(200), text(100)];
        let first: String = ctx.race("race", inputs).await?;
        let items = ctx
            .map("m", [1, 2], async |_, _| Ok("x".repeat(200_000)))
            .await?;
        Ok::<_, Error>(leaf.len() + first.len() + items.total_count())
    });
    let run = kit.run(()).await;
    assert_eq!(run.result::<usize>().unwrap(), 600_002);
    let recording = Recording::from_history(run.arn(), run.history());
    kit.replay_check(&recording).await.assert_compatible();
}
