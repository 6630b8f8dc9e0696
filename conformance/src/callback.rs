//! Suite 4: callbacks.

use crate::{Requirement, requirement, seconds};
use outlast::{BoxError, Context, Error, Result, codec};
use serde_json::{Value, json};
use std::time::SystemTime;

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("4-1", basic),
        requirement("4-2", named),
        requirement("4-3", timeout),
        requirement("4-4", heartbeat_timeout),
        requirement("4-5", heartbeat_then_success),
        requirement("4-6", basic),
        requirement("4-7", step_then_result),
        requirement("4-8", step_then_timeout),
        requirement("4-9", wait_then_result),
        requirement("4-10", wait_then_result),
        requirement("4-11", wait_past_timeout),
        requirement("4-12", result_then_wait),
        requirement("4-13", failure_handled_then_wait),
        requirement("4-14", timeout_handled_then_wait),
        requirement("4-15", typed_reply),
        requirement("4-16", numeric_reply),
        requirement("4-17", one_after_another),
        requirement("4-18", both_awaited_in_order),
        requirement("4-19", both_awaited_in_reverse),
    ]
}

async fn basic(ctx: Context, name: String) -> Result<String> {
    ctx.create_callback(&name).await?.result().await
}

async fn named(ctx: Context, (): ()) -> Result<String> {
    ctx.create_callback("approval").await?.result().await
}

async fn timeout(ctx: Context, name: String) -> Result<String> {
    ctx.create_callback(&name)
        .timeout(seconds(5))
        .await?
        .result()
        .await
}

async fn heartbeat_timeout(ctx: Context, name: String) -> Result<String> {
    ctx.create_callback(&name)
        .heartbeat_timeout(seconds(5))
        .await?
        .result()
        .await
}

async fn heartbeat_then_success(ctx: Context, name: String) -> Result<String> {
    ctx.create_callback(&name)
        .heartbeat_timeout(seconds(10))
        .await?
        .result()
        .await
}

async fn step_then_result(ctx: Context, name: String) -> Result<String> {
    let callback = ctx.create_callback(&name).await?;
    ctx.step("", async |_| Ok::<_, Error>(())).await?;
    callback.result().await
}

async fn step_then_timeout(ctx: Context, name: String) -> Result<String> {
    let callback = ctx.create_callback(&name).timeout(seconds(5)).await?;
    ctx.step("", async |_| Ok::<_, Error>(())).await?;
    callback.result().await
}

async fn wait_then_result(ctx: Context, name: String) -> Result<String> {
    let callback = ctx.create_callback(&name).await?;
    ctx.wait(seconds(5)).await?;
    callback.result().await
}

async fn wait_past_timeout(ctx: Context, name: String) -> Result<String> {
    let callback = ctx.create_callback(&name).timeout(seconds(3)).await?;
    ctx.wait(seconds(6)).await?;
    callback.result().await
}

async fn result_then_wait(ctx: Context, name: String) -> Result<String> {
    let reply = ctx.create_callback(&name).await?.result().await?;
    ctx.wait(seconds(2)).await?;
    Ok(reply)
}

async fn failure_handled_then_wait(ctx: Context, name: String) -> Result<String> {
    let reply: Result<String> = ctx.create_callback(&name).await?.result().await;
    ctx.wait(seconds(2)).await?;
    Ok(reply.unwrap_or_else(|error| error.message().to_owned()))
}

async fn timeout_handled_then_wait(ctx: Context, name: String) -> Result<String> {
    let reply: Result<String> = ctx
        .create_callback(&name)
        .timeout(seconds(3))
        .await?
        .result()
        .await;
    ctx.wait(seconds(2)).await?;
    Ok(reply.unwrap_or_else(|error| error.error_type().to_owned()))
}

/// Reads a reply whose timestamp comes as text and is wanted as a number of seconds.
fn read_reply(text: &str) -> Result<Value, BoxError> {
    let mut reply: Value = serde_json::from_str(text)?;
    if let Some(timestamp) = reply.get_mut("timestamp") {
        let time = humantime::parse_rfc3339(timestamp.as_str().unwrap_or_default())?;
        *timestamp = time
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_secs()
            .into();
    }
    Ok(reply)
}

async fn typed_reply(ctx: Context, name: String) -> Result<Value> {
    let codec = codec::from_fns(|value| Ok(value.to_string()), read_reply);
    let received: Value = ctx
        .create_callback(&name)
        .codec(codec)
        .await?
        .result()
        .await?;
    Ok(json!({ "received": received }))
}

async fn numeric_reply(ctx: Context, name: String) -> Result<Value> {
    let codec = codec::from_fns(
        |value| Ok(value.to_string()),
        |text| Ok(text.parse::<u64>()?.into()),
    );
    let count: u64 = ctx
        .create_callback(&name)
        .codec(codec)
        .await?
        .result()
        .await?;
    Ok(json!({ "count": count, "doubled": count * 2 }))
}

async fn one_after_another(ctx: Context, [a, b]: [String; 2]) -> Result<[String; 2]> {
    let a = ctx.create_callback(&a).await?.result().await?;
    let b = ctx.create_callback(&b).await?.result().await?;
    Ok([a, b])
}

async fn both_awaited_in_order(ctx: Context, [a, b]: [String; 2]) -> Result<[String; 2]> {
    let a = ctx.create_callback(&a).await?;
    let b = ctx.create_callback(&b).await?;
    Ok([a.result().await?, b.result().await?])
}

async fn both_awaited_in_reverse(ctx: Context, [a, b]: [String; 2]) -> Result<[String; 2]> {
    let a = ctx.create_callback(&a).await?;
    let b = ctx.create_callback(&b).await?;
    let b = b.result().await?;
    Ok([a.result().await?, b])
}
