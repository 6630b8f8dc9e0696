//! The SQLite store keeps the contract, also through poison, a full disk and kill -9.
//! It says nothing about power cuts: a killed process leaves the page cache behind.

use super::*;
use crate::store::suite::{
    self, Home, create, follow,
    killed::{self, Kills},
};
use tempfile::TempDir;

struct Reopened(TempDir);

impl Home for Reopened {
    fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path()).unwrap())
    }
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

/// The tables of a store that has not been started, to spoil them first.
fn tables(folder: &TempDir) -> (Folder, Tables) {
    let folder = Folder::open(folder.path()).unwrap();
    let path = folder.path().join(DATABASE_FILE);
    let tables = Tables::open(&path, Options::new(Role::CommitPoint)).unwrap();
    (folder, tables)
}

#[test]
fn the_sqlite_store_keeps_the_contract() {
    suite::run(|| Box::new(Reopened(folder()))).unwrap();
}

#[test]
fn a_second_opener_is_told_who_has_the_folder() {
    let folder = folder();
    let store = SqliteStore::open(folder.path()).unwrap();
    let error = SqliteStore::open(folder.path()).unwrap_err();
    assert_eq!(
        error,
        OpenError::InUse {
            folder: folder.path().to_owned(),
            owner: std::process::id().to_string().into(),
        }
    );
    assert_eq!(
        error.to_string(),
        format!(
            "{} is in use by process {}; stop that process, or give this one a folder of its own",
            folder.path().display(),
            std::process::id()
        )
    );
    assert_eq!(store.commit(create(1, 1)).wait(), Ok(()));
    drop(store);
    SqliteStore::open(folder.path()).unwrap();
}

#[test]
fn it_says_what_it_is_and_how_it_was_found() {
    let folder = folder();
    let open = || SqliteStore::open(folder.path()).unwrap();
    let about = open().about();
    assert_eq!((about.format, about.closed_cleanly), (Some(1), None));
    assert!(about.kind.contains("SQLite") && about.sync.contains("FULL"));
    assert_eq!(open().about().closed_cleanly, Some(true));
    let (_, tables) = tables(&folder);
    drop(tables);
    assert_eq!(open().about().closed_cleanly, Some(false));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let error = SqliteStore::open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn after_a_failed_commit_nothing_is_acknowledged_and_reads_go_on() {
    let folder = folder();
    let (open, mut tables) = tables(&folder);
    let first = create(1, 1);
    let second = follow(&first, 1);
    assert_eq!(tables.apply(&[Change::Commit(first.clone())]), [Ok(())]);
    tables.fail_next_commit = Some(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC));
    let store = SqliteStore::start(open, tables).unwrap();
    for _ in 0..3 {
        let outcome = store.commit(second.clone()).wait();
        assert!(matches!(outcome, Err(CommitError::Poisoned(_))));
        assert!(store.status().poisoned.is_some());
        assert_eq!(store.head(first.execution), Ok(Some(first.head.clone())));
    }
    let outcome = store.put_setting("key", vec![1]).wait();
    assert!(matches!(outcome, Err(CommitError::Poisoned(_))));
    assert_eq!(store.status().syncs, 0);
    drop(store);

    let store = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(store.status().poisoned, None);
    assert_eq!(store.commit(second).wait(), Ok(()));
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let folder = folder();
    let (open, tables) = tables(&folder);
    tables.limit_pages(100);
    let store = SqliteStore::start(open, tables).unwrap();
    let mut kept = 0;
    let refused = loop {
        let mut commit = create(kept, 1);
        commit.records.bytes = vec![1; 50_000];
        match store.commit(commit.clone()).wait() {
            Ok(()) => kept += 1,
            Err(error) => {
                assert!(matches!(error, CommitError::Full(_)), "{error}");
                break commit;
            }
        }
    };
    assert!(kept > 5 && store.status().full);
    assert_eq!(store.status().poisoned, None);
    assert_eq!(store.head(refused.execution), Ok(None));
    let listed = store.list(&Query {
        max: 1_000,
        ..Query::default()
    });
    assert_eq!(listed.unwrap().len() as u128, kept);

    assert_eq!(store.delete(create(0, 1).execution, 1).wait(), Ok(()));
    assert_eq!(store.commit(refused).wait(), Ok(()));
    assert!(!store.status().full);
}

#[test]
fn everything_queued_shares_a_sync_and_a_refusal_needs_none() {
    let folder = folder();
    let (_open, tables) = tables(&folder);
    let queue = Arc::new(Queue::default());
    let status = Arc::new(Mutex::new(Status::default()));
    let (nudge, _nudges) = sync_channel(1);
    let mut writer = Writer {
        tables,
        queue: CloseOnDrop(Arc::clone(&queue)),
        status: Arc::clone(&status),
        nudge,
        copier: thread::spawn(|| {}),
        log: Log::default(),
    };
    let hand_over = |number| queue.push(Change::Commit(create(number, 1)));
    let handed: Vec<Committing> = (0..500).map(hand_over).collect();
    let turn = |writer: &mut Writer| {
        let group = queue.take().unwrap();
        writer.write(group);
        status.lock().unwrap().syncs
    };
    assert_eq!(turn(&mut writer), 1);
    for committing in handed {
        assert_eq!(committing.wait(), Ok(()));
    }
    let refused = hand_over(0);
    assert_eq!(turn(&mut writer), 1);
    assert!(refused.wait().is_err());
}

#[test]
fn the_log_is_copied_beside_the_commits_and_the_figures_tell() {
    let folder = folder();
    let store = SqliteStore::open(folder.path()).unwrap();
    let mut bytes = 0;
    for number in 0..60 {
        let mut commit = create(number, 1);
        commit.records.bytes = vec![3; 500_000];
        bytes += 500_000;
        assert_eq!(store.commit(commit).wait(), Ok(()));
    }
    store.close();
    let status = store.status();
    assert!(status.written_bytes > bytes, "{status:?}");
    assert!(status.written_bytes < 5 * bytes, "{status:?}");
    assert!(status.disk_bytes > bytes, "{status:?}");
    assert_eq!(status.index_lag_bytes, 0);
    let log = folder.path().join(format!("{DATABASE_FILE}-wal"));
    assert_eq!(std::fs::metadata(log).map_or(0, |log| log.len()), 0);
}

#[tokio::test]
async fn a_commit_can_be_awaited() {
    let folder = folder();
    let store = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(store.commit(create(1, 1)).await, Ok(()));
    assert!(store.commit(create(1, 1)).await.is_err());
}

/// Only ever does something when it is run by the test below.
#[test]
fn a_child_that_commits_until_it_is_killed() {
    if let Some(folder) = killed::folder_of_child() {
        let store = SqliteStore::open(&folder).unwrap();
        killed::commit_until_killed(&store).unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let mut home = Reopened(folder());
    let path = home.0.path().to_owned();
    let child = "store::sqlite::tests::a_child_that_commits_until_it_is_killed";
    let kills = Kills {
        rounds: 10,
        acknowledged_max: 150,
        seed: 9,
    };
    killed::survives(&mut home, kills, || killed::child(child, &path)).unwrap();
}
