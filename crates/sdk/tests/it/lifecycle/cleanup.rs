//! After an invocation nothing of it is alive: no task, no future, no timer.

use super::*;
use crate::direct::Direct;
use outlast::{Error, Function, Request, Retry, invoke};
use tokio::runtime::Handle;

/// Counts what is alive.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<AtomicU32>);

struct Life(Alive);

impl Alive {
    fn begin(&self) -> Life {
        self.0.fetch_add(1, Ordering::SeqCst);
        Life(self.clone())
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The runtime forgets a task a moment after whoever awaited it has gone on.
async fn only_these_tasks_are_left(tasks: usize) {
    let metrics = Handle::current().metrics();
    for _ in 0..100_000 {
        if metrics.num_alive_tasks() == tasks {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!(
        "{} tasks are alive, {tasks} were",
        metrics.num_alive_tasks()
    );
}

/// A handler that leaves spawned work of every kind waiting, and then waits itself.
fn crowd(alive: Alive) -> Function {
    Function::new("crowd", move |ctx: Context, (): ()| {
        let alive = alive.clone();
        async move {
            let _life = alive.begin();
            for _ in 0..10 {
                let _wait = ctx.wait(secs(60)).spawn();
                let _signal = ctx.wait_signal::<String>("never").timeout(secs(60)).spawn();
                let life = alive.clone();
                let step = ctx.step("flaky", move |step| {
                    let life = life.begin();
                    async move {
                        tokio::task::yield_now().await;
                        drop(life);
                        flaky(step.attempt(), 2)
                    }
                });
                let flaky = step.retry(Retry::fixed(secs(30))).spawn();
                let flaky = std::sync::Mutex::new(Some(flaky));
                let life = alive.clone();
                let _body = ctx
                    .step("body", move |_| {
                        let (life, handle) = (life.begin(), flaky.lock().unwrap().take());
                        async move {
                            let _life = life;
                            handle.unwrap().await
                        }
                    })
                    .spawn();
                let life = alive.clone();
                let _child = ctx
                    .run_in_child_context("child", async move |ctx| {
                        let _life = life.begin();
                        let _inner = ctx.wait(secs(60)).spawn();
                        ctx.wait(secs(60)).await
                    })
                    .spawn();
            }
            ctx.wait(secs(60)).await?;
            Ok::<_, Error>(())
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_invocation_leaves_no_task_and_no_future_behind() {
    let alive = Alive::default();
    let backend = Direct::new();
    let function = backend.equip(crowd(alive.clone()));
    let tasks = Handle::current().metrics().num_alive_tasks();
    let outcome = backend.invoke(&function).await.unwrap();
    assert_eq!(outcome.reason, Some(TerminationReason::RetryScheduled));
    assert_eq!(alive.count(), 0);
    only_these_tasks_are_left(tasks).await;
}

#[tokio::test]
async fn a_suspended_invocation_leaves_nothing_behind_inside_its_own_task() {
    let alive = Alive::default();
    let mut run = TestKit::of(crowd(alive.clone())).start(()).await;
    run.run_once().await;
    assert_eq!(reasons(&run), [Some(TerminationReason::RetryScheduled)]);
    assert_eq!(alive.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invocation_that_is_dropped_takes_its_spawned_work_along() {
    let alive = Alive::default();
    let begun = Counter::default();
    let inner = (alive.clone(), begun.clone());
    let backend = Direct::new();
    let function = backend.equip(Function::new("f", move |ctx: Context, (): ()| {
        let (alive, begun) = inner.clone();
        async move {
            let _life = alive.begin();
            let life = alive.clone();
            let stuck = ctx.step("stuck", move |_| {
                let life = life.begin();
                begun.add();
                async move {
                    let _life = life;
                    std::future::pending::<Result<u32, io::Error>>().await
                }
            });
            stuck.spawn().await
        }
    }));
    let tasks = Handle::current().metrics().num_alive_tasks();
    let (_, input) = backend.begin().unwrap();
    let mut running = Box::pin(invoke(
        &function,
        input,
        backend.clone(),
        Request::default(),
    ));
    while begun.get() == 0 {
        tokio::select! {
            biased;
            _ = &mut running => unreachable!("it never ends"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(alive.count(), 2);
    drop(running);
    // Cancelled when the runtime gets to it.
    only_these_tasks_are_left(tasks).await;
    assert_eq!(alive.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn work_that_is_spawned_while_the_invocation_fails_is_dropped_at_once() {
    let alive = Alive::default();
    let inner = alive.clone();
    let backend = Direct::new();
    let (failed, late) = std::sync::mpsc::channel::<()>();
    let (failed, late) = (
        std::sync::Mutex::new(failed),
        Arc::new(std::sync::Mutex::new(late)),
    );
    let function = backend.equip(Function::new("f", move |ctx: Context, (): ()| {
        let (alive, late) = (inner.clone(), late.clone());
        let failed = failed.lock().unwrap().clone();
        async move {
            let blocking = ctx.run_in_child_context("blocking", async move |ctx| {
                // Holds its thread until the invocation is being torn down.
                let _ = late.lock().unwrap().recv_timeout(secs(1));
                let life = alive.clone();
                let step = ctx.step("late", move |_| {
                    let life = life.begin();
                    async move {
                        let _life = life;
                        std::future::pending::<Result<u32, io::Error>>().await
                    }
                });
                step.spawn().await
            });
            let blocking = blocking.spawn();
            let panics = ctx.run_in_child_context("panics", async move |_| -> Result<()> {
                let _failed = failed;
                panic!("ouch")
            });
            panics.spawn().await?;
            blocking.await
        }
    }));
    let tasks = Handle::current().metrics().num_alive_tasks();
    let outcome = backend.invoke(&function).await.unwrap();
    let answer = outcome.answer.unwrap();
    assert_eq!(answer.error.unwrap().error_type.as_deref(), Some("panic"));
    assert_eq!(alive.count(), 0);
    only_these_tasks_are_left(tasks).await;
}
