//! Many executions do not keep others from being woken.

use crate::host::{Deed, boot, start};
use outlast_core::wire::ExecutionStatus;
use outlast_engine::{Engine, Options, store::memory::MemoryStore};
use std::{sync::Arc, time::Duration};

/// Waits until everything that was started has been called and sleeps. A paused clock moves when
/// nothing else can.
async fn all_rest(engine: &Engine) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(engine.health().invocations, 0);
}

#[tokio::test(start_paused = true)]
async fn a_far_timer_fires_after_more_executions_than_wakes_fit_in_memory() {
    let store = Arc::new(MemoryStore::new());
    let functions = [
        ("short", Deed::Nothing),
        ("sleeper", Deed::Sleep { seconds: 600 }),
    ];
    let (engine, _) = boot(&store, 1_000, &functions).await;
    for _ in 0..50_001 {
        start(&engine, "short").await;
    }
    all_rest(&engine).await;
    // What has ended leaves no wake in memory.
    assert_eq!(engine.health().wakes, 0);
    let sleeper = start(&engine, "sleeper").await;
    let end = tokio::time::timeout(Duration::from_secs(700), engine.end(sleeper)).await;
    assert_eq!(end.unwrap().unwrap().status, ExecutionStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn sleepers_beyond_the_horizon_cost_no_memory_and_all_wake() {
    let store = Arc::new(MemoryStore::new());
    let functions = [("sleeper", Deed::Sleep { seconds: 3_600 })];
    let (engine, _) = boot(&store, 1_000, &functions).await;
    let mut sleepers = Vec::new();
    for _ in 0..2_000 {
        sleepers.push(start(&engine, "sleeper").await);
    }
    // Started faster than they are called, and not kept for that either.
    let resting_max = Options::default().resting_max;
    assert!(engine.health().loaded <= resting_max);
    all_rest(&engine).await;
    let health = engine.health();
    assert_eq!((health.wakes, health.ready, health.watched), (0, 0, 0));
    assert!(health.loaded <= resting_max, "{} loaded", health.loaded);
    for sleeper in sleepers {
        let end = engine.end(sleeper).await.unwrap();
        assert_eq!(end.status, ExecutionStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn more_sleepers_than_fit_into_memory_wake_in_the_same_minute() {
    const FIT: usize = 60_000;
    let store = Arc::new(MemoryStore::new());
    let functions = [("sleeper", Deed::Sleep { seconds: 45 })];
    let (engine, _) = boot(&store, 1_000, &functions).await;
    // Once it runs, it keeps the wakes of a minute in memory.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut sleepers = Vec::new();
    for _ in 0..FIT + 1_000 {
        sleepers.push(start(&engine, "sleeper").await);
    }
    all_rest(&engine).await;
    assert_eq!(engine.health().wakes, FIT);
    for sleeper in sleepers {
        let end = tokio::time::timeout(Duration::from_secs(120), engine.end(sleeper)).await;
        assert_eq!(end.unwrap().unwrap().status, ExecutionStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn a_herd_of_timers_does_not_delay_an_execution_of_another_function() {
    const HERD: usize = 20_000;
    /// Invocations of the herd that may have begun before the other is called: as many as may begin
    /// at once, and as many again while the other's start is stored.
    const BEFORE_MAX: usize = 2 * 64;
    let store = Arc::new(MemoryStore::new());
    let functions = [
        ("herd", Deed::Sleep { seconds: 30 }),
        ("quick", Deed::Nothing),
    ];
    let (engine, calls) = boot(&store, 1_000, &functions).await;
    for _ in 0..HERD {
        start(&engine, "herd").await;
    }
    all_rest(&engine).await;
    calls.lock().unwrap().clear();
    // The first of the herd has been called: all of it is due.
    while calls.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut waited = Vec::new();
    while calls.lock().unwrap().len() < HERD {
        let before = calls.lock().unwrap().len();
        let quick = start(&engine, "quick").await;
        engine.end(quick).await.unwrap();
        let calls = calls.lock().unwrap();
        let called = calls
            .iter()
            .skip(before)
            .position(|name| &**name == "quick");
        waited.push(called.unwrap());
    }
    let longest = waited.iter().copied().max().unwrap_or(0);
    assert!(longest <= BEFORE_MAX, "{longest} of the herd came before");
}
