//! The binary form of each type that records are made of: a table of fields and tags.
//!
//! It says what is written in which order and nothing about what it means. Tags are for ever: a new
//! variant takes the next free one.

use super::{Binary, Reader, Undecodable, binary, read_label, write_label};
use crate::{
    arn::{ExecutionArn, Function},
    record::{
        Change, Ending, HoldCause, Identity, IntentKey, InvokeStart, InvokeTarget, OperationChange,
        ParentLink, Profile, Record, Starting, Subject,
    },
    wire::{DurableConfig, ErrorObject, ExecutionStatus, OperationStatus, OperationType},
};
use alloc::vec::Vec;

binary!(struct Record { number, events, at, change });

binary!(enum Change: "change" {
    1 => ExecutionStarted { profile, input },
    2 => ExecutionClosed { status, result, error },
    3 => InvocationStarted { invocation },
    4 => InvocationCompleted { invocation, started, error, ending },
    5 => InvocationDropped { invocation, error, ending },
    6 => Checkpointed { client_token, key, updates },
    7 => Operation { subject, change },
    8 => SignalBuffered { name, payload },
    9 => Acknowledged { intent },
    10 => Held { cause, reason },
    11 => Resumed,
});

binary!(struct Profile {
    arn, config, synchronous, input_digest, tenant, trace, client_context, parent,
});
binary!(struct ParentLink { execution, operation });
binary!(struct ExecutionArn { function, name, id });
binary!(struct Function { partition, region, account, name, version });
binary!(struct DurableConfig { execution_timeout, retention_period_in_days, kms_key_arn });
binary!(struct ErrorObject { error_type, error_message, error_data, stack_trace });

binary!(enum Ending: "ending" {
    1 => Clean,
    2 => Failed { retry_at, interrupted },
    3 => Undelivered { retry_at },
    4 => EmptyPending { retry_at },
});

binary!(enum IntentKey: "intent" {
    1 => Invoke(operation),
    2 => Parent,
});

binary!(enum HoldCause: "cause of a hold" {
    1 => Mismatch,
    2 => NoProgress,
    3 => Operator,
});

binary!(enum Subject: "subject" {
    1 => New(identity),
    2 => Known(number),
});

binary!(enum OperationChange: "change of an operation" {
    1 => Started(starting),
    2 => Retried { result, error, attempt, delay_seconds },
    3 => Ready,
    4 => Heartbeat { deadline },
    5 => Closed { status, result, error, attempt, replay_children },
    6 => SignalTaken,
});

binary!(enum Starting: "start" {
    1 => Context,
    2 => Step,
    3 => Wait { seconds },
    4 => Callback { callback_id, timeout_seconds, heartbeat_seconds },
    5 => Invoke(invoke),
});

binary!(struct InvokeStart { function_name, tenant, trace, input, target });

binary!(enum InvokeTarget: "target of an invoke" {
    1 => Durable { child, config },
    2 => Plain { version },
});

binary!(enum OperationType: "type of operation" {
    1 => Execution,
    2 => Context,
    3 => Step,
    4 => Wait,
    5 => Callback,
    6 => ChainedInvoke,
});

binary!(enum OperationStatus: "status of an operation" {
    1 => Started,
    2 => Pending,
    3 => Ready,
    4 => Succeeded,
    5 => Failed,
    6 => Cancelled,
    7 => TimedOut,
    8 => Stopped,
});

binary!(enum ExecutionStatus: "status of an execution" {
    1 => Running,
    2 => Succeeded,
    3 => Failed,
    4 => TimedOut,
    5 => Stopped,
});

/// By hand, because labels have a form of their own.
impl Binary for Identity {
    fn write(&self, out: &mut Vec<u8>) {
        let Self {
            id,
            operation_type,
            parent,
            name,
            sub_type,
        } = self;
        id.write(out);
        operation_type.write(out);
        parent.write(out);
        name.write(out);
        write_label(sub_type.as_deref(), out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            id: Binary::read(input)?,
            operation_type: Binary::read(input)?,
            parent: Binary::read(input)?,
            name: Binary::read(input)?,
            sub_type: read_label(input)?,
        })
    }
}
