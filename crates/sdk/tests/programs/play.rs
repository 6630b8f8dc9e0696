//! One generic handler that performs any program with the SDK.

use crate::{
    evaluate::{Fail, digest, fold, text, value},
    model::{
        Batch, Block, Callee, Combinator, Id, Input, Operation, Program, Reply, Rule, Statement,
        compensation,
    },
};
use futures::FutureExt as _;
use outlast::{
    BatchResult, Completion, CompletionDecision, Context, Error, Nesting, Result, Retry, Saga,
    StepContext, WaitStrategy,
    core::{
        random::SplitMix64,
        wire::{ErrorObject, error_type},
    },
};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Performs programs and writes down which bodies run.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    /// Seed of everything that takes time.
    timing: u64,
    log: Arc<Mutex<Vec<BodyRun>>>,
}

/// A step's body ran: in which invocation, of which operation, in which attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BodyRun {
    /// The operation.
    pub(crate) operation: String,
    /// The attempt.
    pub(crate) attempt: u32,
    /// The invocation.
    pub(crate) invocation: String,
}

type Outcome = Pin<Box<dyn Future<Output = Result<u64>> + Send>>;

/// Whether an operation runs where it is awaited or in the background.
#[derive(Clone, Copy)]
enum How {
    InPlace,
    Spawned,
}

/// Starts a builder one way or the other, and brings its outcome to a number.
macro_rules! start {
    ($builder:expr, $how:expr, $present:expr) => {{
        let builder = $builder;
        let present = $present;
        match $how {
            How::InPlace => present_as(builder.future(), present),
            How::Spawned => present_as(builder.spawn(), present),
        }
    }};
}

fn present_as<T>(
    future: impl Future<Output = Result<T>> + Send + 'static,
    present: impl FnOnce(T) -> Result<u64> + Send + 'static,
) -> Outcome {
    Box::pin(future.map(move |result| result.and_then(present)))
}

impl Player {
    /// A player whose delays follow `timing`.
    pub(crate) fn new(timing: u64) -> Self {
        Self {
            timing,
            log: Arc::default(),
        }
    }

    /// Every body that ran.
    pub(crate) fn bodies(&self) -> Vec<BodyRun> {
        self.log.lock().unwrap().clone()
    }

    /// A number below `bound` that belongs to a node.
    pub(crate) fn draw(&self, id: Id, bound: u64) -> u64 {
        SplitMix64::new(self.timing ^ value(id)).below(bound)
    }

    /// A delay of whole seconds, one at least.
    pub(crate) fn seconds(&self, id: Id, bound: u64) -> Duration {
        Duration::from_secs(1 + self.draw(id, bound))
    }

    /// The handler: the program's outcome, and numbers drawn on the way that must be the same on
    /// every replay.
    pub(crate) async fn handle(self, ctx: Context, program: Arc<Program>) -> Result<(u64, u64)> {
        let mut sum = 0;
        let mut drawn = 0;
        for statement in program.root.iter() {
            drawn = fold(drawn, fold(ctx.random(), text(&ctx.uuid())));
            sum = self.add(&ctx, statement, sum).await?;
        }
        Ok((sum, drawn))
    }

    fn block(&self, ctx: Context, block: Block) -> Outcome {
        let this = self.clone();
        Box::pin(async move {
            let mut sum = 0;
            for statement in block.iter() {
                sum = this.add(&ctx, statement, sum).await?;
            }
            Ok(sum)
        })
    }

    /// Performs a statement and adds its outcome to a block's sum.
    async fn add(&self, ctx: &Context, statement: &Statement, sum: u64) -> Result<u64> {
        let (outcome, caught) = self.statement(ctx, statement).await;
        match outcome {
            Err(error) if !caught => Err(error),
            outcome => Ok(fold(sum, digest(&outcome.map_err(|error| as_fail(&error))))),
        }
    }

    async fn statement(&self, ctx: &Context, statement: &Statement) -> (Result<u64>, bool) {
        match statement {
            Statement::Await {
                operation,
                keyed,
                caught,
            } => {
                let key = keyed.then_some("key");
                (self.start(ctx, operation, key, How::InPlace).await, *caught)
            }
            Statement::Later {
                operation,
                meanwhile,
                caught,
            } => {
                let handle = self.start(ctx, operation, None, How::Spawned);
                let other = self.block(ctx.clone(), meanwhile.clone()).await;
                let both = match other {
                    Ok(other) => handle.await.map(|value| fold(other, value)),
                    Err(error) => Err(error),
                };
                (both, *caught)
            }
            Statement::Forget(operation) => {
                drop(self.start(ctx, operation, None, How::Spawned));
                (Ok(0), false)
            }
            Statement::Inside {
                id,
                operation,
                caught,
            } => (self.inside(ctx, *id, operation).await, *caught),
            Statement::Callback {
                id,
                reply,
                meanwhile,
                caught,
            } => (self.callback(ctx, *id, *reply, meanwhile).await, *caught),
            Statement::Saga {
                id,
                parts,
                fails,
                caught,
            } => (self.saga(ctx, *id, parts, *fails).await, *caught),
            Statement::Fail(id) => (Err(Error::new("E", format!("e{id}"))), false),
        }
    }

    async fn inside(&self, ctx: &Context, id: Id, operation: &Arc<Operation>) -> Result<u64> {
        let handle = Mutex::new(Some(self.start(ctx, operation, None, How::Spawned)));
        let request = ctx.request_id().to_owned();
        let this = self.clone();
        let body = move |step: StepContext| {
            this.enter(&request, &step);
            let handle = handle.lock().unwrap().take();
            async move {
                match handle {
                    Some(handle) => handle.await,
                    None => Err(Error::new("E", "the body ran twice in one invocation")),
                }
            }
        };
        ctx.step(&format!("s{id}"), body).retry(Retry::none()).await
    }

    async fn callback(
        &self,
        ctx: &Context,
        id: Id,
        reply: Reply,
        meanwhile: &Block,
    ) -> Result<u64> {
        let callback = ctx.create_callback::<u64>(&format!("c{id}"));
        let callback = match reply {
            Reply::Timeout => callback.timeout(self.seconds(id, 20)),
            Reply::Success | Reply::Failure | Reply::NotSubmitted => callback
                .timeout(Duration::from_secs(100_000))
                .heartbeat_timeout(Duration::from_secs(1_000)),
        };
        let callback = callback.await?;
        let other = self.block(ctx.clone(), meanwhile.clone()).await?;
        callback.result().await.map(|value| fold(other, value))
    }

    fn saga(&self, ctx: &Context, id: Id, parts: &[Arc<Operation>], fails: bool) -> Outcome {
        let (this, ctx, parts) = (self.clone(), ctx.clone(), parts.to_vec());
        let around = ctx.clone();
        Box::pin(async move {
            let outcome = around.saga(async move |mut saga| {
                let mut sum = 0;
                for (part, operation) in parts.iter().enumerate() {
                    let outcome = this.start(&ctx, operation, None, How::InPlace).await;
                    sum = fold(sum, outcome?);
                    this.note(&ctx, &mut saga, id, part);
                }
                if fails {
                    Err(Error::new("E", format!("e{id}")))
                } else {
                    Ok(sum)
                }
            });
            outcome.await
        })
    }

    /// Notes how to undo a part of a saga.
    fn note(&self, ctx: &Context, saga: &mut Saga<'static>, id: Id, part: usize) {
        let (hopeless, failures) = compensation(id, part);
        let retry = if hopeless {
            Retry::none()
        } else {
            Retry::fixed(Duration::from_secs(1))
        };
        let (this, request) = (self.clone(), ctx.request_id().to_owned());
        saga.undo_with(&format!("u{id}.{part}"), retry, move |step| {
            this.enter(&request, &step);
            async move {
                if hopeless || step.attempt() <= failures {
                    Err("cannot be undone")
                } else {
                    Ok(())
                }
            }
        });
    }

    /// Makes the builder of an operation, which claims its position, and starts it.
    fn start(
        &self,
        ctx: &Context,
        operation: &Arc<Operation>,
        key: Option<&str>,
        how: How,
    ) -> Outcome {
        let place = |id: &Id| match key {
            Some(key) => ctx.keyed(&format!("{key}-{id}")),
            None => ctx.clone(),
        };
        match &**operation {
            Operation::Step { id, .. } => self.step(&place(id), operation, how),
            Operation::Wait(id) => {
                let id = *id;
                start!(place(&id).wait(self.seconds(id, 30)), how, move |()| Ok(
                    value(id)
                ))
            }
            Operation::Condition { id, .. } => self.condition(&place(id), operation, how),
            Operation::Exchange(id, reply) => self.exchange(&place(id), *id, *reply, how),
            Operation::Invoke(id, callee) => {
                let function = match callee {
                    Callee::Plain => "plain".to_owned(),
                    Callee::PlainFailing => "plain-failing".to_owned(),
                    Callee::Durable => "durable:$LATEST".to_owned(),
                    Callee::DurableFailing => "durable-failing:$LATEST".to_owned(),
                    Callee::Slow => format!("slow-{id}"),
                    Callee::Missing => "missing".to_owned(),
                };
                start!(place(id).invoke(&format!("i{id}"), &function, *id), how, Ok)
            }
            Operation::Signal(id, comes) => {
                let mut signal = place(id).wait_signal::<u64>(&format!("g{id}"));
                if !comes {
                    signal = signal.timeout(self.seconds(*id, 20));
                }
                start!(signal, how, Ok)
            }
            Operation::Child { id, flat, block } => {
                let (this, block) = (self.clone(), block.clone());
                let child = place(id)
                    .run_in_child_context(&format!("x{id}"), move |ctx| this.block(ctx, block));
                start!(if *flat { child.flat() } else { child }, how, Ok)
            }
            Operation::Retried(id, attempts) => {
                let (this, attempts) = (self.clone(), attempts.clone());
                let most = u32::try_from(attempts.len()).unwrap_or(1);
                let retry = Retry::fixed(self.seconds(*id, 4)).max_attempts(most);
                let body = move |ctx, attempt: u32| {
                    this.block(ctx, attempts[attempt as usize - 1].clone())
                };
                start!(
                    place(id).with_retry(&format!("r{id}"), retry, body),
                    how,
                    Ok
                )
            }
            Operation::Batch(batch) => self.batch(&place(&batch.id), batch, how),
            Operation::Combine(id, kind, inputs) => {
                self.combine(ctx, (*id, *kind), inputs, (&place, how))
            }
        }
    }

    fn step(&self, ctx: &Context, operation: &Operation, how: How) -> Outcome {
        let Operation::Step {
            id,
            fails,
            attempts,
            at_most_once,
        } = *operation
        else {
            return Box::pin(std::future::pending());
        };
        let this = self.clone();
        let request = ctx.request_id().to_owned();
        let step = ctx
            .step(&format!("s{id}"), move |step: StepContext| {
                this.enter(&request, &step);
                let nap = Duration::from_millis(this.draw(id, 40).saturating_sub(20));
                async move {
                    if !nap.is_zero() {
                        tokio::time::sleep(nap).await;
                    }
                    if step.attempt() <= fails {
                        Err(format!("e{id}.{}", step.attempt()))
                    } else {
                        Ok(Lossy::new(value(id)))
                    }
                }
            })
            .retry(Retry::fixed(self.seconds(id, 5)).max_attempts(attempts));
        start!(
            if at_most_once {
                step.at_most_once()
            } else {
                step
            },
            how,
            |lossy: Lossy| Ok(lossy.read())
        )
    }

    fn condition(&self, ctx: &Context, operation: &Operation, how: How) -> Outcome {
        let Operation::Condition {
            id,
            met,
            checks,
            breaks,
        } = *operation
        else {
            return Box::pin(std::future::pending());
        };
        let this = self.clone();
        let request = ctx.request_id().to_owned();
        let check = move |state: u64, step: StepContext| {
            this.enter(&request, &step);
            async move {
                if breaks && state + 1 == met {
                    Err(format!("e{id}"))
                } else {
                    Ok(state + 1)
                }
            }
        };
        let strategy = WaitStrategy::until(move |state| *state >= met)
            .fixed_delay(self.seconds(id, 5))
            .max_attempts(checks);
        start!(
            ctx.wait_for_condition(&format!("p{id}"), 0, check, strategy),
            how,
            Ok
        )
    }

    fn exchange(&self, ctx: &Context, id: Id, reply: Reply, how: How) -> Outcome {
        let exchange = ctx
            .wait_for_callback::<u64, _, _, _>(&format!("w{id}"), move |_| async move {
                match reply {
                    Reply::NotSubmitted => Err(format!("e{id}")),
                    Reply::Success | Reply::Failure | Reply::Timeout => Ok(()),
                }
            })
            .retry(Retry::fixed(Duration::from_secs(1)).max_attempts(2));
        let exchange = match reply {
            Reply::Timeout => exchange.timeout(self.seconds(id, 20)),
            Reply::Success | Reply::Failure | Reply::NotSubmitted => exchange,
        };
        start!(exchange, how, Ok)
    }

    /// An operation that completes after everything else, or never.
    fn never(&self, ctx: &Context, id: Id) -> Outcome {
        if self.draw(id, 2) == 0 {
            let long = Duration::from_secs(20_000_000);
            start!(ctx.wait(long), How::InPlace, |()| Ok(0u64))
        } else {
            let open = ctx.wait_for_callback::<u64, _, _, _>(&format!("n{id}"), |_| async {
                Ok::<_, Error>(())
            });
            start!(open, How::InPlace, Ok)
        }
    }

    fn batch(&self, ctx: &Context, batch: &Batch, how: How) -> Outcome {
        let rule = batch.rule;
        let completion = match rule {
            Rule::AllSuccessful | Rule::Custom(_) => Completion::all_successful(),
            Rule::AllCompleted => Completion::all_completed(),
            Rule::Tolerated(most) | Rule::Exceeded(most) => Completion::tolerated_failures(most),
            Rule::MinSuccessful(least) => Completion::min_successful(least),
        };
        let nesting = if batch.flat {
            Nesting::Flat
        } else {
            Nesting::Nested
        };
        let this = self.clone();
        let body = move |ctx: Context, item: Input<Block>| match item {
            Input::Runs(block) => this.block(ctx, block),
            Input::Never(id) => this.never(&ctx, id),
        };
        let name = format!("b{}", batch.id);
        macro_rules! finish {
            ($builder:expr) => {{
                let mut builder = $builder.completion(completion).nesting(nesting);
                if let Some(most) = batch.max_concurrency {
                    builder = builder.max_concurrency(most);
                }
                if let Rule::Custom(least) = rule {
                    builder = builder.complete_when(move |counts, _| {
                        if counts.succeeded >= least {
                            CompletionDecision::Succeed
                        } else {
                            CompletionDecision::Continue
                        }
                    });
                }
                start!(builder, how, move |result| summarise(rule, result))
            }};
        }
        if batch.parallel {
            let mut parallel = ctx.parallel(&name);
            for item in batch.items.clone() {
                let body = body.clone();
                parallel = parallel.branch("", move |ctx| body(ctx, item));
            }
            finish!(parallel)
        } else {
            let map = ctx.map(&name, batch.items.clone(), body);
            finish!(if batch.batch_size > 1 {
                map.batch_size(batch.batch_size)
            } else {
                map
            })
        }
    }

    fn combine(
        &self,
        ctx: &Context,
        (id, kind): (Id, Combinator),
        inputs: &[Input<Arc<Operation>>],
        (place, how): (&dyn Fn(&Id) -> Context, How),
    ) -> Outcome {
        let inputs: Vec<Outcome> = inputs
            .iter()
            .map(|input| match input {
                Input::Runs(operation) => self.start(ctx, operation, None, How::InPlace),
                Input::Never(id) => self.never(ctx, *id),
            })
            .collect();
        let (ctx, name) = (place(&id), format!("j{id}"));
        match kind {
            Combinator::JoinAll => {
                start!(ctx.join_all(&name, inputs), how, |outcomes: Vec<
                    Result<u64>,
                >| {
                    let outcomes = outcomes
                        .into_iter()
                        .map(|it| it.map_err(|error| as_fail(&error)));
                    Ok(outcomes.fold(0, |sum, outcome| fold(sum, digest(&outcome))))
                })
            }
            Combinator::TryJoinAll => {
                start!(ctx.try_join_all(&name, inputs), how, |values: Vec<u64>| Ok(
                    values.into_iter().fold(0, fold)
                ))
            }
            Combinator::SelectOk => start!(ctx.select_ok(&name, inputs), how, Ok),
            Combinator::Race => start!(ctx.race(&name, inputs), how, Ok),
        }
    }

    fn enter(&self, invocation: &str, step: &StepContext) {
        self.log.lock().unwrap().push(BodyRun {
            operation: step.operation_id().to_owned(),
            attempt: step.attempt(),
            invocation: invocation.to_owned(),
        });
    }
}

/// A value that is worth something else before it was written and read back: code must never see
/// it like that.
#[derive(serde::Serialize, serde::Deserialize)]
struct Lossy {
    value: u64,
    #[serde(skip)]
    never_written: bool,
}

impl Lossy {
    fn new(value: u64) -> Self {
        Self {
            value,
            never_written: true,
        }
    }

    fn read(&self) -> u64 {
        self.value + u64::from(self.never_written)
    }
}

/// What of a batch's result does not depend on order.
fn summarise(rule: Rule, result: BatchResult<u64>) -> Result<u64> {
    match rule {
        Rule::AllSuccessful => Ok(result.into_values()?.into_iter().fold(0, fold)),
        Rule::MinSuccessful(_) | Rule::Custom(_) => {
            Ok(result.results().fold(0, |sum, value| fold(sum, *value)))
        }
        Rule::Exceeded(_) => Ok(result
            .errors()
            .fold(0, |sum, error| fold(sum, text(&message(error))))),
        Rule::AllCompleted | Rule::Tolerated(_) => {
            Ok(result
                .items()
                .iter()
                .fold(0, |sum, item| match (&item.result, &item.error) {
                    (Some(value), None) => fold(sum, *value),
                    (None, Some(error)) => fold(sum, text(&message(error))),
                    _ => 0,
                }))
        }
    }
}

/// An error as the evaluator has it.
pub(crate) fn as_fail(error: &Error) -> Fail {
    Fail {
        kind: error.kind(),
        message: message(error.record()),
    }
}

/// The message of an error, with a word in place of texts that the service or the SDK make.
pub(crate) fn message(error: &ErrorObject) -> String {
    let text = error.error_message.as_deref().unwrap_or_default();
    match error.error_type.as_deref() {
        Some(error_type::CALLBACK_TIMEOUT | error_type::CHAINED_INVOKE_TIMEOUT) => "timeout".into(),
        Some(error_type::RESOURCE_NOT_FOUND) => "missing".into(),
        Some("CombinatorError") if text.starts_with("all ") => "all".into(),
        _ => text.into(),
    }
}
