//! Executions that are held: a deploy that does not match, and invocations that go nowhere.

use outlast::{
    App, Context, Embedded, ErrorKind, Execution, Result, core::wire::ExecutionStatus,
    engine::store::memory::MemoryStore,
};
use std::{sync::Arc, time::Duration};

/// Two steps with a pause between them, the first of this name.
fn order(first: &'static str) -> App {
    App::new().function("order", move |ctx: Context, (): ()| async move {
        let one: u32 = ctx.step(first, async |_| outlast::ok(1)).await?;
        ctx.wait(Duration::from_secs(60)).await?;
        let two: u32 = ctx.step("ship", async |_| outlast::ok(2)).await?;
        outlast::ok(one + two)
    })
}

/// A process that ends while the order pauses, and the next one, with other code.
async fn deploy(first: &'static str) -> (Arc<MemoryStore>, Embedded, Execution) {
    let store = Arc::new(MemoryStore::new());
    let home = order("charge").open_on(store.clone()).await.unwrap();
    let execution = home.start("order", &()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (home, store) = next(home, &store, order(first)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let execution = home.execution(execution.arn()).unwrap();
    (store, home, execution)
}

async fn next(home: Embedded, store: &MemoryStore, app: App) -> (Embedded, Arc<MemoryStore>) {
    let store = Arc::new(store.crash());
    drop(home);
    (app.open_on(store.clone()).await.unwrap(), store)
}

#[tokio::test(start_paused = true)]
async fn code_that_does_not_match_holds_the_execution_and_why_shows_the_difference() {
    let (_store, _home, execution) = deploy("bill").await;
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::Running);
    let why = execution.why().await.unwrap();
    for part in ["Held", "charge", "bill"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_execution_goes_on_with_the_code_that_matches_when_it_is_resumed() {
    let (store, home, execution) = deploy("bill").await;
    let (home, _store) = next(home, &store, order("charge")).await;
    let execution = home.execution(execution.arn()).unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::Running);
    execution.resume().await.unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 3);
    assert!(execution.resume().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_held_execution_that_is_resumed_with_the_same_code_is_held_again() {
    let (_store, _home, execution) = deploy("bill").await;
    execution.resume().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let why = execution.why().await.unwrap();
    assert!(why.contains("Held") && why.contains("bill"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_held_execution_fails_for_the_reason_it_is_held_for_if_somebody_says_so() {
    let (_store, _home, execution) = deploy("bill").await;
    execution.fail_held().await.unwrap();
    let error = execution.result::<u32>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Execution);
    assert!(error.message().contains("charge"), "{error}");
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_is_not_held_can_be_neither_resumed_nor_failed() {
    let (_store, _home, execution) = deploy("charge").await;
    assert_eq!(execution.result::<u32>().await.unwrap(), 3);
    let home = order("charge").open_on(Arc::new(MemoryStore::new())).await;
    let home = home.unwrap();
    let running = home.start("order", &()).await.unwrap();
    for refused in [running.resume().await, running.fail_held().await] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(running.result::<u32>().await.unwrap(), 3);
}

fn fragile(hangs: bool) -> App {
    App::new().function("fragile", move |_: Context, (): ()| async move {
        if hangs {
            std::future::pending::<()>().await;
        }
        outlast::ok(1)
    })
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_process_dies_a_hundred_times_without_progress_is_held() -> Result<()> {
    let mut store = Arc::new(MemoryStore::new());
    let mut home = fragile(true).open_on(store.clone()).await?;
    let arn = home.start("fragile", &()).await?.arn().to_owned();
    for deaths in 1..=101 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        (home, store) = next(home, &store, fragile(true)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let why = home.execution(&arn)?.why().await?;
        assert_eq!(why.contains("Held"), deaths >= 100, "{deaths}: {why}");
    }
    let (home, _store) = next(home, &store, fragile(false)).await;
    let execution = home.execution(&arn)?;
    execution.resume().await?;
    assert_eq!(execution.result::<u32>().await?, 1);
    Ok(())
}
