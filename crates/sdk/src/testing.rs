//! The test kit: durable functions on a laptop, with no server and no waiting.
//!
//! It runs handlers through the same entry point as every home, against the same core that the
//! engine runs, with a virtual clock: a wait of a year takes no time. Replies from outside are
//! scripted or sent by hand, failures are injected where the test names them, and everything that
//! was recorded can be looked at afterwards.
//!
//! ```
//! use outlast::{Context, Result, testing::{Answer, TestKit}};
//! use std::time::Duration;
//!
//! async fn order(ctx: Context, id: u32) -> Result<String> {
//!     let receipt: String = ctx.step("charge", async |_| Ok::<_, std::io::Error>(format!("paid {id}"))).await?;
//!     ctx.wait(Duration::from_secs(30 * 24 * 3600)).await?;
//!     let answer: String = ctx.wait_for_callback("approve", async |_id| Ok::<_, std::io::Error>(())).await?;
//!     Ok(format!("{receipt}, {answer}"))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let run = TestKit::new("order", order).callback("approve", Answer::succeed("shipped")).run(7).await;
//! assert_eq!(run.result::<String>().unwrap(), "paid 7, shipped");
//! assert_eq!(run.invocations().len(), 3);
//! # });
//! ```

mod check;
#[cfg(feature = "remote")]
mod cloud;
mod fault;
mod recording;
mod run;
mod stage;
mod world;

use crate::{
    backend::BoxFuture,
    context::Context,
    error::{BoxError, Result, describe},
    function::Function,
};
pub use check::{CrashReport, Divergence, ReplayReport};
#[cfg(feature = "remote")]
pub use cloud::{CloudRun, CloudRunner};
pub use fault::Fault;
use outlast_core::{
    Quotas,
    delivery::Arrival,
    intent::InvokeOutcome,
    time::Timestamp,
    wire::{DurableConfig, ErrorObject, Payload, error_type},
};
pub use recording::Recording;
pub use run::TestRun;
use serde::{Serialize, de::DeserializeOwned};
use stage::Stage;
pub use stage::crash;
use std::{collections::BTreeMap, fmt, future::Future, sync::Arc, time::Duration};
pub use world::{Invocation, Request};
use world::{Registered, Setup};

/// Bytes of state per page: small, so that every test of some length reads several pages.
const PAGE_BYTES: usize = 2_000;
/// Invocations after which the kit gives up on an execution that never ends.
const INVOCATIONS_MAX: u32 = 10_000;

/// A durable function under test, and the world around it.
#[must_use = "a test kit does nothing until it is run"]
#[derive(Clone)]
pub struct TestKit {
    function: String,
    setup: Setup,
}

impl TestKit {
    /// Tests a handler.
    pub fn new<I, O, E, H, Fut>(name: &str, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        H: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        Self::of(Function::new(name, handler))
    }

    /// Tests a function with its options.
    pub fn of(function: Function) -> Self {
        let name = function.name().to_owned();
        let quotas = Quotas {
            page_bytes_max: PAGE_BYTES,
            ..Quotas::unlimited()
        };
        let config = DurableConfig {
            execution_timeout: 31_622_400,
            retention_period_in_days: None,
            kms_key_arn: None,
        };
        let setup = Setup {
            functions: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            faults: Vec::new(),
            quotas,
            config,
            seed: 1,
            real_time: false,
            invocation_limit: INVOCATIONS_MAX,
            function_timeout: None,
            tenant: None,
            trace: None,
            signals: Vec::new(),
        };
        Self {
            function: name,
            setup,
        }
        .function(function)
    }

    /// Registers another durable function that can be invoked, as `name:$LATEST`.
    pub fn function(mut self, function: Function) -> Self {
        self.setup
            .functions
            .insert(function.name().to_owned(), Registered::Durable(function));
        self
    }

    /// Registers an ordinary function that can be invoked.
    pub fn plain<I, O, E, H, Fut>(mut self, name: &str, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        H: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let erased = move |input: Option<Payload>| -> BoxFuture<'static, Result<Option<Payload>, ErrorObject>> {
            let handler = handler.clone();
            Box::pin(async move {
                let unreadable = |error: serde_json::Error| ErrorObject::new("Runtime.UnmarshalError", error.to_string());
                let input = serde_json::from_str(input.as_deref().unwrap_or("{}")).map_err(unreadable)?;
                let output = handler(input).await.map_err(|error| describe(error).0)?;
                let text = serde_json::to_string(&output).map_err(unreadable)?;
                Ok(Some(text.into()))
            })
        };
        self.setup
            .functions
            .insert(name.to_owned(), Registered::Plain(Arc::new(erased)));
        self
    }

    /// Answers invokes of `name` by script, one after another; the last answer is repeated.
    pub fn scripted(mut self, name: &str, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.setup.functions.insert(
            name.to_owned(),
            Registered::Scripted(answers.into_iter().collect()),
        );
        self
    }

    /// Answers the next callback of this name, whenever it is opened. Further calls answer further
    /// callbacks of the same name. A `wait_for_callback` is named by its own name.
    pub fn callback(mut self, name: &str, answer: Answer) -> Self {
        self.setup
            .callbacks
            .entry(name.to_owned())
            .or_default()
            .push_back(answer);
        self
    }

    /// Sends a signal with a JSON payload this long after the execution started.
    pub fn signal(mut self, name: &str, payload: impl Serialize, after: Duration) -> Self {
        // Like an answer that cannot be written: the test that sends it sees it arrive as null.
        let text = serde_json::to_string(&payload).unwrap_or_else(|_| "null".to_owned());
        self.setup
            .signals
            .push((name.to_owned(), text.into(), after));
        self
    }

    /// Injects a failure.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.setup.faults.push(fault);
        self
    }

    /// Uses the real clock: waits take their time, and bodies may do real IO.
    pub fn real_time(mut self) -> Self {
        self.setup.real_time = true;
        self
    }

    /// Changes the limits of the backend.
    pub fn quotas(mut self, change: impl FnOnce(&mut Quotas)) -> Self {
        change(&mut self.setup.quotas);
        self
    }

    /// How long an execution may take.
    pub fn execution_timeout(mut self, timeout: Duration) -> Self {
        self.setup.config.execution_timeout = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        self
    }

    /// How long one invocation may take before it is killed.
    pub fn function_timeout(mut self, timeout: Duration) -> Self {
        self.setup.function_timeout = Some(timeout);
        self
    }

    /// The tenant the execution runs for.
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.setup.tenant = Some(tenant.to_owned());
        self
    }

    /// The trace that the execution is started from, as an `X-Amzn-Trace-Id` header.
    pub fn trace_header(mut self, header: &str) -> Self {
        self.setup.trace = Some(header.to_owned());
        self
    }

    /// The seed of everything random in this world; the default is always the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Gives up after this many invocations. Default: 10,000.
    pub fn max_invocations(mut self, invocations: u32) -> Self {
        self.setup.invocation_limit = invocations;
        self
    }

    /// Starts an execution and lets it run until it ends or only a reply from outside can help.
    pub async fn run<I: Serialize>(&self, input: I) -> TestRun {
        let mut run = self.start(input).await;
        run.run_until_complete().await;
        run
    }

    /// As [`run`](Self::run), for tests that are not async: everything happens on this thread.
    ///
    /// ```
    /// # use outlast::{Context, Result, testing::TestKit};
    /// let run = TestKit::new("greet", async |ctx: Context, name: String| -> Result<String> {
    ///     ctx.step("greet", async |_| Ok::<_, std::io::Error>(format!("Hello, {name}!"))).await
    /// })
    /// .run_blocking("World");
    /// assert_eq!(run.result::<String>().unwrap(), "Hello, World!");
    /// ```
    ///
    /// # Panics
    /// When called inside an async runtime, whose thread must not be blocked.
    pub fn run_blocking<I: Serialize>(&self, input: I) -> TestRun {
        let payload = serde_json::to_string(&input).map(Payload::from);
        TestRun::play_here(Stage::new(self.setup.clone()), &self.function, payload)
    }

    /// Starts an execution without running it: step through it with [`TestRun::run_once`].
    pub async fn start<I: Serialize>(&self, input: I) -> TestRun {
        let payload = serde_json::to_string(&input).map(Payload::from);
        TestRun::start(
            Stage::new(self.setup.clone()),
            self.function.clone(),
            payload,
        )
        .await
    }
}

impl fmt::Debug for TestKit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestKit")
            .field("function", &self.function)
            .finish_non_exhaustive()
    }
}

/// A scripted reply: to a callback, or from an invoked function.
#[derive(Clone, Debug)]
pub struct Answer {
    kind: Kind,
    after: Duration,
    heartbeats: Vec<Duration>,
}

#[derive(Clone, Debug)]
enum Kind {
    Succeed(Option<Payload>),
    Fail(ErrorObject),
    TimeOut,
    Never,
}

impl Answer {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            after: Duration::ZERO,
            heartbeats: Vec::new(),
        }
    }

    /// Succeeds with this text, as it is.
    pub fn succeed(text: &str) -> Self {
        Self::of(Kind::Succeed(Some(text.into())))
    }

    /// Succeeds with this value as JSON.
    pub fn json(value: impl Serialize) -> Self {
        match serde_json::to_string(&value) {
            Ok(text) => Self::succeed(&text),
            Err(error) => Self::fail("Unserializable", &error.to_string()),
        }
    }

    /// Succeeds without a payload.
    pub fn empty() -> Self {
        Self::of(Kind::Succeed(None))
    }

    /// Fails.
    pub fn fail(error_type: &str, message: &str) -> Self {
        Self::of(Kind::Fail(ErrorObject::new(error_type, message)))
    }

    /// For an invoke: the function times out. For a callback: nothing comes, so that its own
    /// timeout strikes.
    pub fn time_out() -> Self {
        Self::of(Kind::TimeOut)
    }

    /// Nothing comes.
    pub fn never() -> Self {
        Self::of(Kind::Never)
    }

    /// Comes this long after the callback was opened or the function was invoked.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// Sends a heartbeat this long after the callback was opened.
    #[must_use]
    pub fn heartbeat_at(mut self, delay: Duration) -> Self {
        self.heartbeats.push(delay);
        self
    }

    /// What arrives for a callback that was opened at `now`.
    fn arrivals(&self, now: Timestamp, id: &Arc<str>) -> Vec<(Timestamp, Arrival)> {
        let at =
            |delay: Duration| now.plus_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        let heartbeat = |delay: &Duration| {
            (
                at(*delay),
                Arrival::CallbackHeartbeat {
                    callback_id: id.clone(),
                },
            )
        };
        let mut arrivals: Vec<_> = self.heartbeats.iter().map(heartbeat).collect();
        let callback_id = id.clone();
        match self.kind.clone() {
            Kind::Succeed(result) => arrivals.push((
                at(self.after),
                Arrival::CallbackSucceeded {
                    callback_id,
                    result,
                },
            )),
            Kind::Fail(error) => arrivals.push((
                at(self.after),
                Arrival::CallbackFailed { callback_id, error },
            )),
            Kind::TimeOut | Kind::Never => {}
        }
        arrivals
    }

    /// What an invoked function answers, and when; nothing at all for one that never does.
    fn as_invoke_outcome(&self) -> Option<(Duration, InvokeOutcome)> {
        let outcome = match self.kind.clone() {
            Kind::Succeed(result) => InvokeOutcome::Succeeded(result),
            Kind::Fail(error) => InvokeOutcome::Failed(error),
            Kind::TimeOut => InvokeOutcome::TimedOut(ErrorObject::new(
                error_type::CHAINED_INVOKE_TIMEOUT,
                "the invoked function timed out",
            )),
            Kind::Never => return None,
        };
        Some((self.after, outcome))
    }
}
