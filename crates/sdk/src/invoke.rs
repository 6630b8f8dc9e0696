//! Invoking another function and waiting for its result without holding compute.

use crate::{
    builder::startable,
    codec::{Codec, Coding},
    context::Context,
    error::{ErrorKind, Result},
    future::Running,
    lifecycle::OperationState,
    operation::Op,
};
use outlast_core::{
    arn::{FunctionReference, check_tenant},
    limits,
    wire::{
        ChainedInvokeOptions, Operation, OperationAction, OperationStatus, OperationType, sub_type,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, marker::PhantomData, sync::Arc};

impl Context {
    /// Invokes `function` (a name or an ARN) with `input` and waits for its result.
    ///
    /// Exactly one execution of a durable function is started. A failed one is not repeated; wrap
    /// the call in [`with_retry`](Context::with_retry) for that.
    ///
    /// ```
    /// # use outlast::{Context, Result};
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let total: u64 = ctx.invoke("price", "pricing:live", &["apples", "pears"]).await?;
    /// # Ok(()) }
    /// ```
    pub fn invoke<'a, I, T>(&self, name: &str, function: &str, input: I) -> Invoke<'a, I, T>
    where
        I: Serialize + Send + Sync + 'a,
        T: DeserializeOwned + Send + 'static,
    {
        let mut op = self
            .claim(name)
            .operation(OperationType::ChainedInvoke, sub_type::CHAINED_INVOKE);
        // The service refuses the whole request for a bad name, and with it the execution.
        if function.is_empty() {
            op.reject("the name of the function to invoke is empty");
        } else if let Err(refused) = function.parse::<FunctionReference>() {
            op.reject(refused.message);
        }
        Invoke {
            op,
            input,
            options: ChainedInvokeOptions {
                function_name: function.to_owned(),
                ..Default::default()
            },
            payload_coding: Coding::default(),
            result_coding: Coding::default(),
            marker: PhantomData,
        }
    }
}

/// An invoke that has not started; see [`Context::invoke`].
#[must_use = "an invoke does nothing unless it is awaited or spawned"]
pub struct Invoke<'a, I, T> {
    op: Op,
    input: I,
    options: ChainedInvokeOptions,
    payload_coding: Coding,
    result_coding: Coding,
    marker: PhantomData<fn() -> &'a T>,
}

impl<I, T> Invoke<'_, I, T> {
    /// The tenant to invoke the function for.
    pub fn tenant(mut self, tenant: &str) -> Self {
        if tenant.is_empty() || tenant.len() > limits::TENANT_ID_LENGTH_MAX {
            let max = limits::TENANT_ID_LENGTH_MAX;
            self.op.reject(format!(
                "a tenant id has 1 to {max} characters, this one has {}",
                tenant.len()
            ));
        } else if let Err(refused) = check_tenant(tenant) {
            self.op.reject(refused.message);
        }
        self.options.tenant_id = Some(tenant.to_owned());
        self
    }

    /// The codec of the input.
    pub fn payload_codec(mut self, codec: impl Codec) -> Self {
        self.payload_coding = Coding(Some(Arc::new(codec)));
        self
    }

    /// The codec of the result.
    pub fn result_codec(mut self, codec: impl Codec) -> Self {
        self.result_coding = Coding(Some(Arc::new(codec)));
        self
    }
}

startable!(Invoke [I, T] T where {
    I: Serialize + Send + Sync + 'a,
    T: DeserializeOwned + Send + 'static
});

impl<'a, I, T> Invoke<'a, I, T>
where
    I: Serialize + Send + Sync + 'a,
    T: DeserializeOwned + Send + 'a,
{
    fn run(self) -> Running<'a, T> {
        let Self {
            op,
            input,
            mut options,
            payload_coding,
            result_coding,
            marker: _,
        } = self;
        let payload_coding = payload_coding.or(&op.scope.coding);
        let result_coding = result_coding.or(&op.scope.coding);
        Running::new(op, move |mut op| async move {
            op.check()?;
            let mut record = match op.meet().await {
                Some(record) => record,
                None => {
                    let payload = op.encode(&payload_coding, &input).await?;
                    op.check_size(&payload)?;
                    op.mark(OperationState::Executing);
                    options.x_amzn_trace_id = op.scope.invocation.hooks.trace_header(&op.info());
                    let mut update = op.update(OperationAction::Start);
                    update.payload = Some(payload);
                    update.chained_invoke_options = Some(options);
                    op.commit(update).await
                }
            };
            if !record.status.is_terminal() {
                record = op.change(OperationState::IdleAwaited).await;
            }
            op.finish(&record);
            outcome(&op, &record, &result_coding).await
        })
    }
}

async fn outcome<T: DeserializeOwned>(op: &Op, record: &Operation, coding: &Coding) -> Result<T> {
    let kind = match record.status {
        OperationStatus::Succeeded => return op.decode(coding, record.result()).await,
        OperationStatus::Failed => ErrorKind::InvokeFailed,
        OperationStatus::TimedOut => ErrorKind::InvokeTimedOut,
        OperationStatus::Stopped | OperationStatus::Cancelled => ErrorKind::InvokeStopped,
        status @ (OperationStatus::Started | OperationStatus::Pending | OperationStatus::Ready) => {
            return op.unexpected(status).await;
        }
    };
    Err(op.failure(kind, record.error()))
}

impl<I, T> fmt::Debug for Invoke<'_, I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invoke")
            .field("op", &self.op)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
