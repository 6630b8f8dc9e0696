//! Checkpoint, state, get, history, stop.

use crate::home::{Home, execution};
use serde_json::{Value, json};

#[tokio::test]
async fn history_pages_both_ways_and_leaves_data_out_on_request() {
    let home = Home::new().await;
    let steps: Vec<Value> = (0..5).map(|step| json!({"step": step})).collect();
    let arn = home.start(steps.into()).await;
    home.until(&arn, "SUCCEEDED").await;
    let all = home.events(&arn).await;
    let ids: Vec<u64> = all
        .iter()
        .map(|event| event["EventId"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, (1..=13).collect::<Vec<u64>>());
    for reverse in [false, true] {
        let (mut seen, mut marker) = (Vec::new(), String::new());
        loop {
            let tail = format!("/history?MaxItems=4&ReverseOrder={reverse}&Marker={marker}");
            let page = home.get(&execution(&arn, &tail)).await.ok(200);
            seen.extend(page["Events"].as_array().unwrap().iter().cloned());
            match page.get("NextMarker") {
                Some(next) => marker = next.as_str().unwrap().to_owned(),
                None => break,
            }
        }
        if reverse {
            seen.reverse();
        }
        assert_eq!(seen, all, "reverse: {reverse}");
    }
    let bare = home
        .get(&execution(&arn, "/history?IncludeExecutionData=false"))
        .await;
    let bare = bare.ok(200);
    assert_eq!(
        bare["Events"][0]["ExecutionStartedDetails"]["Input"],
        json!({"Truncated": true})
    );
    assert_eq!(
        all[2]["StepSucceededDetails"]["Result"],
        json!({"Payload": "0", "Truncated": false})
    );
}

#[tokio::test]
async fn page_sizes_and_flags_keep_their_ranges() {
    let home = Home::new().await;
    let arn = home.start(json!([{"return": 1}])).await;
    home.until(&arn, "SUCCEEDED").await;
    for (items, accepted) in [("0", true), ("1", true), ("1000", true), ("1001", false)] {
        let reply = home
            .get(&execution(&arn, &format!("/history?MaxItems={items}")))
            .await;
        if accepted {
            reply.ok(200);
        } else {
            reply.refused(400, "ValidationException");
        }
    }
    for tail in [
        "/history?MaxItems=-1",
        "/history?MaxItems=x",
        "/history?ReverseOrder=yes",
        "/history?IncludeExecutionData=1",
        "?IncludeExecutionData=maybe",
    ] {
        let reply = home.get(&execution(&arn, tail)).await;
        reply.refused(400, "ValidationException");
    }
    let reply = home.get(&execution(&arn, "/history?Marker=zz")).await;
    reply.refused(400, "InvalidParameterValueException");
}

#[tokio::test]
async fn a_description_has_the_services_members() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let running = home.describe(&arn).await;
    assert_eq!(running["DurableExecutionArn"], arn);
    let function = "arn:aws:lambda:us-east-1:000000000000:function:play:$LATEST";
    assert_eq!(running["FunctionArn"], function);
    assert_eq!(running["Version"], "$LATEST");
    assert_eq!(running["Status"], "RUNNING");
    assert_eq!(running["InputPayload"], r#"[{"wait":500}]"#);
    assert_eq!(running["DurableConfig"], json!({"ExecutionTimeout": 600}));
    assert_eq!(running["ExecutionDataIncluded"], true);
    assert!(running["StartTimestamp"].as_f64().unwrap() > 1.0e9);
    assert!(running.get("EndTimestamp").is_none() && running.get("Error").is_none());
    let bare = home
        .get(&execution(&arn, "?IncludeExecutionData=false"))
        .await
        .ok(200);
    assert_eq!(bare["ExecutionDataIncluded"], false);
    assert!(bare.get("InputPayload").is_none());
}

#[tokio::test]
async fn an_execution_can_be_asked_for_by_a_raw_arn() {
    let home = Home::new().await;
    let arn = home.start(json!([{"return": 1}])).await;
    home.until(&arn, "SUCCEEDED").await;
    let described = home
        .get(&format!("/2025-12-01/durable-executions/{arn}"))
        .await;
    assert_eq!(described.ok(200)["DurableExecutionArn"], arn);
    let path = format!("/2025-12-01/durable-executions/{arn}/history");
    assert!(home.get(&path).await.ok(200)["Events"].is_array());
}

#[tokio::test]
async fn stopping_is_final_and_can_be_repeated() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let first = home
        .post(&execution(&arn, "/stop"), json!({"ErrorType": "T"}))
        .await;
    let first = first.ok(200)["StopTimestamp"].as_f64().unwrap();
    let again = home.post(&execution(&arn, "/stop"), "").await;
    assert_eq!(again.ok(200)["StopTimestamp"].as_f64(), Some(first));
    let described = home.describe(&arn).await;
    assert_eq!(described["Status"], "STOPPED");
    assert_eq!(described["Error"], json!({"ErrorType": "T"}));
    assert_eq!(described["EndTimestamp"].as_f64(), Some(first));
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_malformed_arns_are_said_so() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let (prefix, id) = arn.rsplit_once('/').unwrap();
    let other_name = arn.replace("/durable-execution/", "/durable-execution/x");
    let other_version = arn.replace("$LATEST", "7");
    let other_id = format!("{prefix}/{}", id.replace(&id[..1], "f"));
    let foreign_id = format!("{prefix}/some-id");
    for unknown in [&other_name, &other_version, &other_id, &foreign_id] {
        for tail in ["", "/history"] {
            let reply = home.get(&execution(unknown, tail)).await;
            reply.refused(404, "ResourceNotFoundException");
        }
        let reply = home.post(&execution(unknown, "/stop"), "").await;
        reply.refused(404, "ResourceNotFoundException");
    }
    for malformed in ["x", "arn:aws:lambda:us-east-1:1:function:f:1", "%00"] {
        let reply = home.get(&execution(malformed, "")).await;
        reply.refused(400, "ValidationException");
        let reply = home
            .post(
                &execution(malformed, "/checkpoint"),
                json!({"CheckpointToken": "t"}),
            )
            .await;
        reply.refused(400, "ValidationException");
    }
    assert_eq!(home.describe(&arn).await["Status"], "RUNNING");
}

#[tokio::test]
async fn to_a_handler_everything_unknown_is_a_stale_token() {
    let home = Home::new().await;
    let arn = home.start(json!([{"hang": 1}])).await;
    let (prefix, _) = arn.rsplit_once('/').unwrap();
    let unknown = format!("{prefix}/00000000-0000-8000-8000-000000000001");
    let foreign = format!("{prefix}/some-id");
    for arn in [&arn, &unknown, &foreign] {
        for token in ["dG9rZW4x", "not base64", ""] {
            let body = json!({"CheckpointToken": token, "Updates": []});
            let reply = home.post(&execution(arn, "/checkpoint"), body).await;
            let message = reply.refused(400, "InvalidParameterValueException");
            assert!(message.starts_with("Invalid checkpoint token"), "{message}");
        }
        let reply = home
            .get(&execution(arn, "/state?CheckpointToken=dG9rZW4x"))
            .await;
        let message = reply.refused(400, "InvalidParameterValueException");
        assert!(message.starts_with("Invalid checkpoint token"), "{message}");
    }
    let reply = home.get(&execution(&arn, "/state")).await;
    reply.refused(400, "ValidationException");
}

#[tokio::test]
async fn bodies_that_are_not_what_they_should_be_change_nothing() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    for (body, name) in [
        ("{", "SerializationException"),
        ("\u{1}", "SerializationException"),
        ("[]", "InvalidParameterValueException"),
        ("{}", "InvalidParameterValueException"),
        (
            r#"{"CheckpointToken": 1}"#,
            "InvalidParameterValueException",
        ),
        (
            r#"{"CheckpointToken": "t", "Updates": [{"Id": "a", "Type": "OTHER", "Action": "START"}]}"#,
            "InvalidParameterValueException",
        ),
    ] {
        let reply = home.post(&execution(&arn, "/checkpoint"), body).await;
        reply.refused(400, name);
    }
    let deep = format!(
        "{{\"Other\": {}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let reply = home.post(&execution(&arn, "/checkpoint"), &deep).await;
    reply.refused(400, "InvalidParameterValueException");
    let reply = home.post("/2015-03-31/functions", &deep).await;
    reply.refused(400, "SerializationException");
    let reply = home
        .post(&execution(&arn, "/stop"), r#"{"ErrorType": 1}"#)
        .await;
    reply.refused(400, "InvalidParameterValueException");
    assert_eq!(home.describe(&arn).await["Status"], "RUNNING");
}
