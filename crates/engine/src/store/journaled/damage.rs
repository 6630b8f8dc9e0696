//! Executions that lost something: found when the journal is read back, remembered in the index.
//!
//! The journal that proves the damage goes away when it has been indexed, so the list of damaged
//! executions is kept as a setting, next to everything else.

use super::super::sqlite::reader::Reader;
use super::{
    super::{Change, CommitError, Head, StoreError},
    codec,
    overlay::{Known, NameRef, Overlay},
};
use crate::journal::Frame;
use outlast_core::arn::ExecutionId;
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

/// The setting that lists damaged executions, one to a line: bits in hexadecimal, then the reason.
pub(super) const SETTING: &str = "outlast.damaged";

/// Reads the list.
pub(super) fn decode(value: &[u8]) -> Vec<(ExecutionId, Arc<str>)> {
    (String::from_utf8_lossy(value).lines())
        .filter_map(|line| {
            let (bits, reason) = line.split_once(' ')?;
            let bits = u128::from_str_radix(bits, 16).ok()?;
            Some((ExecutionId::from_bits(bits), reason.into()))
        })
        .collect()
}

/// Writes the list.
pub(super) fn encode(damaged: &BTreeMap<ExecutionId, Arc<str>>) -> Vec<u8> {
    let mut text = String::new();
    for (execution, reason) in damaged {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:032x} {}",
            execution.bits(),
            reason.replace('\n', " ")
        );
    }
    text.into_bytes()
}

/// Takes a frame of the journal over into the overlay. What does not fit damages its execution and
/// nothing else.
pub(super) fn replay(
    frame: Frame<'_>,
    overlay: &mut Overlay,
    index: &Reader,
) -> Result<(), StoreError> {
    let execution = ExecutionId::from_bits(frame.execution);
    if frame.payload.is_none() && frame.execution == 0 {
        // A setting that is lost; the damage has been reported with its place.
        return Ok(());
    }
    let Some(payload) = frame.payload else {
        overlay.set_damaged(execution, "a frame of the journal cannot be read".into());
        return Ok(());
    };
    let Some(change) = codec::decode(frame.kind, frame.execution, payload) else {
        overlay.set_damaged(execution, "a frame of the journal makes no sense".into());
        return Ok(());
    };
    match fits(&change, overlay, index)? {
        Ok(()) => overlay.apply(change, frame.sequence),
        // Behind a lost frame the rest of the execution does not fit either; a delete ends it all.
        Err(_) if overlay.damaged(execution).is_some() => match change {
            Change::Delete { execution, .. } => {
                if let Some(head) = current(execution, overlay, index)? {
                    let expected = head.version;
                    overlay.apply(
                        Change::Delete {
                            execution,
                            expected,
                        },
                        frame.sequence,
                    );
                }
            }
            Change::Commit(_) | Change::Setting { .. } => {}
        },
        Err(error) => {
            overlay.set_damaged(execution, format!("the journal has a gap: {error}").into())
        }
    }
    Ok(())
}

fn fits(
    change: &Change,
    overlay: &Overlay,
    index: &Reader,
) -> Result<Result<(), CommitError>, StoreError> {
    let (execution, expected) = match change {
        Change::Commit(commit) => (commit.execution, commit.expected),
        Change::Delete {
            execution,
            expected,
        } => (*execution, *expected),
        Change::Setting { .. } => return Ok(Ok(())),
    };
    if let (Change::Commit(_), Some(reason)) = (change, overlay.damaged(execution)) {
        return Ok(Err(CommitError::Damaged(reason.clone())));
    }
    let found = current(execution, overlay, index)?.map(|head| head.version);
    if found != (expected > 0).then_some(expected) {
        return Ok(Err(CommitError::Conflict { expected, found }));
    }
    // The one that had the name may have been deleted by a frame that is lost.
    if let (Change::Commit(commit), 0) = (change, expected) {
        let (function, name) = (&commit.head.function, &commit.head.name);
        let owner = overlay.owner(NameRef { function, name }, index.find(function, name)?);
        return Ok(owner.map_or(Ok(()), |owner| Err(CommitError::NameTaken(owner))));
    }
    Ok(Ok(()))
}

fn current(
    execution: ExecutionId,
    overlay: &Overlay,
    index: &Reader,
) -> Result<Option<Head>, StoreError> {
    match overlay.known(execution) {
        Known::Head(head) => Ok(Some(head.clone())),
        Known::Deleted => Ok(None),
        Known::Nothing => index.head(execution),
    }
}
