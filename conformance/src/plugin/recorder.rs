//! The plugin of suite 10: writes a record of each hook it sees, as one JSON object per line.
//!
//! It shows what its hooks were told and keeps nothing but the execution's name, which every record
//! carries so that logs can be found by it.

use crate::Records;
use outlast::{
    core::{
        time::{Timestamp, iso},
        wire::{ErrorObject, OperationStatus, OperationType},
    },
    plugin::{
        AttemptInfo, AttemptOutcome, AttemptStatus, ChangeInfo, EndStatus, HookResult,
        InvocationEnd, InvocationInfo, OperationInfo, Plugin,
    },
};
use serde_json::{Map, Value, json};
use std::{
    panic::resume_unwind,
    sync::{Arc, OnceLock},
};

/// What records look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// A few short fields; what is absent is `NONE`.
    Brief,
    /// Everything that a hook was told; what is absent is left out.
    Whole,
}

/// What every hook does when it has written its record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manner {
    Healthy,
    Failing,
    Panicking,
}

/// A plugin that writes records.
#[derive(Clone)]
pub(super) struct Recorder {
    name: &'static str,
    /// Operations of other types are left out.
    only: Option<OperationType>,
    form: Form,
    manner: Manner,
    records: Records,
    execution: OnceLock<Arc<str>>,
}

impl Recorder {
    pub(super) fn new(name: &'static str, records: &Records) -> Self {
        Self {
            name,
            only: None,
            form: Form::Brief,
            manner: Manner::Healthy,
            records: records.clone(),
            execution: OnceLock::new(),
        }
    }

    pub(super) fn only(mut self, only: OperationType) -> Self {
        self.only = Some(only);
        self
    }

    pub(super) fn whole(mut self) -> Self {
        self.form = Form::Whole;
        self
    }

    pub(super) fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// Writes a record of a hook, and then misbehaves if it should.
    fn write(&self, hook: &str, fields: Value) -> HookResult {
        let mut record = members(fields);
        if self.form == Form::Whole {
            record.retain(|_, value| !value.is_null());
        }
        record.insert("plugin".to_owned(), self.name.into());
        record.insert("hook".to_owned(), hook.into());
        let execution = self.execution.get().map(|arn| &**arn);
        record.insert("durableExecutionArn".to_owned(), execution.into());
        self.records.write(&Value::Object(record));
        match self.manner {
            Manner::Healthy => Ok(()),
            Manner::Failing => Err("fails as required".into()),
            Manner::Panicking => resume_unwind(Box::new("panics as required")),
        }
    }

    fn wants(&self, info: &OperationInfo) -> bool {
        self.only.is_none_or(|only| only == info.operation_type)
    }

    /// The fields of an operation.
    fn operation(&self, info: &OperationInfo) -> Map<String, Value> {
        let fields = match self.form {
            Form::Brief => json!({
                "op": info.id.as_str(),
                "type": info.operation_type.as_str(),
                "name": info.name.as_deref(),
                "parent": info.parent_id.as_ref().map_or("NONE", |id| id.as_str()),
            }),
            Form::Whole => json!({
                "id": info.id.as_str(),
                "name": info.name.as_deref(),
                "type": info.operation_type.as_str(),
                "subType": info.sub_type.as_deref(),
                "parentId": info.parent_id.as_ref().map(|id| id.as_str()),
                "status": info.status.map(OperationStatus::as_str),
                "startTimestamp": moment(info.start_timestamp),
                "endTimestamp": moment(info.end_timestamp),
                "error": message(info.error.as_ref()),
                "attempt": info.attempt,
                "isReplay": info.is_replay,
            }),
        };
        members(fields)
    }

    /// The fields of an attempt.
    fn attempt(&self, info: &AttemptInfo) -> Map<String, Value> {
        let mut fields = self.operation(&info.operation);
        match self.form {
            Form::Brief => {
                fields.insert("n".to_owned(), info.attempt.into());
            }
            Form::Whole => {
                // Those of the operation are not the attempt's own.
                for of_operation in ["status", "endTimestamp", "error"] {
                    fields.remove(of_operation);
                }
                let replays_children = info.is_replaying_children;
                fields.insert("attempt".to_owned(), info.attempt.into());
                let started = moment(Some(info.start_timestamp));
                fields.insert("startTimestamp".to_owned(), started);
                fields.insert("isReplayingChildren".to_owned(), replays_children.into());
            }
        }
        fields
    }
}

impl Plugin for Recorder {
    fn invocation_start(&self, info: &InvocationInfo) -> HookResult {
        // Once per instance, and there is one for each invocation.
        let _ = self.execution.set(info.execution_arn.clone());
        let wanted = info.updated_operations.iter().filter(|operation| {
            self.only
                .is_some_and(|only| only == operation.operation_type)
        });
        for operation in wanted {
            let updated = json!({
                "op": operation.id.as_str(),
                "status": operation.status.as_str(),
                "first": info.is_first_invocation,
            });
            self.write("updated-on-invoke", updated)?;
        }
        let mut start = self.invocation(info);
        let updated = info.updated_operations.len();
        start.insert("updatedOperationsCount".to_owned(), updated.into());
        self.write("invocation-start", Value::Object(start))
    }

    fn invocation_end(&self, info: &InvocationInfo, end: &InvocationEnd) -> HookResult {
        let mut fields = self.invocation(info);
        let is_terminal = matches!(end.status, EndStatus::Succeeded | EndStatus::Failed);
        fields.insert("status".to_owned(), token(end.status).into());
        fields.insert("terminal".to_owned(), is_terminal.into());
        fields.insert("executionError".to_owned(), message(end.error.as_ref()));
        self.write("invocation-end", Value::Object(fields))
    }

    fn operation_start(&self, info: &OperationInfo) -> HookResult {
        if !self.wants(info) {
            return Ok(());
        }
        let mut fields = self.operation(info);
        if self.form == Form::Brief {
            let is_open = info.status.is_none_or(|status| !status.is_terminal());
            fields.insert("replay".to_owned(), info.is_replay.into());
            fields.insert("pending".to_owned(), is_open.into());
        }
        self.write("operation-start", Value::Object(fields))
    }

    fn operation_end(&self, info: &OperationInfo) -> HookResult {
        if !self.wants(info) {
            return Ok(());
        }
        let mut fields = self.operation(info);
        if self.form == Form::Brief {
            let or_none = |text: Option<&str>| Value::from(text.unwrap_or("NONE"));
            let error = info.error.as_ref();
            let error = error.and_then(|error| error.error_message.as_deref());
            let status = info.status.map(OperationStatus::as_str);
            fields.insert("status".to_owned(), status.into());
            fields.insert("result".to_owned(), or_none(info.result.as_deref()));
            fields.insert("error".to_owned(), or_none(error));
        }
        self.write("operation-end", Value::Object(fields))
    }

    fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
        if !self.wants(&info.operation) {
            return Ok(());
        }
        let hook = name_of(info, "attempt-start", "fn-start");
        self.write(hook, Value::Object(self.attempt(info)))
    }

    fn attempt_end(&self, info: &AttemptInfo, outcome: &AttemptOutcome) -> HookResult {
        if !self.wants(&info.operation) {
            return Ok(());
        }
        let mut fields = self.attempt(info);
        fields.insert("outcome".to_owned(), how(outcome.status).into());
        if self.form == Form::Whole {
            let ended = moment(Some(outcome.end_timestamp));
            fields.insert("endTimestamp".to_owned(), ended);
            fields.insert("error".to_owned(), message(outcome.error.as_ref()));
        }
        let hook = name_of(info, "attempt-end", "fn-end");
        self.write(hook, Value::Object(fields))
    }

    fn operations_changed(&self, info: &ChangeInfo) -> HookResult {
        for changed in info.changed.iter().filter(|changed| self.wants(changed)) {
            let is_known = info.operations.iter().any(|known| known.id == changed.id);
            let mut fields = self.operation(changed);
            match self.form {
                Form::Brief => {
                    let status = changed.status.map(OperationStatus::as_str);
                    fields.insert("status".to_owned(), status.into());
                    fields.insert("in_full_map".to_owned(), is_known.into());
                }
                Form::Whole => {
                    fields.insert("executionArn".to_owned(), (*info.execution_arn).into());
                    let (changed, all) = (info.changed.len(), info.operations.len());
                    fields.insert("updatedOperationsCount".to_owned(), changed.into());
                    fields.insert("operationsCount".to_owned(), all.into());
                    fields.insert("inFullMap".to_owned(), is_known.into());
                }
            }
            self.write("operation-change", Value::Object(fields))?;
        }
        Ok(())
    }
}

impl Recorder {
    /// The fields that the start and the end of an invocation have in common.
    fn invocation(&self, info: &InvocationInfo) -> Map<String, Value> {
        let fields = match self.form {
            Form::Brief => json!({ "first": info.is_first_invocation }),
            Form::Whole => json!({
                "isFirstInvocation": info.is_first_invocation,
                "requestId": &*info.request_id,
                "operationsCount": info.operations.len(),
                "executionStartTimestamp": moment(Some(info.execution_start_timestamp)),
            }),
        };
        members(fields)
    }
}

/// The members of what is written as an object.
fn members(fields: Value) -> Map<String, Value> {
    if let Value::Object(fields) = fields {
        fields
    } else {
        Map::new()
    }
}

fn moment(at: Option<Timestamp>) -> Value {
    at.map(iso::utc).into()
}

fn message(error: Option<&ErrorObject>) -> Value {
    error.and_then(|error| error.error_message.clone()).into()
}

/// User code of contexts is not counted in attempts.
fn name_of(info: &AttemptInfo, step: &'static str, context: &'static str) -> &'static str {
    if info.operation.operation_type == OperationType::Context {
        context
    } else {
        step
    }
}

fn token(status: EndStatus) -> &'static str {
    match status {
        EndStatus::Succeeded => "SUCCEEDED",
        EndStatus::Failed => "FAILED",
        EndStatus::Retrying => "RETRYING",
        // Whatever else there may be has not ended the execution.
        EndStatus::Pending | _ => "PENDING",
    }
}

fn how(status: AttemptStatus) -> &'static str {
    match status {
        AttemptStatus::Succeeded => "SUCCEEDED",
        AttemptStatus::Failed => "FAILED",
        AttemptStatus::Incomplete | _ => "INCOMPLETE",
    }
}
