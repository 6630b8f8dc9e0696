//! Durations, limits and completion rules that are not allowed.

use super::*;

// --- durations -----------------------------------------------------------------------------

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

// --- batches and combinators ---------------------------------------------------------------

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
