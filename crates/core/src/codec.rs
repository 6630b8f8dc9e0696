//! The binary form of records, and the few rules it is made of.
//!
//! A record is what an engine keeps for years, so nothing about its form is left to a library. Which
//! fields and tags there are is a table in `codec/table.rs`, one entry per type for both directions.
//! Payloads lie in it raw. It does not frame, compress or protect records: that is for whoever keeps
//! them.
//!
//! # The form
//!
//! - The first byte is the version of the format.
//! - Numbers are LEB128: seven bits a byte, lowest first, in as few bytes as possible. Timestamps
//!   are their milliseconds.
//! - Text is its length in bytes and its UTF-8 bytes. Lists are their length and their members.
//! - A `bool` is 0 or 1. An option is 0, or 1 and its value.
//! - A struct is its fields in order. An enum is the tag of its variant, one byte, and its fields.
//! - An operation id is 0 and its text; or 1 and 32 bytes, if it is 64 hex digits as our SDK's are.
//! - The label of an operation is 0 for none, 1 and its text, or one of the tags from 2 on.
//!
//! # How it changes
//!
//! What has been written stays readable for ever; golden bytes in the tests see to it. A new
//! variant, or a variant with one more field, gets the next free tag, and no tag is ever used for
//! something else. What cannot be said with a new tag gets a new version, and the reader learns to
//! tell them apart. An older release that meets either answers [`Undecodable::Newer`]; it never
//! guesses.

mod table;

use crate::{id::OperationId, record::Record, time::Timestamp, wire::sub_type};
use alloc::{boxed::Box, collections::BTreeSet, string::String, sync::Arc, vec::Vec};

/// The version of the form that [`Record::encode`] writes.
pub const RECORD_FORMAT: u8 = 1;

/// Why bytes are not what they should be.
///
/// Stores compare checksums before they hand bytes out, so this is a defect or the work of another
/// release rather than of a failing disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// They make no sense.
    #[error("damaged at byte {at}: {reason}")]
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// They use something this release does not know.
    #[error(
        "{what} {tag} at byte {at} is unknown to this release: it was written by a newer one; \
         run that release, or a later one"
    )]
    Newer {
        /// Where.
        at: usize,
        /// What kind of thing is unknown.
        what: &'static str,
        /// The version or tag found.
        tag: u8,
    },
}

impl Record {
    /// Appends the binary form of this record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(RECORD_FORMAT);
        self.write(out);
    }

    /// Reads a record from its binary form, all of `bytes`. Whether it continues a journal is for
    /// the fold to say.
    ///
    /// # Errors
    /// When the bytes are damaged, more than one record, or of a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
        let mut input = Reader::open(bytes, "record format", RECORD_FORMAT)?;
        let record = Self::read(&mut input)?;
        input.end()?;
        Ok(record)
    }
}

/// A type with a binary form. What is written reads back as an equal value.
pub(crate) trait Binary: Sized {
    /// Appends the binary form.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads it from the front of `input`.
    ///
    /// # Errors
    /// When it is not there.
    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable>;
}

/// States the form of a type once, for both directions: the fields of a struct in order, or the
/// tag and fields of each variant of an enum. A field or variant left out does not compile.
macro_rules! binary {
    (struct $type:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::codec::Binary for $type {
            fn write(&self, out: &mut alloc::vec::Vec<u8>) {
                let Self { $($field),+ } = self;
                $($field.write(out);)+
            }

            fn read(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Undecodable> {
                Ok(Self { $($field: $crate::codec::Binary::read(input)?),+ })
            }
        }
    };
    (enum $type:ident: $what:literal {
        $($tag:literal => $variant:ident $({ $($field:ident),+ })? $(($inner:ident))?),+ $(,)?
    }) => {
        impl $crate::codec::Binary for $type {
            fn write(&self, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),+ })? $(($inner))? => {
                        out.push($tag);
                        $($($field.write(out);)+)?
                        $($inner.write(out);)?
                    })+
                }
            }

            fn read(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Undecodable> {
                Ok(match input.byte()? {
                    $($tag => {
                        $($(let $field = $crate::codec::Binary::read(input)?;)+)?
                        $(let $inner = $crate::codec::Binary::read(input)?;)?
                        Self::$variant $({ $($field),+ })? $(($inner))?
                    })+
                    tag => return Err(input.newer($what, tag)),
                })
            }
        }
    };
}
pub(crate) use binary;

/// Bytes that are being read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Begins with the version byte; `newest` is the newest that this release knows.
    pub(crate) fn open(
        bytes: &'a [u8],
        what: &'static str,
        newest: u8,
    ) -> Result<Self, Undecodable> {
        let mut input = Self {
            rest: bytes,
            length: bytes.len(),
        };
        match input.byte()? {
            0 => Err(input.damaged("there is no version 0")),
            version if version > newest => Err(input.newer(what, version)),
            _ => Ok(input),
        }
    }

    /// Refuses bytes that nobody has read.
    pub(crate) fn end(&self) -> Result<(), Undecodable> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Undecodable::Damaged {
            at: self.length - self.rest.len(),
            reason: "more bytes than were written",
        })
    }

    /// Damage in what was read last.
    pub(crate) fn damaged(&self, reason: &'static str) -> Undecodable {
        Undecodable::Damaged {
            at: self.last(),
            reason,
        }
    }

    /// An unknown tag, which was read last.
    pub(crate) fn newer(&self, what: &'static str, tag: u8) -> Undecodable {
        Undecodable::Newer {
            at: self.last(),
            what,
            tag,
        }
    }

    fn last(&self) -> usize {
        (self.length - self.rest.len()).saturating_sub(1)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Undecodable> {
        let (byte, rest) = self.rest.split_first().ok_or_else(|| self.early())?;
        self.rest = rest;
        Ok(*byte)
    }

    /// The length of a list whose members take `bytes_min` bytes at least. More of them than fit
    /// into the rest are damage, found before any room is made for them.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Result<usize, Undecodable> {
        let count = u64::read(self)?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.rest.len() / bytes_min.max(1))
            .ok_or_else(|| self.damaged("longer than the rest"))
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Undecodable> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.early())?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, Undecodable> {
        let count = self.count(1)?;
        let bytes = self.bytes(count)?;
        core::str::from_utf8(bytes).map_err(|_| self.damaged("text that is not UTF-8"))
    }

    fn early(&self) -> Undecodable {
        Undecodable::Damaged {
            at: self.length,
            reason: "ends too early",
        }
    }
}

impl Binary for u64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seven bits of a number at a time"
    )]
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = input.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let shortest = byte != 0 || shift == 0;
                return shortest
                    .then_some(value)
                    .ok_or_else(|| input.damaged("a number with leading zeros"));
            }
        }
        Err(input.damaged("a number of more than 64 bits"))
    }
}

impl Binary for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        let value = u64::read(input)?;
        Self::try_from(value).map_err(|_| input.damaged("a number of more than 32 bits"))
    }
}

impl Binary for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(input.damaged("neither yes nor no")),
        }
    }
}

impl<T: Binary> Binary for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        bool::read(input)?.then(|| T::read(input)).transpose()
    }
}

impl<T: Binary> Binary for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        for member in self {
            member.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        (0..input.count(1)?).map(|_| T::read(input)).collect()
    }
}

impl Binary for BTreeSet<u32> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        for member in self {
            member.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        (0..input.count(1)?).map(|_| u32::read(input)).collect()
    }
}

impl Binary for Arc<str> {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        input.text().map(Self::from)
    }
}

impl Binary for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        input.text().map(Self::from)
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    (text.len() as u64).write(out);
    out.extend_from_slice(text.as_bytes());
}

impl<T: Binary> Binary for Arc<T> {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        T::read(input).map(Self::new)
    }
}

impl<T: Binary> Binary for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        T::read(input).map(Self::new)
    }
}

impl Binary for Timestamp {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_millis().write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        u64::read(input).map(Self::from_millis)
    }
}

/// Bytes of the digest that an operation's id usually is.
const DIGEST_BYTES: usize = 32;

impl Binary for OperationId {
    fn write(&self, out: &mut Vec<u8>) {
        match digest(self.as_str()) {
            Some(bytes) => {
                out.push(1);
                out.extend_from_slice(&bytes);
            }
            None => {
                out.push(0);
                write_text(self.as_str(), out);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        match input.byte()? {
            0 => Ok(Self::from(input.text()?)),
            1 => {
                let mut digits = [0; 2 * DIGEST_BYTES];
                let bytes = input.bytes(DIGEST_BYTES)?;
                for ([high, low], byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
                    *high = hex_digit(byte >> 4);
                    *low = hex_digit(byte & 15);
                }
                let text = core::str::from_utf8(&digits);
                text.map(Self::from)
                    .map_err(|_| input.damaged("an id that is not hex"))
            }
            tag => Err(input.newer("form of an id", tag)),
        }
    }
}

/// The bytes of 64 lower-case hex digits, if the text is that.
fn digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let digits: &[u8; 2 * DIGEST_BYTES] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; DIGEST_BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = hex_value(*high)? << 4 | hex_value(*low)?;
    }
    Some(bytes)
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const fn hex_digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'a' + value - 10,
    }
}

/// Labels with a tag of their own, in the order of their tags: frozen, new ones go to the end.
const LABELS: [&str; 12] = [
    sub_type::STEP,
    sub_type::WAIT_FOR_CONDITION,
    sub_type::WAIT,
    sub_type::CALLBACK,
    sub_type::SIGNAL,
    sub_type::CHAINED_INVOKE,
    sub_type::RUN_IN_CHILD_CONTEXT,
    sub_type::WAIT_FOR_CALLBACK,
    sub_type::MAP,
    sub_type::MAP_ITERATION,
    sub_type::PARALLEL,
    sub_type::PARALLEL_BRANCH,
];
const NO_LABEL: u8 = 0;
const OTHER_LABEL: u8 = 1;
const FIRST_LABEL: u8 = 2;

/// Writes the label of an operation.
pub(crate) fn write_label(label: Option<&str>, out: &mut Vec<u8>) {
    let Some(label) = label else {
        out.push(NO_LABEL);
        return;
    };
    match (FIRST_LABEL..)
        .zip(LABELS)
        .find(|(_, known)| *known == label)
    {
        Some((tag, _)) => out.push(tag),
        None => {
            out.push(OTHER_LABEL);
            write_text(label, out);
        }
    }
}

/// Reads the label of an operation.
pub(crate) fn read_label(input: &mut Reader<'_>) -> Result<Option<Arc<str>>, Undecodable> {
    match input.byte()? {
        NO_LABEL => Ok(None),
        OTHER_LABEL => Arc::<str>::read(input).map(Some),
        tag => LABELS
            .get(usize::from(tag - FIRST_LABEL))
            .map(|label| Some(Arc::from(*label)))
            .ok_or_else(|| input.newer("label", tag)),
    }
}

#[cfg(test)]
mod tests;
