//! What a user of the embedded engine does on an ordinary day.

use outlast::{
    App, Context, Embedded, Error, ErrorKind, Function, Result, core::wire::ExecutionStatus,
};
use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

async fn open(app: App) -> (tempfile::TempDir, Embedded) {
    let folder = tempfile::tempdir().unwrap();
    let home = app.open_at(folder.path()).await.unwrap();
    (folder, home)
}

async fn double(ctx: Context, number: u32) -> Result<u32> {
    ctx.step("double", async |_| outlast::ok(number * 2)).await
}

#[tokio::test]
async fn a_step_runs_and_its_result_is_the_executions() {
    let (_folder, home) = open(App::new().function("double", double)).await;
    let execution = home.start("double", &21).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 42);
    assert_eq!(
        execution.status().await.unwrap(),
        ExecutionStatus::Succeeded
    );
    let events = execution.history().await.unwrap();
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_wait_ends_by_itself_and_the_code_goes_on() {
    async fn sleeper(ctx: Context, (): ()) -> Result<&'static str> {
        ctx.wait(Duration::from_secs(1)).await?;
        Ok("awake")
    }
    let (_folder, home) = open(App::new().function("sleeper", sleeper)).await;
    let execution = home.start("sleeper", &()).await.unwrap();
    assert_eq!(execution.result::<String>().await.unwrap(), "awake");
}

#[tokio::test]
async fn an_execution_whose_starter_goes_away_in_the_middle_runs_all_the_same() {
    let (_folder, home) = open(App::new().function("double", double)).await;
    let mut start = std::pin::pin!(home.start("double", &21).name("left").into_future());
    let begun = std::future::poll_fn(|context| Poll::Ready(start.as_mut().poll(context)));
    assert!(begun.await.is_pending(), "it waits for the disk");
    start.set(home.start("double", &21).name("left").into_future());
    let found = start.await.unwrap();
    assert_eq!(found.result::<u32>().await.unwrap(), 42);
}

#[tokio::test]
async fn the_same_start_finds_the_same_execution_and_another_input_is_refused() {
    let (_folder, home) = open(App::new().function("double", double)).await;
    let first = home.start("double", &1).name("once").await.unwrap();
    let again = home.start("double", &1).name("once").await.unwrap();
    assert!(!first.existed() && again.existed());
    assert_eq!(first.arn(), again.arn());
    let other = home.start("double", &2).name("once").await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput);
    assert!(other.message().contains("once"), "{other}");
    assert_eq!(first.result::<u32>().await.unwrap(), 2);
}

#[tokio::test]
async fn a_callback_is_answered_by_its_id() {
    let (sender, mut ids) = tokio::sync::mpsc::unbounded_channel::<String>();
    let approve = move |ctx: Context, (): ()| {
        let sender = sender.clone();
        async move {
            let submit = async |id: String| sender.send(id).map_err(std::io::Error::other);
            let approved: Result<bool> = ctx.wait_for_callback("approve", submit).await;
            approved
        }
    };
    let (_folder, home) = open(App::new().function("approve", approve)).await;
    let execution = home.start("approve", &()).await.unwrap();
    let id = ids.recv().await.unwrap();
    let callback = home.callback(&id);
    callback.heartbeat().await.unwrap();
    callback.succeed(&true).await.unwrap();
    assert!(execution.result::<bool>().await.unwrap());
    let late = callback.succeed(&false).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn signals_are_kept_until_somebody_waits_and_after_an_end_they_are_refused() {
    async fn listen(ctx: Context, (): ()) -> Result<Vec<u32>> {
        let first = ctx.wait_signal::<u32>("number").await?;
        let second = ctx.wait_signal::<u32>("number").await?;
        Ok(vec![first, second])
    }
    let (_folder, home) = open(App::new().function("listen", listen)).await;
    let execution = home.start("listen", &()).await.unwrap();
    execution.signal("number", &7).await.unwrap();
    execution.signal("number", &8).await.unwrap();
    assert_eq!(execution.result::<Vec<u32>>().await.unwrap(), [7, 8]);
    assert!(execution.signal("number", &9).await.is_err());
}

#[tokio::test]
async fn one_function_invokes_another_and_gets_its_result_or_its_error() {
    async fn parent(ctx: Context, number: u32) -> Result<u32> {
        let doubled: u32 = ctx.invoke("call", "double", &number).await?;
        let failed: Result<u32> = ctx.invoke("fail", "broken", &()).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvokeFailed);
        Ok(doubled + 1)
    }
    async fn broken(_: Context, (): ()) -> Result<u32> {
        Err(Error::new("Broken", "always"))
    }
    let app = App::new()
        .function("parent", parent)
        .function("double", double)
        .function("broken", broken);
    let (_folder, home) = open(app).await;
    let execution = home.start("parent", &4).await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 9);
}

#[tokio::test]
async fn a_stopped_execution_says_so_and_its_handler_is_gone() {
    async fn forever(ctx: Context, (): ()) -> Result<()> {
        ctx.wait(Duration::from_secs(3_600)).await
    }
    let (_folder, home) = open(App::new().function("forever", forever)).await;
    let execution = home.start("forever", &()).await.unwrap();
    execution.stop("no longer needed").await.unwrap();
    let error = execution.result::<()>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Execution);
    assert_eq!(error.message(), "no longer needed");
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::Stopped);
}

#[tokio::test]
async fn a_map_of_many_items_runs_in_one_invocation() {
    async fn sum(ctx: Context, count: u32) -> Result<u64> {
        let items = ctx.map("items", 0..count, async |ctx, number| {
            ctx.step("item", async |_| outlast::ok(u64::from(number)))
                .await
        });
        Ok(items.await?.into_values()?.iter().sum())
    }
    let (_folder, home) = open(App::new().function("sum", sum)).await;
    let execution = home.start("sum", &1_000).await.unwrap();
    assert_eq!(execution.result::<u64>().await.unwrap(), 499_500);
}

#[tokio::test]
async fn a_panic_or_an_error_of_the_handler_fails_its_execution_and_no_other() {
    async fn fragile(_: Context, how: u32) -> Result<u32> {
        match how {
            0 => panic!("a bug"),
            1 => Err(Error::new("Refused", "not today")),
            _ => Ok(how),
        }
    }
    let (_folder, home) = open(App::new().function("fragile", fragile)).await;
    let mut errors = Vec::new();
    for how in 0..3 {
        let execution = home.start("fragile", &how).await.unwrap();
        errors.push(
            execution
                .result::<u32>()
                .await
                .map_err(|error| error.message().to_owned()),
        );
    }
    assert_eq!(
        errors,
        [Err("a bug".into()), Err("not today".into()), Ok(2)]
    );
}

#[tokio::test]
async fn an_unknown_function_is_refused_and_the_known_ones_are_named() {
    let (_folder, home) = open(App::new().function("double", double)).await;
    let error = home.start("dubble", &1).await.unwrap_err();
    assert!(
        error.message().contains("dubble") && error.message().contains("double"),
        "{error}"
    );
}

#[tokio::test]
async fn no_more_invocations_run_at_once_than_the_function_allows() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = most.clone();
    let busy = move |ctx: Context, (): ()| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            ctx.step("busy", async |_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                outlast::ok(())
            })
            .await
        }
    };
    let function = Function::new("busy", busy).max_concurrency(3);
    let (_folder, home) = open(App::new().register(function)).await;
    let mut executions = Vec::new();
    for _ in 0..20 {
        executions.push(home.start("busy", &()).await.unwrap());
    }
    for execution in executions {
        execution.result::<()>().await.unwrap();
    }
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}
