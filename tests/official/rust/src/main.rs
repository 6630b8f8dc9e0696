//! Handlers on the official Rust SDK, and what they leave behind for the test to read. They do what
//! those in ../python/app.py do. Which one this process serves, the function's name says.

use aws_durable_execution_sdk as durable;
use durable::{BoxError, Branch, DurableContext, RetryDecision};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    time::{Duration, SystemTime},
};

#[derive(Deserialize)]
struct Event {
    key: String,
    #[serde(default)]
    crash: bool,
    #[serde(default)]
    steps: u64,
}

/// Adds a line with the time and this process; returns how often it was added before.
fn ledger(line: &str) -> Result<usize, BoxError> {
    let path = std::env::var("LEDGER")?;
    let known = fs::read_to_string(&path).unwrap_or_default();
    let same = |known: &&str| known.splitn(3, ' ').nth(2) == Some(line);
    let before = known.lines().filter(same).count();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let (now, process) = (now.as_millis(), std::process::id());
    file.write_all(format!("{now} {process} {line}\n").as_bytes())?;
    Ok(before)
}

/// A step's body that writes down that it ran.
fn noted<T>(key: &str, name: &str, result: T) -> Result<T, BoxError> {
    ledger(&format!("{key} {name} begin"))?;
    ledger(&format!("{key} {name} end"))?;
    Ok(result)
}

async fn everything(event: Event, ctx: DurableContext) -> Result<Value, BoxError> {
    let key = event.key.clone();
    let own = key.clone();
    let flaky: String = ctx
        .step(move |_| async move {
            if ledger(&format!("{own} flaky begin"))? == 0 {
                return Err("the first attempt fails".into());
            }
            ledger(&format!("{own} flaky end"))?;
            Ok("in the end".to_owned())
        })
        .name("flaky")
        .retry_strategy(|_, attempt| match attempt {
            1 | 2 => RetryDecision::Retry {
                delay: Duration::from_secs(1),
            },
            _ => RetryDecision::Stop,
        })
        .await?;
    ctx.wait(Duration::from_secs(1)).name("pause").await?;
    let approval: String = ctx
        .wait_for_callback(|_, _id| async { Ok(()) })
        .name("approval")
        .timeout(Duration::from_secs(300))
        .await?;
    let double = std::env::var("DOUBLE")?;
    let doubled: Value = ctx.invoke(double, json!({"n": 21})).name("double").await?;
    let below = json!({"key": format!("{key}-chained"), "steps": 4});
    let chained: u64 = ctx.invoke(std::env::var("CHAIN")?, below).name("chain").await?;
    let own = key.clone();
    let inside: u32 = ctx
        .run_in_child_context(move |inner: DurableContext| async move {
            let first = own.clone();
            let one: u32 = inner
                .step(move |_| async move { noted(&first, "child-one", 1) })
                .name("child-one")
                .await?;
            inner.wait(Duration::from_secs(1)).name("child-pause").await?;
            let two: u32 = inner
                .step(move |_| async move { noted(&own, "child-two", 2) })
                .name("child-two")
                .await?;
            Ok(one + two)
        })
        .name("child")
        .await?;
    let own = key.clone();
    let squares: Vec<u32> = ctx
        .map(vec![1_u32, 2, 3], move |branch, item, index| {
            let own = own.clone();
            async move {
                let name = format!("square-{index}");
                let called = name.clone();
                let square = branch
                    .step(move |_| async move { noted(&own, &called, item * item) })
                    .name(name)
                    .await?;
                Ok(square)
            }
        })
        .name("squares")
        .await?;
    let side = |name: &'static str, result: &'static str| {
        let own = key.clone();
        Branch::new(name, move |branch: DurableContext| async move {
            let side = branch
                .step(move |_| async move { noted(&own, name, result.to_owned()) })
                .name(name)
                .await?;
            Ok(side)
        })
    };
    let both: Vec<String> = ctx
        .parallel(vec![side("left", "l"), side("right", "r")])
        .name("both")
        .await?;
    let crash = match event.crash {
        true => Some(crash(&ctx, key).await?),
        false => None,
    };
    Ok(json!({
        "flaky": flaky,
        "approval": approval,
        "doubled": doubled,
        "chained": chained,
        "inside": inside,
        "squares": squares,
        "both": both,
        "crash": crash,
    }))
}

async fn crash(ctx: &DurableContext, key: String) -> Result<String, BoxError> {
    let survived = ctx
        .step(move |_| async move {
            if ledger(&format!("{key} crash begin"))? == 0 {
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            ledger(&format!("{key} crash end"))?;
            Ok("survived".to_owned())
        })
        .name("crash")
        .await?;
    Ok(survived)
}

/// Steps one after another, slow enough to be killed in.
async fn chain(event: Event, ctx: DurableContext) -> Result<u64, BoxError> {
    let mut total = 0;
    for number in 0..event.steps {
        let (key, name) = (event.key.clone(), format!("link-{number}"));
        let called = name.clone();
        total += ctx
            .step(move |_| async move {
                ledger(&format!("{key} {called} begin"))?;
                tokio::time::sleep(Duration::from_millis(20)).await;
                ledger(&format!("{key} {called} end"))?;
                Ok(number)
            })
            .name(name)
            .await?;
        if number % 10 == 9 {
            ctx.wait(Duration::from_secs(1)).await?;
        }
    }
    Ok(total)
}

async fn fails(_: Value, _: DurableContext) -> Result<(), BoxError> {
    Err("as it was told".into())
}

/// Not durable.
async fn double(event: LambdaEvent<Value>) -> Result<Value, lambda_runtime::Error> {
    Ok(json!({"n": event.payload["n"].as_u64().unwrap_or_default() * 2}))
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    match std::env::var("AWS_LAMBDA_FUNCTION_NAME")?.as_str() {
        "Everything" => durable::run(everything).await,
        "Chain" => durable::run(chain).await,
        "Fails" => durable::run(fails).await,
        _ => lambda_runtime::run(service_fn(double)).await,
    }
}
