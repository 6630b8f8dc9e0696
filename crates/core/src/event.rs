//! The shapes of history: one event of each kind, in the service's JSON.
//!
//! Only shapes; which record makes which event is decided in `history`.

use crate::{
    id::OperationId,
    time::{Timestamp, epoch_seconds},
    wire::{ErrorObject, Payload},
};
use alloc::{string::String, sync::Arc};
use serde::{Deserialize, Serialize};

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Event {
    /// Its type.
    pub event_type: EventType,
    /// Its number, from 1, without gaps.
    pub event_id: u64,
    /// When it was committed.
    #[serde(with = "epoch_seconds")]
    pub event_timestamp: Timestamp,
    /// The operation it is about; absent for the end of an invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<OperationId>,
    /// The operation's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// The operation's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_type: Option<Arc<str>>,
    /// The operation's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<OperationId>,
    /// What is particular to its type.
    #[serde(flatten)]
    pub details: Details,
}

macro_rules! event_types {
    ($($(#[$doc:meta])* $variant:ident $rename:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })+) => {
        /// The types of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EventType { $($(#[$doc])* $variant),+ }

        impl EventType {
            /// The type as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        /// What is particular to each type of event.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all_fields = "PascalCase")]
        pub enum Details {
            $($(#[$doc])* #[serde(rename = $rename)] $variant { $($(#[$field_doc])* $field: $type),* }),+
        }

        impl Details {
            /// The type of event these details belong to.
            pub const fn event_type(&self) -> EventType {
                match self { $(Self::$variant { .. } => EventType::$variant),+ }
            }
        }
    };
}

event_types! {
    /// The execution was created.
    ExecutionStarted "ExecutionStartedDetails" {
        /// Its input.
        input: Wrapped<Payload>,
        /// Seconds it may take.
        execution_timeout: u32,
    }
    /// The execution ended with a result.
    ExecutionSucceeded "ExecutionSucceededDetails" {
        /// The result.
        result: Wrapped<Payload>,
    }
    /// The execution ended with an error.
    ExecutionFailed "ExecutionFailedDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
    }
    /// The execution's time ran out.
    ExecutionTimedOut "ExecutionTimedOutDetails" {
        /// What it says about that.
        error: Wrapped<ErrorObject>,
    }
    /// Somebody stopped the execution.
    ExecutionStopped "ExecutionStoppedDetails" {
        /// What they said about it.
        error: Wrapped<ErrorObject>,
    }
    /// A context began.
    ContextStarted "ContextStartedDetails" {}
    /// A context ended with a result.
    ContextSucceeded "ContextSucceededDetails" {
        /// The result.
        result: Wrapped<Payload>,
    }
    /// A context ended with an error.
    ContextFailed "ContextFailedDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
    }
    /// An attempt of a step began.
    StepStarted "StepStartedDetails" {}
    /// An attempt of a step ended with a result, or a polled condition is not met yet.
    StepSucceeded "StepSucceededDetails" {
        /// The result, or the state of the condition.
        result: Wrapped<Payload>,
        /// Which attempt, and when the next one follows.
        retry_details: RetryDetails,
    }
    /// An attempt of a step ended with an error.
    StepFailed "StepFailedDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
        /// Which attempt, and when the next one follows.
        retry_details: RetryDetails,
    }
    /// A timer began.
    WaitStarted "WaitStartedDetails" {
        /// Its duration in seconds.
        duration: u32,
        /// When it ends.
        #[serde(with = "epoch_seconds")]
        scheduled_end_timestamp: Timestamp,
    }
    /// A timer ended.
    WaitSucceeded "WaitSucceededDetails" {
        /// Its duration in seconds.
        duration: u32,
    }
    /// A timer was cancelled by the handler.
    WaitCancelled "WaitCancelledDetails" {
        /// What the handler said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Wrapped<ErrorObject>>,
    }
    /// A callback can be answered.
    CallbackStarted "CallbackStartedDetails" {
        /// The id that completes it.
        callback_id: Arc<str>,
        /// Seconds until it times out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<u32>,
        /// Seconds between heartbeats.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heartbeat_timeout: Option<u32>,
    }
    /// A callback was answered.
    CallbackSucceeded "CallbackSucceededDetails" {
        /// The answer.
        result: Wrapped<Payload>,
    }
    /// A callback was answered with an error.
    CallbackFailed "CallbackFailedDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
    }
    /// A callback was not answered in time.
    CallbackTimedOut "CallbackTimedOutDetails" {
        /// Which of its times ran out.
        error: Wrapped<ErrorObject>,
    }
    /// Another function was invoked.
    ChainedInvokeStarted "ChainedInvokeStartedDetails" {
        /// The function as the handler wrote it.
        function_name: Arc<str>,
        /// Tenant it runs for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant_id: Option<String>,
        /// Its input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Wrapped<Payload>>,
        /// The version the name stood for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executed_version: Option<Arc<str>>,
        /// The execution this started, for a durable function.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        durable_execution_arn: Option<String>,
    }
    /// The invoked function answered.
    ChainedInvokeSucceeded "ChainedInvokeSucceededDetails" {
        /// The answer.
        result: Wrapped<Payload>,
    }
    /// The invoked function failed.
    ChainedInvokeFailed "ChainedInvokeFailedDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
    }
    /// The invoked function did not answer in time.
    ChainedInvokeTimedOut "ChainedInvokeTimedOutDetails" {
        /// The error.
        error: Wrapped<ErrorObject>,
    }
    /// The invoked execution was stopped.
    ChainedInvokeStopped "ChainedInvokeStoppedDetails" {
        /// The error given to the stop.
        error: Wrapped<ErrorObject>,
    }
    /// A call of the handler ended.
    InvocationCompleted "InvocationCompletedDetails" {
        /// When it began.
        #[serde(with = "epoch_seconds")]
        start_timestamp: Timestamp,
        /// When it ended.
        #[serde(with = "epoch_seconds")]
        end_timestamp: Timestamp,
        /// The id the handler knew it by.
        request_id: Arc<str>,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Wrapped<ErrorObject>>,
    }
}

/// A payload or error in the history, which a page may leave out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Wrapped<T> {
    /// The value.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub payload: Option<T>,
    /// Whether the value was left out.
    #[serde(default)]
    pub truncated: bool,
}

fn none<T>() -> Option<T> {
    None
}

/// Where a step stands after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RetryDetails {
    /// The attempt that ended, from 1.
    pub current_attempt: u32,
    /// Delay before the next one; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_delay_seconds: Option<u32>,
}
