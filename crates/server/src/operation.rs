//! Every operation by its name, and the least that a caller must be to ask for it. One table, read
//! by whoever admits callers and by whoever counts requests.

use crate::route::{
    AliasAction, CallbackAction, ExecutionAction, FunctionAction, LogAction, OwnAction, Route,
};

/// An operation of the service, or one of our own.
#[expect(missing_docs, reason = "each is named as the service names it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    CheckpointDurableExecution,
    GetDurableExecutionState,
    GetDurableExecution,
    GetDurableExecutionHistory,
    StopDurableExecution,
    SendDurableExecutionCallbackSuccess,
    SendDurableExecutionCallbackFailure,
    SendDurableExecutionCallbackHeartbeat,
    ListDurableExecutionsByFunction,
    Invoke,
    CreateFunction,
    ListFunctions,
    GetFunction,
    DeleteFunction,
    GetFunctionConfiguration,
    UpdateFunctionConfiguration,
    UpdateFunctionCode,
    PublishVersion,
    ListVersionsByFunction,
    CreateAlias,
    ListAliases,
    GetAlias,
    UpdateAlias,
    DeleteAlias,
    CheckpointMany,
    Why,
    Resume,
    Fail,
    Delete,
    Changed,
    End,
    Clock,
    Skip,
    Signal,
    ReadLogs,
    AddLogs,
    RuntimeApi,
    Health,
    Metrics,
}

/// Who may ask for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// Everybody, without saying who they are.
    Anybody,
    /// Everybody who is known.
    Known,
    /// Whoever may look.
    Viewer,
    /// Whoever may start and stop executions and answer for the world outside.
    Operator,
    /// Whoever runs handlers.
    Worker,
    /// Whoever may change which functions there are.
    Admin,
}

/// All operations, in the order of the enum.
pub const OPERATIONS: [(Operation, &str, Least); 39] = {
    use Least::{Admin, Anybody, Known, Operator, Viewer, Worker};
    use Operation as Is;
    [
        (
            Is::CheckpointDurableExecution,
            "CheckpointDurableExecution",
            Worker,
        ),
        (
            Is::GetDurableExecutionState,
            "GetDurableExecutionState",
            Worker,
        ),
        (Is::GetDurableExecution, "GetDurableExecution", Viewer),
        (
            Is::GetDurableExecutionHistory,
            "GetDurableExecutionHistory",
            Viewer,
        ),
        (Is::StopDurableExecution, "StopDurableExecution", Operator),
        (
            Is::SendDurableExecutionCallbackSuccess,
            "SendDurableExecutionCallbackSuccess",
            Operator,
        ),
        (
            Is::SendDurableExecutionCallbackFailure,
            "SendDurableExecutionCallbackFailure",
            Operator,
        ),
        (
            Is::SendDurableExecutionCallbackHeartbeat,
            "SendDurableExecutionCallbackHeartbeat",
            Operator,
        ),
        (
            Is::ListDurableExecutionsByFunction,
            "ListDurableExecutionsByFunction",
            Viewer,
        ),
        (Is::Invoke, "Invoke", Operator),
        (Is::CreateFunction, "CreateFunction", Admin),
        (Is::ListFunctions, "ListFunctions", Viewer),
        (Is::GetFunction, "GetFunction", Viewer),
        (Is::DeleteFunction, "DeleteFunction", Admin),
        (
            Is::GetFunctionConfiguration,
            "GetFunctionConfiguration",
            // Whoever runs its handlers has to know what to run them with.
            Known,
        ),
        (
            Is::UpdateFunctionConfiguration,
            "UpdateFunctionConfiguration",
            Admin,
        ),
        (Is::UpdateFunctionCode, "UpdateFunctionCode", Admin),
        (Is::PublishVersion, "PublishVersion", Admin),
        (Is::ListVersionsByFunction, "ListVersionsByFunction", Viewer),
        (Is::CreateAlias, "CreateAlias", Admin),
        (Is::ListAliases, "ListAliases", Viewer),
        (Is::GetAlias, "GetAlias", Viewer),
        (Is::UpdateAlias, "UpdateAlias", Admin),
        (Is::DeleteAlias, "DeleteAlias", Admin),
        (Is::CheckpointMany, "CheckpointMany", Worker),
        (Is::Why, "Why", Viewer),
        (Is::Resume, "Resume", Operator),
        (Is::Fail, "Fail", Operator),
        (Is::Delete, "Delete", Operator),
        (Is::Changed, "Changed", Worker),
        (Is::End, "End", Viewer),
        (Is::Clock, "Clock", Viewer),
        (Is::Skip, "Skip", Operator),
        (Is::Signal, "Signal", Operator),
        (Is::ReadLogs, "ReadLogs", Viewer),
        (Is::AddLogs, "AddLogs", Worker),
        (Is::RuntimeApi, "RuntimeApi", Worker),
        (Is::Health, "Health", Anybody),
        (Is::Metrics, "Metrics", Viewer),
    ]
};

impl Operation {
    /// The operation that a route asks for.
    pub fn of(route: &Route<'_>) -> Self {
        match route {
            Route::Execution(_, action) => match action {
                ExecutionAction::Checkpoint => Self::CheckpointDurableExecution,
                ExecutionAction::State => Self::GetDurableExecutionState,
                ExecutionAction::Get => Self::GetDurableExecution,
                ExecutionAction::History => Self::GetDurableExecutionHistory,
                ExecutionAction::Stop => Self::StopDurableExecution,
            },
            Route::Callback(_, action) => match action {
                CallbackAction::Succeed => Self::SendDurableExecutionCallbackSuccess,
                CallbackAction::Fail => Self::SendDurableExecutionCallbackFailure,
                CallbackAction::Heartbeat => Self::SendDurableExecutionCallbackHeartbeat,
            },
            Route::Executions(_) => Self::ListDurableExecutionsByFunction,
            Route::Invoke(_) => Self::Invoke,
            Route::CreateFunction => Self::CreateFunction,
            Route::ListFunctions => Self::ListFunctions,
            Route::Function(_, action) => match action {
                FunctionAction::Get => Self::GetFunction,
                FunctionAction::Delete => Self::DeleteFunction,
                FunctionAction::GetConfiguration => Self::GetFunctionConfiguration,
                FunctionAction::UpdateConfiguration => Self::UpdateFunctionConfiguration,
                FunctionAction::UpdateCode => Self::UpdateFunctionCode,
                FunctionAction::Publish => Self::PublishVersion,
                FunctionAction::ListVersions => Self::ListVersionsByFunction,
                FunctionAction::CreateAlias => Self::CreateAlias,
                FunctionAction::ListAliases => Self::ListAliases,
            },
            Route::Alias(_, _, action) => match action {
                AliasAction::Get => Self::GetAlias,
                AliasAction::Update => Self::UpdateAlias,
                AliasAction::Delete => Self::DeleteAlias,
            },
            Route::Checkpoints => Self::CheckpointMany,
            Route::Own(_, action) => match action {
                OwnAction::Why => Self::Why,
                OwnAction::Resume => Self::Resume,
                OwnAction::Fail => Self::Fail,
                OwnAction::Delete => Self::Delete,
                OwnAction::Changed => Self::Changed,
                OwnAction::End => Self::End,
                OwnAction::Clock => Self::Clock,
                OwnAction::Skip => Self::Skip,
            },
            Route::Signal(..) => Self::Signal,
            Route::Logs(_, action) => match action {
                LogAction::Read => Self::ReadLogs,
                LogAction::Add => Self::AddLogs,
            },
            Route::Runtime(_) => Self::RuntimeApi,
            Route::Health => Self::Health,
            Route::Metrics => Self::Metrics,
        }
    }

    /// Its place in [`OPERATIONS`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        OPERATIONS.get(self.index()).map_or("", |(_, name, _)| name)
    }

    /// Who may ask for it.
    pub fn least(self) -> Least {
        let row = OPERATIONS.get(self.index());
        row.map_or(Least::Admin, |(_, _, least)| *least)
    }

    /// Whether it answers a callback, whose id is hard to guess and good for that alone.
    pub const fn is_callback(self) -> bool {
        matches!(
            self,
            Self::SendDurableExecutionCallbackSuccess
                | Self::SendDurableExecutionCallbackFailure
                | Self::SendDurableExecutionCallbackHeartbeat
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_operation_at_its_place_under_its_own_name() {
        for (index, (operation, name, _)) in OPERATIONS.iter().enumerate() {
            assert_eq!(operation.index(), index);
            assert_eq!(format!("{operation:?}"), *name);
            assert_eq!(operation.name(), *name);
        }
        assert_eq!(OPERATIONS.len(), Operation::Metrics.index() + 1);
    }
}
