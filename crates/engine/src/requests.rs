//! What front doors ask of an engine: checkpoints, state, callbacks, signals, histories, ends.

use crate::{
    cell::head,
    counts::{Lane, Running, Totals},
    engine::{Engine, Inner, lock},
    error::Error,
    frame,
    function::Registered,
    store::{About, Head, Query, Status},
};
use outlast_core::{
    Code, Execution, Input, Record, Rejection, Reply,
    arn::{ExecutionArn, ExecutionId, Function},
    delivery::{Arrival, Delivery, Receipt},
    describe::Description,
    history::{Page, Query as HistoryQuery},
    time::Timestamp,
    token::{CallbackId, CheckpointToken},
    wire::{
        CheckpointRequest, CheckpointResponse, DurableConfig, ErrorObject, ExecutionStatus,
        Payload, StatePage,
    },
};
use std::sync::Arc;
use tokio::sync::Notify;

/// Bytes of records read at a time for a page of history.
const HISTORY_READ_BYTES: usize = 256 * 1_024;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// In which state.
    pub status: ExecutionStatus,
    /// With which result, if it succeeded with one.
    pub result: Option<Payload>,
    /// With which error, if it did not succeed.
    pub error: Option<ErrorObject>,
}

/// Whether anybody works on an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resting {
    /// Records so far: what tells this moment from any other of its life.
    pub records: u64,
    /// Nobody works on it, and nobody is about to.
    pub is_resting: bool,
    /// When it goes on by itself, if it does.
    pub wake: Option<Timestamp>,
}

/// Which part of a history, and how much of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPart {
    /// Where the page before ended.
    pub marker: Option<String>,
    /// Most events on the page; 0 or absent for the default.
    pub max_items: Option<u32>,
    /// Newest first.
    pub reverse_order: bool,
    /// Leave payloads and errors out.
    pub omit_data: bool,
}

/// How an engine is.
#[derive(Clone, Debug)]
pub struct Health {
    /// How its store is.
    pub store: Status,
    /// Executions in memory.
    pub loaded: usize,
    /// Wakes in memory.
    pub wakes: usize,
    /// Executions in memory that wait for an invocation.
    pub ready: usize,
    /// Invocations in flight.
    pub invocations: usize,
    /// The function versions that executions wait for or run in.
    pub lanes: Vec<Lane>,
    /// The executions that have not ended, by function version, if [`Engine::count_running`] has
    /// counted them.
    pub running: Option<Vec<Running>>,
    /// How long ago the execution that waits the longest to be looked at should have been.
    pub wake_lag_ms: u64,
    /// Executions since the engine was opened.
    pub totals: Totals,
    /// Executions whose end somebody waits for.
    pub watched: usize,
    /// Intents of executions that are being carried out.
    pub carried: usize,
    /// Damaged executions, and why.
    pub quarantined: Vec<(ExecutionId, Arc<str>)>,
}

impl Engine {
    /// Applies a handler's updates.
    ///
    /// # Errors
    /// When they are refused or cannot be stored.
    pub async fn checkpoint(
        &self,
        execution: ExecutionId,
        request: CheckpointRequest,
    ) -> Result<CheckpointResponse, Error> {
        let reply = self.decide(execution, Input::Checkpoint(request)).await;
        let reply = reply.map_err(stale_if_missing)?;
        reply.into_checkpoint().ok_or_else(unexpected)
    }

    /// A page of state for the handler that holds `token`.
    ///
    /// # Errors
    /// When the token or the marker is refused.
    pub async fn state(
        &self,
        execution: ExecutionId,
        token: String,
        marker: Option<String>,
        max_items: Option<u32>,
    ) -> Result<StatePage, Error> {
        let page = self.inner.read(execution, move |inner, execution| {
            let reading = inner.reading(execution.id());
            let page = inner.with_env(&reading, |env| {
                execution.state_page(env, &token, marker.as_deref(), max_items)
            });
            inner.judge(&reading, page)
        });
        page.await.map_err(stale_if_missing)?
    }

    /// Resolves when something changed that the handler which holds `token` does not know.
    ///
    /// # Errors
    /// When the token is not one of the invocation that runs.
    pub async fn changed_since(&self, execution: ExecutionId, token: &str) -> Result<(), Error> {
        let token = CheckpointToken::parse(&self.inner.keys, token)?;
        let current = self.inner.read(execution, move |_, execution| {
            let invocation = execution.invocation()?;
            let current = CheckpointToken::new(execution.id(), invocation, token.sequence);
            (current == token).then(|| invocation.clone())
        });
        let Some(invocation) = current.await.map_err(stale_if_missing)? else {
            let stale = Rejection::stale_token("no such invocation is running");
            return Err(Error::Rejected(stale));
        };
        self.changed(execution, &invocation).await;
        Ok(())
    }

    /// Resolves when something changed that the handler of this invocation does not know. For one
    /// that is over it never does: a handler that went on after it was given up takes no news from
    /// the one that counts.
    pub async fn changed(&self, execution: ExecutionId, invocation_id: &str) {
        let flight = lock(&self.inner.flights).get(&execution).cloned();
        match flight {
            Some(flight) if *flight.invocation == *invocation_id => flight.changed.notified().await,
            _ => std::future::pending().await,
        }
    }

    /// Answers a callback, or shows that somebody works on it. The arrival names it.
    ///
    /// # Errors
    /// When there is no such callback, or it is closed.
    pub async fn callback(&self, callback_id: &str, arrival: Arrival) -> Result<Receipt, Error> {
        let id = CallbackId::parse(&self.inner.keys, callback_id)?;
        self.deliver(id.execution, arrival).await
    }

    /// Delivers something to an execution. It is stored when this resolves.
    ///
    /// # Errors
    /// When it is refused or cannot be stored.
    pub async fn deliver(
        &self,
        execution: ExecutionId,
        arrival: Arrival,
    ) -> Result<Receipt, Error> {
        let at = self.inner.now();
        let input = Input::Deliver(vec![Delivery { at, arrival }]);
        match self.decide(execution, input).await? {
            Reply::Delivered(receipts) => match receipts.into_iter().next() {
                Some(receipt) => receipt.map_err(Error::Rejected),
                None => Err(unexpected()),
            },
            Reply::Invoke(_)
            | Reply::Checkpoint(_)
            | Reply::Completed { .. }
            | Reply::Stopped { .. }
            | Reply::Done => Err(unexpected()),
        }
    }

    /// Stops an execution; gives the time of its end, which may be long ago.
    ///
    /// # Errors
    /// When there is no such execution, or it cannot be stored.
    pub async fn stop(
        &self,
        execution: ExecutionId,
        error: Option<ErrorObject>,
    ) -> Result<Timestamp, Error> {
        match self.decide(execution, Input::Stop { error }).await? {
            Reply::Stopped { at } => Ok(at),
            Reply::Invoke(_)
            | Reply::Checkpoint(_)
            | Reply::Completed { .. }
            | Reply::Delivered(_)
            | Reply::Done => Err(unexpected()),
        }
    }

    /// Lets an execution that was held go on.
    ///
    /// # Errors
    /// When it is not held.
    pub async fn resume(&self, execution: ExecutionId) -> Result<(), Error> {
        self.decide(execution, Input::Resume).await.map(drop)
    }

    /// Fails an execution that was held, with the reason it is held for.
    ///
    /// # Errors
    /// When it is not held.
    pub async fn fail_held(&self, execution: ExecutionId) -> Result<(), Error> {
        self.decide(execution, Input::FailHeld).await.map(drop)
    }

    /// Waits until an execution has ended.
    ///
    /// # Errors
    /// When there is no such execution, or the engine stops.
    pub async fn end(&self, execution: ExecutionId) -> Result<End, Error> {
        loop {
            let watch = Watch::new(&self.inner, execution);
            // Registered before looking: an end in between is not missed.
            let mut told = std::pin::pin!(watch.ended.notified());
            told.as_mut().enable();
            let seen = self.inner.read(execution, |inner, execution| {
                let ended = execution.status().is_terminal();
                ended.then(|| inner.ask(execution, |load| execution.describe(true, load)))
            });
            match seen.await {
                Ok(Some(description)) => {
                    let Description {
                        status,
                        result,
                        error,
                        ..
                    } = description?;
                    return Ok(End {
                        status,
                        result,
                        error,
                    });
                }
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            tokio::select! {
                biased;
                () = told => {}
                _ = self.inner.stopped.wait() => {
                    return Err(Error::Stopped("it stopped before the execution ended".into()));
                }
            }
        }
    }

    /// An execution, described.
    ///
    /// # Errors
    /// When there is no such execution.
    pub async fn describe(
        &self,
        execution: ExecutionId,
        include_data: bool,
    ) -> Result<Description, Error> {
        let seen = self.inner.read(execution, move |inner, execution| {
            inner.ask(execution, |load| execution.describe(include_data, load))
        });
        seen.await?
    }

    /// One sentence that says why an execution is where it is.
    ///
    /// # Errors
    /// When there is no such execution.
    pub async fn why(&self, execution: ExecutionId) -> Result<String, Error> {
        let seen = self.inner.read(execution, |inner, execution| {
            // Only who hosts the function knows whether its handler runs already.
            match inner.unbegun(execution) {
                Some((invocation, function)) => format!(
                    "Invocation {invocation} waits for a worker that serves {}:{}.",
                    function.name, function.version
                ),
                None => execution.why(inner.now()),
            }
        });
        seen.await
    }

    /// A page of an execution's history.
    ///
    /// # Errors
    /// When there is no such execution, or the marker is refused.
    pub async fn history(&self, execution: ExecutionId, part: HistoryPart) -> Result<Page, Error> {
        let seen = self.inner.read(execution, move |inner, execution| {
            let query = HistoryQuery {
                marker: part.marker.as_deref(),
                max_items: part.max_items,
                reverse_order: part.reverse_order,
                omit_data: part.omit_data,
            };
            let records = match execution.history_range(query)? {
                Some(events) => inner.records_of(execution, events)?,
                None => Vec::new(),
            };
            inner.ask(execution, |load| execution.history(&records, query, load))
        });
        seen.await?
    }

    /// Heads of executions, as `query` asks.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, query: &Query) -> Result<Vec<(ExecutionId, Head)>, Error> {
        Ok(self.inner.store.list(query)?)
    }

    /// The head of one execution, with everything that is durable.
    ///
    /// # Errors
    /// When there is no such execution.
    pub async fn head(&self, execution: ExecutionId) -> Result<Head, Error> {
        let seen = self.inner.read(execution, |inner, execution| {
            head(execution, inner.wake_of(execution))
        });
        seen.await
    }

    /// Whether anybody works on an execution, and when it goes on by itself.
    ///
    /// # Errors
    /// When there is no such execution.
    pub async fn resting(&self, execution: ExecutionId) -> Result<Resting, Error> {
        let seen = self.inner.read(execution, |inner, execution| {
            let flies = lock(&inner.flights).contains_key(&execution.id());
            let busy = flies || execution.invocation().is_some() || execution.has_intents();
            Resting {
                records: execution.records(),
                is_resting: !busy && !execution.wants_invocation(inner.now()),
                wake: execution.next_wake(),
            }
        });
        seen.await
    }

    /// Tells the engine that its clock was moved.
    pub fn time_has_passed(&self) {
        self.inner.wakes.time_has_passed();
    }

    /// The execution with this name, if there is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find(&self, function: &str, name: &str) -> Result<Option<ExecutionId>, Error> {
        Ok(self.inner.store.find(function, name)?)
    }

    /// The function version that a reference stands for.
    ///
    /// # Errors
    /// When none is known by it.
    pub fn registered(&self, reference: &str) -> Result<Arc<Registered>, Error> {
        let registry = crate::engine::read(&self.inner.registry);
        Ok(registry.find(reference)?.clone())
    }

    /// The function version and the settings that a reference stands for.
    ///
    /// # Errors
    /// When no durable function is known by it.
    pub fn resolve(&self, reference: &str) -> Result<(Function, DurableConfig), Error> {
        let found = self.registered(reference)?;
        match &found.config {
            Some(config) => Ok((found.function.clone(), config.clone())),
            None => Err(Error::Rejected(Rejection::invalid(format!(
                "the function {reference} is not durable"
            )))),
        }
    }

    /// Removes an execution that has ended, its name included.
    ///
    /// # Errors
    /// When there is no such execution, it has not ended, or that cannot be stored.
    pub async fn delete(&self, execution: ExecutionId) -> Result<(), Error> {
        let seen = self.inner.read(execution, |_, execution| {
            let open = !execution.status().is_terminal()
                || execution.has_intents()
                || execution.invocation().is_some();
            (open, execution.records())
        });
        let (open, version) = seen.await?;
        if open {
            let message =
                "the execution, or its last invocation, has not ended: stop it first, then wait";
            return Err(Error::Rejected(Rejection::new(Code::Conflict, message)));
        }
        let deleted = self.inner.store.delete(execution, version).await;
        deleted.map_err(|error| {
            self.inner.note_failure(&error);
            Error::NotWritten(error)
        })?;
        self.inner.cells.forget(execution);
        Ok(())
    }

    /// The execution with this ARN, if it is one of this engine's.
    ///
    /// # Errors
    /// When it is not the ARN of an execution, or there is no such execution.
    pub async fn identify(&self, arn: &str) -> Result<ExecutionId, Error> {
        let parsed: ExecutionArn = arn.parse()?;
        let missing = || Error::not_found("there is no such execution");
        let id = parsed.execution_id().ok_or_else(missing)?;
        let same = self.inner.read(id, move |_, execution| {
            let own = &execution.profile().arn;
            own.name == parsed.name
                && own.function.name == parsed.function.name
                && own.function.version == parsed.function.version
        });
        if same.await? { Ok(id) } else { Err(missing()) }
    }

    /// A value that a front door keeps beside the executions.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.inner.store.setting(&front_door(key))?)
    }

    /// Sets such a value. It is durable when this resolves.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn put_setting(&self, key: &str, value: Vec<u8>) -> Result<(), Error> {
        let put = self.inner.store.put_setting(&front_door(key), value).await;
        put.map_err(|error| {
            self.inner.note_failure(&error);
            Error::NotWritten(error)
        })
    }

    /// What kind of store the engine has.
    pub fn about(&self) -> About {
        self.inner.store.about()
    }

    /// What time it is for the engine.
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Fresh random bytes.
    pub fn random(&self) -> [u8; 32] {
        self.inner.random.bytes()
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        let (ready, lanes) = {
            let dispatcher = lock(&self.inner.dispatcher);
            let lanes = dispatcher.lanes().map(|(lane, waiting, invocations)| Lane {
                function: lane.0.clone(),
                version: lane.1.clone(),
                waiting,
                invocations,
            });
            (dispatcher.waiting(), lanes.collect())
        };
        Health {
            store: self.inner.store.status(),
            loaded: self.inner.cells.len(),
            wakes: self.inner.wakes.len(),
            ready,
            lanes,
            wake_lag_ms: self.inner.wakes.lag_ms(self.inner.now()),
            totals: self.inner.counts.totals(),
            running: self.inner.counts.running(),
            invocations: lock(&self.inner.flights).len(),
            watched: lock(&self.inner.watchers).len(),
            carried: lock(&self.inner.carried).len(),
            quarantined: self.inner.quarantine.all(),
        }
    }
}

impl Inner {
    /// The records that hold these events, first and last, and what lies between.
    fn records_of(&self, execution: &Execution, events: (u64, u64)) -> Result<Vec<Record>, Error> {
        let id = execution.id();
        // Which record is an event's is not stored; each record tells how many came before.
        let (mut low, mut high) = (0, execution.records());
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.reading(id).read(middle);
            let record = record.map_err(|error| self.damaged(id, error))?;
            match record.map(|record| record.events) {
                Some(reached) if reached < events.0 => low = middle + 1,
                Some(_) => high = middle,
                None => {
                    let reason = format!("record {middle} is missing").into();
                    return Err(self.put_in_quarantine(id, reason));
                }
            }
        }
        let mut records: Vec<Record> = Vec::new();
        let mut next = low;
        while next < execution.records() && records.last().is_none_or(|last| last.events < events.1)
        {
            let runs = self.store.records(id, next, HISTORY_READ_BYTES);
            let runs = runs.map_err(|error| self.damaged(id, error))?;
            let from = next;
            for record in runs.iter().flat_map(|run| frame::records(id, run, from)) {
                let record = record.map_err(|error| self.damaged(id, error))?;
                next = record.number + 1;
                records.push(record);
            }
            if next == from {
                break;
            }
        }
        Ok(records)
    }
}

/// Somebody waits for the end of an execution, until this is dropped.
struct Watch {
    inner: Arc<Inner>,
    execution: ExecutionId,
    ended: Arc<Notify>,
}

impl Watch {
    fn new(inner: &Arc<Inner>, execution: ExecutionId) -> Self {
        let mut watchers = lock(&inner.watchers);
        let watched = watchers.entry(execution).or_default();
        watched.waiters += 1;
        Self {
            inner: inner.clone(),
            execution,
            ended: watched.ended.clone(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = lock(&self.inner.watchers);
        // After an end there may be a new entry, which is not this one's.
        if let Some(watched) = watchers.get_mut(&self.execution)
            && Arc::ptr_eq(&watched.ended, &self.ended)
        {
            watched.waiters -= 1;
            if watched.waiters == 0 {
                watchers.remove(&self.execution);
            }
        }
    }
}

/// The id in an execution's ARN.
///
/// # Errors
/// When it is not the ARN of an execution.
pub fn execution_id(arn: &str) -> Result<ExecutionId, Error> {
    let parsed: ExecutionArn = arn.parse()?;
    parsed
        .execution_id()
        .ok_or_else(|| Error::not_found("there is no such execution"))
}

/// An execution that is not there has no token either: to a handler that writes, both are one.
fn stale_if_missing(error: Error) -> Error {
    if matches!(&error, Error::Rejected(rejection) if rejection.code == Code::ResourceNotFound) {
        return Error::Rejected(Rejection::stale_token("there is no such execution"));
    }
    error
}

/// The engine's own settings have names of their own.
fn front_door(key: &str) -> String {
    format!("front/{key}")
}

fn unexpected() -> Error {
    Error::Rejected(Rejection::new(
        Code::Service,
        "the core answered something else",
    ))
}
