//! Brings the overlay into the index, and lets go of the segments that are then not needed.
//!
//! A round is one transaction of everything that has changed, with the journal's position in it.
//! The index need not be durable by itself: what it loses in a power cut it gets back from the
//! journal, because the position is lost with it. Only before a segment is removed must the index
//! be durable up to there, so that is when it is synced.

use super::super::{CommitError, sqlite::tables::Tables};
use super::{codec, overlay::Overlay};
use crate::journal::{Journal, Keeper};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one round came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Indexed {
    /// There was nothing to do.
    Nothing,
    /// The index reaches to this position.
    UpTo(u64),
    /// There is no room; try again later.
    Full(Arc<str>),
    /// The index cannot be written any more.
    Failed(Arc<str>),
}

/// Takes everything that has changed to the index.
pub(super) fn index(overlay: &Mutex<Overlay>, tables: &mut Tables) -> Indexed {
    let round = {
        let mut overlay = lock(overlay);
        if !overlay.is_dirty() {
            return Indexed::Nothing;
        }
        overlay.begin_round()
    };
    let changes = round.changes();
    let outcomes = tables.apply_at(&changes, round.position);
    let refused =
        |error: &CommitError| matches!(error, CommitError::Full(_) | CommitError::Poisoned(_));
    let failed =
        (outcomes.iter()).find_map(|outcome| outcome.as_ref().err().filter(|e| refused(e)));
    match failed {
        None => {}
        Some(CommitError::Full(reason)) => {
            lock(overlay).abandon_round(&round);
            return Indexed::Full(reason.clone());
        }
        Some(error) => {
            lock(overlay).abandon_round(&round);
            return Indexed::Failed(error.to_string().into());
        }
    }
    let mut overlay = lock(overlay);
    overlay.finish_round(&round);
    for (change, outcome) in changes.iter().zip(&outcomes) {
        // The journal is the truth: an index that disagrees with it is damaged in this place.
        if let (Err(error), Some(execution)) = (outcome, codec::execution(change)) {
            tracing::error!(%execution, %error, "the index does not fit the journal");
            overlay.set_damaged(execution, format!("the index does not fit: {error}").into());
        }
    }
    Indexed::UpTo(round.position)
}

/// Removes the segments that the index covers, after making sure that it does so durably.
pub(super) fn release(
    journal: &Mutex<Journal>,
    keeper: &Keeper,
    tables: &mut Tables,
    position: u64,
) -> Result<(), CommitError> {
    if lock(journal).has_released(position) {
        tables.sync()?;
        let released = lock(journal).release(position);
        keeper.remove(&released);
    }
    Ok(())
}
