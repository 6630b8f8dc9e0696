//! The suite finds a store that breaks a rule.

use super::*;
use crate::store::{Committing, layer::Layer, memory::MemoryStore};

/// A store that forgets to compare versions when it deletes.
struct Careless(MemoryStore);

impl Layer for Careless {
    fn behind(&self) -> &dyn Store {
        &self.0
    }
    fn delete(&self, execution: ExecutionId, _: u64) -> Committing {
        let found = self.0.head(execution).ok().flatten();
        self.0
            .delete(execution, found.map_or(0, |head| head.version))
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
