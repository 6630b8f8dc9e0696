//! One frame of the journal: a header that can be checked alone, then the payload.
//!
//! The header has its own checksum and names the execution, so that damage to a payload does not
//! hide whose it was. Everything is little-endian; a frame starts at a multiple of eight bytes.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | `OLF1` |
//! | 4 | 4 | CRC32C of the segment's number and of bytes 8..56 |
//! | 8 | 4 | length of the payload |
//! | 12 | 4 | CRC32C of the payload |
//! | 16 | 8 | sequence: one more than the frame before |
//! | 24 | 8 | sequence of the first frame of its batch; all before that was durable already |
//! | 32 | 16 | execution, or zero |
//! | 48 | 4 | header checksum of the frame before |
//! | 52 | 1 | kind of payload |
//! | 53 | 3 | zero |
//!
//! The number of the segment in the checksum keeps bytes of another segment from counting here; the
//! checksum of the frame before keeps a frame that was written, refused and overwritten in part
//! from counting behind one that replaced it.

use crc32c::{crc32c, crc32c_append};

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 56;
/// Frames start at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;
/// Batches start at multiples of this, so that no sector with acknowledged bytes is written again.
pub(crate) const SECTOR_BYTES: usize = 512;

const MAGIC: [u8; 4] = *b"OLF1";

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) batch: u64,
    pub(crate) execution: u128,
    pub(crate) previous: u32,
    pub(crate) kind: u8,
}

/// A header found in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) header: Header,
    /// Its own checksum.
    pub(crate) checksum: u32,
    /// The payload; absent if its bytes are not those that were written.
    pub(crate) payload: Option<&'a [u8]>,
    /// Where the frame begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
}

/// Fills in the header of the frame in `frame`, whose payload is in place; answers its checksum.
pub(crate) fn seal(frame: &mut [u8], segment: u64, header: &Header) -> u32 {
    let Some((head, payload)) = frame.split_first_chunk_mut::<HEADER_BYTES>() else {
        return 0;
    };
    // A frame is built in a buffer far below four gigabytes: the batch has a bound.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut at = 8;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = head.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&length.to_le_bytes());
    put(&crc32c(payload).to_le_bytes());
    put(&header.sequence.to_le_bytes());
    put(&header.batch.to_le_bytes());
    put(&header.execution.to_le_bytes());
    put(&header.previous.to_le_bytes());
    put(&[header.kind, 0, 0, 0]);
    let checksum = checksum(head, segment);
    let (magic, rest) = head.split_at_mut(4);
    magic.copy_from_slice(&MAGIC);
    if let Some(place) = rest.get_mut(..4) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
    checksum
}

/// The frame at `at`, if there is a header that can be trusted.
pub(crate) fn find(bytes: &[u8], at: usize, segment: u64) -> Option<Found<'_>> {
    let head: &[u8; HEADER_BYTES] = bytes.get(at..)?.first_chunk()?;
    if head.first_chunk() != Some(&MAGIC) {
        return None;
    }
    let checksum_found = u32::from_le_bytes(field(head, 4)?);
    if checksum_found != checksum(head, segment) {
        return None;
    }
    let length = usize::try_from(u32::from_le_bytes(field(head, 8)?)).ok()?;
    let start = at + HEADER_BYTES;
    let payload_checksum = u32::from_le_bytes(field(head, 12)?);
    let [kind, _, _, _] = field(head, 52)?;
    Some(Found {
        header: Header {
            sequence: u64::from_le_bytes(field(head, 16)?),
            batch: u64::from_le_bytes(field(head, 24)?),
            execution: u128::from_le_bytes(field(head, 32)?),
            previous: u32::from_le_bytes(field(head, 48)?),
            kind,
        },
        checksum: checksum_found,
        start: at,
        payload: (bytes.get(start..start.checked_add(length)?))
            .filter(|payload| crc32c(payload) == payload_checksum),
        end: start.checked_add(length)?.next_multiple_of(ALIGNMENT),
    })
}

fn checksum(head: &[u8; HEADER_BYTES], segment: u64) -> u32 {
    let (_, covered) = head.split_at(8);
    crc32c_append(crc32c(&segment.to_le_bytes()), covered)
}

fn field<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> Option<[u8; N]> {
    head.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        sequence: 7,
        batch: 5,
        execution: 0x1234_5678_9abc_def0_0fed_cba9_8765_4321,
        previous: 99,
        kind: 3,
    };

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(payload);
        seal(&mut bytes, 4, &HEADER);
        bytes
    }

    #[test]
    fn a_frame_is_found_as_it_was_sealed() {
        let bytes = framed(b"payload");
        let found = find(&bytes, 0, 4).unwrap();
        assert_eq!(found.header, HEADER);
        assert_eq!(found.payload, Some(&b"payload"[..]));
        assert_eq!(found.end, HEADER_BYTES + 8);
        assert_eq!(find(&framed(b""), 0, 4).unwrap().payload, Some(&b""[..]));
    }

    #[test]
    fn no_bit_of_a_frame_can_turn_unnoticed() {
        let bytes = framed(b"some payload");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = find(&bytes, 0, 4);
            if bit / 8 < HEADER_BYTES {
                assert_eq!(found, None, "bit {bit}");
            } else {
                assert_eq!(found.unwrap().payload, None, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_frame_of_another_segment_does_not_count() {
        assert_eq!(find(&framed(b"payload"), 0, 5), None);
    }

    #[test]
    fn a_frame_that_is_cut_short_has_no_payload_or_no_header() {
        let bytes = framed(b"payload");
        for end in 0..bytes.len() {
            let found = find(&bytes[..end], 0, 4);
            assert!(found.is_none_or(|found| found.payload.is_none()), "{end}");
        }
    }
}
