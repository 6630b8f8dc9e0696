//! Folders of stores: writing one with an execution of every kind, copying it, keeping it.

use crate::functions::{MADE_AT, boot, histories, start};
use outlast_core::wire::ErrorObject;
use outlast_engine::{
    Engine,
    store::{
        Query,
        journaled::{JournaledStore, Options},
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const INDEX: &str = "index.db";
const JOURNAL: &str = "journal/0000000001.journal";
const HISTORIES: &str = "histories.txt";
/// Segments are written in sectors, and read in them.
const SECTOR_BYTES: usize = 512;

/// What of a folder is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parts {
    /// The journal and the index that has all of it.
    All,
    /// The journal: the index had nothing.
    JournalAlone,
}

/// Where the kept folders are.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// The kept folders.
pub(crate) fn fixtures() -> Vec<PathBuf> {
    let entries = fs::read_dir(home()).unwrap();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

/// Copies a folder, so that the original stays as it is.
pub(crate) fn copy(from: &Path, to: &Path, parts: Parts) {
    fs::create_dir_all(to.join("journal")).unwrap();
    fs::copy(from.join(JOURNAL), to.join(JOURNAL)).unwrap();
    if matches!(parts, Parts::All) {
        fs::copy(from.join(INDEX), to.join(INDEX)).unwrap();
    }
}

/// Keeps a folder for the releases to come.
pub(crate) fn keep(folder: &Path) {
    let format = outlast_engine::journal::FORMAT.to_string();
    let kept = home().join(format);
    copy(folder, &kept, Parts::All);
    fs::copy(folder.join(HISTORIES), kept.join(HISTORIES)).unwrap();
}

/// Writes a folder with executions that have ended, sleep, wait for a callback and for a child, one
/// of them with a snapshot.
pub(crate) async fn write(folder: &Path) {
    let store = Arc::new(JournaledStore::open(folder, Options::default()).unwrap());
    let engine = boot(store, MADE_AT).await;
    let runner = engine.clone();
    let running = tokio::runtime::Handle::current().spawn(async move { runner.run().await });
    for name in ["sleeper", "caller", "parent", "long", "closed", "failed"] {
        start(&engine, name, name).await;
    }
    let stopped = start(&engine, "sleeper", "stopped").await;
    while !rests(&engine) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = ErrorObject::new("Cancelled", "nobody wants it");
    engine.stop(stopped, Some(error)).await.unwrap();
    fs::write(folder.join(HISTORIES), histories(&engine).await).unwrap();
    engine.shut_down().await;
    running.await.unwrap();
    trim(&folder.join(JOURNAL));
}

/// Whether all are there, the child of one of them too, and nobody works on any.
fn rests(engine: &Engine) -> bool {
    let all = Query {
        max: 100,
        ..Query::default()
    };
    let heads = engine.list(&all).unwrap();
    heads.len() == 8
        && heads
            .iter()
            .all(|(_, head)| head.wake.is_some_and(|wake| wake.as_millis() > 0))
}

/// Cuts off what was made ready for commits that never came.
fn trim(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(used.next_multiple_of(SECTOR_BYTES));
    fs::write(segment, bytes).unwrap();
}
