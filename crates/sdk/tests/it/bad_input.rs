//! Bad input: every mistake is a clear error that names the operation and the value, and what is
//! wrong before an operation starts writes nothing at all.

mod code;
mod names;
mod options;
mod values;

use crate::{
    fake::{Fake, recorded},
    show::{Sure, answer, calls, calls_of, secs, told},
};
use insta::assert_snapshot as check;
use outlast::{
    Completion, CompletionDecision, Config, Context, Error, Function, Nesting, Retry, WaitStrategy,
    backend::Abilities,
    codec::{Codec, CodecError, Place},
    core::wire::{ExecutionStatus, OperationStatus, OperationType},
    testing::{Fault, TestKit},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// Runs a handler that tries something: the error it got, or that something was written.
async fn tried<H, Fut>(handler: H) -> String
where
    H: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Error>> + Send + 'static,
{
    tried_with(Config::new(), handler).await
}

async fn tried_with<H, Fut>(config: Config, handler: H) -> String
where
    H: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Error>> + Send + 'static,
{
    let function = Function::new("f", move |ctx: Context, (): ()| {
        let tried = handler(ctx);
        async move { Sure::Ok(tried.await.as_ref().map(told)) }
    });
    let backend = Arc::new(Fake::default());
    let outcome = backend.invoke(&function.config(config), Vec::new()).await;
    let output = outcome.answer.unwrap();
    match output
        .result
        .as_deref()
        .map(serde_json::from_str::<Option<String>>)
    {
        Some(Ok(Some(error))) if backend.written().is_empty() => error,
        Some(Ok(Some(error))) => format!("recorded, {error}"),
        _ => format!("accepted, {}", answer(&output)),
    }
}
