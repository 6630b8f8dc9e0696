//! Which executions are in memory: those somebody works on, and the ones that rested last.

use crate::cell::{Cell, Loaded};
use hashbrown::HashMap;
use outlast_core::arn::ExecutionId;
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

/// The executions in memory.
pub(crate) struct Cells {
    state: Mutex<State>,
    /// How many may rest in memory.
    resting_max: usize,
}

#[derive(Default)]
struct State {
    cells: HashMap<ExecutionId, Arc<Cell>>,
    /// Those that rested, the longest ago first, and when: an entry that is not a cell's latest
    /// counts for nothing.
    resting: VecDeque<(ExecutionId, u64)>,
    rests: u64,
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cells")
    }
}

impl Cells {
    pub(crate) fn new(resting_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            resting_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cell of an execution, empty if it is not in memory.
    pub(crate) fn get(&self, id: ExecutionId) -> Arc<Cell> {
        let mut state = self.lock();
        let cell = state.cells.entry(id);
        cell.or_insert_with(|| Arc::new(Cell::new(id, None)))
            .clone()
    }

    /// Takes over an execution that was just created. It rests until somebody calls it: those that
    /// are started faster than they are called do not stay in memory.
    pub(crate) fn put(&self, id: ExecutionId, loaded: Loaded) {
        let cell = {
            let mut state = self.lock();
            let cell = state.cells.entry(id);
            cell.or_insert_with(|| Arc::new(Cell::new(id, Some(loaded))))
                .clone()
        };
        self.rests(&cell);
    }

    /// Nobody works on this one any more; the one that rested longest may have to go.
    pub(crate) fn rests(&self, cell: &Arc<Cell>) {
        let mut state = self.lock();
        state.rests += 1;
        let rests = state.rests;
        cell.rested.store(rests, Ordering::Relaxed);
        state.resting.push_back((cell.id, rests));
        while state.resting.len() > self.resting_max {
            let Some((id, rested)) = state.resting.pop_front() else {
                break;
            };
            // Whoever wants something of it gets it through this map, and holds on to it.
            let unused = state.cells.get(&id).is_some_and(|known| {
                let spare = if Arc::ptr_eq(known, cell) { 2 } else { 1 };
                known.rested.load(Ordering::Relaxed) == rested
                    && Arc::strong_count(known) <= spare
                    && known.is_idle()
            });
            if unused {
                state.cells.remove(&id);
            }
        }
    }

    /// An execution is gone.
    pub(crate) fn forget(&self, id: ExecutionId) {
        self.lock().cells.remove(&id);
    }

    /// How many are in memory.
    pub(crate) fn len(&self) -> usize {
        self.lock().cells.len()
    }
}
