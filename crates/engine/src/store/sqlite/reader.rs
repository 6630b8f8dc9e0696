//! The read side of the tables: every read of the store contract, on a connection of its own.
//!
//! Reads see what was committed before they began and never wait for the writer. What they find is
//! checked, because a disk can change it: a contradiction is reported as damage of that execution.

use super::{
    super::{Head, INTEGER_MAX, Query, Run, StoreError, Stored, Wake, folder::OpenError},
    schema::{self, META_POSITION},
    tables::{integer, key, time},
};
use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::{path::Path, sync::Arc};

/// A view of the tables.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
}

const STATUSES: [ExecutionStatus; 5] = [
    ExecutionStatus::Running,
    ExecutionStatus::Succeeded,
    ExecutionStatus::Failed,
    ExecutionStatus::TimedOut,
    ExecutionStatus::Stopped,
];

/// More than any id: ids have sixteen bytes.
const AFTER_EVERY_ID: [u8; 17] = [0xff; 17];

impl Reader {
    /// Opens the database at `path`, which [`Tables`](super::tables::Tables) have opened.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        Ok(Self {
            connection: schema::open_reader(path, cache_bytes)?,
        })
    }

    /// See [`Store::head`](super::super::Store::head).
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        head(&self.connection, execution)
    }

    /// See [`Store::load`](super::super::Store::load).
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        // One transaction, so that head, snapshot and records are of one moment.
        let moment = self
            .connection
            .unchecked_transaction()
            .map_err(unreadable)?;
        let Some(head) = head(&moment, execution)? else {
            return Ok(None);
        };
        let damaged = |error| damaged(execution, &error);
        let snapshot: Option<(i64, Vec<u8>)> = moment
            .prepare_cached("SELECT version, bytes FROM snapshot WHERE id = ?1")
            .and_then(|mut statement| {
                statement
                    .query_row([key(execution)], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })
            .map_err(damaged)?;
        let snapshot = snapshot.map(|(version, bytes)| (version.unsigned_abs(), bytes));
        let from = snapshot.as_ref().map_or(0, |(version, _)| *version);
        let records = runs(&moment, execution, from, usize::MAX)?;
        let mut next = from;
        for run in &records {
            if run.first != next {
                break;
            }
            next += u64::from(run.count);
        }
        if next != head.version {
            return Err(StoreError::Damaged {
                execution,
                reason: format!("record {next} of {} is missing", head.version).into(),
            });
        }
        Ok(Some(Stored {
            head,
            snapshot,
            records,
        }))
    }

    /// See [`Store::records`](super::super::Store::records).
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        runs(&self.connection, execution, from, bytes_max)
    }

    /// See [`Store::find`](super::super::Store::find).
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, StoreError> {
        find(&self.connection, function, name).map_err(unreadable)
    }

    /// See [`Store::due`](super::super::Store::due).
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(DUE)?;
            let row = |row: &Row<'_>| {
                Ok(Wake {
                    at: Timestamp::from_millis(row.get::<_, i64>(0)?.unsigned_abs()),
                    execution: id(row, 1)?,
                })
            };
            let (at, past) = match after {
                Some(wake) => (time(wake.at), key(wake.execution).to_vec()),
                None => (0, Vec::new()),
            };
            statement
                .query_map(params![at, past, time(until), limit(max)], row)?
                .collect::<rusqlite::Result<Vec<Wake>>>()
        };
        read().map_err(unreadable)
    }

    /// See [`Store::list`](super::super::Store::list).
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        if query.max == 0 {
            return Ok(Vec::new());
        }
        // One transaction, so that an execution that changes its status meanwhile is seen once.
        let moment = self
            .connection
            .unchecked_transaction()
            .map_err(unreadable)?;
        if let (Some(function), Some(name)) = (&query.function, &query.name) {
            let Some(execution) = find(&moment, function, name).map_err(unreadable)? else {
                return Ok(Vec::new());
            };
            let found = head(&moment, execution)?
                .filter(|head| query.matches(head) && query.follows(head.started, execution));
            return Ok(found.map(|head| (execution, head)).into_iter().collect());
        }
        // Each status is a range of the index that is in order already.
        let mut found = Vec::new();
        for status in STATUSES {
            if query.statuses.is_empty() || query.statuses.contains(&status) {
                list_status(&moment, query, status, &mut found)?;
            }
        }
        found.sort_by_key(|(execution, head)| (head.started, *execution));
        if query.newest_first {
            found.reverse();
        }
        found.truncate(query.max);
        Ok(found)
    }

    /// See [`Store::setting`](super::super::Store::setting).
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.connection
            .prepare_cached("SELECT value FROM setting WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(unreadable)
    }

    /// The journal position that the tables have reached.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn position(&self) -> Result<Option<u64>, StoreError> {
        position(&self.connection)
    }

    /// What SQLite would do for each kind of list and due scan, to prove that none reads a whole
    /// table.
    #[cfg(test)]
    pub(super) fn plans(&self) -> Vec<(String, String)> {
        let statements = [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(function, newest_first)| list_statement(function, newest_first))
            .chain([DUE.to_owned(), RUNS.to_owned(), FIND.to_owned()]);
        statements
            .map(|statement| {
                let mut explain = self
                    .connection
                    .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
                    .unwrap();
                let count = explain.parameter_count();
                let plan: Vec<String> = explain
                    .query_map(rusqlite::params_from_iter(vec![0; count]), |row| row.get(3))
                    .unwrap()
                    .collect::<rusqlite::Result<_>>()
                    .unwrap();
                (statement, plan.join("; "))
            })
            .collect()
    }
}

const HEAD: &str = "SELECT id, version, function, function_version, name, status, started, ended, \
                    wake FROM execution";

const DUE: &str = "SELECT wake, id FROM execution INDEXED BY execution_by_wake
                   WHERE (wake, id) > (?1, ?2) AND wake <= ?3 ORDER BY wake, id LIMIT ?4";

const FIND: &str = "SELECT id FROM execution WHERE function = ?1 AND name = ?2";

const RUNS: &str = "SELECT first, count, bytes FROM run
                    WHERE id = ?1 AND first >= coalesce(
                      (SELECT max(first) FROM run WHERE id = ?1 AND first <= ?2), 0)
                    ORDER BY first";

/// The execution that has this name.
pub(super) fn find(
    connection: &Connection,
    function: &str,
    name: &str,
) -> rusqlite::Result<Option<ExecutionId>> {
    connection
        .prepare_cached(FIND)?
        .query_row([function, name], |row| id(row, 0))
        .optional()
}

/// The journal position that the tables have reached.
pub(super) fn position(connection: &Connection) -> Result<Option<u64>, StoreError> {
    let position = schema::meta(connection, META_POSITION).map_err(unreadable)?;
    Ok(position.map(i64::unsigned_abs))
}

/// The number that stands for a status in the tables, for ever.
pub(super) fn status_number(status: ExecutionStatus) -> i64 {
    match status {
        ExecutionStatus::Running => 0,
        ExecutionStatus::Succeeded => 1,
        ExecutionStatus::Failed => 2,
        ExecutionStatus::TimedOut => 3,
        ExecutionStatus::Stopped => 4,
    }
}

fn head(connection: &Connection, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
    connection
        .prepare_cached(&format!("{HEAD} WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([key(execution)], to_head).optional())
        .map_err(|error| damaged(execution, &error))
}

fn runs(
    connection: &Connection,
    execution: ExecutionId,
    from: u64,
    bytes_max: usize,
) -> Result<Vec<Run>, StoreError> {
    if from > INTEGER_MAX {
        return Ok(Vec::new());
    }
    let read = || {
        let mut statement = connection.prepare_cached(RUNS)?;
        let mut rows = statement.query(params![key(execution), integer(from)])?;
        let mut runs: Vec<Run> = Vec::new();
        let mut bytes = 0_usize;
        while let Some(row) = rows.next()? {
            let (first, count) = (row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?);
            // The last run of all begins before `from` without containing it.
            if first.saturating_add(u64::from(count)) <= from {
                continue;
            }
            let run = row.get_ref(2)?.as_blob()?;
            bytes = bytes.saturating_add(run.len());
            if bytes > bytes_max && !runs.is_empty() {
                break;
            }
            runs.push(Run {
                first,
                count,
                bytes: run.to_vec(),
            });
        }
        Ok(runs)
    };
    read().map_err(|error| damaged(execution, &error))
}

fn list_statement(function: bool, newest_first: bool) -> String {
    let (follows, bound, order) = if newest_first {
        ("<", ">=", "DESC")
    } else {
        (">", "<=", "ASC")
    };
    // Named, because without statistics SQLite prefers the index that does not know the function.
    let (index, function, max) = if function {
        ("execution_by_function", "function = ?7 AND", "?8")
    } else {
        ("execution_by_status", "", "?7")
    };
    format!(
        "{HEAD} INDEXED BY {index} WHERE {function} status = ?1
           AND (started, id) {follows} (?2, ?3) AND started {bound} ?4
           AND (?5 IS NULL OR function_version = ?5) AND (?6 IS NULL OR name = ?6)
         ORDER BY started {order}, id {order} LIMIT {max}"
    )
}

fn list_status(
    connection: &Connection,
    query: &Query,
    status: ExecutionStatus,
    found: &mut Vec<(ExecutionId, Head)>,
) -> Result<(), StoreError> {
    let from = query.started_from.map_or(0, time);
    let until = query.started_until.map_or(i64::MAX, time);
    let after = query
        .after
        .map(|(at, execution)| (time(at), key(execution).to_vec()));
    // The place to begin is where paging stopped or where the range begins, whichever is further.
    let (begin, bound) = if query.newest_first {
        let edge = (until, AFTER_EVERY_ID.to_vec());
        (after.map_or(edge.clone(), |after| after.min(edge)), from)
    } else {
        let edge = (from, Vec::new());
        (after.map_or(edge.clone(), |after| after.max(edge)), until)
    };
    let statement = list_statement(query.function.is_some(), query.newest_first);
    let mut read = || {
        let mut statement = connection.prepare_cached(&statement)?;
        let (version, name) = (query.function_version.as_deref(), query.name.as_deref());
        let (number, max) = (status_number(status), limit(query.max));
        let mut rows = match query.function.as_deref() {
            Some(function) => statement.query(params![
                number, begin.0, begin.1, bound, version, name, function, max
            ])?,
            None => {
                statement.query(params![number, begin.0, begin.1, bound, version, name, max])?
            }
        };
        while let Some(row) = rows.next()? {
            found.push((id(row, 0)?, to_head(row)?));
        }
        Ok(())
    };
    read().map_err(unreadable)
}

fn to_head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let time = |time: i64| Timestamp::from_millis(time.unsigned_abs());
    let number: i64 = row.get(5)?;
    let status = STATUSES
        .into_iter()
        .find(|status| status_number(*status) == number)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(5, number))?;
    Ok(Head {
        version: row.get::<_, i64>(1)?.unsigned_abs(),
        function: row.get(2)?,
        function_version: row.get(3)?,
        name: row.get(4)?,
        status,
        started: time(row.get(6)?),
        ended: row.get::<_, Option<i64>>(7)?.map(time),
        wake: row.get::<_, Option<i64>>(8)?.map(time),
    })
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<ExecutionId> {
    let bits: [u8; 16] = row.get(column)?;
    Ok(ExecutionId::from_bits(u128::from_be_bytes(bits)))
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// A failure to read one execution: its own damage where SQLite says so, the store's otherwise.
fn damaged(execution: ExecutionId, error: &rusqlite::Error) -> StoreError {
    let reason: Arc<str> = error.to_string().into();
    match error.sqlite_error_code() {
        None | Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { execution, reason },
        Some(_) => StoreError::Unreadable(reason),
    }
}

/// A failure to read that concerns no execution in particular.
pub(super) fn unreadable(error: rusqlite::Error) -> StoreError {
    StoreError::Unreadable(error.to_string().into())
}
