//! A scripted life of the store, cut or failed at every call to the journal's disk.
//!
//! The index is a real database that is left as it is at the cut. That is fair: a round is one
//! transaction, which a cut leaves done or undone; one that was done and is lost in a power cut is
//! like one that was not yet done, as long as no segment it covers is gone, and the index is synced
//! before one goes. Rounds come at fixed places of the script, so every cut between a round and the
//! removal of its segments is among the calls.

use super::*;
use std::collections::BTreeMap;

/// What was acknowledged, and what may have happened beyond.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Commits of each execution in order; those from `.1` on were not acknowledged.
    executions: BTreeMap<u128, (Vec<Commit>, usize)>,
}

/// Commits that are handed over together; an index round follows where it says so.
fn script() -> Vec<(Vec<(u128, u32)>, bool)> {
    vec![
        (vec![(1, 1)], false),
        (vec![(1, 30), (2, 1), (1, 5)], false),
        (vec![(3, 60)], true),
        (vec![(2, 90), (1, 90)], false),
        (vec![(4, 1)], false),
        (vec![(1, 100)], true),
        (vec![(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)], false),
        (vec![(5, 200), (1, 20)], false),
        (vec![(3, 1)], true),
        (vec![(3, 2)], false),
    ]
}

impl Ledger {
    fn next(&self, number: u128, count: u32) -> Commit {
        let before = self.executions.get(&number).and_then(|(all, _)| all.last());
        let mut next = match before {
            Some(before) => follow(before, count),
            None => create(number, count),
        };
        let version = next.head.version;
        next.head.wake = Some(Timestamp::from_millis(1_000 * version));
        next.snapshot = (version % 2 == 0).then(|| version.to_be_bytes().to_vec());
        next
    }

    /// Plays the script; ends when a commit is refused for another reason than a full disk.
    fn play(&mut self, shared: &Shared) {
        for (batch, index) in script() {
            let mut handed = Vec::new();
            for (number, count) in batch {
                let commit = self.next(number, count);
                let entry = self.executions.entry(number).or_default();
                entry.0.push(commit.clone());
                handed.push((number, shared.hand_over(Change::Commit(commit))));
            }
            shared.write_queued();
            let mut stop = false;
            for (number, committing) in handed {
                let (all, acknowledged) = self.executions.get_mut(&number).unwrap();
                match committing.wait() {
                    Ok(()) => *acknowledged += 1,
                    Err(CommitError::Full(_)) => all.truncate(*acknowledged),
                    Err(CommitError::Poisoned(_)) => stop = true,
                    Err(other) => panic!("{other}"),
                }
            }
            if stop {
                self.check(shared, false);
                return;
            }
            if index {
                shared.index();
            }
        }
    }

    /// Demands that the store has what was acknowledged, and nothing in part. Takes over what it
    /// has, if told so: after a crash that is the truth.
    fn check(&mut self, shared: &Shared, adopt: bool) {
        let view = shared.view();
        for (number, (all, acknowledged)) in &mut self.executions {
            let execution = create(*number, 1).execution;
            let found = view.head(execution).unwrap();
            let version = found.as_ref().map_or(0, |head| head.version);
            let count = (all.iter())
                .position(|commit| commit.head.version == version)
                .map_or(0, |index| index + 1);
            assert!(count >= *acknowledged, "{number}: {version} is there");
            assert!(adopt || count == *acknowledged);
            assert_eq!(
                version == 0,
                count == 0,
                "{number}: {version} was never written"
            );
            if adopt {
                all.truncate(count);
                *acknowledged = count;
            }
            let Some(last) = count.checked_sub(1).map(|last| &all[last]) else {
                continue;
            };
            assert_eq!(found.as_ref(), Some(&last.head));
            assert_eq!(view.find("order", &last.head.name), Ok(Some(execution)));
            let runs = view.records(execution, 0, usize::MAX).unwrap();
            let mut next = 0;
            for run in &runs {
                assert_eq!(run.first, next);
                next += u64::from(run.count);
            }
            let bytes: Vec<u8> = runs.into_iter().flat_map(|run| run.bytes).collect();
            let expected: Vec<u8> = (all.iter().take(count))
                .flat_map(|commit| commit.records.bytes.clone())
                .collect();
            assert_eq!(bytes, expected);
            let stored = view.load(execution).unwrap().unwrap();
            let snapshot = (all.iter().take(count).rev())
                .find_map(|commit| Some((commit.head.version, commit.snapshot.clone()?)));
            assert_eq!(stored.snapshot, snapshot);
            let due = view.due(None, last.head.wake.unwrap(), usize::MAX).unwrap();
            let wakes: Vec<&Wake> = (due.iter())
                .filter(|wake| wake.execution == execution)
                .collect();
            assert_eq!(wakes.len(), 1);
        }
        let everything = Query {
            max: usize::MAX,
            ..Query::default()
        };
        let alive = (self.executions.values()).filter(|(_, acknowledged)| *acknowledged > 0);
        if adopt {
            assert_eq!(view.list(&everything).unwrap().len(), alive.count());
        }
    }
}

fn calls() -> u64 {
    let folder = folder();
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let shared = steps(&folder, &disk).unwrap();
    ledger.play(&shared);
    ledger.check(&shared, true);
    disk.calls()
}

/// Plays with a fault at every call, then demands the truth from what each kind of end leaves.
fn everywhere(fault: fn(u64) -> Fault, ends: &[fn(&SimDisk, u64) -> SimDisk]) {
    for call in 0..calls() {
        let folder = folder();
        let disk = SimDisk::new(call);
        disk.set_fault(Some(fault(call)));
        let mut ledger = Ledger::default();
        if let Ok(shared) = steps(&folder, &disk) {
            ledger.play(&shared);
        }
        let end = ends[usize::try_from(call).unwrap() % ends.len()];
        let disk = end(&disk, call);
        let shared = steps(&folder, &disk).unwrap();
        assert_eq!(shared.damage(), []);
        assert_eq!(shared.damaged(), []);
        ledger.check(&shared, true);
        ledger.play(&shared);
        ledger.check(&shared, true);
    }
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_that_was_acknowledged() {
    everywhere(
        Fault::CutAt,
        &[
            |disk, seed| disk.restart(seed),
            |disk, seed| disk.restart(seed ^ 0xffff),
            |disk, _| disk.survive_kill(),
        ],
    );
}

#[test]
fn a_failure_of_any_call_loses_nothing_that_was_acknowledged() {
    everywhere(
        Fault::FailAt,
        &[
            |disk, seed| disk.restart(seed),
            |disk, _| disk.survive_kill(),
        ],
    );
}

#[test]
fn a_full_disk_at_any_call_loses_nothing_and_keeps_nothing_it_refused() {
    everywhere(
        Fault::FullAt,
        &[
            |disk, seed| disk.restart(seed),
            |disk, _| disk.survive_kill(),
        ],
    );
}
