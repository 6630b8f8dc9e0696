//! What the outside has to do for an execution.
//!
//! Intents follow from records and are repeated until acknowledged, so a crash between commit and
//! deed costs nothing but a repetition. Each is safe to repeat: a child has one id, a parent takes
//! the first outcome only. An ordinary function alone may run twice after a crash.

use crate::{
    decide::Turn,
    error::Rejection,
    execution::Execution,
    id::OperationId,
    operation::{Detail, Operation},
    record::{
        Change, IntentKey, InvokeTarget, Load, OperationChange, ParentLink, Starting, Subject,
    },
    start::Start,
    wire::{ErrorObject, ExecutionStatus, Payload, error_type},
};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Start the child execution of a chained invoke; do nothing if it already exists.
    StartChild(Box<Start>),
    /// Invoke an ordinary function once and deliver its outcome.
    InvokePlain(Box<PlainInvoke>),
    /// Deliver the outcome of this execution to the operation that waits for it.
    NotifyParent(Box<Notice>),
}

/// The end of an execution that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Who waits.
    pub parent: ParentLink,
    /// How this execution ended.
    pub outcome: InvokeOutcome,
}

/// A call of an ordinary function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainInvoke {
    /// The operation that waits for it.
    pub operation: OperationId,
    /// The function as the handler wrote it.
    pub function_name: Arc<str>,
    /// The version it stood for.
    pub version: Arc<str>,
    /// Its input.
    pub input: Payload,
    /// Tenant to invoke it for.
    pub tenant: Option<String>,
    /// Trace header to pass on.
    pub trace: Option<String>,
}

/// How the target of a chained invoke ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeOutcome {
    /// With a result.
    Succeeded(Option<Payload>),
    /// With an error of its own, or because it could not be invoked.
    Failed(ErrorObject),
    /// It did not answer in time.
    TimedOut(ErrorObject),
    /// Somebody stopped it.
    Stopped(ErrorObject),
}

impl InvokeOutcome {
    /// A target that did not answer within `seconds`.
    pub fn timed_out(seconds: u32) -> Self {
        Self::TimedOut(ErrorObject::new(
            error_type::CHAINED_INVOKE_TIMEOUT,
            format!("CHAINED_INVOKE timed out after {seconds} seconds."),
        ))
    }
}

impl Intent {
    /// What to acknowledge it by.
    pub fn key(&self) -> IntentKey {
        match self {
            Self::StartChild(start) => start.parent.as_ref().map_or(IntentKey::Parent, |parent| {
                IntentKey::Invoke(parent.operation.clone())
            }),
            Self::InvokePlain(invoke) => IntentKey::Invoke(invoke.operation.clone()),
            Self::NotifyParent(_) => IntentKey::Parent,
        }
    }
}

impl Execution {
    /// Everything the outside still has to do. For recovery; a decision names what it adds itself.
    ///
    /// # Errors
    /// When a payload is not in memory and `load` does not find its record.
    pub fn intents(&self, load: Load<'_>) -> Result<Vec<Intent>, Rejection> {
        let mut intents = Vec::new();
        for index in self.operations.outstanding() {
            if let Some(operation) = self.operations.get(*index) {
                intents.extend(self.invoke_intent(operation, load)?);
            }
        }
        intents.extend(self.parent_intent(load)?);
        Ok(intents)
    }

    /// Whether the outside still has something to do.
    pub fn has_intents(&self) -> bool {
        self.notify_parent || !self.operations.outstanding().is_empty()
    }

    /// Whether this intent has not been acknowledged.
    pub fn is_outstanding(&self, intent: &IntentKey) -> bool {
        match intent {
            IntentKey::Parent => self.notify_parent,
            IntentKey::Invoke(id) => self
                .operations
                .find(id)
                .is_some_and(|index| self.operations.outstanding().contains(&index)),
        }
    }

    fn invoke_intent(
        &self,
        operation: &Operation,
        load: Load<'_>,
    ) -> Result<Option<Intent>, Rejection> {
        let Detail::Invoke(invoke) = &operation.detail else {
            return Ok(None);
        };
        let input = match &invoke.input {
            Some(input) => input.read(load)?,
            None => "{}".into(),
        };
        Ok(match &invoke.target {
            None => None,
            Some(InvokeTarget::Plain { version }) => {
                Some(Intent::InvokePlain(Box::new(PlainInvoke {
                    operation: operation.id().clone(),
                    function_name: invoke.function_name.clone(),
                    version: version.clone(),
                    input,
                    tenant: invoke.tenant.clone(),
                    trace: invoke.trace.clone(),
                })))
            }
            Some(InvokeTarget::Durable { child, config }) => {
                Some(Intent::StartChild(Box::new(Start {
                    function: child.function.clone(),
                    name: None,
                    input: Some(input),
                    config: config.clone(),
                    synchronous: false,
                    tenant: invoke.tenant.clone(),
                    trace: invoke.trace.clone(),
                    client_context: None,
                    parent: Some(ParentLink {
                        execution: self.profile.arn.clone(),
                        operation: operation.id().clone(),
                    }),
                })))
            }
        })
    }

    fn parent_intent(&self, load: Load<'_>) -> Result<Option<Intent>, Rejection> {
        let Some(parent) = self.profile.parent.clone().filter(|_| self.notify_parent) else {
            return Ok(None);
        };
        let error = || -> Result<ErrorObject, Rejection> {
            Ok(match &self.error {
                Some(error) => (*error.read(load)?).clone(),
                None => ErrorObject::default(),
            })
        };
        let outcome = match self.status {
            ExecutionStatus::Running => return Ok(None),
            ExecutionStatus::Succeeded => InvokeOutcome::Succeeded(
                self.result
                    .as_ref()
                    .map(|result| result.read(load))
                    .transpose()?,
            ),
            ExecutionStatus::Failed => InvokeOutcome::Failed(error()?),
            ExecutionStatus::TimedOut => {
                InvokeOutcome::timed_out(self.profile.config.execution_timeout)
            }
            ExecutionStatus::Stopped => InvokeOutcome::Stopped(error()?),
        };
        Ok(Some(Intent::NotifyParent(Box::new(Notice {
            parent,
            outcome,
        }))))
    }
}

impl Turn<'_> {
    /// The intents that the records of this turn brought up.
    pub(crate) fn new_intents(&self) -> Result<Vec<Intent>, Rejection> {
        let mut intents = Vec::new();
        for record in &self.records {
            if let Change::Operation {
                subject: Subject::New(identity),
                change: OperationChange::Started(Starting::Invoke(_)),
            } = &record.change
                && self
                    .execution
                    .is_outstanding(&IntentKey::Invoke(identity.id.clone()))
                && let Some(operation) = self.execution.operations.by_id(&identity.id)
            {
                intents.extend(self.execution.invoke_intent(operation, self.env.load)?);
            }
            if matches!(record.change, Change::ExecutionClosed { .. }) {
                intents.extend(self.execution.parent_intent(self.env.load)?);
            }
        }
        Ok(intents)
    }
}
