//! The engine's time.
//!
//! Wall time is read once, when the clock is made; from then on time is what has passed since. A
//! system clock that is set back or forth while the engine runs therefore neither delays a timer
//! nor fires one early. After a restart the new wall time counts; the core never lets an
//! execution's time go backwards.

use outlast_core::time::Timestamp;
use tokio::time::Instant;

/// Tells what time it is. Sleeping goes through tokio, whose clock a simulation pauses.
pub trait Clock: Send + Sync + 'static {
    /// The current moment.
    fn now(&self) -> Timestamp;
}

/// Wall time at a moment, plus what tokio's clock says has passed since.
#[derive(Clone, Copy, Debug)]
pub struct EngineClock {
    origin: Timestamp,
    start: Instant,
}

impl EngineClock {
    /// A clock that says `origin` now.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self {
            origin,
            start: Instant::now(),
        }
    }

    /// A clock that begins with the system's.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the engine reads the system's clock"
    )]
    pub fn system() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self::starting_at(Timestamp::from_millis(millis))
    }
}

impl Clock for EngineClock {
    fn now(&self) -> Timestamp {
        let passed = self.start.elapsed().as_millis();
        self.origin
            .plus_millis(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn time_is_the_origin_plus_what_has_passed() {
        let clock = EngineClock::starting_at(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(6_000));
    }
}
