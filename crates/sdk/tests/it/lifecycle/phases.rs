//! Two phases: an operation that is spawned is recorded before it is awaited; one that is only built
//! has a position and nothing else.

use super::*;
use outlast::core::id::Position;

#[tokio::test]
async fn a_spawned_wait_is_recorded_before_it_is_awaited() {
    let run = kit(async |ctx| {
        let wait = ctx.named_wait("pause", secs(10)).spawn();
        ctx.step("work", async |_| busy(secs(4)).await).await?;
        wait.await
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    let (pause, work) = (
        run.operation("pause").unwrap(),
        run.operation("work").unwrap(),
    );
    let took = |operation: &outlast::core::wire::Operation| {
        operation
            .end_timestamp
            .unwrap()
            .millis_since(operation.start_timestamp)
    };
    assert_eq!(took(pause), 10_000);
    assert!(pause.start_timestamp < work.end_timestamp.unwrap());
    assert!(
        run.requests_text()
            .starts_with("Step work START~, Wait pause START!\n")
    );
}

#[tokio::test]
async fn every_kind_of_operation_is_recorded_when_it_is_spawned() {
    let run = kit(async |ctx| {
        let _wait = ctx.named_wait("wait", secs(9)).spawn();
        let _callback = ctx.create_callback::<String>("callback").spawn();
        let _signal = ctx.wait_signal::<String>("signal").spawn();
        let _invoke = ctx.invoke::<_, u32>("invoke", "other", 1).spawn();
        let _child = ctx
            .run_in_child_context("child", async |ctx| ctx.named_wait("inner", secs(9)).await)
            .spawn();
        ctx.step("work", async |_| busy(secs(1)).await).await
    })
    .scripted("other", [outlast::testing::Answer::never()])
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    for name in ["wait", "callback", "signal", "invoke", "child", "inner"] {
        assert_eq!(status(&run, name), OperationStatus::Started, "{name}");
    }
}

#[tokio::test]
async fn a_callback_whose_result_nobody_awaits_does_not_hold_the_handler() {
    let run = kit(async |ctx| {
        let callback = ctx.create_callback::<String>("unused").await?;
        ctx.step("send", async |_| Ok::<_, io::Error>(callback.id().len()))
            .await
    })
    .run(())
    .await;
    assert!(run.result::<usize>().unwrap() > 0);
    assert_eq!(reasons(&run), [None]);
    assert_eq!(status(&run, "unused"), OperationStatus::Started);
}

#[tokio::test]
async fn an_operation_that_is_built_and_not_awaited_takes_a_position_and_records_nothing() {
    let run = kit(async |ctx| {
        let never = ctx.step("never", async |_| busy(secs(0)).await);
        let unpolled = ctx.wait(secs(5)).future();
        ctx.step("third", async |_| busy(secs(0)).await).await?;
        drop((never, unpolled));
        Ok(())
    })
    .run(())
    .await;
    run.result::<()>().unwrap();
    let recorded: Vec<_> = run
        .operations()
        .iter()
        .skip(1)
        .map(|operation| &operation.id)
        .collect();
    assert_eq!(recorded, [&Position::root().child(3).id()]);
}

#[tokio::test]
async fn positions_follow_the_order_of_the_calls_and_not_of_the_awaits() {
    let run = kit(async |ctx| {
        let first = ctx.step("first", async |_| busy(secs(0)).await);
        let second = ctx.step("second", async |_| busy(secs(0)).await).spawn();
        ctx.step("third", async |_| busy(secs(0)).await).await?;
        second.await?;
        first.await
    })
    .run(())
    .await;
    run.result::<u32>().unwrap();
    for (name, number) in [("first", 1), ("second", 2), ("third", 3)] {
        let id = &run.operation(name).unwrap().id;
        assert_eq!(*id, Position::root().child(number).id(), "{name}");
    }
}

#[tokio::test]
async fn two_waits_without_names_and_a_step_take_three_invocations() {
    let bodies = Counter::default();
    let counted = bodies.clone();
    let run = kit(move |ctx| {
        let bodies = counted.clone();
        async move {
            ctx.wait(secs(5)).await?;
            let runs = ctx
                .step("work", async |_| Ok::<_, io::Error>(bodies.add()))
                .await?;
            ctx.wait(secs(10)).await?;
            Ok(runs)
        }
    })
    .max_invocations(10)
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
    assert_eq!((run.invocations().len(), bodies.get()), (3, 1));
    insta::assert_snapshot!(run.requests_text(), @"
    Wait START!

    Step work START~, Step work SUCCEED!
    Wait START!

    (none)
    ");
}

#[tokio::test]
async fn a_conditional_wait_is_found_again_when_its_condition_is_recorded() {
    let run = kit(async |ctx| {
        let mut waited = 0;
        for round in 0..4_u32 {
            let due = ctx
                .step("due", async |_| Ok::<_, io::Error>(round % 2 == 0))
                .await?;
            if due {
                ctx.wait(secs(3)).await?;
                waited += 1;
            }
        }
        Ok(waited)
    })
    .max_invocations(10)
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 2);
    assert_eq!(run.invocations().len(), 3);
}

#[tokio::test]
async fn a_duplicate_terminal_notice_changes_nothing() {
    for request in 1..=6 {
        let run = kit(async |ctx| {
            let wait = ctx.wait(secs(5)).spawn();
            let flaky = ctx
                .step("flaky", async |step| flaky(step.attempt(), 2))
                .retry(outlast::Retry::fixed(secs(3)))
                .spawn();
            ctx.step("busy", async |_| busy(secs(8)).await).await?;
            ctx.run_in_child_context("child", async |ctx| ctx.wait(secs(1)).await)
                .await?;
            wait.await?;
            flaky.await
        })
        .fault(outlast::testing::Fault::DuplicateResponse(request))
        .fault(outlast::testing::Fault::DuplicateResponse(request + 1))
        .run(())
        .await;
        assert_eq!(
            run.result::<u32>().unwrap(),
            2,
            "duplicate answer to request {request}"
        );
        assert_eq!(run.invocations().len(), 2);
    }
}
