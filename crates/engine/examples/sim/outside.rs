//! People outside: they start, answer, signal, stop and look, and repeat themselves until they are
//! acknowledged.

use crate::{evaluate::value, world::World};
use outlast::core::{
    Start,
    arn::ExecutionId,
    delivery::Arrival,
    event::Event,
    id::OperationId,
    wire::{CheckpointRequest, ErrorObject},
};
use outlast_engine::{Engine, Error, HistoryPart};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// Start a run of the plan.
    Start(usize),
    /// Stop one.
    Stop(usize),
    /// Send a signal to one.
    Signal(usize, u64),
    /// Answer a callback.
    Callback(Answer),
    /// Show that somebody works on a callback.
    Heartbeat(Answer),
    /// A checkpoint request arrives once more, late.
    Echo(ExecutionId, Box<CheckpointRequest>),
    /// Look at an execution.
    Look(ExecutionId),
    /// Wait for the end of one.
    Await(ExecutionId),
}

/// The answer to a callback.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Whose callback.
    pub(crate) execution: ExecutionId,
    /// Its operation.
    pub(crate) operation: OperationId,
    /// What it is answered by.
    pub(crate) callback_id: Arc<str>,
    /// The node of the program.
    pub(crate) node: u64,
    /// Whether the answer is a failure.
    pub(crate) failure: bool,
}

/// Sends people on their errands, for as long as this boot lasts.
pub(crate) async fn work(world: Arc<World>, engine: Engine) {
    let mut launched = BTreeSet::new();
    loop {
        let waiting: Vec<(usize, u64, Errand)> = world
            .state()
            .errands
            .iter()
            .enumerate()
            .filter(|(number, (_, _, done))| !done && !launched.contains(number))
            .map(|(number, (at, errand, _))| (number, *at, errand.clone()))
            .collect();
        for (number, at, errand) in waiting {
            launched.insert(number);
            let (world, engine) = (world.clone(), engine.clone());
            drop(tokio::runtime::Handle::current().spawn(async move {
                let after = at.saturating_sub(world.true_time());
                tokio::time::sleep(Duration::from_millis(after)).await;
                while !run(&world, &engine, &errand).await {
                    let pause = 50 + world.below(500);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                if let Some((_, _, done)) = world.state().errands.get_mut(number) {
                    *done = true;
                }
            }));
        }
        world.errand.notified().await;
    }
}

/// Runs one errand. Whether it is done.
async fn run(world: &Arc<World>, engine: &Engine, errand: &Errand) -> bool {
    match errand {
        Errand::Start(index) => start(world, engine, *index).await,
        Errand::Stop(index) => stop(world, engine, *index).await,
        Errand::Signal(index, node) => signal(world, engine, *index, *node).await,
        Errand::Callback(answer) => {
            let callback_id = answer.callback_id.clone();
            let node = answer.node;
            let arrival = if answer.failure {
                let error = ErrorObject::new("E", format!("e{node}"));
                Arrival::CallbackFailed { callback_id, error }
            } else {
                let result = Some(value(node).to_string().into());
                Arrival::CallbackSucceeded {
                    callback_id,
                    result,
                }
            };
            callback(world, engine, answer, arrival).await
        }
        Errand::Heartbeat(answer) => {
            let callback_id = answer.callback_id.clone();
            let arrival = Arrival::CallbackHeartbeat { callback_id };
            callback(world, engine, answer, arrival).await
        }
        Errand::Echo(id, request) => {
            if engine.checkpoint(*id, (**request).clone()).await.is_ok() {
                world.count("echoes answered");
                world.acknowledge(*id, request);
            }
            true
        }
        Errand::Look(id) => look(world, engine, *id).await,
        Errand::Await(id) => wait(world, engine, *id).await,
    }
}

/// Whether a request is over that was answered with `error`: refused for good, and rightly so.
fn refused(world: &World, what: &str, error: &Error, rightly: bool) -> bool {
    match error {
        Error::Rejected(_) if rightly => true,
        Error::Rejected(rejection) => {
            world.violated(format!("{what} was refused: {rejection}"));
            true
        }
        Error::Quarantined { reason, .. } => {
            world.violated(format!("{what}: quarantined: {reason}"));
            true
        }
        // The disk or the engine could not; somebody tries again.
        Error::NotWritten(_) | Error::Unreadable(_) | Error::Stopped(_) => false,
        other => {
            world.violated(format!("{what} was answered with {other}"));
            true
        }
    }
}

async fn start(world: &Arc<World>, engine: &Engine, index: usize) -> bool {
    let Ok((function, config)) = engine.resolve(&format!("program-{index}")) else {
        return false;
    };
    let start = Start {
        function,
        name: Some(format!("run-{index}").into()),
        input: Some(index.to_string().into()),
        config,
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    };
    match engine.start(start).await {
        Ok(started) => {
            let id = started.execution;
            let (known, durable) = {
                let mut state = world.state();
                let durable = state.shadows.contains_key(&id);
                (*state.ids.entry(index).or_insert(id), durable)
            };
            if known != id {
                world.violated(format!("run-{index} was started twice"));
            }
            if !durable {
                world.violated(format!(
                    "the start of run-{index} was acknowledged too early"
                ));
            }
            if world.below(3) == 0 && !started.existed {
                world.add(world.below(20_000), Errand::Start(index));
            }
            world.add(world.below(40_000), Errand::Look(id));
            world.add(0, Errand::Await(id));
            true
        }
        Err(error) => refused(world, "a start", &error, false),
    }
}

async fn stop(world: &Arc<World>, engine: &Engine, index: usize) -> bool {
    let Some(id) = world.state().ids.get(&index).copied() else {
        return false;
    };
    match engine.stop(id, None).await {
        Ok(_) => {
            if !world.has_ended(id) {
                world.violated(format!(
                    "the stop of run-{index} was acknowledged too early"
                ));
            }
            true
        }
        Err(error) => refused(world, "a stop", &error, false),
    }
}

async fn signal(world: &Arc<World>, engine: &Engine, index: usize, node: u64) -> bool {
    let Some(id) = world.state().ids.get(&index).copied() else {
        return false;
    };
    let arrival = Arrival::Signal {
        name: format!("g{node}").into(),
        payload: Some(value(node).to_string().into()),
    };
    match engine.deliver(id, arrival).await {
        Ok(_) => true,
        Err(error) => refused(world, "a signal", &error, world.has_ended(id)),
    }
}

async fn callback(world: &Arc<World>, engine: &Engine, answer: &Answer, arrival: Arrival) -> bool {
    let beat = matches!(arrival, Arrival::CallbackHeartbeat { .. });
    let delivered = engine.callback(&answer.callback_id, arrival).await;
    let over = {
        let state = world.state();
        let shadow = state.shadows.get(&answer.execution);
        shadow.is_some_and(|shadow| shadow.is_over(&answer.operation))
    };
    match delivered {
        Ok(_) if over || beat => true,
        Ok(_) => {
            world.violated("the answer to a callback was acknowledged too early");
            true
        }
        Err(error) => refused(world, "a callback", &error, over),
    }
}

/// Waits for the end, sometimes without much patience.
async fn wait(world: &Arc<World>, engine: &Engine, id: ExecutionId) -> bool {
    let patience = if world.below(2) == 0 {
        Duration::from_millis(world.below(20_000))
    } else {
        Duration::MAX
    };
    let Ok(end) = tokio::time::timeout(patience, engine.end(id)).await else {
        return false;
    };
    match end {
        Ok(end) => {
            let state = world.state();
            let shadow = state.shadows.get(&id);
            let same = shadow.is_some_and(|shadow| {
                end.status == shadow.execution.status()
                    && end.result.as_ref() == shadow.execution.result()
                    && end.status.is_terminal()
            });
            drop(state);
            if !same {
                world.violated(format!("{} ended otherwise: {end:?}", world.name(id)));
            }
            true
        }
        Err(error) => refused(world, "a wait for the end", &error, false),
    }
}

/// Reads the whole history: gap-free, in order, and all that was durable before.
async fn look(world: &Arc<World>, engine: &Engine, id: ExecutionId) -> bool {
    let durable = |world: &World| {
        let state = world.state();
        state
            .shadows
            .get(&id)
            .map_or(0, |shadow| shadow.execution.events())
    };
    let before = durable(world);
    let mut events: Vec<Event> = Vec::new();
    let mut marker = None;
    loop {
        let part = HistoryPart {
            marker,
            max_items: Some(7),
            omit_data: true,
            ..HistoryPart::default()
        };
        match engine.history(id, part).await {
            Ok(page) => {
                events.extend(page.events);
                marker = page.next_marker;
            }
            Err(error) => return refused(world, "a look", &error, false),
        }
        if marker.is_none() {
            break;
        }
    }
    let name = world.name(id);
    let mut last = None;
    for (event, number) in events.iter().zip(1..) {
        if event.event_id != number || last.is_some_and(|last| event.event_timestamp < last) {
            world.violated(format!("{name}: event {} at {number}", event.event_id));
        }
        last = Some(event.event_timestamp);
    }
    let seen = events.len() as u64;
    if seen < before || seen > durable(world) {
        world.violated(format!("{name}: {seen} events seen, {before} were durable"));
    }
    true
}
