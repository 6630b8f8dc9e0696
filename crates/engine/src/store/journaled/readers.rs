//! A few read connections of the index, shared by everybody who reads.
//!
//! A connection serves one thread at a time; whoever comes when all are taken waits for one read.

use super::super::{StoreError, sqlite::reader::Reader};
use std::sync::{
    Mutex, MutexGuard, PoisonError, TryLockError,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(super) struct Readers {
    all: Vec<Mutex<Reader>>,
    turn: AtomicUsize,
}

impl Readers {
    pub(super) fn new(readers: Vec<Reader>) -> Self {
        Self {
            all: readers.into_iter().map(Mutex::new).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Reads with one of the connections.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let reader = self.free().or_else(|| self.next());
        let reader =
            reader.ok_or_else(|| StoreError::Unreadable("there is no read connection".into()))?;
        read(&reader)
    }

    fn free(&self) -> Option<MutexGuard<'_, Reader>> {
        self.all.iter().find_map(|reader| match reader.try_lock() {
            Ok(reader) => Some(reader),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    fn next(&self) -> Option<MutexGuard<'_, Reader>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let reader = self.all.get(turn.checked_rem(self.all.len())?)?;
        Some(reader.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
