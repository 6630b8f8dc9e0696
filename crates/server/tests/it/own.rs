//! What Outlast offers beyond the service.

use crate::{
    client::encode,
    home::{Home, execution},
};
use serde_json::json;

fn own(arn: &str, tail: &str) -> String {
    format!("/outlast/v1/executions/{}{tail}", encode(arn))
}

#[tokio::test]
async fn a_signal_reaches_its_wait_before_or_after_it() {
    let home = Home::new().await;
    let arn = home
        .start(json!([{"signal": "go on"}, {"signal": "go on"}, {"return": 1}]))
        .await;
    home.event(&arn, "CallbackStarted").await;
    for payload in ["1", "2"] {
        home.post(&own(&arn, "/signals/go%20on"), payload)
            .await
            .ok(204);
    }
    home.until(&arn, "SUCCEEDED").await;
    let taken: Vec<String> = home
        .events(&arn)
        .await
        .iter()
        .filter(|event| event["EventType"] == "CallbackSucceeded")
        .map(|event| event["CallbackSucceededDetails"]["Result"]["Payload"].to_string())
        .collect();
    assert_eq!(taken, ["\"1\"", "\"2\""]);
    let late = home.post(&own(&arn, "/signals/x"), "").await;
    late.refused(409, "ConflictException");
    let unknown = home
        .post(&own(&arn.replace("play", "other"), "/signals/x"), "")
        .await;
    unknown.refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn why_says_one_sentence() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    home.event(&arn, "InvocationCompleted").await;
    let why = home.get(&own(&arn, "/why")).await.ok(200);
    assert!(
        why["Why"].as_str().unwrap().contains("waits for the timer"),
        "{why}"
    );
}

#[tokio::test]
async fn only_what_is_held_can_be_resumed_or_failed() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    for action in ["/resume", "/fail"] {
        let reply = home.post(&own(&arn, action), "").await;
        reply.refused(409, "ConflictException");
    }
    let id = outlast_engine::execution_id(&arn).unwrap();
    let hold = async || {
        let reason = outlast_core::wire::ErrorObject::new("T", "m");
        let hold = outlast_core::Input::Hold { reason };
        home.engine.decide(id, hold).await.unwrap();
    };
    hold().await;
    home.post(&own(&arn, "/resume"), "").await.ok(204);
    hold().await;
    home.post(&own(&arn, "/fail"), "").await.ok(204);
    assert_eq!(home.describe(&arn).await["Error"]["ErrorType"], "T");
}

#[tokio::test]
async fn an_execution_is_deleted_after_its_end_and_its_name_is_free() {
    let home = Home::new().await;
    let name = [("x-amz-durable-execution-name", "n")];
    let first = home.play(&name, json!([{"return": 1}])).await;
    let arn = first
        .header("x-amz-durable-execution-arn")
        .unwrap()
        .to_owned();
    home.delete(&own(&arn, "")).await.ok(204);
    for reply in [
        home.get(&execution(&arn, "")).await,
        home.delete(&own(&arn, "")).await,
    ] {
        reply.refused(404, "ResourceNotFoundException");
    }
    home.play(&name, json!([{"return": 2}])).await.ok(200);
    let running = home.start(json!([{"wait": 500}])).await;
    home.delete(&own(&running, ""))
        .await
        .refused(409, "ConflictException");
}

#[tokio::test]
async fn a_client_is_told_of_the_end_or_after_a_while_that_there_is_none() {
    let home = Home::new().await;
    let arn = home.start(json!([{"callback": {}}, {"return": 7}])).await;
    let running = home.get(&own(&arn, "/end?WaitSeconds=1")).await.ok(200);
    assert_eq!(running, json!({"Status": "RUNNING"}));
    let ended = async { home.get(&own(&arn, "/end")).await.ok(200) };
    let answered = async {
        let started = home.event(&arn, "CallbackStarted").await;
        let id = started["CallbackStartedDetails"]["CallbackId"]
            .as_str()
            .unwrap();
        let path = format!(
            "/2025-12-01/durable-execution-callbacks/{}/succeed",
            encode(id)
        );
        home.post(&path, "1").await.ok(200);
    };
    let (ended, ()) = tokio::join!(ended, answered);
    assert_eq!(ended, json!({"Status": "SUCCEEDED", "Result": "7"}));
    let failed = home.start(json!([{"fail": "no"}])).await;
    let failed = home.get(&own(&failed, "/end")).await.ok(200);
    assert_eq!(failed["Status"], "FAILED");
    assert_eq!(failed["Error"]["ErrorMessage"], "no");
    for seconds in ["0", "61"] {
        let reply = home
            .get(&own(&arn, &format!("/end?WaitSeconds={seconds}")))
            .await;
        reply.refused(400, "ValidationException");
    }
    for seconds in ["1", "2", "59", "60"] {
        let reply = home
            .get(&own(&arn, &format!("/end?WaitSeconds={seconds}")))
            .await;
        assert_eq!(reply.ok(200)["Status"], "SUCCEEDED");
    }
}

#[tokio::test]
async fn time_is_not_skipped_on_a_clock_that_goes_by_itself() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 500}])).await;
    let asked = home.get(&own(&arn, "/clock")).await;
    asked.refused(404, "ResourceNotFoundException");
    let moved = home.post(&own(&arn, "/clock?Version=1&Until=1"), "").await;
    moved.refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn a_worker_is_told_at_once_when_something_changed() {
    let home = Home::new().await;
    let arn = home.start(json!([{"poll": 60}])).await;
    let event = home.event(&arn, "CallbackStarted").await;
    let id = &event["CallbackStartedDetails"]["CallbackId"];
    let id = id.as_str().unwrap();
    let path = format!("/2025-12-01/durable-execution-callbacks/{id}/succeed");
    home.post(&path, "1").await.ok(200);
    let ended = home.until(&arn, "SUCCEEDED").await;
    assert_eq!(ended["Result"], r#"[true,"SUCCEEDED"]"#);
}

#[tokio::test]
async fn a_worker_is_told_after_a_while_that_nothing_changed() {
    let home = Home::new().await;
    let reply = home.play(&[], json!([{"poll": 1}])).await;
    assert_eq!(reply.ok(200), json!([false, "STARTED"]));
}

#[tokio::test]
async fn only_the_invocation_that_runs_may_ask_what_changed() {
    let home = Home::new().await;
    let arn = home.start(json!([{"hang": 1}])).await;
    for query in [
        "",
        "?CheckpointToken=",
        "?CheckpointToken=dG9rZW4x&WaitSeconds=0",
        "?CheckpointToken=dG9rZW4x&WaitSeconds=61",
    ] {
        let reply = home.get(&own(&arn, &format!("/changed{query}"))).await;
        reply.refused(400, "ValidationException");
    }
    for seconds in [1, 60] {
        let query = format!("/changed?CheckpointToken=dG9rZW4x&WaitSeconds={seconds}");
        let reply = home.get(&own(&arn, &query)).await;
        let message = reply.refused(400, "InvalidParameterValueException");
        assert!(message.starts_with("Invalid checkpoint token"), "{message}");
    }
}

#[tokio::test]
async fn health_names_the_store() {
    let home = Home::new().await;
    let health = home.get("/health").await.ok(200);
    assert_eq!(health["status"], "ok");
    assert_eq!(health["disk_full"], false);
    home.store.poison("the disk is gone");
    let health = home.get("/health").await;
    assert_eq!(health.status, 503);
    assert_eq!(health.json()["reason"], "the disk is gone");
}

#[tokio::test]
async fn lines_are_kept_within_their_bounds() {
    let home = Home::new().await;
    let logs = "/outlast/v1/functions/play/logs";
    let line = json!({"Process": 7, "Stream": "out", "Text": "x"});
    for (lines, status) in [(999, 204), (1_000, 204), (1_001, 400)] {
        let body = json!({"Lines": vec![line.clone(); lines]});
        assert_eq!(home.post(logs, body).await.status, status, "{lines}");
    }
    for (query, status) in [
        ("MaxItems=1", 200),
        ("MaxItems=0", 400),
        ("MaxItems=1000", 200),
        ("MaxItems=1001", 400),
        ("WaitSeconds=60", 200),
        ("WaitSeconds=61", 400),
        ("After=x", 400),
        ("After=0&WaitSeconds=60", 200),
    ] {
        let reply = home.get(&format!("{logs}?{query}")).await;
        assert_eq!(reply.status, status, "{query}");
    }
    let page = home.get(&format!("{logs}?MaxItems=2")).await.ok(200);
    assert_eq!(page["Lines"].as_array().unwrap().len(), 2);
    assert_eq!(page["Last"], page["Lines"][1]["Number"]);
    let (last, version) = (&page["Last"], &page["Lines"][0]["Version"]);
    assert_eq!(version, "$LATEST");
    let rest = home.get(&format!("{logs}?After={last}")).await.ok(200);
    assert_eq!((&rest["Lines"], &rest["Last"]), (&json!([]), last));
    let unknown = home.get("/outlast/v1/functions/nobody/logs").await;
    unknown.refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn executions_that_run_are_counted_after_a_crash_too() {
    let home = Home::new().await;
    let running = async |home: &Home, count: u32| {
        let line = format!("outlast_executions_running {count}");
        home.eventually(async || {
            let metrics = home.get("/metrics").await;
            metrics.text().lines().any(|it| it == line).then_some(())
        })
        .await;
    };
    let mut arn = String::new();
    for _ in 0..3 {
        arn = home.start(json!([{"wait": 500}])).await;
    }
    home.play(&[], json!([{"return": 1}])).await.ok(200);
    running(&home, 3).await;
    let store = std::sync::Arc::new(home.store.crash());
    home.engine.abandon();
    let home = Home::on(store, outlast_server::Options::default()).await;
    running(&home, 3).await;
    let stop = crate::home::execution(&arn, "/stop");
    home.post(&stop, "").await.ok(200);
    running(&home, 2).await;
}

#[tokio::test]
async fn metrics_count_executions_by_their_end_and_every_name_is_documented() {
    let home = Home::new().await;
    home.play(&[], json!([{"return": 1}])).await.ok(200);
    home.play(&[], json!([{"fail": "no"}])).await.ok(200);
    let arn = home.start(json!([{"wait": 500}])).await;
    let stop = crate::home::execution(&arn, "/stop");
    home.post(&stop, "").await.ok(200);
    home.start(json!([{"hang": true}])).await;
    let metrics = home
        .eventually(async || {
            let metrics = home.get("/metrics").await;
            let running = "outlast_function_invocations{function=\"play\",version=\"$LATEST\"} 1";
            let counted = metrics.text().contains("outlast_executions_running");
            (counted && metrics.text().contains(running)).then_some(metrics)
        })
        .await;
    for line in [
        "outlast_executions_started_total 4",
        "outlast_executions_running 1",
        "outlast_function_executions_running{function=\"play\",version=\"$LATEST\"} 1",
        "outlast_executions_ended_total{status=\"SUCCEEDED\"} 1",
        "outlast_executions_ended_total{status=\"FAILED\"} 1",
        "outlast_executions_ended_total{status=\"TIMED_OUT\"} 0",
        "outlast_executions_ended_total{status=\"STOPPED\"} 1",
        "outlast_function_executions_ready{function=\"play\",version=\"$LATEST\"} 0",
        "outlast_events 0",
        "outlast_functions 2",
    ] {
        let found = metrics.text().lines().any(|found| found == line);
        assert!(found, "{line}\n{}", metrics.text());
    }
    let documented = include_str!("../../../../docs/metrics.md");
    let mut families = std::collections::BTreeSet::new();
    for line in metrics.text().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", name, _, ..] => assert!(families.insert(name), "{name} twice"),
            ["#", "TYPE", name, kind] => {
                assert!(families.contains(name), "{name} has no help");
                let row = format!("| `{name}` | {kind} |");
                assert!(documented.contains(&row), "not documented: {row}");
            }
            _ => assert!(!line.starts_with('#'), "{line}"),
        }
    }
    let rows = documented.matches("\n| `").count();
    assert_eq!(rows, families.len(), "something documented is not there");
}
