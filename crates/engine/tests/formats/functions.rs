//! The functions whose executions are in the folders, in a few lines each, and what can be seen of
//! an execution.
//!
//! Old folders go on with these functions, so what one does is never changed.

use crate::stand;
use outlast_core::{
    Outcome,
    arn::ExecutionId,
    delivery::Arrival,
    event::Details,
    id::OperationId,
    wire::{
        ChainedInvokeOptions, ErrorObject, InvocationOutput, OperationAction, OperationType,
        OperationUpdate, WaitOptions,
    },
};
use outlast_engine::{
    End, Engine, HistoryPart, WeakEngine,
    invoker::{BoxFuture, Call, Invoker},
    store::{Query, Store},
};
use std::{fmt::Write as _, sync::Arc};

/// When the folders were written, whenever that was.
pub(crate) const MADE_AT: u64 = 1_794_700_800_000;
/// Steps of the long one: enough for a snapshot, which comes after a thousand records, and as many
/// as go into one request.
const STEPS: usize = 499;
const NAMES: [&str; 6] = ["sleeper", "caller", "parent", "long", "closed", "failed"];

struct Host(WeakEngine);

/// An engine on a store that knows the functions, at a time. It does not run yet.
pub(crate) async fn boot(store: Arc<dyn Store>, now: u64) -> Engine {
    let engine = stand::open(store, now).await;
    for name in NAMES {
        stand::register(&engine, name, Host(engine.downgrade()));
    }
    engine
}

pub(crate) async fn start(engine: &Engine, function_name: &str, name: &str) -> ExecutionId {
    let start = stand::new(function_name, Some(name), Some("{\"for\":\"a test\"}"));
    engine.start(start).await.unwrap().execution
}

impl Invoker for Host {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let name = call.function.name.clone();
            let operations = &call.input.initial_execution_state.operations;
            // The first is the execution itself.
            let begun = operations.get(1..).unwrap_or_default();
            if begun.is_empty() {
                stand::checkpoint(&self.0, &call, updates(&name)).await;
            }
            Outcome::Output(match &*name {
                "closed" => InvocationOutput::succeeded(Some("\"a result\"".into())),
                "failed" => InvocationOutput::failed(Some(ErrorObject::new("Odd", "it is odd"))),
                _ if begun.iter().any(|it| !it.status.is_terminal()) || begun.is_empty() => {
                    InvocationOutput::pending()
                }
                "caller" | "parent" => {
                    InvocationOutput::succeeded(begun.last().and_then(|it| it.result().cloned()))
                }
                _ => InvocationOutput::succeeded(Some("\"slept\"".into())),
            })
        })
    }
}

/// What a function asks for when it is first called.
fn updates(function: &str) -> Vec<OperationUpdate> {
    let update = |id: usize, kind, action| {
        OperationUpdate::new(OperationId::from(id.to_string().as_str()), kind, action)
    };
    let step = |id: usize, action| {
        let mut step = update(id, OperationType::Step, action);
        if matches!(action, OperationAction::Succeed) {
            step.payload = Some(id.to_string().into());
        }
        step
    };
    let wait = |id: usize| {
        let mut wait = update(id, OperationType::Wait, OperationAction::Start);
        wait.wait_options = Some(WaitOptions {
            wait_seconds: Some(3_600),
        });
        wait
    };
    match function {
        "caller" => vec![update(1, OperationType::Callback, OperationAction::Start)],
        "parent" => {
            let mut invoke = update(1, OperationType::ChainedInvoke, OperationAction::Start);
            invoke.chained_invoke_options = Some(ChainedInvokeOptions {
                function_name: "sleeper".to_owned(),
                ..ChainedInvokeOptions::default()
            });
            vec![invoke]
        }
        "long" => {
            let started = (1..=STEPS).map(|id| step(id, OperationAction::Start));
            let done = (1..=STEPS).map(|id| step(id, OperationAction::Succeed));
            started.chain(done).chain([wait(STEPS + 1)]).collect()
        }
        "closed" => vec![
            step(1, OperationAction::Start),
            step(1, OperationAction::Succeed),
        ],
        "failed" => vec![
            step(1, OperationAction::Start),
            step(1, OperationAction::Fail),
        ],
        _ => vec![wait(1)],
    }
}

fn find(engine: &Engine, name: &str) -> ExecutionId {
    let function = if name == "stopped" { "sleeper" } else { name };
    engine.find(function, name).unwrap().unwrap()
}

/// How the execution with this name ends.
pub(crate) async fn end(engine: &Engine, name: &str) -> End {
    engine.end(find(engine, name)).await.unwrap()
}

/// Answers the callback of an execution.
pub(crate) async fn answer(engine: &Engine, name: &str, result: &str) {
    let page = engine.history(find(engine, name), HistoryPart::default());
    let events = page.await.unwrap().events;
    let callback_id: Arc<str> = events
        .iter()
        .find_map(|event| {
            if let Details::CallbackStarted { callback_id, .. } = &event.details {
                Some(callback_id.clone())
            } else {
                None
            }
        })
        .unwrap();
    let arrival = Arrival::CallbackSucceeded {
        callback_id: callback_id.clone(),
        result: Some(result.into()),
    };
    engine.callback(&callback_id, arrival).await.unwrap();
}

/// What can be seen of all executions: status, records, and the types of all events in order.
pub(crate) async fn histories(engine: &Engine) -> String {
    let all = Query {
        max: 100,
        ..Query::default()
    };
    let mut lines = Vec::new();
    for (id, head) in engine.list(&all).unwrap() {
        // The name of a child is drawn at random.
        let name = if NAMES.contains(&&*head.name) || &*head.name == "stopped" {
            &head.name
        } else {
            "child"
        };
        let mut line = format!(
            "{name}: {} {} {:?}",
            head.function, head.status, head.version
        );
        let mut last = (String::new(), 0);
        for event in events(engine, id).await {
            if event == last.0 {
                last.1 += 1;
            } else {
                write_events(&mut line, &last);
                last = (event, 1);
            }
        }
        write_events(&mut line, &last);
        lines.push(line + "\n");
    }
    lines.sort();
    lines.concat()
}

fn write_events(line: &mut String, (event, count): &(String, usize)) {
    match count {
        0 => {}
        1 => write!(line, ", {event}").unwrap(),
        _ => write!(line, ", {count} {event}").unwrap(),
    }
}

async fn events(engine: &Engine, id: ExecutionId) -> Vec<String> {
    let mut types = Vec::new();
    let mut marker = None;
    loop {
        let part = HistoryPart {
            marker,
            ..HistoryPart::default()
        };
        let page = engine.history(id, part).await.unwrap();
        types.extend(page.events.iter().map(|it| format!("{:?}", it.event_type)));
        match page.next_marker {
            Some(next) => marker = Some(next),
            None => return types,
        }
    }
}
