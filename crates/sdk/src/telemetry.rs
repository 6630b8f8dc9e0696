//! OpenTelemetry: a trace per execution, joined over all its invocations, processes and machines.
//!
//! [`Telemetry`] is where the spans go; its [plugin](Telemetry::plugin) makes them:
//!
//! - `Workflow`, the whole execution, once it has ended;
//! - `Invocation`, each time the handler is called;
//! - one per operation, with its name, and `<name> attempt <n>` for each attempt of a step.
//!
//! [`View`] says how they hang together. Spans that the code itself makes hang below the attempt,
//! the context or the invocation that made them, because that is the current context while the code
//! runs. Ids come from the execution's ARN, so an invocation names spans that another one exports.
//!
//! The trace is the caller's if the execution was started with an `X-Amzn-Trace-Id`, and a chained
//! invoke stays in the trace of the execution that made it.
//!
//! ```no_run
//! # use outlast::{App, Config, Context, Function, telemetry::Telemetry};
//! # async fn order(ctx: Context, id: String) -> outlast::Result<String> { Ok(id) }
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! // To the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, as the service OTEL_SERVICE_NAME.
//! let telemetry = Telemetry::from_env()?;
//! let config = Config::default().plugin(telemetry.plugin());
//! let app = App::new().register(Function::new("order", order).config(config));
//! # Ok(())
//! # }
//! ```

mod lineage;
mod otlp;
mod sampling;
mod spans;

pub use lineage::Ids;
#[cfg(any(feature = "embedded", feature = "remote"))]
pub(crate) use lineage::current_header;
/// The version of OpenTelemetry that this module speaks.
pub use opentelemetry;
/// The version of OpenTelemetry's SDK that this module speaks.
pub use opentelemetry_sdk;
pub use spans::Spans;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use std::{fmt, sync::Arc, time::SystemTime};

/// Who made the spans.
const SCOPE: &str = "outlast";

/// Why there is no telemetry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A setting that cannot be used.
    #[error("telemetry cannot begin: {0}")]
    Settings(String),
    /// The collector did not take the spans.
    #[error("spans were not sent: {0}")]
    NotSent(String),
}

/// How the spans of an execution hang together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum View {
    /// Each invocation holds what it did. An operation that outlives an invocation has a span in
    /// each that saw it, linked to its first. Nothing is missing of an execution that never ends.
    #[default]
    Invocation,
    /// The execution holds its operations, each with one span from its start to its end, linked to
    /// the invocation that saw the end. Exported when the operation ends.
    Execution,
}

/// Where spans go, and how they hang together.
///
/// Whether an execution is sampled is its caller's to say. One that nobody called from a trace is
/// sampled as `OTEL_TRACES_SAMPLER` says of roots. A [provider of your own](Telemetry::new) samples all
/// of these if its sampler follows the parent: give it one that decides by the trace's id.
#[derive(Clone)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    view: View,
    clock: Now,
}

type Now = Arc<dyn Fn() -> SystemTime + Send + Sync>;

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Spans go to a provider of your own, next to those of the rest of your program.
    ///
    /// Build it with `.with_id_generator(`[`Ids`]`::default())`: without it the spans of different
    /// invocations cannot refer to each other, which is logged.
    pub fn new(provider: SdkTracerProvider) -> Self {
        Self {
            tracer: provider.tracer(SCOPE),
            provider,
            view: View::default(),
            clock: Arc::new(opentelemetry::time::now),
        }
    }

    /// Spans go over OTLP (HTTP, protobuf) to where OpenTelemetry's environment variables say:
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` (`http://localhost:4318` otherwise), `…_HEADERS`, `…_TIMEOUT`
    /// and `…_CERTIFICATE`, or each with `_TRACES` for spans alone; `OTEL_SERVICE_NAME`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and `OTEL_BSP_*`. Nothing goes anywhere with
    /// `OTEL_TRACES_EXPORTER=none` or `OTEL_SDK_DISABLED=true`.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn from_env() -> Result<Self, TelemetryError> {
        otlp::provider(|name| std::env::var(name).ok()).map(Self::new)
    }

    /// Chooses how spans hang together.
    #[must_use]
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Reads the time elsewhere than from the system's clock: a simulated one, for example.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Makes the spans of a function: `Config::default().plugin(telemetry.plugin())`.
    pub fn plugin(&self) -> impl Fn() -> Spans + Send + Sync + 'static + use<> {
        let telemetry = self.clone();
        move || Spans::new(telemetry.clone())
    }

    /// Where the spans go, for the spans of the rest of the program: make it the global one with
    /// `opentelemetry::global::set_tracer_provider`, or take a tracer for `tracing-opentelemetry`.
    pub fn provider(&self) -> &SdkTracerProvider {
        &self.provider
    }

    /// Sends what was not sent yet. Do this before the program ends.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub async fn flush(&self) -> Result<(), TelemetryError> {
        let provider = self.provider.clone();
        let flush = move || provider.force_flush();
        // It blocks until the exporter's own thread is done.
        let flushed = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(flush).await,
            Err(_) => Ok(flush()),
        };
        let not_sent = |why: &dyn fmt::Display| TelemetryError::NotSent(why.to_string());
        let flushed = flushed.map_err(|error| not_sent(&error))?;
        flushed.map_err(|error| not_sent(&error))
    }

    fn now(&self) -> SystemTime {
        (self.clock)()
    }
}
