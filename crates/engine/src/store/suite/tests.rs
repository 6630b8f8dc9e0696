//! The suite finds a store that breaks a rule.

use super::*;
use crate::store::{About, Committing, Status, memory::MemoryStore};

/// A store that forgets to compare versions when it deletes.
struct Careless(MemoryStore);

impl Store for Careless {
    fn commit(&self, commit: Commit) -> Committing {
        self.0.commit(commit)
    }
    fn delete(&self, execution: ExecutionId, _: u64) -> Committing {
        let found = self.0.head(execution).ok().flatten();
        self.0
            .delete(execution, found.map_or(0, |head| head.version))
    }
    fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        self.0.head(execution)
    }
    fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        self.0.load(execution)
    }
    fn records(&self, id: ExecutionId, from: u64, max: usize) -> Result<Vec<Run>, StoreError> {
        self.0.records(id, from, max)
    }
    fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.0.find(function, name)
    }
    fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        self.0.due(after, until, max)
    }
    fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        self.0.list(query)
    }
    fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.setting(key)
    }
    fn put_setting(&self, key: &str, value: Vec<u8>) -> Committing {
        self.0.put_setting(key, value)
    }
    fn status(&self) -> Status {
        self.0.status()
    }
    fn about(&self) -> About {
        self.0.about()
    }
    fn close(&self) {
        self.0.close();
    }
}

#[derive(Default)]
struct CarelessHome(Option<Arc<Careless>>);

impl Home for CarelessHome {
    fn open(&mut self) -> Arc<dyn Store> {
        let kept = match &self.0 {
            Some(before) => before.0.crash(),
            None => MemoryStore::new(),
        };
        let store = Arc::new(Careless(kept));
        self.0 = Some(Arc::clone(&store));
        store
    }
}

#[test]
fn a_store_that_breaks_a_rule_is_told_which() {
    let broken = run(|| Box::new(CarelessHome::default())).unwrap_err();
    let broken = broken.to_string();
    let rules: Vec<&str> = broken
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        rules,
        [
            "a deleted execution leaves nothing behind",
            "a delete at another version is refused and changes nothing",
            "a refused commit does not harm those beside it",
            "random changes have the outcome and the effect they have in memory",
        ],
        "{broken}"
    );
}
