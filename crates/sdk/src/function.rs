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
use outlast_core::wire::{ErrorObject, Payload};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::Future, sync::Arc};

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
        }
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

    /// Changes the options in place.
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
            .finish_non_exhaustive()
    }
}
