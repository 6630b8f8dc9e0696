//! Reading a segment back: which frames count, where the log ends, and what is damage.
//!
//! A crash may leave the last batch torn: any of its sectors may be there or not, so a bad frame
//! with good ones behind it proves nothing by itself. But a batch is written only when all before
//! it is durable, and each frame names the first of its batch. So a frame whose batch began *after*
//! the bad frame proves that the bad one was durable once: that is damage. Without such a proof the
//! log ends at the bad frame, and nobody was told otherwise. (Damage to the very last batch looks
//! like a torn one. Nothing on the disk can tell the two apart.)
//!
//! Knows bytes only: files are the business of the journal, payloads of whoever owns it.

use super::frame::{self, ALIGNMENT, Found, SECTOR_BYTES};
use std::ops::Range;

/// One frame read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) sequence: u64,
    pub(crate) kind: u8,
    pub(crate) execution: u128,
    /// Absent if it is damaged.
    pub(crate) payload: Option<&'a [u8]>,
}

/// Frames that were durable and are not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u64,
    /// Where in it the damage begins.
    pub offset: u64,
    /// Sequences of the frames that are lost.
    pub lost: Range<u64>,
    /// Whose frame it was, when its header can still be read.
    pub execution: Option<u128>,
}

/// The place in the log up to which everything has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Sequence of the next frame.
    pub(crate) sequence: u64,
    /// Header checksum of the last.
    pub(crate) previous: u32,
}

/// A segment to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) number: u64,
    pub(crate) bytes: &'a [u8],
    /// Sequence at which the next segment begins; absent for the last.
    pub(crate) end: Option<u64>,
}

impl<'a> Segment<'a> {
    /// Hands every frame from the cursor on to `visit`, in order, damaged ones without payload.
    /// Answers where the last batch is; damage is added to `damage`.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor,
        damage: &mut Vec<Damage>,
        mut visit: impl FnMut(Frame<'a>),
    ) -> Range<usize> {
        let (mut at, mut batch, mut batch_at) = (SECTOR_BYTES, None, SECTOR_BYTES);
        while self.end.is_none_or(|end| cursor.sequence < end) {
            let found = match self.next(at, cursor) {
                Some(found) => found,
                None => match self.resume(at, cursor, damage) {
                    Some(found) => found,
                    None => break,
                },
            };
            visit(Frame {
                sequence: found.header.sequence,
                kind: found.header.kind,
                execution: found.header.execution,
                payload: found.payload,
            });
            cursor.sequence = found.header.sequence + 1;
            cursor.previous = found.checksum;
            at = found.end;
            if batch.replace(found.header.batch) != Some(found.header.batch) {
                batch_at = found.start;
            }
        }
        batch_at..at
    }

    /// The frame that follows: right here, or at the next sector if its batch begins there.
    fn next(&self, at: usize, cursor: &Cursor) -> Option<Found<'a>> {
        [at, at.next_multiple_of(SECTOR_BYTES)]
            .into_iter()
            .filter_map(|at| frame::find(self.bytes, at, self.number))
            .find(|found| {
                found.header.sequence == cursor.sequence
                    && found.header.previous == cursor.previous
                    && found.payload.is_some()
            })
    }

    /// The first header behind a bad frame, if that frame was durable once.
    fn resume(
        &self,
        at: usize,
        cursor: &mut Cursor,
        damage: &mut Vec<Damage>,
    ) -> Option<Found<'a>> {
        if self.end.is_none() && !self.proves_durable(at, cursor.sequence) {
            return None;
        }
        let end = self.end.unwrap_or(u64::MAX);
        let found = (self.headers(at))
            .find(|found| (cursor.sequence..end).contains(&found.header.sequence));
        let mut report = |lost: Range<u64>, execution| {
            if !lost.is_empty() {
                damage.push(Damage {
                    segment: self.number,
                    offset: at as u64,
                    lost,
                    execution,
                });
            }
        };
        let Some(found) = found else {
            report(cursor.sequence..end, None);
            cursor.sequence = end;
            return None;
        };
        let sequence = found.header.sequence;
        report(cursor.sequence..sequence, None);
        if found.payload.is_none() {
            report(sequence..sequence + 1, Some(found.header.execution));
        }
        Some(found)
    }

    /// Whether a frame behind `at` was written when `sequence` was durable already.
    pub(crate) fn proves_durable(&self, at: usize, sequence: u64) -> bool {
        (self.headers(at)).any(|found| found.header.batch > sequence)
    }

    fn headers(&self, at: usize) -> impl Iterator<Item = Found<'a>> {
        let start = at.next_multiple_of(ALIGNMENT);
        (start..self.bytes.len())
            .step_by(ALIGNMENT)
            .filter_map(|at| frame::find(self.bytes, at, self.number))
    }
}
