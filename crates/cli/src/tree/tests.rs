//! Trees of operations, from the events of a history.

use super::*;

fn event(event_type: &str, at: u64, id: &str, parent: Option<&str>, details: Value) -> Value {
    let mut event = json!({
        "EventType": event_type,
        "EventTimestamp": at,
        "Id": id,
        "Name": format!("n-{id}"),
    });
    event[format!("{event_type}Details")] = details;
    if let Some(parent) = parent {
        event["ParentId"] = json!(parent);
    }
    event
}

fn life() -> Vec<Value> {
    vec![
        event("ExecutionStarted", 0, "e", None, json!({})),
        event("StepStarted", 1, "a", None, json!({})),
        event(
            "StepFailed",
            2,
            "a",
            None,
            json!({"Error": {"Payload": {"ErrorType": "T", "ErrorMessage": "m"}}, "RetryDetails": {"CurrentAttempt": 1, "NextAttemptDelaySeconds": 5}}),
        ),
        event("StepStarted", 7, "a", None, json!({})),
        event(
            "StepSucceeded",
            8,
            "a",
            None,
            json!({"RetryDetails": {"CurrentAttempt": 2}}),
        ),
        event("ContextStarted", 8, "m", None, json!({})),
        event("ContextStarted", 8, "m-0", Some("m"), json!({})),
        event(
            "WaitStarted",
            9,
            "w",
            Some("m-0"),
            json!({"Duration": 60, "ScheduledEndTimestamp": 69}),
        ),
        event("ContextStarted", 9, "m-1", Some("m"), json!({})),
        event(
            "CallbackStarted",
            10,
            "c",
            Some("m-1"),
            json!({"CallbackId": "id-of-c", "Timeout": 20}),
        ),
        event(
            "ChainedInvokeStarted",
            11,
            "i",
            None,
            json!({"FunctionName": "mail"}),
        ),
        event(
            "ChainedInvokeFailed",
            12,
            "i",
            None,
            json!({"Error": {"Payload": {"ErrorMessage": "no\nway"}}}),
        ),
        event("SomethingNew", 12, "x", None, json!({})),
        json!({"EventType": "InvocationCompleted", "EventTimestamp": 13}),
    ]
}

#[test]
fn operations_are_drawn_inside_each_other() {
    let tree = Tree::of(&life());
    assert_eq!(tree.invocations, 1);
    let now = Timestamp::from_millis(30_000);
    insta::assert_snapshot!(tree.draw(Paint::default(), now), @"
    ├─ n-a        STEP            SUCCEEDED  2 attempts  7.0 s
    ├─ n-m        CONTEXT         STARTED                22.0 s
    │  ├─ n-m-0   CONTEXT         STARTED                22.0 s
    │  │  └─ n-w  WAIT            STARTED                21.0 s  due 1970-01-01T00:01:09Z
    │  └─ n-m-1   CONTEXT         STARTED                21.0 s
    │     └─ n-c  CALLBACK        STARTED                20.0 s  due 1970-01-01T00:00:30Z  id-of-c
    └─ n-i        CHAINED_INVOKE  FAILED                 1.0 s   mail  no way
    ");
}

#[test]
fn the_same_tree_is_nested_json() {
    let json = Tree::of(&life()).json();
    assert_eq!(json[0]["Attempts"], 2);
    assert_eq!(json[0]["EndTimestamp"], 8.0);
    assert_eq!(json[1]["Operations"][0]["Operations"][0]["Id"], "w");
    assert_eq!(
        json[1]["Operations"][1]["Operations"][0]["CallbackId"],
        "id-of-c"
    );
    assert_eq!(json[2]["Error"]["ErrorMessage"], "no\nway");
    assert_eq!(json.as_array().unwrap().len(), 3);
}

#[test]
fn the_sentence_names_what_happens_first() {
    let tree = Tree::of(&life());
    assert_eq!(
        tree.why(),
        "It waits for the callback \"n-c\" since 1970-01-01T00:00:10Z (it times out at \
         1970-01-01T00:00:30Z), and for one other operation."
    );
    let retrying = Tree::of(&life()[..3]);
    assert_eq!(
        retrying.why(),
        "It waits for the next attempt of step \"n-a\" after 1 failed or unfinished (due at \
         1970-01-01T00:00:07Z)."
    );
    assert!(Tree::of(&[]).why().contains("running its handler"));
}

#[test]
fn a_parent_that_is_not_there_yet_does_no_harm() {
    let events = [
        event("StepStarted", 1, "a", Some("a"), json!({})),
        event("StepStarted", 1, "b", Some("z"), json!({})),
    ];
    let drawn = Tree::of(&events).draw(Paint::default(), Timestamp::default());
    assert_eq!(drawn.lines().count(), 2, "{drawn}");
}
