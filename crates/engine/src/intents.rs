//! Carrying out what executions want of the outside: children, ordinary functions, parents.
//!
//! Whoever carries out an intent has claimed it and goes on until it is acknowledged, whatever the
//! disk says. After a crash it is carried out again: that costs a repetition and nothing else.

use crate::{
    engine::{Inner, LOOK_AGAIN_MS, lock, read},
    error::Error,
    invoker::PlainCall,
    store::CommitError,
};
use outlast_core::{
    Execution, Input, Intent, Start,
    arn::{ExecutionArn, ExecutionId},
    delivery::{Arrival, Delivery},
    id::OperationId,
    intent::{InvokeOutcome, Notice, PlainInvoke},
    record::IntentKey,
    wire::ErrorObject,
};
use std::{sync::Arc, time::Duration};

/// Pause before something is tried again that the disk did not take.
const PAUSE: Duration = Duration::from_millis(LOOK_AGAIN_MS);

impl Inner {
    /// Takes an intent of an execution upon oneself. Whether nobody had done so before. Called
    /// where nobody else decides: in the execution's turn.
    pub(crate) fn claim(&self, id: ExecutionId, intent: &Intent) -> bool {
        lock(&self.carried).insert((id, intent.key()))
    }

    /// Sees to it that an intent is carried out that was claimed.
    pub(crate) fn carry_out(self: &Arc<Self>, id: ExecutionId, intent: Intent) {
        let carried = Carried {
            inner: self.clone(),
            key: (id, intent.key()),
        };
        self.spawn(Box::pin(async move {
            let inner = &carried.inner;
            let done = match intent {
                Intent::StartChild(start) => inner.start_child(id, *start).await,
                Intent::InvokePlain(invoke) => inner.invoke_plain(id, *invoke).await,
                Intent::NotifyParent(notice) => inner.notify_parent(*notice).await,
            };
            let acknowledge = Input::Acknowledge(vec![carried.key.1.clone()]);
            let done = match done {
                Ok(()) => inner.insist(id, acknowledge).await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                tracing::warn!(execution = %id, %error, "an intent could not be carried out");
            }
        }));
    }

    /// Repeats a request until it is stored or refused, unless the engine stops.
    async fn insist(self: &Arc<Self>, id: ExecutionId, input: Input) -> Result<(), Error> {
        loop {
            match self.decide(id, input.clone()).await {
                Err(error) if self.may_pass(&error) => tokio::time::sleep(PAUSE).await,
                decided => return decided.map(drop),
            }
        }
    }

    /// Whether a failure may be over in a while.
    fn may_pass(&self, error: &Error) -> bool {
        matches!(error, Error::NotWritten(_) | Error::Unreadable(_)) && !self.is_stopped()
    }

    async fn start_child(self: &Arc<Self>, parent: ExecutionId, start: Start) -> Result<(), Error> {
        let operation = start.parent.as_ref().map(|parent| parent.operation.clone());
        let started = self.with_env(&self.reading(parent), |env| Execution::start(env, start));
        match started {
            Ok((execution, records)) => loop {
                let child = execution.id();
                match self.create(execution.clone(), &records).await {
                    // It is there already: an earlier attempt came this far.
                    Ok(()) | Err(CommitError::Conflict { .. } | CommitError::NameTaken(_)) => {
                        return Ok(());
                    }
                    // It was there and part of it is lost: like any other in quarantine.
                    Err(CommitError::Damaged(reason)) => {
                        drop(self.put_in_quarantine(child, reason));
                        return Ok(());
                    }
                    Err(error) => {
                        self.note_failure(&error);
                        let error = Error::NotWritten(error);
                        if !self.may_pass(&error) {
                            return Err(error);
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            },
            Err(rejection) => {
                let error = ErrorObject::new(rejection.code.name(), rejection.message);
                let Some(operation) = operation else {
                    return Ok(());
                };
                self.invoked(parent, operation, InvokeOutcome::Failed(error))
                    .await
            }
        }
    }

    async fn invoke_plain(
        self: &Arc<Self>,
        id: ExecutionId,
        invoke: PlainInvoke,
    ) -> Result<(), Error> {
        let found = read(&self.registry)
            .pinned(&invoke.function_name, &invoke.version)
            .cloned();
        let outcome = match found {
            Err(missing) => {
                InvokeOutcome::Failed(ErrorObject::new(missing.code.name(), missing.message))
            }
            Ok(registered) => {
                let call = PlainCall {
                    function: registered.function.clone(),
                    id: None,
                    input: invoke.input,
                    tenant: invoke.tenant,
                    trace: invoke.trace,
                    client_context: None,
                };
                registered.call_plain(call).await
            }
        };
        self.invoked(id, invoke.operation, outcome).await
    }

    async fn notify_parent(self: &Arc<Self>, notice: Notice) -> Result<(), Error> {
        let Some(parent) = ExecutionArn::execution_id(&notice.parent.execution) else {
            return Ok(());
        };
        match self
            .invoked(parent, notice.parent.operation, notice.outcome)
            .await
        {
            // A parent that is gone waits for nothing.
            Err(Error::Rejected(_) | Error::Quarantined { .. }) => Ok(()),
            delivered => delivered,
        }
    }

    async fn invoked(
        self: &Arc<Self>,
        id: ExecutionId,
        operation: OperationId,
        outcome: InvokeOutcome,
    ) -> Result<(), Error> {
        let arrival = Arrival::Invoked { operation, outcome };
        let at = self.now();
        let delivery = Input::Deliver(vec![Delivery { at, arrival }]);
        self.insist(id, delivery).await
    }
}

/// An intent that somebody carries out; nobody does once this is dropped.
struct Carried {
    inner: Arc<Inner>,
    key: (ExecutionId, IntentKey),
}

impl Drop for Carried {
    fn drop(&mut self) {
        lock(&self.inner.carried).remove(&self.key);
    }
}
