//! What the Lambda home converts, over real HTTP: each test answers one request of the AWS client
//! on a port of its own. Whole executions are in `tests/lambda`.

use super::*;
use outlast_core::wire::{
    CallbackOptions, ChainedInvokeOptions, ContextOptions, OperationAction, OperationStatus,
    OperationType, StepOptions, WaitOptions,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const ARN: &str =
    "arn:aws:lambda:us-east-1:000000000000:function:order:$LATEST/durable-execution/n/id";

/// A client of `endpoint` that asks once.
fn api(variables: &[(&str, &str)]) -> Api {
    let api = Api::from_variables(&|name| {
        let credentials = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
        ];
        let mut all = variables.iter().chain(&credentials);
        all.find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    });
    let config = api.unwrap().client.config().to_builder();
    Api::new(Client::from_conf(
        config.retry_config(RetryConfig::disabled()).build(),
    ))
}

/// Makes one call and answers it. Returns its outcome, and the request as it came.
async fn exchange<T>(answer: &str, call: impl AsyncFnOnce(&Api) -> T) -> (T, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // The general endpoint leads nowhere: the service's own must win.
    let api = api(&[
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_ENDPOINT_URL_LAMBDA", &endpoint),
    ]);
    let service = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_complete(&request) {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        String::from_utf8(request).unwrap()
    };
    tokio::join!(call(&api), service)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn checkpoint(
    answer: &str,
    request: CheckpointRequest,
) -> (Converted<CheckpointResponse>, String) {
    exchange(answer, async move |api| api.checkpoint(ARN, request).await).await
}

fn empty_request() -> CheckpointRequest {
    CheckpointRequest {
        checkpoint_token: "dG9rZW4x".to_owned(),
        updates: Vec::new(),
        client_token: None,
    }
}

/// The same value with its timestamps as HTTP bodies carry them: in seconds.
fn in_seconds(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(in_seconds).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| match value.as_u64() {
                Some(ms) if name.ends_with("Timestamp") => (name, json!(ms as f64 / 1_000.0)),
                _ => (name, in_seconds(value)),
            })
            .collect(),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

fn error(n: u32) -> Arc<ErrorObject> {
    Arc::new(ErrorObject {
        error_type: Some(format!("Type{n}")),
        error_message: Some("no \"money\" – sorry".to_owned()),
        error_data: Some("{}".to_owned()),
        stack_trace: Some(vec!["here".to_owned(), "there".to_owned()]),
    })
}

fn full_update(n: u32, operation_type: OperationType, action: OperationAction) -> OperationUpdate {
    let mut update =
        OperationUpdate::new(format!("id-{n}").as_str().into(), operation_type, action);
    update.parent_id = Some("parent".into());
    update.name = Some("a name".into());
    update.sub_type = Some("Label".into());
    update
}

fn updates() -> Vec<OperationUpdate> {
    use {OperationAction as A, OperationType as T};
    let mut context = full_update(1, T::Context, A::Succeed);
    context.payload = Some("{\"größe\":1}".into());
    context.context_options = Some(ContextOptions {
        replay_children: true,
    });
    let mut step = full_update(2, T::Step, A::Retry);
    step.error = Some(error(2));
    step.step_options = Some(StepOptions {
        next_attempt_delay_seconds: Some(31_622_400),
    });
    let mut wait = full_update(3, T::Wait, A::Start);
    wait.wait_options = Some(WaitOptions {
        wait_seconds: Some(1),
    });
    let mut callback = full_update(4, T::Callback, A::Start);
    callback.callback_options = Some(CallbackOptions {
        timeout_seconds: Some(99_999_999),
        heartbeat_timeout_seconds: Some(2),
    });
    let mut invoke = full_update(5, T::ChainedInvoke, A::Start);
    invoke.chained_invoke_options = Some(ChainedInvokeOptions {
        function_name: "other:$LATEST".to_owned(),
        tenant_id: Some("tenant".to_owned()),
        x_amzn_trace_id: Some("Root=1".to_owned()),
    });
    let cancel = full_update(6, T::Wait, A::Cancel);
    let mut fail = full_update(7, T::Execution, A::Fail);
    fail.error = Some(Arc::default());
    let bare = OperationUpdate::new("id-8".into(), T::Step, A::Start);
    vec![context, step, wait, callback, invoke, cancel, fail, bare]
}

#[tokio::test]
async fn updates_reach_the_service_as_they_are() {
    let request = CheckpointRequest {
        updates: updates(),
        client_token: Some("mine".to_owned()),
        ..empty_request()
    };
    let (answer, asked) = checkpoint(&http("200 OK", "", "{}"), request.clone()).await;
    answer.unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    let line = head.lines().next().unwrap();
    let encoded = ARN
        .replace(':', "%3A")
        .replace('/', "%2F")
        .replace('$', "%24");
    assert_eq!(
        line,
        format!("POST /2025-12-01/durable-executions/{encoded}/checkpoint HTTP/1.1")
    );
    let read: CheckpointRequest = serde_json::from_str(body).unwrap();
    assert_eq!(read, request);
}

#[tokio::test]
async fn an_empty_request_still_says_that_it_has_no_updates_and_gets_a_client_token() {
    let (answer, asked) = checkpoint(&http("200 OK", "", "{}"), empty_request()).await;
    assert_eq!(answer, Ok(CheckpointResponse::default()));
    let (_, body) = asked.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let token = body["ClientToken"].as_str().unwrap();
    assert!((1..=64).contains(&token.len()), "{token}");
    assert_eq!(
        body,
        json!({"CheckpointToken": "dG9rZW4x", "Updates": [], "ClientToken": token})
    );
}

fn operations() -> Vec<Operation> {
    use {OperationStatus as S, OperationType as T};
    let at = Timestamp::from_millis;
    let start = at(1_767_225_600_123);
    let full = |n: u32, operation_type, status| {
        let mut operation = Operation::new(
            format!("id-{n}").as_str().into(),
            operation_type,
            status,
            start,
        );
        operation.parent_id = Some("parent".into());
        operation.name = Some("a name".into());
        operation.sub_type = Some("Label".into());
        operation
    };
    let mut execution = full(1, T::Execution, S::Started);
    execution.execution_details = Some(ExecutionDetails {
        input_payload: Some("{\"größe\":1}".into()),
    });
    let mut context = full(2, T::Context, S::Failed);
    context.end_timestamp = Some(at(1_767_225_600_999));
    context.context_details = Some(ContextDetails {
        result: Some("r".into()),
        error: Some(error(2)),
        replay_children: true,
    });
    let mut step = full(3, T::Step, S::Pending);
    step.step_details = Some(StepDetails {
        attempt: 3,
        next_attempt_timestamp: Some(at(1_767_225_601_001)),
        result: Some("state".into()),
        error: Some(error(3)),
        interruptions: 0,
    });
    let mut wait = full(4, T::Wait, S::Cancelled);
    wait.wait_details = Some(WaitDetails {
        scheduled_end_timestamp: Some(at(4_102_444_799_999)),
    });
    let mut callback = full(5, T::Callback, S::TimedOut);
    callback.callback_details = Some(CallbackDetails {
        callback_id: Some("abc".into()),
        result: Some("r".into()),
        error: Some(error(5)),
    });
    let mut invoke = full(6, T::ChainedInvoke, S::Stopped);
    invoke.chained_invoke_details = Some(ChainedInvokeDetails {
        result: Some("r".into()),
        error: Some(Arc::default()),
    });
    let bare = Operation::new("id-7".into(), T::Step, S::Ready, at(0));
    let done = Operation::new("id-8".into(), T::Step, S::Succeeded, start);
    vec![execution, context, step, wait, callback, invoke, bare, done]
}

#[tokio::test]
async fn operations_come_back_as_the_service_recorded_them_to_the_millisecond() {
    let expected = CheckpointResponse {
        checkpoint_token: Some("dG9rZW4y".to_owned()),
        new_execution_state: StatePage {
            operations: operations(),
            next_marker: Some("more".to_owned()),
        },
    };
    let body = in_seconds(serde_json::to_value(&expected).unwrap()).to_string();
    let (answer, _) = checkpoint(&http("200 OK", "", &body), empty_request()).await;
    assert_eq!(answer, Ok(expected));
}

#[tokio::test]
async fn a_page_of_state_is_asked_for_with_token_marker_and_the_largest_size() {
    let expected = StatePage {
        operations: operations(),
        next_marker: None,
    };
    let body = in_seconds(serde_json::to_value(&expected).unwrap()).to_string();
    let (page, asked) = exchange(&http("200 OK", "", &body), async |api| {
        api.state(ARN, "dG9r+/==", "a&b").await
    })
    .await;
    assert_eq!(page, Ok(expected));
    let line = asked.lines().next().unwrap();
    let (path, query) = line.split_once('?').unwrap();
    assert!(path.ends_with("%2Fid/state"), "{path}");
    let mut query: Vec<_> = query.split(' ').next().unwrap().split('&').collect();
    query.sort_unstable();
    assert_eq!(
        query,
        [
            "CheckpointToken=dG9r%2B%2F%3D%3D",
            "Marker=a%26b",
            "MaxItems=1000"
        ]
    );
}

#[tokio::test]
async fn refusals_keep_status_code_and_message() {
    let check = async |status: &str, headers: &str, body: &str, code: Option<&str>, text: &str| {
        let (answer, _) = checkpoint(&http(status, headers, body), empty_request()).await;
        let error = answer.unwrap_err();
        let number = status.split(' ').next().unwrap().parse().ok();
        assert_eq!(error.status, number, "{error}");
        assert_eq!(error.code.as_deref(), code, "{error}");
        assert!(error.message.contains(text), "{error}");
        error.is_retryable()
    };
    let named = async |status: &str, code: &str, member: &str, message: &str| {
        let headers = format!("x-amzn-ErrorType: {code}\r\n");
        let body = json!({"Type": "User", member: message}).to_string();
        check(status, &headers, &body, Some(code), message).await
    };
    let invalid = "InvalidParameterValueException";
    assert!(named("400 x", invalid, "message", "Invalid checkpoint token: old").await);
    assert!(!named("400 x", invalid, "message", "Invalid payload").await);
    assert!(!named("400 x", "ValidationException", "message", "too long").await);
    assert!(!named("403 x", "AccessDeniedException", "Message", "no").await);
    assert!(named("429 x", "TooManyRequestsException", "message", "slow down").await);
    assert!(named("500 x", "ServiceException", "Message", "oops").await);
    assert!(!named("502 x", "KMSDisabledException", "Message", "off").await);
    assert!(check("503 x", "", "<html>busy</html>", None, "").await);
    assert!(!check("413 x", "", "", None, "").await);
    assert!(check("200 OK", "", "{\"NewExec", None, "").await);
}

#[tokio::test]
async fn values_this_version_does_not_know_are_reported_as_they_were_sent() {
    let check = async |member: &str, value: Value, text: &str| {
        let mut operation = json!({
            "Id": "a1", "Type": "STEP", "Status": "STARTED", "StartTimestamp": 1.5,
            "StepDetails": {"Attempt": 0},
        });
        *operation.pointer_mut(member).unwrap() = value;
        let body = json!({"NewExecutionState": {"Operations": [operation]}}).to_string();
        let (answer, _) = checkpoint(&http("200 OK", "", &body), empty_request()).await;
        let error = answer.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("ProtocolError"));
        assert!(error.is_retryable(), "another build may read it");
        assert!(error.message.contains("operation a1"), "{error}");
        assert!(error.message.contains(text), "{error}");
    };
    check("/Status", json!("VAPORISED"), "status 'VAPORISED'").await;
    check("/Type", json!("DREAM"), "type 'DREAM'").await;
    check("/StartTimestamp", json!(-1.5), "before the Unix epoch").await;
    check("/StepDetails/Attempt", json!(-1), "attempt -1").await;
}

#[test]
fn timestamps_are_rounded_to_the_nearest_millisecond() {
    let check = |nanos, ms| {
        let at = DateTime::from_secs_and_nanos(7, nanos);
        assert_eq!(timestamp(at), Ok(Timestamp::from_millis(ms)), "{nanos}");
    };
    check(0, 7_000);
    check(499_999, 7_000);
    check(500_000, 7_001);
    check(122_999_906, 7_123);
    check(123_000_144, 7_123);
    check(999_499_999, 7_999);
    check(999_500_000, 8_000);
    assert!(timestamp(DateTime::from_secs(-1)).is_err());
    assert_eq!(
        timestamp(DateTime::from_secs(0)),
        Ok(Timestamp::from_millis(0))
    );
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_is_worth_another_invocation() {
    // The general endpoint is used when the service has none of its own; nobody listens there.
    let api = api(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]);
    let error = api.checkpoint(ARN, empty_request()).await.unwrap_err();
    assert_eq!((error.status, error.code.as_deref()), (None, None));
    assert!(error.is_retryable());
    assert!(!error.message.is_empty());
}

#[test]
fn missing_settings_are_named() {
    let check = |names: &[&str], expected: Option<&str>| {
        let result = Api::from_variables(&|name| names.contains(&name).then(|| "x".to_owned()));
        match expected {
            None => assert!(result.is_ok()),
            Some(name) => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(
                    error.message().contains(&format!("variable {name} ")),
                    "{error}"
                );
            }
        }
    };
    check(&[], Some("AWS_ACCESS_KEY_ID"));
    check(&["AWS_ACCESS_KEY_ID"], Some("AWS_SECRET_ACCESS_KEY"));
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    check(&keys, Some("AWS_REGION"));
    check(&[keys[0], keys[1], "AWS_DEFAULT_REGION"], None);
    check(&[keys[0], keys[1], "AWS_REGION"], None);
}

#[test]
fn an_environment_the_runtime_would_panic_over_is_refused() {
    let check = |missing: &str, memory: &str, text: Option<&str>| {
        let result = check_environment(&|name| {
            let memory_size = name == "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
            (name != missing).then(|| if memory_size { memory } else { "x" }.to_owned())
        });
        let message = result.err().map(|error| error.message().to_owned());
        match text {
            None => assert_eq!(message, None),
            Some(text) => assert!(message.unwrap().contains(text)),
        }
    };
    check("", "128", None);
    for name in [
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    ] {
        check(name, "128", Some(name));
    }
    check("", "plenty", Some("'plenty'"));
}

#[test]
fn only_durable_invocations_are_read() {
    let kind = |event: &str| read(event).unwrap_err().error_type.unwrap();
    for event in [
        "{}",
        "null",
        "[]",
        "[1]",
        "7",
        "\"text\"",
        r#"{"name":"x"}"#,
        r#"{"body":"{\"DurableExecutionArn\":1}"}"#,
    ] {
        assert_eq!(kind(event), "NotDurableError", "{event}");
    }
    assert_eq!(kind(r#"{"DurableExecutionArn":"arn"}"#), PROTOCOL_ERROR);
    let with = |status: &str| {
        json!({
            "DurableExecutionArn": "arn", "CheckpointToken": "t", "UpdatedOperationIds": ["a"],
            "InitialExecutionState": {"NextMarker": "", "Operations": [
                {"Id": "a", "Type": "STEP", "Status": status, "StartTimestamp": 1_767_225_600_123_u64},
            ]},
            "SomethingNew": {},
        })
        .to_string()
    };
    let input = read(&with("READY")).unwrap();
    let [operation] = &input.initial_execution_state.operations[..] else {
        panic!("{input:?}");
    };
    assert_eq!(operation.start_timestamp.as_millis(), 1_767_225_600_123);
    let error = read(&with("VAPORISED")).unwrap_err();
    assert_eq!(error.error_type.as_deref(), Some(PROTOCOL_ERROR));
    assert!(error.error_message.unwrap().contains("VAPORISED"));
}
