//! Callbacks over the API.

use crate::home::Home;
use hyper::Method;
use outlast_core::limits::PAYLOAD_BYTES_MAX;
use serde_json::{Value, json};

/// Starts an execution with a callback; gives its ARN and the callback's id.
async fn waiting(home: &Home, options: Value) -> (String, String) {
    let arn = home
        .start(json!([{"callback": options}, {"return": "on"}]))
        .await;
    let event = home.event(&arn, "CallbackStarted").await;
    let id = &event["CallbackStartedDetails"]["CallbackId"];
    (arn, id.as_str().unwrap().to_owned())
}

fn path(id: &str, action: &str) -> String {
    format!("/2025-12-01/durable-execution-callbacks/{id}/{action}")
}

#[tokio::test]
async fn a_callback_takes_one_answer_and_the_execution_goes_on() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({})).await;
    assert_eq!(
        home.post(&path(&id, "heartbeat"), "").await.ok(200),
        json!({})
    );
    assert_eq!(
        home.post(&path(&id, "succeed"), "{\"x\": 1}").await.ok(200),
        json!({})
    );
    for action in ["succeed", "fail", "heartbeat"] {
        let reply = home.post(&path(&id, action), "").await;
        reply.refused(400, "CallbackTimeoutException");
    }
    home.until(&arn, "SUCCEEDED").await;
    let event = home.event(&arn, "CallbackSucceeded").await;
    let payload = &event["CallbackSucceededDetails"]["Result"]["Payload"];
    assert_eq!(payload, "{\"x\": 1}");
}

#[tokio::test]
async fn a_callback_without_a_body_has_no_result_or_an_empty_error() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({})).await;
    home.post(&path(&id, "succeed"), "").await.ok(200);
    let event = home.event(&arn, "CallbackSucceeded").await;
    assert_eq!(
        event["CallbackSucceededDetails"]["Result"],
        json!({"Truncated": false})
    );
    for body in ["", "{}"] {
        let (arn, id) = waiting(&home, json!({})).await;
        home.post(&path(&id, "fail"), body).await.ok(200);
        let event = home.event(&arn, "CallbackFailed").await;
        assert_eq!(
            event["CallbackFailedDetails"]["Error"]["Payload"],
            json!({})
        );
        home.until(&arn, "SUCCEEDED").await;
    }
}

#[tokio::test]
async fn a_failure_carries_its_error() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({})).await;
    let error = json!({
        "ErrorMessage": "m", "ErrorType": "t", "ErrorData": "d", "StackTrace": ["a", "b"],
    });
    home.post(&path(&id, "fail"), &error).await.ok(200);
    let event = home.event(&arn, "CallbackFailed").await;
    assert_eq!(event["CallbackFailedDetails"]["Error"]["Payload"], error);
}

#[tokio::test]
async fn ids_that_nobody_gave_out_are_invalid_and_those_of_deleted_executions_unknown() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({})).await;
    let forged = format!(
        "{}{}",
        &id[..id.len() - 1],
        if id.ends_with('0') { 1 } else { 0 }
    );
    for wrong in ["x", "%20", &forged, &"a".repeat(1_025)] {
        for action in ["succeed", "fail", "heartbeat"] {
            let reply = home.post(&path(wrong, action), "").await;
            reply.refused(400, "InvalidParameterValueException");
        }
    }
    home.post(&crate::home::execution(&arn, "/stop"), "")
        .await
        .ok(200);
    let reply = home.post(&path(&id, "succeed"), "").await;
    reply.refused(400, "CallbackTimeoutException");
    let own = format!("/outlast/v1/executions/{}", crate::client::encode(&arn));
    home.eventually(async || (home.delete(&own).await.status == 204).then_some(()))
        .await;
    let reply = home.post(&path(&id, "succeed"), "").await;
    reply.refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn results_have_their_limit_and_must_be_text() {
    let home = Home::new().await;
    for (bytes, fits) in [
        (PAYLOAD_BYTES_MAX - 1, true),
        (PAYLOAD_BYTES_MAX, true),
        (PAYLOAD_BYTES_MAX + 1, false),
    ] {
        let (_, id) = waiting(&home, json!({})).await;
        let reply = home.post(&path(&id, "succeed"), "x".repeat(bytes)).await;
        if fits {
            reply.ok(200);
        } else {
            reply.refused(400, "InvalidParameterValueException");
        }
    }
    let (_, id) = waiting(&home, json!({})).await;
    let reply = home
        .send(Method::POST, &path(&id, "succeed"), &[], vec![0xff, 0xfe])
        .await;
    reply.refused(400, "InvalidParameterValueException");
    let reply = home.post(&path(&id, "fail"), "[1]").await;
    reply.refused(400, "InvalidParameterValueException");
    let reply = home.post(&path(&id, "fail"), "{").await;
    reply.refused(400, "SerializationException");
    home.post(&path(&id, "succeed"), "1").await.ok(200);
}

#[tokio::test]
async fn a_callback_times_out() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({"TimeoutSeconds": 1})).await;
    home.until(&arn, "SUCCEEDED").await;
    let event = home.event(&arn, "CallbackTimedOut").await;
    let error = &event["CallbackTimedOutDetails"]["Error"]["Payload"]["ErrorType"];
    assert_eq!(error, "Callback.Timeout");
    let reply = home.post(&path(&id, "succeed"), "1").await;
    reply.refused(400, "CallbackTimeoutException");
}

#[tokio::test]
async fn an_error_that_was_cut_within_a_character_is_taken() {
    let home = Home::new().await;
    let (arn, id) = waiting(&home, json!({})).await;
    let error = r#"{"ErrorType": "Cut", "ErrorMessage": "smile \ud83d"}"#;
    home.post(&path(&id, "fail"), error).await.ok(200);
    let event = home.event(&arn, "CallbackFailed").await;
    let error = &event["CallbackFailedDetails"]["Error"]["Payload"];
    assert_eq!(error["ErrorMessage"], "smile \u{fffd}");
}
