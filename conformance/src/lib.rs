//! The official conformance requirements of durable execution SDKs, as handlers written with
//! Outlast, and the matcher that judges their histories.
//!
//! [`all`] gives one function per requirement; a suite is a file. The requirements themselves are
//! data of their own and not part of this crate: the test reads them from the folder named by
//! `OUTLAST_REQUIREMENTS`. How a function is run is the caller's business: the test runs it on the
//! test kit, the program `outlast-conformance` as a worker of whatever engine it finds itself with,
//! and `conformance/run` lets the official runner judge it there.

mod callback;
mod child;
mod invoke;
mod map;
pub mod matcher;
pub mod otel;
mod own;
mod parallel;
mod plugin;
mod projection;
mod step;
mod wait;
mod wait_for_callback;
mod wait_for_condition;

use outlast::{BoxError, Config, Context, Function, backend::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{convert::Infallible, fmt, future::Future, io::Write as _, sync::Arc, time::Duration};

/// One requirement: the function that is judged, and the functions it invokes.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The requirement's id, such as `1-17`.
    pub id: String,
    /// The function under judgement.
    pub function: Function,
    /// Functions that must be there for it to invoke.
    pub targets: Vec<Function>,
    /// Whether it loses its process, and so needs one of its own.
    pub loses_process: bool,
}

impl Requirement {
    fn with_config(mut self, config: Config) -> Self {
        self.function = self.function.config(config);
        self
    }

    fn with_targets(mut self, targets: impl IntoIterator<Item = Function>) -> Self {
        self.targets.extend(targets);
        self
    }

    fn with_execution_timeout(mut self, timeout: Duration) -> Self {
        self.function = self.function.execution_timeout(timeout);
        self
    }

    fn losing_its_process(mut self) -> Self {
        self.loses_process = true;
        self
    }
}

/// Every official requirement, suite by suite, and then our own. Handlers that are required to lose their process do so
/// through `crash`; plugins hand their records to `records`.
pub fn all(crash: &Crash, records: &Records) -> Vec<Requirement> {
    let mut all = step::requirements(crash);
    all.extend(wait::requirements());
    all.extend(child::requirements(crash));
    all.extend(callback::requirements());
    all.extend(invoke::requirements());
    all.extend(wait_for_condition::requirements());
    all.extend(wait_for_callback::requirements());
    all.extend(parallel::requirements());
    all.extend(map::requirements());
    all.extend(plugin::requirements(records));
    all.extend(own::requirements());
    all
}

/// How long executions may take whose result a caller waits for.
const SYNCHRONOUS_MAX: Duration = Duration::from_secs(15 * 60);

/// A requirement's handler as a function named after its id.
fn requirement<I, O, E, H, Fut>(id: impl Into<String>, handler: H) -> Requirement
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<BoxError> + Send + 'static,
    H: Fn(Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    let id = id.into();
    Requirement {
        function: Function::new(&format!("conformance-{id}"), handler)
            .execution_timeout(SYNCHRONOUS_MAX),
        id,
        targets: Vec::new(),
        loses_process: false,
    }
}

/// How a handler loses its process in the middle of a body.
#[derive(Clone)]
pub struct Crash(Arc<dyn Fn() -> BoxFuture<'static, Infallible> + Send + Sync>);

/// A fire-and-forget start is written once its body has been pending for the linger, 20 ms. A body
/// that dies earlier would die unseen.
const START_IS_DURABLE_AFTER: Duration = Duration::from_millis(500);

impl Crash {
    /// Loses the process as `die` does. What `die` returns must end the invocation from outside.
    pub fn new<F, Fut>(die: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Infallible> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(die())))
    }

    /// Exits the process, for handlers that run in a process of their own.
    pub fn exit() -> Self {
        Self::new(|| async { std::process::exit(1) })
    }

    /// Loses the process, once the start of the body that calls this is durable.
    pub async fn now(&self) -> Infallible {
        tokio::time::sleep(START_IS_DURABLE_AFTER).await;
        (self.0)().await
    }
}

impl fmt::Debug for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crash")
    }
}

/// Where plugins write what they see.
#[derive(Clone)]
pub struct Records(Arc<dyn Fn(&Value) + Send + Sync>);

impl Records {
    /// Hands each record to `write`.
    pub fn new(write: impl Fn(&Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// One line on standard output for each record, as log queries find them.
    pub fn stdout() -> Self {
        Self::new(|record| {
            // A record that cannot be written has nowhere to complain.
            let _ = writeln!(std::io::stdout().lock(), "{record}");
        })
    }

    fn write(&self, record: &Value) {
        (self.0)(record);
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}

/// What every body of these suites fails with when it only has to fail.
#[derive(Debug, thiserror::Error)]
#[error("failed as required")]
struct Failed;

/// Whole seconds.
const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
