//! Steps: user code that runs until its outcome is recorded, and never again after that.

use crate::{
    actor::Body,
    attempt::{self, Announced},
    backend::BoxFuture,
    builder::startable,
    checkpoint::Delivery,
    codec::{Codec, Coding},
    context::Context,
    error::{BoxError, Error, ErrorKind, Result, describe},
    future::Running,
    lifecycle::OperationState,
    operation::Op,
    retry::Retry,
};
use outlast_core::{
    id::{digest128, uuid},
    limits,
    wire::{
        ErrorObject, Operation, OperationAction, OperationStatus, OperationType, StepOptions,
        sub_type,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How often a body may start for one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// Until its outcome is recorded: a crash in the middle runs it again.
    #[default]
    AtLeastOncePerRetry,
    /// Once: a crash in the middle counts as a failed attempt. Together with [`Retry::none`] the
    /// body runs at most once in all.
    AtMostOncePerRetry,
}

/// Invocations that may die in one attempt of a step before it is given up, unless the step says
/// otherwise.
const INTERRUPTIONS_MAX: u32 = 100;

impl Context {
    /// Runs `body` and records its outcome; once recorded, the body never runs again.
    ///
    /// The value must survive a round trip through the codec: what comes back is what was stored.
    /// A failing body is retried by the step's [`Retry`]; waiting for a retry holds no compute. The
    /// body must not start durable operations; it may await handles of spawned ones.
    ///
    /// ```
    /// # use outlast::{Context, Result, Retry};
    /// # struct Order { total: u32 }
    /// # async fn charge(_: u32, _: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn example(ctx: Context, order: Order) -> Result<()> {
    /// let receipt: String = ctx
    ///     .step("charge", async |step| charge(order.total, &step.idempotency_key()).await)
    ///     .retry(Retry::critical())
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn step<'a, T, E, F, Fut>(&self, name: &str, body: F) -> Step<'a, T, E>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: Fn(StepContext) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        Step {
            op: self
                .claim(name)
                .operation(OperationType::Step, sub_type::STEP),
            body: Box::new(move |step| Box::pin(body(step))),
            retry: Retry::default(),
            semantics: Semantics::default(),
            timeout: None,
            interruptions_max: INTERRUPTIONS_MAX,
            coding: Coding::default(),
            typed: None,
        }
    }
}

/// What the body of a step knows. It has no operations: durable work belongs around a step.
#[derive(Clone, Debug)]
pub struct StepContext {
    arn: Arc<str>,
    body: Arc<Body>,
    cancelled: Arc<AtomicBool>,
}

impl StepContext {
    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.body.attempt
    }

    /// A key that is the same for every run of this step, for services that drop duplicates.
    pub fn idempotency_key(&self) -> String {
        uuid(digest128(&[
            self.arn.as_bytes(),
            self.body.operation_id.as_str().as_bytes(),
        ]))
    }

    /// A key that differs from one attempt to the next, but not between crashed runs of one.
    pub fn attempt_key(&self) -> String {
        let attempt = self.body.attempt.to_be_bytes();
        uuid(digest128(&[
            self.arn.as_bytes(),
            self.body.operation_id.as_str().as_bytes(),
            &attempt,
        ]))
    }

    /// The execution's ARN.
    pub fn execution_arn(&self) -> &str {
        &self.arn
    }

    /// The operation's id, as in the history.
    pub fn operation_id(&self) -> &str {
        self.body.operation_id.as_str()
    }

    /// Whether the step was given up (timeout, lost race, suspension). Work handed to other threads
    /// should look now and then.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn new(op: &Op, body: Arc<Body>) -> (Self, CancelOnDrop) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop(cancelled.clone());
        (
            Self {
                arn: op.scope.invocation.arn.clone(),
                body,
                cancelled,
            },
            guard,
        )
    }
}

pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

type StepBody<'a, T, E> =
    Box<dyn Fn(StepContext) -> BoxFuture<'a, Result<T, E>> + Send + Sync + 'a>;
type EncodeError<E> = fn(&E) -> Option<String>;

/// A step that has not started; see [`Context::step`].
#[must_use = "a step does nothing unless it is awaited or spawned"]
pub struct Step<'a, T, E> {
    op: Op,
    body: StepBody<'a, T, E>,
    retry: Retry,
    semantics: Semantics,
    timeout: Option<Duration>,
    interruptions_max: u32,
    coding: Coding,
    typed: Option<EncodeError<E>>,
}

impl<T, E> Step<'_, T, E> {
    /// When a failed attempt is repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        if let Some(problem) = retry.problem() {
            self.op.reject(problem);
        }
        self.retry = retry;
        self
    }

    /// What a crash in the middle of the body means.
    pub fn semantics(mut self, semantics: Semantics) -> Self {
        self.semantics = semantics;
        self
    }

    /// A crash in the middle of the body counts as a failed attempt.
    pub fn at_most_once(self) -> Self {
        self.semantics(Semantics::AtMostOncePerRetry)
    }

    /// Cancels a body that takes longer; that counts as a failed attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if timeout.is_zero() {
            self.op.reject("the step's timeout is zero");
        }
        self.timeout = Some(timeout);
        self
    }

    /// Gives the step up when this many invocations have died in one attempt of it; 100 unless
    /// set. Not counted on AWS Lambda.
    pub fn max_interruptions(mut self, interruptions: u32) -> Self {
        if interruptions == 0 {
            self.op
                .reject("max_interruptions is 0, the least is 1: the step could never run");
        }
        self.interruptions_max = interruptions;
        self
    }

    /// The codec of the step's value.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }

    /// A label other than `Step`, for those who read the history.
    pub fn sub_type(mut self, label: &str) -> Self {
        relabel(&mut self.op, label);
        self
    }
}

/// Gives an operation another label, if the service accepts it.
pub(crate) fn relabel(op: &mut Op, label: &str) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if label.is_empty() || label.len() > limits::SUB_TYPE_LENGTH_MAX || !label.chars().all(allowed)
    {
        op.reject(format!(
            "the label {label:?} is not allowed: 1 to {} letters, digits, - or _",
            limits::SUB_TYPE_LENGTH_MAX
        ));
        return;
    }
    let mut identity = (*op.identity).clone();
    identity.sub_type = label.into();
    op.identity = Arc::new(identity);
}

impl<T, E: Serialize> Step<'_, T, E> {
    /// Records the body's error as data, so that [`Error::typed_error`] gives it back typed, now
    /// and on every replay.
    pub fn typed_error(mut self) -> Self {
        self.typed = Some(|error| serde_json::to_string(error).ok());
        self
    }
}

startable!(Step [T, E] T where {
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + Send + 'static
});

impl<'a, T, E> Step<'a, T, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    fn run(self) -> Running<'a, T> {
        let Self {
            op,
            body,
            retry,
            semantics,
            timeout,
            interruptions_max,
            coding,
            typed,
        } = self;
        let coding = coding.or(&op.scope.coding);
        Running::new(op, move |op| {
            let mut runner = Runner {
                op,
                body,
                retry,
                semantics,
                timeout,
                interruptions_max,
                coding,
                typed,
            };
            async move { runner.run().await }
        })
    }
}

/// A step that is running.
struct Runner<'a, T, E> {
    op: Op,
    body: StepBody<'a, T, E>,
    retry: Retry,
    semantics: Semantics,
    timeout: Option<Duration>,
    interruptions_max: u32,
    coding: Coding,
    typed: Option<EncodeError<E>>,
}

/// A failed attempt: its record, and the error for the retry strategy to look at.
struct Failed {
    record: ErrorObject,
    error: Option<BoxError>,
    /// Trying again cannot help.
    permanent: bool,
}

impl<T, E> Runner<'_, T, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    async fn run(&mut self) -> Result<T> {
        self.op.check()?;
        let mut record = self.op.meet().await;
        // Only a record from an earlier invocation can mean an interrupted attempt.
        let mut inherited = true;
        loop {
            let status = record.as_ref().map(|record| record.status);
            let failed = match status {
                Some(OperationStatus::Succeeded | OperationStatus::Failed) => {
                    return self.outcome(record.as_deref()).await;
                }
                Some(
                    status @ (OperationStatus::Cancelled
                    | OperationStatus::TimedOut
                    | OperationStatus::Stopped),
                ) => {
                    return self.op.unexpected(status).await;
                }
                Some(OperationStatus::Pending) => {
                    record = Some(self.op.change(OperationState::RetryWaiting).await);
                    continue;
                }
                Some(OperationStatus::Started) => {
                    match inherited
                        .then(|| self.interrupted(record.as_deref()))
                        .flatten()
                    {
                        Some(failed) => Err(failed),
                        None => self.attempt(record.as_deref()).await,
                    }
                }
                None | Some(OperationStatus::Ready) => {
                    self.start().await;
                    self.attempt(record.as_deref()).await
                }
            };
            inherited = false;
            let attempt = attempts(record.as_deref()) + 1;
            record = Some(match failed {
                Ok(value) => return self.succeed(value, attempt).await,
                Err(failed) => self.fail(failed, attempt).await,
            });
        }
    }

    /// The outcome that the record holds.
    async fn outcome(&self, record: Option<&Operation>) -> Result<T> {
        let Some(record) = record else {
            return self.op.never().await;
        };
        self.op.finish(record);
        if record.status == OperationStatus::Succeeded {
            return self.op.decode(&self.coding, record.result()).await;
        }
        let error = record.error();
        let error_type = error.and_then(|error| error.error_type.as_deref());
        // Told from the record alone, so that a replay tells the same.
        let kind = [ErrorKind::StepInterrupted, ErrorKind::Codec]
            .into_iter()
            .find(|kind| error_type == Some(kind.wire_type()))
            .unwrap_or(ErrorKind::Step);
        Err(self.op.failure(kind, error))
    }

    async fn start(&self) {
        let delivery = match self.semantics {
            Semantics::AtLeastOncePerRetry => Delivery::FireAndForget,
            Semantics::AtMostOncePerRetry => Delivery::Synchronous,
        };
        self.op.mark(OperationState::Executing);
        self.op
            .send(self.op.update(OperationAction::Start), delivery)
            .await;
    }

    /// What an attempt that an earlier invocation left behind means, if it must not simply run
    /// again.
    fn interrupted(&self, record: Option<&Operation>) -> Option<Failed> {
        let deaths = record
            .and_then(|record| record.step_details.as_ref())
            .map_or(0, |details| details.interruptions);
        let (message, permanent) = if self.semantics == Semantics::AtMostOncePerRetry {
            (
                "the step was interrupted before its outcome was known".to_owned(),
                false,
            )
        } else if deaths >= self.interruptions_max {
            (
                format!(
                    "{deaths} invocations died while the step was running, and it is given up at {}",
                    self.interruptions_max
                ),
                true,
            )
        } else {
            return None;
        };
        let kind = ErrorKind::StepInterrupted;
        Some(Failed {
            record: ErrorObject::new(kind.wire_type(), message),
            error: None,
            permanent,
        })
    }

    /// Runs the body once.
    async fn attempt(&self, record: Option<&Operation>) -> Result<T, Failed> {
        let op = &self.op;
        op.mark(OperationState::Executing);
        let body = Arc::new(Body {
            operation_id: op.id().clone(),
            operation: op.reference(),
            attempt: attempts(record) + 1,
            at_most_once: self.semantics == Semantics::AtMostOncePerRetry,
        });
        let announced = Announced::step(op, &body);
        let (step, _cancel) = StepContext::new(op, body.clone());
        // Called inside the attempt: what the closure does before its future counts as the body too.
        let future = async { (self.body)(step).await };
        let result = attempt::run(op, body, &announced, self.timeout, future).await;
        let failed = match result {
            Ok(Ok(value)) => {
                announced.end(None);
                return Ok(value);
            }
            Ok(Err(error)) => {
                let data = self.typed.and_then(|encode| encode(&error));
                let (mut record, error) = describe(error);
                record.error_data = data.or(record.error_data);
                Failed {
                    record,
                    error: Some(error),
                    permanent: false,
                }
            }
            Err(broken) => Failed {
                record: broken.record(),
                error: None,
                permanent: false,
            },
        };
        announced.end(Some(&failed.record));
        Err(failed)
    }

    /// Records a value and gives back what was recorded.
    async fn succeed(&self, value: T, attempt: u32) -> Result<T> {
        let op = &self.op;
        let encoded = op.encode(&self.coding, &value);
        drop(value);
        let written = async {
            let payload = encoded.await?;
            op.check_size(&payload)?;
            // Read back first: a recorded success must be readable for ever.
            let back = op.decode(&self.coding, Some(&payload)).await?;
            Ok::<_, Error>((payload, back))
        };
        match written.await {
            Ok((payload, back)) => {
                let mut update = op.update(OperationAction::Succeed);
                update.payload = Some(payload);
                let record = op.commit(update).await;
                op.finish(&record);
                Ok(back)
            }
            Err(error) => {
                let failed = Failed {
                    record: error.into_record(),
                    error: None,
                    permanent: true,
                };
                let record = self.fail(failed, attempt).await;
                self.outcome(Some(&record)).await
            }
        }
    }

    /// Records a failed attempt: scheduled again, or for good.
    fn fail(
        &self,
        failed: Failed,
        attempt: u32,
    ) -> impl Future<Output = Arc<Operation>> + Send + use<'_, T, E> {
        let Failed {
            record,
            error,
            permanent,
        } = failed;
        let seed = self.op.seed(attempt);
        let delay = if permanent {
            None
        } else {
            self.retry.decide(&record, error.as_ref(), attempt, seed)
        };
        drop(error);
        let mut update = self.op.update(if delay.is_some() {
            OperationAction::Retry
        } else {
            OperationAction::Fail
        });
        update.error = Some(Arc::new(record));
        update.step_options = delay.map(|delay| StepOptions {
            next_attempt_delay_seconds: Some(delay),
        });
        self.op.commit(update)
    }
}

fn attempts(record: Option<&Operation>) -> u32 {
    record.map_or(0, Operation::attempts_finished)
}

impl<T, E> fmt::Debug for Step<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("op", &self.op)
            .field("semantics", &self.semantics)
            .finish_non_exhaustive()
    }
}
