//! `outlast logs`: what a function's workers printed lately, as far as the server keeps it.

use crate::{
    arguments::client::Logs,
    client::{Call, Client},
    output::{Output, Verdict},
    paint::{Paint, Tone, moment as shown, one_line},
    problem::{Cause, Problem},
    service::{Query, encode, moment, text},
};
use hyper::Method;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// How long the server holds a request until there is something to print.
const WAIT_SECONDS: u64 = 20;
/// How long to wait for a server that has gone away.
const PAUSE: Duration = Duration::from_secs(1);
/// Lines asked for at once while following.
const LINES: u32 = 1_000;

/// Prints lines.
///
/// # Errors
/// When the endpoint keeps none, or cannot be reached at first.
pub(super) async fn run(logs: Logs, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&logs.connection)?;
    client.must_be_outlast("the lines of workers (it keeps them in CloudWatch)")?;
    let mut page = client
        .call(call(&logs.function, logs.lines, None))
        .await?
        .json()?;
    if !logs.follow {
        output.answer(&page, |paint| lines(&page, paint))?;
        return Ok(Verdict::Good);
    }
    loop {
        for line in page
            .get("Lines")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            output.answer(line, |paint| shown_line(line, paint))?;
        }
        let last = page.get("Last").and_then(Value::as_u64).unwrap_or_default();
        page = next(&client, &logs.function, last).await?;
    }
}

/// The lines after `last`, as soon as there are some; a server that restarts is waited for.
async fn next(client: &Client, function: &str, last: u64) -> Result<Value, Problem> {
    loop {
        match client.call(call(function, LINES, Some(last))).await {
            Ok(answer) => return answer.json(),
            Err(problem) if problem.cause == Cause::Unreachable => sleep(PAUSE).await,
            Err(problem) => return Err(problem),
        }
    }
}

fn call(function: &str, lines: u32, after: Option<u64>) -> Call {
    let mut query = Query::default();
    query.add("MaxItems", &lines.to_string());
    if let Some(after) = after {
        query.add("After", &after.to_string());
        query.add("WaitSeconds", &WAIT_SECONDS.to_string());
    }
    let path = format!("/outlast/v1/functions/{}/logs{}", encode(function), query.0);
    Call::new(Method::GET, path)
}

fn lines(page: &Value, paint: Paint) -> String {
    let lines = page.get("Lines").and_then(Value::as_array);
    let lines = lines.into_iter().flatten();
    lines
        .map(|line| shown_line(line, paint))
        .collect::<Vec<_>>()
        .join("\n")
}

fn shown_line(line: &Value, paint: Paint) -> String {
    let at = moment(line, "Timestamp").map(shown).unwrap_or_default();
    let process = line
        .get("Process")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let is_error = text(line, "Stream") == Some("error");
    let tone = if is_error { Tone::Bad } else { Tone::Quiet };
    let from = paint.tint(&format!("{at} {process}"), tone);
    format!(
        "{from} {}",
        one_line(text(line, "Text").unwrap_or_default())
    )
}
