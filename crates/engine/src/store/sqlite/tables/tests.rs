//! Transactions with one outcome each, formats, damage, plans and the write-ahead log.

use super::*;
use crate::store::{Query, Run, Wake};
use outlast_core::wire::ExecutionStatus;
use tempfile::TempDir;

fn id(number: u128) -> ExecutionId {
    ExecutionId::from_bits(number)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A commit of `count` records of ten bytes each to execution `number`.
fn commit(number: u128, expected: u64, count: u32) -> Commit {
    Commit {
        execution: id(number),
        expected,
        records: Run {
            first: expected,
            count,
            bytes: vec![7; 10 * count as usize],
        },
        head: Head {
            version: expected + u64::from(count),
            function: "order".into(),
            function_version: "1".into(),
            name: format!("run-{number}").into(),
            status: ExecutionStatus::Running,
            started: at(1_000),
            ended: None,
            wake: None,
        },
        snapshot: None,
    }
}

fn open(folder: &TempDir, role: Role) -> Result<Tables, OpenError> {
    Tables::open(&folder.path().join("tables.db"), Options::new(role))
}

fn tables() -> (TempDir, Tables) {
    let folder = TempDir::new().unwrap();
    let tables = open(&folder, Role::CommitPoint).unwrap();
    (folder, tables)
}

fn set_meta(folder: &TempDir, key: &str, value: i64) {
    let connection = Connection::open(folder.path().join("tables.db")).unwrap();
    schema::put_meta(&connection, key, value).unwrap();
}

#[test]
fn a_refused_change_does_not_abort_its_neighbours() {
    let (_folder, mut tables) = tables();
    let outcomes = tables.apply(&[
        Change::Commit(commit(1, 0, 2)),
        Change::Commit(commit(2, 5, 1)),
        Change::Delete {
            execution: id(3),
            expected: 1,
        },
        Change::Commit(commit(4, 0, 1)),
    ]);
    let conflict = |expected| {
        Err(CommitError::Conflict {
            expected,
            found: None,
        })
    };
    assert_eq!(outcomes, [Ok(()), conflict(5), conflict(1), Ok(())]);
    let reader = tables.reader().unwrap();
    assert_eq!(reader.head(id(1)).unwrap().unwrap().version, 2);
    assert_eq!(reader.head(id(2)).unwrap(), None);
    assert_eq!(reader.head(id(4)).unwrap().unwrap().version, 1);
}

#[test]
fn commits_of_one_execution_in_one_transaction_are_applied_in_order() {
    let (_folder, mut tables) = tables();
    let outcomes = tables.apply(&[
        Change::Commit(commit(1, 0, 2)),
        Change::Commit(commit(1, 2, 3)),
        Change::Commit(commit(1, 2, 1)),
        Change::Commit(commit(1, 5, 1)),
        Change::Delete {
            execution: id(1),
            expected: 6,
        },
        Change::Commit(commit(1, 0, 4)),
    ]);
    let conflict = CommitError::Conflict {
        expected: 2,
        found: Some(5),
    };
    assert_eq!(
        outcomes,
        [Ok(()), Ok(()), Err(conflict), Ok(()), Ok(()), Ok(())]
    );
    let stored = tables.reader().unwrap().load(id(1)).unwrap().unwrap();
    assert_eq!((stored.head.version, stored.records.len()), (4, 1));
}

#[test]
fn a_full_disk_refuses_the_whole_transaction_and_changes_nothing() {
    let (_folder, mut tables) = tables();
    assert_eq!(tables.apply(&[Change::Commit(commit(1, 0, 1))]), [Ok(())]);
    let pages: i64 = tables
        .connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    tables.limit_pages(pages);
    let large = Change::Commit(commit(2, 0, 10_000));
    let outcomes = tables.apply(&[Change::Commit(commit(1, 1, 1)), large.clone()]);
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Err(CommitError::Full(_)))),
        "{outcomes:?}"
    );
    assert_eq!(tables.poisoned(), None);
    let reader = tables.reader().unwrap();
    assert_eq!(reader.head(id(1)).unwrap().unwrap().version, 1);
    assert_eq!(reader.head(id(2)).unwrap(), None);

    tables.limit_pages(pages + 1_000);
    let outcomes = tables.apply(&[Change::Commit(commit(1, 1, 1)), large]);
    assert_eq!(outcomes, [Ok(()), Ok(())]);
}

#[test]
fn any_other_failure_poisons_and_reads_go_on() {
    let (folder, mut tables) = tables();
    assert_eq!(tables.apply(&[Change::Commit(commit(1, 0, 1))]), [Ok(())]);
    tables.fail_next_commit = Some(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC));
    for _ in 0..2 {
        let outcomes = tables.apply(&[Change::Commit(commit(1, 1, 1))]);
        assert!(
            matches!(outcomes.as_slice(), [Err(CommitError::Poisoned(_))]),
            "{outcomes:?}"
        );
    }
    assert!(matches!(tables.sync(), Err(CommitError::Poisoned(_))));
    assert!(tables.poisoned().is_some());
    let reader = tables.reader().unwrap();
    assert_eq!(reader.head(id(1)).unwrap().unwrap().version, 1);

    tables.close();
    let mut tables = open(&folder, Role::CommitPoint).unwrap();
    assert_eq!(tables.apply(&[Change::Commit(commit(1, 1, 1))]), [Ok(())]);
}

#[test]
fn an_index_keeps_the_position_it_was_given_with_the_changes() {
    let folder = TempDir::new().unwrap();
    let mut tables = open(&folder, Role::Index).unwrap();
    assert_eq!(tables.position().unwrap(), None);
    assert_eq!(tables.apply_at(&[], 0), []);
    assert_eq!(tables.position().unwrap(), Some(0));
    assert_eq!(
        tables.apply_at(&[Change::Commit(commit(1, 0, 1))], 4_096),
        [Ok(())]
    );
    tables.sync().unwrap();
    assert_eq!(tables.apply(&[Change::Commit(commit(2, 0, 1))]), [Ok(())]);
    let reader = tables.reader().unwrap();
    assert_eq!(reader.position().unwrap(), Some(4_096));
    drop(reader);
    tables.close();
    let tables = open(&folder, Role::Index).unwrap();
    assert_eq!(tables.position().unwrap(), Some(4_096));
    let synchronous: i64 = tables
        .connection
        .pragma_query_value(None, "synchronous", |row| row.get(0))
        .unwrap();
    assert_eq!(synchronous, 1, "an index does not wait for the disk");
}

#[test]
fn the_commit_point_waits_for_the_disk_and_has_large_pages() {
    let (_folder, tables) = tables();
    let value = |name| -> i64 {
        tables
            .connection
            .pragma_query_value(None, name, |row| row.get(0))
            .unwrap()
    };
    assert_eq!(value("synchronous"), 2);
    assert_eq!(value("page_size"), 8_192);
    assert_eq!(value("foreign_keys"), 0);
    // In KiB: what pages may take in memory, however large the database.
    assert_eq!(value("cache_size"), -32 * 1_024);
    assert_eq!(value("wal_autocheckpoint"), 8_192);
}

#[test]
fn a_newer_format_is_refused_with_both_versions_and_a_remedy() {
    let (folder, tables) = tables();
    tables.close();
    set_meta(&folder, schema::META_FORMAT, schema::FORMAT + 1);
    let error = open(&folder, Role::CommitPoint).unwrap_err();
    assert!(matches!(
        error,
        OpenError::NewerFormat {
            found: 2,
            supported: 1,
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.ends_with(
            "tables.db has format 2 and this release reads formats up to 1; \
             open it with the release that wrote it, or a newer one"
        ),
        "{text}"
    );
    set_meta(&folder, schema::META_FORMAT, schema::FORMAT - 1);
    let error = open(&folder, Role::CommitPoint).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    set_meta(&folder, schema::META_FORMAT, schema::FORMAT);
    open(&folder, Role::CommitPoint).unwrap();
}

#[test]
fn an_index_cannot_be_opened_as_the_truth_nor_the_other_way_round() {
    for (made, wanted) in [
        (Role::Index, Role::CommitPoint),
        (Role::CommitPoint, Role::Index),
    ] {
        let folder = TempDir::new().unwrap();
        open(&folder, made).unwrap().close();
        let error = open(&folder, wanted).unwrap_err();
        assert!(matches!(error, OpenError::OtherKind { .. }), "{error}");
        open(&folder, made).unwrap();
    }
}

#[test]
fn damage_is_found_when_the_last_end_was_not_clean() {
    let (folder, mut tables) = tables();
    let changes: Vec<Change> = (0..2_000)
        .map(|number| Change::Commit(commit(number, 0, 1)))
        .collect();
    assert!(tables.apply(&changes).iter().all(Result::is_ok));
    tables.close();
    let path = folder.path().join("tables.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 8_192 / 2 * 8_192;
    bytes[middle..middle + 8_192].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();

    set_meta(&folder, META_CLEAN, 0);
    let error = open(&folder, Role::CommitPoint).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    std::fs::write(
        &path,
        "not a database, and long enough to be looked at. ".repeat(400),
    )
    .unwrap();
    let error = open(&folder, Role::CommitPoint).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn an_end_is_clean_only_after_close() {
    let (folder, tables) = tables();
    let clean = |tables: &Tables| schema::meta(&tables.connection, META_CLEAN).unwrap();
    assert_eq!(clean(&tables), Some(0));
    tables.close();
    let connection = Connection::open(folder.path().join("tables.db")).unwrap();
    assert_eq!(schema::meta(&connection, META_CLEAN).unwrap(), Some(1));
    drop(connection);
    let tables = open(&folder, Role::CommitPoint).unwrap();
    assert_eq!(clean(&tables), Some(0));
}

#[test]
fn no_list_or_scan_reads_a_whole_table() {
    let (_folder, tables) = tables();
    let plans = tables.reader().unwrap().plans();
    let expected = [
        "INDEX execution_by_status (status=? AND (started,id)>(?,?) AND started<?)",
        "INDEX execution_by_status (status=? AND started>? AND (started,id)<(?,?))",
        "INDEX execution_by_function (function=? AND status=? AND (started,id)>(?,?) AND started<?)",
        "INDEX execution_by_function (function=? AND status=? AND started>? AND (started,id)<(?,?))",
        "COVERING INDEX execution_by_wake ((wake,id)>(?,?) AND wake<?)",
        "PRIMARY KEY (id=? AND first>?)",
        "COVERING INDEX execution_by_name (function=? AND name=?)",
    ];
    assert_eq!(plans.len(), expected.len());
    for ((statement, plan), expected) in plans.into_iter().zip(expected) {
        assert!(
            plan.contains(expected) && !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{statement}: {plan}"
        );
    }
}

#[test]
fn a_checkpointer_copies_the_log_beside_the_writer() {
    let (_folder, mut tables) = tables();
    let checkpointer = tables.checkpointer().unwrap();
    assert_eq!(
        tables.apply(&[Change::Commit(commit(1, 0, 2_000))]),
        [Ok(())]
    );
    let before = tables.log().unwrap();
    assert!(before.frames > before.copied, "{before:?}");
    let after = checkpointer.run().unwrap();
    assert_eq!(after.frames, after.copied);
    assert_eq!(tables.log().unwrap(), after);
    assert_eq!(tables.apply(&[Change::Commit(commit(2, 0, 1))]), [Ok(())]);
    let restarted = tables.log().unwrap();
    assert!(restarted.frames < after.frames, "{restarted:?}");
}

#[test]
fn the_log_begins_anew_however_long_the_writer_goes_on() {
    let (folder, mut tables) = tables();
    tables
        .connection
        .pragma_update(None, "wal_autocheckpoint", 500)
        .unwrap();
    let mut frames_max = 0;
    for number in 0..40 {
        // About 50 frames each.
        let commit = commit(number, 0, 40_000);
        assert_eq!(tables.apply(&[Change::Commit(commit)]), [Ok(())]);
        frames_max = frames_max.max(tables.log().unwrap().frames);
    }
    assert!((500..600).contains(&frames_max), "{frames_max}");
    let log = folder.path().join("tables.db-wal");
    assert!(std::fs::metadata(log).unwrap().len() < 600 * 8_300);
}

#[test]
fn a_missing_run_is_damage_of_that_execution_alone() {
    let (_folder, mut tables) = tables();
    for number in [1, 2] {
        for expected in 0..3 {
            assert_eq!(
                tables.apply(&[Change::Commit(commit(number, expected, 1))]),
                [Ok(())]
            );
        }
    }
    tables
        .connection
        .execute("DELETE FROM run WHERE id = ?1 AND first = 1", [key(id(1))])
        .unwrap();
    let reader = tables.reader().unwrap();
    let error = reader.load(id(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("execution {} is damaged: record 1 of 3 is missing", id(1))
    );
    assert_eq!(reader.load(id(2)).unwrap().unwrap().records.len(), 3);
}

#[test]
fn an_unknown_status_is_damage_of_that_execution() {
    let (_folder, mut tables) = tables();
    assert_eq!(tables.apply(&[Change::Commit(commit(1, 0, 1))]), [Ok(())]);
    tables
        .connection
        .execute("UPDATE execution SET status = 9", [])
        .unwrap();
    let error = tables.reader().unwrap().head(id(1)).unwrap_err();
    assert!(
        matches!(error, crate::store::StoreError::Damaged { .. }),
        "{error}"
    );
}

#[test]
fn a_wake_that_did_not_move_leaves_the_index_alone() {
    let (_folder, mut tables) = tables();
    let mut first = commit(1, 0, 1);
    first.head.wake = Some(at(5));
    let mut second = commit(1, 1, 1);
    second.head.wake = Some(at(5));
    let mut third = commit(1, 2, 1);
    third.head.wake = Some(at(3));
    let changes = [first, second, third].map(Change::Commit);
    for (change, wake) in changes.into_iter().zip([5, 5, 3]) {
        assert_eq!(tables.apply(&[change]), [Ok(())]);
        let due = tables.reader().unwrap().due(None, at(9), 9).unwrap();
        assert_eq!(
            due,
            [Wake {
                at: at(wake),
                execution: id(1)
            }]
        );
    }
    let listed = tables
        .reader()
        .unwrap()
        .list(&Query {
            max: 9,
            ..Query::default()
        })
        .unwrap();
    assert_eq!(listed[0].1.version, 3);
}
