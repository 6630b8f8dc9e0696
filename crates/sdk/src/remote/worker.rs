//! A program as a worker of a server: asks for invocations, runs many at once, reports their ends.
//!
//! Each function is asked for over a few connections of its own, more when there is much to do. A
//! connection that asks is never given up while the process lives: work that is on its way over it
//! would be missed by nobody until its time is over. What a handler wrote and what is done about one
//! that fails is the server's to say.

use super::{
    answer::accepted,
    api::{Api, Repeat, encoded},
    backend::RemoteBackend,
    convoy::Convoy,
    register::{TIMEOUT_SECONDS, register},
};
use crate::{
    app::App,
    backend::BackendError,
    error::{Error, ErrorKind, Result},
    function::Function,
    invocation::{Request, invoke, not_durable},
};
use hyper::header::HeaderName;
use outlast_core::{
    time::Timestamp,
    wire::{ErrorObject, InvocationInput},
};
use outlast_http::{Call, Own, Reply};
use serde::Serialize;
use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

/// Connections that ask for the invocations of one function, at most.
const ASKERS_MAX: usize = 16;
/// Invocations of one function in this process, at most.
const INVOCATIONS_MAX: usize = 10_000;
/// How long handlers may finish what they do when the worker is to end.
const GRACE: Duration = Duration::from_secs(10);
/// The server ends an invocation first; what it cannot tell is ended here, a little later.
const INVOCATION_MAX: Duration = Duration::from_secs(TIMEOUT_SECONDS as u64 + 5);

const REQUEST_ID: HeaderName = HeaderName::from_static("lambda-runtime-aws-request-id");
const DEADLINE: HeaderName = HeaderName::from_static("lambda-runtime-deadline-ms");
const TRACE: HeaderName = HeaderName::from_static("lambda-runtime-trace-id");
const TENANT: HeaderName = HeaderName::from_static("lambda-runtime-aws-tenant-id");

/// A program's functions at work for a server. Made by [`App::work_for`](crate::App::work_for).
///
/// Dropping it abandons what runs, as a crash would; [`Worker::shut_down`] ends cleanly. Either way
/// the server gives what was left to other workers, or to this program when it comes back.
#[must_use = "dropping a worker ends it"]
pub struct Worker {
    serving: Vec<Arc<Serving>>,
    tasks: Arc<Tasks>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.serving.iter().map(|serving| serving.function.name());
        f.debug_list().entries(names).finish()
    }
}

impl Worker {
    /// Makes the functions known and begins to ask for work.
    pub(crate) async fn begin(app: App, api: &Api) -> Result<Self> {
        if api.endpoint().is_aws() {
            return Err(Error::of_kind(
                ErrorKind::Unsupported,
                None,
                "AWS Lambda has no workers that ask for work: deploy the program there instead, with \
                 the feature `lambda`",
            ));
        }
        // A version was published by somebody who knew the function.
        let is_latest = app.version.is_none();
        for function in app.functions.iter().filter(|_| is_latest) {
            register(api, function).await?;
        }
        let tasks = Arc::<Tasks>::default();
        let convoy = Convoy::new(api.clone());
        let serving = app.functions.into_iter().map(|function| {
            let name = match &app.version {
                None => encoded(function.name()),
                Some(version) => encoded(&format!("{}:{version}", function.name())),
            };
            Arc::new(Serving {
                places: Arc::new(Semaphore::new(
                    function.concurrency_max().clamp(1, INVOCATIONS_MAX),
                )),
                base: format!("/functions/{name}/2018-06-01/runtime/invocation"),
                function,
                is_latest,
                api: api.clone(),
                convoy: convoy.clone(),
                tasks: tasks.clone(),
                askers: AtomicUsize::new(0),
                asking: AtomicUsize::new(0),
            })
        });
        let worker = Self {
            serving: serving.collect(),
            tasks,
        };
        for serving in &worker.serving {
            serving.clone().add_asker();
        }
        Ok(worker)
    }

    /// Invocations that run at this moment.
    pub fn invocations(&self) -> usize {
        let running = |serving: &Arc<Serving>| serving.running();
        self.serving.iter().map(running).sum()
    }

    /// Ends cleanly: asks for no more work, and gives handlers a moment to finish what they do.
    pub async fn shut_down(self) {
        self.tasks.asking.stop().await;
        let _ = tokio::time::timeout(GRACE, self.tasks.running.finish()).await;
        self.tasks.running.stop().await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks.asking.abort();
        self.tasks.running.abort();
    }
}

/// What belongs to one worker and ends with it.
#[derive(Debug, Default)]
struct Tasks {
    asking: Owned,
    running: Owned,
}

/// Tasks that can be ended together; none is begun after that.
#[derive(Debug)]
struct Owned(Mutex<Option<JoinSet<()>>>);

impl Default for Owned {
    fn default() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }
}

impl Owned {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = tasks.as_mut() else { return };
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn take(&self) -> Option<JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn abort(&self) {
        drop(self.take());
    }

    async fn stop(&self) {
        if let Some(mut tasks) = self.take() {
            tasks.shutdown().await;
        }
    }

    async fn finish(&self) {
        let Some(mut tasks) = self.take() else { return };
        while tasks.join_next().await.is_some() {}
    }
}

/// One function of a worker.
struct Serving {
    function: Function,
    /// Whether it is whatever was deployed last, and so the worker's to make known.
    is_latest: bool,
    api: Api,
    convoy: Arc<Convoy>,
    /// The path of the function's invocations.
    base: String,
    places: Arc<Semaphore>,
    tasks: Arc<Tasks>,
    askers: AtomicUsize,
    /// Askers that wait for work at this moment.
    asking: AtomicUsize,
}

/// An error as workers report it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorReport<'a> {
    error_message: &'a str,
    error_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_data: Option<&'a str>,
    stack_trace: &'a [String],
}

impl Serving {
    fn running(&self) -> usize {
        let all = self.function.concurrency_max().clamp(1, INVOCATIONS_MAX);
        let held = self.asking.load(Ordering::Relaxed);
        all.saturating_sub(self.places.available_permits() + held)
    }

    fn add_asker(self: Arc<Self>) {
        if self.askers.fetch_add(1, Ordering::Relaxed) >= ASKERS_MAX {
            self.askers.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let tasks = self.tasks.clone();
        tasks.asking.spawn(self.ask());
    }

    /// Asks for work for as long as the worker lives.
    async fn ask(self: Arc<Self>) {
        let next = match self.api.uri(&format!("{}/next", self.base)) {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "the function cannot be asked for");
                return;
            }
        };
        let call = Call::get(next)
            .header("outlast-tenants", "any")
            .patient(None);
        let mut failures = 0;
        // The server looks at who is behind a connection that asks, and watches it: always the same.
        let mut own = Own::default();
        // The semaphore is never closed.
        while let Ok(place) = self.places.clone().acquire_owned().await {
            self.asking.fetch_add(1, Ordering::Relaxed);
            let asked = self.api.send_over(&mut own, &call).await;
            let others = self.asking.fetch_sub(1, Ordering::Relaxed) - 1;
            match asked.map_err(BackendError::from).and_then(accepted) {
                Ok(reply) => {
                    failures = 0;
                    if others == 0 {
                        // Nobody asks while this one is busy: there may be more where it came from.
                        self.clone().add_asker();
                    }
                    self.tasks.running.spawn(self.clone().run(reply, place));
                }
                Err(error) => {
                    drop(place);
                    failures += 1;
                    self.not_answered(&error, failures).await;
                }
            }
        }
    }

    /// The server cannot be asked for now: it restarts, or has forgotten the function.
    async fn not_answered(&self, error: &BackendError, failures: u32) {
        let function = self.function.name();
        if failures == 1 {
            tracing::warn!(function, %error, "the server gives no work; asking again");
        } else {
            tracing::debug!(function, %error, failures, "the server gives no work");
        }
        tokio::time::sleep(self.api.pause(failures)).await;
        if error.status == Some(404)
            && self.is_latest
            && let Err(error) = register(&self.api, &self.function).await
        {
            tracing::warn!(function, %error, "the function cannot be made known again");
        }
    }

    /// One invocation, from its input to its report.
    async fn run(self: Arc<Self>, reply: Reply, place: OwnedSemaphorePermit) {
        let Some(id) = reply.header(&REQUEST_ID).map(ToOwned::to_owned) else {
            tracing::error!("the server gave work without an id");
            return;
        };
        match tokio::time::timeout(INVOCATION_MAX, Box::pin(self.answer(&id, &reply))).await {
            Ok(Ok(body)) => self.report(&id, "response", body, None).await,
            Ok(Err(record)) => self.fail(&id, &record).await,
            Err(_) => tracing::warn!(id, "an invocation ran past its time and was given up"),
        }
        drop(place);
    }

    async fn answer(&self, id: &str, reply: &Reply) -> std::result::Result<Vec<u8>, ErrorObject> {
        let input: InvocationInput = serde_json::from_slice(&reply.body).map_err(|error| {
            let message = format!("the invocation's event cannot be read: {error}");
            ErrorObject::new("ProtocolError", message)
        })?;
        let (arn, token) = (&input.durable_execution_arn, &input.checkpoint_token);
        let backend = RemoteBackend::new(self.api.clone(), self.convoy.clone(), arn, token);
        let Ok(backend) = backend else {
            return Err(not_durable());
        };
        let deadline = reply.header(&DEADLINE).and_then(|text| text.parse().ok());
        let request = Request {
            request_id: id.into(),
            tenant_id: reply.header(&TENANT).map(Into::into),
            deadline: deadline.map(Timestamp::from_millis),
            trace_header: reply.header(&TRACE).map(Into::into),
            lambda: None,
        };
        let outcome = invoke(&self.function, input, Arc::new(backend), request).await;
        let output = outcome.answer.map_err(|failed| failed.record)?;
        serde_json::to_vec(&output).map_err(|error| {
            ErrorObject::new(
                "SerDesError",
                format!("the answer cannot be written: {error}"),
            )
        })
    }

    async fn fail(&self, id: &str, record: &ErrorObject) {
        let kind = record.error_type.as_deref().unwrap_or("Error");
        let report = ErrorReport {
            error_message: record.error_message.as_deref().unwrap_or_default(),
            error_type: kind,
            error_data: record.error_data.as_deref(),
            stack_trace: record.stack_trace.as_deref().unwrap_or_default(),
        };
        let body = serde_json::to_vec(&report).unwrap_or_default();
        self.report(id, "error", body, Some(kind)).await;
    }

    /// Says how an invocation ended. If that does not arrive, the server notices by its own means.
    async fn report(&self, id: &str, what: &str, body: Vec<u8>, kind: Option<&str>) {
        let Ok(uri) = self.api.uri(&format!("{}/{id}/{what}", self.base)) else {
            return;
        };
        let mut call = Call::post(uri, body);
        if let Some(kind) = kind {
            call = call.header("lambda-runtime-function-error-type", kind);
        }
        if let Err(error) = self.api.ask(&call, Repeat::Always).await {
            // It has ended there already: the server restarted, or its time was over.
            tracing::debug!(id, %error, "the end of an invocation could not be reported");
        }
    }
}
