//! An index that was not closed is checked, and nobody waits for it.

use super::*;
use std::{fs, path::PathBuf};

/// A folder whose index was not closed, with something in it.
fn unclean() -> (TempDir, SimDisk) {
    let (folder, disk) = (folder(), SimDisk::new(1));
    let shared = steps(&folder, &disk).unwrap();
    for number in 0..500 {
        let mut first = create(number, 1);
        first.records.bytes = vec![7; 1_000];
        drop(shared.hand_over(Change::Commit(first)));
    }
    shared.write_queued();
    shared.index();
    // As closing does, but for the note that says so.
    shared.with_tables(|tables| tables.copy_log());
    drop(shared);
    (folder, disk)
}

fn index_file(folder: &TempDir) -> PathBuf {
    folder.path().join(INDEX_FILE)
}

/// Overwrites a page in the middle of the index.
fn damage(folder: &TempDir) {
    let mut bytes = fs::read(index_file(folder)).unwrap();
    let middle = bytes.len() / 8_192 / 2 * 8_192;
    bytes[middle..middle + 8_192].fill(0x5a);
    fs::write(index_file(folder), bytes).unwrap();
}

fn close(shared: Shared) {
    shared.close();
    shared.write_until_closed(&mpsc::channel().0);
    shared.index_until_closed();
}

#[test]
fn a_sound_index_is_checked_once_beside_those_who_use_it() {
    let (folder, disk) = unclean();
    let shared = steps(&folder, &disk).unwrap();
    assert_eq!(shared.about().closed_cleanly, Some(false));
    assert!(shared.is_to_be_checked());
    commit(&shared, create(1_000, 1)).unwrap();
    shared.check_index();
    assert!(!shared.is_to_be_checked());
    commit(&shared, create(1_001, 1)).unwrap();
    close(shared);

    let shared = steps(&folder, &disk).unwrap();
    assert_eq!(shared.about().closed_cleanly, Some(true));
    assert!(!shared.is_to_be_checked());
}

#[test]
fn a_check_that_a_close_cuts_short_is_left_to_the_next_open() {
    for checks in [false, true] {
        let (folder, disk) = unclean();
        let shared = steps(&folder, &disk).unwrap();
        shared.close();
        if checks {
            shared.check_index();
        }
        close(shared);
        let shared = steps(&folder, &disk).unwrap();
        assert_eq!(shared.about().closed_cleanly, Some(false));
        assert!(shared.is_to_be_checked());
        assert_eq!(shared.status().poisoned, None);
    }
}

#[test]
fn a_damaged_index_stops_the_store_and_is_not_opened_again() {
    let (folder, disk) = unclean();
    damage(&folder);
    let shared = steps(&folder, &disk).unwrap();
    shared.check_index();
    let poisoned = shared.status().poisoned.unwrap();
    assert!(
        poisoned.contains("index.db is damaged") && poisoned.contains("restore it from a backup"),
        "{poisoned}"
    );
    let refused = commit(&shared, create(1_000, 1));
    assert!(matches!(refused, Err(CommitError::Poisoned(_))));
    close(shared);
    for _ in 0..2 {
        let error = steps(&folder, &disk).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

#[test]
fn whoever_wants_to_know_first_is_told_when_opening() {
    let check_first = || Options {
        check_first: true,
        ..manual()
    };
    let open = |folder: &TempDir, disk: &SimDisk| {
        let folder = Folder::open(folder.path()).unwrap();
        Shared::open(folder, Arc::new(disk.clone()), check_first())
    };
    let (folder, disk) = unclean();
    assert!(!open(&folder, &disk).unwrap().is_to_be_checked());
    damage(&folder);
    let error = open(&folder, &disk).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn the_store_checks_by_itself() {
    let folder = folder();
    let open = || JournaledStore::open(folder.path(), small()).unwrap();
    let store = open();
    for number in 0..200 {
        let mut first = create(number, 1);
        first.records.bytes = vec![7; 1_000];
        store.commit(first).wait().unwrap();
    }
    drop(store);
    let unclean = tables::Options::new(Role::Index);
    drop(Tables::open(&index_file(&folder), unclean).unwrap());
    damage(&folder);
    let store = open();
    let mut next = create(1_000, 1);
    let refused = loop {
        match store.commit(next.clone()).wait() {
            Ok(()) => next = follow(&next, 1),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, CommitError::Poisoned(_)), "{refused}");
}
