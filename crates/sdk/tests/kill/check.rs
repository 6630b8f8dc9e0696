//! The comparison: what the engine has in the end, and what the book says it must have.

use crate::{
    book::{Book, Noted},
    functions::expected,
};
use outlast::{
    Embedded, Error, ErrorKind, Execution,
    core::{event::EventType, wire::ExecutionStatus},
    engine::store::Query,
};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path, time::Duration};

/// Waits until everything has ended and gives what is wrong.
pub(crate) async fn compare(
    home: &Embedded,
    book: &mut Book,
    place: &Path,
    patience: Duration,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    // Children are started while their parents run: look again until nothing new is there.
    loop {
        let executions = list(home).await;
        let before = seen.len();
        for execution in executions {
            if !seen.insert(execution.arn().to_owned()) {
                continue;
            }
            let ended = execution.result::<Value>();
            if let Ok(end) = tokio::time::timeout(patience, ended).await {
                check_history(&execution, &mut problems).await;
                book.read(place);
                check_end(&execution, end, book, &mut problems).await;
            } else {
                let why = execution.why().await.unwrap();
                problems.push(format!("{} has not ended: {why}", execution.arn()));
            }
        }
        if seen.len() == before {
            break;
        }
    }
    book.read(place);
    check_starts(home, book, &seen, &mut problems).await;
    for ((parent, index), children) in &book.children {
        if children.len() != 1 {
            problems.push(format!("{parent} has children {children:?} at {index}"));
        }
    }
    for (id, why) in home.health().quarantined {
        problems.push(format!("{id} is quarantined: {why}"));
    }
    problems.append(&mut book.problems);
    problems
}

/// Every execution the engine has.
async fn list(home: &Embedded) -> Vec<Execution> {
    let mut executions = Vec::new();
    let mut query = Query {
        max: 1_000,
        ..Query::default()
    };
    loop {
        let page = home.engine().list(&query).unwrap();
        let Some((id, head)) = page.last() else {
            return executions;
        };
        query.after = Some((head.started, *id));
        for (id, _) in page {
            let described = home.engine().describe(id, false).await.unwrap();
            executions.push(home.execution(&described.durable_execution_arn).unwrap());
        }
    }
}

async fn check_starts(
    home: &Embedded,
    book: &Book,
    seen: &BTreeSet<String>,
    problems: &mut Vec<String>,
) {
    for ((function, input), arn) in &book.starts {
        let Some(arn) = arn else {
            problems.push(format!("the start {function} {input} was never answered"));
            continue;
        };
        let found = home.find(function, &input.to_string()).await.unwrap();
        if found.is_none_or(|found| found.arn() != arn) || !seen.contains(arn) {
            problems.push(format!("{arn} was acknowledged and is not there"));
        }
    }
}

async fn check_history(execution: &Execution, problems: &mut Vec<String>) {
    let events = execution.history().await.unwrap();
    let ids: Vec<u64> = events.iter().map(|event| event.event_id).collect();
    if ids != (1..=events.len() as u64).collect::<Vec<_>>() {
        problems.push(format!("{} has events {ids:?}", execution.arn()));
    }
    let is_end = |event_type| {
        matches!(
            event_type,
            EventType::ExecutionSucceeded
                | EventType::ExecutionFailed
                | EventType::ExecutionTimedOut
                | EventType::ExecutionStopped
        )
    };
    let ends = events.iter().filter(|event| is_end(event.event_type));
    let ends = ends.count();
    if ends != 1 {
        problems.push(format!("{} ended {ends} times", execution.arn()));
    }
}

async fn check_end(
    execution: &Execution,
    end: Result<Value, Error>,
    book: &Book,
    problems: &mut Vec<String>,
) {
    let arn = execution.arn();
    let unknown = Noted::default();
    let noted = book.executions.get(arn).unwrap_or(&unknown);
    let text = match &end {
        Ok(value) => value.to_string(),
        Err(error) if error.kind() == ErrorKind::Execution => error.message().to_owned(),
        Err(error) => return problems.push(format!("{arn} has no end: {error}")),
    };
    if noted.ended.as_ref().is_some_and(|noted| *noted != text) {
        let noted = &noted.ended;
        problems.push(format!("{arn} ended as {noted:?} and is now {text}"));
    }
    // A start that was never acknowledged belongs to a parent.
    let Some((function, input)) = &noted.started else {
        if end.is_err() {
            problems.push(format!("{arn} failed: {text}"));
        }
        return;
    };
    let right = match (&**function, &end) {
        ("forever", Err(_)) => {
            let status = execution.status().await.unwrap();
            status == ExecutionStatus::Stopped && first_to(noted, &text)
        }
        ("approve", Ok(Value::String(answer))) => only(noted, answer),
        ("listen", Ok(Value::Array(signals))) => in_order(noted, signals),
        ("cautious", Ok(Value::Bool(interrupted))) => {
            let runs = noted.ran.iter().filter(|((step, _), _)| step == "single");
            let runs: u32 = runs.map(|(_, runs)| *runs).sum();
            runs == 1 || *interrupted && runs == 0
        }
        (function, Ok(_)) => expected(function, *input).is_some_and(|right| right == text),
        (_, Err(_)) => false,
    };
    if !right {
        let sent = &noted.sent;
        problems.push(format!(
            "{function} {input} ({arn}) came to {text}; sent: {sent:?}"
        ));
    }
}

/// Whether `value` was sent, and nothing was acknowledged before it.
fn first_to(noted: &Noted, value: &str) -> bool {
    let before = noted.sent.iter().take_while(|sent| sent.value != value);
    noted.sent.iter().any(|sent| sent.value == value) && before.clone().all(|s| !s.acknowledged)
}

/// Whether `value` was sent, and nothing else was acknowledged.
fn only(noted: &Noted, value: &str) -> bool {
    let known = noted.sent.iter().any(|sent| sent.value == value);
    let mut acknowledged = noted.sent.iter().filter(|sent| sent.acknowledged);
    known && acknowledged.all(|sent| sent.value == value)
}

/// Whether the values are the first two that arrived: in the order of sending, and without leaving
/// out one that was acknowledged.
fn in_order(noted: &Noted, values: &[Value]) -> bool {
    let mut values = values.iter();
    let mut next = values.next();
    for sent in &noted.sent {
        match next {
            Some(value) if *value == *sent.value => next = values.next(),
            Some(_) if sent.acknowledged => return false,
            _ => {}
        }
    }
    next.is_none()
}
