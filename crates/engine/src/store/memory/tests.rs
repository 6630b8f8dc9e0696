//! The memory store keeps the contract; holding, crashing, poison and a full store.

use super::*;
use crate::store::suite::{self, Home, create, follow};

#[derive(Default)]
struct Reopened(Option<Arc<MemoryStore>>);

impl Home for Reopened {
    fn open(&mut self) -> Arc<dyn Store> {
        let store = match &self.0 {
            Some(before) => Arc::new(before.crash()),
            None => Arc::new(MemoryStore::new()),
        };
        self.0 = Some(Arc::clone(&store));
        store
    }
}

#[test]
fn the_memory_store_keeps_the_contract() {
    suite::run(|| Box::new(Reopened::default())).unwrap();
}

#[test]
fn a_held_commit_is_not_seen_until_it_is_released() {
    let store = MemoryStore::new();
    store.hold();
    let first = create(1, 1);
    let second = follow(&first, 1);
    let outcomes = [store.commit(first.clone()), store.commit(second.clone())];
    assert_eq!(store.waiting(), 2);
    assert_eq!(store.head(first.execution), Ok(None));
    store.release(0);
    assert_eq!(store.waiting(), 2);
    store.release(1);
    assert_eq!(store.waiting(), 1);
    assert_eq!(store.head(first.execution), Ok(Some(first.head)));
    store.release(2);
    assert_eq!(store.head(first.execution), Ok(Some(second.head)));
    assert_eq!(outcomes.map(Committing::wait), [Ok(()), Ok(())]);
}

#[test]
fn a_crash_keeps_what_was_durable_and_loses_the_rest() {
    let store = MemoryStore::new();
    store.hold();
    let first = create(1, 1);
    let second = follow(&first, 1);
    let outcomes = [store.commit(first.clone()), store.commit(second)];
    store.release(1);
    let after = store.crash();
    assert_eq!(
        outcomes.map(Committing::wait),
        [Ok(()), Err(CommitError::Closed)]
    );
    assert_eq!(after.head(first.execution), Ok(Some(first.head.clone())));
    let late = store.commit(create(2, 1));
    assert_eq!(late.wait(), Err(CommitError::Closed));

    let again = after.commit(follow(&first, 1));
    assert_eq!(after.waiting(), 1, "holding is inherited");
    after.release_all();
    assert_eq!(again.wait(), Ok(()));
    assert_eq!(after.commit(create(2, 1)).wait(), Ok(()));
}

#[test]
fn a_poisoned_store_acknowledges_nothing_and_still_reads() {
    let store = MemoryStore::new();
    let first = create(1, 1);
    assert_eq!(store.commit(first.clone()).wait(), Ok(()));
    store.hold();
    let waiting = store.commit(follow(&first, 1));
    store.poison("sync failed");
    store.release_all();
    let refused = Err(CommitError::Poisoned("sync failed".into()));
    assert_eq!(waiting.wait(), refused);
    assert_eq!(store.put_setting("key", vec![1]).wait(), refused);
    assert_eq!(store.head(first.execution), Ok(Some(first.head)));
    assert_eq!(store.status().poisoned.as_deref(), Some("sync failed"));
}

#[test]
fn a_full_store_refuses_until_there_is_room() {
    let store = MemoryStore::new();
    store.set_full(true);
    let first = create(1, 1);
    assert!(matches!(
        store.commit(first.clone()).wait(),
        Err(CommitError::Full(_))
    ));
    assert!(store.status().full);
    assert_eq!(store.head(first.execution), Ok(None));
    store.set_full(false);
    assert_eq!(store.commit(first).wait(), Ok(()));
}
