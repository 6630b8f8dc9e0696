//! What arrives while an invocation ends is seen by the next one.

use crate::host::{Deed, boot, start, start_named};
use outlast_engine::store::memory::MemoryStore;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn an_invocation_that_was_given_up_takes_no_news_from_the_one_that_counts() {
    let store = Arc::new(MemoryStore::new());
    let (engine, calls) = boot(&store, 1_000, &[("watcher", Deed::Watch)]).await;
    let watcher = start(&engine, "watcher").await;
    let end = timeout(Duration::from_secs(3_600), engine.end(watcher)).await;
    assert!(end.is_ok(), "the news did not reach the second invocation");
    assert_eq!(calls.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_signal_right_behind_the_end_of_an_invocation_wakes_the_execution() {
    // A turn takes 256 letters: the end of the invocation is the last of one turn, and the signal
    // the first of the next, in one of these.
    for idle_mail in 250..260 {
        let store = Arc::new(MemoryStore::new());
        let functions = [("listener", Deed::Listen { idle_mail })];
        let (engine, _) = boot(&store, 1_000, &functions).await;
        let listener = start(&engine, "listener").await;
        let end = timeout(Duration::from_secs(3_600), engine.end(listener)).await;
        assert!(
            end.is_ok(),
            "with {idle_mail} letters before nobody woke it"
        );
    }
}

#[test]
fn a_runtime_may_end_while_many_executions_wait_for_their_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let engine = runtime.block_on(async {
        let store = Arc::new(MemoryStore::new());
        let (engine, _) = boot(&store, 1_000, &[("hanger", Deed::Never)]).await;
        for _ in 0..20_000 {
            start(&engine, "hanger").await;
        }
        engine
    });
    assert!(engine.health().ready > 10_000);
    // What is spawned from now on is dropped at once.
    drop(runtime);
    assert_eq!(engine.health().ready, 0);
}

#[tokio::test(start_paused = true)]
async fn the_name_of_an_execution_is_free_again_once_its_retention_is_over() {
    const DAY: Duration = Duration::from_secs(86_400);
    let store = Arc::new(MemoryStore::new());
    let (engine, _) = boot(&store, 1_000, &[("order", Deed::Nothing)]).await;
    let first = start_named(&engine, "order", Some("7")).await;
    engine.end(first.execution).await.unwrap();
    tokio::time::sleep(13 * DAY).await;
    let again = start_named(&engine, "order", Some("7")).await;
    assert_eq!((again.execution, again.existed), (first.execution, true));
    tokio::time::sleep(2 * DAY).await;
    assert_eq!(engine.find("order", "7").unwrap(), None);
    assert!(engine.describe(first.execution, true).await.is_err());
    let second = start_named(&engine, "order", Some("7")).await;
    assert!(!second.existed && second.execution != first.execution);
    engine.end(second.execution).await.unwrap();
    let totals = engine.health().totals;
    assert_eq!((totals.started, totals.succeeded, totals.failed), (2, 2, 0));
}
