//! Reads: the index, with what it does not have yet laid over it.
//!
//! The index is read first, without a lock, then the overlay under its lock. In between a round may
//! move state from the second to the first, and the read would miss it: then the generation has
//! moved, and the read is done again.

use super::{
    super::{Head, Query, Run, StoreError, Stored, Wake, sqlite::reader::Reader},
    overlay::{Known, NameRef, Overlay},
    readers::Readers,
};
use outlast_core::{arn::ExecutionId, time::Timestamp};
use std::{
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) overlay: &'a Mutex<Overlay>,
    pub(super) readers: &'a Readers,
}

impl<'a> View<'a> {
    fn lock(&self) -> MutexGuard<'a, Overlay> {
        self.overlay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the index, then the overlay as of the same generation.
    fn both<T>(
        &self,
        read: impl Fn(&Reader) -> Result<T, StoreError>,
    ) -> Result<(T, MutexGuard<'a, Overlay>), StoreError> {
        loop {
            let generation = self.lock().generation();
            let found = self.readers.with(&read)?;
            let overlay = self.lock();
            if overlay.generation() == generation {
                return Ok((found, overlay));
            }
        }
    }

    fn check(overlay: &Overlay, execution: ExecutionId) -> Result<(), StoreError> {
        match overlay.damaged(execution) {
            Some(reason) => Err(StoreError::Damaged {
                execution,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn head(&self, execution: ExecutionId) -> Result<Option<Head>, StoreError> {
        {
            let overlay = self.lock();
            Self::check(&overlay, execution)?;
            match overlay.known(execution) {
                Known::Head(head) => return Ok(Some(head.clone())),
                Known::Deleted => return Ok(None),
                Known::Nothing => {}
            }
        }
        let (indexed, overlay) = self.both(|reader| reader.head(execution))?;
        Ok(match overlay.known(execution) {
            Known::Head(head) => Some(head.clone()),
            Known::Deleted => None,
            Known::Nothing => indexed,
        })
    }

    pub(super) fn load(&self, execution: ExecutionId) -> Result<Option<Stored>, StoreError> {
        {
            let overlay = self.lock();
            Self::check(&overlay, execution)?;
            if let Some(stored) = overlaid(&overlay, execution) {
                return Ok(stored);
            }
        }
        let (indexed, overlay) = self.both(|reader| reader.load(execution))?;
        if let Some(stored) = overlaid(&overlay, execution) {
            return Ok(stored);
        }
        let Some(entry) = overlay.shadow(execution) else {
            return Ok(indexed);
        };
        let (Some(head), Some(indexed)) = (entry.newest_head(), indexed) else {
            return Err(StoreError::Damaged {
                execution,
                reason: "the index has lost it".into(),
            });
        };
        let mut records = indexed.records;
        records.retain(|run| run.first < entry.base());
        records.extend(entry.runs().iter().map(|run| Run::clone(run)));
        Ok(Some(Stored {
            head: head.clone(),
            snapshot: indexed.snapshot,
            records,
        }))
    }

    pub(super) fn records(
        &self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let (indexed, overlay) = self.both(|reader| reader.records(execution, from, bytes_max))?;
        Self::check(&overlay, execution)?;
        let Some(entry) = overlay.shadow(execution) else {
            return Ok(indexed);
        };
        let mut page = indexed;
        page.retain(|run| run.first < entry.base());
        let mut next = page.last().map_or(from, end);
        let mut bytes: usize = page.iter().map(|run| run.bytes.len()).sum();
        if next < entry.base() && from < entry.base() {
            return Ok(page);
        }
        next = next.max(entry.base().max(from));
        for run in entry.runs() {
            if end(run) <= next {
                continue;
            }
            bytes += run.bytes.len();
            if !page.is_empty() && bytes > bytes_max {
                break;
            }
            page.push(Run::clone(run));
        }
        Ok(page)
    }

    pub(super) fn find(
        &self,
        function: &str,
        name: &str,
    ) -> Result<Option<ExecutionId>, StoreError> {
        let key = NameRef { function, name };
        if let Some(execution) = self.lock().claimed(key) {
            return Ok(Some(execution));
        }
        let (indexed, overlay) = self.both(|reader| reader.find(function, name))?;
        Ok(overlay.owner(key, indexed))
    }

    pub(super) fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (indexed, overlay) = self.both(|reader| reader.setting(key))?;
        Ok((overlay.setting(key)).map_or(indexed, |value| Some(value.to_vec())))
    }

    pub(super) fn due(
        &self,
        after: Option<Wake>,
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<Wake>, StoreError> {
        let mut due = Vec::new();
        let mut after = after;
        while due.len() < max {
            let wanted = max - due.len();
            let (page, overlay) = self.both(|reader| reader.due(after, until, wanted))?;
            let last = page.last().copied().filter(|_| page.len() == wanted);
            // Beyond the last of a full page the index has more to say first.
            let upper = last.map_or(Bound::Unbounded, Bound::Included);
            let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
            let intact = |wake: &Wake| overlay.damaged(wake.execution).is_none();
            let overlaid = (overlay.wakes().range((lower, upper)))
                .take_while(|wake| wake.at <= until)
                .filter(|wake| intact(wake))
                .take(wanted);
            let mut merged: Vec<Wake> = (page.iter())
                .filter(|wake| overlay.shadow(wake.execution).is_none() && intact(wake))
                .chain(overlaid)
                .copied()
                .collect();
            merged.sort_unstable();
            merged.truncate(wanted);
            due.append(&mut merged);
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok(due)
    }

    pub(super) fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        if let (Some(function), Some(name)) = (&query.function, &query.name) {
            return self.list_named(query, function, name);
        }
        let mut query = query.clone();
        let mut listed = Vec::new();
        while query.max > 0 {
            let (page, overlay) = self.both(|reader| reader.list(&query))?;
            let full = page.len() == query.max;
            let last = (page.last())
                .map(|(execution, head)| (head.started, *execution))
                .filter(|_| full);
            let mut merged: Vec<(ExecutionId, Head)> = (page.into_iter())
                .filter(|(execution, _)| overlay.shadow(*execution).is_none())
                .collect();
            overlaid_list(&overlay, &query, last, &mut merged);
            drop(overlay);
            merged.sort_by_key(|(execution, head)| (head.started, *execution));
            if query.newest_first {
                merged.reverse();
            }
            merged.truncate(query.max);
            query.max -= merged.len();
            listed.append(&mut merged);
            match last {
                Some(last) => query.after = Some(last),
                None => break,
            }
        }
        Ok(listed)
    }

    fn list_named(
        &self,
        query: &Query,
        function: &str,
        name: &str,
    ) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        let Some(execution) = self.find(function, name)?.filter(|_| query.max > 0) else {
            return Ok(Vec::new());
        };
        Ok((self.head(execution)?.into_iter())
            .filter(|head| query.matches(head) && query.follows(head.started, execution))
            .map(|head| (execution, head))
            .collect())
    }
}

/// The number after a run's last record.
fn end(run: &Run) -> u64 {
    run.first + u64::from(run.count)
}

/// An execution that can be folded from the overlay alone; `None` if the index is needed.
fn overlaid(overlay: &Overlay, execution: ExecutionId) -> Option<Option<Stored>> {
    let entry = overlay.shadow(execution)?;
    let Some(head) = entry.newest_head() else {
        return Some(None);
    };
    let snapshot = entry.snapshot();
    let from = snapshot.map_or(0, |(version, _)| *version);
    if from < entry.base() {
        return None;
    }
    Some(Some(Stored {
        head: head.clone(),
        snapshot: snapshot.map(|(version, bytes)| (*version, bytes.to_vec())),
        records: (entry.runs().iter())
            .filter(|run| run.first >= from)
            .map(|run| Run::clone(run))
            .collect(),
    }))
}

/// Adds what the overlay has of a page that ends at `last`, or does not end.
fn overlaid_list(
    overlay: &Overlay,
    query: &Query,
    last: Option<(Timestamp, ExecutionId)>,
    to: &mut Vec<(ExecutionId, Head)>,
) {
    let within = |key: &(Timestamp, ExecutionId)| {
        last.is_none_or(|last| {
            if query.newest_first {
                *key >= last
            } else {
                *key <= last
            }
        })
    };
    let mut add = |keys: &mut dyn Iterator<Item = &(Timestamp, ExecutionId)>| {
        to.extend(
            keys.filter(|key| query.follows(key.0, key.1) && within(key))
                .filter_map(|(_, execution)| {
                    let head = overlay.shadow(*execution)?.newest_head()?;
                    query.matches(head).then(|| (*execution, head.clone()))
                })
                .take(query.max),
        );
    };
    if query.newest_first {
        add(&mut overlay.started().iter().rev());
    } else {
        add(&mut overlay.started().iter());
    }
}
