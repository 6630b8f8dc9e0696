//! What tests with an engine and handlers of a few lines share: the engine at a time, its functions,
//! and how their executions are started and write.

use outlast_core::{
    Start, Tenancy,
    arn::{ExecutionId, Function},
    schedule::Share,
    time::Timestamp,
    wire::{CheckpointRequest, DurableConfig, OperationUpdate},
};
use outlast_engine::{
    Engine, Options, Parts, Registered, WeakEngine,
    clock::EngineClock,
    execution_id,
    invoker::{Call, Invoker},
    random::SystemRandom,
    store::Store,
};
use std::sync::Arc;

/// An engine on a store, at a time, without functions. It does not run yet.
pub(crate) async fn open(store: Arc<dyn Store>, now: u64) -> Engine {
    let parts = Parts {
        store,
        clock: Arc::new(EngineClock::starting_at(Timestamp::from_millis(now))),
        random: Arc::new(SystemRandom::new().unwrap()),
        options: Options::default(),
    };
    Engine::open(parts).await.unwrap()
}

/// Makes a durable function known.
pub(crate) fn register(engine: &Engine, name: &str, host: impl Invoker) {
    engine.register(Registered {
        function: function(name),
        config: Some(config()),
        tenancy: Tenancy::Any,
        timeout: None,
        share: Share::default(),
        invoker: Arc::new(host),
    });
}

/// What an execution of a function is started with, under a name of its own if it has one.
pub(crate) fn new(function_name: &str, name: Option<&str>, input: Option<&str>) -> Start {
    Start {
        function: function(function_name),
        name: name.map(Into::into),
        input: input.map(Into::into),
        config: config(),
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    }
}

/// Writes what the handler of a call wants; gives the engine it wrote to, and the execution.
pub(crate) async fn checkpoint(
    engine: &WeakEngine,
    call: &Call,
    updates: Vec<OperationUpdate>,
) -> (Engine, ExecutionId) {
    let engine = engine.upgrade().unwrap();
    let id = execution_id(&call.input.durable_execution_arn).unwrap();
    let request = CheckpointRequest {
        checkpoint_token: call.input.checkpoint_token.clone(),
        updates,
        client_token: None,
    };
    engine.checkpoint(id, request).await.unwrap();
    (engine, id)
}

fn function(name: &str) -> Function {
    Function {
        partition: "aws".into(),
        region: "local".into(),
        account: "000000000000".into(),
        name: name.into(),
        version: "1".into(),
    }
}

fn config() -> DurableConfig {
    DurableConfig {
        execution_timeout: 31_622_400,
        retention_period_in_days: Some(14),
        kms_key_arn: None,
    }
}
