//! What must hold of every execution, after every decision. For tests and simulators.

use crate::{
    execution::Execution,
    operation::Detail,
    record::InvokeTarget,
    wire::{OperationStatus, OperationType},
};
use alloc::{format, string::String};

impl Execution {
    /// Checks everything an execution promises about itself.
    ///
    /// # Errors
    /// With the broken promise in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.operations
            .check_indexes(!self.status.is_terminal())
            .map_err(|index| format!("index: {index}"))?;
        self.check_status()?;
        self.check_gate()?;
        self.check_liveness()?;
        self.check_operations()
    }

    fn check_status(&self) -> Result<(), String> {
        let closed = self.status.is_terminal();
        let root = self.operations.get(0).ok_or("no EXECUTION operation")?;
        demand(
            root.status() == self.status.of_operation() && root.ended == self.ended,
            "the EXECUTION operation mirrors the execution",
        )?;
        demand(
            root.id().as_str() == &*self.profile.arn.id,
            "the EXECUTION operation has the id of the execution",
        )?;
        demand(closed == self.ended.is_some(), "an end time iff closed")?;
        demand(
            closed || self.result.is_none() && self.error.is_none(),
            "no outcome before the end",
        )?;
        demand(
            self.journal.events <= self.journal.records,
            "at most one event per record",
        )
    }

    fn check_gate(&self) -> Result<(), String> {
        let gate = &self.gate;
        demand(
            gate.invocation.is_none() || gate.retry_at.is_none(),
            "no retry is scheduled while an invocation runs",
        )?;
        if let Some(slot) = &gate.slot {
            demand(
                slot.sequence + 1 == gate.sequence
                    && gate
                        .invocation
                        .as_ref()
                        .is_none_or(|current| current.id == slot.invocation),
                "the replay slot is the last checkpoint of the last invocation",
            )?;
        }
        demand(
            !self.status.is_terminal()
                || !gate.requested && gate.slot.is_none() && self.hold.is_none(),
            "a closed execution wants nothing",
        )?;
        demand(
            self.profile.parent.is_some() && self.status.is_terminal() || !self.notify_parent,
            "only the end of a child is told to a parent",
        )
    }

    /// Something will happen to every running execution.
    fn check_liveness(&self) -> Result<(), String> {
        let alive = self.status.is_terminal()
            || self.hold.is_some()
            || self.gate.invocation.is_some()
            || self.gate.requested
            || !self.operations.unseen().is_empty()
            || !self.operations.open().is_empty();
        demand(
            alive,
            "a running execution has an invocation, a trigger, or something open",
        )?;
        demand(
            self.status.is_terminal() || self.next_wake().is_some_and(|at| at <= self.deadline()),
            "a running execution wakes at its timeout at the latest",
        )
    }

    fn check_operations(&self) -> Result<(), String> {
        for operation in self.operations.iter().skip(1) {
            let status = operation.status();
            let id = operation.id();
            demand(
                status.is_terminal() == operation.ended.is_some(),
                "an operation has an end time iff it ended",
            )
            .map_err(|law| format!("{id}: {law}"))?;
            let fits = match (operation.operation_type(), &operation.detail) {
                (OperationType::Context, Detail::Context { .. }) => {
                    matches!(
                        status,
                        OperationStatus::Started
                            | OperationStatus::Succeeded
                            | OperationStatus::Failed
                    )
                }
                (OperationType::Step, Detail::Step { next_attempt, .. }) => {
                    next_attempt.is_some() == (status == OperationStatus::Pending)
                        && !matches!(
                            status,
                            OperationStatus::Cancelled
                                | OperationStatus::TimedOut
                                | OperationStatus::Stopped
                        )
                }
                (OperationType::Wait, Detail::Wait { end, .. }) => {
                    status != OperationStatus::Succeeded
                        || operation.ended.is_some_and(|ended| ended >= *end)
                }
                (OperationType::Callback, Detail::Callback { .. }) => !matches!(
                    status,
                    OperationStatus::Cancelled | OperationStatus::Stopped
                ),
                (OperationType::ChainedInvoke, Detail::Invoke(invoke)) => match &invoke.target {
                    Some(InvokeTarget::Durable { child, .. }) => {
                        let expected =
                            crate::arn::ExecutionId::of_child(&self.profile.arn, id.as_str());
                        child.execution_id() == Some(expected)
                    }
                    Some(InvokeTarget::Plain { .. }) => true,
                    None => status == OperationStatus::Failed,
                },
                _ => false,
            };
            demand(fits, "an operation is in a state its type can have")
                .map_err(|law| format!("{id}: {law}"))?;
        }
        Ok(())
    }
}

fn demand(holds: bool, law: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(law.into()) }
}
