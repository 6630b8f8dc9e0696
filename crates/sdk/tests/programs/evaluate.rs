//! What a program must come to, computed without the SDK.

use crate::model::{
    Batch, Block, Callee, Combinator, Id, Input, Operation, Program, Reply, Rule, Statement,
    compensation,
};
use outlast::{ErrorKind, core::random::SplitMix64};
use std::{collections::BTreeMap, sync::Arc};

/// A failure, as far as it does not depend on texts that the service makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    /// What kind of error the call site sees.
    pub(crate) kind: ErrorKind,
    /// The message, or a word for the service's.
    pub(crate) message: String,
}

/// What a program must come to.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The handler's own outcome.
    pub(crate) outcome: Result<u64, Fail>,
    /// Steps that must have run to their end, and whether they succeeded.
    pub(crate) steps: BTreeMap<String, bool>,
    /// The compensations of each failed saga, in order.
    pub(crate) undone: Vec<Vec<String>>,
}

/// Evaluates a program.
pub(crate) fn evaluate(program: &Program) -> Expected {
    let mut evaluator = Evaluator::default();
    let outcome = evaluator.block_of(&program.root);
    Expected {
        outcome,
        steps: evaluator.steps.into_iter().collect(),
        undone: evaluator.undone,
    }
}

/// The value of a node. 52 bits, so that it is the same number in every JSON.
pub(crate) fn value(id: Id) -> u64 {
    SplitMix64::new(id).next_u64() >> 12
}

/// Adds a value to a sum in which order counts.
pub(crate) fn fold(sum: u64, next: u64) -> u64 {
    value(sum.rotate_left(7) ^ next)
}

/// A text as a value.
pub(crate) fn text(text: &str) -> u64 {
    text.bytes().fold(1, |sum, byte| fold(sum, u64::from(byte)))
}

/// An outcome as a value.
pub(crate) fn digest(outcome: &Result<u64, Fail>) -> u64 {
    match outcome {
        Ok(value) => fold(1, *value),
        Err(fail) => fold(text(&format!("{:?}", fail.kind)), text(&fail.message)),
    }
}

fn fail(kind: ErrorKind, message: impl Into<String>) -> Result<u64, Fail> {
    Err(Fail {
        kind,
        message: message.into(),
    })
}

/// Evaluates, and notes what must have happened on the way.
#[derive(Debug, Default)]
pub(crate) struct Evaluator {
    steps: Vec<(String, bool)>,
    undone: Vec<Vec<String>>,
}

impl Evaluator {
    /// Evaluates something of which nobody can say how far it comes, or whether it starts at all.
    fn unsure<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        let (steps, undone) = (self.steps.len(), self.undone.len());
        let outcome = evaluate(self);
        self.steps.truncate(steps);
        self.undone.truncate(undone);
        outcome
    }

    /// Evaluates something that is only sure to have run to its end if it came out as wanted.
    fn sure_if<T>(
        &mut self,
        sure: impl FnOnce(&T) -> bool,
        evaluate: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let (steps, undone) = (self.steps.len(), self.undone.len());
        let outcome = evaluate(self);
        if !sure(&outcome) {
            self.steps.truncate(steps);
            self.undone.truncate(undone);
        }
        outcome
    }

    /// The outcome of a block.
    pub(crate) fn block_of(&mut self, block: &Block) -> Result<u64, Fail> {
        let mut sum = 0;
        for statement in block.iter() {
            let (outcome, caught) = self.statement(statement);
            sum = match outcome {
                Err(fail) if !caught => return Err(fail),
                outcome => fold(sum, digest(&outcome)),
            };
        }
        Ok(sum)
    }

    fn statement(&mut self, statement: &Statement) -> (Result<u64, Fail>, bool) {
        match statement {
            Statement::Await {
                operation, caught, ..
            } => (self.operation(operation), *caught),
            Statement::Later {
                operation,
                meanwhile,
                caught,
            } => {
                let other = self.block_of(meanwhile);
                let awaited = other.is_ok();
                let outcome = self.sure_if(|_| awaited, |this| this.operation(operation));
                (both(other, outcome), *caught)
            }
            Statement::Forget(operation) => {
                let _ = self.unsure(|this| this.operation(operation));
                (Ok(0), false)
            }
            Statement::Inside {
                id,
                operation,
                caught,
            } => {
                let outcome = self.operation(operation);
                self.steps.push((format!("s{id}"), outcome.is_ok()));
                let outcome = outcome.map_err(|fail| Fail {
                    kind: ErrorKind::Step,
                    ..fail
                });
                (outcome, *caught)
            }
            Statement::Callback {
                id,
                reply,
                meanwhile,
                caught,
            } => {
                let other = self.block_of(meanwhile);
                (both(other, replied(*id, *reply)), *caught)
            }
            Statement::Saga {
                id,
                parts,
                fails,
                caught,
            } => (self.saga(*id, parts, *fails), *caught),
            Statement::Fail(id) => (fail(ErrorKind::User, format!("e{id}")), false),
        }
    }

    fn saga(&mut self, id: Id, parts: &[Arc<Operation>], fails: bool) -> Result<u64, Fail> {
        let mut sum = 0;
        let mut outcome = None;
        let mut done = 0;
        for part in parts {
            match self.operation(part) {
                Ok(value) => {
                    sum = fold(sum, value);
                    done += 1;
                }
                Err(fail) => {
                    outcome = Some(Err(fail));
                    break;
                }
            }
        }
        let outcome = match outcome {
            Some(outcome) => outcome,
            None if fails => fail(ErrorKind::User, format!("e{id}")),
            None => Ok(sum),
        };
        if outcome.is_err() {
            let names: Vec<String> = (0..done)
                .rev()
                .map(|part| format!("u{id}.{part}"))
                .collect();
            for (name, part) in names.iter().zip((0..done).rev()) {
                self.steps.push((name.clone(), !compensation(id, part).0));
            }
            self.undone.push(names);
        }
        outcome
    }

    /// The outcome of an operation.
    pub(crate) fn operation(&mut self, operation: &Operation) -> Result<u64, Fail> {
        match operation {
            Operation::Step {
                id,
                fails,
                attempts,
                ..
            } => {
                let succeeds = fails < attempts;
                self.steps.push((format!("s{id}"), succeeds));
                if succeeds {
                    Ok(value(*id))
                } else {
                    fail(ErrorKind::Step, format!("e{id}.{attempts}"))
                }
            }
            Operation::Wait(id) => Ok(value(*id)),
            Operation::Condition {
                id,
                met,
                checks,
                breaks,
            } => {
                let last = (*met).min(u64::from(*checks));
                let outcome = if *breaks && last == *met {
                    fail(ErrorKind::Condition, format!("e{id}"))
                } else if last < *met {
                    let message = format!("the condition was not met after {checks} checks");
                    fail(ErrorKind::Condition, message)
                } else {
                    Ok(*met)
                };
                self.steps.push((format!("p{id}"), outcome.is_ok()));
                outcome
            }
            Operation::Exchange(id, reply) => {
                let submitted = *reply != Reply::NotSubmitted;
                self.steps.push((format!("w{id}-submitter"), submitted));
                replied(*id, *reply)
            }
            Operation::Invoke(id, callee) => match callee {
                Callee::Plain | Callee::Durable => Ok(value(*id)),
                Callee::PlainFailing | Callee::DurableFailing => {
                    fail(ErrorKind::InvokeFailed, format!("e{id}"))
                }
                Callee::Slow => fail(ErrorKind::InvokeTimedOut, "timeout"),
                Callee::Missing => fail(ErrorKind::InvokeFailed, "missing"),
            },
            Operation::Signal(id, true) => Ok(value(*id)),
            Operation::Signal(_, false) => fail(ErrorKind::SignalTimeout, "timeout"),
            Operation::Child { block, .. } => self.block_of(block).map_err(in_context),
            Operation::Retried(_, attempts) => self.retried(attempts).map_err(in_context),
            Operation::Batch(batch) => self.batch(batch),
            Operation::Combine(_, kind, inputs) => self.combine(*kind, inputs),
        }
    }

    fn retried(&mut self, attempts: &[Block]) -> Result<u64, Fail> {
        let mut last = Ok(0);
        for block in attempts {
            last = self.block_of(block);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn batch(&mut self, batch: &Batch) -> Result<u64, Fail> {
        if batch.batch_size > 1 {
            return self.chunks(batch);
        }
        let rule = batch.rule;
        let fails = {
            let items = batch.items.iter();
            let mut scratch = Self::default();
            items
                .filter(
                    |item| matches!(item, Input::Runs(block) if scratch.block_of(block).is_err()),
                )
                .count()
        };
        let mut sum = 0;
        for item in &batch.items {
            let Input::Runs(block) = item else { continue };
            let sure = |outcome: &Result<u64, Fail>| match rule {
                Rule::AllCompleted | Rule::Tolerated(_) => true,
                Rule::AllSuccessful => fails == 0 || outcome.is_err(),
                Rule::Exceeded(_) => outcome.is_err(),
                Rule::MinSuccessful(_) | Rule::Custom(_) => outcome.is_ok(),
            };
            let outcome = self.sure_if(sure, |this| this.block_of(block));
            sum = match (rule, outcome) {
                (Rule::AllSuccessful, Err(fail)) => return Err(in_context(fail)),
                (Rule::AllSuccessful | Rule::MinSuccessful(_) | Rule::Custom(_), Ok(value)) => {
                    fold(sum, value)
                }
                (Rule::MinSuccessful(_) | Rule::Custom(_), Err(_)) | (Rule::Exceeded(_), Ok(_)) => {
                    sum
                }
                (Rule::AllCompleted | Rule::Tolerated(_), Ok(value)) => fold(sum, value),
                (Rule::AllCompleted | Rule::Tolerated(_) | Rule::Exceeded(_), Err(fail)) => {
                    fold(sum, text(&fail.message))
                }
            };
        }
        Ok(sum)
    }

    /// Items of a chunk run one after another and share the chunk's fate.
    fn chunks(&mut self, batch: &Batch) -> Result<u64, Fail> {
        let mut sum = 0;
        for chunk in batch.items.chunks(batch.batch_size) {
            let mut values = Vec::new();
            let mut failed = None;
            for item in chunk {
                let Input::Runs(block) = item else { continue };
                match self.block_of(block) {
                    Ok(value) => values.push(value),
                    Err(fail) => {
                        failed = Some(fail);
                        break;
                    }
                }
            }
            sum = match failed {
                None => values.into_iter().fold(sum, fold),
                Some(fail) => chunk
                    .iter()
                    .fold(sum, |sum, _| fold(sum, text(&fail.message))),
            };
        }
        Ok(sum)
    }

    fn combine(&mut self, kind: Combinator, inputs: &[Input<Arc<Operation>>]) -> Result<u64, Fail> {
        let mut scratch = Self::default();
        let running = || {
            inputs.iter().filter_map(|input| match input {
                Input::Runs(operation) => Some(operation),
                Input::Never(_) => None,
            })
        };
        let outcomes: Vec<Result<u64, Fail>> = running().map(|it| scratch.operation(it)).collect();
        let all_fail = outcomes.iter().all(Result::is_err);
        let all_succeed = outcomes.iter().all(Result::is_ok);
        for operation in running() {
            let sure = |outcome: &Result<u64, Fail>| match kind {
                Combinator::JoinAll | Combinator::Race => true,
                Combinator::TryJoinAll => all_succeed || outcome.is_err(),
                Combinator::SelectOk => all_fail || outcome.is_ok(),
            };
            let _ = self.sure_if(sure, |this| this.operation(operation));
        }
        let combined = |fail: Fail| Fail {
            kind: ErrorKind::Combinator,
            ..fail
        };
        match kind {
            Combinator::JoinAll => Ok(outcomes
                .iter()
                .fold(0, |sum, outcome| fold(sum, digest(outcome)))),
            Combinator::TryJoinAll => outcomes
                .into_iter()
                .try_fold(0, |sum, outcome| outcome.map(|value| fold(sum, value)))
                .map_err(combined),
            Combinator::SelectOk if all_fail => fail(ErrorKind::Combinator, "all"),
            Combinator::SelectOk | Combinator::Race => {
                let wanted = outcomes
                    .into_iter()
                    .find(|outcome| kind == Combinator::Race || outcome.is_ok());
                wanted.unwrap_or(Ok(0)).map_err(combined)
            }
        }
    }
}

/// The outcome of two things of which the first decides whether the second is awaited.
fn both(first: Result<u64, Fail>, second: Result<u64, Fail>) -> Result<u64, Fail> {
    let first = first?;
    Ok(fold(first, second?))
}

fn in_context(fail: Fail) -> Fail {
    Fail {
        kind: ErrorKind::ChildContext,
        ..fail
    }
}

fn replied(id: Id, reply: Reply) -> Result<u64, Fail> {
    match reply {
        Reply::Success => Ok(value(id)),
        Reply::Failure => fail(ErrorKind::CallbackFailed, format!("e{id}")),
        Reply::Timeout => fail(ErrorKind::CallbackTimeout, "timeout"),
        Reply::NotSubmitted => fail(ErrorKind::CallbackSubmitter, format!("e{id}")),
    }
}
