//! The rules that every store keeps, as cases with names.
//!
//! A store passes when [`run`] finds no broken rule. The cases know the contract alone: nothing about
//! how a store keeps what it keeps, and nothing about power cuts, which each store tests its own way.

mod commits;
pub mod killed;
mod reads;
mod together;

use super::{Commit, CommitError, Head, INTEGER_MAX, Query, Run, Store, StoreError, Stored, Wake};
use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use std::{fmt, io, sync::Arc};

/// Where a store lives.
pub trait Home {
    /// Opens the store; the first time it is empty. Called again only when the store before was
    /// closed and dropped; the new one then has everything the old one acknowledged.
    fn open(&mut self) -> Arc<dyn Store>;
}

/// What went wrong where a rule was broken.
#[derive(Debug)]
pub struct Broken(String);

/// Whether a rule holds.
pub type Verdict = Result<(), Broken>;

/// A rule and how it is checked.
type Rule = (&'static str, fn(&mut dyn Home) -> Verdict);

/// Checks every rule, each in a new home.
///
/// # Errors
/// The broken rules, one line each.
pub fn run(make: impl Fn() -> Box<dyn Home>) -> Result<(), Broken> {
    let rules = [commits::RULES, reads::RULES, together::RULES];
    let broken: Vec<String> = rules
        .into_iter()
        .flatten()
        .filter_map(|(rule, check)| {
            let verdict = check(make().as_mut());
            verdict.err().map(|broken| format!("{rule}: {}", broken.0))
        })
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Broken(broken.join("\n")))
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

impl From<CommitError> for Broken {
    fn from(error: CommitError) -> Self {
        Self(format!("a commit was refused: {error}"))
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(format!("the test itself failed: {error}"))
    }
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Self(format!("a read failed: {error}"))
    }
}

/// The first commit of execution `number`, with `count` records.
pub fn create(number: u128, count: u32) -> Commit {
    Commit {
        execution: id(number),
        expected: 0,
        records: run_of(number, 0, count),
        head: Head {
            version: u64::from(count),
            function: "order".into(),
            function_version: "$LATEST".into(),
            name: format!("run-{number}").into(),
            status: ExecutionStatus::Running,
            started: at(1_000),
            ended: None,
            wake: None,
        },
        snapshot: None,
    }
}

/// A commit that follows `before` with `count` more records and changes nothing else.
pub fn follow(before: &Commit, count: u32) -> Commit {
    let expected = before.head.version;
    let mut head = before.head.clone();
    head.version = expected + u64::from(count);
    Commit {
        execution: before.execution,
        expected,
        records: run_of(before.execution.bits(), expected, count),
        head,
        snapshot: None,
    }
}

/// Records whose bytes tell execution and number, so that none can be taken for another.
fn run_of(number: u128, first: u64, count: u32) -> Run {
    let record = |record: u64| (id(number).bits() ^ u128::from(record)).to_be_bytes();
    Run {
        first,
        count,
        bytes: (first..first + u64::from(count)).flat_map(record).collect(),
    }
}

fn id(number: u128) -> ExecutionId {
    ExecutionId::from_bits(number)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Everything, oldest first.
fn everything() -> Query {
    Query {
        max: usize::MAX,
        ..Query::default()
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    if found == expected {
        return Ok(());
    }
    Err(Broken(format!(
        "{what}: found {found:?}, expected {expected:?}"
    )))
}

/// Runs as one, if they follow each other: how many a store has made of them is its own business.
fn joined(runs: &[Run]) -> Result<Run, Broken> {
    let mut whole = Run::default();
    for run in runs {
        if whole.count == 0 {
            whole.first = run.first;
        } else {
            let next = whole.first + u64::from(whole.count);
            same("the first record of the next run", run.first, next)?;
        }
        same("a run has records", run.count > 0, true)?;
        whole.count += run.count;
        whole.bytes.extend_from_slice(&run.bytes);
    }
    Ok(whole)
}

/// What was loaded, its records as one run.
fn load(store: &dyn Store, execution: ExecutionId) -> Result<Option<Stored>, Broken> {
    let Some(stored) = store.load(execution)? else {
        return Ok(None);
    };
    Ok(Some(Stored {
        records: vec![joined(&stored.records)?],
        ..stored
    }))
}

/// That an execution is exactly what these commits made it, by every way to read it.
fn is_made_of(store: &dyn Store, commits: &[&Commit]) -> Verdict {
    let Some(last) = commits.last() else {
        return Err(Broken("no commits to compare with".into()));
    };
    let execution = last.execution;
    let runs: Vec<Run> = commits
        .iter()
        .filter(|commit| commit.records.count > 0)
        .map(|commit| commit.records.clone())
        .collect();
    let snapshot = commits.iter().rev().find_map(|commit| {
        let bytes = commit.snapshot.clone()?;
        Some((commit.head.version, bytes))
    });
    let from = snapshot.as_ref().map_or(0, |(version, _)| *version);
    let after: Vec<Run> = runs
        .iter()
        .filter(|run| run.first >= from)
        .cloned()
        .collect();
    let stored = Stored {
        head: last.head.clone(),
        snapshot,
        records: vec![joined(&after)?],
    };
    same("load", load(store, execution)?, Some(stored))?;
    same("head", store.head(execution)?, Some(last.head.clone()))?;
    let found = store.records(execution, 0, usize::MAX)?;
    same("records", joined(&found)?, joined(&runs)?)?;
    let found = store.find(&last.head.function, &last.head.name)?;
    same("find", found, Some(execution))?;
    let listed = store.list(&everything())?;
    let entry = (execution, last.head.clone());
    same("list has it", listed.contains(&entry), true)?;
    let wakes = store.due(None, at(INTEGER_MAX), usize::MAX)?;
    let wakes: Vec<Wake> = wakes
        .into_iter()
        .filter(|wake| wake.execution == execution)
        .collect();
    let wake = last.head.wake.map(|at| Wake { at, execution });
    same("due", wakes, wake.into_iter().collect())
}

/// That nothing is known of an execution, by any way to read it.
fn is_unknown(store: &dyn Store, commit: &Commit) -> Verdict {
    let execution = commit.execution;
    same("load", store.load(execution)?, None)?;
    same("head", store.head(execution)?, None)?;
    same(
        "records",
        store.records(execution, 0, usize::MAX)?,
        Vec::new(),
    )?;
    let named = store.find(&commit.head.function, &commit.head.name)?;
    same("find does not give it", named == Some(execution), false)?;
    let listed = store.list(&everything())?;
    let listed = listed.iter().any(|(listed, _)| *listed == execution);
    same("list does not have it", listed, false)?;
    let due = store.due(None, at(INTEGER_MAX), usize::MAX)?;
    let due = due.iter().any(|wake| wake.execution == execution);
    same("due does not have it", due, false)
}

#[cfg(test)]
mod tests;
