//! `outlast invoke`: starts an execution, or calls an ordinary function, and prints the result.

use crate::{
    arguments::client::Invoke,
    client::{Answer, Client},
    data,
    output::{Output, Verdict},
    problem::Problem,
    service::{Invocation, text},
    tree,
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// First pause between two looks at an execution; grows up to the next constant.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(2);

const ARN: &str = "x-amz-durable-execution-arn";

/// Calls a function.
///
/// # Errors
/// When it cannot be called.
pub(super) async fn run(invoke: Invoke, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&invoke.connection)?;
    let invocation = Invocation {
        event: invoke.event || invoke.wait,
        name: invoke.name.clone(),
        tenant: invoke.tenant.clone(),
        input: data::input(invoke.data.as_deref())?,
    };
    let answer = client.invoke(&invoke.function, invocation).await?;
    let arn = answer.header(ARN).map(str::to_owned);
    if invoke.event {
        let printed = json!({"DurableExecutionArn": arn});
        output.answer(&printed, |_| arn.unwrap_or_default())?;
        return Ok(Verdict::Good);
    }
    if !invoke.wait {
        return report(&answer, arn, output);
    }
    let Some(arn) = arn else {
        return Err(Problem::usage(format!(
            "{} is not durable, so there is no execution to wait for: it was called; leave out \
             --wait to get its answer",
            invoke.function
        ))
        .into());
    };
    let waiting = output.waiting(format!("waiting for {arn}"));
    let ended = until_ended(&client, &arn);
    let ended = match invoke.timeout {
        None => ended.await,
        Some(seconds) => match timeout(Duration::from_secs(seconds.into()), ended).await {
            Ok(ended) => ended,
            Err(_) => Err(Problem::wrong(format!(
                "{arn} has not ended after {seconds} seconds, and goes on: `outlast why {arn}` \
                 says what it waits for"
            ))),
        },
    };
    waiting.finish_and_clear();
    print(&ended?, output)
}

/// Looks at an execution until it has ended.
async fn until_ended(client: &Client, arn: &str) -> Result<Value, Problem> {
    let mut pause = PAUSE_MIN;
    loop {
        let execution = client.execution(arn, true).await?;
        if text(&execution, "Status") != Some("RUNNING") {
            return Ok(execution);
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(PAUSE_MAX);
    }
}

/// Prints what a call that was waited for on its connection answered.
fn report(answer: &Answer, arn: Option<String>, output: Output) -> anyhow::Result<Verdict> {
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let failed = answer.header("x-amz-function-error").is_some();
    let mut ended = Map::new();
    if let Some(arn) = arn {
        ended.insert("DurableExecutionArn".to_owned(), arn.into());
    }
    if failed {
        let error: Value = serde_json::from_str(&body).unwrap_or_default();
        let mut renamed = Map::new();
        for (from, to) in [
            ("errorType", "ErrorType"),
            ("errorMessage", "ErrorMessage"),
            ("errorData", "ErrorData"),
            ("stackTrace", "StackTrace"),
        ] {
            if let Some(value) = error.get(from).filter(|value| !value.is_null()) {
                renamed.insert(to.to_owned(), value.clone());
            }
        }
        ended.insert("Status".to_owned(), "FAILED".into());
        ended.insert("Error".to_owned(), renamed.into());
    } else {
        ended.insert("Status".to_owned(), "SUCCEEDED".into());
        if !body.is_empty() {
            ended.insert("Result".to_owned(), body.into());
        }
    }
    print(&Value::Object(ended), output)
}

/// Prints how an execution ended.
fn print(ended: &Value, output: Output) -> anyhow::Result<Verdict> {
    let kept = ["DurableExecutionArn", "Status", "Result", "Error"];
    let kept = kept.map(|member| (member.to_owned(), ended.get(member)));
    let kept = kept
        .into_iter()
        .filter_map(|(member, value)| Some((member, value?.clone())));
    let answer: Map<String, Value> = kept.collect();
    output.answer(&answer, |_| {
        text(ended, "Result").unwrap_or_default().to_owned()
    })?;
    let status = text(ended, "Status").unwrap_or_default();
    if status == "SUCCEEDED" {
        return Ok(Verdict::Good);
    }
    let error = ended.get("Error").map(tree::error);
    let error = error.map_or(String::new(), |error| format!(": {error}"));
    let what = text(ended, "DurableExecutionArn").unwrap_or("the function");
    output.note(&format!("{what} ended {status}{error}"));
    Ok(Verdict::Bad)
}
