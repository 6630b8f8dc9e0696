//! A host of functions in a few lines: enough of a handler to sleep, to wait for a signal, and to
//! hang.

use crate::stand;
use outlast_core::{
    Outcome,
    arn::ExecutionId,
    wire::{
        InvocationOutput, OperationAction, OperationStatus, OperationType, OperationUpdate,
        WaitOptions, sub_type,
    },
};
use outlast_engine::{
    Engine, Started, WeakEngine, execution_id,
    invoker::{BoxFuture, Call, Invoker},
    store::{Store, memory::MemoryStore},
};
use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll, Waker},
};

/// What a function does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    /// Ends at once.
    Nothing,
    /// Sleeps, then ends.
    Sleep { seconds: u32 },
    /// Never answers.
    Never,
    /// Never answers its first call.
    Hang,
    /// Dies at its first call, and waits for news of its second.
    Watch,
    /// Waits for a signal, with so much idle mail before its own end.
    Listen { idle_mail: usize },
}

/// Which functions were called, in order.
pub(crate) type Calls = Arc<Mutex<Vec<Arc<str>>>>;

struct Host {
    engine: WeakEngine,
    deed: Deed,
    calls: Calls,
    /// The invocation of the first call.
    first: OnceLock<Arc<str>>,
}

/// An engine at a time, on a store, with these functions. It runs until the runtime ends.
pub(crate) async fn boot<S: Store>(
    store: &Arc<S>,
    origin: u64,
    functions: &[(&str, Deed)],
) -> (Engine, Calls) {
    let engine = stand::open(store.clone(), origin).await;
    let calls = Calls::default();
    for (name, deed) in functions {
        let host = Host {
            engine: engine.downgrade(),
            deed: *deed,
            calls: calls.clone(),
            first: OnceLock::new(),
        };
        stand::register(&engine, name, host);
    }
    let runner = engine.clone();
    drop(tokio::runtime::Handle::current().spawn(async move { runner.run().await }));
    (engine, calls)
}

/// Ends an engine as a crash does; gives what the next one finds.
pub(crate) fn crash(engine: &Engine, store: &MemoryStore) -> Arc<MemoryStore> {
    let found = Arc::new(store.crash());
    engine.abandon();
    found
}

pub(crate) async fn start(engine: &Engine, name: &str) -> ExecutionId {
    start_named(engine, name, None).await.execution
}

/// Starts an execution under a name of its own.
pub(crate) async fn start_named(engine: &Engine, name: &str, own: Option<&str>) -> Started {
    let start = stand::new(name, own, None);
    engine.start(start).await.unwrap()
}

impl Invoker for Host {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let first = call.input.initial_execution_state.operations.len() == 1;
            let name = call.function.name.clone();
            self.calls.lock().unwrap().push(name);
            let done = Outcome::Output(InvocationOutput::succeeded(None));
            match self.deed {
                Deed::Nothing => done,
                Deed::Never => std::future::pending().await,
                Deed::Hang if self.calls.lock().unwrap().len() == 1 => std::future::pending().await,
                Deed::Hang => done,
                Deed::Watch => match self.first.set(call.invocation_id.clone()) {
                    Ok(()) => Outcome::Lost,
                    Err(_) => self.watch(call, done).await,
                },
                Deed::Sleep { seconds } if first => self.sleep(call, seconds).await,
                Deed::Sleep { .. } => finish(&call, done),
                Deed::Listen { idle_mail } if first => self.listen(call, idle_mail).await,
                Deed::Listen { .. } => finish(&call, done),
            }
        })
    }
}

/// Ends if what it slept for has come; otherwise somebody called it for nothing.
fn finish(call: &Call, done: Outcome) -> Outcome {
    let operations = &call.input.initial_execution_state.operations;
    match operations.get(1).map(|operation| operation.status) {
        Some(OperationStatus::Succeeded) => done,
        _ => Outcome::Output(InvocationOutput::pending()),
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

impl Host {
    async fn checkpoint(&self, call: &Call, update: OperationUpdate) -> (Engine, ExecutionId) {
        stand::checkpoint(&self.engine, call, vec![update]).await
    }

    async fn sleep(&self, call: Call, seconds: u32) -> Outcome {
        let mut update =
            OperationUpdate::new("1".into(), OperationType::Wait, OperationAction::Start);
        update.wait_options = Some(WaitOptions {
            wait_seconds: Some(seconds),
        });
        self.checkpoint(&call, update).await;
        Outcome::Output(InvocationOutput::pending())
    }

    /// Waits for the news that a signal is there, behind an earlier invocation that does the same.
    async fn watch(&self, call: Call, done: Outcome) -> Outcome {
        let engine = self.engine.upgrade().unwrap();
        let id = execution_id(&call.input.durable_execution_arn).unwrap();
        let mut zombie = pin!(engine.changed(id, self.first.get().unwrap()));
        assert!(poll_once(zombie.as_mut()).is_pending());
        let signal = outlast_core::delivery::Arrival::Signal {
            name: "go".into(),
            payload: None,
        };
        let (delivered, ()) = tokio::join!(
            engine.deliver(id, signal),
            engine.changed(id, &call.invocation_id)
        );
        delivered.unwrap();
        assert!(poll_once(zombie.as_mut()).is_pending());
        done
    }

    /// Waits for a signal that is posted right behind the end of this invocation: mail that means
    /// nothing fills the mailbox before both, so that they fall into one turn or into two.
    async fn listen(&self, call: Call, idle_mail: usize) -> Outcome {
        let mut update =
            OperationUpdate::new("1".into(), OperationType::Callback, OperationAction::Start);
        update.sub_type = Some(sub_type::SIGNAL.into());
        update.name = Some("go".into());
        let (engine, id) = self.checkpoint(&call, update).await;
        let sender = engine.clone();
        drop(tokio::runtime::Handle::current().spawn(async move {
            let arrival = outlast_core::delivery::Arrival::Signal {
                name: "go".into(),
                payload: None,
            };
            sender.deliver(id, arrival).await.unwrap();
        }));
        for _ in 0..idle_mail {
            // Polled once: that posts it.
            let _ = poll_once(pin!(engine.decide(id, outlast_core::Input::Tick)));
        }
        Outcome::Output(InvocationOutput::pending())
    }
}
