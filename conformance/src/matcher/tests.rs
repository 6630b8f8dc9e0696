//! A matcher that cannot fail proves nothing: each rule is met once and broken once.

use super::*;
use serde_json::json;

/// What is wrong with a value, judged alone.
fn problems(expected: Value, actual: Value) -> Vec<String> {
    let mut matcher = Matcher::new(bindings(&json!({ "KNOWN": "known" })));
    matcher.value(&expected, &actual, "it");
    matcher.into_problems()
}

fn bindings(variables: &Value) -> Bindings {
    Bindings::of_variables(Some(variables), || 'x')
}

fn check(expected: Value, actual: Value, matches: bool) {
    let problems = problems(expected.clone(), actual.clone());
    assert_eq!(
        problems.is_empty(),
        matches,
        "{expected} against {actual}: {problems:?}"
    );
}

#[test]
fn literals_must_be_equal_in_type_and_value() {
    check(json!(2), json!(2), true);
    check(json!(2), json!(3), false);
    check(json!("1"), json!(1), false);
    check(json!(null), json!(null), true);
    check(json!(null), json!(""), false);
    check(json!([1, 2]), json!([1, 2]), true);
    check(json!([1, 2]), json!([2, 1]), false);
    check(json!([1, 2]), json!([1]), false);
    check(json!([1]), json!({ "0": 1 }), false);
}

#[test]
fn wildcards_accept_anything_that_is_there() {
    check(json!("*"), json!({ "a": 1 }), true);
    check(json!({}), json!("text"), true);
    check(json!({ "a": "*" }), json!({ "a": null }), true);
    check(json!({ "a": "*" }), json!({ "b": 1 }), false);
    check(json!({ "a": {} }), json!({ "b": 1 }), false);
}

#[test]
fn mappings_name_what_must_match_and_ignore_the_rest() {
    check(
        json!({ "a": { "b": 1 } }),
        json!({ "a": { "b": 1, "c": 2 }, "d": 3 }),
        true,
    );
    check(
        json!({ "a": { "b": 1 } }),
        json!({ "a": { "b": 2 } }),
        false,
    );
    check(json!({ "a": { "b": 1 } }), json!({ "a": "b" }), false);
}

#[test]
fn a_pattern_is_searched_for_in_the_value_as_text() {
    check(json!("${/^[0-5]$/}"), json!(5), true);
    check(json!("${/^[0-5]$/}"), json!(6), false);
    check(json!("${/wrapped/}"), json!("{\"wrapped\":1}"), true);
    check(json!("${/.*Transient$/}"), json!("a::Transient"), true);
    check(
        json!("${/.*Transient$/}"),
        json!("a::TransientError"),
        false,
    );
    check(json!("${/(/}"), json!("("), false);
}

#[test]
fn a_name_stands_for_the_first_value_it_meets() {
    check(
        json!(["${A}", "${A}", "${B}"]),
        json!(["1", "1", "2"]),
        true,
    );
    check(json!(["${A}", "${A}"]), json!(["1", "2"]), false);
    check(json!("${KNOWN}"), json!("known"), true);
    check(json!("${KNOWN}"), json!("other"), false);
    check(json!("\"${KNOWN}\""), json!("\"known\""), true);
    check(json!("\"${KNOWN}\""), json!("\"other\""), false);
    check(json!("${UNKNOWN}!"), json!("${UNKNOWN}!"), true);
}

#[test]
fn generated_variables_have_the_length_they_ask_for_and_the_rest_is_literal() {
    let bindings = bindings(&json!({ "A": "${GEN_STR:3}", "B": 7, "C": "${GEN_STR:three}" }));
    assert_eq!(bindings.get("A"), Some(&json!("xxx")));
    assert_eq!(bindings.get("B"), Some(&json!(7)));
    assert_eq!(bindings.get("C"), Some(&json!("${GEN_STR:three}")));
    let input = json!({ "whole": "${B}", "part": "<${A}${B}>", "list": ["${A}"], "other": true });
    let expected = json!({ "whole": 7, "part": "<xxx7>", "list": ["xxx"], "other": true });
    assert_eq!(bindings.substitute(&input), expected);
}

fn event(number: u64, kind: &str) -> Value {
    json!({ "EventId": number, "EventType": kind })
}

fn step(number: u64, kind: &str, id: &str) -> Value {
    json!({ "EventId": number, "EventType": kind, "Id": id })
}

fn history() -> Vec<Value> {
    vec![
        event(1, "ExecutionStarted"),
        step(2, "StepStarted", "a"),
        step(3, "StepSucceeded", "a"),
        event(4, "InvocationCompleted"),
        event(5, "ExecutionSucceeded"),
    ]
}

/// What is wrong with a history.
fn judge(expected: &[Value], actual: &[Value]) -> Vec<String> {
    let mut matcher = Matcher::new(Bindings::default());
    matcher.events(expected, actual);
    matcher.into_problems()
}

fn one_step() -> Vec<Value> {
    vec![
        step(2, "StepStarted", "${ID}"),
        step(3, "StepSucceeded", "${ID}"),
        event(4, "InvocationCompleted"),
    ]
}

#[test]
fn a_history_matches_by_number_with_start_and_end_left_out() {
    assert_eq!(judge(&one_step(), &history()), [""; 0]);
    let ends_with_execution = [
        step(2, "StepStarted", "a"),
        step(3, "*", "a"),
        event(5, "ExecutionSucceeded"),
    ];
    assert_eq!(judge(&ends_with_execution, &history()), [""; 0]);
}

#[test]
fn a_wrong_number_fails() {
    let shifted = [
        step(3, "StepStarted", "a"),
        step(4, "StepSucceeded", "a"),
        event(5, "InvocationCompleted"),
    ];
    assert_eq!(judge(&shifted, &history()).len(), 5);
    let mut gap = history();
    gap[4]["EventId"] = json!(6);
    assert_eq!(judge(&one_step(), &gap).len(), 2);
    assert_eq!(
        judge(&[json!({ "EventType": "StepStarted" })], &history()).len(),
        1
    );
}

#[test]
fn a_missing_event_fails() {
    let problems = judge(&one_step(), &history()[..3]);
    assert_eq!(
        problems,
        ["event 4 is missing, expected InvocationCompleted"]
    );
}

#[test]
fn an_id_that_changes_between_events_fails() {
    let mut other = history();
    other[2]["Id"] = json!("b");
    assert_eq!(
        judge(&one_step(), &other),
        ["event 3.Id: \"b\", but ID stands for \"a\""]
    );
}

#[test]
fn an_extra_event_in_the_middle_fails() {
    let mut extra = history();
    extra.insert(2, step(3, "StepStarted", "a"));
    for (index, event) in extra.iter_mut().enumerate() {
        event["EventId"] = json!(index + 1);
    }
    assert!(!judge(&one_step(), &extra).is_empty());
}

#[test]
fn an_extra_event_after_a_complete_list_fails() {
    let mut extra = history();
    extra.insert(4, event(5, "InvocationCompleted"));
    extra[5]["EventId"] = json!(6);
    let problems = judge(&one_step(), &extra);
    assert_eq!(
        problems,
        [
            "event 5 is not expected: InvocationCompleted",
            "event 6 is not expected: ExecutionSucceeded"
        ]
    );
}

#[test]
fn only_the_end_of_an_invocation_may_be_left_out_in_the_middle() {
    let without_step_end = [step(2, "StepStarted", "a"), event(4, "InvocationCompleted")];
    assert_eq!(
        judge(&without_step_end, &history()),
        ["event 3 is not expected: StepSucceeded"]
    );
}

#[test]
fn a_list_that_stops_in_the_middle_leaves_the_rest_open() {
    assert_eq!(
        judge(&[step(2, "StepStarted", "${ID}")], &history()),
        [""; 0]
    );
}

fn judge_result(expected: Value, status: &str, result: Option<&str>) -> usize {
    let mut matcher = Matcher::new(bindings(&json!({ "KNOWN": "known" })));
    matcher.result(&expected, status, result);
    matcher.into_problems().len()
}

#[test]
fn status_and_result_are_compared_as_json() {
    let greeting = || json!({ "ExecutionStatus": "SUCCEEDED", "Result": { "a": "${KNOWN}" } });
    assert_eq!(
        judge_result(greeting(), "SUCCEEDED", Some("{\"a\": \"known\"}")),
        0
    );
    assert_eq!(
        judge_result(greeting(), "SUCCEEDED", Some("{\"a\":\"known\",\"b\":1}")),
        1
    );
    assert_eq!(judge_result(greeting(), "FAILED", None), 1);
    assert_eq!(
        judge_result(json!({ "ExecutionStatus": "FAILED" }), "FAILED", None),
        0
    );
    assert_eq!(
        judge_result(
            json!({ "ExecutionStatus": "FAILED", "Result": 1 }),
            "FAILED",
            None
        ),
        0
    );
    let null = || json!({ "ExecutionStatus": "SUCCEEDED", "Result": null });
    assert_eq!(judge_result(null(), "SUCCEEDED", Some("null")), 0);
    assert_eq!(judge_result(null(), "SUCCEEDED", None), 0);
    assert_eq!(judge_result(null(), "SUCCEEDED", Some("1")), 1);
    assert_eq!(
        judge_result(json!({ "Result": "plain" }), "SUCCEEDED", Some("plain")),
        0
    );
}

fn judge_logs(expected: Value, messages: &[&str]) -> usize {
    let mut matcher = Matcher::new(bindings(&json!({ "KNOWN": "known" })));
    let messages: Vec<String> = messages.iter().map(|text| (*text).to_owned()).collect();
    matcher.logs(expected.as_array().unwrap(), &messages);
    matcher.into_problems().len()
}

#[test]
fn logs_are_counted_and_must_come_in_order() {
    let entry =
        |pattern: &str, count: u64| json!({ "match": { "message": pattern }, "count": count });
    let both = || {
        json!([
            entry("/first ${KNOWN}/", 1),
            entry("/second/", 2),
            entry("/\\[ERROR\\]/", 0)
        ])
    };
    assert_eq!(judge_logs(both(), &["first known", "second", "second"]), 0);
    assert_eq!(judge_logs(both(), &["first other", "second", "second"]), 1);
    assert_eq!(judge_logs(both(), &["first known", "second"]), 1);
    assert_eq!(judge_logs(both(), &["second", "first known", "second"]), 1);
    assert_eq!(
        judge_logs(both(), &["first known", "second", "second", "[ERROR]"]),
        1
    );
    assert_eq!(judge_logs(json!([entry("/(/", 0)]), &[]), 1);
    assert_eq!(
        judge_logs(json!([{ "match": { "message": "/a/" } }]), &["a"]),
        1
    );
}
