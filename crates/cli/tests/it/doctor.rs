//! `outlast doctor`: what it says about folders in every condition.

use crate::outlast;
use std::{fs, path::Path};

fn data(folder: &Path) -> String {
    format!("--data={}", folder.display())
}

/// A folder in which an engine has been opened and nothing else has happened.
fn fresh() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("LOCK"), "").unwrap();
    folder
}

#[test]
fn nothing_is_wrong_with_a_fresh_folder() {
    let folder = fresh();
    // The first look makes the store, the second finds it closed by the first.
    for (deep, closed) in [(false, serde_json::Value::Null), (true, true.into())] {
        let mut arguments = vec!["doctor", "--json"];
        let data = data(folder.path());
        arguments.push(&data);
        arguments.extend(deep.then_some("--deep"));
        let called = outlast(&arguments);
        assert_eq!(
            (called.code, called.stderr.as_str()),
            (Some(0), ""),
            "{called:?}"
        );
        let report = called.json();
        assert_eq!(report["problems"], serde_json::json!([]));
        assert_eq!(report["executions"], serde_json::json!({}));
        assert_eq!(
            (&report["overdue"], &report["in_flight"]),
            (&0.into(), &0.into())
        );
        assert_eq!(report["deep"], deep);
        assert_eq!(
            (&report["format"], &report["closed_cleanly"]),
            (&1.into(), &closed)
        );
        let says = |field: &str, words: &str| {
            let value = report[field].as_str().unwrap();
            assert!(value.contains(words), "{words} in {report}");
        };
        says("store", "journal");
        says("sync", "fdatasync");
        for field in ["files", "damaged"] {
            assert!(report.get(field).is_some(), "no {field} in {report}");
        }
    }
}

#[test]
fn people_are_told_in_words() {
    let folder = fresh();
    let called = outlast(&["doctor", &data(folder.path())]);
    assert_eq!(
        (called.code, called.stderr.as_str()),
        (Some(0), ""),
        "{called:?}"
    );
    for text in [
        "a journal, with an index in SQLite",
        "fdatasync",
        "never: it is new",
        "executions ",
        "nothing wrong was found",
        "--deep",
    ] {
        assert!(!called.stdout.contains("unknown"), "{}", called.stdout);
        assert!(called.stdout.contains(text), "{text} in {}", called.stdout);
    }
}

#[test]
fn a_missing_folder_is_an_error_and_is_not_made() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("none");
    let called = outlast(&["doctor", "--json", &data(&folder)]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("there is no folder"), "{called:?}");
    assert!(called.stderr.contains("OUTLAST_DATA"), "{called:?}");
    let error = called.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("none"), "{error}");
    assert!(!folder.exists());
}

#[test]
fn without_an_argument_it_looks_where_the_engine_would() {
    let called = outlast(&["doctor"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
    assert!(
        called.stderr.contains("there is no folder .outlast"),
        "{called:?}"
    );
}

#[test]
fn what_is_no_data_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter");
    fs::write(&file, "dear").unwrap();
    for path in [folder.path(), &file] {
        let called = outlast(&["doctor", &data(path)]);
        assert_eq!(
            (called.code, called.stdout.as_str()),
            (Some(1), ""),
            "{called:?}"
        );
        assert!(called.stderr.contains("--data"), "{called:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_in_use_is_named_with_its_owner() {
    let folder = fresh();
    let lock = fs::File::options()
        .write(true)
        .open(folder.path().join("LOCK"))
        .unwrap();
    lock.lock().unwrap();
    fs::write(folder.path().join("LOCK"), "4711\n").unwrap();
    let called = outlast(&["doctor", &data(folder.path())]);
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (Some(1), ""),
        "{called:?}"
    );
    assert!(
        called.stderr.contains("in use by process 4711"),
        "{called:?}"
    );
    assert!(called.stderr.contains("stop that process"), "{called:?}");
}
