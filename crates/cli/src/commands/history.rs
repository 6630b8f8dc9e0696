//! `outlast history`: the events of an execution, one a line.

use crate::{
    arguments::client::History,
    client::Client,
    output::{Output, Verdict},
    paint::one_line,
    reference::resolve,
    service::{moment, text},
};
use outlast::core::{event::Event, time::Timestamp, transcript};
use serde_json::{Value, json};

/// Prints a history.
///
/// # Errors
/// When the execution cannot be found or read.
pub(super) async fn run(history: History, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&history.one.connection)?;
    let arn = resolve(&client, &history.one.execution).await?;
    let max = history.max as usize;
    let events = client.history(&arn, history.reverse, max).await?;
    let answer = json!({"Events": events});
    output.answer(&answer, |_| lines(&events))?;
    Ok(Verdict::Good)
}

fn lines(events: &[Value]) -> String {
    let moments = events
        .iter()
        .filter_map(|event| moment(event, "EventTimestamp"));
    let origin = moments.min().unwrap_or_default();
    let lines: Vec<String> = events.iter().map(|event| line(event, origin)).collect();
    lines.join("\n")
}

/// An event in one line; one of a type that is not known here says its number and type.
fn line(event: &Value, origin: Timestamp) -> String {
    let line = match serde_json::from_value::<Event>(event.clone()) {
        Ok(event) => transcript::line(&event, origin),
        Err(_) => {
            let number = event
                .get("EventId")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let what = text(event, "EventType").unwrap_or("an event without a type");
            format!(
                "{number:>3} {what} {}",
                text(event, "Name").unwrap_or_default()
            )
        }
    };
    one_line(line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_newer_service_is_no_reason_to_fail() {
        let events = [
            json!({"EventType": "WaitSucceeded", "EventId": 7, "EventTimestamp": 12.5, "Id": "a", "Name": "n",
                   "WaitSucceededDetails": {"Duration": 3}}),
            json!({"EventType": "TeaServed", "EventId": 8, "EventTimestamp": 13.0, "Name": "green"}),
        ];
        insta::assert_snapshot!(lines(&events), @"
          7 +0.000 WaitSucceeded n 3s
          8 TeaServed green
        ");
    }
}
