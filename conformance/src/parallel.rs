//! Suite 8: blocks side by side.

use crate::{Failed, Requirement, projection, requirement, seconds};
use outlast::{Completion, Context, Error, Nesting, Parallel, Result, codec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("8-1", basic),
        requirement("8-2", unnamed),
        requirement("8-3", named_branches),
        requirement("8-4", different_types),
        requirement("8-5", empty),
        requirement("8-6", fail_fast),
        requirement("8-7", failure_thrown),
        requirement("8-8", enough_successes),
        requirement("8-9", failures_tolerated),
        requirement("8-10", too_many_failures),
        requirement("8-11", concurrent),
        requirement("8-12", flat),
        requirement("8-13", too_high_a_percentage),
        requirement("8-14", replay_skips_branches),
        requirement("8-15", item_codec),
        requirement("8-16", all_fail),
        requirement("8-17", too_few_successes),
        requirement("8-18", both_criteria),
        requirement("8-19", no_concurrency),
        requirement("8-20", accessors),
        requirement("8-21", nested),
        requirement("8-22", just_tolerated_percentage),
    ]
}

/// Branches that succeed (`true`) or fail, one at a time.
fn branches(ctx: &Context, name: &str, outcomes: &[bool]) -> Parallel<'static, String> {
    outcomes.iter().fold(
        ctx.parallel(name).max_concurrency(1),
        |parallel, succeeds| {
            let succeeds = *succeeds;
            parallel.branch("", async move |_| {
                if succeeds {
                    Ok("ok".to_owned())
                } else {
                    Err(Error::other(Failed))
                }
            })
        },
    )
}

/// A step that gives back what it is given.
async fn echo(ctx: &Context, text: &str) -> Result<String> {
    ctx.step("", async |_| Ok::<_, Error>(text.to_owned()))
        .await
}

async fn basic(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("parallel")
        .branch("", async |ctx| echo(&ctx, "task-1").await)
        .branch("", async |ctx| echo(&ctx, "task-2").await)
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn unnamed(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("")
        .branch("", async |_| Ok("alpha".to_owned()))
        .branch("", async |_| Ok("beta".to_owned()))
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn named_branches(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("named")
        .branch("first", async |_| Ok("one".to_owned()))
        .branch("second", async |_| Ok("two".to_owned()))
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn different_types(ctx: Context, (): ()) -> Result<Vec<Value>> {
    ctx.parallel("hetero")
        .branch("", async |_| Ok(json!("hello")))
        .branch("", async |_| Ok(json!(42)))
        .branch("", async |_| Ok(json!({ "k": "v" })))
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn empty(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("empty").await?.into_values()
}

async fn fail_fast(ctx: Context, (): ()) -> Result<Value> {
    let fail_fast = Completion::tolerated_failures(0);
    let batch = branches(&ctx, "failfast", &[true, false, true])
        .completion(fail_fast)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn failure_thrown(ctx: Context, (): ()) -> Result<Vec<String>> {
    let fail_fast = Completion::tolerated_failures(0);
    let batch = branches(&ctx, "throwing", &[false, true])
        .completion(fail_fast)
        .await?;
    batch.throw_if_error()?;
    batch.into_values()
}

async fn enough_successes(ctx: Context, (): ()) -> Result<Value> {
    let two = Completion::min_successful(2);
    let batch = branches(&ctx, "min-successful", &[true; 4])
        .completion(two)
        .await?;
    Ok(projection::reason_and_successes(&batch))
}

async fn failures_tolerated(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = branches(&ctx, "tolerated", &[true, false, true])
        .completion(one)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn too_many_failures(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = branches(&ctx, "tolerated-exceeded", &[false, false, true])
        .completion(one)
        .await?;
    Ok(projection::reason_and_counts(&batch))
}

async fn concurrent(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("concurrent")
        .branch("", async |_| Ok("r0".to_owned()))
        .branch("", async |_| Ok("r1".to_owned()))
        .branch("", async |_| Ok("r2".to_owned()))
        .max_concurrency(2)
        .await?
        .into_values()
}

async fn flat(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("flat")
        .branch("", async |ctx| echo(&ctx, "fa").await)
        .branch("", async |ctx| echo(&ctx, "fb").await)
        .max_concurrency(1)
        .nesting(Nesting::Flat)
        .await?
        .into_values()
}

/// A quarter of the branches may fail.
const QUARTER: Completion = Completion {
    tolerated_failure_percentage: Some(25.0),
    ..Completion::all_successful()
};

async fn too_high_a_percentage(ctx: Context, (): ()) -> Result<Value> {
    let batch = branches(&ctx, "tolerated-pct", &[false, false, true, true])
        .completion(QUARTER)
        .await?;
    Ok(projection::reason_and_counts(&batch))
}

async fn replay_skips_branches(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.parallel("replay")
        .branch("", async |ctx| echo(&ctx, "b0").await)
        .branch("", async |ctx| {
            ctx.wait(seconds(2)).await?;
            Ok("b1".to_owned())
        })
        .max_concurrency(1)
        .await?
        .into_values()
}

/// A value in an envelope.
#[derive(Serialize, Deserialize)]
struct Wrapped {
    wrapped: Value,
}

async fn item_codec(ctx: Context, (): ()) -> Result<Vec<String>> {
    let wrapping = codec::from_fns(
        |wrapped| Ok(serde_json::to_string(&Wrapped { wrapped })?),
        |text| Ok(serde_json::from_str::<Wrapped>(text)?.wrapped),
    );
    ctx.parallel("serde")
        .branch("", async |_| Ok("x".to_owned()))
        .branch("", async |_| Ok("y".to_owned()))
        .max_concurrency(1)
        .item_codec(wrapping)
        .await?
        .into_values()
}

async fn all_fail(ctx: Context, (): ()) -> Result<Value> {
    let three = Completion::tolerated_failures(3);
    let batch = branches(&ctx, "all-fail", &[false; 3])
        .completion(three)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn too_few_successes(ctx: Context, (): ()) -> Result<Value> {
    let three = Completion::min_successful(3);
    let batch = branches(&ctx, "min-not-reached", &[true, false, true])
        .completion(three)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn both_criteria(ctx: Context, (): ()) -> Result<Value> {
    let both = Completion {
        tolerated_failure_count: Some(1),
        ..Completion::min_successful(3)
    };
    let batch = branches(&ctx, "combined", &[false, false, true, true])
        .completion(both)
        .await?;
    Ok(projection::reason_and_counts(&batch))
}

async fn no_concurrency(ctx: Context, (): ()) -> Result<Vec<String>> {
    branches(&ctx, "bad-concurrency", &[true, true])
        .max_concurrency(0)
        .await?
        .into_values()
}

async fn accessors(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = branches(&ctx, "accessors", &[true, false, true])
        .completion(one)
        .await?;
    Ok(projection::accessors(&batch))
}

async fn inner(ctx: Context) -> Result<Vec<String>> {
    ctx.parallel("inner")
        .branch("", async |ctx| echo(&ctx, "i1").await)
        .branch("", async |ctx| echo(&ctx, "i2").await)
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn nested(ctx: Context, (): ()) -> Result<Vec<Vec<String>>> {
    ctx.parallel("outer")
        .branch("", inner)
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn just_tolerated_percentage(ctx: Context, (): ()) -> Result<Value> {
    let batch = branches(&ctx, "pct-boundary", &[false, true, true, true])
        .completion(QUARTER)
        .await?;
    Ok(projection::outcome(&batch))
}
