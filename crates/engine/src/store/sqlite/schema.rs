//! The database file: its tables, its format version, how connections to it are set up.
//!
//! Nothing here reads or writes an execution.
//!
//! Keys are those of the portable schema that a SQL server would get, without its shard column: a
//! shard spreads the writes of many nodes over many ranges, and here one thread writes one file, so
//! it would only tear apart what lies together. Secondary orders are indexes and not tables of
//! their own: SQLite keeps them in step within the transaction, so no ghost can be left behind.

use super::{
    super::folder::OpenError,
    checker::{self, Wrong},
    tables::Options,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use std::{path::Path, time::Duration};

/// The format this release writes, and the newest it reads.
pub const FORMAT: i64 = 1;

/// Pages of 8 KiB: half the cost of 4 KiB pages per commit, as measured.
pub(super) const PAGE_BYTES: u32 = 8 * 1024;
/// What precedes a page in the write-ahead log.
pub(super) const FRAME_HEADER_BYTES: u32 = 24;
/// When the write-ahead log has so many frames (64 MiB), the writer copies the rest of them itself,
/// because only a log that has been copied to its end can begin anew.
const LOG_FRAMES_MAX: u32 = 8 * 1024;
/// What is left of the log file after it began anew.
const LOG_BYTES_KEPT: u32 = 64 * 1024 * 1024;
/// Only a stranger (a shell, a backup) can hold a lock against us; it gets time to finish.
const BUSY: Duration = Duration::from_secs(30);
/// More statements than any connection here has.
const STATEMENTS: usize = 32;

pub(super) const META_FORMAT: &str = "format";
pub(super) const META_CLEAN: &str = "clean";
/// Nobody has it open, and its last transaction is in it.
pub(super) const CLEAN: i64 = 1;
/// Somebody has it open, or did and was not able to close it.
pub(super) const OPEN: i64 = 0;
/// A check found something wrong.
pub(super) const DAMAGED: i64 = 2;
pub(super) const META_ROLE: &str = "role";
pub(super) const META_POSITION: &str = "position";

const TABLES: &str = "
CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE setting (
  key   TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE execution (
  id               BLOB NOT NULL PRIMARY KEY,
  version          INTEGER NOT NULL,
  function         TEXT NOT NULL,
  function_version TEXT NOT NULL,
  name             TEXT NOT NULL,
  status           INTEGER NOT NULL,
  started          INTEGER NOT NULL,
  ended            INTEGER,
  wake             INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX execution_by_name ON execution (function, name);
CREATE INDEX execution_by_wake ON execution (wake, id) WHERE wake IS NOT NULL;
CREATE INDEX execution_by_status ON execution (status, started, id);
CREATE INDEX execution_by_function ON execution (function, status, started, id);
CREATE TABLE run (
  id    BLOB NOT NULL,
  first INTEGER NOT NULL,
  count INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (id, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshot (
  id      BLOB NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  bytes   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
";

/// What the tables are for; a file stays what it was made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// They are the truth: a transaction is durable when it returns.
    CommitPoint,
    /// They follow a journal that is the truth: a transaction that a crash takes away is applied
    /// again, so none waits for the disk.
    Index,
}

impl Role {
    fn number(self) -> i64 {
        match self {
            Self::CommitPoint => 0,
            Self::Index => 1,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::CommitPoint => "a store of its own",
            Self::Index => "the index of a journal",
        }
    }

    /// The pragma that says when SQLite waits for the disk.
    pub(super) fn synchronous(self) -> &'static str {
        match self {
            Self::CommitPoint => "FULL",
            Self::Index => "NORMAL",
        }
    }
}

/// When the structure of a database that was not closed is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Before it is opened.
    Before,
    /// By whoever opened it, beside those who use it; before it is opened if such a check has found
    /// it damaged.
    Beside,
}

/// A database that has been opened to be written.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Whether the last one that had it open closed it, if there was one.
    pub(super) closed_cleanly: Option<bool>,
    /// Whether its structure is known to be sound.
    pub(super) checked: bool,
}

/// The only connection that writes, to a database whose format and role are known to fit.
pub(super) fn open_writer(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let role = options.role;
    let connection = connect(
        path,
        OpenFlags::SQLITE_OPEN_CREATE,
        options.writer_cache_bytes,
    )?;
    let failed = |error: rusqlite::Error| refused(path, &error);
    let existed = is_initialised(&connection).map_err(failed)?;
    if existed {
        check_format(&connection, path, role)?;
    } else {
        // Counts only before the first page is written.
        connection
            .pragma_update(None, "page_size", PAGE_BYTES)
            .map_err(failed)?;
    }
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(OpenError::Io {
            path: path.to_owned(),
            reason: format!("this file system cannot hold a write-ahead log (mode {mode})").into(),
        });
    }
    // What follows is durable whatever the role: a folder that was made stays made.
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(failed)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", LOG_FRAMES_MAX)
        .map_err(failed)?;
    connection
        .pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)
        .map_err(failed)?;
    if !existed {
        initialise(&connection, role).map_err(failed)?;
    }
    let state = meta(&connection, META_CLEAN).map_err(failed)?;
    let clean = state == Some(CLEAN);
    let wait = options.check == Check::Before || state == Some(DAMAGED);
    if !clean && wait {
        quick_check(&connection, path)?;
    }
    put_meta(&connection, META_CLEAN, OPEN).map_err(failed)?;
    connection
        .pragma_update(None, "synchronous", role.synchronous())
        .map_err(failed)?;
    Ok(Opened {
        connection,
        closed_cleanly: existed.then_some(clean),
        checked: clean || wait,
    })
}

/// A connection that reads what has been committed and never waits for the writer.
pub(super) fn open_reader(path: &Path, cache_bytes: u64) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::empty(), cache_bytes)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|error| refused(path, &error))?;
    Ok(connection)
}

/// A connection that copies the write-ahead log into the database.
pub(super) fn open_checkpointer(path: &Path) -> Result<Connection, OpenError> {
    connect(path, OpenFlags::empty(), 0)
}

/// A number that the tables keep about themselves.
pub(super) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// Sets such a number.
pub(super) fn put_meta(connection: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO meta (key, value) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )?
        .execute((key, value))?;
    Ok(())
}

/// What SQLite said about `path`, as the reason it cannot be opened.
pub(super) fn refused(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let (path, reason) = (path.to_owned(), error.to_string().into());
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => OpenError::Damaged { path, reason },
        _ => OpenError::Io { path, reason },
    }
}

fn connect(path: &Path, more: OpenFlags, cache_bytes: u64) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| refused(path, &error);
    // Each connection is used by one thread at a time, so SQLite need not lock it again.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // No table refers to another: an execution is deleted as a whole.
    connection
        .pragma_update(None, "foreign_keys", false)
        .map_err(failed)?;
    // Negative: KiB instead of pages.
    let cache = -i64::try_from(cache_bytes / 1024).unwrap_or(i64::MAX);
    connection
        .pragma_update(None, "cache_size", cache)
        .map_err(failed)?;
    Ok(connection)
}

fn is_initialised(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'meta'",
        [],
        |row| row.get(0),
    )
}

fn initialise(connection: &Connection, role: Role) -> rusqlite::Result<()> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    put_meta(&transaction, META_FORMAT, FORMAT)?;
    put_meta(&transaction, META_ROLE, role.number())?;
    put_meta(&transaction, META_CLEAN, CLEAN)?;
    transaction.commit()
}

fn check_format(connection: &Connection, path: &Path, role: Role) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| refused(path, &error);
    let damaged = |reason: &str| OpenError::Damaged {
        path: path.to_owned(),
        reason: reason.into(),
    };
    let found = meta(connection, META_FORMAT).map_err(failed)?;
    match found {
        Some(FORMAT) => {}
        Some(newer) if newer > FORMAT => {
            return Err(OpenError::NewerFormat {
                path: path.to_owned(),
                found: newer.unsigned_abs(),
                supported: FORMAT.unsigned_abs(),
            });
        }
        Some(_) | None => return Err(damaged("its format has no number that was ever written")),
    }
    let number = meta(connection, META_ROLE).map_err(failed)?;
    if number == Some(role.number()) {
        return Ok(());
    }
    // Opening an index as the truth would forget what only its journal has.
    match [Role::CommitPoint, Role::Index]
        .into_iter()
        .find(|role| number == Some(role.number()))
    {
        Some(found) => Err(OpenError::OtherKind {
            path: path.to_owned(),
            found: found.words().into(),
            wanted: role.words(),
        }),
        None => Err(damaged("it does not say what it is for")),
    }
}

fn quick_check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    checker::quick_check(connection).map_err(|wrong| match wrong {
        Wrong::Structure(reason) => OpenError::Damaged {
            path: path.to_owned(),
            reason,
        },
        Wrong::Read(error) => refused(path, &error),
    })
}
