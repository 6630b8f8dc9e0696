//! Bad input: every mistake is a clear error that names the operation and the value, and what is
//! wrong before an operation starts writes nothing at all.

use crate::{
    fake::{Fake, recorded},
    show::{Sure, answer, calls, calls_of, secs, told},
};
use insta::assert_snapshot as check;
use outlast::{
    Completion, CompletionDecision, Config, Context, Error, Function, Nesting, Retry, WaitStrategy,
    backend::Abilities,
    codec::{Codec, CodecError, Place},
    core::wire::{ExecutionStatus, OperationStatus, OperationType},
    testing::{Fault, TestKit},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// Runs a handler that tries something: the error it got, or that something was written.
async fn tried<H, Fut>(handler: H) -> String
where
    H: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Error>> + Send + 'static,
{
    tried_with(Config::new(), handler).await
}

async fn tried_with<H, Fut>(config: Config, handler: H) -> String
where
    H: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Error>> + Send + 'static,
{
    let function = Function::new("f", move |ctx: Context, (): ()| {
        let tried = handler(ctx);
        async move { Sure::Ok(tried.await.as_ref().map(told)) }
    });
    let backend = Arc::new(Fake::default());
    let outcome = backend.invoke(&function.config(config), Vec::new()).await;
    let output = outcome.answer.unwrap();
    match output
        .result
        .as_deref()
        .map(serde_json::from_str::<Option<String>>)
    {
        Some(Ok(Some(error))) if backend.written().is_empty() => error,
        Some(Ok(Some(error))) => format!("recorded, {error}"),
        _ => format!("accepted, {}", answer(&output)),
    }
}

// --- names ------------------------------------------------------------------------------------

#[tokio::test]
async fn a_name_has_256_printable_ascii_characters_at_most() {
    let step = async |name: String| {
        tried(move |ctx: Context| {
            let name = name.clone();
            async move { ctx.step(&name, async |_| Sure::Ok(1)).await.err() }
        })
        .await
    };
    let mut lines = Vec::new();
    for name in ["x".repeat(255), "x".repeat(256), " ~".to_owned()] {
        assert_eq!(step(name).await, "accepted, SUCCEEDED null");
    }
    lines.push(step("x".repeat(257)).await);
    for name in ["naïve", "tab\there", "\u{7f}", "🦀"] {
        lines.push(step(name.to_owned()).await);
    }
    check!(lines.join("\n"), @r#"
    InvalidInput: step 1 failed: InvalidInputError: the operation name "xxxxxxxxxxxxxxxxxxxx…" has 257 characters, 256 are allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "naïve" contains 'ï': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "tab\there" contains '\t': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "\u{7f}" contains '\u{7f}': only printable ASCII is allowed
    InvalidInput: step 1 failed: InvalidInputError: the operation name "🦀" contains '🦀': only printable ASCII is allowed
    "#);
}

#[tokio::test]
async fn every_operation_looks_at_its_name_before_it_writes() {
    const BAD: &str = "bad\n";
    let strategy = || WaitStrategy::until(|_: &u32| true);
    let lines = [
        tried(async |ctx: Context| ctx.named_wait(BAD, secs(1)).await.err()).await,
        tried(async |ctx: Context| ctx.create_callback::<u32>(BAD).await.err()).await,
        tried(async |ctx: Context| {
            let submit = async |_| Sure::Ok(());
            ctx.wait_for_callback::<u32, _, _, _>(BAD, submit)
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.invoke::<_, u32>(BAD, "f", 1).await.err()).await,
        tried(async |ctx: Context| ctx.wait_signal::<u32>(BAD).await.err()).await,
        tried(async |ctx: Context| ctx.wait_signal::<u32>("").await.err()).await,
        tried(move |ctx: Context| async move {
            let check = async |n: u32, _| Sure::Ok(n);
            ctx.wait_for_condition(BAD, 0, check, strategy())
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.run_in_child_context(BAD, async |_| Ok(1)).await.err())
            .await,
        tried(async |ctx: Context| {
            ctx.run_in_child_context(BAD, async |_| Ok(1))
                .flat()
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| ctx.map(BAD, [1], async |_, n| Ok(n)).await.err()).await,
        tried(async |ctx: Context| {
            let map = ctx.map("m", [1, 2], async |_, n| Ok(n));
            map.item_namer(|n, _| format!("{n}\n")).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let parallel = ctx.parallel("p").branch("good", async |_| Ok(1));
            parallel.branch(BAD, async |_| Ok(2)).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let step = ctx.step("s", async |_| Sure::Ok(1));
            ctx.race(BAD, [step]).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            ctx.with_retry(BAD, Retry::none(), async |_, n| Ok(n))
                .await
                .err()
        })
        .await,
    ];
    check!(lines.join("\n"), @r#"
    InvalidInput: wait 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: invoke 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: callback 1 failed: InvalidInputError: a signal needs a name
    InvalidInput: step 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 'm' (1) failed: InvalidInputError: the operation name "1\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 'p' (1) failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 2 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    InvalidInput: context 1 failed: InvalidInputError: the operation name "bad\n" contains '\n': only printable ASCII is allowed
    "#);
}

#[tokio::test]
async fn the_inner_names_of_a_callback_stay_within_the_limit() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let submit = async |_| Sure::Ok(());
        ctx.wait_for_callback::<u32, _, _, _>(&"n".repeat(256), submit)
            .await
    });
    let run = kit.run(()).await;
    let lengths: Vec<usize> = run.operations()[1..]
        .iter()
        .map(|operation| operation.name.as_deref().unwrap().len())
        .collect();
    assert_eq!(lengths, [256, 256, 256]);
}

#[tokio::test]
async fn keys_are_not_empty_and_used_once_per_context() {
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let mut told = Vec::new();
        for key in ["k", "k", "", "other"] {
            let result = ctx.keyed(key).step("s", async |_| Sure::Ok(1)).await;
            told.push(result.map_or_else(|error| crate::show::told(&error), |_| "fine".to_owned()));
        }
        // Another context has keys of its own.
        let inner = async |ctx: Context| ctx.keyed("k").step("s", async |_| Sure::Ok(1)).await;
        ctx.run_in_child_context("ch", inner).await?;
        Ok::<_, Error>(told)
    });
    let run = kit.run(()).await;
    check!(run.result::<Vec<String>>().unwrap().join("\n"), @"
    fine
    InvalidInput: step 's' (k:k) failed: InvalidInputError: the operation key 'k' is used twice in this context
    InvalidInput: step 's' (k:) failed: InvalidInputError: an operation key must not be empty
    fine
    ");
    assert_eq!(run.operations().len(), 5);
}

#[tokio::test]
async fn labels_are_words_of_32_characters_at_most() {
    let step = async |label: &'static str| {
        tried(move |ctx: Context| async move {
            ctx.step("s", async |_| Sure::Ok(1))
                .sub_type(label)
                .await
                .err()
        })
        .await
    };
    let child = async |label: &'static str| {
        tried(move |ctx: Context| async move {
            ctx.run_in_child_context("ch", async |_| Ok(1))
                .sub_type(label)
                .await
                .err()
        })
        .await
    };
    for label in [
        "a",
        "A-b_9",
        "x234567890123456789012345678901",
        "x2345678901234567890123456789012",
    ] {
        assert_eq!(step(label).await, "accepted, SUCCEEDED null");
        assert_eq!(child(label).await, "accepted, SUCCEEDED null");
    }
    let long = "x23456789012345678901234567890123";
    let lines = [
        step("").await,
        step("a b").await,
        step(long).await,
        child("ä").await,
    ];
    check!(lines.join("\n"), @r#"
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "a b" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: step 's' (1) failed: InvalidInputError: the label "x23456789012345678901234567890123" is not allowed: 1 to 32 letters, digits, - or _
    InvalidInput: context 'ch' (1) failed: InvalidInputError: the label "ä" is not allowed: 1 to 32 letters, digits, - or _
    "#);
}

// --- durations --------------------------------------------------------------------------------

const DAYS_366: Duration = secs(31_622_400);
const NANO: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn a_wait_lasts_from_one_second_to_366_days() {
    let wait = async |duration: Duration| {
        tried(move |ctx: Context| async move { ctx.wait(duration).await.err() }).await
    };
    for duration in [NANO, secs(1), DAYS_366 - secs(1), DAYS_366 - NANO, DAYS_366] {
        assert_eq!(wait(duration).await, "accepted, PENDING");
    }
    let lines = [
        wait(Duration::ZERO).await,
        wait(DAYS_366 + NANO).await,
        wait(Duration::MAX).await,
    ];
    check!(lines.join("\n"), @"
    InvalidInput: wait 1 failed: InvalidInputError: a wait of zero is not allowed: leave it out, or wait for a second
    InvalidInput: wait 1 failed: InvalidInputError: a wait of 31622400.000000001s is too long, 366 days are allowed
    InvalidInput: wait 1 failed: InvalidInputError: a wait of 18446744073709551615.999999999s is too long, 366 days are allowed
    ");
}

#[tokio::test]
async fn the_timeouts_of_callbacks_and_signals_have_limits() {
    const MOST: Duration = secs(99_999_999);
    let mut lines = Vec::new();
    for duration in [secs(1), MOST - secs(1), MOST, Duration::ZERO, MOST + NANO] {
        let legal = !duration.is_zero() && duration <= MOST;
        let told = [
            tried(move |ctx: Context| async move {
                let callback = ctx.create_callback::<u32>("cb").timeout(duration).await;
                callback.err()
            })
            .await,
            tried(move |ctx: Context| async move {
                let callback = ctx
                    .create_callback::<u32>("cb")
                    .heartbeat_timeout(duration)
                    .await;
                callback.err()
            })
            .await,
            tried(move |ctx: Context| async move {
                let submit = async |_| Sure::Ok(());
                let exchange = ctx.wait_for_callback::<u32, _, _, _>("wfc", submit);
                exchange.timeout(duration).await.err()
            })
            .await,
            tried(move |ctx: Context| async move {
                let submit = async |_| Sure::Ok(());
                let exchange = ctx.wait_for_callback::<u32, _, _, _>("wfc", submit);
                exchange.heartbeat_timeout(duration).await.err()
            })
            .await,
            tried(move |ctx: Context| async move {
                ctx.wait_signal::<u32>("go").timeout(duration).await.err()
            })
            .await,
        ];
        match legal {
            true => assert!(
                told.iter().all(|told| told.starts_with("accepted, ")),
                "{told:?}"
            ),
            false => lines.extend(told),
        }
    }
    check!(lines.join("\n"), @"
    InvalidInput: callback 'cb' (1) failed: InvalidInputError: the callback's timeout is zero: leave it out for none
    InvalidInput: callback 'cb' (1) failed: InvalidInputError: the callback's heartbeat timeout is zero: leave it out for none
    InvalidInput: context 'wfc' (1) failed: InvalidInputError: the callback's timeout is zero: leave it out for none
    InvalidInput: context 'wfc' (1) failed: InvalidInputError: the callback's heartbeat timeout is zero: leave it out for none
    InvalidInput: callback 'go' (1) failed: InvalidInputError: the signal's timeout is zero: leave it out for none
    InvalidInput: callback 'cb' (1) failed: InvalidInputError: the callback's timeout of 99999999.000000001s is too long, 99999999 seconds are allowed
    InvalidInput: callback 'cb' (1) failed: InvalidInputError: the callback's heartbeat timeout of 99999999.000000001s is too long, 99999999 seconds are allowed
    InvalidInput: context 'wfc' (1) failed: InvalidInputError: the callback's timeout of 99999999.000000001s is too long, 99999999 seconds are allowed
    InvalidInput: context 'wfc' (1) failed: InvalidInputError: the callback's heartbeat timeout of 99999999.000000001s is too long, 99999999 seconds are allowed
    InvalidInput: callback 'go' (1) failed: InvalidInputError: the signal's timeout of 99999999.000000001s is too long, 99999999 seconds are allowed
    ");
}

#[tokio::test]
async fn retries_have_possible_numbers() {
    let step = async |retry: Retry| {
        tried(move |ctx: Context| {
            let retry = retry.clone();
            async move {
                let step = ctx.step("s", async |_| Err::<u32, _>("no"));
                step.retry(retry).await.err()
            }
        })
        .await
    };
    for delay in [secs(1), DAYS_366 - secs(1), DAYS_366] {
        assert_eq!(step(Retry::fixed(delay)).await, "accepted, PENDING");
        assert_eq!(
            step(Retry::default().initial_delay(delay).max_delay(delay)).await,
            "accepted, PENDING"
        );
    }
    let base = Retry::default;
    let mut lines = Vec::new();
    for retry in [
        Retry::fixed(Duration::ZERO),
        Retry::fixed(DAYS_366 + NANO),
        base().initial_delay(DAYS_366 + secs(1)),
        base().max_delay(DAYS_366 + secs(1)),
        Retry::linear().increment(DAYS_366 + secs(1)),
        base().max_attempts(0),
        base().backoff_rate(0.0),
        base().backoff_rate(f64::NAN),
        base().backoff_rate(f64::INFINITY),
    ] {
        lines.push(step(retry).await);
    }
    lines.push(
        tried(async |ctx: Context| {
            let bad = Retry::default().max_attempts(0);
            ctx.with_retry("block", bad, async |_, n| Ok(n)).await.err()
        })
        .await,
    );
    lines.push(
        tried(async |ctx: Context| {
            let exchange = ctx.wait_for_callback::<u32, _, _, _>("wfc", async |_| Sure::Ok(()));
            exchange.retry(Retry::default().max_attempts(0)).await.err()
        })
        .await,
    );
    check!(lines.join("\n"), @"
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry is invalid: initial_delay_seconds is 0, allowed is 1 to 31622400
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry's interval of 31622400.000000001s is longer than 366 days
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry's initial_delay of 31622401s is longer than 366 days
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry's max_delay of 31622401s is longer than 366 days
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry's increment of 31622401s is longer than 366 days
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry is invalid: max_attempts is 0, the least is 1
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry is invalid: growth rate is 0, it must be positive and finite
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry is invalid: growth rate is NaN, it must be positive and finite
    InvalidInput: step 's' (1) failed: InvalidInputError: the retry is invalid: growth rate is inf, it must be positive and finite
    InvalidInput: context 'block' (1) failed: InvalidInputError: the retry is invalid: max_attempts is 0, the least is 1
    InvalidInput: context 'wfc' (1) failed: InvalidInputError: the retry is invalid: max_attempts is 0, the least is 1
    ");
}

#[tokio::test]
async fn wait_strategies_and_step_options_have_possible_numbers() {
    let condition = async |strategy: WaitStrategy<'static, u32>| {
        tried(move |ctx: Context| {
            let strategy = strategy.clone();
            async move {
                let check = async |n: u32, _| Sure::Ok(n);
                ctx.wait_for_condition("cond", 0, check, strategy)
                    .await
                    .err()
            }
        })
        .await
    };
    let base = || WaitStrategy::until(|_: &u32| false);
    for delay in [secs(1), DAYS_366 - secs(1), DAYS_366] {
        assert_eq!(
            condition(base().fixed_delay(delay)).await,
            "accepted, PENDING"
        );
    }
    let custom = || WaitStrategy::custom(|_: &u32, _| outlast::WaitStep::Stop);
    let mut lines = Vec::new();
    for strategy in [
        base().fixed_delay(Duration::ZERO),
        base().fixed_delay(DAYS_366 + NANO),
        base().max_delay(DAYS_366 + secs(1)),
        base().max_attempts(0),
        base().backoff_rate(-1.0),
        custom().max_attempts(3),
    ] {
        lines.push(condition(strategy).await);
    }
    lines.push(
        tried(async |ctx: Context| {
            let step = ctx.step("s", async |_| Sure::Ok(1));
            step.timeout(Duration::ZERO).await.err()
        })
        .await,
    );
    lines.push(
        tried(async |ctx: Context| {
            let step = ctx.step("s", async |_| Sure::Ok(1));
            step.max_interruptions(0).await.err()
        })
        .await,
    );
    check!(lines.join("\n"), @"
    InvalidInput: step 'cond' (1) failed: InvalidInputError: the wait strategy is invalid: initial_delay_seconds is 0, allowed is 1 to 31622400
    InvalidInput: step 'cond' (1) failed: InvalidInputError: the delay of 31622400.000000001s is longer than 366 days
    InvalidInput: step 'cond' (1) failed: InvalidInputError: the delay of 31622401s is longer than 366 days
    InvalidInput: step 'cond' (1) failed: InvalidInputError: the wait strategy is invalid: max_attempts is 0, the least is 1
    InvalidInput: step 'cond' (1) failed: InvalidInputError: the wait strategy is invalid: growth rate is -1, it must be positive and finite
    InvalidInput: step 'cond' (1) failed: InvalidInputError: a custom wait strategy has no numbers of its own
    InvalidInput: step 's' (1) failed: InvalidInputError: the step's timeout is zero
    InvalidInput: step 's' (1) failed: InvalidInputError: max_interruptions is 0, the least is 1: the step could never run
    ");
}

// --- batches and combinators ------------------------------------------------------------------

#[tokio::test]
async fn a_batch_looks_at_its_options_before_it_writes() {
    let completion = async |completion: Completion| {
        tried(move |ctx: Context| async move {
            let map = ctx.map("m", [1, 2, 3], async |_, n| Ok(n));
            map.completion(completion).await.err()
        })
        .await
    };
    let percentage = |value: f64| Completion {
        tolerated_failure_percentage: Some(value),
        ..Completion::default()
    };
    for legal in [
        Completion::min_successful(1),
        Completion::min_successful(3),
        percentage(0.0),
        percentage(100.0),
    ] {
        assert_eq!(completion(legal).await, "accepted, SUCCEEDED null");
    }
    let lines = [
        completion(Completion::min_successful(0)).await,
        completion(Completion::min_successful(4)).await,
        completion(percentage(-0.1)).await,
        completion(percentage(100.1)).await,
        completion(percentage(f64::NAN)).await,
        tried(async |ctx: Context| {
            let map = ctx
                .map("m", [1], async |_, n| Ok(n))
                .completion(Completion::all_completed());
            map.complete_when(|_, _| CompletionDecision::Continue)
                .await
                .err()
        })
        .await,
        tried(async |ctx: Context| {
            let map = ctx.map("m", [1], async |_, n| Ok(n));
            map.max_concurrency(0).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let parallel = ctx.parallel("p").branch("", async |_| Ok(1));
            parallel.max_concurrency(0).await.err()
        })
        .await,
        tried(async |ctx: Context| {
            let map = ctx.map("m", [1], async |_, n| Ok(n));
            map.batch_size(0).await.err()
        })
        .await,
    ];
    check!(lines.join("\n"), @"
    InvalidInput: context 'm' (1) failed: InvalidInputError: min_successful is 0, allowed is 1 to 3, the number of items
    InvalidInput: context 'm' (1) failed: InvalidInputError: min_successful is 4, allowed is 1 to 3, the number of items
    InvalidInput: context 'm' (1) failed: InvalidInputError: tolerated_failure_percentage is -0.1, allowed is 0 to 100
    InvalidInput: context 'm' (1) failed: InvalidInputError: tolerated_failure_percentage is 100.1, allowed is 0 to 100
    InvalidInput: context 'm' (1) failed: InvalidInputError: tolerated_failure_percentage is NaN, allowed is 0 to 100
    InvalidInput: context 'm' (1) failed: InvalidInputError: complete_when and completion exclude each other
    InvalidInput: context 'm' (1) failed: InvalidInputError: a max_concurrency of 0 is not allowed: nothing could ever run
    InvalidInput: context 'p' (1) failed: InvalidInputError: a max_concurrency of 0 is not allowed: nothing could ever run
    InvalidInput: context 'm' (1) failed: InvalidInputError: a batch_size of 0 is not allowed
    ");
}

#[tokio::test]
async fn a_combinator_that_could_never_finish_is_refused() {
    type Input = outlast::Step<'static, u32, std::convert::Infallible>;
    let lines = [
        tried(async |ctx: Context| ctx.race("race", Vec::<Input>::new()).await.err()).await,
        tried(async |ctx: Context| ctx.select_ok("any", Vec::<Input>::new()).await.err()).await,
    ];
    check!(lines.join("\n"), @"
    InvalidInput: context 'race' (1) failed: InvalidInputError: it has no inputs, so it could never finish
    InvalidInput: context 'any' (1) failed: InvalidInputError: it has no inputs, so it could never finish
    ");
}

#[tokio::test]
async fn an_invoke_looks_at_its_function_and_tenant_before_it_writes() {
    let invoke = async |function: String, tenant: Option<String>| {
        tried(move |ctx: Context| {
            let (function, tenant) = (function.clone(), tenant.clone());
            async move {
                let invoke = ctx.invoke::<_, u32>("inv", &function, 1);
                match tenant {
                    None => invoke.await.err(),
                    Some(tenant) => invoke.tenant(&tenant).await.err(),
                }
            }
        })
        .await
    };
    let tenant = async |tenant: &str| invoke("f".to_owned(), Some(tenant.to_owned())).await;
    for legal in [
        "t".to_owned(),
        "t".repeat(255),
        "t".repeat(256),
        "a b:/=+-@._".to_owned(),
    ] {
        assert_eq!(tenant(&legal).await, "accepted, PENDING");
    }
    assert_eq!(invoke("f".repeat(256), None).await, "accepted, PENDING");
    let lines = [
        invoke(String::new(), None).await,
        invoke("a b".to_owned(), None).await,
        invoke("f:1:2".to_owned(), None).await,
        invoke("f".repeat(257), None).await,
        tenant("").await,
        tenant(&"t".repeat(257)).await,
        tenant("tenänt").await,
    ];
    check!(lines.join("\n"), @r#"
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: the name of the function to invoke is empty
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: invalid function name: "a b"
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: invalid function name: "f:1:2"
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: invalid function name: "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: a tenant id has 1 to 256 characters, this one has 0
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: a tenant id has 1 to 256 characters, this one has 257
    InvalidInput: invoke 'inv' (1) failed: InvalidInputError: invalid tenant id: "tenänt"
    "#);
}

// --- values that cannot be written ------------------------------------------------------------

/// JSON has no keys but strings.
type Unwritable = BTreeMap<(u8, u8), u8>;

fn unwritable() -> Unwritable {
    BTreeMap::from([((1, 2), 3)])
}

/// Refuses to be written.
#[derive(Deserialize)]
struct Fickle;

impl Serialize for Fickle {
    fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("I will not be written"))
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_written_fails_its_operation_for_good() {
    let step = TestKit::new("f", async |ctx: Context, (): ()| {
        // Retrying cannot help, so it is not tried.
        let error = ctx
            .step("s", async |_| Sure::Ok(unwritable()))
            .await
            .unwrap_err();
        Sure::Ok(told(&error))
    });
    check!(calls_of(step.clone()).await, @r#"
    Step s START~, Step s FAIL!
    => SUCCEEDED "Codec: step 's' (1) failed: SerDesError: its value cannot be written: key must be a string"
    "#);
    check!(calls_of(step.fault(Fault::CrashAfter(1))).await, @r#"
    Step s START~, Step s FAIL!
    => killed

    => SUCCEEDED "Codec: step 's' (1) failed: SerDesError: its value cannot be written: key must be a string"
    "#);
    let child = TestKit::new("f", async |ctx: Context, (): ()| {
        let error = ctx
            .run_in_child_context("ch", async |_| Ok(Fickle))
            .await
            .err()
            .unwrap();
        Sure::Ok(told(&error))
    });
    check!(calls_of(child).await, @r#"
    RunInChildContext ch START~, RunInChildContext ch FAIL!
    => SUCCEEDED "ChildContext: context 'ch' (1) failed: SerDesError: its value cannot be written: I will not be written"
    "#);
    let map = TestKit::new("f", async |ctx: Context, (): ()| {
        let result = ctx.map("m", [1], async |_, _| Ok(unwritable())).await;
        Sure::Ok(told(&result.unwrap().into_values().unwrap_err()))
    });
    check!(calls_of(map).await, @r#"
    Map m START~, MapIteration map-item-0 START~, MapIteration map-item-0 FAIL!
    Map m SUCCEED!
    => SUCCEEDED "ChildContext: SerDesError: its value cannot be written: key must be a string"
    "#);
    let condition = TestKit::new("f", async |ctx: Context, (): ()| {
        let check = async |_: Unwritable, _| Sure::Ok(unwritable());
        let strategy = WaitStrategy::until(|_: &Unwritable| true);
        let condition = ctx.wait_for_condition("cond", Unwritable::new(), check, strategy);
        Sure::Ok(told(&condition.await.unwrap_err()))
    });
    check!(calls_of(condition).await, @r#"
    WaitForCondition cond START~, WaitForCondition cond FAIL!
    => SUCCEEDED "Condition: step 'cond' (1) failed: SerDesError: its value cannot be written: key must be a string"
    "#);
}

#[tokio::test]
async fn a_value_that_cannot_be_sent_writes_nothing() {
    let lines = [
        tried(async |ctx: Context| ctx.invoke::<_, u32>("inv", "f", unwritable()).await.err())
            .await,
        tried(async |ctx: Context| {
            let check = async |state: Unwritable, _| Sure::Ok(state);
            let strategy = WaitStrategy::until(|_: &Unwritable| true);
            ctx.wait_for_condition("cond", unwritable(), check, strategy)
                .await
                .err()
        })
        .await,
    ];
    check!(lines.join("\n"), @"
    Codec: invoke 'inv' (1) failed: SerDesError: its value cannot be written: key must be a string
    Codec: step 'cond' (1) failed: SerDesError: its value cannot be written: key must be a string
    ");
}

#[tokio::test]
async fn a_result_that_cannot_be_written_fails_the_execution() {
    check!(calls_of(TestKit::new("f", async |_: Context, (): ()| Sure::Ok(unwritable()))).await, @"=> FAILED SerDesError: the execution's result cannot be written: key must be a string");
}

#[tokio::test]
async fn payloads_have_a_limit() {
    let config = || Config::new().payload_bytes_max(100);
    let step = async |bytes: usize| {
        tried_with(config(), move |ctx: Context| async move {
            ctx.step("s", async |_| Sure::Ok("x".repeat(bytes - 2)))
                .await
                .err()
        })
        .await
    };
    let condition = async |bytes: usize| {
        tried_with(config(), move |ctx: Context| async move {
            let check = move |_: String, _| async move { Sure::Ok("x".repeat(bytes - 2)) };
            let strategy = WaitStrategy::until(|_: &String| true);
            ctx.wait_for_condition("cond", String::new(), check, strategy)
                .await
                .err()
        })
        .await
    };
    let invoke = async |bytes: usize| {
        tried_with(config(), move |ctx: Context| async move {
            ctx.invoke::<_, u32>("inv", "f", "x".repeat(bytes - 2))
                .await
                .err()
        })
        .await
    };
    for legal in [99, 100] {
        assert_eq!(step(legal).await, "accepted, SUCCEEDED null");
        assert_eq!(invoke(legal).await, "accepted, PENDING");
    }
    check!([step(101).await, condition(101).await, invoke(101).await].join("\n"), @"
    recorded, Codec: step 's' (1) failed: SerDesError: its value has 101 bytes, 100 are allowed: store large data elsewhere and keep a reference
    recorded, Condition: step 'cond' (1) failed: SerDesError: its value has 101 bytes, 100 are allowed: store large data elsewhere and keep a reference
    Codec: invoke 'inv' (1) failed: SerDesError: its value has 101 bytes, 100 are allowed: store large data elsewhere and keep a reference
    ");
}

#[tokio::test]
async fn the_default_payload_limit_is_what_the_backend_takes() {
    for (bytes, status) in [
        (1_048_575, ExecutionStatus::Succeeded),
        (1_048_576, ExecutionStatus::Succeeded),
        (1_048_577, ExecutionStatus::Failed),
    ] {
        let kit = TestKit::new("f", move |ctx: Context, (): ()| async move {
            let text: String = ctx
                .step("s", async |_| Sure::Ok("x".repeat(bytes - 2)))
                .await?;
            Ok::<_, Error>(text.len())
        });
        let run = kit.run(()).await;
        assert_eq!(run.status(), status);
        assert_eq!(run.invocations().len(), 1);
    }
}

// --- values that cannot be read ---------------------------------------------------------------

#[tokio::test]
async fn an_input_that_does_not_decode_fails_the_execution_before_its_code_runs() {
    let kit = TestKit::new("f", async |_: Context, n: u32| Sure::Ok(n));
    check!(calls(&kit.run("seven").await), @r#"=> FAILED SerDesError: the execution's input cannot be read as u32: invalid type: string "seven", expected u32 at line 1 column 7"#);
    assert_eq!(kit.run(7).await.result::<u32>().unwrap(), 7);
}

/// A function that waits in the middle, to be replaced there.
fn before<T: Serialize + serde::de::DeserializeOwned + Send + 'static>(
    value: fn() -> T,
) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        ctx.step("s", async |_| Sure::Ok(value())).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(())
    })
}

async fn deployed(kit: TestKit, function: Function) -> outlast::testing::TestRun {
    let mut run = kit.start(()).await;
    run.run_once().await;
    run.deploy(function).await;
    run.run_until_complete().await;
    run
}

#[tokio::test]
async fn a_record_of_another_type_is_an_error_that_names_its_operation() {
    let changed = Function::new("f", async |ctx: Context, (): ()| {
        let result = ctx.step("s", async |_| Sure::Ok(vec![1_u32])).await;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(told(&result.unwrap_err()))
    });
    let run = deployed(before(|| "text".to_owned()), changed).await;
    check!(calls(&run), @r#"
    Step s START~, Step s SUCCEED!
    Wait w START!
    => PENDING

    => SUCCEEDED "Codec: step 's' (1) failed: SerDesError: its value cannot be read: invalid type: string \"text\", expected a sequence at line 1 column 6"
    "#);
}

#[tokio::test]
async fn replies_of_another_type_are_errors_where_they_are_awaited() {
    use outlast::testing::Answer;
    let kit = TestKit::new("f", async |ctx: Context, (): ()| {
        let callback = ctx.create_callback::<u32>("cb").await?;
        let mut lines = vec![told(&callback.result().await.unwrap_err())];
        let exchange = ctx.wait_for_callback::<u32, _, _, _>("wfc", async |_| Sure::Ok(()));
        lines.push(told(&exchange.await.unwrap_err()));
        let invoke = ctx.invoke::<_, u32>("inv", "other", 1);
        lines.push(told(&invoke.await.unwrap_err()));
        Ok::<_, Error>(lines)
    })
    .callback("cb", Answer::succeed("seven"))
    .callback("wfc", Answer::succeed("seven"))
    .scripted("other", [Answer::json("seven")]);
    check!(kit.run(()).await.result::<Vec<String>>().unwrap().join("\n"), @r#"
    Codec: callback 'cb' (1) failed: SerDesError: its value cannot be read: expected value at line 1 column 1
    Codec: context 'wfc' (2) failed: SerDesError: its value cannot be read: expected value at line 1 column 1
    Codec: invoke 'inv' (3) failed: SerDesError: its value cannot be read: invalid type: string "seven", expected u32 at line 1 column 7
    "#);
}

// --- codecs -----------------------------------------------------------------------------------

/// Fails on its first uses, then works.
#[derive(Clone)]
struct Unsteady {
    failures: Arc<AtomicU32>,
    error: fn(&'static str) -> CodecError,
    writes: bool,
}

impl Unsteady {
    fn new(failures: u32, writes: bool, error: fn(&'static str) -> CodecError) -> Self {
        Self {
            failures: Arc::new(failures.into()),
            error,
            writes,
        }
    }

    fn fail(&self, writes: bool) -> std::result::Result<(), CodecError> {
        let fails = writes == self.writes
            && self
                .failures
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        if fails {
            Err((self.error)("the key store is away"))
        } else {
            Ok(())
        }
    }
}

fn permanent(message: &'static str) -> CodecError {
    CodecError::permanent(message)
}

fn retryable(message: &'static str) -> CodecError {
    CodecError::retryable(message)
}

impl Codec for Unsteady {
    fn encode(
        &self,
        value: serde_json::Value,
        _: &Place<'_>,
    ) -> std::result::Result<String, CodecError> {
        self.fail(true)?;
        Ok(value.to_string())
    }

    fn decode(
        &self,
        text: &str,
        _: &Place<'_>,
    ) -> std::result::Result<serde_json::Value, CodecError> {
        self.fail(false)?;
        serde_json::from_str(text).map_err(CodecError::permanent)
    }
}

#[tokio::test]
async fn a_permanent_codec_error_fails_the_operation_and_a_retryable_one_repeats_the_invocation() {
    let kit = |codec: Unsteady| {
        TestKit::new("f", move |ctx: Context, (): ()| {
            let codec = codec.clone();
            async move {
                let result = ctx.step("s", async |_| Sure::Ok(1)).codec(codec).await;
                Sure::Ok(result.map_err(|error| told(&error)))
            }
        })
    };
    check!(calls_of(kit(Unsteady::new(1, true, permanent))).await, @r#"
    Step s START~, Step s FAIL!
    => SUCCEEDED {"Err":"Codec: step 's' (1) failed: SerDesError: its value cannot be written: the key store is away"}
    "#);
    check!(calls_of(kit(Unsteady::new(1, true, retryable))).await, @r#"
    => repeat: RetryableSerDesError: step 's' (1): its value cannot be written: the key store is away

    Step s START~, Step s SUCCEED!
    => SUCCEEDED {"Ok":1}
    "#);
    check!(calls_of(kit(Unsteady::new(1, false, permanent))).await, @r#"
    Step s START~, Step s FAIL!
    => SUCCEEDED {"Err":"Codec: step 's' (1) failed: SerDesError: its value cannot be read: the key store is away"}
    "#);
    check!(calls_of(kit(Unsteady::new(2, false, retryable))).await, @r#"
    => repeat: RetryableSerDesError: step 's' (1): its value cannot be read: the key store is away

    => repeat: RetryableSerDesError: step 's' (1): its value cannot be read: the key store is away

    Step s START~, Step s SUCCEED!
    => SUCCEEDED {"Ok":1}
    "#);
}

#[tokio::test]
async fn codec_errors_of_input_and_result_are_told_apart_too() {
    let kit = |codec: Unsteady| {
        let function = Function::new("f", async |_: Context, (): ()| Sure::Ok(1));
        TestKit::of(function.config(Config::new().codec(codec)))
    };
    check!(calls_of(kit(Unsteady::new(1, false, permanent))).await, @"=> FAILED SerDesError: the execution's input cannot be read as (): the key store is away");
    check!(calls_of(kit(Unsteady::new(1, false, retryable))).await, @"
    => repeat: RetryableSerDesError: the execution's input cannot be read as (): the key store is away

    => SUCCEEDED 1
    ");
    check!(calls_of(kit(Unsteady::new(1, true, permanent))).await, @"=> FAILED SerDesError: the execution's result cannot be written: the key store is away");
    check!(calls_of(kit(Unsteady::new(1, true, retryable))).await, @"
    => repeat: RetryableSerDesError: the execution's result cannot be written: the key store is away

    => SUCCEEDED 1
    ");
}

// --- code that no longer matches --------------------------------------------------------------

/// Each way to differ from `before`, in code that swallows every error.
fn changes() -> Vec<Function> {
    let kind = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.named_wait("s", secs(1)).await;
        Sure::Ok(())
    });
    let label = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.step("s", async |_| Sure::Ok(1)).sub_type("Other").await;
        Sure::Ok(())
    });
    let name = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx.step("renamed", async |_| Sure::Ok(1)).await;
        Sure::Ok(())
    });
    let no_name = Function::new("f", async |ctx: Context, (): ()| {
        let steps = [ctx.step("", async |_| Sure::Ok(1))];
        let _ = ctx.join_all("all", steps).await;
        Sure::Ok(())
    });
    let in_a_batch = Function::new("f", async |ctx: Context, (): ()| {
        let _ = ctx
            .map("s", [1], async |_, n| Ok(n))
            .completion(Completion::all_completed())
            .await;
        Sure::Ok(())
    });
    vec![kind, label, name, no_name, in_a_batch]
}

#[tokio::test]
async fn code_that_does_not_match_its_record_is_held_and_writes_nothing() {
    let mut lines = Vec::new();
    for function in changes() {
        let run = deployed(before(|| 1), function).await;
        assert_eq!(run.status(), ExecutionStatus::Running);
        // One request for the step, one for the wait, none after the deployment.
        assert_eq!(run.requests(), 2);
        lines.push(run.held().unwrap().to_string());
    }
    check!(lines.join("\n\n"), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its type
      - recorded: Step "s" (type STEP)
      + current:  Wait "s" (type WAIT)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its subtype
      - recorded: Step "s" (subtype "Step")
      + current:  Other "s" (subtype "Other")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its name
      - recorded: Step "s" (name "s")
      + current:  Step "renamed" (name "renamed")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 2 differs from its record in its type
      - recorded: Wait "w" (type WAIT)
      + current:  RunInChildContext "all" (type CONTEXT)
      id d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map

    NonDeterministicExecutionError: operation 1 differs from its record in its type
      - recorded: Step "s" (type STEP)
      + current:  Map "s" (type CONTEXT)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_held_execution_goes_on_with_code_that_matches() {
    let mut run = deployed(before(|| 1), changes().remove(2)).await;
    assert!(run.held().is_some());
    let fixed = Function::new("f", async |ctx: Context, (): ()| {
        let one = ctx.step("s", async |_| Sure::Ok(1)).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(one)
    });
    run.deploy(fixed).await;
    run.resume().await.unwrap();
    run.run_until_complete().await;
    assert_eq!(run.result::<u32>().unwrap(), 1);
}

#[tokio::test]
async fn a_mismatch_fails_the_execution_where_that_is_asked_for_and_on_lambda() {
    let renamed = || changes().remove(2);
    let run = deployed(
        before(|| 1),
        renamed().config(Config::new().fail_on_mismatch(true)),
    )
    .await;
    assert_eq!(run.status(), ExecutionStatus::Failed);
    check!(run.error().unwrap().error_type.as_deref().unwrap(), @"NonDeterministicExecutionError");

    let mut backend = Fake::default();
    backend.abilities = Abilities::LAMBDA;
    let backend = Arc::new(backend);
    let found = recorded(1, OperationType::Step, "Step", OperationStatus::Succeeded);
    let outcome = backend.invoke(&renamed(), vec![found]).await;
    assert!(backend.written().is_empty());
    let error = outcome.answer.unwrap().error.unwrap();
    check!(error.to_string(), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its name
      - recorded: Step without a name (name none)
      + current:  Step "renamed" (name "renamed")
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_changed_parent_or_nesting_is_a_mismatch() {
    let nested = |nesting: Nesting, flat: bool| {
        move |ctx: Context, (): ()| async move {
            let body = async |ctx: Context| ctx.step("s", async |_| Sure::Ok(1)).await;
            let child = ctx.run_in_child_context("ch", async |ctx| {
                let one: u32 = body(ctx.clone()).await?;
                ctx.named_wait("w", secs(1)).await?;
                Ok(one)
            });
            let one = if flat {
                child.flat().await?
            } else {
                child.await?
            };
            let map = ctx.map("m", [1], async |ctx, _| body(ctx).await);
            map.nesting(nesting).await?;
            Ok::<_, Error>(one)
        }
    };
    let kit = |flat| TestKit::new("f", nested(Nesting::Nested, flat));
    let function = |flat| Function::new("f", nested(Nesting::Nested, flat));
    let run = deployed(kit(false), function(true)).await;
    check!(run.held().unwrap(), @r#"
    NonDeterministicExecutionError: operation 1 differs from its record in its nesting
      - recorded: RunInChildContext "ch" (nesting nested)
      + current:  RunInChildContext "ch" (nesting flat)
      id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
    let run = deployed(kit(true), function(false)).await;
    check!(run.held().unwrap(), @r#"
    NonDeterministicExecutionError: operation 1-1 differs from its record in its parent
      - recorded: Step "s" (parent none)
      + current:  Step "s" (parent "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b")
      id 59510d91a04a1af467946ec474bb7593d71a8af45f3dc1911dd5b3cbf62478a2; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
    "#);
}

#[tokio::test]
async fn a_signal_is_refused_where_nothing_delivers_it() {
    let function = Function::new("f", async |ctx: Context, (): ()| {
        Sure::Ok(told(&ctx.wait_signal::<u32>("go").await.unwrap_err()))
    });
    let mut backend = Fake::default();
    backend.abilities = Abilities::LAMBDA;
    let backend = Arc::new(backend);
    let outcome = backend.invoke(&function, Vec::new()).await;
    assert!(backend.written().is_empty());
    check!(answer(&outcome.answer.unwrap()), @r#"SUCCEEDED "Unsupported: callback 'go' (1) failed: UnsupportedError: signals are delivered by Outlast only; on AWS Lambda use a callback""#);
}
