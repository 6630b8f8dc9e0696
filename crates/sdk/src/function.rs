//! A handler with its name and options, ready to be invoked by any home.

use crate::{
    backend::BoxFuture,
    codec::{CodecError, Place},
    config::Config,
    context::Context,
    error::{BoxError, Error, ErrorKind, Result},
    invocation::{HandlerResult, Invocation},
    lifecycle::Fault,
};
use outlast_core::{
    limits,
    wire::{ErrorObject, Payload},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, sync::Arc, time::Duration};

type Handler =
    Arc<dyn Fn(Context, Option<Payload>) -> BoxFuture<'static, HandlerResult> + Send + Sync>;

/// A durable function: a handler, its name and its options.
///
/// ```
/// use outlast::{Config, Context, Function, Result};
///
/// async fn greet(ctx: Context, name: String) -> Result<String> {
///     ctx.step("greet", async |_| Ok::<_, std::io::Error>(format!("Hello, {name}!"))).await
/// }
///
/// let function = Function::new("greet", greet).config(Config::new());
/// assert_eq!(function.name(), "greet");
/// ```
#[derive(Clone)]
pub struct Function {
    name: Arc<str>,
    pub(crate) config: Arc<Config>,
    pub(crate) handler: Handler,
    settings: Settings,
}

/// How executions of a function behave on an engine of ours. On AWS Lambda the function's own
/// configuration says so.
#[derive(Clone, Copy, Debug)]
struct Settings {
    execution_timeout_seconds: u32,
    retention_days: u32,
    concurrency_max: usize,
    per_tenant: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            execution_timeout_seconds: limits::DELAY_SECONDS_MAX,
            retention_days: limits::RETENTION_DAYS_DEFAULT,
            concurrency_max: usize::MAX,
            per_tenant: false,
        }
    }
}

impl Function {
    /// A durable function from an async function of a context and an input.
    pub fn new<I, O, E, H, Fut>(name: &str, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        H: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let erased =
            move |ctx: Context, payload: Option<Payload>| -> BoxFuture<'static, HandlerResult> {
                let handler = handler.clone();
                Box::pin(async move {
                    let coding = ctx.scope.coding.clone();
                    let arn = ctx.scope.invocation.arn.clone();
                    let place = Place::new(&arn, arn.rsplit('/').next().unwrap_or_default());
                    // An execution started without an input gets an empty object, as on AWS.
                    let text = payload
                        .as_deref()
                        .filter(|text| !text.trim().is_empty())
                        .unwrap_or("{}");
                    let input = coding.decode(Some(text), &place).or_else(|error| {
                        // A handler without a real input also accepts the empty object that stands for none.
                        if text == "{}" {
                            coding.decode(Some("null"), &place).map_err(|_| error)
                        } else {
                            Err(error)
                        }
                    });
                    let invocation = ctx.scope.invocation.clone();
                    let input = match input {
                        Ok(input) => input,
                        Err(error) => {
                            let wanted = std::any::type_name::<I>();
                            let what = format!("input cannot be read as {wanted}");
                            return Err(codec_failure(&invocation, &what, error).await);
                        }
                    };
                    let output = handler(ctx, input).await.map_err(Error::other)?;
                    let text = coding.encode(&output, &place);
                    // The value need not be `Sync`: no await may come while it is there.
                    drop(output);
                    match text {
                        Ok(text) => Ok(text.into()),
                        Err(error) => {
                            Err(codec_failure(&invocation, "result cannot be written", error).await)
                        }
                    }
                })
            };
        Self {
            name: name.into(),
            config: Arc::default(),
            handler: Arc::new(erased),
            settings: Settings::default(),
        }
    }

    /// How long an execution may take in all, waits included; a second at least, 366 days at most
    /// and by default. Only on our own homes.
    #[must_use]
    pub fn execution_timeout(mut self, timeout: Duration) -> Self {
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        self.settings.execution_timeout_seconds = seconds.clamp(1, limits::DELAY_SECONDS_MAX);
        self
    }

    /// How many days a closed execution stays readable, 14 unless told otherwise. Only on our own
    /// homes.
    #[must_use]
    pub fn retention_days(mut self, days: u32) -> Self {
        self.settings.retention_days = days.clamp(1, limits::RETENTION_DAYS_MAX);
        self
    }

    /// How many invocations may run at the same time in this process. Only on our own homes.
    #[must_use]
    pub fn max_concurrency(mut self, invocations: usize) -> Self {
        self.settings.concurrency_max = invocations.max(1);
        self
    }

    /// Keeps tenants apart: on a server, each execution is started for a tenant, and without this for
    /// none. Said when a worker makes the function known there, and never changed; on AWS Lambda the
    /// function's own `TenancyConfig` says so. In one process, an execution may have a tenant either
    /// way.
    #[must_use]
    pub fn per_tenant(mut self) -> Self {
        self.settings.per_tenant = true;
        self
    }

    /// Replaces the options.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Arc::new(config);
        self
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cfg(any(feature = "embedded", feature = "remote"))]
    pub(crate) fn durable_config(&self) -> outlast_core::wire::DurableConfig {
        outlast_core::wire::DurableConfig {
            execution_timeout: self.settings.execution_timeout_seconds,
            retention_period_in_days: Some(self.settings.retention_days),
            kms_key_arn: None,
        }
    }

    #[cfg(any(feature = "embedded", feature = "remote"))]
    pub(crate) fn concurrency_max(&self) -> usize {
        self.settings.concurrency_max
    }

    #[cfg(feature = "remote")]
    pub(crate) fn is_per_tenant(&self) -> bool {
        self.settings.per_tenant
    }

    /// Changes the options in place.
    #[cfg(any(feature = "testing", feature = "embedded"))]
    pub(crate) fn with_config(&self, change: impl FnOnce(Config) -> Config) -> Self {
        Self {
            config: Arc::new(change((*self.config).clone())),
            ..self.clone()
        }
    }
}

/// The error of an execution whose input or result does not pass its codec. Never resolves if
/// trying again may help: then the invocation is repeated.
async fn codec_failure(invocation: &Invocation, what: &str, error: CodecError) -> Error {
    let message = format!("the execution's {what}: {error}");
    if error.retryable {
        let fault = Fault::Invocation(ErrorObject::new("RetryableSerDesError", message));
        invocation.lifecycle.with(|state| state.fail(fault));
        return std::future::pending().await;
    }
    Error::of_kind(ErrorKind::Codec, None, message)
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name)
            .field("config", &self.config)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
