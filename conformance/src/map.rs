//! Suite 9: the same block for many items.

use crate::{Failed, Requirement, projection, requirement, seconds};
use outlast::{BatchResult, Completion, Context, Error, Map, Nesting, Result, codec, codec::Codec};
use serde_json::{Value, json};

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("9-1", basic),
        requirement("9-2", unnamed),
        requirement("9-3", with_index),
        requirement("9-4", empty),
        requirement("9-5", fail_fast),
        requirement("9-6", failure_thrown),
        requirement("9-7", enough_successes),
        requirement("9-8", failures_tolerated),
        requirement("9-9", too_many_failures),
        requirement("9-10", too_high_a_percentage),
        requirement("9-11", concurrent),
        requirement("9-12", flat),
        requirement("9-13", named_items),
        requirement("9-14", item_codec),
        requirement("9-15", suspends_inside),
        requirement("9-16", large_result),
        requirement("9-17", then_wait),
        requirement("9-18", failure_then_wait),
        requirement("9-19", operation_codec),
        requirement("9-20", operation_codec_on_replay),
    ]
}

/// Items that succeed (`true`) or fail, one at a time.
fn outcomes<const N: usize>(
    ctx: &Context,
    name: &str,
    outcomes: [bool; N],
) -> Map<'static, bool, String> {
    ctx.map(name, outcomes, async |_, succeeds| {
        if succeeds {
            Ok("ok".to_owned())
        } else {
            Err(Error::other(Failed))
        }
    })
    .max_concurrency(1)
}

/// Every item in upper case, one at a time.
fn shout<'a>(ctx: &Context, name: &str, items: [&'a str; 2]) -> Map<'a, &'a str, String> {
    ctx.map(name, items, async |_, item: &str| Ok(item.to_uppercase()))
        .max_concurrency(1)
}

/// A step that gives back what it is given.
async fn echo(ctx: &Context, text: &str) -> Result<String> {
    ctx.step("", async |_| Ok::<_, Error>(text.to_owned()))
        .await
}

async fn basic(ctx: Context, names: Vec<String>) -> Result<Vec<String>> {
    ctx.map("map", &names, async |ctx, name| {
        ctx.step("", async |_| Ok::<_, Error>(format!("Hello, {name}!")))
            .await
    })
    .max_concurrency(1)
    .await?
    .into_values()
}

async fn unnamed(ctx: Context, numbers: Vec<u32>) -> Result<Vec<u32>> {
    ctx.map("", numbers, async |_, number| Ok(number * 2))
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn with_index(ctx: Context, numbers: Vec<usize>) -> Result<Vec<usize>> {
    ctx.map(
        "indexed",
        numbers.iter().enumerate(),
        async |_, (index, number)| Ok(number + index),
    )
    .max_concurrency(1)
    .await?
    .into_values()
}

async fn empty(ctx: Context, items: Vec<String>) -> Result<Vec<String>> {
    ctx.map("empty", items, async |_, item| Ok(item))
        .await?
        .into_values()
}

async fn fail_fast(ctx: Context, (): ()) -> Result<Value> {
    let fail_fast = Completion::tolerated_failures(0);
    let batch = outcomes(&ctx, "failfast", [true, false, true])
        .completion(fail_fast)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn failure_thrown(ctx: Context, (): ()) -> Result<Vec<String>> {
    let fail_fast = Completion::tolerated_failures(0);
    let batch = outcomes(&ctx, "throwing", [false, true])
        .completion(fail_fast)
        .await?;
    batch.throw_if_error()?;
    batch.into_values()
}

async fn enough_successes(ctx: Context, (): ()) -> Result<Value> {
    let two = Completion::min_successful(2);
    let batch = outcomes(&ctx, "min-successful", [true; 4])
        .completion(two)
        .await?;
    Ok(projection::reason_and_successes(&batch))
}

async fn failures_tolerated(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = outcomes(&ctx, "tolerated", [true, false, true])
        .completion(one)
        .await?;
    Ok(projection::outcome(&batch))
}

async fn too_many_failures(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = outcomes(&ctx, "tolerated-exceeded", [false, false, true])
        .completion(one)
        .await?;
    Ok(projection::reason_and_counts(&batch))
}

async fn too_high_a_percentage(ctx: Context, (): ()) -> Result<Value> {
    let quarter = Completion {
        tolerated_failure_percentage: Some(25.0),
        ..Completion::all_successful()
    };
    let batch = outcomes(&ctx, "tolerated-pct", [false, false, true, true])
        .completion(quarter)
        .await?;
    Ok(projection::reason_and_counts(&batch))
}

async fn concurrent(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.map("concurrent", ["r0", "r1", "r2"], async |_, item: &str| {
        Ok(item.to_owned())
    })
    .max_concurrency(2)
    .await?
    .into_values()
}

async fn flat(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.map("flat", ["fa", "fb"], async |ctx, item| {
        echo(&ctx, item).await
    })
    .max_concurrency(1)
    .nesting(Nesting::Flat)
    .await?
    .into_values()
}

async fn named_items(ctx: Context, numbers: Vec<u32>) -> Result<Vec<u32>> {
    ctx.map("named-items", numbers, async |_, number| Ok(number * 10))
        .item_namer(|number, _| format!("item-{number}"))
        .max_concurrency(1)
        .await?
        .into_values()
}

async fn item_codec(ctx: Context, (): ()) -> Result<Vec<String>> {
    let wrapping = codec::from_fns(
        |value| Ok(format!("wrapped:{}", value.as_str().unwrap_or_default())),
        |text| Ok(text.strip_prefix("wrapped:").ok_or("not wrapped")?.into()),
    );
    shout(&ctx, "serdes", ["x", "y"])
        .item_codec(wrapping)
        .await?
        .into_values()
}

async fn suspends_inside(ctx: Context, (): ()) -> Result<Vec<String>> {
    ctx.map("suspend", ["r0", "r1"], async |ctx, item| {
        if item == "r1" {
            ctx.wait(seconds(1)).await?;
        }
        echo(&ctx, item).await
    })
    .max_concurrency(1)
    .await?
    .into_values()
}

async fn large_result(ctx: Context, (): ()) -> Result<Value> {
    let batch = ctx
        .map("large", ["a", "b", "c", "d"], async |_, letter: &str| {
            Ok(letter.repeat(70 * 1024))
        })
        .max_concurrency(1)
        .await?;
    Ok(projection::successes(&batch))
}

async fn then_wait(ctx: Context, (): ()) -> Result<Vec<String>> {
    let batch = shout(&ctx, "then-wait", ["a", "b"]).await?;
    ctx.wait(seconds(1)).await?;
    batch.into_values()
}

async fn failure_then_wait(ctx: Context, (): ()) -> Result<Value> {
    let one = Completion::tolerated_failures(1);
    let batch = outcomes(&ctx, "fail-then-wait", [true, false])
        .completion(one)
        .await?;
    ctx.wait(seconds(1)).await?;
    Ok(projection::outcome(&batch))
}

/// Stores a batch that succeeded as the list of its values.
fn joined() -> impl Codec {
    codec::from_fns(
        |value| {
            let batch: BatchResult<String> = serde_json::from_value(value)?;
            Ok(format!("OPSERDE:{}", batch.into_values()?.join(",")))
        },
        |text| {
            let values = text
                .strip_prefix("OPSERDE:")
                .ok_or("not a list of values")?
                .split(',');
            let items = values.enumerate().map(
                |(index, value)| json!({ "index": index, "status": "SUCCEEDED", "result": value }),
            );
            Ok(json!({ "all": items.collect::<Vec<_>>(), "completionReason": "ALL_COMPLETED" }))
        },
    )
}

async fn operation_codec(ctx: Context, (): ()) -> Result<Vec<String>> {
    shout(&ctx, "op-serde", ["x", "y"])
        .codec(joined())
        .await?
        .into_values()
}

async fn operation_codec_on_replay(ctx: Context, (): ()) -> Result<Vec<String>> {
    let batch = shout(&ctx, "op-serde-replay", ["x", "y"])
        .codec(joined())
        .await?;
    ctx.wait(seconds(1)).await?;
    batch.into_values()
}
