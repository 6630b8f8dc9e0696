//! Whatever the wall clock says at the next boot, no timer is lost, and none fires before its time.

use crate::host::{Deed, boot, crash, start};
use outlast_core::wire::ExecutionStatus;
use outlast_engine::{clock::NOTED_EVERY, store::memory::MemoryStore};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;
/// When the first boot begins.
const ORIGIN: u64 = 2 * YEAR_MS;

/// How the first boot ends.
#[derive(Clone, Copy)]
enum End {
    Crash,
    ShutDown,
}

/// Sleeps for an hour in one boot, is found again in the next, whose clock says `origin`, and tells
/// how long it took there.
async fn sleep_over(origin: u64) -> Duration {
    sleep_over_after(1, End::Crash, origin).await
}

/// The same, with a first boot of so many seconds that ends like this.
async fn sleep_over_after(seconds: u64, end: End, origin: u64) -> Duration {
    let store = Arc::new(MemoryStore::new());
    let functions = [("sleeper", Deed::Sleep { seconds: 3_600 })];
    let (engine, _) = boot(&store, ORIGIN, &functions).await;
    let sleeper = start(&engine, "sleeper").await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let store = match end {
        End::Crash => crash(&engine, &store),
        End::ShutDown => {
            engine.shut_down().await;
            Arc::new(store.crash())
        }
    };
    let begun = Instant::now();
    let (engine, _) = boot(&store, origin, &functions).await;
    let end = engine.end(sleeper).await.unwrap();
    assert_eq!(end.status, ExecutionStatus::Succeeded);
    begun.elapsed()
}

fn assert_about(took: Duration, expected_ms: u64) {
    let took = u64::try_from(took.as_millis()).unwrap();
    // The timer rounds up to its resolution; earlier than that is never right.
    assert!((expected_ms..expected_ms + 50).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_at_its_wall_time_after_a_restart() {
    assert_about(sleep_over(ORIGIN + 2_000).await, HOUR_MS - 2_000);
    assert_about(sleep_over(ORIGIN + HOUR_MS - 1).await, 1);
    assert_about(sleep_over(ORIGIN + HOUR_MS).await, 0);
    assert_about(sleep_over(ORIGIN + HOUR_MS + 1).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumped_a_year_ahead_loses_no_timer() {
    assert_about(sleep_over(ORIGIN + YEAR_MS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_does_not_delay_a_timer() {
    for back in [HOUR_MS, YEAR_MS] {
        let origin = ORIGIN - back;
        // The store knows when the execution was started.
        assert_about(sleep_over(origin).await, HOUR_MS);
        let up = 30 * 60;
        let took = sleep_over_after(up, End::ShutDown, origin).await;
        assert_about(took, HOUR_MS - up * 1_000);
        // It has a note that is a minute old, or less.
        let took = sleep_over_after(up, End::Crash, origin).await;
        let most = Duration::from_millis(HOUR_MS - up * 1_000) + NOTED_EVERY;
        assert!(took <= most, "{took:?}");
        assert!(took + NOTED_EVERY >= most, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_in_flight_goes_on_at_once_although_the_clock_was_set_back_a_year() {
    let store = Arc::new(MemoryStore::new());
    let (engine, calls) = boot(&store, ORIGIN, &[("hang", Deed::Hang)]).await;
    let hanging = start(&engine, "hang").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
    let store = crash(&engine, &store);
    let (engine, _) = boot(&store, ORIGIN - YEAR_MS, &[("hang", Deed::Nothing)]).await;
    let end = timeout(Duration::from_secs(1), engine.end(hanging)).await;
    assert_eq!(end.unwrap().unwrap().status, ExecutionStatus::Succeeded);
}
