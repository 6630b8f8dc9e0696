//! Operation identity: positions inside an execution and their wire form.
//!
//! A position is the path of counters from the root context to the operation (`3`, `3-1`, `3-1-2`),
//! or a caller's key in place of a counter (`3-k:invoice`). The wire id is the SHA-256 of the
//! position in hex, the scheme of the official Rust SDK, so that a handler keeps its ids when it
//! moves between the two. Names take no part: a renamed operation meets its old record and is
//! reported as a mismatch instead of silently starting over.

use alloc::{format, string::String, sync::Arc};
use core::{
    fmt,
    hash::{Hash, Hasher},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An operation's id on the wire. Opaque to the service: every SDK has a scheme of its own.
#[derive(Clone, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationId(Arc<str>);

/// Most comparisons are of one id with itself, through another handle: no need to read the text.
impl PartialEq for OperationId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for OperationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl OperationId {
    /// Wraps an id received from outside.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for OperationId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({})", self.0)
    }
}

/// Where an operation stands inside its execution. The root context has the empty position.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(Arc<str>);

impl Position {
    /// The position of the root context.
    pub fn root() -> Self {
        Self::default()
    }

    /// The `number`-th operation (from 1) inside this context.
    #[must_use]
    pub fn child(&self, number: u64) -> Self {
        if self.0.is_empty() {
            Self(format!("{number}").into())
        } else {
            Self(format!("{}-{number}", self.0).into())
        }
    }

    /// The operation that the caller identified by `key` inside this context.
    #[must_use]
    pub fn keyed(&self, key: &str) -> Self {
        if self.0.is_empty() {
            Self(format!("k:{key}").into())
        } else {
            Self(format!("{}-k:{key}", self.0).into())
        }
    }

    /// The position as text, for people.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The wire id of the operation at this position.
    pub fn id(&self) -> OperationId {
        OperationId(hex(&Sha256::digest(self.0.as_bytes())).into())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "root" } else { &self.0 })
    }
}

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(
                DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'),
            ));
        }
    }
    text
}

/// The first 128 bits of the SHA-256 of `parts`, each preceded by its length so that no two lists
/// of parts collide by concatenation.
pub fn digest128(parts: &[&[u8]]) -> u128 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    digest
        .iter()
        .take(16)
        .fold(0u128, |sum, byte| sum << 8 | u128::from(*byte))
}

/// Formats 128 bits as a name-based (version 8) UUID.
pub fn uuid(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let text = hex(&bits.to_be_bytes());
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// The `X-Amzn-Trace-Id` header that names a span of a trace.
pub fn trace_header(trace: u128, span: u64, sampled: bool) -> String {
    let (time, rest) = (trace >> 96, trace & (u128::MAX >> 32));
    let sampled = u8::from(sampled);
    format!("Root=1-{time:08x}-{rest:024x};Parent={span:016x};Sampled={sampled}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_header_keeps_every_digit() {
        let header = trace_header(0xa_0000_0000_0000_0000_0000_000b, 0xc, false);
        let expected = "Root=1-0000000a-00000000000000000000000b;Parent=000000000000000c;Sampled=0";
        assert_eq!(header, expected);
        let header = trace_header(u128::MAX, u64::MAX, true);
        let expected = "Root=1-ffffffff-ffffffffffffffffffffffff;Parent=ffffffffffffffff;Sampled=1";
        assert_eq!(header, expected);
    }

    #[test]
    fn ids_equal_the_official_rust_sdks_for_the_same_positions() {
        let first = Position::root().child(1);
        assert_eq!(
            first.id().as_str(),
            "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
        );
        let second = first.child(2).id();
        assert!(second.as_str().starts_with("412a4789b02c") && second.as_str().ends_with("e70e01"));
    }

    #[test]
    fn keys_and_counters_never_meet() {
        let root = Position::root();
        assert_eq!(root.keyed("1").as_str(), "k:1");
        assert_eq!(root.child(3).keyed("a").child(1).as_str(), "3-k:a-1");
        assert_ne!(root.keyed("1").id(), root.child(1).id());
    }

    #[test]
    fn uuids_are_well_formed_and_carry_version_and_variant() {
        assert_eq!(uuid(0), "00000000-0000-8000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }

    #[test]
    fn digests_separate_their_parts() {
        assert_ne!(digest128(&[b"ab", b"c"]), digest128(&[b"a", b"bc"]));
    }
}
