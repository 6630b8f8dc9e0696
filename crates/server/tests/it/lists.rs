//! ListDurableExecutionsByFunction.

use crate::home::Home;
use serde_json::{Value, json};
use std::time::Duration;

async fn list(home: &Home, query: &str) -> Value {
    let path = format!("/2025-12-01/functions/play/durable-executions?{query}");
    home.get(&path).await.ok(200)
}

fn names(page: &Value) -> Vec<String> {
    let executions = page["DurableExecutions"].as_array().unwrap();
    let name = |execution: &Value| {
        execution["DurableExecutionName"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    executions.iter().map(name).collect()
}

/// Executions `e0` to `e4`, one after another; `e1` failed, `e3` runs.
async fn five(home: &Home) -> Vec<String> {
    let mut arns = Vec::new();
    for (index, script) in [
        json!([{"return": 0}]),
        json!([{"fail": "1"}]),
        json!([{"return": 2}]),
        json!([{"wait": 500}]),
        json!([{"return": 4}]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("e{index}");
        let headers = [
            ("x-amz-invocation-type", "Event"),
            ("x-amz-durable-execution-name", &*name),
        ];
        let reply = home.play(&headers, script).await;
        let arn = reply
            .header("x-amz-durable-execution-arn")
            .unwrap()
            .to_owned();
        let status = match index {
            1 => "FAILED",
            3 => "RUNNING",
            _ => "SUCCEEDED",
        };
        home.until(&arn, status).await;
        arns.push(arn);
        // Their start times differ.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    arns
}

#[tokio::test]
async fn executions_are_listed_newest_first_or_oldest_first_page_by_page() {
    let home = Home::new().await;
    let arns = five(&home).await;
    assert_eq!(
        names(&list(&home, "").await),
        ["e4", "e3", "e2", "e1", "e0"]
    );
    for (reverse, expected) in [
        ("false", ["e4", "e3", "e2", "e1", "e0"]),
        ("true", ["e0", "e1", "e2", "e3", "e4"]),
    ] {
        let (mut seen, mut marker) = (Vec::new(), String::new());
        for _ in 0..3 {
            let query = format!("MaxItems=2&ReverseOrder={reverse}&Marker={marker}");
            let page = list(&home, &query).await;
            seen.extend(names(&page));
            let next = page.get("NextMarker").and_then(Value::as_str);
            marker = next.unwrap_or_default().to_owned();
        }
        assert_eq!(seen, expected);
        assert_eq!(marker, "", "the last page has no marker");
    }
    let page = list(&home, "DurableExecutionName=e0").await;
    let entry = &page["DurableExecutions"][0];
    let described = home.describe(&arns[0]).await;
    for member in [
        "DurableExecutionArn",
        "FunctionArn",
        "Status",
        "StartTimestamp",
        "EndTimestamp",
    ] {
        assert_eq!(entry[member], described[member], "{member}");
    }
}

#[tokio::test]
async fn filters_select_what_they_name() {
    let home = Home::new().await;
    let arns = five(&home).await;
    for (query, expected) in [
        ("Statuses=RUNNING", vec!["e3"]),
        ("Statuses=RUNNING&Statuses=FAILED", vec!["e3", "e1"]),
        ("Statuses=STOPPED", vec![]),
        ("Statuses=PAUSED", vec![]),
        ("Statuses=PAUSED&Statuses=FAILED", vec!["e1"]),
        ("DurableExecutionName=e2", vec!["e2"]),
        ("DurableExecutionName=other", vec![]),
        ("Qualifier=%24LATEST&MaxItems=1", vec!["e4"]),
        ("StartedBefore=1970-01-01", vec![]),
        ("StartedAfter=1970-01-01&MaxItems=1", vec!["e4"]),
    ] {
        assert_eq!(names(&list(&home, query).await), expected, "{query}");
    }
    // Both bounds are left out.
    let start = home.describe(&arns[2]).await["StartTimestamp"].to_string();
    let after = list(&home, &format!("StartedAfter={start}")).await;
    assert_eq!(names(&after), ["e4", "e3"]);
    let before = list(&home, &format!("StartedBefore={start}")).await;
    assert_eq!(names(&before), ["e1", "e0"]);
}

#[tokio::test]
async fn a_qualifier_selects_a_version_and_an_alias_stands_for_one() {
    let home = Home::new().await;
    home.post("/2015-03-31/functions/play/versions", "{}")
        .await
        .ok(201);
    let alias = json!({"Name": "live", "FunctionVersion": "1"});
    home.post("/2015-03-31/functions/play/aliases", alias)
        .await
        .ok(201);
    for (function, name) in [
        ("play:1", "one"),
        ("play:$LATEST", "latest"),
        ("play:live", "live"),
    ] {
        let headers = [("x-amz-durable-execution-name", name)];
        let reply = home.invoke(function, &headers, "1".into()).await;
        reply.ok(200);
    }
    for (query, mut expected) in [
        ("", vec!["latest", "live", "one"]),
        ("Qualifier=1", vec!["live", "one"]),
        ("Qualifier=live", vec!["live", "one"]),
        ("Qualifier=$LATEST", vec!["latest"]),
    ] {
        let mut listed = names(&list(&home, query).await);
        listed.sort();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{query}");
    }
    for missing in [
        "play/durable-executions?Qualifier=2",
        "nobody/durable-executions",
    ] {
        let reply = home.get(&format!("/2025-12-01/functions/{missing}")).await;
        reply.refused(404, "ResourceNotFoundException");
    }
}

#[tokio::test]
async fn values_out_of_range_are_refused() {
    let home = Home::new().await;
    let ten = "Statuses=FAILED&".repeat(10);
    list(&home, &ten).await;
    for items in [0, 1, 999, 1_000] {
        list(&home, &format!("MaxItems={items}")).await;
    }
    for (query, name) in [
        (format!("{ten}&Statuses=FAILED"), "ValidationException"),
        ("Statuses=OTHER".into(), "ValidationException"),
        ("MaxItems=1001".into(), "ValidationException"),
        ("MaxItems=-1".into(), "ValidationException"),
        ("ReverseOrder=1".into(), "ValidationException"),
        ("DurableExecutionName=a%20b".into(), "ValidationException"),
        ("StartedAfter=yesterday".into(), "SerializationException"),
        ("Marker=zz".into(), "InvalidParameterValueException"),
        ("Marker=n0-0".into(), "InvalidParameterValueException"),
        ("Qualifier=a%20b".into(), "ValidationException"),
    ] {
        let path = format!("/2025-12-01/functions/play/durable-executions?{query}");
        home.get(&path).await.refused(400, name);
    }
}
