//! The same work in every shape that user code gives it: in place and spawned, under `join!`,
//! `select!`, `FuturesUnordered`, `join_all` and `select_all`, few and many.

use super::*;
use futures::{
    StreamExt as _,
    future::{BoxFuture, join_all, select_all},
    stream::FuturesUnordered,
};
use outlast::Retry;
use std::sync::Mutex;

/// How futures are awaited together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Sequence,
    Join,
    Select,
    JoinAll,
    Unordered,
    SelectAll,
}

const SHAPES: [Shape; 6] = [
    Shape::Sequence,
    Shape::Join,
    Shape::Select,
    Shape::JoinAll,
    Shape::Unordered,
    Shape::SelectAll,
];

type Work<'a> = BoxFuture<'a, Result<u32>>;

/// Awaits everything and gives the sum.
async fn gather(shape: Shape, work: Vec<Work<'_>>) -> Result<u32> {
    let mut sum = 0;
    match shape {
        Shape::Sequence => {
            for one in work {
                sum += one.await?;
            }
        }
        Shape::Join => {
            let mut work = work.into_iter();
            while let Some(first) = work.next() {
                let zero = || Box::pin(async { Ok(0_u32) }) as Work<'_>;
                let second = work.next().unwrap_or_else(zero);
                let third = work.next().unwrap_or_else(zero);
                let (first, second, third) = tokio::join!(first, second, third);
                sum += first? + second? + third?;
            }
        }
        Shape::Select => {
            let mut rest = work.into_iter();
            let (mut left, mut right) = (rest.next(), rest.next());
            loop {
                sum += tokio::select! {
                    one = async { left.as_mut().unwrap().await }, if left.is_some() => {
                        left = rest.next();
                        one?
                    }
                    one = async { right.as_mut().unwrap().await }, if right.is_some() => {
                        right = rest.next();
                        one?
                    }
                    else => return Ok(sum),
                };
            }
        }
        Shape::JoinAll => {
            for one in join_all(work).await {
                sum += one?;
            }
        }
        Shape::Unordered => {
            let mut work: FuturesUnordered<_> = work.into_iter().collect();
            while let Some(one) = work.next().await {
                sum += one?;
            }
        }
        Shape::SelectAll => {
            let mut work = work;
            while !work.is_empty() {
                let (one, _, rest) = select_all(work).await;
                sum += one?;
                work = rest;
            }
        }
    }
    Ok(sum)
}

/// Which piece of work is started how; positions are claimed in order either way.
fn start<'a>(ctx: &Context, index: u32, spawned: bool, runs: &'a Counter) -> Work<'a> {
    macro_rules! started {
        ($builder:expr) => {
            if spawned {
                Box::pin($builder.spawn()) as Work<'a>
            } else {
                Box::pin($builder.future()) as Work<'a>
            }
        };
    }
    let bodies = runs.clone();
    match index % 4 {
        0 => started!(ctx.step("step", move |_| {
            bodies.add();
            async { Ok::<u32, io::Error>(1) }
        })),
        1 => {
            let wait = ctx.wait(secs(u64::from(index % 3) + 1));
            if spawned {
                let handle = wait.spawn();
                Box::pin(async move { handle.await.map(|()| 10) })
            } else {
                let wait = wait.future();
                Box::pin(async move { wait.await.map(|()| 10) })
            }
        }
        2 => {
            let step = ctx.step("flaky", move |step| {
                bodies.add();
                async move { flaky(step.attempt(), 3).map(|_| 100_u32) }
            });
            started!(step.retry(Retry::fixed(secs(2))))
        }
        _ => started!(ctx.run_in_child_context("child", async move |ctx| {
            ctx.wait(secs(1)).await?;
            ctx.step("inner", async |_| Ok::<_, io::Error>(bodies.add()))
                .await?;
            ctx.wait(secs(1)).await?;
            Ok(1_000_u32)
        })),
    }
}

/// What `start` adds up to, and how many bodies it runs.
fn expected(count: u32) -> (u32, u32) {
    let each = |index: u32| match index % 4 {
        0 => (1, 1),
        1 => (10, 0),
        2 => (100, 3),
        _ => (1_000, 1),
    };
    (0..count)
        .map(each)
        .fold((0, 0), |(sum, runs), (one, bodies)| {
            (sum + one, runs + bodies)
        })
}

async fn check(shape: Shape, count: u32, spawned: bool) {
    let runs = Counter::default();
    let counted = runs.clone();
    let run = kit(move |ctx| {
        let runs = counted.clone();
        async move {
            let work = (0..count)
                .map(|index| start(&ctx, index, spawned, &runs))
                .collect();
            gather(shape, work).await
        }
    })
    .max_invocations(200)
    .run(())
    .await;
    let (sum, bodies) = expected(count);
    let label = format!("{shape:?}, {count}, spawned: {spawned}");
    assert_eq!(
        run.result::<u32>().map_err(|error| error.to_string()),
        Ok(sum),
        "{label}"
    );
    assert_eq!(
        runs.get(),
        bodies,
        "{label}: a body ran more than once, or not at all"
    );
    assert_eq!(
        refreshes(&run),
        0,
        "{label}: bodies take no time, so nothing is worth staying for"
    );
    let reasons = reasons(&run);
    let (last, earlier) = reasons.split_last().unwrap();
    assert!(
        last.is_none() && earlier.iter().all(Option::is_some),
        "{label}: {reasons:?}"
    );
    let together = spawned || matches!(shape, Shape::JoinAll | Shape::Unordered | Shape::SelectAll);
    if together && count >= 4 {
        // Everything waits side by side: wakes at 1, 2, 3 and 4 seconds.
        assert_eq!(reasons.len(), 5, "{label}");
    }
}

#[tokio::test]
async fn a_few_operations_in_place_give_the_same_in_every_shape() {
    for shape in SHAPES {
        check(shape, 8, false).await;
    }
}

#[tokio::test]
async fn a_few_spawned_operations_give_the_same_in_every_shape() {
    for shape in SHAPES {
        check(shape, 8, true).await;
    }
}

#[tokio::test]
async fn a_hundred_operations_in_place_give_the_same_in_every_shape() {
    for shape in [Shape::JoinAll, Shape::Unordered, Shape::SelectAll] {
        check(shape, 100, false).await;
    }
}

#[tokio::test]
async fn a_hundred_spawned_operations_give_the_same_in_every_shape() {
    for shape in SHAPES {
        check(shape, 100, true).await;
    }
}

#[tokio::test]
async fn bodies_that_await_the_handles_of_others_suspend_and_finish_in_every_shape() {
    for shape in SHAPES {
        for spawned in [false, true] {
            let run = kit(move |ctx| async move {
                let mut work: Vec<Work<'_>> = Vec::new();
                for _ in 0..40 {
                    let flaky = ctx
                        .step("flaky", async |step| flaky(step.attempt(), 2))
                        .retry(Retry::fixed(secs(2)))
                        .spawn();
                    let flaky = Arc::new(Mutex::new(Some(flaky)));
                    let after = ctx.step("after", move |_| {
                        let handle = flaky.lock().unwrap().take().unwrap();
                        async move { handle.await.map(|attempt| attempt + 1) }
                    });
                    work.push(if spawned {
                        Box::pin(after.spawn())
                    } else {
                        Box::pin(after.future())
                    });
                }
                gather(shape, work).await
            })
            .run(())
            .await;
            assert_eq!(run.result::<u32>().unwrap(), 120, "{shape:?} {spawned}");
            assert_eq!(
                reasons(&run),
                [Some(TerminationReason::RetryScheduled), None]
            );
        }
    }
}

#[tokio::test]
async fn nested_batches_of_which_only_some_branches_wait_finish_what_can_run_first() {
    let runs = Counter::default();
    let counted = runs.clone();
    let run = kit(move |ctx| {
        let runs = counted.clone();
        async move {
            let rows = ctx.map("rows", 0..5_u32, async |ctx, row| {
                let cells = ctx.map("cells", 0..5_u32, async |ctx, cell| {
                    if (row + cell) % 3 == 0 {
                        ctx.wait(secs(u64::from(cell) + 1)).await?;
                    }
                    ctx.step("cell", async |_| {
                        Ok::<_, io::Error>((runs.add(), row * cell))
                    })
                    .await
                });
                let cells = cells.await?.into_values()?;
                Ok(cells.into_iter().map(|(_, product)| product).sum::<u32>())
            });
            Ok(rows.await?.into_values()?.into_iter().sum::<u32>())
        }
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 100);
    assert_eq!(runs.get(), 25);
    // Before the first suspension every cell that does not wait has run.
    let first = &run.invocations()[0];
    let done = first.requests.iter().flat_map(|request| &request.updates);
    let done = done.filter(|(update, _)| {
        update.name.as_deref() == Some("cell") && update.action.to_string() == "SUCCEED"
    });
    assert_eq!(done.count(), 17);
    assert_eq!(
        run.invocations().len(),
        6,
        "waits end after 1, 2, 3, 4 and 5 seconds"
    );
}

#[tokio::test]
async fn many_turns_of_the_runtime_in_one_poll_do_not_look_like_waiting() {
    let run = kit(async |ctx| {
        let wait = ctx.wait(secs(5)).spawn();
        let (send, mut receive) = tokio::sync::mpsc::channel(1_000);
        for number in 0..1_000_u32 {
            send.try_send(number).unwrap();
        }
        drop(send);
        let receive = &tokio::sync::Mutex::new(&mut receive);
        // Both use up the runtime's budget for one poll many times over.
        let drained = ctx.step("drain", async move |_| {
            let mut sum = 0;
            while let Some(number) = receive.lock().await.recv().await {
                sum += number;
            }
            Ok::<_, io::Error>(sum)
        });
        let yielded = ctx.step("yield", async |_| {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            Ok::<_, io::Error>(1)
        });
        let (drained, yielded) = tokio::join!(drained, yielded);
        wait.await?;
        Ok(drained? + yielded?)
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 499_501);
    assert_eq!(run.attempts("drain") + run.attempts("yield"), 2);
}
