//! What users plausibly write that is not quite right, and what must come of it.

use outlast::{
    Context, ErrorKind, Retry,
    core::wire::ExecutionStatus,
    testing::{Recording, TestKit},
};
use std::time::Duration;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn unchanged_code_with_combinators_fits_its_own_recording() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let steps = (0..3).map(|n| ctx.step("s", move |_| async move { outlast::ok(n) }));
        let all: Vec<u32> = ctx.try_join_all("all", steps).await?;
        let answer = ctx
            .step("fast", async |_| outlast::ok(1))
            .future()
            .map(Some);
        let late = ctx.wait(secs(60)).future().map(|()| None);
        let first = ctx.race("first", [answer, late]).await?;
        ctx.wait(secs(5)).await?;
        outlast::ok((all, first))
    });
    let run = kit.run(()).await;
    assert_eq!(
        run.result::<(Vec<u32>, Option<u32>)>().unwrap(),
        (vec![0, 1, 2], Some(1))
    );
    kit.replay_check(&run.recording()).await.assert_compatible();
    let told = Recording::from_history(run.arn(), run.history());
    kit.replay_check(&told).await.assert_compatible();
}

#[tokio::test]
async fn a_run_that_never_ends_proves_nothing_about_crashes() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.wait_signal::<String>("never").await
    });
    let report = kit.crash_everywhere(()).await;
    assert!(!report.ended);
    let asserted = std::panic::catch_unwind(|| report.assert_same());
    assert!(asserted.is_err());
}

#[tokio::test]
async fn an_operation_awaited_twice_is_an_error_and_not_a_hang() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| {
        let mut step = ctx.step("s", async |_| outlast::ok(1)).future();
        let once = (&mut step).await?;
        let again = step.await.unwrap_err();
        outlast::ok((
            once,
            again.kind() == ErrorKind::InvalidInput,
            again.to_string(),
        ))
    })
    .run(())
    .await;
    let (once, invalid, message) = run.result::<(u32, bool, String)>().unwrap();
    assert!(
        once == 1 && invalid && message.contains("awaited again"),
        "{message}"
    );
}

#[tokio::test]
async fn a_huge_error_is_recorded_in_part_and_can_be_handled() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| {
        let step = ctx.step("s", async |_| Err::<(), _>("x".repeat(2 << 20)));
        let error = step.retry(Retry::none()).await.unwrap_err();
        outlast::ok((error.kind() == ErrorKind::Step, error.message().len()))
    })
    .run(())
    .await;
    let (is_step, length) = run.result::<(bool, usize)>().unwrap();
    assert!(is_step && length < 70_000);
}

#[tokio::test]
async fn a_failed_compensation_stands_in_the_trace_of_the_error() {
    let run = TestKit::new("f", async |ctx: Context, (): ()| {
        let block = async |saga: outlast::Saga<'static>| {
            saga.undo_with("refund", Retry::none(), |_| async {
                Err::<(), _>("bank is closed")
            });
            let ship = ctx.step("ship", async |_| Err::<(), _>("no parcels"));
            ship.retry(Retry::none()).await
        };
        ctx.saga(block).await
    })
    .run(())
    .await;
    let error = run.error().unwrap();
    assert_eq!(error.error_message.as_deref(), Some("no parcels"));
    let trace = error.stack_trace.as_ref().unwrap().join("\n");
    assert!(trace.contains("bank is closed"), "{trace}");
}

#[tokio::test]
async fn a_destructor_that_panics_at_suspension_harms_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }
    let run = TestKit::new("f", async |ctx: Context, (): ()| {
        let bomb = Bomb;
        ctx.wait(secs(5)).await?;
        std::mem::forget(bomb);
        outlast::ok(7)
    })
    .run(())
    .await;
    assert_eq!(run.status(), ExecutionStatus::Succeeded);
}
