//! The SDK's view of time.
//!
//! Sleeping goes through tokio; only the wall clock is injected. Under the test kit tokio's time is
//! paused and this clock follows it, so timers of the SDK and of user code share one timeline.

use outlast_core::time::Timestamp;
use std::{fmt, sync::Arc, time::Duration};

/// Tells what time it is.
pub trait Clock: Send + Sync + 'static {
    /// The current moment.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the SDK reads the system's clock"
    )]
    fn now(&self) -> Timestamp {
        let elapsed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Timestamp::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A shared clock.
#[derive(Clone)]
pub(crate) struct SharedClock(pub(crate) Arc<dyn Clock>);

impl SharedClock {
    pub(crate) fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedClock")
    }
}

/// Whole seconds of a duration, rounded up; `None` when it is longer than `max`.
pub(crate) fn whole_seconds(duration: Duration, max: u32) -> Option<u32> {
    let part = u64::from(duration.subsec_nanos() > 0);
    let seconds = duration.as_secs().saturating_add(part);
    u32::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_to_whole_seconds_and_respect_the_maximum() {
        let check =
            |ms: u64, expected| assert_eq!(whole_seconds(Duration::from_millis(ms), 10), expected);
        check(0, Some(0));
        check(1, Some(1));
        check(1_000, Some(1));
        check(1_001, Some(2));
        check(9_001, Some(10));
        check(10_000, Some(10));
        check(10_001, None);
        assert_eq!(whole_seconds(Duration::MAX, u32::MAX), None);
    }
}
