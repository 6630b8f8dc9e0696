//! Suite 2: waits.

use crate::{Requirement, requirement, seconds};
use outlast::{Context, Result};
use serde_json::{Value, json};

pub(crate) fn requirements() -> Vec<Requirement> {
    vec![
        requirement("2-1", basic),
        requirement("2-2", named),
        requirement("2-3", sequential),
        requirement("2-4", one_minute),
        requirement("2-5", one_hour).with_execution_timeout(seconds(2 * 60 * 60)),
    ]
}

async fn basic(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(2)).await
}

async fn named(ctx: Context, (): ()) -> Result<()> {
    ctx.named_wait("custom_wait_name", seconds(2)).await
}

async fn sequential(ctx: Context, (): ()) -> Result<Value> {
    ctx.named_wait("wait-1", seconds(2)).await?;
    ctx.named_wait("wait-2", seconds(2)).await?;
    Ok(json!({ "completedWaits": 2 }))
}

async fn one_minute(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(60)).await
}

async fn one_hour(ctx: Context, (): ()) -> Result<()> {
    ctx.wait(seconds(60 * 60)).await
}
