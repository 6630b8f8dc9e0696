//! Compares what came of every execution with what its program says.

use crate::{
    model::Scripted,
    plan::Run,
    play::message,
    shadow::Shadow,
    world::{State, World},
};
use outlast::core::{
    arn::ExecutionId,
    id::OperationId,
    record::nothing,
    wire::{ExecutionStatus, Operation, OperationStatus, OperationType},
};
use std::collections::{BTreeMap, BTreeSet};

/// Judges a world in which everything has ended.
pub(crate) fn judge(world: &World) {
    let mut problems = Vec::new();
    {
        let state = world.state();
        for (index, run) in world.plan.runs.iter().enumerate() {
            let id = state.ids.get(&index);
            let found = id.and_then(|id| Some((*id, state.shadows.get(id)?)));
            let judged = match found {
                Some((id, shadow)) => outcome(run, shadow)
                    .and_then(|whole| steps(run, shadow, whole))
                    .and_then(|()| bodies(run, &state, id, shadow)),
                None => Err("it is not there".to_owned()),
            };
            problems.extend(judged.err().map(|law| format!("run-{index}: {law}")));
        }
    }
    for problem in problems {
        world.violated(problem);
    }
}

/// Whether the outcome is one the program can have; gives whether it ran to its end.
fn outcome(run: &Run, shadow: &Shadow) -> Result<bool, String> {
    let execution = &shadow.execution;
    let wanted = run.expected.outcome.as_ref();
    let found = match execution.status() {
        ExecutionStatus::Succeeded => {
            let result = execution.result().map(|result| result.to_string());
            let text = result.unwrap_or_default();
            let sum = text.trim_start_matches('[').split(',').next();
            Ok(sum.and_then(|sum| sum.parse().ok()).unwrap_or_default())
        }
        ExecutionStatus::Failed => Err(execution.error().map(message).unwrap_or_default()),
        ExecutionStatus::Stopped if run.stop_at.is_some() => return Ok(false),
        ExecutionStatus::TimedOut if run.brief => return Ok(false),
        status @ (ExecutionStatus::Running
        | ExecutionStatus::Stopped
        | ExecutionStatus::TimedOut) => return Err(format!("it is {status}")),
    };
    let wanted = wanted.copied().map_err(|fail| fail.message.clone());
    if found == wanted {
        Ok(true)
    } else {
        Err(format!("it came to {found:?} instead of {wanted:?}"))
    }
}

fn steps(run: &Run, shadow: &Shadow, whole: bool) -> Result<(), String> {
    if !whole {
        return Ok(());
    }
    let operations = shadow.execution.operations(&nothing);
    let operations = operations.map_err(|error| error.to_string())?;
    let mut ended: BTreeMap<&str, Vec<OperationStatus>> = BTreeMap::new();
    for operation in &operations {
        if operation.operation_type == OperationType::Step {
            let name = operation.name.as_deref().unwrap_or_default();
            ended.entry(name).or_default().push(operation.status);
        }
    }
    for (name, succeeded) in &run.expected.steps {
        let wanted = if *succeeded {
            OperationStatus::Succeeded
        } else {
            OperationStatus::Failed
        };
        let found = ended.get(name.as_str());
        if found.is_none_or(|found| *found != [wanted]) {
            return Err(format!(
                "the step {name} should be {wanted} once: {found:?}"
            ));
        }
    }
    Ok(())
}

/// No body runs after its success was acknowledged, and no attempt of an at-most-once step twice.
fn bodies(run: &Run, state: &State, id: ExecutionId, shadow: &Shadow) -> Result<(), String> {
    let once: BTreeSet<&str> = run
        .program
        .script
        .iter()
        .filter_map(|scripted| match scripted {
            Scripted::Step(name, _, false) => Some(name.as_str()),
            Scripted::Step(..)
            | Scripted::Callback(..)
            | Scripted::Signal(_)
            | Scripted::SlowFunction(_) => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    for (number, body) in run.player.bodies().iter().enumerate() {
        let operation: OperationId = OperationId::from(body.operation.as_str());
        let found = shadow.execution.operation(&operation, &nothing);
        let found: Option<Operation> = found.map_err(|error| error.to_string())?;
        let name = found
            .as_ref()
            .and_then(|found| found.name.as_deref())
            .unwrap_or_default();
        let done = state.acknowledged.get(&(id, operation));
        let zombie = state.zombies.contains(body.invocation.as_str());
        if done.is_some_and(|done| number >= *done) && !zombie {
            return Err(format!("the body of {name} ran after it was recorded"));
        }
        if once.contains(name) && !seen.insert((body.operation.clone(), body.attempt)) {
            return Err(format!(
                "attempt {} of the at-most-once step {name} ran twice",
                body.attempt
            ));
        }
    }
    Ok(())
}
