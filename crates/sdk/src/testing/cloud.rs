//! The same tests where functions are deployed: real executions, looked at from outside.
//!
//! It starts an execution through the service's API, answers its callbacks by script, and reads its
//! history until it has ended. Time is the server's: waits take as long as they say, unless the
//! server was started with a clock that can be moved (`outlast serve --dev --test-clock`).

mod operations;

use super::Answer;
use crate::{
    client::{CallbackReply, Service},
    clock::{Clock as _, SystemClock},
    error::{Error, ErrorKind, Result},
    remote::Remote,
};
use outlast_core::{
    delivery::Arrival,
    event::{Details, Event},
    time::Timestamp,
    transcript,
    wire::{ErrorObject, ExecutionStatus, Operation, OperationStatus, OperationType, Payload},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// How often an execution is looked at unless told otherwise.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long an execution may take unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Runs executions of a deployed function.
///
/// ```no_run
/// # use outlast::{Remote, Result, testing::{Answer, CloudRunner}};
/// # async fn example() -> Result<()> {
/// let server = Remote::new("http://localhost:4777")?;
/// let order = CloudRunner::new(&server, "order").callback("approve", Answer::succeed("yes"));
/// let run = order.run(17).await;
/// assert_eq!(run.result::<String>()?, "shipped");
/// assert_eq!(run.attempts("charge"), 1);
/// # Ok(()) }
/// ```
#[must_use = "nothing runs until it is told to"]
#[derive(Clone, Debug)]
pub struct CloudRunner {
    server: Remote,
    function: String,
    poll_interval: Duration,
    timeout: Duration,
    callbacks: BTreeMap<String, VecDeque<Answer>>,
    tenant: Option<String>,
    skips_time: bool,
}

impl CloudRunner {
    /// Runs executions of this function: by its name, with or without a version or alias.
    pub fn new(server: &Remote, function: &str) -> Self {
        Self {
            server: server.clone(),
            function: function.to_owned(),
            poll_interval: POLL_INTERVAL,
            timeout: TIMEOUT,
            callbacks: BTreeMap::new(),
            tenant: None,
            skips_time: false,
        }
    }

    /// How often an execution is looked at. A second by default.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// How long an execution may take, by the clock on the wall. Five minutes by default; after
    /// that the run is given back as it is.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Answers the next callback of this name, whenever it is opened. Further calls answer further
    /// callbacks of the same name. A `wait_for_callback` is named by its own name.
    pub fn callback(mut self, name: &str, answer: Answer) -> Self {
        let answers = self.callbacks.entry(name.to_owned()).or_default();
        answers.push_back(answer);
        self
    }

    /// The tenant the execution runs for.
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = Some(tenant.to_owned());
        self
    }

    /// Lets a server that was started with `--test-clock` skip the time in which the execution only
    /// waits.
    pub fn skip_time(mut self) -> Self {
        self.skips_time = true;
        self
    }

    /// Starts an execution and waits until it has ended, or its time here is over.
    pub async fn run<I: Serialize>(&self, input: I) -> CloudRun {
        let mut start = self.server.start(&self.function, &input);
        if let Some(tenant) = &self.tenant {
            start = start.tenant(tenant);
        }
        let mut run = CloudRun::default();
        let execution = match start.await {
            Ok(execution) => execution,
            Err(error) => {
                run.status = Some(ExecutionStatus::Failed);
                run.error = Some(ErrorObject::new("NotStarted", error.to_string()));
                return run;
            }
        };
        run.arn = execution.arn().into();
        let mut script = Script::new(self.callbacks.clone());
        let watching = self.watch(&mut run, &mut script);
        run.why = match tokio::time::timeout(self.timeout, watching).await {
            Ok(Ok(())) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                let limit = self.timeout.as_secs();
                let why = execution.why().await.unwrap_or_default();
                format!("it did not end within {limit} s: {why}")
            }
        };
        run
    }

    /// Looks until the execution has ended.
    async fn watch(&self, run: &mut CloudRun, script: &mut Script) -> Result<()> {
        loop {
            // First what the clock says, then what has happened: what happens in between makes the
            // skip fail, not the script.
            let clock = match self.skips_time {
                true => Some(self.clock(&run.arn).await?),
                false => None,
            };
            self.look(run).await?;
            if run.status().is_terminal() {
                return Ok(());
            }
            script.read(&run.events);
            let now = clock.as_ref().map_or_else(|| SystemClock.now(), Clock::now);
            let sent = script.deliver(self.server.api(), now).await;
            match clock {
                Some(clock) if !sent && clock.resting => {
                    self.skip(&run.arn, &clock, script.next()).await?;
                }
                Some(_) | None => {}
            }
            tokio::time::sleep(self.poll_interval).await;
        }
    }

    async fn look(&self, run: &mut CloudRun) -> Result<()> {
        let api = self.server.api();
        let described = api.describe(&run.arn).await?;
        run.events = api.history(&run.arn).await?;
        run.operations = operations::of(&run.events);
        run.status = Some(described.status);
        run.result = described.result;
        run.error = described.error;
        Ok(())
    }

    async fn clock(&self, arn: &str) -> Result<Clock> {
        let path = format!("/outlast/v1/executions/{arn}/clock");
        let told = self.server.get(&path).await?;
        serde_json::from_value(told).map_err(Error::other)
    }

    /// Skips what the execution waits for, up to the next scripted reply.
    async fn skip(&self, arn: &str, clock: &Clock, reply: Option<Timestamp>) -> Result<()> {
        let wake = clock.wake_millis.map(Timestamp::from_millis);
        let Some(until) = wake.into_iter().chain(reply).min() else {
            return Ok(());
        };
        let (version, until) = (clock.version, until.as_millis());
        let path = format!("/outlast/v1/executions/{arn}/clock?Version={version}&Until={until}");
        self.server.api().post(&path).await
    }
}

/// What a server says about its time and an execution.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Clock {
    now_millis: u64,
    version: u64,
    resting: bool,
    wake_millis: Option<u64>,
}

impl Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_millis)
    }
}

/// Replies that are to come.
struct Script {
    answers: BTreeMap<String, VecDeque<Answer>>,
    /// Events that have been read.
    read: usize,
    planned: Vec<(Timestamp, Arrival)>,
}

impl Script {
    fn new(answers: BTreeMap<String, VecDeque<Answer>>) -> Self {
        Self {
            answers,
            read: 0,
            planned: Vec::new(),
        }
    }

    /// Plans replies to callbacks that are new.
    fn read(&mut self, events: &[Event]) {
        for event in events.iter().skip(self.read) {
            let Details::CallbackStarted { callback_id, .. } = &event.details else {
                continue;
            };
            let name = event.name.as_deref().unwrap_or_default();
            let inner = name.strip_suffix("-callback");
            let answer = [Some(name), inner].into_iter().flatten().find_map(|name| {
                let answers = self.answers.get_mut(name)?;
                answers.pop_front()
            });
            if let Some(answer) = answer {
                let arrivals = answer.arrivals(event.event_timestamp, callback_id);
                self.planned.extend(arrivals);
            }
        }
        self.read = events.len();
    }

    /// Sends what is due. Whether there was anything.
    async fn deliver(&mut self, service: &dyn Service, now: Timestamp) -> bool {
        let (due, later) = std::mem::take(&mut self.planned)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| *at <= now);
        self.planned = later;
        let any = !due.is_empty();
        for (_, arrival) in due {
            let (id, reply) = match arrival {
                Arrival::CallbackSucceeded {
                    callback_id,
                    result,
                } => (callback_id, CallbackReply::Succeeded(result)),
                Arrival::CallbackFailed { callback_id, error } => {
                    (callback_id, CallbackReply::Failed(error))
                }
                Arrival::CallbackHeartbeat { callback_id } => {
                    (callback_id, CallbackReply::Heartbeat)
                }
                Arrival::Signal { .. } | Arrival::Invoked { .. } => continue,
            };
            // One that comes too late is told so, and nothing else happens.
            if let Err(error) = service.callback(&id, reply).await {
                tracing::debug!(%error, "a scripted reply was refused");
            }
        }
        any
    }

    fn next(&self) -> Option<Timestamp> {
        self.planned.iter().map(|(at, _)| *at).min()
    }
}

/// A real execution, as it was when it was last looked at.
///
/// What can be asked of a [`TestRun`](super::TestRun) and is seen from outside can be asked of it.
#[derive(Clone, Debug, Default)]
pub struct CloudRun {
    arn: Arc<str>,
    status: Option<ExecutionStatus>,
    result: Option<Payload>,
    error: Option<ErrorObject>,
    events: Vec<Event>,
    operations: Vec<Operation>,
    why: String,
}

impl CloudRun {
    /// Where the execution is.
    pub fn status(&self) -> ExecutionStatus {
        self.status.unwrap_or(ExecutionStatus::Running)
    }

    /// The execution's result.
    ///
    /// # Errors
    /// The execution's own error, or that it has not ended, or that its result is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        match self.status() {
            ExecutionStatus::Succeeded => {
                serde_json::from_str(self.result.as_deref().unwrap_or("null")).map_err(Error::other)
            }
            ExecutionStatus::Running => Err(Error::new("NotFinished", self.why.clone())),
            ExecutionStatus::Failed | ExecutionStatus::TimedOut | ExecutionStatus::Stopped => {
                let record = self.error.clone().unwrap_or_default();
                Err(Error::from_record(ErrorKind::User, None, record))
            }
        }
    }

    /// The execution's result as it is recorded.
    pub fn raw_result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// The execution's error.
    pub fn error(&self) -> Option<&ErrorObject> {
        self.error.as_ref()
    }

    /// Why the runner gave up on it, if it did.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// How long the execution has taken, on the server's clock.
    pub fn elapsed(&self) -> Duration {
        let at = |event: Option<&Event>| event.map_or(0, |event| event.event_timestamp.as_millis());
        let (first, last) = (at(self.events.first()), at(self.events.last()));
        Duration::from_millis(last.saturating_sub(first))
    }

    /// The execution's ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// All operations, in the order they started, as far as the history tells them; the execution
    /// itself comes first.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The first operation of this name.
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        let mut operations = self.operations.iter();
        operations.find(|operation| operation.name.as_deref() == Some(name))
    }

    /// The operations directly inside the first context of this name.
    pub fn children(&self, name: &str) -> Vec<&Operation> {
        let parent = self.operation(name).map(|operation| &operation.id);
        let operations = self.operations.iter();
        operations
            .filter(|operation| parent.is_some() && operation.parent_id.as_ref() == parent)
            .collect()
    }

    /// How many attempts of this step have finished.
    pub fn attempts(&self, name: &str) -> u32 {
        self.operation(name).map_or(0, Operation::attempts_finished)
    }

    /// The id of the newest open callback of this name.
    ///
    /// # Errors
    /// When none is open.
    pub fn callback_id(&self, name: &str) -> Result<Arc<str>> {
        let inner = format!("{name}-callback");
        let open = self.operations.iter().rev().find(|operation| {
            let known = operation.name.as_deref();
            operation.operation_type == OperationType::Callback
                && operation.status == OperationStatus::Started
                && known.is_some_and(|known| known == name || known == inner)
        });
        let id =
            open.and_then(|operation| operation.callback_details.as_ref()?.callback_id.clone());
        id.ok_or_else(|| {
            let message = format!("no callback named '{name}' is open");
            Error::of_kind(ErrorKind::InvalidInput, None, message)
        })
    }

    /// How often the handler was invoked.
    pub fn invocations(&self) -> usize {
        let ended = |event: &&Event| matches!(event.details, Details::InvocationCompleted { .. });
        self.events.iter().filter(ended).count()
    }

    /// The history, as the service gives it.
    pub fn history(&self) -> &[Event] {
        &self.events
    }

    /// The history as compact text, one line per event, for snapshots.
    pub fn history_text(&self) -> String {
        transcript::text(&self.events)
    }
}
