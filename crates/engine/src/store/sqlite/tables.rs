//! The write side of the tables: many changes in one transaction, one outcome each.
//!
//! Used as the commit point by the SQLite store and as the index of a journal. It has no thread and
//! no queue, and it decides nothing but what the contract of stores says: versions and names.
//!
//! A change is checked before anything of it is written, so a refused one leaves nothing to undo
//! and its neighbours go on. What SQLite itself refuses takes the whole transaction with it.

use super::{
    super::{Change, Commit, CommitError, Head, StoreError, folder::OpenError},
    checker::Checker,
    reader::{self, Reader},
    schema::{self, FRAME_HEADER_BYTES, META_CLEAN, META_POSITION, Opened, PAGE_BYTES},
};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

pub use super::schema::{Check, FORMAT, Role};

/// How tables are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What they are for.
    pub role: Role,
    /// When they are checked, if the last end was not clean.
    pub check: Check,
    /// Memory for pages of the writer.
    pub writer_cache_bytes: u64,
    /// Memory for pages of each reader.
    pub reader_cache_bytes: u64,
}

impl Options {
    /// The defaults for this role.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            // What an index says wrongly the journal before it does not, and a crash cannot tear
            // it: see ADR 0009.
            check: match role {
                Role::CommitPoint => Check::Before,
                Role::Index => Check::Beside,
            },
            writer_cache_bytes: 32 * 1024 * 1024,
            reader_cache_bytes: 4 * 1024 * 1024,
        }
    }
}

/// The write side of a database.
#[derive(Debug)]
pub struct Tables {
    connection: Connection,
    path: PathBuf,
    options: Options,
    closed_cleanly: Option<bool>,
    checked: bool,
    poisoned: Option<Arc<str>>,
    #[cfg(test)]
    pub(in super::super) fail_next_commit: Option<rusqlite::ffi::Error>,
}

/// How far the write-ahead log has grown and been copied into the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Frames written since the log last began anew.
    pub frames: u64,
    /// Frames of these whose pages are in the database.
    pub copied: u64,
}

impl Log {
    /// About how many bytes were written since the log was as `before` says. An upper bound: a page
    /// that is in the log several times is copied once.
    pub fn written_since(&self, before: &Self) -> u64 {
        let (written, copied) = if self.frames >= before.frames {
            (
                self.frames - before.frames,
                self.copied.saturating_sub(before.copied),
            )
        } else {
            // It began anew, which it only does when all of it has been copied.
            let rest = before.frames.saturating_sub(before.copied);
            (self.frames, rest + self.copied)
        };
        written * u64::from(PAGE_BYTES + FRAME_HEADER_BYTES) + copied * u64::from(PAGE_BYTES)
    }
}

impl Tables {
    /// Opens the database at `path`, making it if it is not there. After an end that was not clean
    /// its structure is to be checked, which reads all of it: here, or by a [`Checker`].
    ///
    /// # Errors
    /// When its format is newer, its role is another, it is damaged, or the disk refuses.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let Opened {
            connection,
            closed_cleanly,
            checked,
        } = schema::open_writer(path, &options)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            options,
            closed_cleanly,
            checked,
            poisoned: None,
            #[cfg(test)]
            fail_next_commit: None,
        })
    }

    /// Whether the database was closed before it was opened now; nothing if it is new.
    pub fn closed_cleanly(&self) -> Option<bool> {
        self.closed_cleanly
    }

    /// What checks the structure, for another thread, if that is still to be done. It gives up when
    /// `stop` becomes true.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn checker(&self, stop: &Arc<AtomicBool>) -> Result<Option<Checker>, OpenError> {
        (!self.checked)
            .then(|| Checker::open(&self.path, stop.clone()))
            .transpose()
    }

    /// The structure has been checked and is sound.
    pub fn found_sound(&mut self) {
        self.checked = true;
    }

    /// The structure has been checked and is not sound. Nothing is applied any more, and the next
    /// open checks before anything else.
    pub fn found_damaged(&mut self, reason: Arc<str>) {
        if let Err(error) = schema::put_meta(&self.connection, META_CLEAN, schema::DAMAGED) {
            tracing::warn!(%error, "the damage could not be noted");
        }
        self.poisoned = Some(reason);
    }

    /// Another view of the same database, for another thread: it sees what has been applied.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn reader(&self) -> Result<Reader, OpenError> {
        Reader::open(&self.path, self.options.reader_cache_bytes)
    }

    /// What copies the write-ahead log into the database, for another thread.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn checkpointer(&self) -> Result<Checkpointer, OpenError> {
        Ok(Checkpointer {
            connection: schema::open_checkpointer(&self.path)?,
        })
    }

    /// Applies all changes in order, in one transaction; one outcome each. As the commit point the
    /// transaction is durable when this returns.
    ///
    /// A full disk refuses all of them and the next call may succeed. Any other failure poisons:
    /// it is not known what is durable, and every later call is refused.
    pub fn apply(&mut self, changes: &[Change]) -> Vec<Result<(), CommitError>> {
        self.apply_with(changes, None)
    }

    /// Applies all changes, and with them notes the position in the journal they reach to.
    pub fn apply_at(&mut self, changes: &[Change], position: u64) -> Vec<Result<(), CommitError>> {
        self.apply_with(changes, Some(position))
    }

    /// The position last noted.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn position(&self) -> Result<Option<u64>, StoreError> {
        reader::position(&self.connection)
    }

    /// Makes everything applied so far durable, for an index whose journal is to be shortened.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&mut self) -> Result<(), CommitError> {
        if let Some(reason) = &self.poisoned {
            return Err(CommitError::Poisoned(Arc::clone(reason)));
        }
        self.try_sync().map_err(|error| self.refuse(&error))
    }

    /// How long the write-ahead log is.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn log(&self) -> Result<Log, StoreError> {
        log(&self.connection, "PRAGMA wal_checkpoint(NOOP)").map_err(reader::unreadable)
    }

    /// Why nothing can be applied any more, if so.
    pub fn poisoned(&self) -> Option<&Arc<str>> {
        self.poisoned.as_ref()
    }

    /// Copies the log into the database and notes a clean end, so that the next open is quick. A
    /// failure costs nothing but that. What still has to be checked is left to be checked.
    pub fn close(self) {
        if self.poisoned.is_some() {
            return;
        }
        let end = if self.checked {
            schema::CLEAN
        } else {
            schema::OPEN
        };
        let closed = schema::put_meta(&self.connection, META_CLEAN, end)
            .and_then(|()| log(&self.connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
        if let Err(error) = closed {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    fn apply_with(
        &mut self,
        changes: &[Change],
        position: Option<u64>,
    ) -> Vec<Result<(), CommitError>> {
        let refusal = match &self.poisoned {
            Some(reason) => CommitError::Poisoned(Arc::clone(reason)),
            None => match self.transact(changes, position) {
                Ok(outcomes) => return outcomes,
                Err(error) => self.refuse(&error),
            },
        };
        vec![Err(refusal); changes.len()]
    }

    fn transact(
        &mut self,
        changes: &[Change],
        position: Option<u64>,
    ) -> rusqlite::Result<Vec<Result<(), CommitError>>> {
        // Dropped before its commit, as by every `?` below, the transaction is rolled back.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(apply_change(&transaction, change)?);
        }
        if let Some(position) = position {
            schema::put_meta(&transaction, META_POSITION, integer(position))?;
        }
        #[cfg(test)]
        if let Some(error) = self.fail_next_commit.take() {
            return Err(rusqlite::Error::SqliteFailure(error, None));
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    fn try_sync(&mut self) -> rusqlite::Result<()> {
        let position = schema::meta(&self.connection, META_POSITION)?.unwrap_or(0);
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        // A commit that waits for the disk takes every earlier frame of the log along.
        let written = schema::put_meta(&self.connection, META_POSITION, position);
        self.connection
            .pragma_update(None, "synchronous", self.options.role.synchronous())?;
        written
    }

    /// What a failed transaction means for those who wait for it.
    fn refuse(&mut self, error: &rusqlite::Error) -> CommitError {
        let reason: Arc<str> = error.to_string().into();
        // SQLite says "full" only when a write was refused, which comes before the mark that makes
        // a transaction count; so it is known that nothing was committed.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            return CommitError::Full(reason);
        }
        self.poisoned = Some(Arc::clone(&reason));
        CommitError::Poisoned(reason)
    }
}

#[cfg(test)]
impl Tables {
    /// Brings the database file up to date.
    pub(in super::super) fn copy_log(&self) {
        log(&self.connection, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    }

    /// Makes a disk of this many pages.
    pub(in super::super) fn limit_pages(&self, pages: i64) {
        let _: i64 = self
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get(0))
            .unwrap();
    }
}

/// Copies the write-ahead log into the database beside the writer.
#[derive(Debug)]
pub struct Checkpointer {
    connection: Connection,
}

impl Checkpointer {
    /// Copies as much as can be copied without waiting for anybody.
    ///
    /// # Errors
    /// When the disk refuses; the log keeps what was not copied.
    pub fn run(&self) -> Result<Log, StoreError> {
        log(&self.connection, "PRAGMA wal_checkpoint(PASSIVE)").map_err(reader::unreadable)
    }
}

fn log(connection: &Connection, pragma: &str) -> rusqlite::Result<Log> {
    connection.prepare_cached(pragma)?.query_row([], |row| {
        // -1 when there is no log yet.
        let frames = |column| {
            row.get::<_, i64>(column)
                .map(|n| u64::try_from(n).unwrap_or(0))
        };
        Ok(Log {
            frames: frames(1)?,
            copied: frames(2)?,
        })
    })
}

fn apply_change(
    connection: &Connection,
    change: &Change,
) -> rusqlite::Result<Result<(), CommitError>> {
    match change {
        Change::Commit(commit) => apply_commit(connection, commit),
        Change::Delete {
            execution,
            expected,
        } => delete(connection, *execution, *expected),
        Change::Setting { key, value } => {
            connection
                .prepare_cached(
                    "INSERT INTO setting (key, value) VALUES (?1, ?2)
                     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                )?
                .execute(params![key.as_ref(), value])?;
            Ok(Ok(()))
        }
    }
}

fn apply_commit(
    connection: &Connection,
    commit: &Commit,
) -> rusqlite::Result<Result<(), CommitError>> {
    if let Err(refusal) = commit.check() {
        return Ok(Err(refusal));
    }
    let key = key(commit.execution);
    let found = find_current(connection, &key, &commit.head)?;
    let refusal = match &found {
        Some(found) if found.version != commit.expected => Some(CommitError::Conflict {
            expected: commit.expected,
            found: Some(found.version),
        }),
        Some(found) if !found.same_identity => Some(CommitError::CHANGED_IDENTITY),
        Some(_) => None,
        None if commit.expected > 0 => Some(CommitError::Conflict {
            expected: commit.expected,
            found: None,
        }),
        None => reader::find(connection, &commit.head.function, &commit.head.name)?
            .map(CommitError::NameTaken),
    };
    if let Some(refusal) = refusal {
        return Ok(Err(refusal));
    }
    match found {
        Some(found) => update_head(connection, &key, &commit.head, &found)?,
        None => insert_head(connection, &key, &commit.head)?,
    }
    append(connection, &key, commit)?;
    Ok(Ok(()))
}

/// What a commit has to know of the execution it is for.
struct Current {
    version: u64,
    same_identity: bool,
    status: i64,
    ended: Option<i64>,
    wake: Option<i64>,
}

fn find_current(
    connection: &Connection,
    key: &[u8; 16],
    head: &Head,
) -> rusqlite::Result<Option<Current>> {
    connection
        .prepare_cached(
            "SELECT version, status, started, ended, wake, function, name
             FROM execution WHERE id = ?1",
        )?
        .query_row([key], |row| {
            Ok(Current {
                version: row.get::<_, i64>(0)?.unsigned_abs(),
                same_identity: row.get::<_, i64>(2)? == time(head.started)
                    && row.get_ref(5)?.as_bytes()? == head.function.as_bytes()
                    && row.get_ref(6)?.as_bytes()? == head.name.as_bytes(),
                status: row.get(1)?,
                ended: row.get(3)?,
                wake: row.get(4)?,
            })
        })
        .optional()
}

fn insert_head(connection: &Connection, key: &[u8; 16], head: &Head) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO execution
               (id, version, function, function_version, name, status, started, ended, wake)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            key,
            integer(head.version),
            head.function.as_ref(),
            head.function_version.as_ref(),
            head.name.as_ref(),
            reader::status_number(head.status),
            time(head.started),
            head.ended.map(time),
            head.wake.map(time),
        ])?;
    Ok(())
}

/// Replaces the head. SQLite writes every index of a column that a statement names, changed or not,
/// so what did not change is not named: most commits change the version alone.
fn update_head(
    connection: &Connection,
    key: &[u8; 16],
    head: &Head,
    found: &Current,
) -> rusqlite::Result<()> {
    let (version, function_version) = (integer(head.version), head.function_version.as_ref());
    let (ended, wake) = (head.ended.map(time), head.wake.map(time));
    let status = reader::status_number(head.status);
    if status != found.status || ended != found.ended {
        connection
            .prepare_cached(
                "UPDATE execution SET version = ?2, function_version = ?3, wake = ?4,
                   status = ?5, ended = ?6 WHERE id = ?1",
            )?
            .execute(params![key, version, function_version, wake, status, ended])?;
    } else if wake != found.wake {
        connection
            .prepare_cached(
                "UPDATE execution SET version = ?2, function_version = ?3, wake = ?4
                 WHERE id = ?1",
            )?
            .execute(params![key, version, function_version, wake])?;
    } else {
        connection
            .prepare_cached(
                "UPDATE execution SET version = ?2, function_version = ?3 WHERE id = ?1",
            )?
            .execute(params![key, version, function_version])?;
    }
    Ok(())
}

fn append(connection: &Connection, key: &[u8; 16], commit: &Commit) -> rusqlite::Result<()> {
    if commit.records.count > 0 {
        connection
            .prepare_cached("INSERT INTO run (id, first, count, bytes) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                key,
                integer(commit.records.first),
                commit.records.count,
                commit.records.bytes
            ])?;
    }
    if let Some(snapshot) = &commit.snapshot {
        connection
            .prepare_cached(
                "INSERT INTO snapshot (id, version, bytes) VALUES (?1, ?2, ?3)
                 ON CONFLICT (id) DO UPDATE
                 SET version = excluded.version, bytes = excluded.bytes",
            )?
            .execute(params![key, integer(commit.head.version), snapshot])?;
    }
    Ok(())
}

fn delete(
    connection: &Connection,
    execution: ExecutionId,
    expected: u64,
) -> rusqlite::Result<Result<(), CommitError>> {
    let key = key(execution);
    let found: Option<i64> = connection
        .prepare_cached("SELECT version FROM execution WHERE id = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    let found = found.map(i64::unsigned_abs);
    if found != Some(expected) {
        return Ok(Err(CommitError::Conflict { expected, found }));
    }
    for statement in [
        "DELETE FROM run WHERE id = ?1",
        "DELETE FROM snapshot WHERE id = ?1",
        "DELETE FROM execution WHERE id = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([key])?;
    }
    Ok(Ok(()))
}

/// The key of an execution: its bits, most significant first, so that keys order as ids do.
pub(super) fn key(execution: ExecutionId) -> [u8; 16] {
    execution.bits().to_be_bytes()
}

/// An unsigned number as SQLite keeps it; [`Commit::check`] refused what would not fit.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time as SQLite keeps it.
pub(super) fn time(time: Timestamp) -> i64 {
    integer(time.as_millis())
}

#[cfg(test)]
mod tests;
