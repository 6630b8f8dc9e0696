//! Our own requirements, for what the official ones leave out: `conformance/requirements` says what
//! each handler does and what is done to it meanwhile.

use crate::{Failed, Requirement, SYNCHRONOUS_MAX, requirement, seconds};
use outlast::{BoxError, Context, Error, Function, Result, Retry};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{future::Future, time::Duration};

/// More than AWS Lambda allows in one execution.
const MANY: u32 = 3_100;

pub(crate) fn requirements() -> Vec<Requirement> {
    let mut all = ends();
    all.extend(api());
    all.extend(limits());
    all.extend(crashes());
    all
}

/// How executions end from outside: stopped, or out of time.
fn ends() -> Vec<Requirement> {
    vec![
        requirement("stop-1", waits_long),
        requirement("stop-2", approved),
        requirement("stop-3", slow_step),
        requirement("stop-4", greet),
        requirement("stop-5", asks_approver).with_targets([approver()]),
        requirement("stop-6", asks_approver).with_targets([approver()]),
        requirement("stop-7", never_succeeds),
        requirement("stop-8", greet),
        requirement("timeout-1", waits_long).with_execution_timeout(seconds(3)),
        requirement("timeout-2", approved).with_execution_timeout(seconds(3)),
        requirement("timeout-3", slow_step).with_execution_timeout(seconds(3)),
        requirement("timeout-4", never_succeeds).with_execution_timeout(seconds(3)),
        requirement("timeout-5", greet).with_execution_timeout(seconds(2)),
        requirement("timeout-6", asks_impatient).with_targets([impatient()]),
        requirement("timeout-7", greet),
        requirement("timeout-8", approved),
        requirement("function-timeout-1", hangs_once),
        requirement("function-timeout-2", hangs),
    ]
}

/// What the API tells, and what it takes.
fn api() -> Vec<Requirement> {
    vec![
        requirement("list-1", greet),
        requirement("list-2", greet),
        requirement("list-3", approved),
        requirement("list-4", greet),
        requirement("name-1", greet),
        requirement("name-2", approved),
        requirement("name-3", greet),
        requirement("name-4", step_then_wait),
        requirement("name-5", fails),
        requirement("name-6", greet),
        requirement("paging-1", five_steps),
        requirement("paging-2", greet),
        requirement("paging-3", approved),
        requirement("paging-4", large_steps),
        requirement("many-1", many),
        requirement("callback-1", approved),
        requirement("callback-2", approved),
        requirement("callback-3", forgets_its_callback),
        requirement("callback-4", approved),
        requirement("callback-5", approved),
        requirement("signal-1", signalled),
        requirement("signal-2", signal_missed),
        requirement("signal-3", signalled_twice),
        requirement("signal-4", greet),
        requirement("tenant-1", tenant).with_targets([for_tenants("tenant-1", tenant)]),
        requirement("tenant-2", calls).with_targets([
            for_tenants("tenant-2", calls),
            for_tenants("tenant", tenant),
            untold_function(),
        ]),
        requirement("tenant-3", greet).with_targets([for_tenants("tenant-3", greet)]),
        requirement("tenant-4", greet).with_targets([for_tenants("tenant-4", greet)]),
        requirement("tenant-5", greet),
        requirement("tenant-6", calls).with_targets([for_tenants("tenant-6", greet), greeter()]),
        requirement("version-1", greet),
        requirement("version-2", approved_in_version),
        requirement("version-3", calls).with_targets([greeter()]),
        requirement("version-4", greet),
        requirement("version-5", approved),
    ]
}

/// Sizes at which something ends.
fn limits() -> Vec<Requirement> {
    vec![
        requirement("payload-1", length),
        requirement("payload-2", step_of_size),
        requirement("payload-3", result_of_size),
        requirement("payload-4", approval_length),
        requirement("payload-5", approval_length),
        requirement("payload-6", calls_with_size).with_targets([measurer()]),
        requirement("payload-7", echo),
        requirement("payload-8", calls_for_size).with_targets([producer()]),
        requirement("payload-9", waits_long),
    ]
}

/// An engine that dies, in every phase of an execution.
fn crashes() -> Vec<Requirement> {
    vec![
        requirement("crash-1", step_then_wait),
        requirement("crash-2", slow_step),
        requirement("crash-3", approved),
        requirement("crash-4", retried),
        requirement("crash-5", greet),
        requirement("crash-6", works_between_steps),
        requirement("crash-7", approved),
        requirement("crash-8", asks_approver).with_targets([approver()]),
        requirement("crash-9", fans_out),
        requirement("crash-10", slow_step),
        requirement("crash-11", step_then_wait),
        requirement("crash-12", waits_long).with_execution_timeout(seconds(3)),
        requirement("crash-13", greet),
        requirement("crash-14", approved_in_time),
        requirement("crash-15", signalled),
        requirement("crash-16", approved_in_version),
        requirement("crash-17", three_waits),
        requirement("crash-18", asks_approver).with_targets([approver()]),
    ]
}

async fn greet(ctx: Context, name: String) -> Result<String> {
    ctx.step("greet", async |_| Ok::<_, Error>(format!("Hello, {name}!")))
        .await
}

async fn echo(_: Context, input: Value) -> Result<Value> {
    Ok(input)
}

async fn length(_: Context, input: String) -> Result<usize> {
    Ok(input.len())
}

async fn tenant(ctx: Context, (): ()) -> Result<Option<String>> {
    Ok(ctx.tenant_id().map(ToOwned::to_owned))
}

async fn fails(_: Context, (): ()) -> Result<(), Failed> {
    Err(Failed)
}

async fn waits_long(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(600)).await
}

async fn approved(ctx: Context, (): ()) -> Result<String> {
    ctx.create_callback("approval").await?.result().await
}

async fn approved_in_time(ctx: Context, (): ()) -> Result<String> {
    let callback = ctx.create_callback("approval").timeout(seconds(4)).await?;
    callback.result().await
}

async fn approval_length(ctx: Context, (): ()) -> Result<usize> {
    match approved(ctx, ()).await {
        Ok(result) => Ok(result.len()),
        Err(error) => Ok(error
            .record()
            .error_data
            .as_deref()
            .unwrap_or_default()
            .len()),
    }
}

/// Says which version of the function its process serves.
async fn approved_in_version(ctx: Context, (): ()) -> Result<String> {
    let _: String = ctx.create_callback("approval").await?.result().await?;
    Ok(std::env::var("OUTLAST_FUNCTION_VERSION").unwrap_or_default())
}

async fn forgets_its_callback(ctx: Context, (): ()) -> Result<String> {
    let callback = ctx.create_callback::<String>("approval").await?;
    Ok(callback.id().to_owned())
}

async fn five_steps(ctx: Context, (): ()) -> Result<u32> {
    let mut sum = 0;
    for number in 1..=5 {
        sum += ctx.step("", async |_| Ok::<_, Error>(number)).await?;
    }
    Ok(sum)
}

async fn many(ctx: Context, (): ()) -> Result<u32> {
    let mut done = 0;
    for _ in 0..MANY {
        done += ctx.step("", async |_| Ok::<_, Error>(1)).await?;
    }
    // The next invocation has them all to replay, page by page.
    ctx.wait(seconds(1)).await?;
    Ok(done)
}

/// More state than one invocation can be given at once.
async fn large_steps(ctx: Context, (): ()) -> Result<usize> {
    let mut length = 0;
    for _ in 0..8 {
        let text = ctx.step("", async |_| Ok::<_, Error>("x".repeat(1_000_000)));
        length += text.await?.len();
    }
    ctx.wait(seconds(1)).await?;
    Ok(length)
}

async fn step_then_wait(ctx: Context, (): ()) -> Result<String> {
    let value = ctx
        .step("once", async |_| Ok::<_, Error>("kept".to_owned()))
        .await?;
    ctx.wait(seconds(3)).await?;
    Ok(value)
}

async fn three_waits(ctx: Context, (): ()) -> Result<u32> {
    for _ in 0..3 {
        ctx.wait(seconds(2)).await?;
    }
    Ok(3)
}

async fn slow_step(ctx: Context, (): ()) -> Result<String> {
    ctx.step("slow", async |_| {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok::<_, Error>("done".to_owned())
    })
    .await
}

async fn works_between_steps(ctx: Context, (): ()) -> Result<(u32, u32)> {
    let before = ctx.step("before", async |_| Ok::<_, Error>(1)).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after = ctx.step("after", async |_| Ok::<_, Error>(2)).await?;
    Ok((before, after))
}

async fn fans_out(ctx: Context, (): ()) -> Result<Vec<u32>> {
    ctx.map("fan", vec![1_u32, 2, 3, 4], async |ctx, number| {
        let before = ctx.step("", async |_| Ok::<_, Error>(number)).await?;
        ctx.wait(seconds(3)).await?;
        ctx.step("", async |_| Ok::<_, Error>(before * 10)).await
    })
    .await?
    .into_values()
}

async fn retried(ctx: Context, (): ()) -> Result<u32> {
    ctx.step("retried", async |step| {
        if step.attempt() < 2 {
            Err(Failed)
        } else {
            Ok(step.attempt())
        }
    })
    .retry(Retry::fixed(seconds(5)))
    .await
}

async fn never_succeeds(ctx: Context, (): ()) -> Result<()> {
    ctx.step("failing", async |_| Err::<(), _>(Failed))
        .retry(Retry::fixed(seconds(600)))
        .await
}

async fn hangs_once(ctx: Context, (): ()) -> Result<String> {
    let is_first = !ctx.is_replaying();
    ctx.step("slow", async |_| {
        if is_first {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Ok::<_, Error>("done".to_owned())
    })
    .await
}

async fn hangs(ctx: Context, (): ()) -> Result<()> {
    ctx.step("slow", async |_| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok::<_, Error>(())
    })
    .await
}

async fn signalled(ctx: Context, (): ()) -> Result<String> {
    ctx.wait_signal("go").await
}

async fn signal_missed(ctx: Context, (): ()) -> Result<String> {
    let signal = ctx.wait_signal::<String>("go").timeout(seconds(2)).await;
    Ok(signal.unwrap_or_else(|_| "nobody came".to_owned()))
}

/// Looks for signals when they have been there for a while.
async fn signalled_twice(ctx: Context, (): ()) -> Result<(String, String)> {
    let _: String = ctx.create_callback("approval").await?.result().await?;
    let first = ctx.wait_signal("go").await?;
    Ok((first, ctx.wait_signal("go").await?))
}

/// JSON of that many bytes.
fn text_of(bytes: usize) -> String {
    "x".repeat(bytes.saturating_sub(r#""""#.len()))
}

async fn step_of_size(ctx: Context, bytes: usize) -> Result<usize> {
    let text = ctx.step("", async |_| Ok::<_, Error>(text_of(bytes)));
    Ok(text.retry(Retry::none()).await?.len())
}

async fn result_of_size(_: Context, bytes: usize) -> Result<String> {
    Ok(text_of(bytes))
}

#[derive(Deserialize)]
struct Call {
    function: String,
    payload: Value,
    tenant: Option<String>,
}

async fn calls(ctx: Context, call: Call) -> Result<Value> {
    let mut invoke = ctx.invoke("call", &call.function, &call.payload);
    if let Some(tenant) = &call.tenant {
        invoke = invoke.tenant(tenant);
    }
    invoke.await
}

async fn asks_approver(ctx: Context, (): ()) -> Result<String> {
    ctx.invoke("call", "conformance-approver:$LATEST", ()).await
}

async fn asks_impatient(ctx: Context, (): ()) -> Result<String> {
    let answer: Result<String> = ctx
        .invoke("call", "conformance-impatient:$LATEST", ())
        .await;
    Ok(answer.map_or_else(|error| error.error_type().to_owned(), |_| String::new()))
}

async fn calls_with_size(ctx: Context, bytes: usize) -> Result<usize> {
    ctx.invoke("call", "conformance-measurer:$LATEST", text_of(bytes))
        .await
}

async fn calls_for_size(ctx: Context, bytes: usize) -> Result<usize> {
    let text: String = ctx
        .invoke("call", "conformance-producer:$LATEST", bytes)
        .await?;
    Ok(text.len())
}

fn approver() -> Function {
    Function::new("conformance-approver", approved)
}

fn impatient() -> Function {
    Function::new("conformance-impatient", waits_long).execution_timeout(seconds(4))
}

/// A function that keeps tenants apart: the runner starts executions without, so checks start it.
fn for_tenants<I, O, E, H, Fut>(id: &str, handler: H) -> Function
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<BoxError> + Send + 'static,
    H: Fn(Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    Function::new(&format!("conformance-{id}-for"), handler)
        .per_tenant()
        .execution_timeout(SYNCHRONOUS_MAX)
}

/// Returns its tenant, and is not made for any.
fn untold_function() -> Function {
    Function::new("conformance-untold", tenant)
}

fn greeter() -> Function {
    Function::new("conformance-greeter", greet)
}

fn measurer() -> Function {
    Function::new("conformance-measurer", length)
}

fn producer() -> Function {
    Function::new(
        "conformance-producer",
        async |ctx: Context, bytes: usize| {
            // Whoever calls it has suspended before it ends.
            ctx.wait(seconds(1)).await?;
            result_of_size(ctx, bytes).await
        },
    )
}
