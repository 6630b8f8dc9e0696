//! The Lambda home as a whole: the program under test is this test binary, started once more as a
//! process of its own with the environment of a Lambda function. The real Lambda runtime and the
//! real AWS client in it talk to a service on a socket of this machine.

// Test code throughout, also outside of test functions.
#[cfg(test)]
#[expect(unreachable_pub, reason = "handlers are written as in a library")]
mod examples;
#[cfg(test)]
mod http;
#[cfg(test)]
mod program;
#[cfg(test)]
mod service;

use http::Request;
use outlast::core::wire::ExecutionStatus;
use program::{run, start};
use serde_json::{Value, json};
use service::{Fault, Script};

const PAID: &str = "\"paid, yes, tea packed, milk packed\"";

fn tea() -> Script {
    Script::of("order", json!(["tea", "milk"]))
}

/// Every invocation but the first has state to read before it can write.
fn one_operation_per_page() -> Script {
    Script {
        page_bytes: 1,
        ..tea()
    }
}

#[tokio::test]
async fn an_order_runs_to_its_end_over_several_invocations() {
    let run = run(tea()).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    insta::assert_snapshot!(run.transcript(), @r#"
    checkpoint START STEP charge, RETRY STEP charge
    response {"Status":"PENDING"}
    checkpoint START STEP charge, SUCCEED STEP charge
    checkpoint START WAIT -
    response {"Status":"PENDING"}
    checkpoint START CONTEXT approve, START CALLBACK approve-callback
    checkpoint START STEP approve-submitter, SUCCEED STEP approve-submitter
    response {"Status":"PENDING"}
    checkpoint SUCCEED CONTEXT approve
    checkpoint START CONTEXT ship, START CONTEXT map-item-0, START STEP pack, SUCCEED STEP pack, START CONTEXT map-item-1, START STEP pack, SUCCEED STEP pack
    checkpoint SUCCEED CONTEXT map-item-0, SUCCEED CONTEXT map-item-1
    checkpoint SUCCEED CONTEXT ship
    response {"Status":"SUCCEEDED","Result":"\"paid, yes, tea packed, milk packed\""}
    "#);
}

#[tokio::test]
async fn requests_look_as_the_service_expects_them() {
    let run = run(tea()).await;
    let first = run.checkpoints().next().unwrap();
    let (path, id) = first
        .path()
        .strip_suffix("/checkpoint")
        .and_then(|path| path.rsplit_once("%2F"))
        .unwrap();
    assert_eq!(
        path,
        "/2025-12-01/durable-executions/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Aorder%3A%24LATEST\
         %2Fdurable-execution%2Fmonday"
    );
    assert!(id.len() > 8, "{id}");
    assert_eq!(first.headers["content-type"], "application/json");
    assert_eq!(first.headers["x-amz-security-token"], "session");
    let signature = &first.headers["authorization"];
    assert!(
        signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
        "{signature}"
    );
    assert!(
        signature.contains("/us-east-1/lambda/aws4_request"),
        "{signature}"
    );
    let mut body = first.json();
    for token in ["CheckpointToken", "ClientToken"] {
        let token = body.as_object_mut().unwrap().remove(token).unwrap();
        assert!(!token.as_str().unwrap().is_empty());
    }
    let id = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    assert_eq!(
        body,
        json!({"Updates": [
            {"Id": id, "Type": "STEP", "SubType": "Step", "Name": "charge", "Action": "START"},
            {
                "Id": id, "Type": "STEP", "SubType": "Step", "Name": "charge", "Action": "RETRY",
                "Error": {"ErrorType": "Error", "ErrorMessage": "declined"},
                "StepOptions": {"NextAttemptDelaySeconds": 2},
            },
        ]})
    );
}

#[tokio::test]
async fn state_that_does_not_fit_one_page_is_read_page_by_page() {
    let run = run(one_operation_per_page()).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let reads: Vec<_> = run
        .requests
        .iter()
        .filter(|request| request.path().ends_with("/state"))
        .collect();
    assert!(reads.len() > 4, "{}", run.transcript());
    for read in reads {
        assert_eq!(read.method, "GET");
        assert_eq!(read.query("MaxItems").as_deref(), Some("1000"));
        assert!(
            read.query("Marker")
                .is_some_and(|marker| !marker.is_empty())
        );
        assert!(read.query("CheckpointToken").is_some());
    }
}

#[tokio::test]
async fn state_that_cannot_be_read_fails_the_invocation_and_the_next_one_goes_on() {
    let stale = "Invalid checkpoint token: superseded";
    let refused = Fault::Refuse(400, "InvalidParameterValueException", stale);
    let run = run(one_operation_per_page().fault(2, refused)).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let start: Vec<_> = run.requests.iter().take(4).map(Request::path).collect();
    assert!(start[2].ends_with("/state"), "{start:?}");
    assert!(start[3].ends_with("/error"), "{start:?}");
    assert_eq!(run.posted("error").len(), 1);
}

#[tokio::test]
async fn throttled_requests_and_lost_answers_are_repeated_under_the_same_client_token() {
    let throttled = Fault::Refuse(429, "TooManyRequestsException", "slow down");
    let script = tea().fault(1, throttled).fault(3, Fault::LoseAnswer);
    let run = run(script).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    assert_eq!(run.posted("error"), Vec::<Value>::new());
    let bodies: Vec<_> = run.checkpoints().map(|request| &request.body).collect();
    assert_eq!(bodies[0], bodies[1], "throttled");
    assert_eq!(bodies[2], bodies[3], "applied, and its answer lost");
    assert_ne!(bodies[0], bodies[2]);
}

#[tokio::test]
async fn throttling_that_lasts_fails_the_invocation_and_the_next_one_goes_on() {
    let throttled = Fault::Refuse(429, "TooManyRequestsException", "slow down");
    let script = (1..=3).fold(tea(), |script, request| script.fault(request, throttled));
    let run = run(script).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let [error] = &run.posted("error")[..] else {
        panic!("{}", run.transcript());
    };
    assert_eq!(error["errorType"], "TooManyRequestsException");
    let message = error["errorMessage"].as_str().unwrap();
    assert!(message.contains("slow down"), "{message}");
}

#[tokio::test]
async fn a_stale_token_fails_the_invocation_and_the_next_one_goes_on() {
    let stale = Fault::Refuse(
        400,
        "InvalidParameterValueException",
        "Invalid checkpoint token: superseded",
    );
    let run = run(tea().fault(2, stale)).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let [error] = &run.posted("error")[..] else {
        panic!("{}", run.transcript());
    };
    assert_eq!(error["errorType"], "InvalidParameterValueException");
}

#[tokio::test]
async fn a_request_that_is_refused_for_good_fails_the_execution() {
    let refused = Fault::Refuse(403, "AccessDeniedException", "not you");
    let run = run(tea().fault(1, refused).fault(2, refused)).await;
    assert_eq!(run.status, ExecutionStatus::Failed);
    let error = run.error.as_ref().unwrap();
    assert_eq!(error.error_type.as_deref(), Some("AccessDeniedException"));
    assert_eq!(run.posted("response").len(), 1);
    assert_eq!(run.posted("response")[0]["Status"], "FAILED");
}

#[tokio::test]
async fn a_status_this_version_does_not_know_fails_the_invocation_with_its_raw_value() {
    let garbled = Fault::Garble("\"PENDING\"", "\"VAPORISED\"");
    let run = run(tea().fault(1, garbled)).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let [error] = &run.posted("error")[..] else {
        panic!("{}", run.transcript());
    };
    assert_eq!(error["errorType"], "ProtocolError");
    let message = error["errorMessage"].as_str().unwrap();
    assert!(message.contains("'VAPORISED'"), "{message}");
}

#[tokio::test]
async fn an_event_that_is_no_durable_invocation_is_refused_and_the_next_is_served() {
    let events = [json!({"name": "x"}), json!([1]), json!(null)];
    let script = Script {
        events: events.into(),
        ..tea()
    };
    let run = run(script).await;
    assert_eq!(run.result.as_deref(), Some(PAID), "{:?}", run.error);
    let errors = run.posted("error");
    assert_eq!(errors.len(), 3);
    for error in errors {
        assert_eq!(error["errorType"], "NotDurableError");
        let message = error["errorMessage"].as_str().unwrap();
        assert!(message.contains("must be invoked as one"), "{message}");
    }
    let refusal = run
        .requests
        .iter()
        .find(|request| request.path().ends_with("/error"));
    let headers = &refusal.unwrap().headers;
    assert!(
        headers.contains_key("lambda-runtime-function-error-type"),
        "{headers:?}"
    );
}

#[tokio::test]
async fn a_panic_fails_the_execution_and_the_process_serves_on() {
    let run = run(Script::of("explode", json!(null))).await;
    assert_eq!(run.status, ExecutionStatus::Failed);
    let error = run.error.unwrap();
    assert_eq!(error.error_type.as_deref(), Some("panic"));
    assert_eq!(error.error_message.as_deref(), Some("boom"));
}

#[tokio::test]
async fn the_lambda_context_is_filled_and_signals_are_refused() {
    let run = run(Script::of("describe", json!(null))).await;
    let described: Value = serde_json::from_str(run.result.as_deref().unwrap()).unwrap();
    let client: Value = serde_json::from_str(described["client"].as_str().unwrap()).unwrap();
    assert_eq!(client["custom"]["colour"], "red");
    let mut described = described;
    described.as_object_mut().unwrap().remove("client");
    assert_eq!(
        described,
        json!({
            "request": "request-1",
            "arn": "arn:aws:lambda:us-east-1:000000000000:function:describe:$LATEST",
            "name": "describe",
            "version": "$LATEST",
            "memory": 256,
            "trace": "Root=1-5bef4de7",
            "signals": true,
        })
    );
}

#[tokio::test]
async fn an_environment_for_several_invocations_at_a_time_is_served() {
    let script = Script {
        variables: vec![("AWS_LAMBDA_MAX_CONCURRENCY", "3")],
        ..tea()
    };
    assert_eq!(run(script).await.result.as_deref(), Some(PAID));
}

#[tokio::test]
async fn a_program_that_cannot_be_served_says_why_and_ends() {
    let check = async |function: &str, variables: &[(&str, &str)], text: &str| {
        let ended = start(1, function, variables).wait_with_output();
        let ended = ended.await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success());
        assert!(said.contains(text), "{said}");
    };
    check("unknown", &[], "order, explode, describe").await;
    check("order", &[("AWS_ACCESS_KEY_ID", "")], "AWS_ACCESS_KEY_ID").await;
    check(
        "order",
        &[("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "lots")],
        "'lots'",
    )
    .await;
}
