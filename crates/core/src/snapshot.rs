//! Snapshots: an execution as it is after some record, so that nobody folds it from its first one.
//!
//! A snapshot saves work and is never the truth: whoever cannot read one folds the records. It holds
//! no payloads, only where they lie, which is what [`Execution::release_payloads`] leaves. What
//! follows from the rest is not in it either: ids made from the profile, and the indexes.
//!
//! Its form is made of the same parts as that of records (see [`crate::codec`]), with a version of
//! its own. Operations lie in creation order: a parent is a number, a start the milliseconds since
//! the start of the operation before, an end those since the start. Any change of the form, or of
//! what the fold keeps, is a new version.

use crate::{
    codec::{Binary, Reader, Undecodable, binary, read_label, write_label},
    execution::{Execution, Gate, Hold, Invocation, Journal, Slot, Usage},
    operation::{Detail, Invoke, Operation},
    operations::Operations,
    record::{Held, Identity, Profile},
    time::Timestamp,
    wire::{ExecutionStatus, OperationType},
};
use alloc::{collections::BTreeSet, string::ToString as _, sync::Arc, vec::Vec};

/// The version of the form that [`Execution::snapshot`] writes.
pub const SNAPSHOT_FORMAT: u8 = 1;

/// No operation takes fewer bytes: this is a context with an empty id and nothing else.
const OPERATION_BYTES_MIN: usize = 12;

impl Execution {
    /// Appends a snapshot of this execution to `out`.
    pub fn snapshot(&self, out: &mut Vec<u8>) {
        let Self {
            profile,
            arn_text: _,
            id: _,
            status,
            started,
            ended,
            result,
            error,
            operations,
            gate,
            hold,
            usage,
            notify_parent,
            journal,
        } = self;
        out.push(SNAPSHOT_FORMAT);
        profile.write(out);
        status.write(out);
        started.write(out);
        ended.write(out);
        result.write(out);
        error.write(out);
        hold.write(out);
        usage.write(out);
        notify_parent.write(out);
        journal.write(out);
        write_table(operations, *started, out);
        write_gate(gate, *started, out);
    }

    /// The execution that a snapshot was taken of, its payloads not in memory. Records after it
    /// are folded in with [`Execution::apply`]; [`Execution::records`] says which one is next.
    ///
    /// # Errors
    /// When the bytes are damaged, more than a snapshot, or of a newer release.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, Undecodable> {
        let mut input = Reader::open(bytes, "snapshot format", SNAPSHOT_FORMAT)?;
        let input = &mut input;
        let profile = Arc::<Profile>::read(input)?;
        let id = profile
            .arn
            .execution_id()
            .ok_or_else(|| input.damaged("the execution id is not a UUID of ours"))?;
        let status = ExecutionStatus::read(input)?;
        let started = Binary::read(input)?;
        let execution = Self {
            arn_text: profile.arn.to_string().into(),
            profile,
            id,
            status,
            started,
            ended: Binary::read(input)?,
            result: Binary::read(input)?,
            error: Binary::read(input)?,
            hold: Binary::read(input)?,
            usage: Binary::read(input)?,
            notify_parent: Binary::read(input)?,
            journal: Binary::read(input)?,
            operations: read_table(input, started, !status.is_terminal())?,
            gate: Gate::default(),
        };
        let gate = read_gate(input, started, &execution.operations)?;
        input.end()?;
        Ok(Self { gate, ..execution })
    }
}

binary!(struct Hold { since, cause, reason });
binary!(struct Usage { operations, data_bytes });
binary!(struct Journal { records, events, last_at });
binary!(struct Invocation { id, started });
binary!(struct Invoke { function_name, tenant, trace, target, input, outstanding });

binary!(enum Detail: "type of operation" {
    1 => Execution { input, deadline },
    2 => Context { replay_children },
    3 => Step { attempt, next_attempt, interruptions },
    4 => Wait { seconds, end },
    5 => Callback { callback_id, deadline, heartbeat_seconds, heartbeat_deadline },
    6 => Invoke(invoke),
});

/// Where a payload lies; never the payload.
impl<T: ?Sized> Binary for Held<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.record().write(out);
        (self.bytes() as u64).write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Undecodable> {
        let record = u64::read(input)?;
        let bytes = usize::try_from(u64::read(input)?)
            .map_err(|_| input.damaged("a payload larger than memory"))?;
        Ok(Self::released(record, bytes))
    }
}

fn write_gate(gate: &Gate, started: Timestamp, out: &mut Vec<u8>) {
    let Gate {
        invocation,
        sequence,
        slot,
        requested,
        retry_at,
        failures,
        undelivered,
        stalled,
        empty_pendings,
        invocations,
        last_error,
    } = gate;
    invocation.write(out);
    sequence.write(out);
    slot.is_some().write(out);
    if let Some(slot) = slot {
        write_slot(slot, started, out);
    }
    requested.write(out);
    retry_at.write(out);
    failures.write(out);
    undelivered.write(out);
    stalled.write(out);
    empty_pendings.write(out);
    invocations.write(out);
    last_error.write(out);
}

fn read_gate(
    input: &mut Reader<'_>,
    started: Timestamp,
    table: &Operations,
) -> Result<Gate, Undecodable> {
    Ok(Gate {
        invocation: Binary::read(input)?,
        sequence: Binary::read(input)?,
        slot: bool::read(input)?
            .then(|| read_slot(input, started, table))
            .transpose()?,
        requested: Binary::read(input)?,
        retry_at: Binary::read(input)?,
        failures: Binary::read(input)?,
        undelivered: Binary::read(input)?,
        stalled: Binary::read(input)?,
        empty_pendings: Binary::read(input)?,
        invocations: Binary::read(input)?,
        last_error: Binary::read(input)?,
    })
}

/// The operations of a slot are written again: they stay as they were when the answer was given.
fn write_slot(slot: &Slot, started: Timestamp, out: &mut Vec<u8>) {
    let Slot {
        invocation,
        sequence,
        client_token,
        key,
        operations,
    } = slot;
    invocation.write(out);
    sequence.write(out);
    client_token.write(out);
    key.write(out);
    write_operations(operations, started, out);
}

fn read_slot(
    input: &mut Reader<'_>,
    started: Timestamp,
    table: &Operations,
) -> Result<Slot, Undecodable> {
    let invocation = Binary::read(input)?;
    let sequence = Binary::read(input)?;
    let client_token = Binary::read(input)?;
    let key = Binary::read(input)?;
    let count = input.count(OPERATION_BYTES_MIN)?;
    let mut operations: Vec<Operation> = Vec::with_capacity(count);
    let mut before = started;
    for _ in 0..count {
        let operation = read_operation(input, before, |number| table.get(number))?;
        before = operation.started;
        operations.push(operation);
    }
    Ok(Slot {
        invocation,
        sequence,
        client_token,
        key,
        operations,
    })
}

fn write_table(table: &Operations, started: Timestamp, out: &mut Vec<u8>) {
    write_operations(table.list(), started, out);
    table.unseen().write(out);
    table.updated().write(out);
    (table.buffered() as u64).write(out);
    for (name, payload) in table.buffered_signals() {
        name.write(out);
        payload.write(out);
    }
}

fn read_table(
    input: &mut Reader<'_>,
    started: Timestamp,
    running: bool,
) -> Result<Operations, Undecodable> {
    let count = input.count(OPERATION_BYTES_MIN)?;
    let mut list: Vec<Operation> = Vec::with_capacity(count);
    let mut before = started;
    for _ in 0..count {
        let operation = read_operation(input, before, |number| {
            list.get(usize::try_from(number).ok()?)
        })?;
        before = operation.started;
        list.push(operation);
    }
    let mut table = Operations::restore(list, running).map_err(|reason| input.damaged(reason))?;
    let unseen = BTreeSet::read(input)?;
    let updated = BTreeSet::read(input)?;
    table
        .restore_unseen(unseen, updated)
        .map_err(|reason| input.damaged(reason))?;
    for _ in 0..input.count(2)? {
        let name = Arc::<str>::read(input)?;
        table.buffer_signal(&name, Binary::read(input)?);
    }
    Ok(table)
}

fn write_operations(operations: &[Operation], started: Timestamp, out: &mut Vec<u8>) {
    (operations.len() as u64).write(out);
    let mut before = started;
    for operation in operations {
        write_operation(operation, before, out);
        before = operation.started;
    }
}

fn write_operation(operation: &Operation, before: Timestamp, out: &mut Vec<u8>) {
    let Operation {
        identity,
        parent,
        status,
        started,
        ended,
        result,
        error,
        detail,
    } = operation;
    let Identity {
        id,
        operation_type: _, // as the detail
        parent: _,         // the id of `parent`
        name,
        sub_type,
    } = identity;
    id.write(out);
    parent.write(out);
    name.write(out);
    write_label(sub_type.as_deref(), out);
    status.write(out);
    distance(before, *started).write(out);
    ended.map(|ended| distance(*started, ended)).write(out);
    result.write(out);
    error.write(out);
    detail.write(out);
}

/// Reads an operation; `earlier` finds its parent.
fn read_operation<'a>(
    input: &mut Reader<'_>,
    before: Timestamp,
    earlier: impl FnOnce(u32) -> Option<&'a Operation>,
) -> Result<Operation, Undecodable> {
    let id = Binary::read(input)?;
    let parent: Option<u32> = Binary::read(input)?;
    let parent_id = match parent {
        None => None,
        Some(number) => {
            let parent = earlier(number).ok_or_else(|| input.damaged("unknown parent"))?;
            Some(parent.id().clone())
        }
    };
    let name = Binary::read(input)?;
    let sub_type = read_label(input)?;
    let status = Binary::read(input)?;
    let started = moved(before, u64::read(input)?);
    let ended = Option::<u64>::read(input)?.map(|distance| moved(started, distance));
    let result = Binary::read(input)?;
    let error = Binary::read(input)?;
    let detail = Binary::read(input)?;
    Ok(Operation {
        identity: Identity {
            id,
            operation_type: type_of(&detail),
            parent: parent_id,
            name,
            sub_type,
        },
        parent,
        status,
        started,
        ended,
        result,
        error,
        detail,
    })
}

fn type_of(detail: &Detail) -> OperationType {
    match detail {
        Detail::Execution { .. } => OperationType::Execution,
        Detail::Context { .. } => OperationType::Context,
        Detail::Step { .. } => OperationType::Step,
        Detail::Wait { .. } => OperationType::Wait,
        Detail::Callback { .. } => OperationType::Callback,
        Detail::Invoke(_) => OperationType::ChainedInvoke,
    }
}

/// Milliseconds between two moments. Time does not go back within a journal; if it did, the number
/// would be large and still lead to the same moment.
fn distance(from: Timestamp, to: Timestamp) -> u64 {
    to.as_millis().wrapping_sub(from.as_millis())
}

fn moved(from: Timestamp, distance: u64) -> Timestamp {
    Timestamp::from_millis(from.as_millis().wrapping_add(distance))
}

#[cfg(test)]
mod tests;
