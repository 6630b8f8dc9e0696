//! Functions, versions, aliases.

use crate::home::Home;
use outlast_server::Options;
use serde_json::{Value, json};
use std::sync::Arc;

const FUNCTIONS: &str = "/2015-03-31/functions";
const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:order";

fn path(tail: &str) -> String {
    format!("{FUNCTIONS}/{tail}")
}

/// Creates the durable function `order`.
async fn create(home: &Home) -> Value {
    let request = json!({
        "FunctionName": "order", "Runtime": "python3.13", "Handler": "app.handler",
        "Role": "arn:aws:iam::000000000000:role/r", "Code": {"ZipFile": "UEs="},
        "Timeout": 30, "MemorySize": 256, "Environment": {"Variables": {"A": "1"}},
        "DurableConfig": {"ExecutionTimeout": 60, "RetentionPeriodInDays": 2},
        "Tags": {"team": "x"},
        "Layers": ["arn:layer"], "Greeting": "hello",
    });
    home.post(FUNCTIONS, request).await.ok(201)
}

#[tokio::test]
async fn a_function_is_created_shown_and_deleted() {
    let home = Home::empty().await;
    let created = create(&home).await;
    assert_eq!(created["FunctionArn"], ARN);
    assert_eq!(created["Version"], "$LATEST");
    assert_eq!(created["State"], "Active");
    assert_eq!(created["Handler"], "app.handler");
    assert_eq!(created["Environment"]["Variables"]["A"], "1");
    assert_eq!(created["DurableConfig"]["RetentionPeriodInDays"], 2);
    assert_eq!(created["Layers"][0]["Arn"], "arn:layer");
    assert!(created.get("Code").is_none() && created.get("Tags").is_none());
    let shown = home.get(&path("order")).await.ok(200);
    assert_eq!(shown["Configuration"], created);
    assert_eq!(shown["Tags"], json!({"team": "x"}));
    assert!(shown["Code"].is_object());
    let configuration = home
        .get(&path("order/configuration?Qualifier=$LATEST"))
        .await
        .ok(200);
    assert_eq!(configuration["FunctionArn"], format!("{ARN}:$LATEST"));
    let again = home.post(FUNCTIONS, json!({"FunctionName": "order"})).await;
    again.refused(409, "ResourceConflictException");
    home.delete(&path("order")).await.ok(204);
    for reply in [
        home.get(&path("order")).await,
        home.delete(&path("order")).await,
        home.put(&path("order/configuration"), "{}").await,
        home.post(&path("order/versions"), "{}").await,
        home.invoke("order:$LATEST", &[], "{}".into()).await,
    ] {
        reply.refused(404, "ResourceNotFoundException");
    }
    create(&home).await;
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let home = Home::empty().await;
    let created = create(&home).await;
    let request =
        json!({"Timeout": 31, "DurableConfig": {"ExecutionTimeout": 90}, "Handler": null});
    let updated = home
        .put(&path("order/configuration"), request)
        .await
        .ok(200);
    assert_eq!(updated["Timeout"], 31);
    assert_eq!(updated["Handler"], "app.handler");
    let config = json!({"ExecutionTimeout": 90, "RetentionPeriodInDays": 2});
    assert_eq!(updated["DurableConfig"], config);
    assert_ne!(updated["RevisionId"], created["RevisionId"]);
    let stale = json!({"Timeout": 1, "RevisionId": created["RevisionId"]});
    let reply = home.put(&path("order/configuration"), stale).await;
    reply.refused(412, "PreconditionFailedException");
    let code = home
        .put(&path("order/code"), json!({"ZipFile": "UEs="}))
        .await
        .ok(200);
    assert_eq!(code["Timeout"], 31);
    assert!(code.get("ZipFile").is_none());
    // An ordinary function stays one.
    home.post(FUNCTIONS, json!({"FunctionName": "plain"}))
        .await
        .ok(201);
    let durable = json!({"DurableConfig": {"ExecutionTimeout": 90}});
    let reply = home.put(&path("plain/configuration"), durable).await;
    reply.refused(400, "InvalidParameterValueException");
}

#[tokio::test]
async fn whether_tenants_are_kept_apart_is_said_once() {
    let home = Home::empty().await;
    let per_tenant = json!({"TenantIsolationMode": "PER_TENANT"});
    for (name, config) in [("apart", per_tenant.clone()), ("shared", Value::Null)] {
        let request = json!({"FunctionName": name, "TenancyConfig": config});
        let created = home.post(FUNCTIONS, request).await.ok(201);
        assert_eq!(created["TenancyConfig"], config);
    }
    for wrong in [json!({}), json!({"TenantIsolationMode": "NONE"}), json!(1)] {
        let request = json!({"FunctionName": "other", "TenancyConfig": wrong});
        let reply = home.post(FUNCTIONS, request).await;
        reply.refused(400, "InvalidParameterValueException");
    }
    let update = json!({"TenancyConfig": per_tenant, "Timeout": 9});
    let same = home.put(&path("apart/configuration"), update.clone()).await;
    assert_eq!(same.ok(200)["TenancyConfig"], per_tenant);
    let other = home.put(&path("shared/configuration"), update).await;
    other.refused(400, "InvalidParameterValueException");
}

#[tokio::test]
async fn configurations_keep_their_ranges() {
    let home = Home::empty().await;
    let mut number = 0;
    let mut try_one = async |members: Value| {
        number += 1;
        let mut members = members;
        let name = format!("f{number}");
        members
            .as_object_mut()
            .unwrap()
            .entry("FunctionName")
            .or_insert(name.into());
        home.post(FUNCTIONS, members).await
    };
    for (member, min, max) in [("Timeout", 1, 900), ("MemorySize", 128, 32_768)] {
        for (value, fits) in [(min - 1, false), (min, true), (max, true), (max + 1, false)] {
            let reply = try_one(json!({member: value})).await;
            assert_eq!(reply.status.is_success(), fits, "{member} {value}");
        }
    }
    for (timeout, days, fits) in [
        (0, 1, false),
        (1, 1, true),
        (31_622_400, 90, true),
        (31_622_401, 90, false),
        (1, 0, false),
        (1, 91, false),
    ] {
        let config = json!({"ExecutionTimeout": timeout, "RetentionPeriodInDays": days});
        let reply = try_one(json!({"DurableConfig": config})).await;
        assert_eq!(reply.status.is_success(), fits, "{timeout} {days}");
    }
    for (name, fits) in [
        ("n".repeat(63), true),
        ("n".repeat(64), true),
        ("n".repeat(65), false),
        (String::new(), false),
        ("a b".into(), false),
        ("a:1".into(), false),
        ("a.b".into(), true),
    ] {
        let reply = try_one(json!({"FunctionName": name})).await;
        assert_eq!(reply.status.is_success(), fits, "{name}");
    }
    for wrong in [
        json!({"FunctionName": "a.c", "DurableConfig": {"ExecutionTimeout": 1}}),
        json!({"DurableConfig": {}}),
        json!({"DurableConfig": {"RetentionPeriodInDays": 1}}),
        json!({"DurableConfig": 1}),
        json!({"Timeout": "3"}),
        json!({"FunctionName": 1}),
    ] {
        let reply = try_one(wrong).await;
        reply.refused(400, "InvalidParameterValueException");
    }
    home.post(FUNCTIONS, "{}")
        .await
        .refused(400, "InvalidParameterValueException");
    home.post(FUNCTIONS, "{")
        .await
        .refused(400, "SerializationException");
}

#[tokio::test]
async fn versions_are_snapshots_and_executions_stay_on_theirs() {
    let home = Home::empty().await;
    create(&home).await;
    let one = home
        .post(&path("order/versions"), json!({"Description": "first"}))
        .await
        .ok(201);
    assert_eq!(one["Version"], "1");
    assert_eq!(one["FunctionArn"], format!("{ARN}:1"));
    assert_eq!(one["Description"], "first");
    // Nothing changed, so there is nothing to publish.
    let same = home.post(&path("order/versions"), "{}").await.ok(201);
    assert_eq!(same["Version"], "1");
    let script = json!([{"callback": {}}, {"return": 1}]);
    let event = [("x-amz-invocation-type", "Event")];
    let started = home.invoke("order:1", &event, script.to_string()).await;
    assert_eq!(started.header("x-amz-executed-version"), Some("1"));
    let arn = started.header("x-amz-durable-execution-arn").unwrap();
    assert!(
        arn.starts_with(&format!("{ARN}:1/durable-execution/")),
        "{arn}"
    );
    home.put(&path("order/configuration"), json!({"Greeting": "bye"}))
        .await
        .ok(200);
    let two = home.post(&path("order/versions"), "{}").await.ok(201);
    assert_eq!(
        (&two["Version"], &two["Greeting"]),
        (&json!("2"), &json!("bye"))
    );
    let event = home.event(arn, "CallbackStarted").await;
    let id = event["CallbackStartedDetails"]["CallbackId"]
        .as_str()
        .unwrap();
    let succeed = format!("/2025-12-01/durable-execution-callbacks/{id}/succeed");
    home.post(&succeed, "1").await.ok(200);
    home.until(arn, "SUCCEEDED").await;
    for call in home.scripts.calls.lock().unwrap().iter() {
        assert_eq!(call["version"], "1");
        assert_eq!(call["greeting"], "hello");
    }
    let versions = home.get(&path("order/versions")).await.ok(200);
    let versions: Vec<&Value> = versions["Versions"].as_array().unwrap().iter().collect();
    let versions: Vec<&Value> = versions.iter().map(|version| &version["Version"]).collect();
    assert_eq!(versions, ["$LATEST", "1", "2"]);
}

#[tokio::test]
async fn an_alias_can_be_moved_and_is_called_by_its_name() {
    let home = Home::empty().await;
    create(&home).await;
    home.post(&path("order/versions"), "{}").await.ok(201);
    let request = json!({"Name": "live", "FunctionVersion": "1", "Description": "d"});
    let alias = home.post(&path("order/aliases"), &request).await.ok(201);
    assert_eq!(alias["AliasArn"], format!("{ARN}:live"));
    assert_eq!(alias["FunctionVersion"], "1");
    assert_eq!(home.get(&path("order/aliases/live")).await.ok(200), alias);
    let again = home.post(&path("order/aliases"), &request).await;
    again.refused(409, "ResourceConflictException");
    let invoke = async || {
        let reply = home.invoke("order:live", &[], "1".into()).await;
        reply.ok(200);
        reply.header("x-amz-executed-version").unwrap().to_owned()
    };
    assert_eq!(invoke().await, "1");
    let moved = json!({"FunctionVersion": "$LATEST"});
    let moved = home.put(&path("order/aliases/live"), moved).await.ok(200);
    assert_eq!(
        (&moved["FunctionVersion"], &moved["Description"]),
        (&json!("$LATEST"), &json!("d"))
    );
    assert_eq!(invoke().await, "$LATEST");
    let configuration = home
        .get(&path("order/configuration?Qualifier=live"))
        .await
        .ok(200);
    assert_eq!(configuration["FunctionArn"], format!("{ARN}:live"));
    let stale = json!({"FunctionVersion": "1", "RevisionId": alias["RevisionId"]});
    let reply = home.put(&path("order/aliases/live"), stale).await;
    reply.refused(412, "PreconditionFailedException");
    home.delete(&path("order/aliases/live")).await.ok(204);
    home.delete(&path("order/aliases/live")).await.ok(204);
    for reply in [
        home.get(&path("order/aliases/live")).await,
        home.put(&path("order/aliases/live"), "{}").await,
        home.invoke("order:live", &[], "1".into()).await,
        home.post(
            &path("order/aliases"),
            json!({"Name": "x", "FunctionVersion": "9"}),
        )
        .await,
    ] {
        reply.refused(404, "ResourceNotFoundException");
    }
}

#[tokio::test]
async fn aliases_have_names_that_no_version_has() {
    let home = Home::empty().await;
    create(&home).await;
    for (name, fits) in [
        ("a".repeat(127), true),
        ("a".repeat(128), true),
        ("a".repeat(129), false),
        (String::new(), false),
        ("7".into(), false),
        ("7a".into(), true),
        ("a b".into(), false),
    ] {
        let request = json!({"Name": name, "FunctionVersion": "$LATEST"});
        let reply = home.post(&path("order/aliases"), request).await;
        assert_eq!(reply.status.is_success(), fits, "{name}");
    }
    for wrong in [
        json!({"Name": "b"}),
        json!({"FunctionVersion": "$LATEST"}),
        json!({"Name": "b", "FunctionVersion": "7a"}),
        json!({
            "Name": "b", "FunctionVersion": "$LATEST",
            "RoutingConfig": {"AdditionalVersionWeights": {"1": 0.5}},
        }),
    ] {
        let reply = home.post(&path("order/aliases"), wrong).await;
        reply.refused(400, "InvalidParameterValueException");
    }
}

#[tokio::test]
async fn a_version_can_be_deleted_once_no_alias_needs_it_and_its_number_is_gone() {
    let home = Home::empty().await;
    create(&home).await;
    home.post(&path("order/versions"), "{}").await.ok(201);
    let alias = json!({"Name": "live", "FunctionVersion": "1"});
    home.post(&path("order/aliases"), alias).await.ok(201);
    let needed = home.delete(&path("order?Qualifier=1")).await;
    needed.refused(409, "ResourceConflictException");
    let latest = home.delete(&path("order?Qualifier=$LATEST")).await;
    latest.refused(400, "InvalidParameterValueException");
    home.delete(&path("order/aliases/live")).await.ok(204);
    home.delete(&path("order?Qualifier=1")).await.ok(204);
    let gone = home.invoke("order:1", &[], "1".into()).await;
    gone.refused(404, "ResourceNotFoundException");
    home.put(&path("order/configuration"), json!({"Timeout": 5}))
        .await
        .ok(200);
    let next = home.post(&path("order/versions"), "{}").await.ok(201);
    assert_eq!(next["Version"], "2");
}

#[tokio::test]
async fn functions_versions_and_aliases_are_paged() {
    let home = Home::empty().await;
    for number in 0..5 {
        let name = format!("f{number}");
        home.post(FUNCTIONS, json!({"FunctionName": name, "Publish": true}))
            .await
            .ok(201);
        let alias = json!({"Name": format!("a{number}"), "FunctionVersion": "$LATEST"});
        home.post(&path("f0/aliases"), alias).await.ok(201);
    }
    for (list, members, name, expected) in [
        (
            "",
            "Functions",
            "FunctionName",
            vec!["f0", "f1", "f2", "f3", "f4"],
        ),
        (
            "f0/aliases",
            "Aliases",
            "Name",
            vec!["a0", "a1", "a2", "a3", "a4"],
        ),
        ("f0/versions", "Versions", "Version", vec!["$LATEST", "1"]),
    ] {
        for max in [1, 2, 5, 50, 10_000] {
            let (mut seen, mut marker) = (Vec::new(), String::new());
            loop {
                let query = format!("{list}?MaxItems={max}&Marker={marker}");
                let page = home.get(&path(&query)).await.ok(200);
                let items = page[members].as_array().unwrap().clone();
                assert!(items.len() <= max);
                seen.extend(
                    items
                        .iter()
                        .map(|item| item[name].as_str().unwrap().to_owned()),
                );
                match page.get("NextMarker") {
                    Some(next) => marker = next.as_str().unwrap().to_owned(),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{list} {max}");
        }
        for max in ["0", "10001", "x"] {
            let reply = home.get(&path(&format!("{list}?MaxItems={max}"))).await;
            reply.refused(400, "ValidationException");
        }
    }
    let all = home.get(&path("?FunctionVersion=ALL")).await.ok(200);
    assert_eq!(all["Functions"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn what_was_created_is_there_after_a_restart_and_what_was_deleted_is_not() {
    let home = Home::empty().await;
    create(&home).await;
    home.post(&path("order/versions"), "{}").await.ok(201);
    let alias = json!({"Name": "live", "FunctionVersion": "1"});
    home.post(&path("order/aliases"), alias).await.ok(201);
    home.post(FUNCTIONS, json!({"FunctionName": "gone"}))
        .await
        .ok(201);
    home.delete(&path("gone")).await.ok(204);
    let before = home.get(&path("order")).await.ok(200);
    let store = Arc::new(home.store.crash());
    home.engine.abandon();
    home.close().await;
    let home = Home::on(store, Options::default()).await;
    assert_eq!(home.get(&path("order")).await.ok(200), before);
    let reply = home.invoke("order:live", &[], "5".into()).await;
    assert_eq!(reply.ok(200), 5);
    assert_eq!(reply.header("x-amz-executed-version"), Some("1"));
    home.get(&path("gone"))
        .await
        .refused(404, "ResourceNotFoundException");
}

#[tokio::test]
async fn a_function_lives_where_its_arn_says() {
    let home = Home::empty().await;
    let arn = "arn:aws:lambda:eu-west-1:123456789012:function:far";
    let config = json!({"FunctionArn": arn, "DurableConfig": {"ExecutionTimeout": 60}});
    home.configure("far", config).await;
    let reply = home
        .invoke(&format!("{arn}:$LATEST"), &[], "1".into())
        .await;
    reply.ok(200);
    let execution = reply.header("x-amz-durable-execution-arn").unwrap();
    assert!(execution.starts_with(arn), "{execution}");
    let listed = home
        .get("/2025-12-01/functions/far/durable-executions")
        .await
        .ok(200);
    assert_eq!(
        listed["DurableExecutions"][0]["DurableExecutionArn"],
        execution
    );
}

#[tokio::test]
async fn executions_of_a_deleted_function_fail_when_they_would_be_called() {
    let home = Home::new().await;
    let arn = home.start(json!([{"wait": 1}, {"return": 1}])).await;
    home.event(&arn, "WaitStarted").await;
    home.delete(&path("play")).await.ok(204);
    let failed = home.until(&arn, "FAILED").await;
    assert_eq!(failed["Error"]["ErrorType"], "ResourceNotFoundException");
}
