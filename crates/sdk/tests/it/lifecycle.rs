//! The central lifecycle on the test kit: when an invocation suspends, and when it must not.

mod cleanup;
mod loose;
mod misuse;
mod phases;
mod races;
mod rules;
mod shapes;
mod signals;
mod timers;

use outlast::{
    Context, Result, TerminationReason,
    core::wire::{InvocationStatus, OperationStatus},
    testing::{TestKit, TestRun},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A handler without input on the kit. An invocation that hangs is killed after an hour of virtual
/// time, which no test needs.
fn kit<O, H, Fut>(handler: H) -> TestKit
where
    O: serde::Serialize + Send + 'static,
    H: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
{
    TestKit::new("f", move |ctx: Context, (): ()| handler(ctx)).function_timeout(secs(3_600))
}

/// How each invocation ended: why it suspended, or nothing when it answered.
fn reasons(run: &TestRun) -> Vec<Option<TerminationReason>> {
    let reason = |invocation: &outlast::testing::Invocation| {
        let outcome = invocation.outcome.as_ref().expect("it hung and was killed");
        let status = outcome.answer.as_ref().map(|answer| answer.status);
        assert_eq!(
            status == Ok(InvocationStatus::Pending),
            outcome.reason.is_some(),
            "only suspensions have a reason"
        );
        outcome.reason
    };
    run.invocations().iter().map(reason).collect()
}

/// Requests that only asked what changed.
fn refreshes(run: &TestRun) -> usize {
    run.requests_text().matches("(refresh)").count()
}

fn status(run: &TestRun, name: &str) -> OperationStatus {
    run.operation(name).expect("it is recorded").status
}

/// Counts things across invocations.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicU32>);

impl Counter {
    fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A step's body that takes this long.
async fn busy(duration: Duration) -> Result<u32, io::Error> {
    tokio::time::sleep(duration).await;
    Ok(1)
}

/// A step's body that fails until its `good` attempt.
fn flaky(attempt: u32, good: u32) -> Result<u32, &'static str> {
    if attempt < good {
        Err("not yet")
    } else {
        Ok(attempt)
    }
}
