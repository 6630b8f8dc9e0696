//! Conditions: polling something outside until it is as wanted, without holding compute between
//! polls.

use crate::{
    actor::Body,
    attempt::{self, Announced},
    backend::BoxFuture,
    builder::startable,
    checkpoint::Delivery,
    clock::whole_seconds,
    codec::{Codec, Coding},
    context::Context,
    error::{BoxError, Error, ErrorKind, Result},
    future::Running,
    lifecycle::OperationState,
    operation::Op,
    step::StepContext,
};
use outlast_core::{
    limits::DELAY_SECONDS_MAX,
    retry::{Growth, Jitter, WaitDecision, WaitPolicy},
    wire::{
        Operation, OperationAction, OperationStatus, OperationType, Payload, StepOptions, sub_type,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, sync::Arc, time::Duration};

impl Context {
    /// Calls `check` until `strategy` is satisfied with the state it returns.
    ///
    /// Each check gets the state the last one returned, from `initial` on; the state is recorded
    /// between checks. A check that fails ends the operation: it is not retried.
    ///
    /// ```
    /// # use outlast::{Context, Result, WaitStrategy};
    /// # use std::time::Duration;
    /// # async fn status(_: &str) -> Result<String, std::io::Error> { Ok("DONE".into()) }
    /// # async fn example(ctx: Context) -> Result<()> {
    /// let done: String = ctx
    ///     .wait_for_condition(
    ///         "export",
    ///         String::new(),
    ///         async |_, _| status("job-7").await,
    ///         WaitStrategy::until(|state: &String| state == "DONE").initial_delay(Duration::from_secs(30)),
    ///     )
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_for_condition<'a, S, E, F, Fut>(
        &self,
        name: &str,
        initial: S,
        check: F,
        strategy: WaitStrategy<'a, S>,
    ) -> WaitForCondition<'a, S>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: Fn(S, StepContext) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<S, E>> + Send + 'a,
    {
        let mut op = self
            .claim(name)
            .operation(OperationType::Step, sub_type::WAIT_FOR_CONDITION);
        if let Some(problem) = strategy.problem() {
            op.reject(problem);
        }
        WaitForCondition {
            op,
            initial,
            check: Box::new(move |state, step| {
                let future = check(state, step);
                Box::pin(async move { future.await.map_err(Error::other) })
            }),
            strategy,
            coding: Coding::default(),
        }
    }
}

/// What a wait strategy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStep {
    /// The state is as wanted.
    Stop,
    /// Check again after this long, rounded up to whole seconds, one at least.
    Continue(Duration),
    /// Give up: the operation fails.
    Exhausted,
}

type Decide<'a, S> = Arc<dyn Fn(&S, u32) -> WaitStep + Send + Sync + 'a>;
type Satisfied<'a, S> = Arc<dyn Fn(&S) -> bool + Send + Sync + 'a>;

/// When a condition is met, and how long to wait between checks.
///
/// By default there are up to 60 checks, 5 s apart at first, growing by half up to 5 min, with full
/// jitter. Running out of checks is an error.
#[derive(Clone)]
pub struct WaitStrategy<'a, S> {
    rule: Rule<'a, S>,
    problem: Option<String>,
}

#[derive(Clone)]
enum Rule<'a, S> {
    Until(Satisfied<'a, S>, WaitPolicy),
    Custom(Decide<'a, S>),
}

impl<'a, S> WaitStrategy<'a, S> {
    /// Checks until `satisfied` says so.
    pub fn until(satisfied: impl Fn(&S) -> bool + Send + Sync + 'a) -> Self {
        Self {
            rule: Rule::Until(Arc::new(satisfied), WaitPolicy::default()),
            problem: None,
        }
    }

    /// Your own rule, given the state and the number of checks made.
    pub fn custom(decide: impl Fn(&S, u32) -> WaitStep + Send + Sync + 'a) -> Self {
        Self {
            rule: Rule::Custom(Arc::new(decide)),
            problem: None,
        }
    }

    fn policy(mut self, change: impl FnOnce(&mut WaitPolicy) -> Option<String>) -> Self {
        let problem = match &mut self.rule {
            Rule::Until(_, policy) => change(policy),
            Rule::Custom(_) => Some("a custom wait strategy has no numbers of its own".to_owned()),
        };
        self.problem = self.problem.or(problem);
        self
    }

    /// How many checks there are at most.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.policy(|policy| {
            policy.0.max_attempts = attempts;
            None
        })
    }

    /// The delay after the first check.
    #[must_use]
    pub fn initial_delay(self, delay: Duration) -> Self {
        self.policy(|policy| {
            seconds(delay)
                .map(|delay| policy.0.initial_delay_seconds = delay)
                .err()
        })
    }

    /// The longest delay.
    #[must_use]
    pub fn max_delay(self, delay: Duration) -> Self {
        self.policy(|policy| {
            seconds(delay)
                .map(|delay| policy.0.max_delay_seconds = delay)
                .err()
        })
    }

    /// Multiplies the delay by this much after each check.
    #[must_use]
    pub fn backoff_rate(self, rate: f64) -> Self {
        self.policy(|policy| {
            policy.0.growth = Growth::Exponential { rate };
            None
        })
    }

    /// How delays are spread.
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        self.policy(|policy| {
            policy.0.jitter = jitter;
            None
        })
    }

    /// Always the same delay, without jitter.
    #[must_use]
    pub fn fixed_delay(self, delay: Duration) -> Self {
        self.initial_delay(delay)
            .max_delay(delay)
            .backoff_rate(1.0)
            .jitter(Jitter::None)
    }

    fn problem(&self) -> Option<String> {
        let policy = || match &self.rule {
            Rule::Until(_, policy) => policy
                .validate()
                .err()
                .map(|error| format!("the wait strategy is invalid: {error}")),
            Rule::Custom(_) => None,
        };
        self.problem.clone().or_else(policy)
    }

    fn decide(&self, state: &S, attempts: u32, seed: u64) -> WaitDecision {
        match &self.rule {
            Rule::Until(satisfied, policy) => policy.decide(satisfied(state), attempts, seed),
            Rule::Custom(decide) => match decide(state, attempts) {
                WaitStep::Stop => WaitDecision::Stop,
                WaitStep::Exhausted => WaitDecision::Exhausted,
                WaitStep::Continue(delay) => {
                    let delay_seconds = whole_seconds(delay, DELAY_SECONDS_MAX)
                        .unwrap_or(DELAY_SECONDS_MAX)
                        .max(1);
                    WaitDecision::Continue { delay_seconds }
                }
            },
        }
    }
}

fn seconds(delay: Duration) -> Result<u32, String> {
    whole_seconds(delay, DELAY_SECONDS_MAX)
        .ok_or_else(|| format!("the delay of {delay:?} is longer than 366 days"))
}

type Check<'a, S> = Box<dyn Fn(S, StepContext) -> BoxFuture<'a, Result<S>> + Send + Sync + 'a>;

/// A condition that is not being polled yet; see [`Context::wait_for_condition`].
#[must_use = "a condition is not polled unless it is awaited or spawned"]
pub struct WaitForCondition<'a, S> {
    op: Op,
    initial: S,
    check: Check<'a, S>,
    strategy: WaitStrategy<'a, S>,
    coding: Coding,
}

impl<S> WaitForCondition<'_, S> {
    /// The codec of the state.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }
}

startable!(WaitForCondition [S] S where { S: Serialize + DeserializeOwned + Send + 'static });

impl<'a, S: Serialize + DeserializeOwned + Send + 'static> WaitForCondition<'a, S> {
    fn run(self) -> Running<'a, S> {
        let Self {
            op,
            initial,
            check,
            strategy,
            coding,
        } = self;
        let coding = coding.or(&op.scope.coding);
        Running::new(op, move |op| {
            Poller {
                op,
                check,
                strategy,
                coding,
            }
            .run(initial)
        })
    }
}

/// A condition that is being polled.
struct Poller<'a, S> {
    op: Op,
    check: Check<'a, S>,
    strategy: WaitStrategy<'a, S>,
    coding: Coding,
}

impl<S: Serialize + DeserializeOwned + Send + 'static> Poller<'_, S> {
    async fn run(mut self, initial: S) -> Result<S> {
        self.op.check()?;
        let encoded = self.op.encode(&self.coding, &initial);
        drop(initial);
        let initial = encoded.await?;
        let mut record = self.op.meet().await;
        loop {
            match record.as_deref().map(|record| (record.status, record)) {
                Some((OperationStatus::Succeeded, record)) => {
                    self.op.finish(record);
                    return self.op.decode(&self.coding, record.result()).await;
                }
                Some((OperationStatus::Failed, record)) => {
                    self.op.finish(record);
                    return Err(self.op.failure(ErrorKind::Condition, record.error()));
                }
                Some((
                    status @ (OperationStatus::Cancelled
                    | OperationStatus::TimedOut
                    | OperationStatus::Stopped),
                    _,
                )) => {
                    return self.op.unexpected(status).await;
                }
                Some((OperationStatus::Pending, _)) => {
                    record = Some(self.op.change(OperationState::RetryWaiting).await);
                    continue;
                }
                None | Some((OperationStatus::Ready, _)) => {
                    self.op.mark(OperationState::Executing);
                    self.op
                        .send(
                            self.op.update(OperationAction::Start),
                            Delivery::FireAndForget,
                        )
                        .await;
                }
                Some((OperationStatus::Started, _)) => {}
            }
            // Read before the next answer can replace the record: a start may come back without it.
            let state = record
                .as_ref()
                .and_then(|record| record.result().cloned())
                .unwrap_or_else(|| initial.clone());
            let attempt = record.as_deref().map_or(0, Operation::attempts_finished) + 1;
            record = Some(match self.poll(&state, attempt).await {
                Ok(update) => self.op.commit(update).await,
                Err(error) => {
                    let mut update = self.op.update(OperationAction::Fail);
                    update.error = Some(Arc::new(error.into_record()));
                    self.op.commit(update).await
                }
            });
        }
    }

    /// Runs one check; the update says what came of it.
    async fn poll(
        &self,
        state: &Payload,
        attempt: u32,
    ) -> Result<outlast_core::wire::OperationUpdate> {
        let op = &self.op;
        let state: S = op.decode(&self.coding, Some(state)).await?;
        let new = self.check_once(state, attempt).await?;
        let encoded = op.encode(&self.coding, &new);
        drop(new);
        let payload = encoded.await?;
        op.check_size(&payload)?;
        let back: S = op.decode(&self.coding, Some(&payload)).await?;
        let mut update = match self.strategy.decide(&back, attempt, op.seed(attempt)) {
            WaitDecision::Stop => op.update(OperationAction::Succeed),
            WaitDecision::Continue { delay_seconds } => {
                let mut update = op.update(OperationAction::Retry);
                update.step_options = Some(StepOptions {
                    next_attempt_delay_seconds: Some(delay_seconds),
                });
                update
            }
            WaitDecision::Exhausted => {
                let message = format!("the condition was not met after {attempt} checks");
                return Err(Error::of_kind(
                    ErrorKind::Condition,
                    Some(op.reference()),
                    message,
                ));
            }
        };
        update.payload = Some(payload);
        Ok(update)
    }

    async fn check_once(&self, state: S, attempt: u32) -> Result<S> {
        let op = &self.op;
        op.mark(OperationState::Executing);
        let operation = op.reference();
        let body = Arc::new(Body {
            operation_id: op.id().clone(),
            operation,
            attempt,
            at_most_once: false,
        });
        let announced = Announced::step(op, &body);
        let (step, _cancel) = StepContext::new(op, body.clone());
        let future = async { (self.check)(state, step).await };
        let result = match attempt::run(op, body, &announced, None, future).await {
            Ok(result) => result,
            Err(broken) => Err(Error::from_record(
                ErrorKind::Condition,
                None,
                broken.record(),
            )),
        };
        announced.end(result.as_ref().err().map(Error::record));
        result
    }
}

impl<S> fmt::Debug for WaitStrategy<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Until(_, policy) => f.debug_tuple("Until").field(policy).finish(),
            Rule::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl<S> fmt::Debug for WaitForCondition<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForCondition")
            .field("op", &self.op)
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}
