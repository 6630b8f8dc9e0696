//! A program's functions, and the home they run in.
//!
//! [`App::run`] looks where it is and serves that home. It runs nothing by itself: inside AWS Lambda
//! the [Lambda backend](crate::backend) does, for a server a worker, elsewhere the
//! [embedded engine](crate::Embedded).

use crate::{
    context::Context,
    error::{BoxError, Error, ErrorKind, Result},
    function::Function,
};
#[cfg(feature = "remote")]
use outlast_core::arn::LATEST;
use serde::{Serialize, de::DeserializeOwned};
use std::future::Future;

/// The functions of a program, ready to run wherever the program is started.
///
/// ```no_run
/// use outlast::{App, Context, Result};
///
/// async fn greet(ctx: Context, name: String) -> Result<String> {
///     ctx.step("greet", async |_| Ok::<_, std::io::Error>(format!("Hello, {name}!"))).await
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     App::new().function("greet", greet).run().await
/// }
/// ```
///
/// # Homes
///
/// Inside AWS Lambda, with the feature `lambda`, the program serves the Lambda runtime. If it has
/// several functions, the one named like the Lambda function (`AWS_LAMBDA_FUNCTION_NAME`) is
/// served; a program with one function needs no such agreement of names.
///
/// With `OUTLAST_ENDPOINT=https://HOST:PORT` (or `http://`) and the feature `remote`, the program is a worker of that
/// server: it makes its functions known there, runs as many of their executions at once as there
/// are, and comes back when the server was away. [`Remote::from_env`](crate::Remote::from_env) says
/// as whom it asks there: by a token, or by keys that sign.
/// The server ends an invocation after 15 minutes, as AWS Lambda does: a step must not take longer.
/// `OUTLAST_FUNCTION_VERSION` says which published version of its functions the program is; see
/// [`App::version`].
///
/// Elsewhere, with the feature `embedded` (on by default), an engine in this process keeps
/// everything in a folder: `OUTLAST_DATA` names it, `.outlast` is the default.
///
/// # Portability
///
/// | | Outlast | AWS Lambda |
/// |---|---|---|
/// | [signals](Context::wait_signal) | delivered by name | refused with [`ErrorKind::Unsupported`] |
/// | code that no longer matches its record | held for a fixed build | fails the execution |
/// | re-runs of a step whose process dies | can be bounded | until the execution's timeout |
/// | operations per execution | unbounded | 3,000 |
/// | bytes written per execution | unbounded | 100 MB |
///
/// What is said here about AWS Lambda follows its published documentation and was not verified
/// against the service.
#[derive(Clone, Debug, Default)]
pub struct App {
    pub(crate) functions: Vec<Function>,
    /// The published version whose calls a worker asks for; those of `$LATEST` otherwise.
    #[cfg(feature = "remote")]
    pub(crate) version: Option<String>,
}

impl App {
    /// A program without functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a durable function with default options.
    #[must_use]
    pub fn function<I, O, E, H, Fut>(self, name: &str, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        H: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.register(Function::new(name, handler))
    }

    /// Adds a durable function that has options of its own.
    ///
    /// ```
    /// use outlast::{App, Config, Context, Function, Result};
    ///
    /// # async fn greet(_: Context, name: String) -> Result<String> { Ok(name) }
    /// let greet = Function::new("greet", greet).config(Config::new().log_while_replaying(true));
    /// let app = App::new().register(greet);
    /// # let _ = app;
    /// ```
    #[must_use]
    pub fn register(mut self, function: Function) -> Self {
        self.functions.push(function);
        self
    }

    /// Serves the home the program runs in, until that home ends it: on the embedded engine until
    /// Ctrl-C, for a server until Ctrl-C or SIGTERM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when no function is registered, when two have the same name, or
    /// when none fits the Lambda function; [`ErrorKind::Engine`] when the folder cannot be used, or
    /// can no longer be written; [`ErrorKind::Unsupported`] where there is no home.
    ///
    /// # Cancellation
    /// Dropping the future abandons the invocation in progress; whoever invoked it repeats it.
    pub async fn run(self) -> Result<()> {
        match Home::find(&|name| std::env::var(name).ok()) {
            Home::Lambda { function_name } => {
                serve_lambda(self.choose(function_name.as_deref())?).await
            }
            Home::Server => serve_server(self).await,
            Home::Here => serve_here(self).await,
        }
    }

    /// Works for a published version of its functions, such as `1`, and not for `$LATEST`.
    ///
    /// An execution stays with the version it was started on, so the program that has a version's
    /// code runs as its worker for as long as there are such executions. Versions are published at
    /// the server; a worker of one makes no function known.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned()).filter(|version| version != LATEST);
        self
    }

    /// Makes the functions known to a server and runs their executions, until the worker is dropped
    /// or shut down.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when no function is registered, two have the same name, or the
    /// server refuses one; [`ErrorKind::Engine`] when it cannot be reached.
    #[cfg(feature = "remote")]
    pub async fn work_for(self, server: &crate::Remote) -> Result<crate::Worker> {
        self.check()?;
        crate::Worker::begin(self, server.api()).await
    }

    /// Opens the embedded engine on the folder that `OUTLAST_DATA` names, or `.outlast`: executions
    /// that were running go on, and new ones can be started.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when no function is registered or two have the same name;
    /// [`ErrorKind::Engine`] when the folder cannot be used, for example because another process
    /// does.
    #[cfg(feature = "embedded")]
    pub async fn open(self) -> Result<crate::Embedded> {
        self.open_at(crate::embedded::data_folder()).await
    }

    /// Opens the embedded engine on a folder.
    ///
    /// # Errors
    /// As [`App::open`].
    #[cfg(feature = "embedded")]
    pub async fn open_at(self, folder: impl AsRef<std::path::Path>) -> Result<crate::Embedded> {
        self.check()?;
        crate::Embedded::open(self, folder.as_ref()).await
    }

    /// Opens the embedded engine on a store of the caller's, for example one in memory. Its time is
    /// tokio's, so that a test can pause it.
    ///
    /// # Errors
    /// As [`App::open`].
    #[cfg(feature = "embedded")]
    pub async fn open_on(
        self,
        store: std::sync::Arc<dyn outlast_engine::store::Store>,
    ) -> Result<crate::Embedded> {
        self.check()?;
        let clock = outlast_engine::clock::EngineClock::tokio();
        let nowhere = std::path::Path::new("(a store of the caller's)");
        crate::Embedded::on_store(self, nowhere, store, clock).await
    }

    /// The function that this Lambda function is.
    fn choose(mut self, function_name: Option<&str>) -> Result<Function> {
        self.check()?;
        if self.functions.len() > 1 {
            let name = function_name.unwrap_or_default();
            let names: Vec<_> = self.functions.iter().map(Function::name).collect();
            let message = format!(
                "the Lambda function is named '{name}' (AWS_LAMBDA_FUNCTION_NAME), and this program has several \
                 functions, none of that name: {}; name one like it, or register only one",
                names.join(", ")
            );
            self.functions.retain(|function| function.name() == name);
            return self.functions.pop().ok_or_else(|| invalid(message));
        }
        self.functions.pop().ok_or_else(no_functions)
    }

    fn check(&self) -> Result<()> {
        let mut names: Vec<_> = self.functions.iter().map(Function::name).collect();
        if names.is_empty() {
            return Err(no_functions());
        }
        names.sort_unstable();
        let twice = names.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        match twice {
            Some(name) => Err(invalid(format!("two functions are named '{name}'"))),
            None => Ok(()),
        }
    }
}

fn no_functions() -> Error {
    invalid("the program has no functions: add one with `App::function`")
}

fn invalid(message: impl Into<String>) -> Error {
    Error::of_kind(ErrorKind::InvalidInput, None, message)
}

/// Where a program finds itself.
#[derive(Debug, PartialEq, Eq)]
enum Home {
    /// Inside AWS Lambda, or whatever serves the Lambda Runtime API.
    Lambda { function_name: Option<String> },
    /// For the server that `OUTLAST_ENDPOINT` names.
    Server,
    /// Anywhere else.
    Here,
}

impl Home {
    fn find(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        if variable("AWS_LAMBDA_RUNTIME_API").is_some() {
            return Self::Lambda {
                function_name: variable("AWS_LAMBDA_FUNCTION_NAME"),
            };
        }
        match variable("OUTLAST_ENDPOINT") {
            Some(endpoint) if !endpoint.is_empty() => Self::Server,
            Some(_) | None => Self::Here,
        }
    }
}

#[cfg(feature = "embedded")]
#[expect(clippy::print_stderr, reason = "a person started it and wants to know")]
async fn serve_here(app: App) -> Result<()> {
    let names: Vec<String> = app
        .functions
        .iter()
        .map(|function| function.name().to_owned())
        .collect();
    let home = app.open().await?;
    eprintln!(
        "outlast: the embedded engine serves {} on {}; Ctrl-C ends it. Start executions from code with \
         `App::open` and `start`.",
        names.join(", "),
        home.folder().display()
    );
    tokio::select! {
        biased;
        error = home.failed() => return Err(error),
        _ = tokio::signal::ctrl_c() => {}
    }
    home.shut_down().await;
    Ok(())
}

#[cfg(not(feature = "embedded"))]
async fn serve_here(app: App) -> Result<()> {
    app.check()?;
    Err(Error::of_kind(
        ErrorKind::Unsupported,
        None,
        "this program does not run inside AWS Lambda, and it was built without the embedded engine: turn it on \
         with `cargo add outlast --features embedded`",
    ))
}

#[cfg(feature = "remote")]
#[expect(clippy::print_stderr, reason = "a person started it and wants to know")]
async fn serve_server(mut app: App) -> Result<()> {
    /// Pause before a server that is not there is looked for again.
    const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
    app.check()?;
    if let Ok(version) = std::env::var("OUTLAST_FUNCTION_VERSION") {
        app = app.version(&version);
    }
    let server = crate::Remote::from_env()?;
    let endpoint = server.endpoint();
    let names: Vec<_> = app.functions.iter().map(Function::name).collect();
    let mut ending = std::pin::pin!(ended());
    let mut is_missed = false;
    let worker = loop {
        let begun = tokio::select! {
            biased;
            () = &mut ending => return Ok(()),
            begun = app.clone().work_for(&server) => begun,
        };
        match begun {
            Ok(worker) => break worker,
            // It may come up later than its workers.
            Err(error) if error.kind() == ErrorKind::Engine => {
                if !std::mem::replace(&mut is_missed, true) {
                    eprintln!("outlast: waiting for the server at {endpoint}: {error}");
                }
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    };
    eprintln!("outlast: a worker of {endpoint} for {}", names.join(", "));
    ending.await;
    worker.shut_down().await;
    Ok(())
}

/// Resolves when the process is asked to end.
#[cfg(feature = "remote")]
async fn ended() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(not(feature = "remote"))]
async fn serve_server(app: App) -> Result<()> {
    app.check()?;
    Err(Error::of_kind(
        ErrorKind::Unsupported,
        None,
        "OUTLAST_ENDPOINT names a server, but this program was built without the way to work for one: turn it on \
         with `cargo add outlast --features remote`, or unset the variable to run it here",
    ))
}

#[cfg(feature = "lambda")]
async fn serve_lambda(function: Function) -> Result<()> {
    use crate::backend::lambda::{Api, serve};
    serve(function, std::sync::Arc::new(Api::from_env()?)).await
}

#[cfg(not(feature = "lambda"))]
async fn serve_lambda(function: Function) -> Result<()> {
    Err(Error::of_kind(
        ErrorKind::Unsupported,
        None,
        format!(
            "the function '{}' runs inside AWS Lambda, but this program was built without it: turn it on with \
             `cargo add outlast --features lambda`, build again and deploy",
            function.name()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(names: &[&str]) -> App {
        names.iter().fold(App::new(), |app, name| {
            app.function(name, async |_: Context, (): ()| Ok::<_, Error>(()))
        })
    }

    #[test]
    fn homes_are_recognised_by_their_variables_and_lambda_comes_first() {
        let home = |variables: &'static [(&str, &str)]| {
            Home::find(&move |name| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(home(&[]), Home::Here);
        assert_eq!(home(&[("AWS_LAMBDA_FUNCTION_NAME", "order")]), Home::Here);
        assert_eq!(home(&[("OUTLAST_ENDPOINT", "")]), Home::Here);
        assert_eq!(home(&[("OUTLAST_ENDPOINT", "http://a")]), Home::Server);
        assert_eq!(
            home(&[
                ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001"),
                ("AWS_LAMBDA_FUNCTION_NAME", "order"),
                ("OUTLAST_ENDPOINT", "http://a"),
            ]),
            Home::Lambda {
                function_name: Some("order".to_owned())
            }
        );
    }

    #[test]
    fn the_only_function_is_served_whatever_the_lambda_function_is_called() {
        for name in [None, Some("order"), Some("stack-order-1A2B")] {
            assert_eq!(app(&["order"]).choose(name).unwrap().name(), "order");
        }
    }

    #[test]
    fn one_of_several_functions_is_chosen_by_the_name_of_the_lambda_function() {
        let chosen = app(&["order", "refund"]).choose(Some("refund")).unwrap();
        assert_eq!(chosen.name(), "refund");
        for name in [None, Some(""), Some("Refund")] {
            let error = app(&["order", "refund"]).choose(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains("order, refund"), "{error}");
        }
    }

    #[test]
    fn no_function_and_two_of_one_name_are_refused() {
        let message = |names| app(names).choose(None).unwrap_err().message().to_owned();
        assert!(message(&[]).contains("no functions"));
        assert!(message(&["a", "b", "a"]).contains("two functions are named 'a'"));
    }

    #[cfg(not(feature = "remote"))]
    #[tokio::test]
    async fn a_server_without_the_feature_is_an_error_that_names_the_feature() {
        let error = serve_server(app(&["order"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let remedy = "cargo add outlast --features remote";
        assert!(error.message().contains(remedy), "{error}");
    }

    #[cfg(not(feature = "lambda"))]
    #[tokio::test]
    async fn inside_lambda_without_the_feature_the_way_to_turn_it_on_is_named() {
        let function = app(&["order"]).choose(None).unwrap();
        let error = serve_lambda(function).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error
                .message()
                .contains("cargo add outlast --features lambda"),
            "{error}"
        );
    }
}
