//! Checkpoints: who may write, what a batch does, and what the handler learns from the answer.
//!
//! The batch has been judged as a whole (`validate`) before anything here writes.

use crate::{
    arn::ExecutionArn,
    decide::{Reply, Target, Turn},
    error::Rejection,
    execution::Execution,
    id::OperationId,
    limits::CLIENT_TOKEN_LENGTH_MAX,
    record::{
        Change, Ending, Identity, InvokeStart, InvokeTarget, OperationChange, SharedError,
        Starting, Subject,
    },
    token::{CallbackId, CheckpointToken, Keys},
    validate,
    wire::{
        CheckpointRequest, CheckpointResponse, ErrorObject, ExecutionStatus, OperationAction,
        OperationStatus, OperationType, OperationUpdate, Payload, StatePage, error_type,
    },
};
use alloc::{boxed::Box, collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

impl Turn<'_> {
    pub(crate) fn checkpoint(&mut self, request: CheckpointRequest) -> Result<Reply, Rejection> {
        let token = CheckpointToken::parse(self.env.keys, &request.checkpoint_token)?;
        if let Some(response) = self.replay(&token, request.client_token.as_deref())? {
            return Ok(Reply::Checkpoint(response));
        }
        self.execution.check_token(self.now, &token)?;
        check_client_token(request.client_token.as_deref())?;
        let updates = request.updates;
        validate::check(self.execution, self.env.limits, self.now, &updates)?;
        self.settle(self.now)?;
        let count = u32::try_from(updates.len()).unwrap_or(u32::MAX);
        match self.exceeded_quota(&updates) {
            Some(error) => self.close_here(ExecutionStatus::Failed, None, Some(Arc::new(error)))?,
            None => {
                for update in updates {
                    self.update(update)?;
                }
            }
        }
        self.respond(request.client_token.map(Arc::from), count)
    }

    /// The stored answer, if this is the last accepted checkpoint once more.
    fn replay(
        &self,
        token: &CheckpointToken,
        client_token: Option<&str>,
    ) -> Result<Option<CheckpointResponse>, Rejection> {
        let execution = &*self.execution;
        let Some(slot) = &execution.gate.slot else {
            return Ok(None);
        };
        let token_of = |sequence| CheckpointToken::new(execution.id, &slot.invocation, sequence);
        let same = execution.is_running_at(self.now)
            && token_of(slot.sequence) == *token
            && client_token == Some(&*slot.client_token);
        if !same {
            return Ok(None);
        }
        let next = token_of(slot.sequence + 1).mint(self.env.keys, slot.key);
        let operations: Result<Vec<_>, _> = slot
            .operations
            .iter()
            .map(|operation| operation.view(self.env.load))
            .collect();
        Ok(Some(CheckpointResponse {
            checkpoint_token: Some(next),
            new_execution_state: StatePage {
                operations: operations?,
                next_marker: None,
            },
        }))
    }

    /// Tells the handler everything it has not seen, and closes the checkpoint.
    fn respond(
        &mut self,
        client_token: Option<Arc<str>>,
        updates: u32,
    ) -> Result<Reply, Rejection> {
        let operations: Result<Vec<_>, _> = self
            .execution
            .unseen_operations()
            .map(|operation| operation.view(self.env.load))
            .collect();
        let operations = operations?;
        let key = self.env.keys.current().id();
        self.write(Change::Checkpointed {
            client_token,
            key,
            updates,
        })?;
        // None if this batch has closed the execution: its invocation is over.
        let next = self.execution.token_at(self.execution.gate.sequence);
        Ok(Reply::Checkpoint(CheckpointResponse {
            checkpoint_token: next.map(|next| next.mint(self.env.keys, key)),
            new_execution_state: StatePage {
                operations,
                next_marker: None,
            },
        }))
    }

    fn exceeded_quota(&self, updates: &[OperationUpdate]) -> Option<ErrorObject> {
        let limits = self.env.limits;
        let usage = self.execution.usage;
        let error = |text: String| Some(ErrorObject::new(error_type::QUOTA_EXCEEDED, text));
        if let Some(most) = limits.operations_max
            && usage.operations + self.cost(updates) > most
        {
            return error(format!(
                "the execution needs more than {most} durable operations"
            ));
        }
        if let Some(most) = limits.data_bytes_max {
            let bytes: usize = updates.iter().map(data_bytes).sum();
            if usage.data_bytes + bytes as u64 > most {
                return error(format!("the execution writes more than {most} bytes"));
            }
        }
        None
    }

    /// What a batch adds to the metered operations: one for each it creates, one for each retry.
    fn cost(&self, updates: &[OperationUpdate]) -> u64 {
        let created: BTreeSet<&OperationId> = updates
            .iter()
            .filter(|update| update.operation_type != OperationType::Execution)
            .map(|update| &update.id)
            .filter(|id| self.execution.operations.find(id).is_none())
            .collect();
        let retries = updates
            .iter()
            .filter(|update| update.action == OperationAction::Retry);
        (created.len() + retries.count()) as u64
    }

    fn update(&mut self, update: OperationUpdate) -> Result<(), Rejection> {
        match update.operation_type {
            OperationType::Execution => self.close_by_handler(update),
            OperationType::Callback => self.start_callback(update),
            OperationType::ChainedInvoke => self.start_invoke(update),
            OperationType::Context | OperationType::Step | OperationType::Wait => {
                let attempt = self.attempt(&update);
                let (subject, update) = self.subject(update);
                let change = plain_change(update, attempt);
                self.change(subject, change)
            }
        }
    }

    fn close_by_handler(&mut self, update: OperationUpdate) -> Result<(), Rejection> {
        if update.action == OperationAction::Fail {
            self.close_here(ExecutionStatus::Failed, None, update.error)
        } else {
            self.close_here(ExecutionStatus::Succeeded, update.payload, None)
        }
    }

    /// Closes the execution in the middle of an invocation, which is over for the record: whatever
    /// it still answers is too late. So the last event is the execution's end, as the service has
    /// it; AWS's runners in JavaScript wait for a history that ends like this.
    fn close_here(
        &mut self,
        status: ExecutionStatus,
        result: Option<Payload>,
        error: Option<SharedError>,
    ) -> Result<(), Rejection> {
        if let Some(current) = self.execution.gate.invocation.clone() {
            self.completed(&current, error.clone(), Ending::Clean)?;
        }
        self.close_execution(status, result, error)
    }

    /// The number an attempt has once it is finished.
    fn attempt(&self, update: &OperationUpdate) -> u32 {
        if update.operation_type != OperationType::Step {
            return 0;
        }
        let step = self.execution.operations.by_id(&update.id);
        step.map_or(0, |step| step.attempts_finished())
            .saturating_add(1)
    }

    fn subject(&self, mut update: OperationUpdate) -> (Subject, OperationUpdate) {
        let subject = match self.execution.operations.find(&update.id) {
            Some(index) => Subject::Known(index),
            None => Subject::New(Identity {
                id: update.id.clone(),
                operation_type: update.operation_type,
                parent: update.parent_id.take(),
                name: update.name.take(),
                sub_type: update.sub_type.take(),
            }),
        };
        (subject, update)
    }

    fn start_callback(&mut self, update: OperationUpdate) -> Result<(), Rejection> {
        let index = self.execution.operations.count();
        let options = update.callback_options.unwrap_or_default();
        let id = CallbackId::new(self.execution.id, index, &self.env.random);
        let (subject, _) = self.subject(update);
        self.change(
            subject,
            OperationChange::Started(Starting::Callback {
                callback_id: id.mint(self.env.keys).into(),
                timeout_seconds: options.timeout_seconds.unwrap_or(0),
                heartbeat_seconds: options.heartbeat_timeout_seconds.unwrap_or(0),
            }),
        )?;
        let operations = &self.execution.operations;
        let signal = operations.get(index).and_then(|wait| wait.signal());
        let buffered = signal
            .and_then(|name| operations.signals(name))
            .is_some_and(|signals| !signals.buffered.is_empty());
        if buffered {
            self.change(Subject::Known(index), OperationChange::SignalTaken)?;
        }
        Ok(())
    }

    fn start_invoke(&mut self, mut update: OperationUpdate) -> Result<(), Rejection> {
        let index = self.execution.operations.count();
        let options = update.chained_invoke_options.take().unwrap_or_default();
        let profile = self.execution.profile.clone();
        let target = match (self.env.resolve)(&options.function_name) {
            Target::Refused(error) => Err(error),
            Target::Plain { version, tenancy } => Ok((InvokeTarget::Plain { version }, tenancy)),
            Target::Durable {
                function,
                config,
                tenancy,
            } => {
                let child = ExecutionArn::of_child(&profile.arn, update.id.as_str(), function);
                Ok((InvokeTarget::Durable { child, config }, tenancy))
            }
        };
        let target = target.and_then(|(target, tenancy)| {
            let tenant = tenancy.invoked(options.tenant_id, profile.tenant.as_deref());
            let refused = |Rejection { code, message }| ErrorObject::new(code.name(), message);
            Ok((target, tenant.map_err(refused)?))
        });
        let function_name = options.function_name.into();
        let input = update.payload.take();
        let (subject, _) = self.subject(update);
        let (target, tenant, refused) = match target {
            Ok((target, tenant)) => (Some(target), tenant, None),
            Err(error) => (None, None, Some(error)),
        };
        let resolved = target.is_some();
        let trace = options.x_amzn_trace_id.or_else(|| profile.trace.clone());
        // A refused target leaves nothing but its name.
        let start = InvokeStart {
            function_name,
            tenant,
            trace: trace.filter(|_| resolved),
            input: input.filter(|_| resolved),
            target,
        };
        self.change(
            subject,
            OperationChange::Started(Starting::Invoke(Box::new(start))),
        )?;
        match refused {
            Some(error) => self.close(index, OperationStatus::Failed, None, Some(error)),
            None => Ok(()),
        }
    }
}

/// The change of an update that needs nothing but itself.
fn plain_change(update: OperationUpdate, attempt: u32) -> OperationChange {
    let status = match update.action {
        OperationAction::Start => {
            return OperationChange::Started(match update.operation_type {
                OperationType::Wait => Starting::Wait {
                    seconds: update
                        .wait_options
                        .and_then(|options| options.wait_seconds)
                        .unwrap_or(0),
                },
                OperationType::Step => Starting::Step,
                OperationType::Context
                | OperationType::Execution
                | OperationType::Callback
                | OperationType::ChainedInvoke => Starting::Context,
            });
        }
        OperationAction::Retry => {
            let options = update.step_options.unwrap_or_default();
            return OperationChange::Retried {
                result: update.payload,
                error: update.error,
                attempt,
                delay_seconds: options.next_attempt_delay_seconds.unwrap_or(0),
            };
        }
        OperationAction::Succeed => OperationStatus::Succeeded,
        OperationAction::Fail => OperationStatus::Failed,
        OperationAction::Cancel => OperationStatus::Cancelled,
    };
    OperationChange::Closed {
        status,
        result: update.payload,
        error: update.error,
        attempt,
        replay_children: update
            .context_options
            .is_some_and(|options| options.replay_children),
    }
}

fn data_bytes(update: &OperationUpdate) -> usize {
    update.payload.as_ref().map_or(0, |payload| payload.len())
        + update.error.as_ref().map_or(0, |error| error.bytes())
}

fn check_client_token(token: Option<&str>) -> Result<(), Rejection> {
    let legal = |token: &str| {
        (1..=CLIENT_TOKEN_LENGTH_MAX).contains(&token.len())
            && token.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
    };
    if token.is_none_or(legal) {
        Ok(())
    } else {
        Err(Rejection::invalid(format!(
            "ClientToken must be 1 to {CLIENT_TOKEN_LENGTH_MAX} printable characters"
        )))
    }
}

impl Execution {
    /// The token good for checkpoint number `sequence` of the current invocation.
    pub(crate) fn token_at(&self, sequence: u64) -> Option<CheckpointToken> {
        let current = self.gate.invocation.as_ref()?;
        Some(CheckpointToken::new(self.id, &current.id, sequence))
    }

    /// The text of the token that is good for the next checkpoint of this invocation.
    pub(crate) fn mint_token(&self, keys: &Keys, invocation: &str) -> String {
        CheckpointToken::new(self.id, invocation, self.gate.sequence)
            .mint(keys, keys.current().id())
    }

    /// Whether this token may write now.
    pub(crate) fn check_token(
        &self,
        now: crate::time::Timestamp,
        token: &CheckpointToken,
    ) -> Result<(), Rejection> {
        let refuse = |reason| Err(Rejection::stale_token(reason));
        if token.execution != self.id {
            return refuse("it belongs to another execution");
        }
        if !self.is_running_at(now) {
            return refuse("the execution has ended");
        }
        let Some(current) = self.token_at(self.gate.sequence) else {
            return refuse("no invocation is running");
        };
        if token.invocation != current.invocation {
            return refuse("another invocation has taken over");
        }
        if token.sequence != current.sequence {
            return refuse("it has already been used");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
