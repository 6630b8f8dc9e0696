//! Plugins: observers of an invocation.
//!
//! A plugin sees everything and changes nothing. A hook that fails or panics is logged and
//! swallowed: it reaches neither the execution nor the other plugins. Per operation the order is
//! operation start, attempt start, attempt end, operation end.

use crate::{
    backend::BoxFuture,
    error::{BoxError, panic_message},
};
use futures_util::FutureExt as _;
use outlast_core::{
    id::OperationId,
    time::Timestamp,
    wire::{ErrorObject, Operation, OperationStatus, OperationType, Payload},
};
use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// What a hook returns; an error is logged and has no other effect.
pub type HookResult = Result<(), BoxError>;

/// An observer of invocations. Every hook has an empty default.
#[expect(unused_variables, reason = "the names document the hooks")]
pub trait Plugin: Send + Sync + 'static {
    /// Before the handler's first line.
    ///
    /// # Errors
    /// Logged and swallowed, as for every hook.
    fn invocation_start(&self, info: &InvocationInfo) -> HookResult {
        Ok(())
    }

    /// Once per invocation, also when it suspends.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn invocation_end(&self, info: &InvocationInfo, end: &InvocationEnd) -> HookResult {
        Ok(())
    }

    /// An operation starts, or an open one is met again on replay (`is_replay`). A flat context,
    /// which has no record, is met again when something in it is not over.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn operation_start(&self, info: &OperationInfo) -> HookResult {
        Ok(())
    }

    /// An operation is seen terminal for the first time, also one that ended while nobody looked.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn operation_end(&self, info: &OperationInfo) -> HookResult {
        Ok(())
    }

    /// User code of a step, a check or a context is about to run.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
        Ok(())
    }

    /// User code of a step, a check or a context has ended or was given up.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn attempt_end(&self, info: &AttemptInfo, outcome: &AttemptOutcome) -> HookResult {
        Ok(())
    }

    /// A checkpoint's answer changed these operations.
    ///
    /// # Errors
    /// Logged and swallowed.
    fn operations_changed(&self, info: &ChangeInfo) -> HookResult {
        Ok(())
    }

    /// Called before each poll of user code; what it returns is dropped after the poll. Enter a
    /// span here, for example. `operation` is absent for the handler itself.
    fn around(&self, execution_arn: &str, operation: Option<&AttemptInfo>) -> Option<Box<dyn Any>> {
        None
    }

    /// Extra fields for log lines written by the code of this invocation.
    fn log_fields(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A trace header to hand to a function that is about to be invoked.
    fn trace_header(&self, info: &OperationInfo) -> Option<String> {
        None
    }

    /// Awaited after the end of an invocation where the process may be frozen as soon as the
    /// invocation is answered, as on AWS Lambda: send what must not wait for the next one.
    fn flush(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// What is known when an invocation starts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InvocationInfo {
    /// Id of this invocation.
    pub request_id: Arc<str>,
    /// The execution.
    pub execution_arn: Arc<str>,
    /// Whether the execution has never been invoked before.
    pub is_first_invocation: bool,
    /// When the execution started.
    pub execution_start_timestamp: Timestamp,
    /// Every known operation.
    pub operations: Vec<Arc<Operation>>,
    /// Those that changed while no handler was looking.
    pub updated_operations: Vec<Arc<Operation>>,
    /// The execution's input.
    pub input: Option<Payload>,
    /// The trace that the execution was started from, as an `X-Amzn-Trace-Id` header.
    pub trace_header: Option<Arc<str>>,
}

/// How an invocation ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InvocationEnd {
    /// How.
    pub status: EndStatus,
    /// The result, if the execution succeeded.
    pub result: Option<Payload>,
    /// The error, if the execution failed or the invocation is repeated.
    pub error: Option<ErrorObject>,
}

/// How an invocation ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndStatus {
    /// The execution succeeded.
    Succeeded,
    /// The execution failed.
    Failed,
    /// The execution waits.
    Pending,
    /// The invocation failed and will be repeated.
    Retrying,
}

/// One operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperationInfo {
    /// Its id, as in the history.
    pub id: OperationId,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub operation_type: OperationType,
    /// Its label.
    pub sub_type: Option<Arc<str>>,
    /// The context it belongs to.
    pub parent_id: Option<OperationId>,
    /// Its status, once it is recorded.
    pub status: Option<OperationStatus>,
    /// When it started, once it is recorded.
    pub start_timestamp: Option<Timestamp>,
    /// When it ended.
    pub end_timestamp: Option<Timestamp>,
    /// Its serialised result, if it succeeded.
    pub result: Option<Payload>,
    /// Its error, if it failed.
    pub error: Option<ErrorObject>,
    /// Attempts finished, for steps.
    pub attempt: Option<u32>,
    /// Whether it was met in recorded state rather than started now.
    pub is_replay: bool,
}

impl OperationInfo {
    /// What a record says about its operation.
    pub(crate) fn from_record(operation: &Operation, is_replay: bool) -> Self {
        let succeeded = operation.status == OperationStatus::Succeeded;
        let failed = operation.status.is_terminal() && !succeeded;
        Self {
            id: operation.id.clone(),
            name: operation.name.clone(),
            operation_type: operation.operation_type,
            sub_type: operation.sub_type.clone(),
            parent_id: operation.parent_id.clone(),
            status: Some(operation.status),
            start_timestamp: Some(operation.start_timestamp),
            end_timestamp: operation.end_timestamp,
            result: operation.result().filter(|_| succeeded).cloned(),
            error: operation.error().filter(|_| failed).cloned(),
            attempt: operation
                .step_details
                .as_ref()
                .map(|details| details.attempt),
            is_replay,
        }
    }
}

/// User code that runs for an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptInfo {
    /// The operation.
    pub operation: OperationInfo,
    /// Which attempt, from 1; a context's body has one per invocation.
    pub attempt: u32,
    /// When the attempt started.
    pub start_timestamp: Timestamp,
    /// For steps: whether a crash in the middle counts as a failed attempt.
    pub at_most_once: bool,
    /// For contexts: whether the body runs again only so that its recorded children replay.
    pub is_replaying_children: bool,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptOutcome {
    /// When.
    pub end_timestamp: Timestamp,
    /// How.
    pub status: AttemptStatus,
    /// Its error, if it failed.
    pub error: Option<ErrorObject>,
}

/// How an attempt ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptStatus {
    /// With a value.
    Succeeded,
    /// With an error.
    Failed,
    /// It was given up: the invocation suspended or the operation lost a race.
    Incomplete,
}

/// Operations that a checkpoint's answer changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChangeInfo {
    /// The execution.
    pub execution_arn: Arc<str>,
    /// Those that changed, as they are now.
    pub changed: Vec<OperationInfo>,
    /// All that are known.
    pub operations: Vec<Arc<Operation>>,
}

type Create = Arc<dyn Fn() -> Arc<dyn Plugin> + Send + Sync>;

/// The plugins of a function.
#[derive(Clone, Default)]
pub(crate) struct Plugins(Vec<Create>);

impl Plugins {
    pub(crate) fn add<P: Plugin>(&mut self, create: impl Fn() -> P + Send + Sync + 'static) {
        self.0.push(Arc::new(move || Arc::new(create())));
    }

    /// One instance of each for an invocation. A constructor that panics drops out.
    pub(crate) fn create(&self) -> Hooks {
        let guarded = |create: &Create| guard("create", || Ok(Some(create()))).flatten();
        Hooks(self.0.iter().filter_map(guarded).collect())
    }
}

/// The plugin instances of one invocation.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Arc<dyn Plugin>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} plugins", self.0.len())
    }
}

impl Hooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls one hook of every plugin, each guarded on its own.
    pub(crate) fn each(&self, hook: &'static str, call: impl Fn(&dyn Plugin) -> HookResult) {
        for plugin in &self.0 {
            guard(hook, || call(plugin.as_ref()));
        }
    }

    /// Guards for one poll of user code.
    pub(crate) fn around(&self, arn: &str, operation: Option<&AttemptInfo>) -> Around {
        let guarded = |plugin: &Arc<dyn Plugin>| {
            guard("around", || Ok(plugin.around(arn, operation))).flatten()
        };
        Around(self.0.iter().filter_map(guarded).collect())
    }

    #[cfg(feature = "log")]
    pub(crate) fn log_fields(&self) -> Vec<(String, String)> {
        self.0
            .iter()
            .filter_map(|plugin| guard("log_fields", || Ok(plugin.log_fields())))
            .flatten()
            .collect()
    }

    pub(crate) fn trace_header(&self, info: &OperationInfo) -> Option<String> {
        self.0
            .iter()
            .find_map(|plugin| guard("trace_header", || Ok(plugin.trace_header(info))).flatten())
    }

    /// Lets each send what it has, one after the other.
    pub(crate) async fn flush(&self) {
        for plugin in &self.0 {
            if let Some(flushing) = guard("flush", || Ok(plugin.flush())).flatten() {
                let flushed = AssertUnwindSafe(flushing).catch_unwind().await;
                guard("flush", || {
                    flushed.map_err(|panic| panic_message(panic.as_ref()).into())
                });
            }
        }
    }
}

/// What plugins put around one poll of user code. The last is taken away first: guards of spans and
/// contexts restore what was there before them.
pub(crate) struct Around(Vec<Box<dyn Any>>);

impl Drop for Around {
    fn drop(&mut self) {
        while let Some(around) = self.0.pop() {
            guard("around", || {
                drop(around);
                Ok(())
            });
        }
    }
}

/// Runs a hook so that nothing it does wrong gets out.
fn guard<R>(hook: &'static str, call: impl FnOnce() -> Result<R, BoxError>) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::warn!(hook, %error, "a plugin's hook failed");
            None
        }
        Err(panic) => {
            tracing::warn!(
                hook,
                panic = panic_message(panic.as_ref()),
                "a plugin's hook panicked"
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bad;
    impl Plugin for Bad {
        fn log_fields(&self) -> Vec<(String, String)> {
            panic!("no fields today")
        }
    }

    struct Good;
    impl Plugin for Good {
        fn log_fields(&self) -> Vec<(String, String)> {
            vec![("a".into(), "b".into())]
        }
    }

    #[test]
    fn a_panicking_plugin_does_not_reach_the_next_one() {
        let mut plugins = Plugins::default();
        plugins.add(|| Bad);
        plugins.add(|| Good);
        assert_eq!(
            plugins.create().log_fields(),
            [("a".to_owned(), "b".to_owned())]
        );
    }

    #[test]
    fn what_is_around_is_taken_away_in_the_opposite_order_whatever_it_does() {
        static ORDER: std::sync::Mutex<Vec<u8>> = std::sync::Mutex::new(Vec::new());
        struct Nested(u8);
        impl Plugin for Nested {
            fn around(&self, _: &str, _: Option<&AttemptInfo>) -> Option<Box<dyn Any>> {
                Some(Box::new(Left(self.0)))
            }
        }
        struct Left(u8);
        impl Drop for Left {
            fn drop(&mut self) {
                ORDER.lock().unwrap().push(self.0);
                assert_ne!(self.0, 2, "not today");
            }
        }
        let mut plugins = Plugins::default();
        for number in 1..=3 {
            plugins.add(move || Nested(number));
        }
        drop(plugins.create().around("arn", None));
        assert_eq!(*ORDER.lock().unwrap(), [3, 2, 1]);
    }

    #[test]
    fn a_plugin_that_cannot_be_created_drops_out() {
        let mut plugins = Plugins::default();
        plugins.add(|| -> Good { panic!("not today") });
        plugins.add(|| Good);
        assert_eq!(plugins.create().0.len(), 1);
    }
}
