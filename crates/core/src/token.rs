//! Checkpoint tokens and callback ids: who may write, and who may answer.
//!
//! Both carry what they are for and a MAC, so a forged one is refused before anything is loaded.
//! Whether a genuine one is still *current* is for the execution to say. Formats are private: a
//! later version may change them, the version byte tells which one it reads.

use crate::{
    arn::ExecutionId,
    error::Rejection,
    id::{digest128, hex},
    limits::{CALLBACK_ID_LENGTH_MAX, CHECKPOINT_TOKEN_LENGTH_MAX},
};
use alloc::{string::String, vec::Vec};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use core::fmt;
use sha2::{Digest, Sha256};

const VERSION: u8 = 1;
const MAC_BYTES: usize = 16;
const BLOCK_BYTES: usize = 64;

/// One secret of an engine, with the number that tokens name it by.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    id: u32,
    secret: [u8; 32],
}

impl Key {
    /// The secret known as `id`.
    pub const fn new(id: u32, secret: [u8; 32]) -> Self {
        Self { id, secret }
    }

    /// The number tokens name it by.
    pub const fn id(&self) -> u32 {
        self.id
    }
}

impl fmt::Debug for Key {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The key that signs, and the retired ones that still verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    current: Key,
    retired: Vec<Key>,
}

impl Keys {
    /// A ring of one key.
    pub const fn new(current: Key) -> Self {
        Self {
            current,
            retired: Vec::new(),
        }
    }

    /// Makes `key` the one that signs; those before it keep verifying.
    #[must_use]
    pub fn rotated(mut self, key: Key) -> Self {
        self.retired
            .push(core::mem::replace(&mut self.current, key));
        self
    }

    /// The key that signs.
    pub const fn current(&self) -> &Key {
        &self.current
    }

    fn find(&self, id: u32) -> Option<&Key> {
        core::iter::once(&self.current)
            .chain(&self.retired)
            .find(|key| key.id == id)
    }

    /// Signs `body` with the key `id` if it is still known, else with the current one.
    fn seal(&self, id: u32, purpose: u8, body: &[u8]) -> Vec<u8> {
        let key = self.find(id).unwrap_or(&self.current);
        let mut bytes = Vec::with_capacity(5 + body.len() + MAC_BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&key.id.to_be_bytes());
        bytes.extend_from_slice(body);
        let mac = mac(key, purpose, &bytes);
        bytes.extend_from_slice(&mac);
        bytes
    }

    /// The body of `bytes` if a known key signed it for this purpose.
    fn open<'a>(&self, purpose: u8, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (signed, given) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        let (head, body) = signed.split_at_checked(5)?;
        let (version, id) = head.split_first()?;
        let key = self.find(u32::from_be_bytes(id.try_into().ok()?))?;
        (*version == VERSION && equal(&mac(key, purpose, signed), given)).then_some(body)
    }
}

fn mac(key: &Key, purpose: u8, bytes: &[u8]) -> [u8; MAC_BYTES] {
    let full = hmac_sha256(&key.secret, &[&[purpose], bytes]);
    let mut short = [0; MAC_BYTES];
    for (to, from) in short.iter_mut().zip(full) {
        *to = from;
    }
    short
}

/// HMAC with SHA-256 (RFC 2104) over `parts` in a row.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0u8; BLOCK_BYTES];
    let hashed;
    let key = if key.len() > BLOCK_BYTES {
        hashed = Sha256::digest(key);
        hashed.as_slice()
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Compares without telling by its duration where the first difference is.
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |difference, (left, right)| difference | (left ^ right))
            == 0
}

/// What a checkpoint token says: one write, by one invocation, at one place in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointToken {
    /// The execution it is for.
    pub execution: ExecutionId,
    /// Digest of the invocation id it was given to.
    pub invocation: u128,
    /// The checkpoint it is good for.
    pub sequence: u64,
}

impl CheckpointToken {
    const PURPOSE: u8 = b't';

    /// The token of checkpoint number `sequence` of this invocation.
    pub fn new(execution: ExecutionId, invocation: &str, sequence: u64) -> Self {
        Self {
            execution,
            invocation: digest128(&[invocation.as_bytes()]),
            sequence,
        }
    }

    /// The token as text, signed by the key `key` (by the current one if that is gone).
    pub fn mint(&self, keys: &Keys, key: u32) -> String {
        let mut body = [0u8; 40];
        let fields = self.execution.bits().to_be_bytes().into_iter();
        let fields = fields
            .chain(self.invocation.to_be_bytes())
            .chain(self.sequence.to_be_bytes());
        for (to, from) in body.iter_mut().zip(fields) {
            *to = from;
        }
        STANDARD.encode(keys.seal(key, Self::PURPOSE, &body))
    }

    /// Reads a token back.
    ///
    /// # Errors
    /// When the text is no token that one of these keys signed.
    pub fn parse(keys: &Keys, text: &str) -> Result<Self, Rejection> {
        Self::read(keys, text).ok_or_else(|| Rejection::stale_token("not a token of this service"))
    }

    fn read(keys: &Keys, text: &str) -> Option<Self> {
        if text.len() > CHECKPOINT_TOKEN_LENGTH_MAX {
            return None;
        }
        let bytes = STANDARD.decode(text).ok()?;
        let body = keys.open(Self::PURPOSE, &bytes)?;
        let (execution, rest) = body.split_at_checked(16)?;
        let (invocation, sequence) = rest.split_at_checked(16)?;
        Some(Self {
            execution: ExecutionId::from_bits(u128::from_be_bytes(execution.try_into().ok()?)),
            invocation: u128::from_be_bytes(invocation.try_into().ok()?),
            sequence: u64::from_be_bytes(sequence.try_into().ok()?),
        })
    }
}

/// What a callback id says: which operation of which execution it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackId {
    /// The execution to route to.
    pub execution: ExecutionId,
    /// The operation's number in creation order.
    pub operation: u32,
    nonce: u128,
}

impl CallbackId {
    const PURPOSE: u8 = b'c';

    /// An id for this operation; `random` makes it unguessable.
    pub fn new(execution: ExecutionId, operation: u32, random: &[u8; 32]) -> Self {
        Self {
            execution,
            operation,
            nonce: digest128(&[b"callback", random, &operation.to_be_bytes()]),
        }
    }

    /// The id as text: letters and digits only, so it never needs escaping in a URL.
    pub fn mint(&self, keys: &Keys) -> String {
        let mut body = [0u8; 36];
        let fields = self.execution.bits().to_be_bytes().into_iter();
        let fields = fields
            .chain(self.operation.to_be_bytes())
            .chain(self.nonce.to_be_bytes());
        for (to, from) in body.iter_mut().zip(fields) {
            *to = from;
        }
        hex(&keys.seal(keys.current.id, Self::PURPOSE, &body))
    }

    /// Reads an id back.
    ///
    /// # Errors
    /// When the text is no id that one of these keys signed.
    pub fn parse(keys: &Keys, text: &str) -> Result<Self, Rejection> {
        Self::read(keys, text).ok_or_else(|| Rejection::invalid("Invalid callback id"))
    }

    fn read(keys: &Keys, text: &str) -> Option<Self> {
        if text.len() > CALLBACK_ID_LENGTH_MAX {
            return None;
        }
        let bytes = unhex(text)?;
        let body = keys.open(Self::PURPOSE, &bytes)?;
        let (execution, rest) = body.split_at_checked(16)?;
        let (operation, nonce) = rest.split_at_checked(4)?;
        Some(Self {
            execution: ExecutionId::from_bits(u128::from_be_bytes(execution.try_into().ok()?)),
            operation: u32::from_be_bytes(operation.try_into().ok()?),
            nonce: u128::from_be_bytes(nonce.try_into().ok()?),
        })
    }
}

/// Bytes of lower-case hex, or nothing if it is not that.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(Key::new(7, [3; 32]))
    }

    fn execution() -> ExecutionId {
        ExecutionId::from_bits(0x1234_5678)
    }

    #[test]
    fn the_mac_agrees_with_the_published_vectors() {
        let check = |key: &[u8], text: &[u8], expected: &str| {
            assert_eq!(hex(&hmac_sha256(key, &[text])), expected);
        };
        check(
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        );
        check(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[test]
    fn tokens_read_back_and_use_the_standard_alphabet() {
        let token = CheckpointToken::new(execution(), "invocation", 41);
        let text = token.mint(&keys(), 7);
        assert_eq!(CheckpointToken::parse(&keys(), &text), Ok(token));
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        assert!(text.bytes().all(allowed) && text.len() < CHECKPOINT_TOKEN_LENGTH_MAX);
    }

    #[test]
    fn callback_ids_read_back_and_are_letters_and_digits() {
        let id = CallbackId::new(execution(), 9, &[1; 32]);
        let text = id.mint(&keys());
        assert_eq!(CallbackId::parse(&keys(), &text), Ok(id));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(
            text,
            CallbackId::new(execution(), 9, &[2; 32]).mint(&keys())
        );
        assert_ne!(
            text,
            CallbackId::new(execution(), 8, &[1; 32]).mint(&keys())
        );
    }

    #[test]
    fn any_changed_byte_is_refused() {
        let token = CheckpointToken::new(execution(), "i", 1).mint(&keys(), 7);
        let bytes = STANDARD.decode(&token).unwrap();
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            let refused = CheckpointToken::parse(&keys(), &STANDARD.encode(&forged)).unwrap_err();
            assert!(refused.is_stale_token(), "byte {at}");
        }
        let id = CallbackId::new(execution(), 1, &[5; 32]).mint(&keys());
        for at in 0..id.len() {
            let mut forged = id.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(forged).unwrap();
            assert!(CallbackId::parse(&keys(), &forged).is_err(), "digit {at}");
        }
    }

    #[test]
    fn a_token_is_no_callback_id_even_with_the_same_bytes() {
        let sealed = keys().seal(7, CheckpointToken::PURPOSE, &[0; 36]);
        assert!(CallbackId::parse(&keys(), &hex(&sealed)).is_err());
    }

    #[test]
    fn rotated_keys_keep_old_ids_valid_and_unknown_keys_do_not() {
        let id = CallbackId::new(execution(), 1, &[5; 32]);
        let old = id.mint(&keys());
        let rotated = keys().rotated(Key::new(8, [4; 32]));
        assert_eq!(CallbackId::parse(&rotated, &old), Ok(id));
        assert!(CallbackId::parse(&keys(), &id.mint(&rotated)).is_err());
        let token = CheckpointToken::new(execution(), "i", 1);
        assert_eq!(token.mint(&rotated, 7), token.mint(&keys(), 7));
        assert_eq!(token.mint(&rotated, 99), token.mint(&rotated, 8));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "a", "====", "zz", "0x", "ÄÄ"] {
            assert!(CheckpointToken::parse(&keys(), text).is_err());
            assert!(CallbackId::parse(&keys(), text).is_err());
        }
    }
}
