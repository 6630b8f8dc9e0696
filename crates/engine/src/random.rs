//! Where the engine's random bytes come from: the system, or a seed.

use outlast_core::{random::SplitMix64, token::hmac_sha256};
use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Gives random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fresh bytes, never given before.
    fn bytes(&self) -> [u8; 32];
}

/// A seed stretched: fast, and the same seed gives the same bytes.
///
/// Not for secrets.
pub struct Seeded(Mutex<SplitMix64>);

impl Seeded {
    /// The bytes that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(SplitMix64::new(seed)))
    }
}

impl fmt::Debug for Seeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeded")
    }
}

impl Random for Seeded {
    fn bytes(&self) -> [u8; 32] {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        bytes
    }
}

/// Bytes that nobody can guess, without asking the system each time: its secret, stretched.
pub struct SystemRandom {
    secret: [u8; 32],
    given: AtomicU64,
}

impl SystemRandom {
    /// A source of its own.
    ///
    /// # Errors
    /// When the system has no random bytes to give.
    pub fn new() -> Result<Self, String> {
        Ok(Self {
            secret: secret()?,
            given: AtomicU64::new(0),
        })
    }
}

impl fmt::Debug for SystemRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemRandom")
    }
}

impl Random for SystemRandom {
    fn bytes(&self) -> [u8; 32] {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        hmac_sha256(&self.secret, &[&number.to_le_bytes()])
    }
}

/// The system's random bytes.
fn secret() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no random bytes: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_and_never_the_same_twice() {
        let (one, other) = (Seeded::new(7), Seeded::new(7));
        let first = one.bytes();
        assert_eq!(first, other.bytes());
        assert_ne!(first, one.bytes());
        assert_ne!(first, Seeded::new(8).bytes());
    }

    #[test]
    fn two_sources_of_the_system_never_agree() {
        let (one, other) = (SystemRandom::new().unwrap(), SystemRandom::new().unwrap());
        assert_ne!(one.bytes(), other.bytes());
        assert_ne!(one.bytes(), one.bytes());
    }
}
