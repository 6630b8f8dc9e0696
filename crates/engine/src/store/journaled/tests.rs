//! The log-first store: the contract, and every way a disk can let it down.

mod boundaries;
mod checked;
mod damaged;
mod killed;
mod model;

use super::*;
use crate::{
    disk::sim::{Fault, SimDisk},
    store::{
        CommitError,
        sqlite::tables::{self, Role, Tables},
        suite::{self, Home, create, follow},
    },
};
use tempfile::TempDir;

/// Small enough that segments and rounds change all the time.
fn small() -> Options {
    Options {
        segment_bytes: 8 << 10,
        lag_bytes_max: 64 << 10,
        round_bytes: 2 << 10,
        round_interval: Duration::from_millis(1),
        cached_executions: 2,
        readers: 2,
        check_first: false,
    }
}

/// Indexes only when told to.
fn manual() -> Options {
    Options {
        segment_bytes: 4 << 10,
        readers: 1,
        ..Options::default()
    }
}

struct Reopened {
    folder: TempDir,
    options: Options,
}

impl Home for Reopened {
    fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(JournaledStore::open(self.folder.path(), self.options.clone()).unwrap())
    }
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

/// A store without threads on a simulated disk: a test takes every step itself.
fn steps(folder: &TempDir, disk: &SimDisk) -> Result<Shared, OpenError> {
    Shared::open(
        Folder::open(folder.path()).unwrap(),
        Arc::new(disk.clone()),
        manual(),
    )
}

fn commit(shared: &Shared, commit: Commit) -> Result<(), CommitError> {
    let committing = shared.hand_over(Change::Commit(commit));
    shared.write_queued();
    committing.wait()
}

#[test]
fn the_store_keeps_the_contract_while_nothing_is_indexed() {
    suite::run(|| {
        Box::new(Reopened {
            folder: folder(),
            options: Options {
                round_interval: Duration::from_secs(3600),
                ..Options::default()
            },
        })
    })
    .unwrap();
}

#[test]
fn the_store_keeps_the_contract_while_everything_is_indexed_at_once() {
    suite::run(|| {
        Box::new(Reopened {
            folder: folder(),
            options: small(),
        })
    })
    .unwrap();
}

#[test]
fn it_says_what_it_is_and_how_it_was_found() {
    let folder = folder();
    let open = || JournaledStore::open(folder.path(), small()).unwrap();
    let about = open().about();
    assert_eq!((about.format, about.closed_cleanly), (Some(1), None));
    assert!(about.kind.contains("journal") && about.sync.contains("fdatasync"));
    assert_eq!(open().about().closed_cleanly, Some(true));
    drop(steps(&folder, &SimDisk::new(1)).unwrap());
    assert_eq!(open().about().closed_cleanly, Some(false));
}

#[test]
fn an_execution_that_closed_before_it_was_indexed_is_indexed_as_one_run() {
    let folder = folder();
    let disk = SimDisk::new(1);
    let shared = steps(&folder, &disk).unwrap();
    let mut next = create(1, 1);
    for _ in 0..20 {
        commit(&shared, next.clone()).unwrap();
        next = follow(&next, 2);
    }
    assert!(matches!(shared.index(), indexer::Indexed::UpTo(20)));
    assert_eq!(shared.status().index_lag_bytes, 0);
    let runs = shared
        .view()
        .records(next.execution, 0, usize::MAX)
        .unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].count, 39);
    assert!(matches!(shared.index(), indexer::Indexed::Nothing));
}

#[test]
fn of_what_is_indexed_only_so_many_heads_stay_in_memory() {
    let folder = folder();
    let options = Options {
        cached_executions: 10,
        ..manual()
    };
    let disk = Arc::new(SimDisk::new(1));
    let shared = Shared::open(Folder::open(folder.path()).unwrap(), disk, options).unwrap();
    for count in [9_u128, 10, 11, 100] {
        for number in 0..count {
            let mut sleeper = create(1_000 * count + number, 1);
            sleeper.head.wake = Some(Timestamp::from_millis(1_000_000));
            commit(&shared, sleeper).unwrap();
        }
        shared.index();
        let kept = usize::try_from(count.min(10)).unwrap();
        assert_eq!(shared.overlay().sizes(), [kept, 0, 0, 0, 0]);
        assert_eq!(shared.overlay().bytes(), 0);
    }
}

#[test]
fn an_execution_that_came_and_went_never_reaches_the_index() {
    let folder = folder();
    let shared = steps(&folder, &SimDisk::new(1)).unwrap();
    let first = create(1, 1);
    commit(&shared, first.clone()).unwrap();
    let deleting = shared.hand_over(Change::Delete {
        execution: first.execution,
        expected: 1,
    });
    shared.write_queued();
    deleting.wait().unwrap();
    assert_eq!(shared.status().index_lag_bytes, 0);
    shared.index();
    assert_eq!(shared.view().head(first.execution), Ok(None));
    // And its name and id are free again.
    commit(&shared, first.clone()).unwrap();
    assert_eq!(shared.view().head(first.execution), Ok(Some(first.head)));
}

#[test]
fn an_execution_deleted_and_created_again_around_a_round_is_the_new_one() {
    for round_after in 0..4 {
        let folder = folder();
        let disk = SimDisk::new(1);
        let shared = steps(&folder, &disk).unwrap();
        let old = create(1, 3);
        let mut new = create(1, 2);
        new.head.name = "another".into();
        new.head.wake = Some(Timestamp::from_millis(50));
        let changes = [
            Change::Commit(old.clone()),
            Change::Delete {
                execution: old.execution,
                expected: 3,
            },
            Change::Commit(new.clone()),
        ];
        for (step, change) in changes.into_iter().enumerate() {
            if step == round_after {
                shared.index();
            }
            let committing = shared.hand_over(change);
            shared.write_queued();
            committing.wait().unwrap();
        }
        for indexed in [false, true] {
            if indexed {
                shared.index();
            }
            let view = shared.view();
            assert_eq!(view.find("order", "run-1"), Ok(None));
            assert_eq!(view.find("order", "another"), Ok(Some(old.execution)));
            let stored = view.load(old.execution).unwrap().unwrap();
            assert_eq!((stored.head, stored.records.len()), (new.head.clone(), 1));
            assert_eq!(
                view.due(None, Timestamp::from_millis(50), 9).unwrap().len(),
                1
            );
        }
    }
}

#[test]
fn a_change_during_a_round_is_kept_for_the_next() {
    let folder = folder();
    let shared = steps(&folder, &SimDisk::new(1)).unwrap();
    let mut first = create(1, 1);
    first.head.wake = Some(Timestamp::from_millis(10));
    let mut second = follow(&first, 1);
    second.head.wake = Some(Timestamp::from_millis(20));
    second.snapshot = Some(b"two".to_vec());
    let third = follow(&second, 1);
    commit(&shared, first.clone()).unwrap();
    let round = shared.overlay().begin_round();
    commit(&shared, second.clone()).unwrap();
    commit(&shared, third.clone()).unwrap();
    shared.apply_round(&round);

    let check = || {
        let stored = shared.view().load(first.execution).unwrap().unwrap();
        assert_eq!(stored.snapshot, Some((2, b"two".to_vec())));
        assert_eq!(stored.records, std::slice::from_ref(&third.records));
        assert_eq!(stored.head, third.head);
        let runs = shared
            .view()
            .records(first.execution, 0, usize::MAX)
            .unwrap();
        assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), 3);
        let due = shared
            .view()
            .due(None, Timestamp::from_millis(99), 9)
            .unwrap();
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].at, Timestamp::from_millis(20));
    };
    check();
    shared.index();
    check();
}

#[test]
fn a_failed_sync_poisons_and_reads_go_on() {
    let folder = folder();
    let disk = SimDisk::new(1);
    let shared = steps(&folder, &disk).unwrap();
    let first = create(1, 1);
    commit(&shared, first.clone()).unwrap();
    let second = follow(&first, 1);
    // The write is the next call, the sync the one after.
    disk.set_fault(Some(Fault::FailAt(disk.calls() + 1)));
    for _ in 0..3 {
        let outcome = commit(&shared, second.clone());
        assert!(
            matches!(outcome, Err(CommitError::Poisoned(_))),
            "{outcome:?}"
        );
        assert!(shared.status().poisoned.is_some());
        let head = shared.view().head(first.execution);
        assert_eq!(head, Ok(Some(first.head.clone())));
    }
    assert_eq!(disk.syncs(), 3, "no sync is tried a second time");
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let folder = folder();
    let disk = SimDisk::new(1);
    let shared = steps(&folder, &disk).unwrap();
    let first = create(1, 1);
    commit(&shared, first.clone()).unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut next = follow(&first, 1);
    let refused = loop {
        match commit(&shared, next.clone()) {
            Ok(()) => next = follow(&next, 1),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, CommitError::Full(_)), "{refused}");
    assert!(shared.status().full);
    let before = next.expected;
    let head = shared.view().head(first.execution).unwrap().unwrap();
    assert_eq!(head.version, before);
    disk.set_capacity(None);
    commit(&shared, next).unwrap();
    assert!(!shared.status().full);
}

#[test]
fn commits_wait_while_the_index_lags_too_far_behind() {
    let folder = folder();
    let options = Options {
        lag_bytes_max: 8 << 10,
        round_bytes: 8 << 10,
        round_interval: Duration::from_secs(3600),
        ..manual()
    };
    let store = JournaledStore::open(folder.path(), options).unwrap();
    let handed: Vec<Committing> = (0..200)
        .map(|number| {
            let mut commit = create(number, 1);
            commit.records.bytes = vec![1; 1_000];
            store.commit(commit)
        })
        .collect();
    for committing in handed {
        committing.wait().unwrap();
        // A batch may go beyond the bound by its own length, never by two.
        assert!(store.status().index_lag_bytes < 400 << 10);
    }
}

#[test]
fn an_index_that_fails_poisons_and_loses_nothing() {
    let (folder, disk) = (folder(), SimDisk::new(1));
    let shared = steps(&folder, &disk).unwrap();
    let first = create(1, 1);
    commit(&shared, first.clone()).unwrap();
    shared.with_tables(|tables| {
        let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        tables.fail_next_commit = Some(error);
    });
    assert!(matches!(shared.index(), indexer::Indexed::Failed(_)));
    let refused = commit(&shared, follow(&first, 1));
    assert!(matches!(refused, Err(CommitError::Poisoned(_))));
    let head = Ok(Some(first.head.clone()));
    assert_eq!(shared.view().head(first.execution), head);
    drop(shared);
    let shared = steps(&folder, &disk).unwrap();
    assert_eq!(shared.view().head(first.execution), head);
    commit(&shared, follow(&first, 1)).unwrap();
}

#[test]
fn an_index_without_room_lets_commits_through_until_too_many_wait_for_it() {
    let (folder, disk) = (folder(), SimDisk::new(1));
    let options = Options {
        lag_bytes_max: 200 << 10,
        ..manual()
    };
    let open = Folder::open(folder.path()).unwrap();
    let shared = Shared::open(open, Arc::new(disk), options).unwrap();
    shared.with_tables(|tables| tables.limit_pages(1));
    let mut kept = 0;
    let refused = loop {
        let mut large = create(kept, 1);
        large.records.bytes = vec![1; 50_000];
        match commit(&shared, large) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(matches!(shared.index(), indexer::Indexed::Full(_)));
    };
    assert!(matches!(refused, CommitError::Full(_)), "{refused}");
    assert_eq!(kept, 5);
    assert!(shared.status().full);
    shared.with_tables(|tables| tables.limit_pages(100_000));
    assert!(matches!(shared.index(), indexer::Indexed::UpTo(5)));
    commit(&shared, create(kept, 1)).unwrap();
    for number in 0..kept {
        let stored = shared.view().load(create(number, 1).execution).unwrap();
        assert_eq!(stored.unwrap().records[0].bytes.len(), 50_000);
    }
}

#[test]
fn segments_go_when_the_index_has_them() {
    let folder = folder();
    let disk = SimDisk::new(1);
    let shared = steps(&folder, &disk).unwrap();
    let mut next = create(1, 100);
    for _ in 0..10 {
        commit(&shared, next.clone()).unwrap();
        next = follow(&next, 100);
    }
    let segments = disk.list().unwrap().len();
    assert!(segments > 3);
    shared.index();
    assert_eq!(disk.list().unwrap().len(), 1);
}

#[test]
fn everything_queued_shares_one_sync() {
    let folder = folder();
    let shared = steps(&folder, &SimDisk::new(1)).unwrap();
    let handed: Vec<Committing> = (0..100)
        .map(|number| shared.hand_over(Change::Commit(create(number, 1))))
        .collect();
    shared.write_queued();
    for committing in handed {
        committing.wait().unwrap();
    }
    assert_eq!(shared.status().syncs, 1);
}

#[test]
fn a_second_opener_and_a_newer_journal_are_refused() {
    let folder = folder();
    let store = JournaledStore::open(folder.path(), manual()).unwrap();
    store.commit(create(1, 1)).wait().unwrap();
    let error = JournaledStore::open(folder.path(), manual()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(store);
    let path = folder
        .path()
        .join(JOURNAL_FOLDER)
        .join("0000000001.journal");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    let checksum = crc32c::crc32c(&bytes[..32]);
    bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = JournaledStore::open(folder.path(), manual()).unwrap_err();
    assert!(
        matches!(error, OpenError::NewerFormat { found: 2, .. }),
        "{error}"
    );
}
