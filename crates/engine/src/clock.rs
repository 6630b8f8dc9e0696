//! The engine's time.
//!
//! Wall time is read once, when the clock is made; from then on time is what has passed since. A
//! system clock that is set back or forth while the engine runs therefore neither delays a timer
//! nor fires one early. Time that the machine was asleep has passed too. After a restart the new
//! wall time counts; the core never lets an execution's time go backwards.

use outlast_core::time::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// Tells what time it is. Sleeping goes through tokio, whose clock a simulation pauses.
pub trait Clock: Send + Sync + 'static {
    /// The current moment.
    fn now(&self) -> Timestamp;
}

/// The system's clock, as it is set now: for whoever compares with the clocks of others.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        wall_time()
    }
}

/// Wall time at a moment, plus what has passed since.
#[derive(Clone, Copy, Debug)]
pub struct EngineClock {
    origin: Timestamp,
    start: Start,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    /// By tokio's clock, which stands still while the machine sleeps, or as a simulation says.
    Tokio(Instant),
    /// By the time since the machine was started.
    #[cfg(target_os = "linux")]
    Boot(Duration),
}

impl EngineClock {
    /// A clock that says `origin` now and then follows tokio's.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self {
            origin,
            start: Start::Tokio(Instant::now()),
        }
    }

    /// A clock that begins with the system's and then follows tokio's, which a test can pause.
    pub fn tokio() -> Self {
        Self::starting_at(wall_time())
    }

    /// A clock that begins with the system's and goes on while the machine sleeps.
    pub fn system() -> Self {
        #[cfg(target_os = "linux")]
        let start = Start::Boot(since_boot());
        #[cfg(not(target_os = "linux"))]
        let start = Start::Tokio(Instant::now());
        Self {
            origin: wall_time(),
            start,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the engine reads the system's clock"
)]
fn wall_time() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(millis(since))
}

impl Clock for EngineClock {
    fn now(&self) -> Timestamp {
        let passed = match self.start {
            Start::Tokio(start) => start.elapsed(),
            #[cfg(target_os = "linux")]
            Start::Boot(start) => since_boot().saturating_sub(start),
        };
        self.origin.plus_millis(millis(passed))
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let passed = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(passed).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_is_the_origin_plus_what_has_passed() {
        let clock = EngineClock::starting_at(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(6_000));
    }

    #[tokio::test]
    async fn the_systems_clock_goes_on() {
        let clock = EngineClock::system();
        let before = clock.now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(clock.now() > before);
    }
}
