//! Checks one execution as it is stored, from its first record on.
//!
//! An engine folds an execution from its newest snapshot, so damage before that goes unnoticed until
//! somebody asks for the history. This reads everything. It repairs nothing, and it expects that
//! nobody writes meanwhile.

use crate::{
    cell::{fold, head},
    frame,
    store::{Store, StoreError},
};
use outlast_core::{Execution, arn::ExecutionId};

/// Bytes of records read at a time.
const READ_BYTES: usize = 1_048_576;

/// A sound execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound {
    /// How many records it has.
    pub records: u64,
    /// Whether it is held until somebody lets it go on.
    pub held: bool,
}

/// Reads every record of an execution and compares it with its head and its snapshot. Nothing, if
/// there is no such execution.
///
/// # Errors
/// [`StoreError::Damaged`] when they make no sense, or do not agree.
pub fn check(store: &dyn Store, id: ExecutionId) -> Result<Option<Sound>, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        execution: id,
        reason: reason.into(),
    };
    let Some(stored) = store.load(id)? else {
        return Ok(None);
    };
    let whole = fold_all(store, id)?;
    if head(&whole, stored.head.wake) != stored.head {
        return Err(damaged("its records and its head disagree".to_owned()));
    }
    whole.check_invariants().map_err(damaged)?;
    if stored.snapshot.is_some() {
        let resumed = fold(id, &stored).map_err(damaged)?;
        if head(&resumed, stored.head.wake) != stored.head {
            return Err(damaged("its snapshot and its head disagree".to_owned()));
        }
        resumed.check_invariants().map_err(damaged)?;
    }
    Ok(Some(Sound {
        records: whole.records(),
        held: whole.hold().is_some(),
    }))
}

fn fold_all(store: &dyn Store, id: ExecutionId) -> Result<Execution, StoreError> {
    let damaged = |reason: &dyn std::fmt::Display| StoreError::Damaged {
        execution: id,
        reason: reason.to_string().into(),
    };
    let mut folded: Option<Execution> = None;
    loop {
        let from = folded.as_ref().map_or(0, Execution::records);
        let runs = store.records(id, from, READ_BYTES)?;
        for record in runs.iter().flat_map(|run| frame::records(id, run, from)) {
            let record = record?;
            match &mut folded {
                Some(execution) => execution.apply(&record).map_err(|error| damaged(&error))?,
                None => {
                    let opened = Execution::from_records([&record]);
                    folded = Some(opened.map_err(|error| damaged(&error))?);
                }
            }
        }
        match folded {
            Some(execution) if execution.records() == from => return Ok(execution),
            Some(_) => {}
            None => return Err(damaged(&"it has no records")),
        }
    }
}

#[cfg(test)]
mod tests;
