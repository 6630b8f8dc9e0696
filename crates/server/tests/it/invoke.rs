//! Invoke: starts, names, waits, ordinary functions.

use crate::home::Home;
use hyper::Method;
use outlast_core::limits::{EVENT_INPUT_BYTES_MAX, REQUEST_INPUT_BYTES_MAX};
use outlast_server::Options;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const WAITING: (&str, &str) = ("x-amz-invocation-type", "RequestResponse");
const EVENT: (&str, &str) = ("x-amz-invocation-type", "Event");
const DRY_RUN: (&str, &str) = ("x-amz-invocation-type", "DryRun");
const ARN: &str = "x-amz-durable-execution-arn";

#[tokio::test]
async fn a_synchronous_invoke_waits_through_suspensions_for_the_result() {
    let home = Home::new().await;
    let reply = home
        .play(&[], json!([{"step": 1}, {"wait": 1}, {"return": {"a": 2}}]))
        .await;
    assert_eq!(reply.ok(200), json!({"a": 2}));
    assert_eq!(reply.header("x-amz-executed-version"), Some("$LATEST"));
    assert_eq!(reply.header("x-amz-function-error"), None);
    let arn = reply.header(ARN).unwrap();
    let prefix = "arn:aws:lambda:us-east-1:000000000000:function:play:$LATEST/durable-execution/";
    assert!(arn.starts_with(prefix), "{arn}");
    let described = home.describe(arn).await;
    assert_eq!(described["Status"], "SUCCEEDED");
    assert_eq!(described["Result"], r#"{"a":2}"#);
}

#[tokio::test]
async fn an_execution_that_returned_nothing_answers_null() {
    let home = Home::new().await;
    let reply = home.play(&[], json!([])).await;
    assert_eq!(reply.ok(200), Value::Null);
    assert_eq!(reply.text(), "null");
    let described = home.describe(reply.header(ARN).unwrap()).await;
    assert_eq!(described.get("Result"), None);
}

#[tokio::test]
async fn an_event_invoke_answers_at_once_and_the_execution_goes_on() {
    let home = Home::new().await;
    let arn = home.start(json!([{"return": 7}])).await;
    assert_eq!(home.until(&arn, "SUCCEEDED").await["Result"], "7");
}

#[tokio::test]
async fn a_failed_execution_answers_with_a_function_error() {
    let home = Home::new().await;
    let reply = home.play(&[], json!([{"fail": "no"}])).await;
    assert_eq!(
        reply.ok(200),
        json!({"errorType": "Failure", "errorMessage": "no"})
    );
    assert_eq!(reply.header("x-amz-function-error"), Some("Unhandled"));
    assert!(reply.header(ARN).is_some());
}

#[tokio::test]
async fn a_stopped_execution_answers_its_waiting_caller() {
    let home = Home::new().await;
    let name = ("x-amz-durable-execution-name", "n");
    let arn = home.play(&[EVENT, name], json!([{"wait": 500}])).await;
    let arn = arn.header(ARN).unwrap().to_owned();
    let stop = async {
        // Not before the caller below waits too.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let path = crate::home::execution(&arn, "/stop");
        home.post(&path, json!({"ErrorMessage": "enough"}))
            .await
            .ok(200);
    };
    let names = [name];
    let (reply, ()) = tokio::join!(home.play(&names, json!([{"wait": 500}])), stop);
    assert_eq!(reply.ok(200), json!({"errorMessage": "enough"}));
    assert_eq!(reply.header(ARN), Some(&*arn));
}

#[tokio::test]
async fn a_dry_run_checks_and_starts_nothing() {
    let home = Home::new().await;
    let reply = home.play(&[DRY_RUN], json!([{"return": 1}])).await;
    reply.ok(204);
    assert!(reply.body.is_empty() && reply.header(ARN).is_none());
    let list = home
        .get("/2025-12-01/functions/play/durable-executions")
        .await;
    assert_eq!(list.ok(200)["DurableExecutions"], json!([]));
    let reply = home.invoke("play", &[DRY_RUN], "{}".into()).await;
    reply.refused(400, "InvalidParameterValueException");
    let reply = home.invoke("play:$LATEST", &[DRY_RUN], "{".into()).await;
    reply.refused(400, "InvalidRequestContentException");
}

#[tokio::test]
async fn a_name_finds_its_execution_again_or_is_refused() {
    let home = Home::new().await;
    home.configure(
        "play",
        json!({"DurableConfig": {"ExecutionTimeout": 600}, "Description": "v"}),
    )
    .await;
    let published = home
        .post("/2015-03-31/functions/play/versions", json!({}))
        .await;
    assert_eq!(published.ok(201)["Version"], "1");
    let name = ("x-amz-durable-execution-name", "order-1");
    let script = json!([{"callback": {}}, {"return": "done"}]);
    let first = home.play(&[EVENT, name], script.clone()).await;
    let arn = first.header(ARN).unwrap().to_owned();
    // Running, same input: the same execution.
    let again = home.play(&[EVENT, name], script.clone()).await;
    assert_eq!(again.header(ARN), Some(&*arn));
    // Running, other input or other version: refused.
    let conflict = "DurableExecutionAlreadyStartedException";
    let other = home.play(&[EVENT, name], json!([{"return": 1}])).await;
    other.refused(409, conflict);
    let other = home
        .invoke("play:1", &[EVENT, name], script.to_string())
        .await;
    other.refused(409, conflict);
    // A synchronous caller attaches to it.
    let id = home.event(&arn, "CallbackStarted").await["CallbackStartedDetails"]["CallbackId"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let path = format!("/2025-12-01/durable-execution-callbacks/{id}/succeed");
        home.post(&path, "1").await.ok(200);
    };
    let names = [name];
    let (attached, ()) = tokio::join!(home.play(&names, script.clone()), answer);
    assert_eq!(attached.ok(200), "done");
    // Closed, same input: the stored outcome. Closed, other input: refused.
    let closed = home.play(&[name], script).await;
    assert_eq!(closed.ok(200), "done");
    assert_eq!(closed.header(ARN), Some(&*arn));
    let other = home.play(&[name], json!([{"return": 1}])).await;
    other.refused(409, conflict);
}

#[tokio::test]
async fn a_durable_function_needs_a_qualifier_and_both_qualifiers_must_agree() {
    let home = Home::new().await;
    let script = json!([{"return": 1}]).to_string();
    let invoke = async |path: &str| {
        let path = format!("/2015-03-31/functions/{path}");
        home.send(Method::POST, &path, &[], script.clone()).await
    };
    let unqualified = invoke("play/invocations").await;
    let message = unqualified.refused(400, "InvalidParameterValueException");
    assert!(message.contains("unqualified"), "{message}");
    invoke("play/invocations?Qualifier=$LATEST").await.ok(200);
    invoke("play/invocations?Qualifier=%24LATEST").await.ok(200);
    invoke("play:$LATEST/invocations?Qualifier=$LATEST")
        .await
        .ok(200);
    let differ = invoke("play:$LATEST/invocations?Qualifier=1").await;
    differ.refused(400, "InvalidParameterValueException");
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:play:$LATEST";
    invoke(&format!("{arn}/invocations")).await.ok(200);
    invoke("000000000000:function:play:$LATEST/invocations")
        .await
        .ok(200);
    for missing in [
        "other/invocations",
        "play:1/invocations",
        "play:live/invocations",
        "000000000001:function:play:$LATEST/invocations",
        "arn:aws:lambda:eu-west-1:000000000000:function:play:$LATEST/invocations",
    ] {
        let reply = invoke(missing).await;
        reply.refused(404, "ResourceNotFoundException");
    }
    invoke("a%20b/invocations")
        .await
        .refused(400, "ValidationException");
    invoke("play/invocations?Qualifier=a%20b")
        .await
        .refused(400, "ValidationException");
}

#[tokio::test]
async fn a_long_execution_cannot_be_waited_for() {
    let home = Home::empty().await;
    for (seconds, waits) in [(899, true), (900, true), (901, false)] {
        let name = format!("f{seconds}");
        home.configure(
            &name,
            json!({"DurableConfig": {"ExecutionTimeout": seconds}}),
        )
        .await;
        let function = format!("{name}:$LATEST");
        let reply = home.invoke(&function, &[], "1".into()).await;
        if waits {
            reply.ok(200);
        } else {
            reply.refused(400, "InvalidParameterValueException");
        }
        home.invoke(&function, &[EVENT], "1".into()).await.ok(202);
        home.invoke(&function, &[DRY_RUN], "1".into()).await.ok(204);
    }
}

#[tokio::test]
async fn inputs_have_their_limits() {
    let home = Home::new().await;
    for (headers, limit) in [
        (vec![EVENT], EVENT_INPUT_BYTES_MAX),
        (vec![], REQUEST_INPUT_BYTES_MAX),
    ] {
        for (bytes, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
            let body = format!("\"{}\"", "x".repeat(bytes - 2));
            let reply = home.invoke("play:$LATEST", &headers, body.clone()).await;
            if fits {
                assert!(reply.status.is_success(), "{}", reply.status);
            } else {
                reply.refused(413, "RequestTooLargeException");
                let plain = home.invoke("plain", &headers, body).await;
                plain.refused(413, "RequestTooLargeException");
            }
        }
    }
    for body in ["{", "hello", "{}x"] {
        for function in ["play:$LATEST", "plain"] {
            let reply = home.invoke(function, &[], body.to_owned()).await;
            reply.refused(400, "InvalidRequestContentException");
        }
    }
}

#[tokio::test]
async fn wrong_headers_are_refused_and_start_nothing() {
    let home = Home::new().await;
    let long = "n".repeat(65);
    for (name, value, error) in [
        ("x-amz-invocation-type", "Other", "ValidationException"),
        (
            "x-amz-durable-execution-name",
            "a b",
            "InvalidParameterValueException",
        ),
        (
            "x-amz-durable-execution-name",
            &*long,
            "InvalidParameterValueException",
        ),
        (
            "x-amz-durable-execution-name",
            "",
            "InvalidParameterValueException",
        ),
        ("x-amz-tenant-id", "a\tb", "InvalidParameterValueException"),
        ("x-amz-tenant-id", "", "InvalidParameterValueException"),
    ] {
        let reply = home.play(&[(name, value)], json!([{"return": 1}])).await;
        reply.refused(400, error);
    }
    let list = home
        .get("/2025-12-01/functions/play/durable-executions")
        .await;
    assert_eq!(list.ok(200)["DurableExecutions"], json!([]));
}

#[tokio::test]
async fn a_function_is_invoked_for_a_tenant_if_it_keeps_them_apart_and_not_otherwise() {
    let home = Home::new().await;
    home.configure_tenants().await;
    let blue = ("x-amz-tenant-id", "blue");
    let invalid = "InvalidParameterValueException";
    for kind in [WAITING, EVENT, DRY_RUN] {
        for (with, without) in [("play-for:$LATEST", "play:$LATEST"), ("plain-for", "plain")] {
            let script = || match with.starts_with("play") {
                true => "[]".to_owned(),
                false => "{}".to_owned(),
            };
            let refused = home.invoke(with, &[kind], script()).await;
            refused.refused(400, invalid);
            let refused = home.invoke(without, &[kind, blue], script()).await;
            refused.refused(400, invalid);
            let taken = home.invoke(with, &[kind, blue], script()).await;
            assert!(taken.status.is_success(), "{with} {kind:?}");
        }
    }
    for function in ["play", "plain"] {
        let path = format!("/2025-12-01/functions/{function}/durable-executions");
        let list = home.get(&path).await.ok(200);
        assert_eq!(list["DurableExecutions"], json!([]), "{function}");
    }
}

#[tokio::test]
async fn a_chained_invoke_hands_its_tenant_on_to_whom_it_means_something() {
    let home = Home::new().await;
    home.configure_tenants().await;
    let blue = ("x-amz-tenant-id", "blue");
    let invoke = |function: &str, tenant: Option<&str>| {
        let mut call = json!({"invoke": function, "payload": {"return": 1}});
        if function.starts_with("play") {
            call["payload"] = json!([{"return": 1}]);
        }
        if let Some(tenant) = tenant {
            call["tenant"] = json!(tenant);
        }
        json!([call]).to_string()
    };
    let invoked = async |parent: &str, script: String| match parent {
        "play:$LATEST" => home.invoke(parent, &[], script).await,
        _ => home.invoke(parent, &[blue], script).await,
    };
    for (parent, target, named, expected) in [
        ("play-for:$LATEST", "play-for:$LATEST", None, Some("blue")),
        ("play-for:$LATEST", "plain-for", Some("red"), Some("red")),
        ("play-for:$LATEST", "plain", None, None),
        ("play:$LATEST", "plain-for", Some("red"), Some("red")),
    ] {
        home.scripts.calls.lock().unwrap().clear();
        let reply = invoked(parent, invoke(target, named)).await;
        reply.ok(200);
        let calls = home.scripts.calls.lock().unwrap().clone();
        assert_eq!(calls[1]["tenant"], json!(expected), "{parent} {target}");
    }
    for (parent, target, named) in [
        ("play:$LATEST", "plain-for", None),
        ("play:$LATEST", "play-for:$LATEST", None),
        ("play-for:$LATEST", "plain", Some("red")),
        ("play:$LATEST", "play:$LATEST", Some("red")),
    ] {
        let reply = invoked(parent, invoke(target, named)).await;
        let arn = reply.header(ARN).unwrap();
        let failed = home.event(arn, "ChainedInvokeFailed").await;
        let error = &failed["ChainedInvokeFailedDetails"]["Error"]["Payload"]["ErrorType"];
        assert_eq!(error, "InvalidParameterValueException", "{parent} {target}");
    }
}

#[tokio::test]
async fn tenant_trace_and_client_context_reach_the_handler() {
    let home = Home::new().await;
    let headers = [
        ("x-amz-tenant-id", "blue"),
        ("x-amzn-trace-id", "Root=1-2-3"),
        ("x-amz-client-context", "e30="),
    ];
    home.configure_tenants().await;
    let play = async |headers: &[(&str, &str)], script: Value| {
        let script = script.to_string();
        home.invoke("play-for:$LATEST", headers, script).await
    };
    let arn = play(&headers, json!([{"return": 1}])).await;
    let arn = arn.header(ARN).unwrap().to_owned();
    play(&[&headers[..], &[EVENT]].concat(), json!([{"return": 2}]))
        .await
        .ok(202);
    let plain = home.invoke("plain-for", &headers, "{}".into()).await;
    plain.ok(200);
    let calls = home
        .eventually(async || {
            let calls = home.scripts.calls.lock().unwrap().clone();
            (calls.len() == 3).then_some(calls)
        })
        .await;
    for call in &calls {
        assert_eq!(call["tenant"], "blue");
        assert_eq!(call["trace"], "Root=1-2-3");
    }
    let contexts: Vec<&Value> = calls.iter().map(|call| &call["context"]).collect();
    assert!(
        contexts
            .iter()
            .filter(|context| ***context == "e30=")
            .count()
            == 2
    );
    assert!(
        contexts.contains(&&Value::Null),
        "an event has no client context"
    );
    let described = home.describe(&arn).await;
    assert_eq!(
        described["TraceHeader"],
        json!({"XAmznTraceId": "Root=1-2-3"})
    );
}

#[tokio::test]
async fn a_w3c_trace_is_known_by_the_name_that_executions_use() {
    let home = Home::new().await;
    let traced = async |headers: &[(&'static str, &'static str)]| {
        let started = home.play(headers, json!([{"return": 1}])).await;
        let arn = started.header(ARN).unwrap().to_owned();
        home.describe(&arn).await["TraceHeader"]["XAmznTraceId"].clone()
    };
    let parent = |text| [("traceparent", text)];
    let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let header = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1";
    assert_eq!(traced(&parent(sampled)).await, header);
    let both = [("traceparent", sampled), ("x-amzn-trace-id", "Root=1-2-3")];
    assert_eq!(traced(&both).await, "Root=1-2-3");
    let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02";
    let header = header.replace("Sampled=1", "Sampled=0");
    assert_eq!(traced(&parent(unsampled)).await, header);
    for wrong in [
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "nonsense",
    ] {
        assert_eq!(traced(&parent(wrong)).await, Value::Null, "{wrong}");
    }
}

#[tokio::test]
async fn an_execution_without_input_gets_an_empty_object() {
    let home = Home::new().await;
    let reply = home.invoke("play:$LATEST", &[], String::new()).await;
    assert_eq!(reply.ok(200), json!({}));
}

#[tokio::test]
async fn an_ordinary_function_answers_as_lambda_does() {
    let home = Home::new().await;
    let reply = home.invoke("plain", &[], r#"{"return": [1]}"#.into()).await;
    assert_eq!(reply.ok(200), json!([1]));
    assert_eq!(reply.header("x-amz-executed-version"), Some("$LATEST"));
    assert_eq!(reply.header(ARN), None);
    let nothing = home.invoke("plain:$LATEST", &[], "{}".into()).await;
    assert_eq!(nothing.ok(200), Value::Null);
    assert_eq!(nothing.text(), "null");
    let failed = home
        .invoke("plain", &[], r#"{"raise": "bad"}"#.into())
        .await;
    let error = json!({"errorType": "Oops", "errorMessage": "bad"});
    assert_eq!(failed.ok(200), error);
    assert_eq!(failed.header("x-amz-function-error"), Some("Unhandled"));
    home.invoke("plain", &[DRY_RUN], "{}".into()).await.ok(204);
    home.invoke("plain", &[EVENT], "{}".into()).await.ok(202);
    let name = ("x-amz-durable-execution-name", "n");
    let named = home.invoke("plain", &[name], "{}".into()).await;
    named.refused(400, "InvalidParameterValueException");
}

#[tokio::test]
async fn an_ordinary_function_that_takes_too_long_timed_out() {
    let home = Home::new().await;
    let reply = home.invoke("plain", &[], r#"{"hang": 1}"#.into()).await;
    assert_eq!(reply.ok(200)["errorType"], "Sandbox.Timedout");
    assert_eq!(reply.header("x-amz-function-error"), Some("Unhandled"));
}

#[tokio::test]
async fn calls_that_nobody_waits_for_are_bounded() {
    let options = Options {
        background_max: 1,
        ..Options::default()
    };
    let home = Home::with(options).await;
    let hang = || r#"{"hang": 1}"#.to_owned();
    home.invoke("plain", &[EVENT], hang()).await.ok(202);
    let reply = home.invoke("plain", &[EVENT], hang()).await;
    reply.refused(429, "TooManyRequestsException");
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_caller_who_waits_too_long_is_sent_away_and_the_execution_goes_on() {
    let options = Options {
        synchronous_max: Duration::from_millis(20),
        ..Options::default()
    };
    let home = Home::with(options).await;
    let name = ("x-amz-durable-execution-name", "slow");
    let reply = home
        .play(&[name], json!([{"wait": 1}, {"return": 1}]))
        .await;
    let message = reply.refused(409, "ConflictException");
    let arn = message.split(' ').find(|word| word.starts_with("arn:"));
    home.until(arn.unwrap(), "SUCCEEDED").await;
}

#[tokio::test]
async fn chained_invokes_reach_durable_and_ordinary_functions() {
    let home = Home::new().await;
    let child = json!([{"step": 1}, {"return": "child"}]);
    let arn = home
        .start(json!([
            {"payload": child, "invoke": "play:$LATEST"},
            {"payload": {"return": 2}, "invoke": "plain"},
            {"payload": 1, "invoke": "play"},
            {"payload": 1, "invoke": "nobody"},
            {"return": "all"},
        ]))
        .await;
    home.until(&arn, "SUCCEEDED").await;
    let events = home.events(&arn).await;
    let ended: Vec<(&str, &str)> = events
        .iter()
        .filter_map(|event| {
            let kind = event["EventType"].as_str()?;
            let result = &event["ChainedInvokeSucceededDetails"]["Result"]["Payload"];
            let error = &event["ChainedInvokeFailedDetails"]["Error"]["Payload"]["ErrorType"];
            let ended = kind == "ChainedInvokeSucceeded" || kind == "ChainedInvokeFailed";
            ended.then_some((kind, result.as_str().or(error.as_str())?))
        })
        .collect();
    assert_eq!(
        ended,
        [
            ("ChainedInvokeSucceeded", "\"child\""),
            ("ChainedInvokeSucceeded", "2"),
            ("ChainedInvokeFailed", "InvalidParameterValueException"),
            ("ChainedInvokeFailed", "ResourceNotFoundException"),
        ]
    );
}

#[tokio::test]
async fn a_caller_who_disconnects_changes_nothing() {
    let home = Home::new().await;
    let path = "/2015-03-31/functions/play:$LATEST/invocations";
    for _ in 0..20 {
        let invoking = home.post(path, json!([{"wait": 1}, {"return": 1}]));
        // Some go away before the start is stored, some after.
        let _ = tokio::time::timeout(Duration::from_micros(700), invoking).await;
    }
    let path = "/2025-12-01/functions/play/durable-executions";
    home.eventually(async || {
        let running = home.get(&format!("{path}?Statuses=RUNNING")).await.ok(200);
        (running["DurableExecutions"] == json!([])).then_some(())
    })
    .await;
}

/// How often ordinary functions were called.
fn calls(home: &Home) -> usize {
    home.scripts.calls.lock().unwrap().len()
}

async fn called(home: &Home, times: usize) {
    home.eventually(async || (calls(home) >= times).then_some(()))
        .await;
}

/// What is kept in the first place for a call that nobody waits for.
fn kept(home: &Home) -> Value {
    let kept = home.engine.setting("event/0").unwrap().unwrap_or_default();
    serde_json::from_slice(&kept).unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_was_accepted_is_made_again_after_a_crash() {
    let home = Home::new().await;
    let tenant = ("x-amz-tenant-id", "blue");
    home.configure_tenants().await;
    let hang = r#"{"hang": 1}"#.to_owned();
    let accepted = home.invoke("plain-for", &[EVENT, tenant], hang).await;
    accepted.ok(202);
    called(&home, 1).await;
    let store = Arc::new(home.store.crash());
    home.engine.abandon();
    let home = Home::on(store, Options::default()).await;
    called(&home, 1).await;
    let call = home.scripts.calls.lock().unwrap()[0].clone();
    assert_eq!(call["tenant"], "blue");
    assert_eq!(kept(&home)["input"], r#"{"hang": 1}"#);
}

#[tokio::test]
async fn a_call_that_was_made_is_not_made_again() {
    let home = Home::new().await;
    home.invoke("plain", &[EVENT], "{}".into()).await.ok(202);
    home.eventually(async || (calls(&home) == 1 && kept(&home).is_null()).then_some(()))
        .await;
    let store = Arc::new(home.store.crash());
    home.engine.abandon();
    let home = Home::on(store, Options::default()).await;
    // A second one takes the place of the first.
    home.invoke("plain", &[EVENT], "{}".into()).await.ok(202);
    home.eventually(async || (calls(&home) == 1 && kept(&home).is_null()).then_some(()))
        .await;
}

#[tokio::test]
async fn a_function_that_fails_is_called_twice_more_also_across_a_crash() {
    let options = |pause| Options {
        event_retries: vec![Duration::ZERO, pause],
        ..Options::default()
    };
    let home = Home::with(options(Duration::from_secs(3_600))).await;
    let raise = r#"{"raise": "bad"}"#.to_owned();
    home.invoke("plain", &[EVENT], raise).await.ok(202);
    home.eventually(async || (kept(&home)["failures"] == 2).then_some(()))
        .await;
    assert_eq!(calls(&home), 2);
    let due = kept(&home)["due_ms"].as_u64().unwrap();
    assert!(due >= home.engine.now().as_millis() + 3_500_000);
    // A crash; and an hour, which nobody wants to wait for here.
    let mut stored = kept(&home);
    stored["due_ms"] = 0.into();
    let changed = stored.to_string().into_bytes();
    home.engine.put_setting("event/0", changed).await.unwrap();
    let store = Arc::new(home.store.crash());
    home.engine.abandon();
    let home = Home::on(store, options(Duration::ZERO)).await;
    home.eventually(async || (calls(&home) == 1 && kept(&home).is_null()).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(calls(&home), 1);
}

#[tokio::test]
async fn one_function_takes_a_quarter_of_the_places_for_calls_that_nobody_waits_for() {
    let options = Options {
        background_max: 8,
        ..Options::default()
    };
    let home = Home::with(options).await;
    home.configure("other", json!({"Timeout": 2})).await;
    let hang = || r#"{"hang": 1}"#.to_owned();
    for function in ["plain", "other"] {
        for _ in 0..2 {
            home.invoke(function, &[EVENT], hang()).await.ok(202);
        }
        let reply = home.invoke(function, &[EVENT], hang()).await;
        reply.refused(429, "TooManyRequestsException");
    }
}
