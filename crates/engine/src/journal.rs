//! The journal: an append-only log in segments, the commit point of the log-first store.
//!
//! A batch of frames is one write and one sync, and is durable as a whole or, frame by frame from
//! its front, in part: nobody is told of any of it before the sync. Frames are opaque here.
//!
//! # What a failure means
//!
//! A failed sync, or a write that failed for any reason but a full disk, leaves it open what is
//! durable. The journal is then poisoned: it never writes again, and never syncs again either,
//! because a second sync may succeed after the kernel has dropped the bytes. A full disk is
//! different: the bytes of the refused batch are overwritten with zeros and synced before the
//! refusal is answered, so that no crash can bring back what was refused.

mod frame;
mod recover;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

pub use recover::{OpenError, Recovered};
pub use scan::Damage;
pub use segment::FORMAT;

pub(crate) use recover::open;
pub(crate) use scan::Frame;

use crate::disk::{Disk, DiskFile};
use frame::{ALIGNMENT, HEADER_BYTES, Header, SECTOR_BYTES};
use scan::Cursor;
use segment::{Head, Spares};
use std::{collections::VecDeque, io, ops::Range, sync::Arc};

/// Why a batch was not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendError {
    /// There is no room; nothing has changed.
    #[error("no room for the journal: {0}")]
    Full(Arc<str>),
    /// What is durable is unknown, now and for ever.
    #[error("{0}")]
    Poisoned(Arc<str>),
}

/// An open journal. One thread appends.
#[derive(Debug)]
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    spares: Arc<Spares>,
    segment_bytes: u64,
    current: Option<Current>,
    /// Segments that are complete, oldest first.
    sealed: VecDeque<Sealed>,
    number: u64,
    cursor: Cursor,
    batch: Batch,
    poisoned: Option<Arc<str>>,
    written: u64,
    syncs: u64,
}

/// The segment that is written to.
#[derive(Debug)]
struct Current {
    file: Box<dyn DiskFile>,
    bytes: u64,
    /// Where the next batch goes: the start of a sector.
    offset: u64,
    /// Whether frames of it are damaged.
    damaged: bool,
}

/// A segment that will not be written to again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    number: u64,
    /// Sequence of the first frame after it.
    end: u64,
    bytes: u64,
    damaged: bool,
}

/// Frames that are not written yet.
#[derive(Debug, Default)]
struct Batch {
    /// A sector for the header of a new segment, then the frames.
    bytes: Vec<u8>,
    frames: Vec<Staged>,
}

#[derive(Debug)]
struct Staged {
    place: Range<usize>,
    execution: u128,
    kind: u8,
}

/// Makes segments ready and removes them, on threads that have the time.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    spares: Arc<Spares>,
    segment_bytes: u64,
}

impl Keeper {
    /// Makes segment `number` ready. A failure is not told: whoever needs the segment tries again
    /// and then sees it.
    pub(crate) fn prepare(&self, number: u64) {
        if let Err(error) = (self.spares).prepare(self.disk.as_ref(), number, self.segment_bytes) {
            tracing::warn!(%error, number, "the next segment of the journal could not be prepared");
        }
    }

    /// Removes the files of segments that were given up; a damaged one is kept under another name.
    /// A failure only costs room: the next open tries again, as it does after a crash here.
    pub(crate) fn remove(&self, released: &[Sealed]) {
        for sealed in released {
            let name = segment::name(sealed.number);
            let outcome = if sealed.damaged {
                (self.disk).rename(&name, &segment::damaged_name(sealed.number))
            } else {
                self.disk.delete(&name)
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, name, "a segment that is not needed could not be removed");
            }
        }
    }
}

impl Journal {
    /// Whoever shall look after the files.
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper {
            disk: self.disk.clone(),
            spares: self.spares.clone(),
            segment_bytes: self.segment_bytes,
        }
    }

    /// The number of the segment that will be needed next.
    pub(crate) fn next_segment(&self) -> u64 {
        self.number + 1
    }

    /// Sequence of the next frame.
    pub(crate) fn sequence(&self) -> u64 {
        self.cursor.sequence
    }

    /// Bytes of segments that hold frames.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.bytes).sum();
        sealed + self.current.as_ref().map_or(0, |current| current.bytes)
    }

    /// Bytes written by batches.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Syncs that batches waited for.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Adds a frame to the batch; `encode` appends its payload.
    pub(crate) fn stage(&mut self, kind: u8, execution: u128, encode: impl FnOnce(&mut Vec<u8>)) {
        let bytes = &mut self.batch.bytes;
        let start = bytes.len().max(SECTOR_BYTES);
        bytes.resize(start + HEADER_BYTES, 0);
        encode(bytes);
        let place = start..bytes.len();
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.batch.frames.push(Staged {
            place,
            execution,
            kind,
        });
    }

    /// Makes the batch durable. Its frames have the sequences from [`Journal::sequence`] on, as of
    /// before the call. The batch is empty afterwards, whatever the outcome.
    pub(crate) fn append(&mut self) -> Result<(), AppendError> {
        if let Some(reason) = &self.poisoned {
            self.batch.clear();
            return Err(AppendError::Poisoned(reason.clone()));
        }
        if self.batch.frames.is_empty() {
            return Ok(());
        }
        let padded = self.batch.bytes.len().next_multiple_of(SECTOR_BYTES);
        self.batch.bytes.resize(padded, 0);
        let frames = (padded - SECTOR_BYTES) as u64;
        let outcome = match self.current.take() {
            Some(current) if current.offset + frames <= current.bytes => self.append_here(current),
            full => self.append_to_next(full),
        };
        self.batch.clear();
        outcome
    }

    fn append_here(&mut self, mut current: Current) -> Result<(), AppendError> {
        let after = self.batch.seal(self.number, self.cursor);
        let bytes = self.batch.bytes.get(SECTOR_BYTES..).unwrap_or_default();
        let outcome = write(current.file.as_ref(), current.offset, bytes);
        self.syncs += 1;
        if outcome.is_ok() {
            self.cursor = after;
            self.written += bytes.len() as u64;
            current.offset += bytes.len() as u64;
        }
        // Reads need no file, and a poisoned journal writes no more: keep it in any case.
        self.current = Some(current);
        self.settle(outcome)
    }

    fn append_to_next(&mut self, full: Option<Current>) -> Result<(), AppendError> {
        let number = self.number + 1;
        let needed = self.batch.bytes.len() as u64;
        let taken = (self.spares).take(self.disk.as_ref(), number, needed, self.segment_bytes);
        let spare = match taken {
            Ok(spare) => spare,
            Err(error) => {
                self.current = full;
                let failed = match error.kind() {
                    io::ErrorKind::StorageFull => Failed::Full(error),
                    _ => Failed::Unknown("a segment could not be prepared", error),
                };
                return self.settle(Err(failed));
            }
        };
        let after = self.batch.seal(number, self.cursor);
        self.batch.put_head(&Head {
            number,
            first: self.cursor.sequence,
            previous: self.cursor.previous,
        });
        let outcome = write(spare.file.as_ref(), 0, &self.batch.bytes);
        self.syncs += 1;
        if outcome.is_err() {
            self.current = full;
            self.spares.put_back(spare);
            return self.settle(outcome);
        }
        if let Some(full) = full {
            self.sealed.push_back(Sealed {
                number: self.number,
                end: self.cursor.sequence,
                bytes: full.bytes,
                damaged: full.damaged,
            });
        }
        self.number = number;
        self.cursor = after;
        self.written += needed;
        self.current = Some(Current {
            file: spare.file,
            bytes: spare.bytes,
            offset: needed,
            damaged: false,
        });
        Ok(())
    }

    fn settle(&mut self, outcome: Result<(), Failed>) -> Result<(), AppendError> {
        outcome.map_err(|failed| match failed {
            Failed::Full(error) => AppendError::Full(error.to_string().into()),
            Failed::Unknown(what, error) => {
                let reason: Arc<str> = format!("{what}: {error}").into();
                self.poisoned = Some(reason.clone());
                AppendError::Poisoned(reason)
            }
        })
    }

    /// Whether segments could be given up if all before `sequence` is durable elsewhere.
    pub(crate) fn has_released(&self, sequence: u64) -> bool {
        (self.sealed.front()).is_some_and(|sealed| sealed.end <= sequence)
    }

    /// Gives up the segments whose frames are all before `sequence`, which must be durable
    /// elsewhere. [`Keeper::remove`] removes their files.
    pub(crate) fn release(&mut self, sequence: u64) -> Vec<Sealed> {
        let mut released = Vec::new();
        while let Some(sealed) = self.sealed.pop_front_if(|sealed| sealed.end <= sequence) {
            released.push(sealed);
        }
        released
    }
}

impl Batch {
    fn clear(&mut self) {
        // One enormous batch must not hold its memory for ever.
        if self.bytes.capacity() > BATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.frames.clear();
    }

    /// Numbers the frames from `cursor` on and seals them; answers the cursor behind them.
    fn seal(&mut self, segment: u64, mut cursor: Cursor) -> Cursor {
        let batch = cursor.sequence;
        for staged in &self.frames {
            let header = Header {
                sequence: cursor.sequence,
                batch,
                execution: staged.execution,
                previous: cursor.previous,
                kind: staged.kind,
            };
            if let Some(frame) = self.bytes.get_mut(staged.place.clone()) {
                cursor.previous = frame::seal(frame, segment, &header);
            }
            cursor.sequence += 1;
        }
        cursor
    }

    fn put_head(&mut self, head: &Head) {
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = head.to_bytes();
        }
    }
}

/// Memory a batch may keep for the next.
const BATCH_BYTES_KEPT: usize = 16 << 20;

enum Failed {
    /// No room, and no trace of the bytes is left.
    Full(io::Error),
    Unknown(&'static str, io::Error),
}

fn write(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
    match file.write_at(offset, bytes) {
        Ok(()) => file
            .sync()
            .map_err(|error| Failed::Unknown("a sync failed", error)),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            erase(file, offset, bytes.len())
                .map_err(|error| Failed::Unknown("a refused write could not be undone", error))?;
            Err(Failed::Full(error))
        }
        Err(error) => Err(Failed::Unknown("a write failed", error)),
    }
}

/// Overwrites with zeros what a write may have left, as far as the file goes.
fn erase(file: &dyn DiskFile, offset: u64, bytes: usize) -> io::Result<()> {
    let left = usize::try_from(file.len()?.saturating_sub(offset)).unwrap_or(bytes);
    file.write_at(offset, &vec![0; bytes.min(left)])?;
    file.sync()
}
