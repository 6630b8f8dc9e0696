//! `outlast show`: an execution, and its operations as a tree.

use crate::{
    arguments::client::One,
    client::Client,
    output::{Output, Verdict},
    paint::{Paint, Tone, duration, fields, moment as shown, short},
    reference::resolve,
    service::{function_of, moment, text},
    tree::{self, Tree},
};
use outlast::core::time::Timestamp;
use outlast_engine::clock::{Clock as _, EngineClock};
use serde_json::Value;

/// Letters of a payload that are shown.
const PAYLOAD_LETTERS: usize = 200;

/// Shows an execution.
///
/// # Errors
/// When it cannot be found or read.
pub(super) async fn run(one: One, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&one.connection)?;
    let arn = resolve(&client, &one.execution).await?;
    let mut execution = client.execution(&arn, true).await?;
    let tree = Tree::of(&client.history(&arn, false, usize::MAX).await?);
    if let Some(members) = execution.as_object_mut() {
        members.insert("Invocations".to_owned(), tree.invocations.into());
        members.insert("Operations".to_owned(), tree.json());
    }
    let now = EngineClock::system().now();
    output.answer(&execution, |paint| draw(&execution, &tree, paint, now))?;
    Ok(Verdict::Good)
}

fn draw(execution: &Value, tree: &Tree, paint: Paint, now: Timestamp) -> String {
    let of = |member: &str| text(execution, member).unwrap_or_default();
    let arn = of("DurableExecutionArn");
    let status = of("Status");
    let name = of("DurableExecutionName");
    let title = format!("{}/{name}", function_of(arn));
    let mut rows = vec![("arn", arn.to_owned())];
    if let Some(version) = text(execution, "Version") {
        rows.push(("version", version.to_owned()));
    }
    let started = moment(execution, "StartTimestamp");
    let ended = moment(execution, "EndTimestamp");
    rows.extend(started.map(|started| ("started", shown(started))));
    rows.extend(ended.map(|ended| ("ended", shown(ended))));
    rows.extend(started.map(|started| {
        let until = ended.unwrap_or(now.max(started));
        ("took", duration(until.millis_since(started)))
    }));
    rows.push(("invocations", tree.invocations.to_string()));
    for (what, member) in [("input", "InputPayload"), ("result", "Result")] {
        let payload = text(execution, member);
        rows.extend(payload.map(|payload| (what, short(payload, PAYLOAD_LETTERS))));
    }
    rows.extend(
        execution
            .get("Error")
            .map(|error| ("error", tree::error(error))),
    );
    let status = paint.tint(status, Tone::of(status));
    let head = format!("{title}  {status}\n\n{}", fields(&rows));
    match tree.draw(paint, now) {
        drawn if drawn.is_empty() => head,
        drawn => format!("{head}\n\n{drawn}"),
    }
}
