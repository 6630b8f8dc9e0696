//! Records as they are stored: framed, checksummed, several in a run.
//!
//! A frame is the record's length and CRC32C (four bytes each, little-endian) and its bytes. The
//! checksum is the engine's, whatever a store adds: damage on its way through any store is noticed
//! before a record is folded.

use crate::store::{Run, StoreError};
use outlast_core::{Record, arn::ExecutionId};

const HEADER_BYTES: usize = 8;

/// Frames records as one run.
pub(crate) fn run(records: &[Record]) -> Run {
    let mut bytes = Vec::with_capacity(records.len() * 96);
    for record in records {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEADER_BYTES]);
        record.encode(&mut bytes);
        let body = bytes.get(start + HEADER_BYTES..).unwrap_or_default();
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
        let checksum = crc32c::crc32c(body).to_le_bytes();
        if let Some(header) = bytes.get_mut(start..start + HEADER_BYTES) {
            let (first, second) = header.split_at_mut(4);
            first.copy_from_slice(&length);
            second.copy_from_slice(&checksum);
        }
    }
    Run {
        first: records.first().map_or(0, |record| record.number),
        count: u32::try_from(records.len()).unwrap_or(u32::MAX),
        bytes,
    }
}

/// Reads the records of a run, from number `from` on.
pub(crate) fn records(
    execution: ExecutionId,
    run: &Run,
    from: u64,
) -> impl Iterator<Item = Result<Record, StoreError>> {
    let mut rest: &[u8] = &run.bytes;
    let mut number = run.first;
    let end = run.first + u64::from(run.count);
    std::iter::from_fn(move || {
        while number < end {
            let frame = match split(rest) {
                Ok((frame, behind)) => {
                    rest = behind;
                    frame
                }
                Err(reason) => {
                    let reason = format!("record {number}: {reason}").into();
                    number = end;
                    return Some(Err(StoreError::Damaged { execution, reason }));
                }
            };
            number += 1;
            if number > from {
                return Some(read(execution, number - 1, frame));
            }
        }
        None
    })
}

fn read(execution: ExecutionId, number: u64, frame: Frame<'_>) -> Result<Record, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        execution,
        reason: format!("record {number}: {reason}").into(),
    };
    if crc32c::crc32c(frame.body) != frame.checksum {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    let record = Record::decode(frame.body).map_err(|corrupt| damaged(corrupt.to_string()))?;
    if record.number != number {
        return Err(damaged(format!(
            "record {} lies in its place",
            record.number
        )));
    }
    Ok(record)
}

struct Frame<'a> {
    checksum: u32,
    body: &'a [u8],
}

fn split(bytes: &[u8]) -> Result<(Frame<'_>, &[u8]), &'static str> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it is cut off")?;
    let (checksum, rest) = rest.split_first_chunk::<4>().ok_or("it is cut off")?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| "it is too long")?;
    let (body, rest) = rest.split_at_checked(length).ok_or("it is cut off")?;
    let checksum = u32::from_le_bytes(*checksum);
    Ok((Frame { checksum, body }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{
        record::{Change, OperationChange, Subject},
        time::Timestamp,
    };

    const ID: u128 = 7;

    fn journal(count: u64) -> Vec<Record> {
        (10..10 + count)
            .map(|number| Record {
                number,
                events: 3,
                at: Timestamp::from_millis(number),
                change: Change::Operation {
                    subject: Subject::Known(1),
                    change: OperationChange::Ready,
                },
            })
            .collect()
    }

    fn read_all(run: &Run, from: u64) -> Vec<Result<Record, StoreError>> {
        records(ExecutionId::from_bits(ID), run, from).collect()
    }

    #[test]
    fn a_run_gives_back_its_records_from_any_number_on() {
        let journal = journal(5);
        let run = run(&journal);
        assert_eq!((run.first, run.count), (10, 5));
        for (from, expected) in [(0, 10), (10, 10), (11, 11), (14, 14), (15, 15)] {
            let numbers: Vec<u64> = read_all(&run, from)
                .into_iter()
                .map(|record| record.unwrap().number)
                .collect();
            assert_eq!(numbers, (expected..15).collect::<Vec<_>>(), "from {from}");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let whole = run(&journal(2));
        for at in 0..whole.bytes.len() {
            let mut cut = whole.clone();
            cut.bytes.truncate(at);
            assert!(read_all(&cut, 0).iter().any(Result::is_err), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped.bytes[at] ^= 1 << bit;
                let read = read_all(&flipped, 0);
                assert!(read.iter().any(Result::is_err), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_record_in_anothers_place_is_noticed() {
        let mut swapped = run(&journal(2));
        swapped.first = 11;
        let error = read_all(&swapped, 0).remove(0).unwrap_err().to_string();
        assert!(error.contains("record 10 lies in its place"), "{error}");
    }
}
