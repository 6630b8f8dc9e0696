//! `outlast signal`, `stop`, `resume` and `delete`: what changes an execution.

use crate::{
    arguments::client::{One, Resume, Signal, Stop},
    client::{Call, Client},
    data,
    output::{Output, Verdict},
    problem::Problem,
    reference::resolve,
    service::{encode, execution_path, own_path},
};
use hyper::Method;
use serde_json::{Value, json};

/// Sends a signal.
///
/// # Errors
/// When the execution is not there, has ended, or the endpoint is none of Outlast's.
pub(super) async fn signal(signal: Signal, output: Output) -> anyhow::Result<Verdict> {
    if signal.name.is_empty() {
        return Err(Problem::usage("a signal needs a name that is not empty").into());
    }
    let (client, arn) = find_own(&signal.one, "signals").await?;
    let path = format!("{}/signals/{}", own_path(&arn), encode(&signal.name));
    let payload = data::read(signal.data.as_deref())?;
    client
        .call(Call::new(Method::POST, path).with_body(payload))
        .await?;
    said(output, &arn, "signalled")
}

/// Stops an execution.
///
/// # Errors
/// When it is not there, or has ended.
pub(super) async fn stop(stop: Stop, output: Output) -> anyhow::Result<Verdict> {
    let error = data::error(&stop.error)?;
    let (client, arn) = find(&stop.one).await?;
    let path = format!("{}/stop", execution_path(&arn));
    let stopped = client
        .call(Call::new(Method::POST, path).with_json(&error))
        .await?;
    let mut answer = stopped.json()?;
    if let Value::Object(members) = &mut answer {
        members.insert("DurableExecutionArn".to_owned(), arn.clone().into());
    }
    output.answer(&answer, |_| format!("stopped {arn}"))?;
    Ok(Verdict::Good)
}

/// Lets an execution go on that was held, or fails it.
///
/// # Errors
/// When it is not there or not held, or the endpoint is none of Outlast's.
pub(super) async fn resume(resume: Resume, output: Output) -> anyhow::Result<Verdict> {
    let (client, arn) = find_own(&resume.one, "held executions").await?;
    let (action, done) = match resume.fail {
        false => ("resume", "resumed"),
        true => ("fail", "failed"),
    };
    let path = format!("{}/{action}", own_path(&arn));
    client.call(Call::new(Method::POST, path)).await?;
    said(output, &arn, done)
}

/// Deletes an execution that has ended.
///
/// # Errors
/// When it is not there or has not ended, or the endpoint is none of Outlast's.
pub(super) async fn delete(one: One, output: Output) -> anyhow::Result<Verdict> {
    let (client, arn) = find_own(&one, "deleting executions").await?;
    client
        .call(Call::new(Method::DELETE, own_path(&arn)))
        .await?;
    said(output, &arn, "deleted")
}

/// The execution, at an endpoint that offers what only Outlast does.
async fn find_own(one: &One, what: &str) -> Result<(Client, String), Problem> {
    let client = Client::new(&one.connection)?;
    client.must_be_outlast(what)?;
    let arn = resolve(&client, &one.execution).await?;
    Ok((client, arn))
}

async fn find(one: &One) -> Result<(Client, String), Problem> {
    let client = Client::new(&one.connection)?;
    let arn = resolve(&client, &one.execution).await?;
    Ok((client, arn))
}

fn said(output: Output, arn: &str, done: &str) -> anyhow::Result<Verdict> {
    let answer = json!({"DurableExecutionArn": arn});
    output.answer(&answer, |_| format!("{done} {arn}"))?;
    Ok(Verdict::Good)
}
