//! Time that runs out: execution timeouts and retention, in virtual time.

use outlast::{
    App, Clock, Config, Context, Embedded, Function, Result,
    core::{time::Timestamp, wire::ExecutionStatus},
    engine::store::memory::MemoryStore,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

async fn open(function: Function) -> Embedded {
    let app = App::new().register(function);
    app.open_on(Arc::new(MemoryStore::new())).await.unwrap()
}

async fn sleep(ctx: Context, seconds: u64) -> Result<u64> {
    ctx.wait(Duration::from_secs(seconds)).await?;
    Ok(seconds)
}

#[tokio::test(start_paused = true)]
async fn an_execution_ends_when_its_time_is_over_and_not_before() {
    for (seconds, status) in [
        (9, ExecutionStatus::Succeeded),
        (11, ExecutionStatus::TimedOut),
    ] {
        let limit = Duration::from_secs(10);
        let home = open(Function::new("sleep", sleep).execution_timeout(limit)).await;
        let begun = Instant::now();
        let execution = home.start("sleep", &seconds).await.unwrap();
        let result = execution.result::<u64>().await;
        assert_eq!(execution.status().await.unwrap(), status);
        assert_eq!(result.is_ok(), status == ExecutionStatus::Succeeded);
        let took = begun.elapsed().as_secs();
        assert_eq!(took, seconds.min(10));
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_handler_hangs_ends_when_its_time_is_over() {
    async fn hang(_: Context, (): ()) -> Result<()> {
        std::future::pending().await
    }
    let limit = Duration::from_secs(10);
    let home = open(Function::new("hang", hang).execution_timeout(limit)).await;
    let begun = Instant::now();
    let execution = home.start("hang", &()).await.unwrap();
    execution.result::<()>().await.unwrap_err();
    assert_eq!(execution.status().await.unwrap(), ExecutionStatus::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_closed_execution_is_deleted_after_its_retention_and_its_name_is_free() {
    const DAY: Duration = Duration::from_secs(86_400);
    let home = open(Function::new("sleep", sleep).retention_days(1)).await;
    let execution = home.start("sleep", &1).name("daily").await.unwrap();
    assert_eq!(execution.result::<u64>().await.unwrap(), 1);
    let other = home.start("sleep", &2).name("daily").await;
    other.expect_err("the name is taken");
    tokio::time::sleep(DAY - Duration::from_secs(2)).await;
    let kept = home.find("sleep", "daily").await.unwrap();
    assert_eq!(kept.unwrap().arn(), execution.arn());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(home.find("sleep", "daily").await.unwrap().is_none());
    execution.status().await.expect_err("it is gone");
    let again = home.start("sleep", &2).name("daily").await.unwrap();
    assert!(!again.existed());
    assert_eq!(again.result::<u64>().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_runs_longer_than_the_retention_is_kept() {
    let home = open(Function::new("sleep", sleep).retention_days(1)).await;
    let week = 7 * 86_400;
    let execution = home.start("sleep", &week).await.unwrap();
    assert_eq!(execution.result::<u64>().await.unwrap(), week);
}

#[tokio::test(start_paused = true)]
async fn a_handler_follows_the_clock_of_its_engine_whatever_its_configuration_says() {
    struct Stopped;
    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }
    }
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let handler = move |ctx: Context, seconds: u64| {
        counted.fetch_add(1, Ordering::Relaxed);
        sleep(ctx, seconds)
    };
    // By the clock that stands, the wait is decades away, and the invocation would end meanwhile.
    let config = Config::new()
        .keep_alive(Duration::from_secs(3_600))
        .clock(Stopped);
    let home = open(Function::new("sleep", handler).config(config)).await;
    let execution = home.start("sleep", &5).await.unwrap();
    assert_eq!(execution.result::<u64>().await.unwrap(), 5);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
