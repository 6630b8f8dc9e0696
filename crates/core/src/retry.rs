//! When to try again: the delays of retried steps and polled conditions.
//!
//! A policy is data, and a delay follows from the policy, the attempts made and a seed alone. This
//! file starts no timer, draws no chance of its own and does not know what an error is beyond its
//! type and message.

#[cfg(test)]
mod tests;

use crate::{
    limits::{DELAY_SECONDS_MAX, DELAY_SECONDS_MIN},
    random::SplitMix64,
};
use alloc::{string::String, vec::Vec};

/// How far chance spreads a delay, so that many failed attempts do not return together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// The computed delay itself, rounded up to whole seconds.
    None,
    /// Anything from nothing to the computed delay, rounded to the nearest second.
    #[default]
    Full,
    /// Anything from half the computed delay to all of it, rounded up to whole seconds.
    Half,
}

/// How the delay grows from one attempt to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// Each delay is the one before times `rate`.
    Exponential {
        /// The factor; 1 keeps the delay constant, below 1 shortens it.
        rate: f64,
    },
    /// Each delay is the one before plus `increment_seconds`.
    Linear {
        /// What is added; 0 keeps the delay constant.
        increment_seconds: u32,
    },
}

/// How often, and after which delays, a failed attempt is repeated.
///
/// A maximum below the initial delay is not a mistake: it is then the delay of every attempt.
///
/// ```
/// use outlast_core::retry::{Jitter, Policy};
///
/// let policy = Policy { jitter: Jitter::None, max_attempts: 3, ..Policy::default() };
/// assert_eq!(policy.delay_seconds(1, 0), Some(5));
/// assert_eq!(policy.delay_seconds(2, 0), Some(10));
/// assert_eq!(policy.delay_seconds(3, 0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// Delay after the first failed attempt.
    pub initial_delay_seconds: u32,
    /// Longest delay, applied before jitter.
    pub max_delay_seconds: u32,
    /// How the delay grows.
    pub growth: Growth,
    /// How chance spreads it.
    pub jitter: Jitter,
}

impl Default for Policy {
    /// What a step does when its author says nothing: 6 attempts, 5 s doubling up to 60 s.
    fn default() -> Self {
        Self {
            max_attempts: 6,
            max_delay_seconds: 60,
            ..Self::exponential()
        }
    }
}

impl Policy {
    /// One attempt, no repetition.
    pub const fn none() -> Self {
        Self {
            max_attempts: 1,
            initial_delay_seconds: 1,
            max_delay_seconds: 1,
            growth: Growth::Exponential { rate: 1.0 },
            jitter: Jitter::None,
        }
    }

    /// Where a custom exponential policy starts: 3 attempts, 5 s doubling up to 300 s.
    pub const fn exponential() -> Self {
        Self {
            max_attempts: 3,
            initial_delay_seconds: 5,
            max_delay_seconds: 300,
            growth: Growth::Exponential { rate: 2.0 },
            jitter: Jitter::Full,
        }
    }

    /// The linear preset: 6 attempts, 1 s, 2 s, 3 s and so on, without jitter.
    pub const fn linear() -> Self {
        Self {
            max_attempts: 6,
            initial_delay_seconds: 1,
            max_delay_seconds: 300,
            growth: Growth::Linear {
                increment_seconds: 1,
            },
            jitter: Jitter::None,
        }
    }

    /// Where a custom linear policy starts: the linear preset, spread by full jitter.
    pub const fn linear_with_jitter() -> Self {
        Self {
            jitter: Jitter::Full,
            ..Self::linear()
        }
    }

    /// For faults that pass quickly: 3 attempts, never sooner than half the delay.
    pub const fn transient() -> Self {
        Self {
            jitter: Jitter::Half,
            ..Self::exponential()
        }
    }

    /// For something that is busy or not there yet: 5 attempts up to 300 s apart.
    pub const fn resource_availability() -> Self {
        Self {
            max_attempts: 5,
            ..Self::exponential()
        }
    }

    /// For what must not be given up early: 10 attempts, 1 s growing by half up to 60 s.
    pub const fn critical() -> Self {
        Self {
            max_attempts: 10,
            initial_delay_seconds: 1,
            max_delay_seconds: 60,
            growth: Growth::Exponential { rate: 1.5 },
            jitter: Jitter::None,
        }
    }

    /// 5 attempts, always `interval_seconds` apart.
    pub const fn fixed(interval_seconds: u32) -> Self {
        Self {
            max_attempts: 5,
            initial_delay_seconds: interval_seconds,
            max_delay_seconds: interval_seconds,
            growth: Growth::Exponential { rate: 1.0 },
            jitter: Jitter::None,
        }
    }

    /// The delay before the next attempt, or `None` when there is to be none.
    ///
    /// `attempts_made` counts the attempt that just failed, so it is at least 1. The same seed may
    /// serve every attempt of an operation: each attempt still gets its own chance. The delay is
    /// whole seconds within what the service accepts, even for a policy that [`Self::validate`]
    /// refuses.
    pub fn delay_seconds(&self, attempts_made: u32, seed: u64) -> Option<u32> {
        if attempts_made >= self.max_attempts {
            return None;
        }
        let base = self.base_seconds(attempts_made);
        let seconds = match self.jitter {
            Jitter::None => rounded_up(base),
            Jitter::Full => rounded(chance(seed, attempts_made) * base),
            Jitter::Half => rounded_up((base + chance(seed, attempts_made) * base) / 2.0),
        };
        Some(seconds.clamp(DELAY_SECONDS_MIN, DELAY_SECONDS_MAX))
    }

    /// Refuses values that cannot be meant.
    ///
    /// # Errors
    /// Names the first field that is out of range, and its value.
    pub fn validate(&self) -> Result<(), InvalidPolicy> {
        if self.max_attempts == 0 {
            return Err(InvalidPolicy::NoAttempts);
        }
        check_delay("initial_delay_seconds", self.initial_delay_seconds)?;
        check_delay("max_delay_seconds", self.max_delay_seconds)?;
        match self.growth {
            Growth::Exponential { rate } if !(rate.is_finite() && rate > 0.0) => {
                Err(InvalidPolicy::Rate { value: rate })
            }
            Growth::Exponential { .. } | Growth::Linear { .. } => Ok(()),
        }
    }

    /// The delay before jitter and rounding, never above the policy's own maximum.
    fn base_seconds(&self, attempts_made: u32) -> f64 {
        let growths = attempts_made.saturating_sub(1);
        let initial = f64::from(self.initial_delay_seconds);
        let grown = match self.growth {
            Growth::Exponential { rate } => initial * power(rate, growths),
            Growth::Linear { increment_seconds } => {
                initial + f64::from(increment_seconds) * f64::from(growths)
            }
        };
        // `min` also turns a NaN (an initial delay of 0 times an overflowed power) into the maximum.
        grown.min(f64::from(self.max_delay_seconds))
    }
}

/// Why a [`Policy`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPolicy {
    /// The first attempt counts, so zero attempts would run nothing.
    #[error("max_attempts is 0, the least is 1")]
    NoAttempts,
    /// A delay the service would not accept.
    #[error("{field} is {value}, allowed is {DELAY_SECONDS_MIN} to {DELAY_SECONDS_MAX}")]
    Delay {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u32,
    },
    /// A growth rate that is no positive number.
    #[error("growth rate is {value}, it must be positive and finite")]
    Rate {
        /// What it holds.
        value: f64,
    },
}

fn check_delay(field: &'static str, value: u32) -> Result<(), InvalidPolicy> {
    if (DELAY_SECONDS_MIN..=DELAY_SECONDS_MAX).contains(&value) {
        Ok(())
    } else {
        Err(InvalidPolicy::Delay { field, value })
    }
}

/// Which errors are worth another attempt.
///
/// With no entry at all every error is; with any entry, only an error that one of them matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Texts of which one must occur in the error's message.
    pub messages: Vec<String>,
    /// Error types of which one must be the error's own, compared whole.
    pub error_types: Vec<String>,
}

impl Filter {
    /// Whether an error with this type and message is worth another attempt.
    pub fn is_retryable(&self, error_type: Option<&str>, message: Option<&str>) -> bool {
        if self.messages.is_empty() && self.error_types.is_empty() {
            return true;
        }
        let named = error_type.is_some_and(|found| self.error_types.iter().any(|t| t == found));
        named || message.is_some_and(|found| self.messages.iter().any(|m| found.contains(&**m)))
    }
}

/// How often, and after which delays, a condition is checked again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitPolicy(pub Policy);

impl Default for WaitPolicy {
    /// 60 checks, 5 s growing by half up to 300 s, full jitter.
    fn default() -> Self {
        Self(Policy {
            max_attempts: 60,
            growth: Growth::Exponential { rate: 1.5 },
            ..Policy::exponential()
        })
    }
}

impl WaitPolicy {
    /// What follows a check. A satisfied condition ends the wait even on the last allowed check.
    pub fn decide(&self, satisfied: bool, attempts_made: u32, seed: u64) -> WaitDecision {
        if satisfied {
            return WaitDecision::Stop;
        }
        match self.0.delay_seconds(attempts_made, seed) {
            Some(delay_seconds) => WaitDecision::Continue { delay_seconds },
            None => WaitDecision::Exhausted,
        }
    }

    /// Refuses values that cannot be meant.
    ///
    /// # Errors
    /// As [`Policy::validate`].
    pub fn validate(&self) -> Result<(), InvalidPolicy> {
        self.0.validate()
    }
}

/// What follows the check of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitDecision {
    /// The condition holds.
    Stop,
    /// Check again after this delay.
    Continue {
        /// Whole seconds until the next check.
        delay_seconds: u32,
    },
    /// It still does not hold and no check is left: an error, never a partial success.
    Exhausted,
}

/// The fraction in `[0, 1)` that belongs to this seed and attempt.
///
/// The seed is scrambled first, so that neighbouring seeds do not share attempts' numbers.
fn chance(seed: u64, attempts_made: u32) -> f64 {
    let scrambled = SplitMix64::new(seed).next_u64() ^ u64::from(attempts_made);
    SplitMix64::new(scrambled).fraction()
}

/// `base` to the power of `exponent`, by squaring: at most 32 rounds, the same on every platform.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

/// The nearest whole number, halves upwards.
fn rounded(seconds: f64) -> u32 {
    let (whole, fraction) = split(seconds);
    if fraction >= 0.5 { whole + 1 } else { whole }
}

/// The whole number not below `seconds`.
fn rounded_up(seconds: f64) -> u32 {
    let (whole, fraction) = split(seconds);
    if fraction > 0.0 { whole + 1 } else { whole }
}

/// Whole part and fraction, within `0..=DELAY_SECONDS_MAX`; NaN counts as zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "limited to the range of u32 just before; the whole part is what is wanted"
)]
fn split(seconds: f64) -> (u32, f64) {
    let limited = seconds.max(0.0).min(f64::from(DELAY_SECONDS_MAX));
    let whole = limited as u32;
    (whole, limited - f64::from(whole))
}
