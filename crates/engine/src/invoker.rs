//! What hosts functions: in this process, behind HTTP, behind the Lambda Runtime API.

use outlast_core::{
    Outcome,
    arn::Function,
    intent::InvokeOutcome,
    wire::{InvocationInput, Payload},
};
use std::{future::Future, pin::Pin, sync::Arc};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Calls handlers. It decides nothing: how a call ended is judged by the core.
pub trait Invoker: Send + Sync + 'static {
    /// Calls the handler once and tells how that ended. Dropping the future abandons the call.
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome>;

    /// Whether the handler of an invocation that was handed over has been called, or still waits
    /// for somebody to call it.
    fn has_begun(&self, invocation_id: &str) -> bool {
        let _ = invocation_id;
        true
    }

    /// Calls an ordinary function once.
    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        let name = call.function.name.clone();
        Box::pin(async move {
            InvokeOutcome::Failed(outlast_core::wire::ErrorObject::new(
                "InvalidRequestContentException",
                format!("the function {name} is durable: it has no plain form"),
            ))
        })
    }
}

/// One invocation of a durable function.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function version to call.
    pub function: Function,
    /// The id of the invocation.
    pub invocation_id: Arc<str>,
    /// What to call it with.
    pub input: InvocationInput,
    /// The tenant it runs for.
    pub tenant: Option<Arc<str>>,
    /// The trace header it was started with.
    pub trace: Option<Arc<str>>,
    /// The client context of a synchronous start.
    pub client_context: Option<Arc<str>>,
}

/// One call of an ordinary function.
#[derive(Clone, Debug)]
pub struct PlainCall {
    /// The function version to call.
    pub function: Function,
    /// A fresh id, for whoever wants to ask [`Invoker::has_begun`].
    pub id: Option<Arc<str>>,
    /// Its input.
    pub input: Payload,
    /// The tenant it runs for.
    pub tenant: Option<String>,
    /// The trace header to pass on.
    pub trace: Option<String>,
    /// The client context of a synchronous call.
    pub client_context: Option<String>,
}
