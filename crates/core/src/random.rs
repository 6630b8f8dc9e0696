//! A small random generator whose sequence is frozen for ever.
//!
//! Durable programs derive numbers from stored seeds and must get the same ones in years, so the
//! algorithm is named and written here: SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.

/// SplitMix64: a seed gives one sequence, on every platform, in every release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero when `bound` is zero.
    ///
    /// Uses the high half of a 128-bit product; its bias is below 2^-32 for the bounds used here.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A fraction in `[0, 1)` with 53 random bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub const fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut random = SplitMix64::new(7);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        for _ in 0..1_000 {
            assert!(random.below(10) < 10);
            assert!((0.0..1.0).contains(&random.fraction()));
        }
    }
}
