//! The requests of child contexts, retried blocks, sagas, spawned work and large results.

use super::{
    batches::map,
    waiting::{condition, exchange},
    *,
};

// --- child contexts ------------------------------------------------------------------------

fn child() -> TestKit {
    TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            let value: String = ctx.step("s", async |_| Sure::Ok("x".to_owned())).await?;
            ctx.named_wait("w", secs(10)).await?;
            Ok(value)
        })
        .await
    })
}

#[tokio::test]
async fn a_child_context_starts_with_its_first_operation_and_ends_with_a_request_of_its_own() {
    check!(calls_of(child()).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_child_context_goes_on_from_every_state() {
    check!(calls_of(child().fault(Fault::CrashAfter(1))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    => killed

    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(child().fault(Fault::CrashAfter(2))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => killed

    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(child().fault(Fault::CrashAfter(3))).await, @r#"
    RunInChildContext ch START~, Step s START~, Step s SUCCEED!
    Wait w START!
    => PENDING

    RunInChildContext ch SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_child_context_without_operations_is_one_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |_| Ok("x".to_owned()))
            .await
    });
    check!(calls_of(kit).await, @r#"
    RunInChildContext ch START~, RunInChildContext ch SUCCEED!
    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_failing_child_context_records_the_escaping_error() {
    let direct = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |_| Err::<(), _>(Error::new("Mine", "chfail")))
            .await
    });
    check!(calls_of(direct.clone()).await, @"
    RunInChildContext ch START~, RunInChildContext ch FAIL!
    => FAILED Mine: chfail
    ");
    check!(calls_of(direct.fault(Fault::CrashAfter(1))).await, @"
    RunInChildContext ch START~, RunInChildContext ch FAIL!
    => killed

    => FAILED Mine: chfail
    ");
    let through_a_step = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            ctx.step("s", async |_| Err::<(), _>("boom"))
                .retry(Retry::none())
                .await
        })
        .await
    });
    check!(calls_of(through_a_step.clone()).await, @"
    RunInChildContext ch START~, Step s START~, Step s FAIL!
    RunInChildContext ch FAIL!
    => FAILED Error: boom
    ");
    check!(calls_of(through_a_step.fault(Fault::CrashAfter(1))).await, @"
    RunInChildContext ch START~, Step s START~, Step s FAIL!
    => killed

    RunInChildContext ch FAIL!
    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_flat_context_writes_nothing_of_its_own() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.run_in_child_context("ch", async |ctx| {
            ctx.step("s", async |_| Sure::Ok("x".to_owned())).await
        })
        .flat()
        .await
    });
    check!(calls_of(kit.clone()).await, @r#"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED "x"
    "#);
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @r#"
    Step s START~, Step s SUCCEED!
    => killed

    => SUCCEEDED "x"
    "#);
}

#[tokio::test]
async fn a_context_that_suspends_at_once_is_flushed_before_the_answer() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let callback = ctx.create_callback::<String>("cb").await?;
        ctx.run_in_child_context("ch", async |_| callback.result().await)
            .await
    })
    .callback("cb", Answer::succeed("R").after(secs(5)));
    check!(calls_of(kit.clone()).await, @r#"
    Callback cb START!
    RunInChildContext ch START~
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "R"
    "#);
    check!(calls_of(kit.fault(Fault::CrashAfter(1))).await, @r#"
    Callback cb START!
    => killed

    RunInChildContext ch START~
    => PENDING

    RunInChildContext ch SUCCEED!
    => SUCCEEDED "R"
    "#);
}

// --- with_retry and saga -------------------------------------------------------------------

fn block(failures: u32) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        let retry = Retry::fixed(secs(10)).max_attempts(2);
        ctx.with_retry("block", retry, async |ctx, attempt| {
            ctx.step("s", move |_| async move {
                match attempt <= failures {
                    true => Err("boom"),
                    false => Ok(attempt),
                }
            })
            .retry(Retry::none())
            .await
        })
        .await
    })
}

#[tokio::test]
async fn a_retried_block_has_a_context_per_attempt_and_a_wait_between() {
    check!(calls_of(block(0)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-1 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 1
    ");
    check!(calls_of(block(1)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-2 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 2
    ");
    check!(calls_of(block(2)).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-2 FAIL!
    RunInChildContext block FAIL!
    => FAILED Error: boom
    ");
}

#[tokio::test]
async fn a_retried_block_goes_on_after_a_crash_in_its_wait() {
    check!(calls_of(block(1).fault(Fault::CrashAfter(3))).await, @"
    RunInChildContext block START~, RunInChildContext attempt-1 START~, Step s START~, Step s FAIL!
    RunInChildContext attempt-1 FAIL!
    Wait retry-delay-1 START!
    => killed

    => PENDING

    RunInChildContext attempt-2 START~, Step s START~, Step s SUCCEED!
    RunInChildContext attempt-2 SUCCEED!
    RunInChildContext block SUCCEED!
    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn a_saga_undoes_in_reverse_each_part_as_a_step() {
    async fn handler(ctx: Context, (): ()) -> Result<()> {
        ctx.saga(async |saga| {
            for part in ["a", "b"] {
                ctx.step(part, async |_| Sure::Ok(1)).await?;
                saga.undo(&format!("undo-{part}"), async |_| Sure::Ok(()));
            }
            ctx.step("c", async |_| Err("no"))
                .retry(Retry::none())
                .await
        })
        .await
    }
    let kit = TestKit::new("f", handler);
    check!(calls_of(kit.clone()).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    Step c START~, Step c FAIL!
    Step undo-b START~, Step undo-b SUCCEED!
    Step undo-a START~, Step undo-a SUCCEED!
    => FAILED Error: no
    ");
    // A crash in the middle of undoing continues where it was.
    check!(calls_of(kit.fault(Fault::CrashAfter(4))).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    Step c START~, Step c FAIL!
    Step undo-b START~, Step undo-b SUCCEED!
    => killed

    Step undo-a START~, Step undo-a SUCCEED!
    => FAILED Error: no
    ");
}

// --- spawned work, sequences ---------------------------------------------------------------

#[tokio::test]
async fn steps_in_sequence_never_share_a_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.step("s1", async |_| Sure::Ok(1)).await?;
        ctx.named_wait("w", secs(1)).await?;
        ctx.step("s2", async |_| Sure::Ok(2)).await
    });
    check!(calls_of(kit).await, @"
    Step s1 START~, Step s1 SUCCEED!
    Wait w START!
    => PENDING

    Step s2 START~, Step s2 SUCCEED!
    => SUCCEEDED 2
    ");
}

#[tokio::test]
async fn spawned_operations_share_a_request() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let first = ctx.step("s1", async |_| Sure::Ok(1)).spawn();
        let second = ctx.named_wait("w", secs(1)).spawn();
        let third = ctx.step("s2", async |_| Sure::Ok(2)).spawn();
        let sum = first.await? + third.await?;
        second.await?;
        Ok::<_, Error>(sum)
    });
    check!(calls_of(kit).await, @"
    Step s1 START~, Step s1 SUCCEED!, Wait w START!, Step s2 START~, Step s2 SUCCEED!
    => PENDING

    => SUCCEEDED 3
    ");
}

#[tokio::test]
async fn an_operation_that_is_never_awaited_records_nothing() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let _unused = ctx.step("unused", async |_| Sure::Ok(1));
        ctx.step("used", async |_| Sure::Ok(2)).await
    });
    let run = kit.run(()).await;
    check!(calls(&run), @"
    Step used START~, Step used SUCCEED!
    => SUCCEEDED 2
    ");
    // It has consumed a position all the same.
    let second = outlast::core::id::Position::root().child(2).id();
    assert_eq!(run.operation("used").unwrap().id, second);
}

#[tokio::test]
async fn a_handler_without_operations_asks_nothing() {
    check!(calls_of(TestKit::new("f", async |_: Context, (): ()| Sure::Ok(1))).await, @"=> SUCCEEDED 1");
}

#[tokio::test]
async fn every_update_names_its_operation_and_its_parent() {
    let kits = [
        exchange(1),
        child(),
        map(2, Nesting::Nested, 250),
        map(2, Nesting::Flat, 0),
        block(1),
        condition(2, 250),
    ];
    for kit in kits {
        let run = kit.run(()).await;
        let mut nested = 0;
        let requests = run.invocations().iter().flat_map(|i| &i.requests);
        for (update, _) in requests.flat_map(|request| &request.updates) {
            let mut operations = run.operations().iter();
            let operation = operations.find(|known| known.id == update.id).unwrap();
            assert_eq!(update.parent_id, operation.parent_id);
            assert_eq!(update.name, operation.name);
            assert_eq!(update.sub_type, operation.sub_type);
            nested += usize::from(update.parent_id.is_some());
        }
        let has_children = run
            .operations()
            .iter()
            .any(|known| known.parent_id.is_some());
        assert_eq!(nested > 0, has_children);
    }
}

// --- large results -------------------------------------------------------------------------

/// A text whose JSON form has this many bytes.
fn text_of(bytes: usize) -> String {
    "x".repeat(bytes - 2)
}

#[tokio::test]
async fn a_context_result_above_256_kib_is_replaced_and_its_body_runs_again_on_replay() {
    let kit = |bytes: usize| {
        TestKit::new("f", move |ctx: Context, (): ()| async move {
            let text: String = ctx
                .run_in_child_context("ch", async |ctx| {
                    let x: String = ctx.step("s", async |_| Sure::Ok("x".to_owned())).await?;
                    Ok(x.repeat(bytes - 2))
                })
                .await?;
            ctx.named_wait("w", secs(1)).await?;
            Ok::<_, Error>(text == text_of(bytes))
        })
    };
    for (bytes, stored, children) in [
        (262_143, 262_143, false),
        (262_144, 262_144, false),
        (262_145, 0, true),
    ] {
        let run = kit(bytes).run(()).await;
        let context = run
            .operation("ch")
            .unwrap()
            .context_details
            .clone()
            .unwrap();
        assert_eq!(context.result.as_deref().map(str::len), Some(stored));
        assert_eq!(context.replay_children, children);
        insta::allow_duplicates! {
            check!(calls(&run), @"
            RunInChildContext ch START~, Step s START~, Step s SUCCEED!
            RunInChildContext ch SUCCEED!
            Wait w START!
            => PENDING

            => SUCCEEDED true
            ");
        }
    }
}

#[tokio::test]
async fn the_size_of_a_context_result_is_counted_in_bytes_not_characters() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let text: String = ctx
            .run_in_child_context("ch", async |_| Ok("ä".repeat(131_072)))
            .await?;
        Ok::<_, Error>(text.len())
    });
    let run = kit.run(()).await;
    assert!(run.operation("ch").unwrap().replays_children());
    assert_eq!(run.result::<usize>().unwrap(), 262_144);
}

#[tokio::test]
async fn a_large_batch_result_is_replaced_by_a_summary_and_rebuilt_from_its_items() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let texts: Vec<String> = ctx
            .map("m", [0, 1], async |_, item: usize| {
                Ok("x".repeat(200_000 + item))
            })
            .await?
            .into_values()?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(texts.iter().map(String::len).collect::<Vec<_>>())
    });
    let run = kit.run(()).await;
    check!(calls(&run), @"
    Map m START~, MapIteration map-item-0 START~, MapIteration map-item-0 SUCCEED!, MapIteration map-item-1 START~, MapIteration map-item-1 SUCCEED!
    Map m SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED [200000,200001]
    ");
    let stored = run.operation("m").unwrap().context_details.clone().unwrap();
    check!(stored.result.unwrap(), @r#"{"type":"MapResult","totalCount":2,"completionReason":"ALL_COMPLETED","startedIndexes":[],"startedCount":0,"successCount":2,"failureCount":0,"status":"SUCCEEDED","itemStatuses":"SS"}"#);
    assert!(stored.replay_children);
    assert_eq!(run.result::<Vec<usize>>().unwrap(), [200_000, 200_001]);
}

#[tokio::test]
async fn a_large_race_records_only_its_winner_and_reads_it_again() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let text = |name: &'static str, after: u64| {
            ctx.step(name, move |_| async move {
                tokio::time::sleep(millis(after)).await;
                Sure::Ok(name.repeat(300_000))
            })
        };
        let inputs = [text("a", 500), text("b", 100)];
        let first: String = ctx.race("race", inputs).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(first.get(..1).unwrap_or_default().to_owned())
    });
    let run = kit.run(()).await;
    check!(calls(&run), @r#"
    RunInChildContext race START~, Step a START~, Step b START~
    Step b SUCCEED!
    RunInChildContext race SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED "b"
    "#);
    check!(run.operation("race").unwrap().result().unwrap(), @r#"{"winner":1}"#);
    assert_eq!(run.result::<String>().unwrap(), "b");
}

#[tokio::test]
async fn a_large_callback_reply_is_not_stored_twice() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let reply: String = ctx.wait_for_callback("wfc", async |_| Sure::Ok(())).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(reply.len())
    });
    let run = kit
        .callback("wfc", Answer::succeed(&"x".repeat(262_145)))
        .run(())
        .await;
    assert!(run.operation("wfc").unwrap().replays_children());
    check!(calls(&run), @"
    WaitForCallback wfc START~, Callback wfc-callback START!
    Step wfc-submitter START~, Step wfc-submitter SUCCEED!
    => PENDING

    WaitForCallback wfc SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED 262145
    ");
}

#[tokio::test]
async fn a_final_result_above_the_answer_limit_travels_as_an_update() {
    const LIMIT: usize = 6 * 1024 * 1024 - 50;
    for (bytes, answered, written) in [
        (LIMIT - 1, LIMIT - 1, 0),
        (LIMIT, LIMIT, 0),
        (LIMIT + 1, 0, LIMIT + 1),
    ] {
        let function = Function::new("f", move |_: Context, (): ()| async move {
            Sure::Ok(text_of(bytes))
        });
        let backend = Arc::new(Fake::default());
        let outcome = backend.invoke(&function, Vec::new()).await;
        let answer = outcome.answer.unwrap();
        assert_eq!(answer.status, InvocationStatus::Succeeded);
        assert_eq!(answer.result.map(|result| result.len()), Some(answered));
        let updates: Vec<_> = backend
            .written()
            .into_iter()
            .flat_map(|r| r.updates)
            .collect();
        assert_eq!(updates.len(), usize::from(written > 0));
        for update in updates {
            // The execution's own id, and nothing that belongs to operations.
            assert_eq!(update.id.as_str(), "e1");
            assert_eq!(update.operation_type, OperationType::Execution);
            assert_eq!(update.action, OperationAction::Succeed);
            assert_eq!(update.payload.map(|payload| payload.len()), Some(written));
            assert!(
                update.name.is_none() && update.sub_type.is_none() && update.parent_id.is_none()
            );
        }
    }
}

#[tokio::test]
async fn a_final_error_above_the_answer_limit_travels_as_an_update() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| -> Result<()> {
        ctx.step("s", async |_| Sure::Ok(1)).await?;
        Err(Error::new("Mine", "e".repeat(6 * 1024 * 1024)))
    });
    let run = kit
        .quotas(|quotas| quotas.error_bytes_max = 8 * 1024 * 1024)
        .run(())
        .await;
    check!(calls(&run), @"
    Step s START~, Step s SUCCEED!
    EXECUTION FAIL!
    => FAILED without an error
    ");
    assert_eq!(run.error().unwrap().error_type.as_deref(), Some("Mine"));
}
