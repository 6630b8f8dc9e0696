//! What the frames of the journal carry: one change each.
//!
//! Little-endian, lengths before what they measure, the records last and raw. Checksums and
//! versions are the journal's: what arrives here is what was written.

use super::super::{Change, Commit, Head, Run};
use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use std::sync::Arc;

const COMMIT: u8 = 1;
const DELETE: u8 = 2;
const SETTING: u8 = 3;

const HAS_ENDED: u8 = 1;
const HAS_WAKE: u8 = 2;
const HAS_SNAPSHOT: u8 = 4;

/// The kind of frame for a change.
pub(super) fn kind(change: &Change) -> u8 {
    match change {
        Change::Commit(_) => COMMIT,
        Change::Delete { .. } => DELETE,
        Change::Setting { .. } => SETTING,
    }
}

/// The execution that a change is for.
pub(super) fn execution(change: &Change) -> Option<ExecutionId> {
    match change {
        Change::Commit(commit) => Some(commit.execution),
        Change::Delete { execution, .. } => Some(*execution),
        Change::Setting { .. } => None,
    }
}

/// Appends a change to `to`.
pub(super) fn encode(change: &Change, to: &mut Vec<u8>) {
    match change {
        Change::Commit(commit) => encode_commit(commit, to),
        Change::Delete { expected, .. } => to.extend(expected.to_le_bytes()),
        Change::Setting { key, value } => {
            put(key.as_bytes(), to);
            to.extend_from_slice(value);
        }
    }
}

fn encode_commit(commit: &Commit, to: &mut Vec<u8>) {
    let head = &commit.head;
    let mut flags = 0;
    for (present, flag) in [
        (head.ended.is_some(), HAS_ENDED),
        (head.wake.is_some(), HAS_WAKE),
        (commit.snapshot.is_some(), HAS_SNAPSHOT),
    ] {
        flags |= if present { flag } else { 0 };
    }
    to.extend(commit.expected.to_le_bytes());
    to.extend(commit.records.count.to_le_bytes());
    to.extend([flags, status_number(head.status)]);
    to.extend(head.started.as_millis().to_le_bytes());
    for time in [head.ended, head.wake].into_iter().flatten() {
        to.extend(time.as_millis().to_le_bytes());
    }
    put(head.function.as_bytes(), to);
    put(head.function_version.as_bytes(), to);
    put(head.name.as_bytes(), to);
    if let Some(snapshot) = &commit.snapshot {
        put(snapshot, to);
    }
    to.extend_from_slice(&commit.records.bytes);
}

fn put(bytes: &[u8], to: &mut Vec<u8>) {
    // A frame has a length of 32 bits, so no part of it has a longer one.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend(length.to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Reads a change back; `None` if the bytes are not one.
pub(super) fn decode(kind: u8, execution: u128, payload: &[u8]) -> Option<Change> {
    let execution = ExecutionId::from_bits(execution);
    let mut from = Source(payload);
    match kind {
        COMMIT => decode_commit(execution, &mut from).map(Change::Commit),
        DELETE => Some(Change::Delete {
            execution,
            expected: from.long()?,
        }),
        SETTING => Some(Change::Setting {
            key: from.text()?,
            value: from.0.to_vec(),
        }),
        _ => None,
    }
}

fn decode_commit(execution: ExecutionId, from: &mut Source<'_>) -> Option<Commit> {
    let expected = from.long()?;
    let count = u32::from_le_bytes(from.take()?);
    let [flags, status] = from.take()?;
    let started = Timestamp::from_millis(from.long()?);
    let mut optional = |flag| match flags & flag {
        0 => Some(None),
        _ => from.long().map(|ms| Some(Timestamp::from_millis(ms))),
    };
    let (ended, wake) = (optional(HAS_ENDED)?, optional(HAS_WAKE)?);
    let head = Head {
        version: expected.checked_add(u64::from(count))?,
        function: from.text()?,
        function_version: from.text()?,
        name: from.text()?,
        status: status_of(status)?,
        started,
        ended,
        wake,
    };
    let snapshot = match flags & HAS_SNAPSHOT {
        0 => None,
        _ => Some(from.bytes()?.to_vec()),
    };
    Some(Commit {
        execution,
        expected,
        records: Run {
            first: expected,
            count,
            bytes: from.0.to_vec(),
        },
        head,
        snapshot,
    })
}

/// Bytes that are read from the front.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_le_bytes(self.take()?)).ok()?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        std::str::from_utf8(self.bytes()?).ok().map(Arc::from)
    }
}

fn status_number(status: ExecutionStatus) -> u8 {
    match status {
        ExecutionStatus::Running => 0,
        ExecutionStatus::Succeeded => 1,
        ExecutionStatus::Failed => 2,
        ExecutionStatus::TimedOut => 3,
        ExecutionStatus::Stopped => 4,
    }
}

fn status_of(number: u8) -> Option<ExecutionStatus> {
    Some(match number {
        0 => ExecutionStatus::Running,
        1 => ExecutionStatus::Succeeded,
        2 => ExecutionStatus::Failed,
        3 => ExecutionStatus::TimedOut,
        4 => ExecutionStatus::Stopped,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: &Change) {
        let mut bytes = Vec::new();
        encode(change, &mut bytes);
        let id = execution(change).map_or(0, ExecutionId::bits);
        assert_eq!(decode(kind(change), id, &bytes).as_ref(), Some(change));
        for end in 0..bytes.len() {
            let cut = decode(kind(change), id, &bytes[..end]);
            assert_ne!(cut.as_ref(), Some(change), "cut at {end}");
        }
    }

    #[test]
    fn every_change_is_read_back_as_it_was_written() {
        let execution = ExecutionId::from_bits(77);
        for (bits, status) in (0..8).zip((0..5).cycle()) {
            check(&Change::Commit(Commit {
                execution,
                expected: 3,
                records: Run {
                    first: 3,
                    count: 2,
                    bytes: b"records".to_vec(),
                },
                head: Head {
                    version: 5,
                    function: "function".into(),
                    function_version: "$LATEST".into(),
                    name: "näme".into(),
                    status: status_of(status).unwrap(),
                    started: Timestamp::from_millis(1),
                    ended: (bits & 1 > 0).then_some(Timestamp::from_millis(2)),
                    wake: (bits & 2 > 0).then_some(Timestamp::from_millis(u64::MAX)),
                },
                snapshot: (bits & 4 > 0).then(|| b"snapshot".to_vec()),
            }));
        }
        check(&Change::Delete {
            execution,
            expected: 9,
        });
        check(&Change::Setting {
            key: "key".into(),
            value: b"value".to_vec(),
        });
    }

    #[test]
    fn an_unknown_kind_or_status_is_no_change() {
        assert_eq!(decode(0, 0, &[]), None);
        assert_eq!(decode(4, 0, &[]), None);
        assert_eq!(status_of(5), None);
    }
}
