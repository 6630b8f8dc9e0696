//! Suite 5: invoking other functions.
//!
//! The targets are durable and wait for a second, so that a caller has always suspended before its
//! answer comes, however fast the home is.

use crate::{Failed, Requirement, requirement, seconds};
use outlast::{Context, Error, Function, Result, codec};
use serde::Deserialize;
use serde_json::Value;

pub(crate) fn requirements() -> Vec<Requirement> {
    let echoed = |requirement: Requirement| requirement.with_targets([echo_function()]);
    let refused = |requirement: Requirement| requirement.with_targets([failing_function()]);
    vec![
        echoed(requirement("5-1", basic)),
        echoed(requirement("5-2", named)),
        echoed(requirement("5-3", basic)),
        echoed(requirement("5-4", basic)),
        refused(requirement("5-5", fails)),
        refused(requirement("5-6", failure_handled)),
        echoed(requirement("5-7", large_payload)),
        requirement("5-8", for_a_tenant).with_targets([tenant_echo_function()]),
        echoed(requirement("5-9", replay_skips)),
        refused(requirement("5-10", replay_throws_again)),
        echoed(requirement("5-11", after_a_step)),
        echoed(requirement("5-12", before_a_step)),
        echoed(requirement("5-13", inside_a_child)),
        echoed(requirement("5-14", sequential)),
        echoed(requirement("5-15", payload_codec)),
        echoed(requirement("5-16", result_codec)),
    ]
}

const ECHO: &str = "conformance-echo:$LATEST";
const TENANT_ECHO: &str = "conformance-tenant-echo:$LATEST";
const FAILING: &str = "conformance-failing:$LATEST";

/// Answers with what it was given.
async fn echo(ctx: Context, input: Value) -> Result<Value> {
    ctx.wait(seconds(1)).await?;
    Ok(input)
}

fn echo_function() -> Function {
    Function::new("conformance-echo", echo)
}

/// The same for tenants, which others may not be invoked for.
fn tenant_echo_function() -> Function {
    Function::new("conformance-tenant-echo", echo).per_tenant()
}

/// Fails.
fn failing_function() -> Function {
    Function::new("conformance-failing", async |ctx: Context, _: Value| {
        ctx.wait(seconds(1)).await?;
        Err::<(), _>(Error::other(Failed))
    })
}

async fn basic(ctx: Context, input: Value) -> Result<Value> {
    ctx.invoke("", ECHO, &input).await
}

#[derive(Deserialize)]
struct Named {
    name: String,
    payload: Value,
}

async fn named(ctx: Context, input: Named) -> Result<Value> {
    ctx.invoke(&input.name, ECHO, &input.payload).await
}

async fn fails(ctx: Context, (): ()) -> Result<()> {
    ctx.invoke("", FAILING, ()).await
}

async fn failure_handled(ctx: Context, (): ()) -> Result<String> {
    let answer: Result<String> = ctx.invoke("", FAILING, ()).await;
    Ok(answer.unwrap_or_else(|_| "fallback".to_owned()))
}

async fn large_payload(ctx: Context, (): ()) -> Result<usize> {
    let answer: String = ctx.invoke("", ECHO, "x".repeat(1_000_000)).await?;
    Ok(answer.len())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForTenant {
    tenant_id: String,
    payload: Value,
}

async fn for_a_tenant(ctx: Context, input: ForTenant) -> Result<Value> {
    ctx.invoke("", TENANT_ECHO, &input.payload)
        .tenant(&input.tenant_id)
        .await
}

async fn replay_skips(ctx: Context, (): ()) -> Result<String> {
    let answer = ctx.invoke("", ECHO, "once").await?;
    ctx.wait(seconds(1)).await?;
    Ok(answer)
}

async fn replay_throws_again(ctx: Context, (): ()) -> Result<String> {
    let answer: Result<String> = ctx.invoke("", FAILING, ()).await;
    ctx.wait(seconds(1)).await?;
    Ok(answer.unwrap_or_else(|error| error.message().to_owned()))
}

async fn after_a_step(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("", async |_| Ok::<_, Error>("from the step".to_owned()))
        .await?;
    ctx.invoke("", ECHO, &value).await
}

async fn before_a_step(ctx: Context, (): ()) -> Result<String> {
    let answer: String = ctx.invoke("", ECHO, "from the function").await?;
    ctx.step("", async |_| Ok::<_, Error>(answer.clone())).await
}

async fn inside_a_child(ctx: Context, (): ()) -> Result<String> {
    ctx.run_in_child_context("", async |ctx| ctx.invoke("", ECHO, "inside").await)
        .await
}

async fn sequential(ctx: Context, (): ()) -> Result<String> {
    let first: String = ctx.invoke("", ECHO, "first").await?;
    ctx.invoke("", ECHO, format!("{first}, second")).await
}

async fn payload_codec(ctx: Context, input: Value) -> Result<Value> {
    let uppercase = codec::from_fns(
        |value| Ok(value.to_string().to_uppercase()),
        |text| Ok(serde_json::from_str(text)?),
    );
    ctx.invoke("", ECHO, &input).payload_codec(uppercase).await
}

async fn result_codec(ctx: Context, input: String) -> Result<String> {
    // The answer's text as it came, quotes included.
    let uppercase = codec::from_fns(
        |value| Ok(value.to_string()),
        |text| Ok(text.to_uppercase().into()),
    );
    ctx.invoke("", ECHO, &input).result_codec(uppercase).await
}
