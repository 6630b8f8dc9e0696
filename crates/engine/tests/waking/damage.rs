//! An execution of which the store has lost something is left alone; the others go on.

use crate::host::{Deed, boot, start};
use outlast_core::{arn::ExecutionId, wire::ExecutionStatus};
use outlast_engine::{
    Error,
    store::{Commit, CommitError, Committing, Store, layer::Layer, memory::MemoryStore},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A store that has lost part of one execution.
#[derive(Default)]
struct Lossy {
    kept: MemoryStore,
    lost: OnceLock<ExecutionId>,
    refused: AtomicUsize,
}

impl Layer for Lossy {
    fn behind(&self) -> &dyn Store {
        &self.kept
    }

    fn commit(&self, commit: Commit) -> Committing {
        if self.lost.get() == Some(&commit.execution) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Committing::done(Err(CommitError::Damaged("a page is gone".into())));
        }
        self.kept.commit(commit)
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_commit_finds_it_damaged_is_put_in_quarantine_and_not_tried_again() {
    let store = Arc::new(Lossy::default());
    let functions = [("sleeper", Deed::Sleep { seconds: 600 })];
    let (engine, _) = boot(&store, 1_000, &functions).await;
    let damaged = start(&engine, "sleeper").await;
    let sound = start(&engine, "sleeper").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    store.lost.set(damaged).unwrap();
    let end = engine.end(sound).await.unwrap();
    assert_eq!(end.status, ExecutionStatus::Succeeded);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(store.refused.load(Ordering::Relaxed), 1);
    let health = engine.health();
    assert_eq!(health.quarantined, [(damaged, "a page is gone".into())]);
    assert_eq!((health.invocations, health.ready), (0, 0));
    // The one that ended is kept for two weeks, which only the store knows.
    assert_eq!(health.wakes, 0);
    let error = engine.end(damaged).await.unwrap_err();
    assert!(matches!(error, Error::Quarantined { .. }), "{error}");
    let error = engine.stop(damaged, None).await.unwrap_err();
    assert!(matches!(error, Error::Quarantined { .. }), "{error}");
    assert_eq!(store.refused.load(Ordering::Relaxed), 1);
}
