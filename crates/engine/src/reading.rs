//! Reading records again, for payloads that are no longer in memory.
//!
//! Payloads are asked for one by one, but mostly in order: what lies behind a record is read and
//! kept with it for as long as the reading goes on, so that a long history is read once and not
//! once per record.

use crate::{
    frame,
    store::{Store, StoreError},
};
use outlast_core::{Record, arn::ExecutionId};
use std::{cell::RefCell, collections::VecDeque};

/// Bytes of records read at once.
const READ_BYTES: usize = 64 * 1_024;

/// One reading of an execution's records.
pub(crate) struct Reading<'a> {
    store: &'a dyn Store,
    execution: ExecutionId,
    /// Records in a row that were read and not asked for yet.
    ahead: RefCell<VecDeque<Record>>,
    failure: RefCell<Option<StoreError>>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(store: &'a dyn Store, execution: ExecutionId) -> Self {
        Self {
            store,
            execution,
            ahead: RefCell::default(),
            failure: RefCell::default(),
        }
    }

    /// Whose records these are.
    pub(crate) fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// A record, if it can be read; if not, [`failure`](Self::failure) says why.
    pub(crate) fn record(&self, number: u64) -> Option<Record> {
        match self.read(number) {
            Ok(record) => record,
            Err(error) => {
                *self.failure.borrow_mut() = Some(error);
                None
            }
        }
    }

    /// Why a record could not be read, if so.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.failure.borrow_mut().take()
    }

    /// A record, or none if there is none.
    pub(crate) fn read(&self, number: u64) -> Result<Option<Record>, StoreError> {
        let mut ahead = self.ahead.borrow_mut();
        let known = ahead
            .front()
            .zip(ahead.back())
            .is_some_and(|(first, last)| (first.number..=last.number).contains(&number));
        if !known {
            ahead.clear();
            let runs = self.store.records(self.execution, number, READ_BYTES)?;
            for record in runs
                .iter()
                .flat_map(|run| frame::records(self.execution, run, number))
            {
                ahead.push_back(record?);
            }
        }
        while ahead.front().is_some_and(|first| first.number < number) {
            ahead.pop_front();
        }
        // Kept: a payload may be asked for twice in a row.
        Ok(ahead
            .front()
            .filter(|first| first.number == number)
            .cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Commit, Head, memory::MemoryStore};
    use outlast_core::{record::Change, time::Timestamp, wire::ExecutionStatus};

    fn journal(count: u64) -> Vec<Record> {
        (0..count)
            .map(|number| Record {
                number,
                events: 1,
                at: Timestamp::from_millis(number),
                change: Change::Resumed,
            })
            .collect()
    }

    #[test]
    fn records_are_found_in_any_order_and_again_and_beyond_the_end_there_is_none() {
        let store = MemoryStore::new();
        let id = ExecutionId::from_bits(1);
        let records = journal(100);
        for part in records.chunks(7) {
            let run = frame::run(part);
            let version = run.first + u64::from(run.count);
            let commit = Commit {
                execution: id,
                expected: run.first,
                records: run,
                head: Head {
                    version,
                    function: "f".into(),
                    function_version: "1".into(),
                    name: "n".into(),
                    status: ExecutionStatus::Running,
                    started: Timestamp::from_millis(0),
                    ended: None,
                    wake: None,
                },
                snapshot: None,
            };
            store.commit(commit).wait().unwrap();
        }
        let reading = Reading::new(&store, id);
        for number in (0..100).chain([99, 0, 50, 50, 49, 98, 6, 7]) {
            let record = reading.record(number).unwrap();
            assert_eq!(record, records[usize::try_from(number).unwrap()]);
        }
        assert_eq!(reading.record(100), None);
        assert_eq!(reading.failure(), None);
    }
}
