//! The checkpoint pipeline under failure: what each failure does to the invocation and to the
//! execution, and that user code never gets to see one.

use crate::{
    fake::Fake,
    show::{Sure, answer, calls, calls_of, millis, secs},
};
use insta::assert_snapshot as check;
use outlast::{
    Config, Context, Error, Function, Result, Retry,
    backend::BackendError,
    core::wire::{ExecutionStatus, OperationStatus, StatePage},
    testing::{Fault, TestKit},
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// How often a body ran.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn note(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Two steps in a program that handles every error it can get hold of.
fn stubborn(runs: &Runs) -> TestKit {
    let runs = runs.clone();
    TestKit::new("f", move |ctx: Context, (): ()| {
        let runs = runs.clone();
        async move {
            let mut caught = Vec::new();
            for name in ["a", "b"] {
                let result = ctx.step(name, async |_| Sure::Ok(runs.note())).await;
                caught.extend(result.err().map(|error| error.to_string()));
            }
            Sure::Ok(caught)
        }
    })
}

fn refusal(status: u16, code: &str, message: &str) -> BackendError {
    BackendError::service(status, code, message)
}

// --- classes of failure -----------------------------------------------------------------------

#[tokio::test]
async fn failures_of_the_world_repeat_the_invocation_and_cannot_be_caught() {
    const INVALID: &str = "InvalidParameterValueException";
    let errors = [
        BackendError::transport("connection reset"),
        refusal(500, "ServiceException", "oops"),
        refusal(503, "ServiceUnavailable", "later"),
        refusal(429, "TooManyRequestsException", "slow down"),
        refusal(400, INVALID, "Invalid checkpoint token: used"),
        refusal(400, INVALID, "Invalid Checkpoint Token"),
        refusal(302, "Moved", "elsewhere"),
    ];
    let mut ends = Vec::new();
    for error in errors {
        let runs = Runs::default();
        let run = stubborn(&runs).fault(Fault::Refuse(1, error)).run(()).await;
        let shown = calls(&run);
        let (first, rest) = shown.split_once("\n\n").unwrap();
        assert_eq!(run.result::<Vec<String>>().unwrap(), [""; 0]);
        // Nothing was written, so the first body ran once more.
        assert_eq!(runs.count(), 3);
        insta::allow_duplicates! {
            check!(rest, @"
            Step a START~, Step a SUCCEED!
            Step b START~, Step b SUCCEED!
            => SUCCEEDED []
            ");
        }
        ends.push(first.to_owned());
    }
    check!(ends.join("\n"), @"
    Step a START~, Step a SUCCEED!
    => repeat: BackendError: a checkpoint failed: connection reset
    Step a START~, Step a SUCCEED!
    => repeat: ServiceException: a checkpoint failed: ServiceException (500): oops
    Step a START~, Step a SUCCEED!
    => repeat: ServiceUnavailable: a checkpoint failed: ServiceUnavailable (503): later
    Step a START~, Step a SUCCEED!
    => repeat: TooManyRequestsException: a checkpoint failed: TooManyRequestsException (429): slow down
    Step a START~, Step a SUCCEED!
    => repeat: InvalidParameterValueException: a checkpoint failed: InvalidParameterValueException (400): Invalid checkpoint token: used
    Step a START~, Step a SUCCEED!
    => repeat: InvalidParameterValueException: a checkpoint failed: InvalidParameterValueException (400): Invalid Checkpoint Token
    Step a START~, Step a SUCCEED!
    => repeat: Moved: a checkpoint failed: Moved (302): elsewhere
    ");
}

#[tokio::test]
async fn a_stale_token_repeats_the_invocation() {
    let runs = Runs::default();
    check!(calls_of(stubborn(&runs).fault(Fault::StaleToken(2))).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    => repeat: InvalidParameterValueException: a checkpoint failed: InvalidParameterValueException (400): Invalid checkpoint token: not a token of this service

    Step b START~, Step b SUCCEED!
    => SUCCEEDED []
    ");
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn refusals_for_good_fail_the_execution_and_leave_the_body_with_an_outcome() {
    let errors = [
        refusal(400, "InvalidParameterValueException", "payload too large"),
        refusal(413, "RequestTooLargeException", "too large"),
        refusal(403, "AccessDeniedException", "not allowed"),
        refusal(404, "ResourceNotFoundException", "gone"),
        refusal(502, "KMSAccessDeniedException", "no key"),
        refusal(502, "KMSDisabledException", "no key"),
        refusal(502, "KMSInvalidStateException", "no key"),
        refusal(502, "KMSNotFoundException", "no key"),
    ];
    let mut ends = Vec::new();
    for error in errors {
        let runs = Runs::default();
        let run = stubborn(&runs).fault(Fault::Refuse(1, error)).run(()).await;
        assert_eq!((runs.count(), run.status()), (1, ExecutionStatus::Failed));
        assert_eq!(run.operation("a").unwrap().status, OperationStatus::Failed);
        ends.push(calls(&run));
    }
    check!(ends.join("\n"), @"
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED InvalidParameterValueException: a checkpoint failed: InvalidParameterValueException (400): payload too large
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED RequestTooLargeException: a checkpoint failed: RequestTooLargeException (413): too large
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED AccessDeniedException: a checkpoint failed: AccessDeniedException (403): not allowed
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED ResourceNotFoundException: a checkpoint failed: ResourceNotFoundException (404): gone
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED KMSAccessDeniedException: a checkpoint failed: KMSAccessDeniedException (502): no key
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED KMSDisabledException: a checkpoint failed: KMSDisabledException (502): no key
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED KMSInvalidStateException: a checkpoint failed: KMSInvalidStateException (502): no key
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED KMSNotFoundException: a checkpoint failed: KMSNotFoundException (502): no key
    ");
}

#[tokio::test]
async fn a_failure_in_the_middle_latches() {
    // Both steps run; the first one's outcome is refused while the second one's waits.
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let fast = ctx.step("fast", async |_| Sure::Ok(1)).spawn();
        let slow = ctx
            .step("slow", async |_| {
                tokio::time::sleep(millis(500)).await;
                Sure::Ok(2)
            })
            .spawn();
        Ok::<_, Error>((fast.await.ok(), slow.await.ok()))
    });
    let fault = |error| [Fault::Slow(1, secs(1)), Fault::Refuse(1, error)];
    let [slow, refuse] = fault(refusal(500, "ServiceException", "oops"));
    check!(calls_of(kit.clone().fault(slow).fault(refuse)).await, @"
    Step fast START~, Step fast SUCCEED!, Step slow START~
    => repeat: ServiceException: a checkpoint failed: ServiceException (500): oops

    Step fast START~, Step fast SUCCEED!, Step slow START~
    Step slow SUCCEED!
    => SUCCEEDED [1,2]
    ");
    let [slow, refuse] = fault(refusal(403, "AccessDeniedException", "no"));
    check!(calls_of(kit.fault(slow).fault(refuse)).await, @"
    Step fast START~, Step fast SUCCEED!, Step slow START~
    Step fast START!, Step fast FAIL!, Step slow START!
    => FAILED AccessDeniedException: a checkpoint failed: AccessDeniedException (403): no
    ");
}

// --- the outcome of a body whose batch is refused ---------------------------------------------

#[tokio::test]
async fn a_refused_outcome_inside_new_contexts_is_recorded_with_them() {
    let runs = Runs::default();
    let seen = runs.clone();
    let kit = TestKit::new("f", move |ctx: Context, (): ()| {
        let runs = seen.clone();
        async move {
            ctx.run_in_child_context("outer", async |ctx| {
                ctx.run_in_child_context("inner", async |ctx| {
                    ctx.step("s", async |_| Sure::Ok(runs.note())).await
                })
                .await
            })
            .await
        }
    });
    let too_large = refusal(413, "RequestTooLargeException", "too large");
    let run = kit.fault(Fault::Refuse(1, too_large)).run(()).await;
    check!(calls(&run), @"
    RunInChildContext outer START~, RunInChildContext inner START~, Step s START~, Step s SUCCEED!
    RunInChildContext outer START!, RunInChildContext inner START!, Step s START!, Step s FAIL!
    => FAILED RequestTooLargeException: a checkpoint failed: RequestTooLargeException (413): too large
    ");
    assert_eq!(run.operation("s").unwrap().status, OperationStatus::Failed);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_refused_start_needs_no_outcome() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        ctx.named_wait("w", secs(1)).await
    });
    let denied = refusal(403, "AccessDeniedException", "no");
    check!(calls_of(kit.fault(Fault::Refuse(1, denied))).await, @"
    Wait w START!
    => FAILED AccessDeniedException: a checkpoint failed: AccessDeniedException (403): no
    ");
}

#[tokio::test]
async fn an_error_too_large_to_record_is_replaced_by_the_reason() {
    let runs = Runs::default();
    let seen = runs.clone();
    let kit = TestKit::new("f", move |ctx: Context, (): ()| {
        let runs = seen.clone();
        async move {
            ctx.step("s", async |_| {
                runs.note();
                Err::<(), _>("e".repeat(2_000))
            })
            .retry(Retry::none())
            .await
        }
    })
    .quotas(|quotas| quotas.error_bytes_max = 1_000);
    let run = kit.run(()).await;
    check!(calls(&run), @"
    Step s START~, Step s FAIL!
    Step s START!, Step s FAIL!
    => FAILED InvalidParameterValueException: a checkpoint failed: InvalidParameterValueException (400): FAIL of STEP operation 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b: error too large: 2005 bytes, 1000 are allowed
    ");
    check!(run.operation("s").unwrap().error().unwrap().to_string(), @"CheckpointRejectedError: InvalidParameterValueException (400): FAIL of STEP operation 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b: error too large: 2005 bytes, 1000 are allowed");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_at_all_still_fails_the_execution() {
    let runs = Runs::default();
    let denied = || refusal(403, "AccessDeniedException", "no");
    let kit = stubborn(&runs)
        .fault(Fault::Refuse(1, denied()))
        .fault(Fault::Refuse(2, denied()));
    check!(calls_of(kit).await, @"
    Step a START~, Step a SUCCEED!
    Step a START!, Step a FAIL!
    => FAILED AccessDeniedException: a checkpoint failed: AccessDeniedException (403): no
    ");
    assert_eq!(runs.count(), 1);
}

// --- missing tokens ---------------------------------------------------------------------------

#[tokio::test]
async fn an_answer_without_a_token_ends_the_invocation_and_keeps_what_was_written() {
    let runs = Runs::default();
    check!(calls_of(stubborn(&runs).fault(Fault::MissingToken(1))).await, @"
    Step a START~, Step a SUCCEED!
    => PENDING

    Step b START~, Step b SUCCEED!
    => SUCCEEDED []
    ");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_lost_token_beats_a_result() {
    let runs = Runs::default();
    check!(calls_of(stubborn(&runs).fault(Fault::MissingToken(2))).await, @"
    Step a START~, Step a SUCCEED!
    Step b START~, Step b SUCCEED!
    => PENDING

    => SUCCEEDED []
    ");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_missing_token_after_the_final_update_is_the_end() {
    // The strict backend gives none there anyway.
    let kit = TestKit::new("f", async |_: Context, (): ()| -> Result<()> {
        Err(Error::new("Mine", "e".repeat(6 * 1024 * 1024)))
    });
    let run = kit
        .quotas(|quotas| quotas.error_bytes_max = 8 * 1024 * 1024)
        .run(())
        .await;
    assert_eq!(
        (run.status(), run.invocations().len()),
        (ExecutionStatus::Failed, 1)
    );
    assert_eq!(run.error().unwrap().error_type.as_deref(), Some("Mine"));
}

#[tokio::test]
async fn a_final_update_that_fails_is_classified_like_any_other() {
    let kit = TestKit::new("f", async |_: Context, (): ()| -> Result<()> {
        Err(Error::new("Mine", "e".repeat(6 * 1024 * 1024)))
    })
    .quotas(|quotas| quotas.error_bytes_max = 8 * 1024 * 1024);
    let broken = refusal(500, "ServiceException", "oops");
    check!(calls_of(kit.clone().fault(Fault::Refuse(1, broken))).await, @"
    EXECUTION FAIL!
    => repeat: ServiceException: the execution's large result could not be stored: ServiceException (500): oops

    EXECUTION FAIL!
    => FAILED without an error
    ");
    let denied = refusal(403, "AccessDeniedException", "no");
    check!(calls_of(kit.fault(Fault::Refuse(1, denied))).await, @"
    EXECUTION FAIL!
    => FAILED AccessDeniedException: the execution's large result could not be stored: AccessDeniedException (403): no
    ");
}

// --- lost, repeated and slow answers ----------------------------------------------------------

#[tokio::test]
async fn a_lost_answer_repeats_the_invocation_but_not_the_body() {
    let runs = Runs::default();
    check!(calls_of(stubborn(&runs).fault(Fault::LoseResponse(1))).await, @"
    Step a START~, Step a SUCCEED!
    => repeat: BackendError: a checkpoint failed: the answer was lost

    Step b START~, Step b SUCCEED!
    => SUCCEEDED []
    ");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn repeated_requests_and_answers_change_nothing() {
    for fault in [Fault::DuplicateRequest(1), Fault::DuplicateResponse(1)] {
        let runs = Runs::default();
        let shown = calls_of(stubborn(&runs).fault(fault)).await;
        assert_eq!(runs.count(), 2);
        insta::allow_duplicates! {
            check!(shown, @"
            Step a START~, Step a SUCCEED!
            Step b START~, Step b SUCCEED!
            => SUCCEEDED []
            ");
        }
    }
}

#[tokio::test]
async fn everything_queued_during_a_slow_write_travels_together() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let first = ctx.named_wait("w", secs(60)).spawn();
        let steps: Vec<_> = (1..4)
            .map(|n| {
                ctx.step(&format!("s{n}"), move |_| async move {
                    tokio::time::sleep(millis(n * 100)).await;
                    Sure::Ok(n)
                })
                .spawn()
            })
            .collect();
        let mut sum = 0;
        for step in steps {
            sum += step.await?;
        }
        first.await?;
        Ok::<_, Error>(sum)
    });
    check!(calls_of(kit.fault(Fault::Slow(1, secs(5)))).await, @"
    Wait w START!, Step s1 START~, Step s2 START~, Step s3 START~
    Step s1 SUCCEED!, Step s2 SUCCEED!, Step s3 SUCCEED!
    => PENDING

    => SUCCEEDED 6
    ");
}

#[tokio::test]
async fn at_most_one_request_is_in_flight() {
    let function = Function::new("f", async |ctx: Context, (): ()| {
        ctx.map("m", 0..20, async |ctx, n: u64| {
            ctx.step("s", move |_| async move {
                tokio::time::sleep(millis(n)).await;
                Sure::Ok(n)
            })
            .await
        })
        .await?
        .into_values()
    });
    let mut backend = Fake::default();
    backend.latency = millis(5);
    let backend = Arc::new(backend);
    let outcome = backend.invoke(&function, Vec::new()).await;
    assert!(answer(&outcome.answer.unwrap()).starts_with("SUCCEEDED [0,1,2"));
    assert!(backend.written().len() > 3);
    assert_eq!(backend.most_in_flight(), 1);
}

// --- batching ---------------------------------------------------------------------------------

/// How many updates each request of a run carried.
fn sizes(run: &outlast::testing::TestRun) -> Vec<usize> {
    let requests = run
        .invocations()
        .iter()
        .flat_map(|invocation| &invocation.requests);
    requests.map(|request| request.updates.len()).collect()
}

#[tokio::test]
async fn a_request_carries_250_updates_at_most_in_the_order_they_were_made() {
    for (count, expected) in [(249, vec![249]), (250, vec![250]), (251, vec![250, 1])] {
        let kit = TestKit::new("f", move |ctx: Context, (): ()| async move {
            let waits = (0..count).map(|n| ctx.named_wait(&format!("w{n}"), secs(1)).future());
            let waits: Vec<_> = waits.collect();
            for done in futures::future::join_all(waits).await {
                done?;
            }
            Ok::<_, Error>(())
        });
        let run = kit.run(()).await;
        assert_eq!(run.status(), ExecutionStatus::Succeeded);
        assert_eq!(sizes(&run), expected);
        let updates = run.invocations()[0]
            .requests
            .iter()
            .flat_map(|request| &request.updates);
        let names: Vec<String> = updates
            .map(|(update, _)| update.name.as_deref().unwrap().to_owned())
            .collect();
        let wanted: Vec<String> = (0..count).map(|n| format!("w{n}")).collect();
        assert_eq!(names, wanted);
    }
}

#[tokio::test]
async fn a_request_carries_750_kib_at_most_and_a_larger_update_travels_alone() {
    let kit = |count: usize, bytes: usize| {
        TestKit::new("f", move |ctx: Context, (): ()| async move {
            let steps = (0..count).map(|n| {
                ctx.step(&format!("s{n}"), move |_| async move {
                    Sure::Ok("x".repeat(bytes))
                })
                .future()
            });
            let steps: Vec<_> = steps.collect();
            let done = futures::future::join_all(steps).await;
            Ok::<_, Error>(done.into_iter().filter(Result::is_ok).count())
        })
    };
    check!(calls_of(kit(3, 300_000)).await, @"
    Step s0 START~, Step s0 SUCCEED!, Step s1 START~, Step s1 SUCCEED!, Step s2 START~
    Step s2 SUCCEED!
    => SUCCEEDED 3
    ");
    check!(calls_of(kit(1, 800_000)).await, @"
    Step s0 START~
    Step s0 SUCCEED!
    => SUCCEEDED 1
    ");
}

#[tokio::test]
async fn a_long_backlog_makes_its_callers_wait_for_the_writer() {
    let begun = Runs::default();
    let seen = begun.clone();
    let kit = TestKit::new("f", move |ctx: Context, (): ()| {
        let begun = seen.clone();
        async move {
            let items = ctx.map("m", 0..1_200, async |_, item: u32| {
                begun.note();
                tokio::time::sleep(secs(5)).await;
                // The first item looks while the first request is still under way.
                Ok(if item == 0 { begun.count() } else { 0 })
            });
            Ok::<_, Error>(items.await?.into_values()?[0])
        }
    });
    let run = kit.fault(Fault::Slow(1, secs(10))).run(()).await;
    // A thousand updates may wait: the map's own start, and those of 999 items.
    assert_eq!(run.result::<u32>().unwrap(), 999);
    assert_eq!(begun.count(), 1_200);
    assert!(sizes(&run).iter().all(|size| *size <= 250));
}

#[tokio::test]
async fn a_start_lingers_and_then_shows_a_long_body() {
    let function = |linger: Option<u64>| {
        let handler = async |ctx: Context, (): ()| {
            ctx.step("s", async |_| {
                tokio::time::sleep(millis(250)).await;
                Sure::Ok(1)
            })
            .await
        };
        let config = match linger {
            None => Config::new(),
            Some(ms) => Config::new().linger(millis(ms)),
        };
        TestKit::of(Function::new("f", handler).config(config))
    };
    check!(function(None).run(()).await.history_text(), @"
    1 +0.000 ExecutionStarted 32f09b3f-1435-8cbb-8207-05fd52c42d63 input=null timeout=31622400s
    2 +0.020 StepStarted s
    3 +0.250 StepSucceeded s attempt=1 result=1
    4 +0.250 InvocationCompleted
    5 +0.250 ExecutionSucceeded 32f09b3f-1435-8cbb-8207-05fd52c42d63 result=1
    ");
    check!(function(Some(249)).run(()).await.history_text(), @"
    1 +0.000 ExecutionStarted 32f09b3f-1435-8cbb-8207-05fd52c42d63 input=null timeout=31622400s
    2 +0.249 StepStarted s
    3 +0.250 StepSucceeded s attempt=1 result=1
    4 +0.250 InvocationCompleted
    5 +0.250 ExecutionSucceeded 32f09b3f-1435-8cbb-8207-05fd52c42d63 result=1
    ");
    check!(calls_of(function(Some(251))).await, @"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED 1
    ");
}

#[tokio::test]
async fn a_checkpoint_delay_gathers_what_comes_close_together() {
    let kit = |delay: u64| {
        let handler = async |ctx: Context, (): ()| {
            ctx.map("m", [1, 2, 3], async |ctx, n: u64| {
                ctx.step("s", move |_| async move {
                    tokio::time::sleep(millis(n)).await;
                    Sure::Ok(n)
                })
                .await
            })
            .nesting(outlast::Nesting::Flat)
            .await?
            .into_values()
        };
        let config = Config::new().checkpoint_delay(millis(delay));
        TestKit::of(Function::new("f", handler).config(config))
    };
    check!(calls_of(kit(0)).await, @"
    Map m START~, Step s START~, Step s START~, Step s START~, Step s SUCCEED!
    Step s SUCCEED!
    Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [1,2,3]
    ");
    check!(calls_of(kit(10)).await, @"
    Map m START~, Step s START~, Step s START~, Step s START~, Step s SUCCEED!, Step s SUCCEED!, Step s SUCCEED!
    Map m SUCCEED!
    => SUCCEEDED [1,2,3]
    ");
}

// --- lost starts, crashed bodies --------------------------------------------------------------

#[tokio::test]
async fn a_start_that_is_lost_does_no_harm() {
    let kit = |body_takes: u64| {
        TestKit::new("f", move |ctx: Context, (): ()| async move {
            ctx.step("s", async |_| {
                tokio::time::sleep(millis(body_takes)).await;
                Sure::Ok(1)
            })
            .await
        })
        .fault(Fault::LoseStart("s".to_owned()))
    };
    check!(calls_of(kit(0)).await, @"
    Step s START~, Step s SUCCEED!
    => SUCCEEDED 1
    ");
    check!(calls_of(kit(250)).await, @"
    Step s START~
    Step s SUCCEED!
    => SUCCEEDED 1
    ");
    // Lost with the process: the next invocation finds nothing and starts over.
    check!(calls_of(kit(250).fault(Fault::CrashAfter(1))).await, @"
    Step s START~
    => killed

    Step s START~
    Step s SUCCEED!
    => SUCCEEDED 1
    ");
}

fn crashing(deaths: u32, runs: &Runs, change: fn(Step) -> Step) -> TestKit {
    let runs = runs.clone();
    let kit = TestKit::new("f", move |ctx: Context, (): ()| {
        let runs = runs.clone();
        async move {
            let body = move |_| {
                let runs = runs.clone();
                async move { Sure::Ok(runs.note()) }
            };
            change(ctx.step("s", body)).await
        }
    });
    (0..deaths).fold(kit, |kit, _| {
        kit.fault(Fault::CrashInBody {
            step: "s".to_owned(),
            attempt: 1,
        })
    })
}

type Step = outlast::Step<'static, u32, std::convert::Infallible>;

#[tokio::test]
async fn a_crashed_body_runs_again_unless_it_may_run_only_once() {
    let runs = Runs::default();
    check!(calls_of(crashing(2, &runs, |step| step)).await, @"
    Step s START~, Step s SUCCEED!
    => killed

    Step s SUCCEED!
    => killed

    Step s SUCCEED!
    => SUCCEEDED 3
    ");
    assert_eq!(runs.count(), 3);
    let runs = Runs::default();
    let once = |step: Step| step.at_most_once().retry(Retry::none());
    check!(calls_of(crashing(2, &runs, once)).await, @"
    Step s START!
    Step s SUCCEED!
    => killed

    Step s FAIL!
    => FAILED StepInterruptedError: the step was interrupted before its outcome was known
    ");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_step_is_given_up_when_too_many_invocations_died_in_it() {
    let outcomes = async |deaths: u32| {
        let runs = Runs::default();
        let run = crashing(deaths, &runs, |step| step.max_interruptions(2))
            .run(())
            .await;
        (run.status(), runs.count())
    };
    assert_eq!(outcomes(1).await, (ExecutionStatus::Succeeded, 2));
    assert_eq!(outcomes(2).await, (ExecutionStatus::Failed, 2));
    assert_eq!(outcomes(3).await, (ExecutionStatus::Failed, 2));
    let runs = Runs::default();
    check!(calls_of(crashing(2, &runs, |step| step.max_interruptions(2))).await, @"
    Step s START~, Step s SUCCEED!
    => killed

    Step s SUCCEED!
    => killed

    Step s FAIL!
    => FAILED StepInterruptedError: 2 invocations died while the step was running, and it is given up at 2
    ");
}

// --- start-up ---------------------------------------------------------------------------------

#[tokio::test]
async fn state_that_cannot_be_read_at_start_up_is_classified_the_same_way() {
    let function = Function::new("f", async |_: Context, (): ()| Sure::Ok(1));
    let mut lines = Vec::new();
    for error in [
        BackendError::transport("connection reset"),
        refusal(500, "ServiceException", "oops"),
        refusal(429, "TooManyRequestsException", "slow down"),
        refusal(
            400,
            "InvalidParameterValueException",
            "Invalid checkpoint token: used",
        ),
        refusal(400, "InvalidParameterValueException", "bad marker"),
        refusal(404, "ResourceNotFoundException", "gone"),
        refusal(502, "KMSDisabledException", "no key"),
    ] {
        let backend = Arc::new(Fake::default());
        backend
            .pages
            .lock()
            .unwrap()
            .extend([Ok(StatePage::default()), Err(error)]);
        let first = StatePage {
            operations: Vec::new(),
            next_marker: Some("2".to_owned()),
        };
        backend.pages.lock().unwrap()[0] = Ok(first);
        let outcome = backend.invoke_with(&function, Vec::new(), Some("1")).await;
        assert!(backend.written().is_empty());
        lines.push(match outcome.answer {
            Ok(output) => answer(&output),
            Err(failed) => format!("repeat {}", failed.record),
        });
    }
    check!(lines.join("\n"), @"
    repeat BackendError: the recorded state could not be read: connection reset
    repeat ServiceException: the recorded state could not be read: ServiceException (500): oops
    repeat TooManyRequestsException: the recorded state could not be read: TooManyRequestsException (429): slow down
    repeat InvalidParameterValueException: the recorded state could not be read: InvalidParameterValueException (400): Invalid checkpoint token: used
    FAILED InvalidParameterValueException: the recorded state could not be read: InvalidParameterValueException (400): bad marker
    FAILED ResourceNotFoundException: the recorded state could not be read: ResourceNotFoundException (404): gone
    FAILED KMSDisabledException: the recorded state could not be read: KMSDisabledException (502): no key
    ");
}
