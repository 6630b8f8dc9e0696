//! Checks the structure of a database beside those who use it.
//!
//! The check reads every page, which takes as long as the database is large: a store that has to
//! serve soon after a crash cannot wait for it. Nothing is repaired here.

use super::schema;
use crate::store::folder::OpenError;
use rusqlite::{Connection, ErrorCode};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Pages are read once each, so keeping them would help nobody.
const CACHE_BYTES: u64 = 1024 * 1024;
/// Steps of a check between two looks at whether it is still wanted.
const STEPS: i32 = 1_000;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing is wrong.
    Sound,
    /// This is wrong.
    Damaged(Arc<str>),
    /// It was not finished, for this reason.
    Unfinished(Arc<str>),
}

/// A connection that checks.
#[derive(Debug)]
pub struct Checker {
    connection: Connection,
}

impl Checker {
    /// Opens the database at `path`. A check of it ends soon after `stop` has become true.
    pub(super) fn open(path: &Path, stop: Arc<AtomicBool>) -> Result<Self, OpenError> {
        let mut connection = schema::open_reader(path, CACHE_BYTES)?;
        connection
            .progress_handler(STEPS, Some(move || stop.load(Ordering::Relaxed)))
            .map_err(|error| schema::refused(path, &error))?;
        Ok(Self { connection })
    }

    /// Reads the whole database.
    pub fn run(&self) -> Checked {
        match quick_check(&self.connection) {
            Ok(()) => Checked::Sound,
            Err(Wrong::Structure(reason)) => Checked::Damaged(reason),
            Err(Wrong::Read(error)) => {
                let reason = error.to_string().into();
                match error.sqlite_error_code() {
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                        Checked::Damaged(reason)
                    }
                    _ => Checked::Unfinished(reason),
                }
            }
        }
    }
}

/// Why a check did not find a database sound.
pub(super) enum Wrong {
    /// SQLite says what.
    Structure(Arc<str>),
    /// It could not be read to its end.
    Read(rusqlite::Error),
}

/// Checks a database and waits for it.
pub(super) fn quick_check(connection: &Connection) -> Result<(), Wrong> {
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(Wrong::Read)?;
    if found == "ok" {
        return Ok(());
    }
    Err(Wrong::Structure(found.into()))
}
