//! The requests of batches and combinators.

use super::*;

// --- batches -------------------------------------------------------------------------------

pub(super) fn map(concurrency: usize, nesting: Nesting, body_takes: u64) -> TestKit {
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

// --- combinators ---------------------------------------------------------------------------

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
