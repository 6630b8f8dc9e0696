//! Where the engine's random bytes come from: the system, or a seed.

use outlast_core::random::SplitMix64;
use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

/// Gives random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fresh bytes, never given before.
    fn bytes(&self) -> [u8; 32];
}

/// A seed stretched: fast, and the same seed gives the same bytes.
///
/// Not for secrets: keys come from [`secret`].
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

/// The system's random bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn bytes(&self) -> [u8; 32] {
        secret().unwrap_or_default()
    }
}

/// Bytes that nobody can guess.
///
/// # Errors
/// When the system has none to give.
pub fn secret() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no random bytes: {error}"))?;
    Ok(bytes)
}
