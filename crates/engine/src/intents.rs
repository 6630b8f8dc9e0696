//! Carrying out what executions want of the outside: children, ordinary functions, parents.
//!
//! An intent is repeated until it is acknowledged, so a crash anywhere here costs a repetition and
//! nothing else.

use crate::{
    engine::{Inner, read},
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
    wire::ErrorObject,
};
use std::sync::Arc;

impl Inner {
    /// Sees to it that an intent of an execution is carried out.
    pub(crate) fn carry_out(self: &Arc<Self>, id: ExecutionId, intent: Intent) {
        let inner = self.clone();
        self.spawn(Box::pin(async move {
            let key = intent.key();
            let done = match intent {
                Intent::StartChild(start) => inner.start_child(id, *start).await,
                Intent::InvokePlain(invoke) => inner.invoke_plain(id, *invoke).await,
                Intent::NotifyParent(notice) => inner.notify_parent(*notice).await,
            };
            let done = match done {
                Ok(()) => inner
                    .decide(id, Input::Acknowledge(vec![key]))
                    .await
                    .map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                tracing::warn!(execution = %id, %error, "an intent could not be carried out");
                inner.look_again(id);
            }
        }));
    }

    async fn start_child(self: &Arc<Self>, parent: ExecutionId, start: Start) -> Result<(), Error> {
        let operation = start.parent.as_ref().map(|parent| parent.operation.clone());
        let started = self.with_env(parent, |env| Execution::start(env, start));
        match started {
            Ok((execution, records)) => match self.create(execution, &records).await {
                // It is there already: an earlier attempt came this far.
                Ok(()) | Err(CommitError::Conflict { .. } | CommitError::NameTaken(_)) => Ok(()),
                Err(error) => {
                    self.note_failure(&error);
                    Err(Error::NotWritten(error))
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
        let found = read(&self.registry).find(&invoke.function_name).cloned();
        let outcome = match found {
            Err(error) => InvokeOutcome::Failed(error),
            Ok(registered) => {
                let call = registered.invoker.invoke_plain(PlainCall {
                    function: registered.function.clone(),
                    input: invoke.input,
                    tenant: invoke.tenant,
                    trace: invoke.trace,
                });
                match registered.timeout {
                    None => call.await,
                    Some(limit) => tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
                        let seconds = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX);
                        InvokeOutcome::timed_out(seconds)
                    }),
                }
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
        self.decide(id, delivery).await.map(drop)
    }
}
