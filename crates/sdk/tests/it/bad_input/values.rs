//! Values that cannot be written or read, and codecs that fail.

use super::*;

// --- values that cannot be written ---------------------------------------------------------

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

// --- values that cannot be read ------------------------------------------------------------

#[tokio::test]
async fn an_input_that_does_not_decode_fails_the_execution_before_its_code_runs() {
    let kit = TestKit::new("f", async |_: Context, n: u32| Sure::Ok(n));
    check!(calls(&kit.run("seven").await), @r#"=> FAILED SerDesError: the execution's input cannot be read as u32: invalid type: string "seven", expected u32 at line 1 column 7"#);
    assert_eq!(kit.run(7).await.result::<u32>().unwrap(), 7);
}

/// A function that waits in the middle, to be replaced there.
pub(super) fn before<T: Serialize + serde::de::DeserializeOwned + Send + 'static>(
    value: fn() -> T,
) -> TestKit {
    TestKit::new("f", move |ctx: Context, (): ()| async move {
        ctx.step("s", async |_| Sure::Ok(value())).await?;
        ctx.named_wait("w", secs(1)).await?;
        Ok::<_, Error>(())
    })
}

pub(super) async fn deployed(kit: TestKit, function: Function) -> outlast::testing::TestRun {
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

// --- codecs --------------------------------------------------------------------------------

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
