//! Contexts and handles where they do not belong: an error at once, never a hang, and never a
//! position that shifts the operations after it.

use super::*;
use crate::direct::Direct;
use outlast::{DurableFuture, Error, ErrorKind, Function, Retry, core::id::Position};
use std::sync::Mutex;

/// The position that the next operation of the root context gets, as its id.
async fn next_id(ctx: &Context) -> Result<String> {
    ctx.step("next", async |step| {
        Ok::<_, io::Error>(step.operation_id().to_owned())
    })
    .await
}

fn id(number: u64) -> String {
    Position::root().child(number).id().as_str().to_owned()
}

#[tokio::test]
async fn an_operation_started_in_the_body_of_a_step_fails_at_once_and_takes_no_position() {
    let run = kit(async |ctx| {
        let inner = ctx.clone();
        let kinds = ctx
            .step("outer", move |_| {
                // Before the body's future is made, and inside it.
                let early = inner.wait(secs(1)).future();
                let inner = inner.clone();
                async move {
                    let mut kinds = vec![early.await.unwrap_err().kind()];
                    let inside = inner.step("inside", async |_| busy(secs(0)).await).await;
                    kinds.push(inside.unwrap_err().kind());
                    let spawned = inner.wait(secs(1)).spawn().await;
                    kinds.push(spawned.unwrap_err().kind());
                    let child = inner.run_in_child_context("c", async |_| Ok(())).await;
                    kinds.push(child.unwrap_err().kind());
                    Ok::<_, io::Error>(kinds)
                }
            })
            .await?;
        Ok((kinds, next_id(&ctx).await?))
    })
    .run(())
    .await;
    let (kinds, next) = run.result::<(Vec<ErrorKind>, String)>().unwrap();
    assert_eq!(kinds, [ErrorKind::NestedInStep; 4]);
    assert_eq!(next, id(2));
    assert_eq!(reasons(&run), [None]);
}

#[tokio::test]
async fn an_operation_built_outside_may_not_be_started_inside_a_body() {
    let run = kit(async |ctx| {
        let built = Mutex::new(Some(ctx.wait(secs(1)).future()));
        let kind = ctx
            .step("outer", async |_| {
                let built = built.lock().unwrap().take();
                Ok::<_, io::Error>(built.unwrap().await.unwrap_err().kind())
            })
            .await?;
        Ok(kind)
    })
    .run(())
    .await;
    assert_eq!(run.result::<ErrorKind>().unwrap(), ErrorKind::NestedInStep);
}

#[tokio::test]
async fn a_closure_that_panics_before_its_future_exists_fails_its_step() {
    let run = kit(async |ctx| {
        let step = ctx.step(
            "panics",
            |_| -> std::future::Ready<Result<u32, io::Error>> { panic!("too early") },
        );
        let error = step.retry(Retry::none()).await.unwrap_err();
        Ok((error.kind(), error.record().error_message.clone()))
    })
    .run(())
    .await;
    let (kind, message) = run.result::<(ErrorKind, Option<String>)>().unwrap();
    assert_eq!(
        (kind, message.as_deref()),
        (ErrorKind::Step, Some("too early"))
    );
}

#[tokio::test]
async fn a_child_context_may_be_used_before_the_future_of_its_body_exists() {
    let run = kit(async |ctx| {
        ctx.run_in_child_context("child", |ctx| {
            let first = ctx.step("first", async |_| busy(secs(0)).await);
            async move { first.await }
        })
        .await
    })
    .run(())
    .await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
}

#[tokio::test]
async fn the_context_of_a_parent_may_not_be_used_inside_a_child_and_takes_no_position() {
    let run = kit(async |ctx| {
        let outer = ctx.clone();
        let kinds = ctx
            .run_in_child_context("child", async |inner| {
                let step = outer.step("wrong", async |_| busy(secs(0)).await).await;
                let spawned = outer.wait(secs(1)).spawn().await;
                inner.step("right", async |_| busy(secs(0)).await).await?;
                Ok((step.unwrap_err().kind(), spawned.unwrap_err().kind()))
            })
            .await?;
        Ok((kinds, next_id(&ctx).await?))
    })
    .run(())
    .await;
    let (kinds, next) = run.result::<((ErrorKind, ErrorKind), String)>().unwrap();
    assert_eq!(kinds, (ErrorKind::WrongContext, ErrorKind::WrongContext));
    assert_eq!(next, id(2));
}

#[tokio::test]
async fn the_context_of_a_sibling_branch_may_not_be_used() {
    let run = kit(async |ctx| {
        let stolen = Mutex::new(None);
        ctx.map("m", [0_u32, 1], async |ctx, item| {
            if item == 0 {
                *stolen.lock().unwrap() = Some(ctx);
                return Ok(None);
            }
            let other = stolen.lock().unwrap().take();
            let wrong = other.unwrap().wait(secs(1)).await;
            Ok(Some(wrong.unwrap_err().kind()))
        })
        .await?
        .into_values()
    })
    .run(())
    .await;
    let kinds = run.result::<Vec<Option<ErrorKind>>>().unwrap();
    assert_eq!(kinds, [None, Some(ErrorKind::WrongContext)]);
}

#[tokio::test]
async fn a_context_in_a_task_of_the_users_own_is_refused_and_takes_no_position() {
    let run = kit(async |ctx| {
        let mut own = tokio::task::JoinSet::new();
        let (built, outer) = (ctx.wait(secs(1)).future(), ctx.clone());
        own.spawn(async move {
            let started = outer.wait(secs(1)).await.unwrap_err().kind();
            let spawned = outer.wait(secs(1)).spawn().await.unwrap_err().kind();
            [started, spawned, built.await.unwrap_err().kind()]
        });
        let kinds = own.join_next().await.unwrap().map_err(Error::other)?;
        Ok((kinds, next_id(&ctx).await?))
    })
    .run(())
    .await;
    let (kinds, next) = run.result::<([ErrorKind; 3], String)>().unwrap();
    assert_eq!(kinds, [ErrorKind::ForeignTask; 3]);
    assert_eq!(
        next,
        id(2),
        "only what was built in the handler took a position"
    );
}

#[tokio::test]
async fn a_handle_in_a_task_of_the_users_own_is_refused_whether_or_not_it_is_finished() {
    let run = kit(async |ctx| {
        let finished = ctx.step("quick", async |_| busy(secs(0)).await).spawn();
        let open = ctx.step("slow", async |_| busy(secs(5)).await).spawn();
        ctx.step("wait", async |_| busy(secs(1)).await).await?;
        let mut own = tokio::task::JoinSet::new();
        own.spawn(async move {
            [
                finished.await.unwrap_err().kind(),
                open.await.unwrap_err().kind(),
            ]
        });
        own.join_next().await.unwrap().map_err(Error::other)
    })
    .run(())
    .await;
    assert_eq!(
        run.result::<[ErrorKind; 2]>().unwrap(),
        [ErrorKind::ForeignTask; 2]
    );
}

#[tokio::test]
async fn a_context_or_handle_of_an_earlier_invocation_is_refused() {
    type Kept = Arc<Mutex<Option<(Context, DurableFuture<u32>)>>>;
    let kept = Kept::default();
    let run = kit(move |ctx| {
        let kept = kept.clone();
        async move {
            let handle = ctx.step("slow", async |_| busy(secs(0)).await).spawn();
            let earlier = kept.lock().unwrap().replace((ctx.clone(), handle));
            ctx.wait(secs(5)).await?;
            let (old, handle) = earlier.unwrap();
            let wait = old.wait(secs(1)).await.unwrap_err().kind();
            Ok([wait, handle.await.unwrap_err().kind()])
        }
    })
    .run(())
    .await;
    assert_eq!(
        run.result::<[ErrorKind; 2]>().unwrap(),
        [ErrorKind::ForeignTask; 2]
    );
}

#[tokio::test]
async fn an_at_most_once_body_may_not_await_a_handle_whether_or_not_it_is_finished() {
    for delay in [0, 5] {
        let run = kit(move |ctx| async move {
            let handle = ctx.step("other", move |_| busy(secs(delay))).spawn();
            ctx.step("between", async |_| busy(secs(1)).await).await?;
            let handle = Mutex::new(Some(handle));
            let step = ctx.step("once", async |_| {
                let handle = handle.lock().unwrap().take();
                handle.unwrap().await
            });
            let error = step.at_most_once().retry(Retry::none()).await.unwrap_err();
            Ok((error.kind(), error.error_type().to_owned()))
        })
        .run(())
        .await;
        assert_eq!(
            run.result::<(ErrorKind, String)>().unwrap(),
            (ErrorKind::Step, "NestedInStepError".to_owned())
        );
    }
}

#[tokio::test]
async fn operations_started_while_the_handler_is_dropped_are_refused() {
    struct Last(Context, Arc<Mutex<Option<ErrorKind>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let handle = self.0.step("late", async |_| busy(secs(0)).await).spawn();
            let mut handle = std::pin::pin!(handle);
            let mut poller = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(Err(error)) = handle.as_mut().poll(&mut poller) {
                *self.1.lock().unwrap() = Some(error.kind());
            }
        }
    }
    let seen = Arc::new(Mutex::new(None));
    let noted = seen.clone();
    let backend = Direct::new();
    let function = backend.equip(Function::new("f", move |ctx: Context, (): ()| {
        let last = Last(ctx.clone(), noted.clone());
        async move {
            ctx.wait(secs(5)).await?;
            drop(last);
            Ok::<_, Error>(())
        }
    }));
    backend.invoke(&function).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(ErrorKind::ForeignTask));
}
