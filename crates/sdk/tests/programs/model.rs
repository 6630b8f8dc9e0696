//! What a random program is: a tree of durable operations with unique ids, and how one is drawn
//! from a seed. Knows nothing of how programs run.
//!
//! A program's outcome must not depend on the order in which things complete. The generator
//! therefore evaluates what it has drawn and only then chooses rules (of a batch, of a combinator)
//! under which that holds; an operation that never completes stands in for a sure loser.

use crate::evaluate::{Evaluator, value};
use outlast::core::random::SplitMix64;
use std::sync::Arc;

/// Names a node; every name in the program is made from one.
pub(crate) type Id = u64;

/// Statements that run one after another in one context.
pub(crate) type Block = Arc<[Statement]>;

/// A whole program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The handler's statements.
    pub(crate) root: Block,
    /// What the world around it must know.
    pub(crate) script: Vec<Scripted>,
}

/// Something outside the handler that a node relies on, or that a fault can name.
#[derive(Clone, Debug)]
pub(crate) enum Scripted {
    /// A callback of this name gets this reply.
    Callback(String, Id, Reply),
    /// A signal is sent.
    Signal(Id),
    /// An invoke whose function times out.
    SlowFunction(Id),
    /// A step of this name has up to this many attempts, and starts without waiting for the write.
    Step(String, u32, bool),
}

/// One statement. A failure ends the block unless it is caught.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// Awaits an operation, by key or by position.
    Await {
        /// The operation.
        operation: Arc<Operation>,
        /// Whether it is identified by a key.
        keyed: bool,
        /// Whether its failure is caught.
        caught: bool,
    },
    /// Spawns an operation, does something else, then awaits it.
    Later {
        /// The operation.
        operation: Arc<Operation>,
        /// What runs before it is awaited.
        meanwhile: Block,
        /// Whether a failure of either is caught.
        caught: bool,
    },
    /// Spawns an operation and drops its handle.
    Forget(Arc<Operation>),
    /// A step whose body waits for the handle of a spawned operation.
    Inside {
        /// The step.
        id: Id,
        /// The operation.
        operation: Arc<Operation>,
        /// Whether its failure is caught.
        caught: bool,
    },
    /// Opens a callback, does something else, then awaits the reply.
    Callback {
        /// The callback.
        id: Id,
        /// What comes.
        reply: Reply,
        /// What runs before the reply is awaited.
        meanwhile: Block,
        /// Whether a failure of either is caught.
        caught: bool,
    },
    /// Operations with compensations, and whether the block fails after them.
    Saga {
        /// The saga.
        id: Id,
        /// Its parts.
        parts: Vec<Arc<Operation>>,
        /// Whether the block fails after its parts.
        fails: bool,
        /// Whether its failure is caught.
        caught: bool,
    },
    /// Fails, if the block did not before.
    Fail(Id),
}

/// What comes for a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A value.
    Success,
    /// A failure.
    Failure,
    /// Nothing, until it times out.
    Timeout,
    /// The submitter fails; only where there is one.
    NotSubmitted,
}

/// One operation: one builder.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A step that fails `fails` times and has `attempts` attempts.
    Step {
        /// The step.
        id: Id,
        /// Attempts that fail.
        fails: u32,
        /// Attempts there are.
        attempts: u32,
        /// Whether an interrupted attempt is over. Such a step always succeeds in the end.
        at_most_once: bool,
    },
    /// A timer.
    Wait(Id),
    /// A condition that is met at check `met`, has `checks` of them, and may break at one.
    Condition {
        /// The condition.
        id: Id,
        /// The check that meets it.
        met: u64,
        /// Checks there are.
        checks: u32,
        /// Whether the last check before it is met fails.
        breaks: bool,
    },
    /// A callback with a submitter.
    Exchange(Id, Reply),
    /// An invoke.
    Invoke(Id, Callee),
    /// A signal, which comes or does not.
    Signal(Id, bool),
    /// A child context.
    Child {
        /// The context.
        id: Id,
        /// Whether it has no record.
        flat: bool,
        /// What runs in it.
        block: Block,
    },
    /// A retried block; each attempt runs statements of its own.
    Retried(Id, Vec<Block>),
    /// A map or a parallel.
    Batch(Batch),
    /// A combinator.
    Combine(Id, Combinator, Vec<Input<Arc<Operation>>>),
}

/// What is invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// An ordinary function.
    Plain,
    /// An ordinary function that fails.
    PlainFailing,
    /// A durable function.
    Durable,
    /// A durable function that fails.
    DurableFailing,
    /// A function that times out.
    Slow,
    /// A function that does not exist.
    Missing,
}

/// An input of a combinator or an item of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Input<T> {
    /// It runs.
    Runs(T),
    /// It never completes.
    Never(Id),
}

/// How inputs are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combinator {
    /// Every outcome.
    JoinAll,
    /// All values, or the failure.
    TryJoinAll,
    /// The success.
    SelectOk,
    /// The only one that completes.
    Race,
}

/// A map or a parallel.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// The batch.
    pub(crate) id: Id,
    /// A parallel instead of a map.
    pub(crate) parallel: bool,
    /// Its items.
    pub(crate) items: Vec<Input<Block>>,
    /// How many may be in flight.
    pub(crate) max_concurrency: Option<usize>,
    /// When it is over.
    pub(crate) rule: Rule,
    /// Whether items have no records.
    pub(crate) flat: bool,
    /// Items per iteration of a map.
    pub(crate) batch_size: usize,
}

/// When a batch is over, and what of its result does not depend on order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// All values, or the only failure.
    AllSuccessful,
    /// Everything.
    AllCompleted,
    /// Everything; failures stay within what is tolerated.
    Tolerated(u64),
    /// The failures, one more than is tolerated.
    Exceeded(u64),
    /// The values, as many as there are successes.
    MinSuccessful(u64),
    /// The same by a rule of the program's own.
    Custom(u64),
}

impl Program {
    /// Draws the program of a seed, with about `size` operations.
    pub(crate) fn draw(seed: u64, size: u64) -> Self {
        let mut generator = Generator {
            random: SplitMix64::new(seed),
            script: Vec::new(),
            next_id: 0,
            budget: size,
        };
        let root = generator.block(3, size);
        Self {
            root,
            script: generator.script,
        }
    }
}

struct Generator {
    random: SplitMix64,
    script: Vec<Scripted>,
    next_id: Id,
    budget: u64,
}

impl Generator {
    fn id(&mut self) -> Id {
        self.next_id += 1;
        self.budget = self.budget.saturating_sub(1);
        self.next_id
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.below(high - low + 1)
    }

    /// Up to `length` statements, at least one.
    fn block(&mut self, depth: u32, length: u64) -> Block {
        let length = self.between(1, length.max(1));
        let mut statements = Vec::new();
        while statements.is_empty() || (self.budget > 0 && (statements.len() as u64) < length) {
            statements.push(self.statement(depth));
        }
        if self.one_in(12) {
            statements.push(Statement::Fail(self.id()));
        }
        statements.into()
    }

    fn statement(&mut self, depth: u32) -> Statement {
        let caught = !self.one_in(6);
        let choice = if depth == 0 { 0 } else { self.random.below(20) };
        match choice {
            0..=11 => Statement::Await {
                operation: self.operation(depth),
                keyed: self.one_in(8),
                caught,
            },
            12..=13 => Statement::Later {
                operation: self.operation(depth - 1),
                meanwhile: self.block(depth - 1, 2),
                caught,
            },
            14 => Statement::Forget(self.operation(depth - 1)),
            15 => Statement::Inside {
                id: self.step_id("s", 1),
                operation: self.operation(depth - 1),
                caught,
            },
            16..=17 => {
                let reply = self.reply(3);
                let id = self.id();
                self.script
                    .push(Scripted::Callback(format!("c{id}"), id, reply));
                Statement::Callback {
                    id,
                    reply,
                    meanwhile: self.block(depth - 1, 2),
                    caught,
                }
            }
            _ => {
                let id = self.id();
                let parts = self.between(1, 3);
                let parts = (0..parts).map(|_| self.operation(depth - 1)).collect();
                Statement::Saga {
                    id,
                    parts,
                    fails: self.one_in(2),
                    caught,
                }
            }
        }
    }

    fn step_id(&mut self, prefix: &str, attempts: u32) -> Id {
        let id = self.id();
        self.script
            .push(Scripted::Step(format!("{prefix}{id}"), attempts, true));
        id
    }

    fn reply(&mut self, kinds: u64) -> Reply {
        match self.random.below(kinds + 2) {
            1 => Reply::Failure,
            2 => Reply::Timeout,
            3 if kinds > 3 => Reply::NotSubmitted,
            _ => Reply::Success,
        }
    }

    fn operation(&mut self, depth: u32) -> Arc<Operation> {
        let kinds = if depth == 0 || self.budget == 0 {
            10
        } else {
            17
        };
        Arc::new(match self.random.below(kinds) {
            0..=3 => self.step(),
            4 => Operation::Wait(self.id()),
            5 => Operation::Condition {
                id: self.step_id("p", 1),
                met: self.between(1, 3),
                checks: u32::try_from(self.between(2, 4)).unwrap_or(2),
                breaks: self.one_in(5),
            },
            6..=7 => {
                let reply = self.reply(4);
                let id = self.id();
                self.script
                    .push(Scripted::Callback(format!("w{id}"), id, reply));
                self.script
                    .push(Scripted::Step(format!("w{id}-submitter"), 2, true));
                Operation::Exchange(id, reply)
            }
            8 => self.invoke(),
            9 => {
                let (id, comes) = (self.id(), !self.one_in(4));
                if comes {
                    self.script.push(Scripted::Signal(id));
                }
                Operation::Signal(id, comes)
            }
            10..=11 => Operation::Child {
                id: self.id(),
                flat: self.one_in(3),
                block: self.block(depth - 1, 3),
            },
            12 => {
                let id = self.id();
                let attempts = self.between(1, 3);
                Operation::Retried(
                    id,
                    (0..attempts).map(|_| self.block(depth - 1, 2)).collect(),
                )
            }
            13..=14 => self.batch(depth),
            _ => self.combine(depth),
        })
    }

    fn step(&mut self) -> Operation {
        let at_most_once = self.one_in(4);
        let fails = self.random.below(3);
        let succeeds = at_most_once || !self.one_in(3);
        // An at-most-once step has attempts to spare: a crash in its body uses one up.
        let spare = if at_most_once { 12 } else { 1 };
        let attempts = if succeeds {
            fails + spare
        } else {
            fails.max(1)
        };
        let fails = if succeeds { fails } else { attempts };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(1);
        let id = self.id();
        let name = format!("s{id}");
        self.script
            .push(Scripted::Step(name, narrow(fails) + 1, !at_most_once));
        Operation::Step {
            id,
            fails: narrow(fails),
            attempts: narrow(attempts),
            at_most_once,
        }
    }

    fn invoke(&mut self) -> Operation {
        let id = self.id();
        let callee = match self.random.below(8) {
            0..=2 => Callee::Plain,
            3..=4 => Callee::Durable,
            5 => Callee::PlainFailing,
            6 => Callee::DurableFailing,
            _ if self.one_in(2) => Callee::Missing,
            _ => Callee::Slow,
        };
        if callee == Callee::Slow {
            self.script.push(Scripted::SlowFunction(id));
        }
        Operation::Invoke(id, callee)
    }

    fn batch(&mut self, depth: u32) -> Operation {
        let id = self.id();
        let count = self.between(0, 4);
        let mut items: Vec<Input<Block>> = (0..count)
            .map(|_| Input::Runs(self.block(depth - 1, 2)))
            .collect();
        let (succeeded, failed) = tally(&items, Evaluator::block_of);
        let mut choices = vec![Rule::AllCompleted, Rule::Tolerated(failed)];
        if failed <= 1 {
            choices.push(Rule::AllSuccessful);
        }
        if failed > 0 {
            choices.push(Rule::Exceeded(failed - 1));
        }
        if succeeded > 0 {
            choices.extend([Rule::MinSuccessful(succeeded), Rule::Custom(succeeded)]);
        }
        let at = usize::try_from(self.random.below(choices.len() as u64)).unwrap_or(0);
        let rule = choices.get(at).copied().unwrap_or(Rule::AllCompleted);
        let may_hang = match rule {
            Rule::AllSuccessful => failed == 1,
            Rule::AllCompleted | Rule::Tolerated(_) => false,
            Rule::Exceeded(_) | Rule::MinSuccessful(_) | Rule::Custom(_) => true,
        };
        let hung = if may_hang { self.random.below(3) } else { 0 };
        self.mix_in(&mut items, hung);
        // What hangs keeps its slot, so there must be one more.
        let bounded = !self.one_in(2);
        let max_concurrency =
            bounded.then(|| usize::try_from(hung + self.between(1, 3)).unwrap_or(1));
        let whole = matches!(rule, Rule::AllCompleted) || failed == 0;
        let parallel = self.one_in(2);
        let chunked = whole && hung == 0 && !parallel && self.one_in(3);
        let batch_size = if chunked { self.between(2, 3) } else { 1 };
        let rule = if chunked { Rule::AllCompleted } else { rule };
        Operation::Batch(Batch {
            id,
            parallel,
            items,
            max_concurrency,
            rule,
            flat: self.one_in(3),
            batch_size: usize::try_from(batch_size).unwrap_or(1),
        })
    }

    fn combine(&mut self, depth: u32) -> Operation {
        let count = self.between(1, 3);
        let mut inputs: Vec<Input<Arc<Operation>>> = (0..count)
            .map(|_| Input::Runs(self.operation(depth - 1)))
            .collect();
        let (succeeded, failed) = tally(&inputs, |evaluator, operation| {
            evaluator.operation(operation)
        });
        let mut choices = vec![Combinator::JoinAll];
        if failed <= 1 {
            choices.push(Combinator::TryJoinAll);
        }
        if succeeded <= 1 {
            choices.push(Combinator::SelectOk);
        }
        if count == 1 {
            choices.extend([Combinator::Race; 3]);
        }
        let at = usize::try_from(self.random.below(choices.len() as u64)).unwrap_or(0);
        let kind = choices.get(at).copied().unwrap_or(Combinator::JoinAll);
        let may_hang = match kind {
            Combinator::JoinAll => false,
            Combinator::TryJoinAll => failed == 1,
            Combinator::SelectOk => succeeded == 1,
            Combinator::Race => true,
        };
        let hung = if may_hang { self.random.below(3) } else { 0 };
        self.mix_in(&mut inputs, hung);
        Operation::Combine(self.id(), kind, inputs)
    }

    /// Puts things that never complete at random places.
    fn mix_in<T>(&mut self, inputs: &mut Vec<Input<T>>, hung: u64) {
        for _ in 0..hung {
            let at = self.random.below(inputs.len() as u64 + 1);
            let id = self.id();
            inputs.insert(usize::try_from(at).unwrap_or(0), Input::Never(id));
        }
    }
}

/// How many inputs succeed and fail.
fn tally<T>(
    inputs: &[Input<T>],
    evaluate: impl Fn(&mut Evaluator, &T) -> Result<u64, crate::evaluate::Fail>,
) -> (u64, u64) {
    let mut evaluator = Evaluator::default();
    let mut counts = (0, 0);
    for input in inputs {
        if let Input::Runs(runs) = input {
            match evaluate(&mut evaluator, runs) {
                Ok(_) => counts.0 += 1,
                Err(_) => counts.1 += 1,
            }
        }
    }
    counts
}

/// Whether the compensation of a saga's part fails for good, and how often it fails before that.
pub(crate) fn compensation(id: Id, part: usize) -> (bool, u32) {
    let drawn = value(id * 16 + part as u64);
    (drawn.is_multiple_of(4), u32::from(drawn.is_multiple_of(3)))
}
