//! Random lives of a store beside the memory store, which is the contract in its simplest form.
//!
//! Rounds begin and end anywhere, also with commits in between, and the store is opened again now
//! and then. Whatever the index has, every outcome and every read must be the same.

use super::*;
use crate::store::memory::MemoryStore;
use outlast_core::{random::SplitMix64, wire::ExecutionStatus};

struct Lives {
    random: SplitMix64,
    folder: TempDir,
    disk: SimDisk,
    shared: Option<Shared>,
    model: MemoryStore,
}

impl Lives {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn id(&mut self) -> ExecutionId {
        create(u128::from(self.below(6)), 1).execution
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_millis(self.below(12))
    }

    fn shared(&self) -> &Shared {
        self.shared.as_ref().unwrap()
    }

    /// A change that mostly fits what the model has.
    fn change(&mut self) -> Change {
        let execution = self.id();
        let head = self.model.head(execution).unwrap();
        let wrong = u64::from(self.below(12) == 0);
        match self.below(12) {
            0 => Change::Setting {
                key: format!("key {}", self.below(3)).into(),
                value: vec![self.below(9).to_le_bytes()[0]],
            },
            1 | 2 => Change::Delete {
                execution,
                expected: head.map_or(0, |head| head.version) + wrong,
            },
            _ => Change::Commit(self.commit(execution, head, wrong)),
        }
    }

    fn commit(&mut self, execution: ExecutionId, head: Option<Head>, wrong: u64) -> Commit {
        let expected = head.as_ref().map_or(0, |head| head.version) + wrong;
        let count = u32::try_from(self.below(4)).unwrap() + u32::from(expected == 0);
        let bytes = (0..count * 40)
            .map(|_| self.below(256).to_le_bytes()[0])
            .collect();
        let mut next = head.unwrap_or_else(|| Head {
            name: format!("name {}", self.below(4)).into(),
            function: format!("function {}", self.below(2)).into(),
            started: self.time(),
            ..create(1, 1).head
        });
        next.version = expected + u64::from(count);
        next.wake = (self.below(3) > 0).then(|| self.time());
        if self.below(6) == 0 {
            next.status = ExecutionStatus::Succeeded;
            next.ended = Some(self.time());
        }
        Commit {
            execution,
            expected,
            records: Run {
                first: expected,
                count,
                bytes: if count == 0 { Vec::new() } else { bytes },
            },
            snapshot: (self.below(5) == 0).then(|| next.version.to_le_bytes().to_vec()),
            head: next,
        }
    }

    /// Hands a few changes to both, to the store as one batch, and compares what they say.
    fn step(&mut self) {
        let mut outcomes = Vec::new();
        for _ in 0..=self.below(3) {
            let change = self.change();
            let expected = match change.clone() {
                Change::Commit(commit) => self.model.commit(commit),
                Change::Delete {
                    execution,
                    expected,
                } => self.model.delete(execution, expected),
                Change::Setting { key, value } => self.model.put_setting(&key, value),
            };
            let found = self.shared().hand_over(change.clone());
            outcomes.push((change, found, expected.wait()));
        }
        self.shared().write_queued();
        for (change, found, expected) in outcomes {
            assert_eq!(found.wait(), expected, "{change:?}");
        }
    }

    fn compare(&mut self) {
        let (execution, after, until) = (self.id(), self.time(), self.time());
        let after = (self.below(2) == 0).then_some(Wake {
            at: after,
            execution,
        });
        let max = usize::try_from(self.below(8)).unwrap();
        let query = self.query();
        let view = self.shared().view();
        assert_eq!(
            view.due(after, until, max),
            self.model.due(after, until, max)
        );
        assert_eq!(view.list(&query), self.model.list(&query), "{query:?}");
        for number in 0..6 {
            let execution = create(number, 1).execution;
            assert_eq!(view.head(execution), self.model.head(execution));
            let (found, expected) = (view.load(execution), self.model.load(execution));
            assert_eq!(joined(found.unwrap()), joined(expected.unwrap()));
            let (found, expected) = (
                view.records(execution, 0, usize::MAX).unwrap(),
                self.model.records(execution, 0, usize::MAX).unwrap(),
            );
            assert_eq!(bytes(&found), bytes(&expected));
            for from in 0..6 {
                let page = view.records(execution, from, max * 40).unwrap();
                if let Some(first) = page.first() {
                    assert!(first.first <= from || page.len() == 1);
                    assert!(page.len() == 1 || bytes(&page).len() <= max * 40);
                }
            }
        }
        for (function, name) in (0..8).map(|index| (index / 4, index % 4)) {
            let (function, name) = (format!("function {function}"), format!("name {name}"));
            assert_eq!(
                view.find(&function, &name),
                self.model.find(&function, &name)
            );
        }
        for key in (0..3).map(|key| format!("key {key}")) {
            assert_eq!(view.setting(&key), self.model.setting(&key));
        }
    }

    fn query(&mut self) -> Query {
        let after = (self.time(), self.id());
        Query {
            function: (self.below(3) == 0).then(|| "function 1".into()),
            name: (self.below(4) == 0).then(|| "name 2".into()),
            statuses: match self.below(3) {
                0 => vec![ExecutionStatus::Running],
                1 => vec![ExecutionStatus::Succeeded],
                _ => vec![],
            },
            started_from: (self.below(4) == 0).then(|| self.time()),
            started_until: (self.below(4) == 0).then(|| self.time()),
            newest_first: self.below(2) == 0,
            after: (self.below(2) == 0).then_some(after),
            max: usize::try_from(self.below(6)).unwrap(),
            ..Query::default()
        }
    }
}

fn bytes(runs: &[Run]) -> Vec<u8> {
    runs.iter().flat_map(|run| run.bytes.clone()).collect()
}

/// How many runs the records lie in is a store's own business.
fn joined(stored: Option<Stored>) -> Option<Stored> {
    let stored = stored?;
    let whole = Run {
        bytes: bytes(&stored.records),
        ..Run::default()
    };
    Some(Stored {
        records: vec![whole],
        ..stored
    })
}

#[test]
fn whatever_the_index_has_the_store_is_the_memory_store() {
    for seed in 0..10 {
        let (folder, disk) = (folder(), SimDisk::new(seed));
        let shared = Some(steps(&folder, &disk).unwrap());
        let mut lives = Lives {
            random: SplitMix64::new(seed),
            folder,
            disk,
            shared,
            model: MemoryStore::new(),
        };
        for _ in 0..60 {
            match lives.below(10) {
                0 | 1 => {
                    lives.shared().index();
                }
                2 => {
                    let round = lives.shared().overlay().begin_round();
                    for _ in 0..lives.below(4) {
                        lives.step();
                        lives.compare();
                    }
                    lives.shared().apply_round(&round);
                }
                3 => {
                    lives.shared = None;
                    lives.shared = Some(steps(&lives.folder, &lives.disk).unwrap());
                    assert_eq!(lives.shared().damaged(), [], "seed {seed}");
                }
                _ => lives.step(),
            }
            lives.compare();
        }
    }
}
