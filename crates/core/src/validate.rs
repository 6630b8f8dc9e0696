//! Whether a batch of updates is acceptable, as a whole, before anything of it is applied.
//!
//! Each update is judged against the state as the updates before it in the batch will leave it.
//! Quotas are not judged here: exceeding one is no mistake of the request, it fails the execution.

use crate::{
    arn::{FunctionReference, check_tenant, is_word},
    error::Rejection,
    execution::Execution,
    id::OperationId,
    limits::{
        CALLBACK_TIMEOUT_SECONDS_MAX, DELAY_SECONDS_MAX, DELAY_SECONDS_MIN, ID_LENGTH_MAX,
        NAME_LENGTH_MAX, Quotas, SUB_TYPE_LENGTH_MAX, TRACE_ID_LENGTH_MAX,
    },
    operation::transition,
    time::Timestamp,
    wire::{
        ChainedInvokeOptions, OperationAction, OperationStatus, OperationType, OperationUpdate,
        sub_type,
    },
};
use alloc::{format, string::String, sync::Arc};
use hashbrown::HashMap;

/// Judges a whole batch.
///
/// # Errors
/// With the first rule that is broken.
pub(crate) fn check(
    execution: &Execution,
    limits: &Quotas,
    now: Timestamp,
    updates: &[OperationUpdate],
) -> Result<(), Rejection> {
    if updates.len() > limits.request_updates_max {
        return Err(Rejection::invalid(format!(
            "{} updates in one request, {} are allowed",
            updates.len(),
            limits.request_updates_max
        )));
    }
    check_execution_updates(updates)?;
    let mut batch = Batch {
        execution,
        limits,
        now,
        seen: HashMap::new(),
    };
    for update in updates {
        batch
            .check(update)
            .map_err(|reason| refuse(update, &reason))?;
    }
    Ok(())
}

fn refuse(update: &OperationUpdate, reason: &str) -> Rejection {
    let id: String = update.id.as_str().chars().take(ID_LENGTH_MAX).collect();
    Rejection::invalid(format!(
        "{} of {} operation {id}: {reason}",
        update.action, update.operation_type
    ))
}

fn check_execution_updates(updates: &[OperationUpdate]) -> Result<(), Rejection> {
    let is_execution = |update: &OperationUpdate| update.operation_type == OperationType::Execution;
    let count = updates.iter().filter(|update| is_execution(update)).count();
    if count > 1 {
        return Err(Rejection::invalid(
            "multiple execution updates in one request",
        ));
    }
    if count == 1 && !updates.last().is_some_and(is_execution) {
        return Err(Rejection::invalid(
            "an execution update must be the last update",
        ));
    }
    Ok(())
}

struct Batch<'a> {
    execution: &'a Execution,
    limits: &'a Quotas,
    now: Timestamp,
    /// Operations of this batch, as it will leave them.
    seen: HashMap<&'a OperationId, Seen<'a>>,
}

#[derive(Clone, Copy)]
struct Seen<'a> {
    operation_type: OperationType,
    status: OperationStatus,
    parent: Option<&'a OperationId>,
    name: Option<&'a Arc<str>>,
    sub_type: Option<&'a Arc<str>>,
    /// The action of the batch's only update so far; none if it had two.
    only: Option<OperationAction>,
}

impl<'a> Batch<'a> {
    fn check(&mut self, update: &'a OperationUpdate) -> Result<(), String> {
        check_texts(update)?;
        check_sizes(update, self.execution, self.limits)?;
        if update.operation_type == OperationType::Execution {
            transition(
                OperationType::Execution,
                Some(OperationStatus::Started),
                update.action,
            )
            .map_err(|misfit| String::from(misfit.text()))?;
            return check_payload_and_error(update);
        }
        let in_batch = self.seen.get(&update.id).copied();
        if let Some(earlier) = in_batch {
            check_pair(&earlier, update)?;
        }
        let current = in_batch.or_else(|| self.stored(&update.id));
        match &current {
            Some(current) => check_identity(current, update)?,
            None => self.check_parent(update)?,
        }
        let status = current.map(|current| current.status);
        let next = transition(update.operation_type, status, update.action)
            .map_err(|misfit| String::from(misfit.text()))?;
        check_payload_and_error(update)?;
        self.check_options(update)?;
        self.seen.insert(
            &update.id,
            Seen {
                operation_type: update.operation_type,
                status: next,
                parent: current.map_or(update.parent_id.as_ref(), |current| current.parent),
                name: current.map_or(update.name.as_ref(), |current| current.name),
                sub_type: current.map_or(update.sub_type.as_ref(), |current| current.sub_type),
                only: in_batch.is_none().then_some(update.action),
            },
        );
        Ok(())
    }

    fn stored(&self, id: &OperationId) -> Option<Seen<'a>> {
        let operation = self.execution.operations.by_id(id)?;
        Some(Seen {
            operation_type: operation.operation_type(),
            status: operation.status_at(self.now),
            parent: operation.identity.parent.as_ref(),
            name: operation.identity.name.as_ref(),
            sub_type: operation.identity.sub_type.as_ref(),
            only: None,
        })
    }

    fn check_parent(&self, update: &OperationUpdate) -> Result<(), String> {
        let Some(parent) = &update.parent_id else {
            return Ok(());
        };
        let found = self
            .seen
            .get(parent)
            .copied()
            .or_else(|| self.stored(parent));
        match found {
            Some(found) if found.operation_type == OperationType::Context => Ok(()),
            Some(_) => Err("invalid parent: it is not a context".into()),
            None => Err("invalid parent: there is no such operation".into()),
        }
    }

    fn check_options(&self, update: &OperationUpdate) -> Result<(), String> {
        match (update.operation_type, update.action) {
            (OperationType::Step, OperationAction::Retry) => {
                let options = update.step_options.unwrap_or_default();
                let delay = options
                    .next_attempt_delay_seconds
                    .ok_or("step options invalid: a retry needs a delay")?;
                let least = if self.limits.zero_retry_delay {
                    0
                } else {
                    DELAY_SECONDS_MIN
                };
                in_range("NextAttemptDelaySeconds", delay, least, DELAY_SECONDS_MAX)
            }
            (OperationType::Wait, OperationAction::Start) => {
                let options = update.wait_options.unwrap_or_default();
                let seconds = options.wait_seconds.ok_or("wait options missing")?;
                in_range("WaitSeconds", seconds, DELAY_SECONDS_MIN, DELAY_SECONDS_MAX)
            }
            (OperationType::Callback, OperationAction::Start) => {
                let options = update.callback_options.unwrap_or_default();
                let most = CALLBACK_TIMEOUT_SECONDS_MAX;
                let timeout = options.timeout_seconds.unwrap_or(0);
                in_range("TimeoutSeconds", timeout, 0, most)?;
                let heartbeat = options.heartbeat_timeout_seconds.unwrap_or(0);
                in_range("HeartbeatTimeoutSeconds", heartbeat, 0, most)?;
                let is_signal = update.sub_type.as_deref() == Some(sub_type::SIGNAL);
                if is_signal && update.name.is_none() {
                    return Err("a wait for a signal needs the signal's name".into());
                }
                Ok(())
            }
            (OperationType::ChainedInvoke, OperationAction::Start) => {
                let options = update.chained_invoke_options.as_ref();
                self.check_invoke(options.ok_or("chained invoke options missing")?)
            }
            _ => Ok(()),
        }
    }

    fn check_invoke(&self, options: &ChainedInvokeOptions) -> Result<(), String> {
        let reference: FunctionReference = options
            .function_name
            .parse()
            .map_err(|refused: Rejection| refused.message)?;
        let own = &self.execution.profile.arn.function;
        if reference
            .account
            .is_some_and(|account| *account != *own.account)
        {
            return Err("a function of another account cannot be invoked".into());
        }
        if reference
            .region
            .is_some_and(|region| *region != *own.region)
        {
            return Err("a function of another region cannot be invoked".into());
        }
        if let Some(tenant) = &options.tenant_id {
            check_tenant(tenant).map_err(|refused| refused.message)?;
        }
        let trace = options.x_amzn_trace_id.as_ref();
        if trace.is_some_and(|trace| trace.len() > TRACE_ID_LENGTH_MAX) {
            return Err("trace header too long".into());
        }
        Ok(())
    }
}

/// An id may come twice only as START and then the end of the same step attempt or context.
fn check_pair(earlier: &Seen<'_>, update: &OperationUpdate) -> Result<(), String> {
    let pairable = matches!(
        update.operation_type,
        OperationType::Step | OperationType::Context
    );
    let legal = pairable
        && earlier.only == Some(OperationAction::Start)
        && update.action != OperationAction::Start;
    if legal {
        Ok(())
    } else {
        Err("the same operation is updated twice in one request".into())
    }
}

fn check_identity(current: &Seen<'_>, update: &OperationUpdate) -> Result<(), String> {
    if current.operation_type != update.operation_type {
        return Err(format!(
            "inconsistent type: it is a {}",
            current.operation_type
        ));
    }
    let keeps = |given: Option<&Arc<str>>, stored: Option<&Arc<str>>| {
        given.is_none_or(|given| stored == Some(given))
    };
    if !keeps(update.sub_type.as_ref(), current.sub_type) {
        return Err("inconsistent subtype".into());
    }
    if !keeps(update.name.as_ref(), current.name) {
        return Err("inconsistent name".into());
    }
    let parent = update.parent_id.as_ref();
    if parent.is_some_and(|parent| current.parent != Some(parent)) {
        return Err("inconsistent parent".into());
    }
    Ok(())
}

fn check_payload_and_error(update: &OperationUpdate) -> Result<(), String> {
    match update.action {
        OperationAction::Succeed if update.error.is_some() => {
            Err("an error cannot be given with SUCCEED".into())
        }
        OperationAction::Fail if update.payload.is_some() => {
            Err("a payload cannot be given with FAIL".into())
        }
        OperationAction::Retry if update.payload.is_some() && update.error.is_some() => {
            Err("payload and error cannot both be given with RETRY".into())
        }
        OperationAction::Start
        | OperationAction::Succeed
        | OperationAction::Fail
        | OperationAction::Retry
        | OperationAction::Cancel => Ok(()),
    }
}

fn check_texts(update: &OperationUpdate) -> Result<(), String> {
    let word = |text: &str, most: usize| text.len() <= most && is_word(text, b"-_");
    if !word(update.id.as_str(), ID_LENGTH_MAX) {
        return Err(format!(
            "Id must be 1 to {ID_LENGTH_MAX} letters, digits, - or _"
        ));
    }
    let parent = update.parent_id.as_ref();
    if !parent.is_none_or(|parent| word(parent.as_str(), ID_LENGTH_MAX)) {
        return Err(format!(
            "ParentId must be 1 to {ID_LENGTH_MAX} letters, digits, - or _"
        ));
    }
    if !update.name.as_deref().is_none_or(is_name) {
        return Err(format!(
            "Name must be 1 to {NAME_LENGTH_MAX} printable ASCII characters"
        ));
    }
    let sub_type = update.sub_type.as_deref();
    if !sub_type.is_none_or(|text| word(text, SUB_TYPE_LENGTH_MAX)) {
        return Err(format!(
            "SubType must be 1 to {SUB_TYPE_LENGTH_MAX} letters, digits, - or _"
        ));
    }
    Ok(())
}

/// Whether `text` can name an operation, and so a signal.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=NAME_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
}

fn check_sizes(
    update: &OperationUpdate,
    execution: &Execution,
    limits: &Quotas,
) -> Result<(), String> {
    let most = match update.operation_type {
        OperationType::Execution => execution.result_bytes_max(),
        OperationType::Context
        | OperationType::Step
        | OperationType::Wait
        | OperationType::Callback
        | OperationType::ChainedInvoke => limits.payload_bytes_max,
    };
    if let Some(payload) = &update.payload
        && payload.len() > most
    {
        return Err(format!(
            "payload too large: {} bytes, {most} are allowed",
            payload.len()
        ));
    }
    if let Some(error) = &update.error
        && error.bytes() > limits.error_bytes_max
    {
        return Err(format!(
            "error too large: {} bytes, {} are allowed",
            error.bytes(),
            limits.error_bytes_max
        ));
    }
    Ok(())
}

fn in_range(what: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} must be {least} to {most}, it is {value}"))
    }
}

#[cfg(test)]
mod tests;
