//! The home inside the user's own process: an engine on a folder.
//!
//! Handlers run as tasks of this process, their checkpoints go straight to the engine. What it has
//! acknowledged survives any end of the process; the next one that opens the folder goes on.

mod service;

use crate::{
    app::App,
    backend::{Abilities, Backend, BackendError},
    client::{Execution, PendingCallback, Service, StartExecution},
    clock::Clock,
    error::{Error, ErrorKind, Result},
    function::Function,
    invocation::{Request, invoke},
};
use outlast_core::{
    Outcome, Tenancy,
    arn::{ExecutionId, Function as Arn, LATEST},
    schedule::Share,
    time::Timestamp,
    wire::{CheckpointRequest, CheckpointResponse, StatePage},
};
use outlast_engine::{
    Engine, Health, Options, Parts, Registered, WeakEngine,
    clock::EngineClock,
    execution_id,
    invoker::{BoxFuture, Call, Invoker},
    random::SystemRandom,
    store::{Store, open},
};
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::task::JoinHandle;

/// The variable that names the folder of the embedded engine.
pub(crate) const DATA_VARIABLE: &str = "OUTLAST_DATA";
/// The folder where none is named.
const DATA_DEFAULT: &str = ".outlast";
/// The account and region in ARNs of this home.
const ACCOUNT: &str = "000000000000";
const REGION: &str = "local";

/// The folder that the environment names.
pub(crate) fn data_folder() -> PathBuf {
    std::env::var_os(DATA_VARIABLE).map_or_else(|| DATA_DEFAULT.into(), PathBuf::from)
}

/// A program's functions on an engine of their own, in this process.
///
/// Made by [`App::open`]. Dropping it abandons what runs, as a crash would; [`Embedded::shut_down`]
/// ends cleanly. Either way the next process that opens the folder goes on.
pub struct Embedded {
    engine: Engine,
    folder: PathBuf,
    running: JoinHandle<()>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Embedded {
    pub(crate) async fn open(app: App, folder: &Path) -> Result<Self> {
        let store = open(folder).map_err(|error| unusable(folder, &error))?;
        Self::on_store(app, folder, store, EngineClock::system()).await
    }

    pub(crate) async fn on_store(
        app: App,
        folder: &Path,
        store: Arc<dyn Store>,
        clock: EngineClock,
    ) -> Result<Self> {
        let parts = Parts {
            store,
            clock: Arc::new(clock),
            random: Arc::new(SystemRandom::new().map_err(|error| unusable(folder, &error))?),
            options: Options::default(),
        };
        let engine = Engine::open(parts)
            .await
            .map_err(|error| unusable(folder, &error))?;
        for function in app.functions {
            engine.register(registered(&engine, &function));
        }
        let runner = engine.clone();
        let running = tokio::runtime::Handle::current().spawn(async move { runner.run().await });
        Ok(Self {
            engine,
            folder: folder.to_owned(),
            running,
        })
    }

    /// The folder that everything is kept in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts an execution of a function.
    ///
    /// ```no_run
    /// # use outlast::{App, Context, Result};
    /// # async fn order(_: Context, items: Vec<String>) -> Result<u32> { Ok(items.len() as u32) }
    /// # async fn example() -> Result<()> {
    /// let app = App::new().function("order", order).open().await?;
    /// let execution = app.start("order", &["book"]).name("order-17").await?;
    /// let parcels: u32 = execution.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn start<I: Serialize + ?Sized>(&self, function: &str, input: &I) -> StartExecution {
        StartExecution::new(self.service(), function, input)
    }

    /// The execution with this ARN.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not the ARN of an execution.
    pub fn execution(&self, arn: &str) -> Result<Execution> {
        execution_id(arn).map_err(|error| refused(&error))?;
        Ok(Execution::new(self.service(), arn.into()))
    }

    /// The execution of a function that was started with this name, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] when the folder cannot be read.
    pub async fn find(&self, function: &str, name: &str) -> Result<Option<Execution>> {
        let found = self.engine.find(function, name);
        let Some(id) = found.map_err(|error| refused(&error))? else {
            return Ok(None);
        };
        let described = self.engine.describe(id, false).await;
        let arn = described
            .map_err(|error| refused(&error))?
            .durable_execution_arn;
        Ok(Some(Execution::new(self.service(), arn)))
    }

    /// A callback that somebody waits for, by its id.
    pub fn callback(&self, callback_id: &str) -> PendingCallback {
        PendingCallback::new(self.service(), callback_id)
    }

    fn service(&self) -> Arc<dyn Service> {
        Arc::new(self.engine.clone())
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// The engine itself, for what this type does not offer.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Resolves when the engine can no longer write, with the reason. Until then it never does.
    pub async fn failed(&self) -> Error {
        let reason = self.engine.failed().await;
        Error::of_kind(ErrorKind::Engine, None, reason.to_string())
    }

    /// Ends cleanly: handlers may finish what they do for a moment, then everything is suspended and
    /// the folder is closed.
    pub async fn shut_down(self) {
        self.engine.shut_down().await;
        self.running.abort();
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.running.abort();
        self.engine.abandon();
    }
}

/// The engine's time, for handlers: what is due, and when, is for the engine to say.
struct EngineTime(Arc<dyn outlast_engine::clock::Clock>);

impl Clock for EngineTime {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

fn registered(engine: &Engine, function: &Function) -> Registered {
    let function = function.with_config(|config| config.clock(EngineTime(engine.clock())));
    Registered {
        function: Arn {
            partition: "aws".into(),
            region: REGION.into(),
            account: ACCOUNT.into(),
            name: function.name().into(),
            // Functions of this home have one version: the code that runs.
            version: LATEST.into(),
        },
        config: Some(function.durable_config()),
        // Handlers share this process anyway.
        tenancy: Tenancy::Any,
        timeout: None,
        share: Share {
            concurrency_max: function.concurrency_max(),
            weight: 1,
        },
        invoker: Arc::new(InProcess {
            function,
            engine: engine.downgrade(),
        }),
    }
}

/// Calls a handler of this process.
struct InProcess {
    function: Function,
    engine: WeakEngine,
}

impl Invoker for InProcess {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let arn = &call.input.durable_execution_arn;
            let (Some(engine), Ok(id)) = (self.engine.upgrade(), execution_id(arn)) else {
                return Outcome::Lost;
            };
            let backend = Arc::new(InProcessBackend {
                engine,
                id,
                invocation: call.invocation_id.clone(),
            });
            let request = Request {
                request_id: call.invocation_id,
                tenant_id: call.tenant,
                deadline: None,
                trace_header: call.trace,
                lambda: None,
            };
            match invoke(&self.function, call.input, backend, request)
                .await
                .answer
            {
                Ok(output) => Outcome::Output(output),
                Err(failed) => Outcome::Failed(failed.record),
            }
        })
    }
}

/// The engine as one invocation sees it.
struct InProcessBackend {
    engine: Engine,
    id: ExecutionId,
    invocation: Arc<str>,
}

impl Backend for InProcessBackend {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            let answered = self.engine.checkpoint(self.id, request).await;
            answered.map_err(|error| backend_error(&error))
        })
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move {
            let (token, marker) = (token.to_owned(), Some(marker.to_owned()));
            let page = self.engine.state(self.id, token, marker, None).await;
            page.map_err(|error| backend_error(&error))
        })
    }

    fn changed<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.engine.changed(self.id, &self.invocation))
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pushes_changes: true,
            ..Abilities::OUTLAST
        }
    }
}

fn backend_error(error: &outlast_engine::Error) -> BackendError {
    let rejection = error.to_rejection();
    let code = rejection.code;
    BackendError::service(code.http_status(), code.name(), rejection.message)
}

/// A request to the engine that was refused.
pub(crate) fn refused(error: &outlast_engine::Error) -> Error {
    let kind = if matches!(error, outlast_engine::Error::Rejected(_)) {
        ErrorKind::InvalidInput
    } else {
        ErrorKind::Engine
    };
    let record = error.to_rejection();
    Error::from_record(
        kind,
        None,
        outlast_core::wire::ErrorObject::new(record.code.name(), record.message),
    )
}

fn unusable(folder: &Path, error: &dyn fmt::Display) -> Error {
    let message = format!(
        "the folder {} cannot be used: {error} (set {DATA_VARIABLE} to use another one)",
        folder.display()
    );
    Error::of_kind(ErrorKind::Engine, None, message)
}
