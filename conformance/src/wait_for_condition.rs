//! Suite 6: conditions.

use crate::{Failed, Requirement, requirement, seconds};
use outlast::{BoxError, Context, Error, Result, StepContext, WaitStrategy, codec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("6-1", basic),
        requirement("6-2", met_at_once),
        requirement("6-3", named),
        requirement("6-4", initial_state),
        requirement("6-5", fixed_delay),
        requirement("6-6", checks_exhausted),
        requirement("6-7", check_fails),
        requirement("6-8", failure_handled),
        requirement("6-9", complex_state),
        requirement("6-10", null_state),
        requirement("6-11", custom_codec),
        requirement("6-12", then_step),
        requirement("6-13", sequential),
    ]
}

/// A check that counts itself.
async fn count(state: u32, _: StepContext) -> Result<u32, BoxError> {
    Ok(state + 1)
}

/// Checks every second until the count is `threshold`.
fn reaches(threshold: u32) -> WaitStrategy<'static, u32> {
    WaitStrategy::until(move |state| *state >= threshold).fixed_delay(seconds(1))
}

async fn basic(ctx: Context, threshold: u32) -> Result<u32> {
    ctx.wait_for_condition("", 0, count, reaches(threshold))
        .await
}

async fn met_at_once(ctx: Context, threshold: u32) -> Result<u32> {
    ctx.wait_for_condition(
        "",
        5,
        async |state, _| Ok::<_, Error>(state),
        reaches(threshold),
    )
    .await
}

async fn named(ctx: Context, threshold: u32) -> Result<u32> {
    ctx.wait_for_condition("poll-status", 0, count, reaches(threshold))
        .await
}

async fn initial_state(ctx: Context, threshold: u32) -> Result<u32> {
    ctx.wait_for_condition("", 5, count, reaches(threshold))
        .await
}

async fn fixed_delay(ctx: Context, threshold: u32) -> Result<u32> {
    ctx.wait_for_condition("", 0, count, reaches(threshold).fixed_delay(seconds(2)))
        .await
}

async fn checks_exhausted(ctx: Context, initial: u32) -> Result<u32> {
    let never = WaitStrategy::until(|_| false)
        .fixed_delay(seconds(1))
        .max_attempts(3);
    ctx.wait_for_condition("", initial, count, never).await
}

async fn check_fails(ctx: Context, (): ()) -> Result<u32> {
    ctx.wait_for_condition("", 0, async |_, _| Err(Failed), reaches(1))
        .await
}

async fn failure_handled(ctx: Context, (): ()) -> Result<String> {
    let state = ctx
        .wait_for_condition("", 0, async |_, _| Err(Failed), reaches(1))
        .await;
    Ok(state.map_or_else(|_| "recovered".to_owned(), |state| state.to_string()))
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Pending,
    Done,
}

#[derive(Serialize, Deserialize)]
struct Export {
    status: Status,
    attempts: u32,
}

async fn complex_state(ctx: Context, (): ()) -> Result<Export> {
    let check = async |state: Export, _| {
        let attempts = state.attempts + 1;
        let status = if attempts < 2 {
            Status::Pending
        } else {
            Status::Done
        };
        Ok::<_, Error>(Export { status, attempts })
    };
    let done =
        WaitStrategy::until(|state: &Export| state.status == Status::Done).fixed_delay(seconds(1));
    ctx.wait_for_condition(
        "",
        Export {
            status: Status::Pending,
            attempts: 0,
        },
        check,
        done,
    )
    .await
}

async fn null_state(ctx: Context, (): ()) -> Result<()> {
    let at_once = WaitStrategy::until(|()| true);
    ctx.wait_for_condition("", (), async |(), _| Ok::<_, Error>(()), at_once)
        .await
}

async fn custom_codec(ctx: Context, (): ()) -> Result<String> {
    let marked = codec::from_fns(
        |value| Ok(format!("state:{}", value.as_str().unwrap_or_default())),
        |text| {
            Ok(Value::from(
                text.strip_prefix("state:").ok_or("the mark is missing")?,
            ))
        },
    );
    let twice = WaitStrategy::until(|state: &String| state.len() >= 2).fixed_delay(seconds(1));
    ctx.wait_for_condition(
        "",
        String::new(),
        async |state, _| Ok::<_, Error>(state + "x"),
        twice,
    )
    .codec(marked)
    .await
}

async fn then_step(ctx: Context, threshold: u32) -> Result<u32> {
    let state = ctx
        .wait_for_condition("", 0, count, reaches(threshold))
        .await?;
    ctx.step("", async |_| Ok::<_, Error>(state * 10)).await
}

async fn sequential(ctx: Context, (): ()) -> Result<u32> {
    let first = ctx.wait_for_condition("", 0, count, reaches(2)).await?;
    ctx.wait_for_condition("", first, count, reaches(4)).await
}
