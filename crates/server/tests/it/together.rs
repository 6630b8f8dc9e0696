//! Checkpoints of several executions in one request.

use crate::home::Home;
use outlast_core::{Outcome, wire::InvocationInput};
use outlast_engine::invoker::{BoxFuture, Call, Invoker};
use outlast_server::catalogue::{FunctionConfiguration, Hosts};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

const PATH: &str = "/outlast/v1/checkpoints";

/// Hands what handlers are called with to the test, and never answers.
struct Caught(mpsc::UnboundedSender<InvocationInput>);

impl Hosts for Caught {
    fn invoker(&self, _: &FunctionConfiguration, _: &str) -> Arc<dyn Invoker> {
        Arc::new(Self(self.0.clone()))
    }
}

impl Invoker for Caught {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        self.0.send(call.input).unwrap();
        Box::pin(std::future::pending())
    }
}

fn line(arn: &str, token: &str, updates: &Value) -> String {
    let checkpoint = json!({"CheckpointToken": token, "Updates": updates});
    json!({"DurableExecutionArn": arn, "Checkpoint": checkpoint}).to_string()
}

async fn send(home: &Home, lines: &[String]) -> Vec<Value> {
    let reply = home.post(PATH, lines.join("\n").as_str()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let text = reply.text();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn each_is_accepted_or_refused_by_itself_and_in_order() {
    let (caught, mut calls) = mpsc::unbounded_channel();
    let home = Home::hosted(Arc::new(Caught(caught))).await;
    home.configure("play", json!({"DurableConfig": {"ExecutionTimeout": 600}}))
        .await;
    let mut inputs = Vec::new();
    for _ in 0..3 {
        home.start(json!([])).await;
        inputs.push(calls.recv().await.unwrap());
    }
    let start = json!([{"Id": "a", "Type": "STEP", "Action": "START"}]);
    let odd = json!([{"Id": "w", "Type": "WAIT", "Action": "SUCCEED"}]);
    let of = |input: &InvocationInput, updates: &Value| {
        let InvocationInput {
            durable_execution_arn: arn,
            checkpoint_token: token,
            ..
        } = input;
        line(arn, token, updates)
    };
    let lines = [
        of(&inputs[0], &start),
        line(&inputs[1].durable_execution_arn, "dG9rZW4x", &start),
        "{".to_owned(),
        line("no arn", "dG9rZW4x", &start),
        of(&inputs[2], &odd),
        of(&inputs[1], &start),
    ];
    let answers = send(&home, &lines).await;
    assert_eq!(answers.len(), lines.len());
    for index in [0, 5] {
        let operations = &answers[index]["Answer"]["NewExecutionState"]["Operations"];
        assert_eq!(operations[0]["Status"], "STARTED", "{}", answers[index]);
        // Seconds, as in any answer over HTTP.
        assert!(operations[0]["StartTimestamp"].is_f64());
    }
    for (index, exception) in [
        (1, "InvalidParameterValueException"),
        (2, "SerializationException"),
        (3, "ValidationException"),
        (4, "InvalidParameterValueException"),
    ] {
        let refused = &answers[index]["Refused"];
        assert_eq!(refused["Exception"], exception, "{}", answers[index]);
        assert_eq!(refused["Status"], 400);
    }
    // Whoever was refused still holds the right to write.
    let again = send(&home, &[of(&inputs[2], &start)]).await;
    assert!(again[0]["Answer"]["CheckpointToken"].is_string());
}

#[tokio::test]
async fn no_more_than_128_come_together() {
    let home = Home::empty().await;
    for (count, accepted) in [(0, true), (1, true), (127, true), (128, true), (129, false)] {
        let body = "{}\n".repeat(count);
        let reply = home.post(PATH, body.as_str()).await;
        if accepted {
            assert_eq!(reply.status, 200);
            assert_eq!(reply.text().lines().count(), count);
        } else {
            reply.refused(400, "ValidationException");
        }
    }
}
