//! The engine's time.
//!
//! Wall time is read once, when the clock is made; from then on time is what has passed since. A
//! system clock that is set back or forth while the engine runs therefore neither delays a timer
//! nor fires one early. Time that the machine was asleep has passed too.
//!
//! After a restart the new wall time counts, unless it is before the newest time that the store
//! knows: then the engine goes on from that one, and its time stays ahead of the wall until the wall
//! has caught up. So time never goes back, and a timer is late by no more than the engine was down,
//! and [`NOTED_EVERY`] on top if it crashed. The store knows the time of the newest start, and a
//! note that the engine leaves in it now and then and at a clean end.
//!
//! A wall clock that is ahead when the engine starts cannot be told from a long pause: timers that
//! are due by then fire. When it is corrected later, timers set in the meantime still last as long
//! as they should; it is only their timestamps that lie in the future.

use crate::{
    error::Error,
    store::{CommitError, Query, Store, StoreError},
};
use outlast_core::time::Timestamp;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// How often the engine notes its time in the store.
pub const NOTED_EVERY: Duration = Duration::from_secs(60);
/// The setting that keeps the note: milliseconds, eight bytes, the lowest first.
const TIME_SETTING: &str = "time";

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

/// A clock that stands still until somebody moves it: for tests of a whole server, in which a day
/// must not take one and nothing may depend on how fast the machine is.
#[derive(Debug)]
pub struct TestClock {
    now_ms: AtomicU64,
}

impl TestClock {
    /// A clock that stands at the system's time.
    pub fn new() -> Self {
        Self {
            now_ms: AtomicU64::new(wall_time().as_millis()),
        }
    }

    /// Moves it on; it never goes back. Whoever sleeps by it has to be told.
    pub fn skip_to(&self, moment: Timestamp) {
        self.now_ms.fetch_max(moment.as_millis(), Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.load(Ordering::SeqCst))
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

/// A clock that does not go back behind what a store knows.
pub(crate) struct StoreClock {
    clock: Arc<dyn Clock>,
    ahead_ms: u64,
    /// The time that was last noted, or tried to.
    noted: AtomicU64,
}

impl StoreClock {
    /// A clock that follows `clock`, from the newest time on that the store knows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn new(clock: Arc<dyn Clock>, store: &dyn Store) -> Result<Self, Error> {
        let now = clock.now();
        let known = newest_time(store)?;
        let ahead_ms = known.map_or(0, |known| known.millis_since(now));
        if ahead_ms > 0 {
            tracing::warn!(
                behind_ms = ahead_ms,
                "the system's clock is behind what the store has seen; time goes on from there"
            );
        }
        let noted = AtomicU64::new(now.plus_millis(ahead_ms).as_millis());
        Ok(Self {
            clock,
            ahead_ms,
            noted,
        })
    }

    /// Whether it is time for a note; whoever is told leaves it. One task asks.
    pub(crate) fn wants_note(&self) -> bool {
        let due = self.until_note().is_zero();
        if due {
            let now = self.now().as_millis();
            self.noted.store(now, Ordering::Relaxed);
        }
        due
    }

    /// How long until the next note.
    pub(crate) fn until_note(&self) -> Duration {
        let noted = Timestamp::from_millis(self.noted.load(Ordering::Relaxed));
        NOTED_EVERY.saturating_sub(Duration::from_millis(self.now().millis_since(noted)))
    }

    /// Leaves a note of the time.
    pub(crate) async fn note(&self, store: &dyn Store) -> Result<(), CommitError> {
        let time = self.now().as_millis().to_le_bytes();
        store.put_setting(TIME_SETTING, time.to_vec()).await
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.clock.now().plus_millis(self.ahead_ms)
    }
}

fn newest_time(store: &dyn Store) -> Result<Option<Timestamp>, Error> {
    let noted = match store.setting(TIME_SETTING)? {
        Some(bytes) => {
            let bytes = <[u8; 8]>::try_from(bytes.as_slice()).map_err(|_| {
                let reason = "the setting 'time' is not a time".into();
                Error::Unreadable(StoreError::Unreadable(reason))
            })?;
            Some(Timestamp::from_millis(u64::from_le_bytes(bytes)))
        }
        None => None,
    };
    let newest = Query {
        newest_first: true,
        max: 1,
        ..Query::default()
    };
    let started = store.list(&newest)?;
    let started = started.first().map(|(_, head)| head.started);
    Ok(noted.max(started))
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
    use crate::store::memory::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn time_is_the_origin_plus_what_has_passed() {
        let clock = EngineClock::starting_at(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(6_000));
    }

    fn at(millis: u64) -> Arc<dyn Clock> {
        Arc::new(EngineClock::starting_at(Timestamp::from_millis(millis)))
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_from_the_note_if_the_clock_is_behind_it() {
        let store = MemoryStore::new();
        let clock = StoreClock::new(at(5_000), &store).unwrap();
        clock.note(&store).await.unwrap();
        for (wall, expected) in [(4_999, 5_000), (5_000, 5_000), (5_001, 5_001), (0, 5_000)] {
            let clock = StoreClock::new(at(wall), &store).unwrap();
            assert_eq!(clock.now().as_millis(), expected, "{wall}");
            tokio::time::advance(Duration::from_millis(7)).await;
            assert_eq!(clock.now().as_millis(), expected + 7, "{wall}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_is_wanted_once_a_minute() {
        let clock = StoreClock::new(at(5_000), &MemoryStore::new()).unwrap();
        tokio::time::advance(NOTED_EVERY - Duration::from_millis(1)).await;
        assert!(!clock.wants_note());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(clock.wants_note());
        assert!(!clock.wants_note());
        tokio::time::advance(NOTED_EVERY + Duration::from_millis(1)).await;
        assert!(clock.wants_note());
    }

    #[tokio::test]
    async fn a_note_that_is_no_time_is_refused() {
        let store = MemoryStore::new();
        let put = store.put_setting(TIME_SETTING, vec![1; 7]);
        put.await.unwrap();
        let opened = StoreClock::new(at(5_000), &store).map(drop);
        assert!(matches!(opened, Err(Error::Unreadable(_))), "{opened:?}");
    }

    #[tokio::test]
    async fn a_test_clock_stands_still_until_it_is_moved_and_never_goes_back() {
        let clock = TestClock::new();
        let before = clock.now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(clock.now(), before);
        clock.skip_to(before.plus_millis(86_400_000));
        clock.skip_to(before);
        assert_eq!(clock.now(), before.plus_millis(86_400_000));
    }

    #[tokio::test]
    async fn the_systems_clock_goes_on() {
        let clock = EngineClock::system();
        let before = clock.now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(clock.now() > before);
    }
}
