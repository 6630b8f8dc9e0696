//! Suite 7: callbacks with a submitter.

use crate::{Failed, Requirement, requirement, seconds};
use outlast::{BoxError, Context, Error, Result, Retry};
use serde::Deserialize;

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("7-1", basic),
        requirement("7-2", fixed_name),
        requirement("7-3", unnamed),
        requirement("7-4", basic),
        requirement("7-5", timeout),
        requirement("7-6", failure_handled),
        requirement("7-7", submitter_fails),
        requirement("7-8", inside_a_child),
        requirement("7-9", sequential),
        requirement("7-10", after_wait_and_step),
        requirement("7-11", typed_reply),
        requirement("7-12", heartbeat_timeout),
        requirement("7-13", heartbeat_then_success),
        requirement("7-14", timeout_handled),
        requirement("7-15", empty_reply),
    ]
}

/// A submitter; the one who replies finds the id in the history.
async fn submit(_id: String) -> Result<(), BoxError> {
    Ok(())
}

async fn basic(ctx: Context, name: String) -> Result<String> {
    ctx.wait_for_callback(&name, submit).await
}

async fn fixed_name(ctx: Context, (): ()) -> Result<String> {
    ctx.wait_for_callback("approval", submit).await
}

async fn unnamed(ctx: Context, (): ()) -> Result<String> {
    ctx.wait_for_callback("", submit).await
}

async fn timeout(ctx: Context, name: String) -> Result<String> {
    ctx.wait_for_callback(&name, submit)
        .timeout(seconds(3))
        .await
}

async fn failure_handled(ctx: Context, name: String) -> Result<String> {
    let reply: Result<String> = ctx.wait_for_callback(&name, submit).await;
    Ok(reply.unwrap_or_else(|_| "recovered".to_owned()))
}

async fn submitter_fails(ctx: Context, name: String) -> Result<String> {
    ctx.wait_for_callback(&name, async |_| Err(Failed))
        .retry(Retry::fixed(seconds(1)).max_attempts(2))
        .await
}

async fn inside_a_child(ctx: Context, name: String) -> Result<String> {
    ctx.run_in_child_context("wrapper", async |ctx| {
        ctx.wait_for_callback(&name, submit).await
    })
    .await
}

async fn sequential(ctx: Context, (): ()) -> Result<String> {
    ctx.wait_for_callback::<String, _, _, _>("first", submit)
        .await?;
    ctx.wait_for_callback("second", submit).await
}

async fn after_wait_and_step(ctx: Context, name: String) -> Result<String> {
    ctx.wait(seconds(1)).await?;
    ctx.step("", async |_| Ok::<_, Error>("fixed data".to_owned()))
        .await?;
    ctx.wait_for_callback(&name, submit).await
}

#[derive(Deserialize)]
struct Reply {
    status: String,
}

async fn typed_reply(ctx: Context, name: String) -> Result<String> {
    let reply: Reply = ctx.wait_for_callback(&name, submit).await?;
    Ok(reply.status)
}

async fn heartbeat_timeout(ctx: Context, name: String) -> Result<String> {
    ctx.wait_for_callback(&name, submit)
        .heartbeat_timeout(seconds(5))
        .await
}

async fn heartbeat_then_success(ctx: Context, name: String) -> Result<String> {
    ctx.wait_for_callback(&name, submit)
        .heartbeat_timeout(seconds(10))
        .await
}

async fn timeout_handled(ctx: Context, name: String) -> Result<String> {
    let reply: Result<String> = ctx
        .wait_for_callback(&name, submit)
        .timeout(seconds(3))
        .await;
    Ok(reply.unwrap_or_else(|_| "timed-out-handled".to_owned()))
}

async fn empty_reply(ctx: Context, name: String) -> Result<Option<String>> {
    ctx.wait_for_callback(&name, submit).await
}
