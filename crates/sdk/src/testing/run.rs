//! One execution under test: step through it, talk to it, and look at what it recorded.

use super::{
    Answer, Invocation,
    stage::{Stage, Until, play},
    world::{Entry, World},
};
use crate::{
    error::{Error, ErrorKind, Result},
    log::Line,
};
use outlast_core::{
    Input, Rejection, Reply,
    delivery::{Arrival, Delivery},
    event::{Details, Event},
    history::Query,
    record::nothing,
    transcript,
    wire::{ErrorObject, ExecutionStatus, Operation, OperationStatus, OperationType, Payload},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};

/// An execution on the test kit.
pub struct TestRun {
    stage: Stage,
    arn: Arc<str>,
    view: View,
}

/// What is known about the execution after the last thing that was done to it.
#[derive(Debug, Default)]
struct View {
    status: Option<ExecutionStatus>,
    result: Option<Payload>,
    error: Option<ErrorObject>,
    operations: Vec<Operation>,
    events: Vec<Event>,
    invocations: Vec<Invocation>,
    requests: u64,
    repeated: Option<String>,
    broken: Option<String>,
    held: Option<ErrorObject>,
    why: String,
    logs: Vec<Line>,
}

impl TestRun {
    pub(super) async fn start(
        stage: Stage,
        function: String,
        payload: serde_json::Result<Payload>,
    ) -> Self {
        let started = stage
            .run(move |world| Box::pin(async move { open(world, &function, payload) }))
            .await;
        Self::of(stage, started)
    }

    /// Starts and plays to the end on this thread.
    pub(super) fn play_here(
        stage: Stage,
        function: &str,
        payload: serde_json::Result<Payload>,
    ) -> Self {
        let played = stage.run_here(async |world| {
            let (arn, _) = open(world, function, payload)?;
            play(world, Until::Rest).await;
            let view = View::of(world, &arn);
            Ok((arn, view))
        });
        Self::of(
            stage,
            played.unwrap_or_else(|| Err("no runtime could be made".to_owned())),
        )
    }

    fn of(stage: Stage, started: Result<(Arc<str>, View), String>) -> Self {
        let (arn, view) = started.unwrap_or_else(|message| {
            let view = View {
                status: Some(ExecutionStatus::Failed),
                error: Some(ErrorObject::new("NotStarted", message)),
                ..View::default()
            };
            ("".into(), view)
        });
        Self { stage, arn, view }
    }

    async fn look(&mut self) {
        let arn = self.arn.clone();
        self.view = self
            .stage
            .run(move |world| Box::pin(async move { View::of(world, &arn) }))
            .await;
    }

    async fn play(&mut self, until: Until) {
        self.stage
            .run(move |world| Box::pin(play(world, until)))
            .await;
        self.look().await;
    }

    // --- moving on ----------------------------------------------------------------------------

    /// Runs what can run now; no time passes between invocations.
    pub async fn run_once(&mut self) -> &mut Self {
        self.play(Until::Idle).await;
        self
    }

    /// Lets time pass, and whatever is due happen.
    pub async fn advance(&mut self, duration: Duration) -> &mut Self {
        let now = self
            .stage
            .run(|world| Box::pin(async { world.clock.now() }))
            .await;
        let end = now.plus_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        self.play(Until::Moment(end)).await;
        self
    }

    /// Skips time until the execution has ended, or only a reply from outside can help.
    pub async fn run_until_complete(&mut self) -> &mut Self {
        self.play(Until::Rest).await;
        self
    }

    // --- talking to it ------------------------------------------------------------------------

    async fn tell(&mut self, input: impl FnOnce(&World) -> Input + Send + 'static) -> Result<()> {
        let arn = self.arn.clone();
        let reply = self
            .stage
            .run(move |world| {
                Box::pin(async move {
                    let input = input(world);
                    world.decide(&arn, input)
                })
            })
            .await;
        self.look().await;
        match reply.map_err(refused)? {
            Reply::Delivered(receipts) => receipts
                .into_iter()
                .try_for_each(|receipt| receipt.map(drop).map_err(refused)),
            Reply::Invoke(_)
            | Reply::Checkpoint(_)
            | Reply::Completed { .. }
            | Reply::Stopped { .. }
            | Reply::Done => Ok(()),
        }
    }

    async fn deliver(&mut self, arrival: Arrival) -> Result<()> {
        self.tell(move |world| {
            Input::Deliver(vec![Delivery {
                at: world.clock.now(),
                arrival,
            }])
        })
        .await
    }

    /// The id of the newest open callback of this name.
    ///
    /// # Errors
    /// When none is open.
    pub fn callback_id(&self, name: &str) -> Result<Arc<str>> {
        let inner = format!("{name}-callback");
        let found = self.view.operations.iter().rev().find(|operation| {
            operation.operation_type == OperationType::Callback
                && operation.status == OperationStatus::Started
                && operation
                    .name
                    .as_deref()
                    .is_some_and(|known| known == name || known == inner)
        });
        let id =
            found.and_then(|operation| operation.callback_details.as_ref()?.callback_id.clone());
        id.ok_or_else(|| {
            Error::of_kind(
                ErrorKind::InvalidInput,
                None,
                format!("no callback named '{name}' is open"),
            )
        })
    }

    /// Answers an open callback by name.
    ///
    /// # Errors
    /// When none is open, or the answer comes too late.
    pub async fn answer_callback(&mut self, name: &str, answer: Answer) -> Result<()> {
        let id = self.callback_id(name)?;
        self.answer_callback_id(&id, answer).await
    }

    /// Answers a callback by id.
    ///
    /// # Errors
    /// When the id is unknown, or the answer comes too late.
    pub async fn answer_callback_id(&mut self, id: &str, answer: Answer) -> Result<()> {
        let id: Arc<str> = id.into();
        for (_, arrival) in answer.arrivals(outlast_core::time::Timestamp::default(), &id) {
            self.deliver(arrival).await?;
        }
        Ok(())
    }

    /// Sends a heartbeat for an open callback.
    ///
    /// # Errors
    /// When none is open.
    pub async fn heartbeat(&mut self, name: &str) -> Result<()> {
        let callback_id = self.callback_id(name)?;
        self.deliver(Arrival::CallbackHeartbeat { callback_id })
            .await
    }

    /// Sends a signal: a text as it is, any other value as JSON, as [`wait_signal`] reads them.
    ///
    /// [`wait_signal`]: crate::Context::wait_signal
    ///
    /// # Errors
    /// When the execution no longer takes signals.
    pub async fn signal(&mut self, name: &str, payload: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(&payload).map_err(Error::other)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        self.deliver(Arrival::Signal {
            name: name.into(),
            payload: Some(text.into()),
        })
        .await
    }

    /// Stops the execution.
    ///
    /// # Errors
    /// When the backend refuses.
    pub async fn stop(&mut self, error: ErrorObject) -> Result<()> {
        self.tell(move |_| Input::Stop { error: Some(error) }).await
    }

    /// Lets an execution that is on hold go on.
    ///
    /// # Errors
    /// When it is not on hold.
    pub async fn resume(&mut self) -> Result<()> {
        self.tell(|_| Input::Resume).await
    }

    /// Replaces the code of a function, as a deployment does.
    pub async fn deploy(&mut self, function: crate::Function) {
        self.stage
            .run(move |world| {
                Box::pin(async move {
                    let name = function.name().to_owned();
                    world
                        .lock()
                        .setup
                        .functions
                        .insert(name, super::Registered::Durable(function));
                })
            })
            .await;
    }

    // --- looking at it ------------------------------------------------------------------------

    /// Where the execution is.
    pub fn status(&self) -> ExecutionStatus {
        self.view.status.unwrap_or(ExecutionStatus::Running)
    }

    /// The execution's result.
    ///
    /// # Errors
    /// The execution's own error, or that it has not ended, or that its result is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        match self.status() {
            ExecutionStatus::Succeeded => {
                serde_json::from_str(self.view.result.as_deref().unwrap_or("null"))
                    .map_err(Error::other)
            }
            ExecutionStatus::Running => Err(Error::new("NotFinished", self.view.why.clone())),
            ExecutionStatus::Failed | ExecutionStatus::TimedOut | ExecutionStatus::Stopped => {
                Err(Error::from_record(
                    ErrorKind::User,
                    None,
                    self.view.error.clone().unwrap_or_default(),
                ))
            }
        }
    }

    /// The execution's result as it is recorded.
    pub fn raw_result(&self) -> Option<&str> {
        self.view.result.as_deref()
    }

    /// The execution's error.
    pub fn error(&self) -> Option<&ErrorObject> {
        self.view.error.as_ref()
    }

    /// Why the execution is on hold, if it is.
    pub fn held(&self) -> Option<&ErrorObject> {
        self.view.held.as_ref()
    }

    /// One sentence: what the execution waits for.
    pub fn why(&self) -> &str {
        &self.view.why
    }

    /// How long the execution has taken, on the kit's clock.
    pub fn elapsed(&self) -> Duration {
        let at = |event: Option<&Event>| event.map_or(0, |event| event.event_timestamp.as_millis());
        let (first, last) = (at(self.view.events.first()), at(self.view.events.last()));
        Duration::from_millis(last.saturating_sub(first))
    }

    /// The execution's ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// All operations, in the order they started; the execution itself comes first.
    pub fn operations(&self) -> &[Operation] {
        &self.view.operations
    }

    /// The first operation of this name.
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.view
            .operations
            .iter()
            .find(|operation| operation.name.as_deref() == Some(name))
    }

    /// The operations directly inside the first context of this name.
    pub fn children(&self, name: &str) -> Vec<&Operation> {
        let parent = self.operation(name).map(|operation| &operation.id);
        self.view
            .operations
            .iter()
            .filter(|operation| parent.is_some() && operation.parent_id.as_ref() == parent)
            .collect()
    }

    /// How many attempts of this step have finished.
    pub fn attempts(&self, name: &str) -> u32 {
        self.operation(name).map_or(0, Operation::attempts_finished)
    }

    /// The history, as the service gives it.
    pub fn history(&self) -> &[Event] {
        &self.view.events
    }

    /// What it recorded, to be stored and checked against later builds.
    pub fn recording(&self) -> super::Recording {
        super::Recording::of(self)
    }

    /// The history as compact text, one line per event, for snapshots.
    pub fn history_text(&self) -> String {
        transcript::text(&self.view.events)
    }

    /// Every invocation of the handler.
    pub fn invocations(&self) -> &[Invocation] {
        &self.view.invocations
    }

    /// How many checkpoint requests were made in all.
    pub fn requests(&self) -> u64 {
        self.view.requests
    }

    /// What the code logged, at level INFO and above, without what it only repeated on replay.
    pub fn logs(&self) -> &[Line] {
        &self.view.logs
    }

    /// A step whose body ran although the outcome of that attempt was recorded, or whose
    /// at-most-once body ran twice in one attempt. Neither must ever be.
    pub fn repeated_body(&self) -> Option<&str> {
        self.view.repeated.as_deref()
    }

    /// Checks everything that the core promises about what is recorded: a broken promise is a bug
    /// of Outlast, not of the handler.
    ///
    /// # Errors
    /// With the broken promise in words.
    pub fn check_invariants(&self) -> Result<()> {
        match &self.view.broken {
            None => Ok(()),
            Some(law) => Err(Error::new("BrokenInvariant", law.clone())),
        }
    }

    /// Whether a step was interrupted in the middle of its body.
    pub(super) fn was_interrupted(&self) -> bool {
        let interrupted = ErrorKind::StepInterrupted.wire_type();
        self.view.events.iter().any(|event| {
            let Details::StepFailed { error, .. } = &event.details else {
                return false;
            };
            let error_type = error
                .payload
                .as_ref()
                .and_then(|error| error.error_type.as_deref());
            error_type == Some(interrupted)
        })
    }

    /// The checkpoint requests as text: one line per request, a blank line between invocations.
    pub fn requests_text(&self) -> String {
        let lines = |invocation: &Invocation| {
            let requests: Vec<String> = invocation
                .requests
                .iter()
                .map(ToString::to_string)
                .collect();
            if requests.is_empty() {
                "(none)".to_owned()
            } else {
                requests.join("\n")
            }
        };
        self.view
            .invocations
            .iter()
            .map(lines)
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

/// Starts the execution under test.
fn open(
    world: &World,
    function: &str,
    payload: serde_json::Result<Payload>,
) -> Result<(Arc<str>, View), String> {
    let payload = payload.map_err(|error| error.to_string())?;
    let now = world.clock.now();
    let arn = {
        let mut state = world.lock();
        let arn = state
            .start(now, function, Some(payload))
            .map_err(|error| error.to_string())?;
        state.watch(now, &arn);
        arn
    };
    let view = View::of(world, &arn);
    Ok((arn, view))
}

fn refused(rejection: Rejection) -> Error {
    Error::new(rejection.code.name(), rejection.message)
}

impl View {
    fn of(world: &World, arn: &Arc<str>) -> Self {
        let state = world.lock();
        let Some(Entry {
            execution,
            records,
            invocations,
            ..
        }) = state.executions.get(arn)
        else {
            return Self::default();
        };
        let mut events = Vec::new();
        let mut marker = None;
        loop {
            let query = Query {
                marker: marker.as_deref(),
                max_items: Some(1_000),
                ..Query::default()
            };
            let Ok(page) = execution.history(records, query, &nothing) else {
                break;
            };
            events.extend(page.events);
            marker = page.next_marker;
            if marker.is_none() {
                break;
            }
        }
        Self {
            status: Some(execution.status()),
            result: execution.result().cloned(),
            error: execution.error().cloned(),
            operations: execution.operations(&nothing).unwrap_or_default(),
            events,
            invocations: invocations.clone(),
            requests: state.requests,
            repeated: state
                .bodies
                .iter()
                .find(|(_, runs)| **runs > 1)
                .map(|((name, _, _), _)| name.clone())
                .or_else(|| state.rerun.clone()),
            broken: execution.check_invariants().err(),
            held: execution.hold().map(|hold| (*hold.reason).clone()),
            why: execution.why(world.clock.now()),
            logs: state.logs.clone(),
        }
    }
}

impl fmt::Debug for TestRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestRun")
            .field("arn", &self.arn)
            .field("status", &self.view.status)
            .finish_non_exhaustive()
    }
}
