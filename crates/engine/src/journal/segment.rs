//! Segments: the files of the journal, how they are named, headed and made ready.
//!
//! A segment is filled with zeros and synced before it is used, so that a commit changes no
//! metadata and costs the disk one write. Its header is written together with its first batch: a
//! segment without one has never held anything that was acknowledged. Segments are never reused.

use super::frame::SECTOR_BYTES;
use crate::disk::{Disk, DiskFile};
use crc32c::crc32c;
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// The format this release writes, and the newest it reads.
pub const FORMAT: u32 = 1;
/// The first segment is small, so that a new folder is; each further one is four times as large,
/// up to the size asked for.
const FIRST_BYTES: u64 = 1 << 20;
/// Zeros are written and synced in pieces, so that a commit beside it waits for one piece only.
const FILL_BYTES: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"OUTLASTJ";
const SUFFIX: &str = ".journal";
const DAMAGED_SUFFIX: &str = ".damaged";

/// The start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u64,
    /// Sequence of its first frame: the segment before ends there.
    pub(crate) first: u64,
    /// Header checksum of the last frame before.
    pub(crate) previous: u32,
}

/// What the first sector of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Head(Head),
    /// Never used, or its first batch is torn, or it is damaged.
    Nothing,
    /// Of a newer release.
    Newer(u32),
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        let fields = [
            &MAGIC[..],
            &FORMAT.to_le_bytes(),
            &self.previous.to_le_bytes(),
            &self.number.to_le_bytes(),
            &self.first.to_le_bytes(),
        ]
        .concat();
        let checksum = crc32c(&fields).to_le_bytes();
        for (to, from) in sector.iter_mut().zip(fields.iter().chain(&checksum)) {
            *to = *from;
        }
        sector
    }

    /// Reads a head. Its layout is the same in every format, so that damage is not mistaken for a
    /// newer one.
    pub(crate) fn from_bytes(bytes: &[u8], number: u64) -> Opening {
        let field = |at: usize| bytes.get(at..at + 4)?.first_chunk::<4>().copied();
        let long = |at: usize| bytes.get(at..at + 8)?.first_chunk::<8>().copied();
        let parts = (long(0), field(8), field(12), long(16), long(24), field(32));
        let (Some(magic), Some(format), Some(previous), Some(own), Some(first), Some(checksum)) =
            parts
        else {
            return Opening::Nothing;
        };
        let format = u32::from_le_bytes(format);
        let intact = bytes.get(..32).map(crc32c) == Some(u32::from_le_bytes(checksum));
        if magic != MAGIC || !intact || u64::from_le_bytes(own) != number {
            Opening::Nothing
        } else if format > FORMAT {
            Opening::Newer(format)
        } else {
            Opening::Head(Self {
                number,
                first: u64::from_le_bytes(first),
                previous: u32::from_le_bytes(previous),
            })
        }
    }
}

/// The name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("{number:010}{SUFFIX}")
}

/// The name of a damaged segment that is kept for whoever wants to look into it.
pub(crate) fn damaged_name(number: u64) -> String {
    format!("{number:010}{DAMAGED_SUFFIX}")
}

/// The number of the segment with this name, if it is one.
pub(crate) fn number(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// A segment that is ready to be written to.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) file: Box<dyn DiskFile>,
}

/// The next segment, made ready before it is needed. Whoever makes it ready holds the lock, so a
/// writer that needs it meanwhile waits instead of making a second.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    ready: Mutex<Option<Spare>>,
}

impl Spares {
    /// Makes segment `number` ready unless it is.
    pub(crate) fn prepare(&self, disk: &dyn Disk, number: u64, bytes_max: u64) -> io::Result<()> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_none() {
            *ready = Some(prepare(disk, number, size(number, bytes_max))?);
        }
        Ok(())
    }

    /// Takes the segment, or makes it: `number`, with room for `needed` bytes.
    pub(crate) fn take(
        &self,
        disk: &dyn Disk,
        number: u64,
        needed: u64,
        bytes_max: u64,
    ) -> io::Result<Spare> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        match ready.take() {
            Some(spare) if spare.number == number && spare.bytes >= needed => Ok(spare),
            Some(_) | None => prepare(disk, number, size(number, bytes_max).max(needed)),
        }
    }

    /// Gives back a segment that was not used after all.
    pub(crate) fn put_back(&self, spare: Spare) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(spare);
    }
}

fn size(number: u64, bytes_max: u64) -> u64 {
    let doublings = u32::try_from(number.saturating_sub(1).saturating_mul(2)).unwrap_or(u32::MAX);
    FIRST_BYTES
        .checked_shl(doublings.min(32))
        .map_or(bytes_max, |bytes| bytes.min(bytes_max))
        .next_multiple_of(SECTOR_BYTES as u64)
}

fn prepare(disk: &dyn Disk, number: u64, bytes: u64) -> io::Result<Spare> {
    let name = name(number);
    // Left by an earlier attempt that failed; it never held anything.
    match disk.delete(&name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = disk.create(&name)?;
    let filled = fill(file.as_ref(), bytes).and_then(|()| disk.sync_folder());
    match filled {
        Ok(()) => Ok(Spare {
            number,
            bytes,
            file,
        }),
        Err(error) => {
            // The room matters more than this call's own outcome: the next attempt deletes again.
            drop(disk.delete(&name));
            Err(error)
        }
    }
}

fn fill(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES];
    let mut at = 0;
    while at < bytes {
        let left = usize::try_from(bytes - at).unwrap_or(FILL_BYTES);
        let piece = zeros.get(..left.min(FILL_BYTES)).unwrap_or(&zeros);
        file.write_at(at, piece)?;
        file.sync()?;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_only_for_its_own_segment() {
        let head = Head {
            number: 3,
            first: 77,
            previous: 5,
        };
        let bytes = head.to_bytes();
        assert_eq!(Head::from_bytes(&bytes, 3), Opening::Head(head));
        assert_eq!(Head::from_bytes(&bytes, 4), Opening::Nothing);
        assert_eq!(Head::from_bytes(&[0; SECTOR_BYTES], 3), Opening::Nothing);
        assert_eq!(Head::from_bytes(&bytes[..35], 3), Opening::Nothing);
        for bit in 0..36 * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(
                Head::from_bytes(&bytes, 3),
                Opening::Head(head),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let mut bytes = Head {
            number: 1,
            first: 0,
            previous: 0,
        }
        .to_bytes();
        bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
        assert_eq!(Head::from_bytes(&bytes, 1), Opening::Nothing);
        let checksum = crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Head::from_bytes(&bytes, 1), Opening::Newer(FORMAT + 1));
    }

    #[test]
    fn segments_grow_up_to_the_size_asked_for() {
        let sizes: Vec<u64> = (1..6).map(|number| size(number, 64 << 20) >> 20).collect();
        assert_eq!(sizes, [1, 4, 16, 64, 64]);
        assert_eq!(size(1, 4096), 4096);
        assert_eq!(size(u64::MAX, 64 << 20), 64 << 20);
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(number(&name(12)), Some(12));
        assert_eq!(number(&damaged_name(12)), None);
        assert_eq!(number("LOCK"), None);
    }
}
