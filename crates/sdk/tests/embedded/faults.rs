//! What the embedded engine does when its disk fails it.

use outlast::{
    App, Context, Embedded, ErrorKind, Result, core::wire::ExecutionStatus,
    engine::store::memory::MemoryStore,
};
use std::{sync::Arc, time::Duration};

async fn slow(ctx: Context, seconds: u64) -> Result<u32> {
    let before = ctx.step("before", async |_| outlast::ok(1)).await?;
    ctx.wait(Duration::from_secs(seconds)).await?;
    let after = ctx.step("after", async |_| outlast::ok(2)).await?;
    Ok(before + after)
}

async fn open(store: &Arc<MemoryStore>) -> Embedded {
    let app = App::new().function("slow", slow);
    app.open_on(store.clone()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_new_work_keeps_reads_and_everything_goes_on_when_there_is_room() {
    let store = Arc::new(MemoryStore::new());
    let home = open(&store).await;
    let execution = home.start("slow", &60).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    store.set_full(true);
    let refused = home.start("slow", &1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Engine);
    assert!(refused.message().contains("full"), "{refused}");
    assert!(execution.signal("any", &1).await.is_err());
    // The wait ends while nothing can be written.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::Running);
    assert!(!execution.history().await.unwrap().is_empty());
    store.set_full(false);
    assert_eq!(execution.result::<u32>().await.unwrap(), 3);
    let next = home.start("slow", &1).await.unwrap();
    assert_eq!(next.result::<u32>().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_trust_stops_the_engine_and_every_request_says_so() {
    let store = Arc::new(MemoryStore::new());
    let home = open(&store).await;
    let execution = home.start("slow", &60).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    store.poison("the sync failed");
    let refused = home.start("slow", &1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Engine);
    assert!(refused.message().contains("the sync failed"), "{refused}");
    let why = home.failed().await;
    assert!(why.message().contains("the sync failed"), "{why}");
    let waiting = execution.result::<u32>().await.unwrap_err();
    assert_eq!(waiting.kind(), ErrorKind::Engine);
    // What was acknowledged is there for the next process.
    let after = Arc::new(store.crash());
    let home = open(&after).await;
    let execution = home.execution(execution.arn()).unwrap();
    assert_eq!(execution.result::<u32>().await.unwrap(), 3);
}
