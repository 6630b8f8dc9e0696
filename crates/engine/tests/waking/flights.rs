//! What arrives while an invocation ends is seen by the next one.

use crate::host::{Deed, boot, start};
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
