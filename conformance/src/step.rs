//! Suite 1: steps.

use crate::{Crash, Failed, Requirement, requirement, seconds};
use outlast::{Context, Error, Jitter, Result, Retry, RetryDecision, codec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) fn requirements(crash: &Crash) -> Vec<Requirement> {
    let (lost, lost_once) = (crash.clone(), crash.clone());
    vec![
        requirement("1-1", basic),
        requirement("1-2", named),
        requirement("1-3", sequential),
        requirement("1-4", complex_result),
        requirement("1-5", null_result),
        requirement("1-6", custom_codec),
        requirement("1-7", logging),
        requirement("1-8", then_wait),
        requirement("1-9", replay_skips),
        requirement("1-10", replay_throws_again),
        requirement("1-11", retried),
        requirement("1-12", retries_exhausted),
        requirement("1-13", default_retry),
        requirement("1-14", own_retry_numbers),
        requirement("1-15", retries_this_error),
        requirement("1-16", does_not_retry_this_error),
        requirement("1-17", move |ctx, input| {
            lost_for_good(ctx, input, lost.clone())
        })
        .losing_its_process(),
        requirement("1-18", move |ctx, input| {
            lost_then_retried(ctx, input, lost_once.clone())
        })
        .losing_its_process(),
        requirement("1-19", fails),
        requirement("1-20", failure_handled),
    ]
}

/// A disturbance that passes.
#[derive(Debug, thiserror::Error)]
#[error("not available right now")]
struct TransientError;

async fn basic(ctx: Context, name: String) -> Result<String> {
    ctx.step("", async |_| Ok::<_, Error>(format!("Hello, {name}!")))
        .await
}

async fn named(ctx: Context, name: String) -> Result<String> {
    ctx.step("custom_step_name", async |_| {
        Ok::<_, Error>(format!("Hello, {name}!"))
    })
    .await
}

async fn sequential(ctx: Context, (): ()) -> Result<String> {
    let first = ctx
        .step("", async |_| Ok::<_, Error>("first".to_owned()))
        .await?;
    ctx.step("", async |_| Ok::<_, Error>(format!("{first}_second")))
        .await
}

#[derive(Clone, Serialize, Deserialize)]
struct User {
    name: String,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Profile {
    count: usize,
    user: User,
}

async fn complex_result(ctx: Context, user: User) -> Result<Profile> {
    ctx.step("", async |_| {
        Ok::<_, Error>(Profile {
            count: user.tags.len(),
            user: user.clone(),
        })
    })
    .await
}

async fn null_result(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Ok::<_, Error>(())).await
}

async fn custom_codec(ctx: Context, text: String) -> Result<String> {
    let uppercase = codec::from_fns(
        |value| Ok(value.as_str().unwrap_or_default().to_uppercase()),
        |text| Ok(Value::from(text)),
    );
    ctx.step("", async |_| Ok::<_, Error>(text.clone()))
        .codec(uppercase)
        .await
}

async fn logging(ctx: Context, name: String) -> Result<String> {
    ctx.step("", async |_| {
        tracing::info!("Greeting step started for: {name}");
        let greeting = format!("Hello, {name}!");
        tracing::info!("Greeting step completed with: {greeting}");
        Ok::<_, Error>(greeting)
    })
    .await
}

async fn then_wait(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("", async |_| Ok::<_, Error>("computed".to_owned()))
        .await?;
    ctx.wait(seconds(2)).await?;
    Ok(value)
}

async fn replay_skips(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("", async |_| {
            tracing::info!("step executed");
            Ok::<_, Error>("cached_value".to_owned())
        })
        .await?;
    ctx.wait(seconds(1)).await?;
    Ok(value)
}

async fn replay_throws_again(ctx: Context, (): ()) -> Result<String> {
    let failed = ctx
        .step("", async |_| {
            tracing::info!("step executed");
            Err::<(), _>(Failed)
        })
        .retry(Retry::none())
        .await;
    ctx.wait(seconds(1)).await?;
    Ok(failed.map_or_else(
        |error| error.message().to_owned(),
        |()| "did not fail".to_owned(),
    ))
}

async fn retried(ctx: Context, (): ()) -> Result<String> {
    ctx.step("", async |step| {
        if step.attempt() < 2 {
            Err(Failed)
        } else {
            Ok("Operation succeeded".to_owned())
        }
    })
    .retry(Retry::fixed(seconds(1)))
    .await
}

async fn retries_exhausted(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Err(Failed))
        .retry(Retry::fixed(seconds(1)).max_attempts(4))
        .await
}

async fn default_retry(ctx: Context, (): ()) -> Result<String> {
    ctx.step("", async |step| {
        if step.attempt() < 3 {
            Err(Failed)
        } else {
            Ok("third time lucky".to_owned())
        }
    })
    .await
}

async fn own_retry_numbers(ctx: Context, (): ()) -> Result<String> {
    let retry = Retry::exponential()
        .max_attempts(5)
        .initial_delay(seconds(2))
        .backoff_rate(3.0)
        .jitter(Jitter::None);
    ctx.step("", async |step| {
        if step.attempt() < 3 {
            Err(Failed)
        } else {
            Ok("third time lucky".to_owned())
        }
    })
    .retry(retry)
    .await
}

async fn retries_this_error(ctx: Context, (): ()) -> Result<String> {
    let retry = Retry::custom(|failure| {
        if failure.is::<TransientError>() {
            RetryDecision::Retry(seconds(1))
        } else {
            RetryDecision::Stop
        }
    });
    ctx.step("", async |step| {
        if step.attempt() < 2 {
            Err(TransientError)
        } else {
            Ok("available".to_owned())
        }
    })
    .retry(retry)
    .await
}

async fn does_not_retry_this_error(ctx: Context, (): ()) -> Result<()> {
    let retry = Retry::custom(|failure| {
        if failure.is::<TransientError>() {
            RetryDecision::Stop
        } else {
            RetryDecision::Retry(seconds(1))
        }
    });
    ctx.step("", async |_| Err(TransientError))
        .retry(retry)
        .await
}

async fn lost_for_good(ctx: Context, input: String, crash: Crash) -> Result<()> {
    ctx.step("at_most_once_flaky_step", async |_| -> Result<()> {
        tracing::info!("{input}");
        match crash.now().await {}
    })
    .at_most_once()
    .retry(Retry::none())
    .await
}

async fn lost_then_retried(ctx: Context, input: String, crash: Crash) -> Result<String> {
    ctx.step("", async |step| {
        tracing::info!("{input}");
        if step.attempt() == 1 {
            match crash.now().await {}
        }
        Ok::<_, Error>("succeeded on second attempt".to_owned())
    })
    .at_most_once()
    .retry(Retry::fixed(seconds(1)))
    .await
}

async fn fails(ctx: Context, (): ()) -> Result<()> {
    ctx.step("", async |_| Err(Failed))
        .retry(Retry::none())
        .await
}

async fn failure_handled(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("", async |_| Err(Failed))
        .retry(Retry::none())
        .await;
    let value: String = value.unwrap_or_else(|_| "fallback".to_owned());
    ctx.step("", async |_| Ok::<_, Error>(format!("{value}_result")))
        .await
}
