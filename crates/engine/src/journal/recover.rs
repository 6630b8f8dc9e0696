//! Opening a journal: which segments count, what is replayed, where writing goes on.
//!
//! Only what the index does not have yet is handed over. What a crash left behind the end of the
//! log is overwritten with zeros, and everything that counts is synced, before anybody builds on
//! it: a frame may have been read from the kernel's memory and not from the disk.

use super::{
    Batch, Current, Journal, Sealed,
    frame::SECTOR_BYTES,
    scan::{Cursor, Damage, Frame, Segment},
    segment::{self, FORMAT, Head, Opening, Spares},
};
use crate::disk::{Disk, DiskFile};
use std::{collections::VecDeque, io, ops::Range, sync::Arc};

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The disk failed.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It was written by a newer release.
    #[error(
        "the journal has format {found} and this release reads formats up to {FORMAT}; open the \
         folder with the release that wrote it, or a newer one"
    )]
    Newer {
        /// The format found.
        found: u32,
    },
    /// Segments that are needed are not there.
    #[error(
        "the index ends at {position}, and the journal {begins}; files of the journal were \
         removed, or come from another folder: restore both together"
    )]
    Missing {
        /// Sequence of the first frame the index does not have.
        position: u64,
        /// What was found instead.
        begins: Arc<str>,
    },
}

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Frames handed over.
    pub frames: u64,
    /// Bytes behind the end of the log that were overwritten.
    pub discarded_bytes: u64,
    /// Frames that were durable once and are lost.
    pub damage: Vec<Damage>,
}

/// Opens the journal on `disk` and hands over every frame from sequence `position` on.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    position: u64,
    mut visit: impl FnMut(Frame<'_>),
) -> Result<(Journal, Recovered), OpenError> {
    let mut files = survey(disk.as_ref())?;
    let start =
        (files.iter()).rposition(|file| file.head.is_some_and(|head| head.first <= position));
    check_present(&files, start, position)?;
    for file in files.drain(..start.unwrap_or(0)) {
        // Below what is indexed: a delete that a power cut undid.
        disk.delete(&segment::name(file.number))?;
    }
    let mut recovery = Recovery {
        position,
        cursor: (files.first().and_then(|file| file.head)).map_or(
            Cursor {
                sequence: position,
                previous: 0,
            },
            |head| Cursor {
                sequence: head.first,
                previous: head.previous,
            },
        ),
        recovered: Recovered::default(),
        sealed: VecDeque::new(),
        last: None,
        ended: None,
    };
    // Where each segment ends: at the beginning of the next one that has a head.
    let mut ends: Vec<Option<u64>> = Vec::new();
    let mut end = None;
    for file in files.iter().rev() {
        ends.push(end);
        end = file.head.map(|head| head.first).or(end);
    }
    for (file, end) in files.into_iter().zip(ends.into_iter().rev()) {
        let number = file.number;
        if !recovery.segment(file, end, &mut visit)? {
            disk.delete(&segment::name(number))?;
        }
    }
    let number = recovery.last.as_ref().map_or(0, |(number, _)| *number);
    recovery.reach_position();
    let journal = Journal {
        disk,
        spares: Arc::new(Spares::new(number)),
        segment_bytes,
        current: recovery.last.map(|(_, current)| current),
        sealed: recovery.sealed,
        number,
        cursor: recovery.cursor,
        batch: Batch::default(),
        poisoned: None,
        written: 0,
        syncs: 0,
    };
    Ok((journal, recovery.recovered))
}

/// A segment's file.
struct SegmentFile {
    number: u64,
    file: Box<dyn DiskFile>,
    bytes: u64,
    head: Option<Head>,
}

fn survey(disk: &dyn Disk) -> Result<Vec<SegmentFile>, OpenError> {
    let mut files = Vec::new();
    for name in disk.list()? {
        let Some(number) = segment::number(&name) else {
            continue;
        };
        let file = disk.open(&name)?;
        let bytes = file.len()?;
        let mut sector = [0; SECTOR_BYTES];
        let head = if bytes < SECTOR_BYTES as u64 {
            None
        } else {
            file.read_at(0, &mut sector)?;
            match Head::from_bytes(&sector, number) {
                Opening::Head(head) => Some(head),
                Opening::Nothing => None,
                Opening::Newer(found) => return Err(OpenError::Newer { found }),
            }
        };
        files.push(SegmentFile {
            number,
            file,
            bytes,
            head,
        });
    }
    files.sort_unstable_by_key(|file| file.number);
    Ok(files)
}

/// From the segment that holds `position` on, all must be there.
fn check_present(
    files: &[SegmentFile],
    start: Option<usize>,
    position: u64,
) -> Result<(), OpenError> {
    let missing = |begins: String| {
        Err(OpenError::Missing {
            position,
            begins: begins.into(),
        })
    };
    let first = files.iter().find_map(|file| file.head);
    match (start, first) {
        (None, Some(head)) => missing(format!("begins at {}", head.first)),
        (None, None) if position > 0 => missing("is not there".to_owned()),
        (None, None) => Ok(()),
        (Some(start), _) => {
            let used = files.get(start..).unwrap_or_default();
            (used.array_windows())
                .find(|[one, next]| next.number != one.number + 1 && next.head.is_some())
                .map_or(Ok(()), |[one, _]| {
                    missing(format!("lacks segment {}", one.number + 1))
                })
        }
    }
}

struct Recovery {
    position: u64,
    cursor: Cursor,
    recovered: Recovered,
    sealed: VecDeque<Sealed>,
    last: Option<(u64, Current)>,
    /// Where the last one ends, if another follows.
    ended: Option<u64>,
}

impl Recovery {
    /// Reads one segment. Answers whether it has ever been used.
    fn segment(
        &mut self,
        file: SegmentFile,
        end: Option<u64>,
        visit: &mut impl FnMut(Frame<'_>),
    ) -> Result<bool, OpenError> {
        let mut bytes = vec![0; usize::try_from(file.bytes).map_err(io::Error::other)?];
        file.file.read_at(0, &mut bytes)?;
        let segment = Segment {
            number: file.number,
            bytes: &bytes,
            end,
        };
        // A segment without a head was never used, unless something proves the contrary.
        let used = file.head.is_some()
            || end.is_some()
            || segment.proves_durable(SECTOR_BYTES, self.cursor.sequence);
        if !used {
            return Ok(false);
        }
        if let Some(head) = file.head {
            self.cursor.previous = head.previous;
        }
        let Recovered { frames, damage, .. } = &mut self.recovered;
        let known = damage.len();
        let position = self.position;
        let last_batch = segment.read(&mut self.cursor, damage, |frame| {
            if frame.sequence >= position {
                *frames += 1;
                visit(frame);
            }
        });
        let damaged = file.head.is_none() || damage.len() > known;
        // What the index has is not lost.
        damage.retain(|damage| damage.lost.end > position);
        if end.is_none() {
            let discarded = settle(file.file.as_ref(), &bytes, last_batch.clone())?;
            self.recovered.discarded_bytes += discarded;
        }
        file.file.sync()?;
        self.seal_last();
        let current = Current {
            file: file.file,
            bytes: file.bytes,
            offset: last_batch.end.next_multiple_of(SECTOR_BYTES) as u64,
            damaged,
        };
        self.last = Some((file.number, current));
        self.ended = end;
        Ok(true)
    }

    /// The segment read last turns out not to be the last.
    fn seal_last(&mut self) {
        if let (Some((number, current)), Some(end)) = (self.last.take(), self.ended) {
            self.sealed.push_back(Sealed {
                number,
                end,
                bytes: current.bytes,
                damaged: current.damaged,
            });
        }
    }

    /// The index may know frames that the journal has lost. New frames must come after those, in a
    /// segment of their own: this one would have a gap.
    fn reach_position(&mut self) {
        let lost = self.cursor.sequence..self.position;
        if let (false, Some((number, current))) = (lost.is_empty(), &mut self.last) {
            self.recovered.damage.push(Damage {
                segment: *number,
                offset: current.offset,
                lost,
                execution: None,
            });
            self.cursor.sequence = self.position;
            current.offset = current.bytes;
            current.damaged = true;
        }
    }
}

/// Makes sure that the disk has the log as it was read, up to its end and nothing behind it; answers
/// how much there was. Nothing proves that the last batch was synced, and if a sync failed, the
/// kernel shows bytes that it will not write by itself any more: so it is written again, with the
/// head of the segment, which may have come with it.
fn settle(file: &dyn DiskFile, bytes: &[u8], last_batch: Range<usize>) -> io::Result<u64> {
    let end = last_batch.end;
    file.write_at(0, bytes.get(..SECTOR_BYTES).unwrap_or_default())?;
    let batch = bytes.get(last_batch.clone()).unwrap_or_default();
    file.write_at(last_batch.start as u64, batch)?;
    let rest = bytes.get(end..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else {
        return Ok(0);
    };
    file.write_at(end as u64, &vec![0; last + 1])?;
    Ok(last as u64 + 1)
}
