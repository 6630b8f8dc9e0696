//! The engine: decide, commit, act.
//!
//! Requests become mail of their execution ([`cell`](crate::cell)); what a commit brings about is
//! acted on here: handlers are called in fair turns, wakes are kept, intents carried out. All of it
//! can be lost at any moment: what the store has is enough to go on.

use crate::{
    cell::{ACTIVE, Answer, Cell, Loaded, Mail, head},
    cells::Cells,
    clock::{Clock, StoreClock},
    counts::Counts,
    error::Error,
    frame,
    function::{Known, NameAndVersion, Registered, Registry, lane},
    invoker::BoxFuture,
    quarantine::Quarantine,
    random::Random,
    reading::Reading,
    stopped::Stopped,
    store::{Commit, CommitError, Store, StoreError},
    unbroken::Unbroken,
    wakes::Wakes,
};
use hashbrown::HashMap;
use outlast_core::{
    Code, Decision, Env, Execution, Input, Intent, Quotas, Record, Rejection, Reply, Start,
    arn::ExecutionId,
    record::{IntentKey, Load},
    schedule::Dispatcher,
    start::{Reuse, reuse},
    time::Timestamp,
    token::{Key, Keys},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak, atomic::AtomicUsize},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    task::AbortHandle,
};

/// The setting that keeps the secret of tokens and callback ids.
const KEYS_SETTING: &str = "keys";
/// Pause before something that could not be done is tried again.
pub(crate) const LOOK_AGAIN_MS: u64 = 1_000;

/// What an operator may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of the service.
    pub quotas: Quotas,
    /// Invocations at the same time, all functions together.
    pub invocations_max: usize,
    /// Invocations that may be about to begin at the same time, all functions together: from their
    /// turn until their handler is called. A herd then waits for its turns, where others are not
    /// behind it, and not for the processor and the disk, where they are.
    pub beginning_max: usize,
    /// Executions that may wait for an invocation in memory, per function, at some 80 bytes each;
    /// the others are looked at again and again.
    pub ready_max: usize,
    /// Executions that stay in memory while nothing happens to them.
    pub resting_max: usize,
    /// Records after which an execution's snapshot is taken, and no sooner than its journal has
    /// grown by half; folding one then reads few records, and all snapshots together cost no more
    /// than its records do.
    pub snapshot_records: u64,
    /// How long [`Engine::shut_down`] lets handlers finish.
    pub grace: Duration,
    /// Who says which functions there are.
    pub known: Known,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quotas: Quotas::unlimited(),
            invocations_max: 1_024,
            beginning_max: 64,
            ready_max: 1 << 20,
            resting_max: 1_024,
            snapshot_records: 1_000,
            grace: Duration::from_secs(10),
            known: Known::default(),
        }
    }
}

/// A durable engine on one store. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

/// An engine that may be gone.
#[derive(Clone, Debug)]
pub struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    /// The engine, if it is still there.
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner })
    }
}

/// Everything the engine's tasks share.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) keys: Keys,
    pub(crate) options: Options,
    pub(crate) runtime: Handle,
    pub(crate) registry: RwLock<Registry>,
    pub(crate) cells: Cells,
    pub(crate) quarantine: Quarantine,
    pub(crate) wakes: Wakes,
    pub(crate) dispatcher: Mutex<Dispatcher<NameAndVersion, ExecutionId>>,
    /// How often [`Inner::pump`] was wanted and has not been done.
    pub(crate) pumps: AtomicUsize,
    /// Invocations that are about to begin. Grows under the dispatcher's lock only.
    pub(crate) beginning: AtomicUsize,
    /// Invocations in flight.
    pub(crate) flights: Mutex<HashMap<ExecutionId, Arc<Flight>>>,
    /// Who waits for the end of an execution.
    pub(crate) watchers: Mutex<HashMap<ExecutionId, Watched>>,
    /// Intents that somebody carries out.
    pub(crate) carried: Mutex<BTreeSet<(ExecutionId, IntentKey)>>,
    /// What has become of executions.
    pub(crate) counts: Counts,
    /// Why the engine no longer works, once it does not.
    pub(crate) stopped: Stopped,
}

/// An invocation in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Its id.
    pub(crate) invocation: Arc<str>,
    /// Told when something changed that the handler does not know.
    pub(crate) changed: Notify,
    /// Ends the call.
    pub(crate) abort: OnceLock<AbortHandle>,
}

impl Flight {
    pub(crate) fn new(invocation: Arc<str>) -> Self {
        Self {
            invocation,
            changed: Notify::new(),
            abort: OnceLock::new(),
        }
    }
}

/// An execution whose end somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Told when it ends.
    pub(crate) ended: Arc<Notify>,
    /// How many wait.
    pub(crate) waiters: usize,
}

/// What an engine is made of.
pub struct Parts {
    /// Where executions are kept.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Ids and jitter.
    pub random: Arc<dyn Random>,
    /// The operator's choices.
    pub options: Options,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an engine; it calls nobody before [`Engine::run`].
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open(parts: Parts) -> Result<Self, Error> {
        let keys = keys(&*parts.store, &*parts.random).await?;
        let clock = StoreClock::new(parts.clock, &*parts.store)?;
        let options = parts.options;
        let inner = Inner {
            store: parts.store,
            clock: Arc::new(clock),
            random: parts.random,
            keys,
            runtime: Handle::current(),
            registry: RwLock::new(Registry::new(options.known)),
            cells: Cells::new(options.resting_max),
            quarantine: Quarantine::default(),
            wakes: Wakes::default(),
            dispatcher: Mutex::new(Dispatcher::new(options.invocations_max, options.ready_max)),
            pumps: AtomicUsize::new(0),
            beginning: AtomicUsize::new(0),
            flights: Mutex::default(),
            watchers: Mutex::default(),
            carried: Mutex::default(),
            counts: Counts::default(),
            stopped: Stopped::default(),
            options,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The engine's time, which handlers in this process share. It does not keep the engine alive.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock.clone()
    }

    /// A handle that does not keep the engine alive: for what the engine itself holds.
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }

    /// Makes a function known. What becomes of executions of others is for [`Known`] to say.
    pub fn register(&self, function: Registered) {
        let (lane, share) = (lane(&function.function), function.share);
        write(&self.inner.registry).put(function);
        lock(&self.inner.dispatcher).set_share(lane, share);
        // It may be able to take more than before.
        self.inner.pump();
    }

    /// Forgets one version of a function, or the function.
    pub fn unregister(&self, name: &str, version: Option<&str>) {
        let gone = write(&self.inner.registry).remove(name, version);
        let mut dispatcher = lock(&self.inner.dispatcher);
        for version in gone {
            dispatcher.forget_share(&(name.into(), version));
        }
        drop(dispatcher);
        self.inner.pump();
    }

    /// Sets the aliases of a function that is known: names that stand for its versions.
    pub fn set_aliases(&self, name: &str, aliases: BTreeMap<Arc<str>, Arc<str>>) {
        write(&self.inner.registry).set_aliases(name, aliases);
    }

    /// Takes up what was in flight when the store was last used, and wakes what is due, until the
    /// engine stops. Handlers run as tasks of the runtime the engine was opened on.
    pub async fn run(&self) {
        self.inner.recover_all().await;
        self.inner.keep_awake().await;
    }

    /// Starts an execution, or finds the one that an equal start created before. It goes on if
    /// nobody waits for it any more: what is stored must also be called.
    ///
    /// # Errors
    /// When the start is refused or cannot be stored.
    pub async fn start(&self, start: Start) -> Result<Started, Error> {
        let inner = self.inner.clone();
        let starting = self
            .inner
            .runtime
            .spawn(async move { inner.start(start).await });
        starting.await.unwrap_or_else(|_| Err(self.inner.gone()))
    }

    /// Decides an input for an execution; the answer is durable.
    ///
    /// # Errors
    /// When it is refused or cannot be stored.
    pub async fn decide(&self, execution: ExecutionId, input: Input) -> Result<Reply, Error> {
        self.inner.decide(execution, input).await
    }

    /// Why the engine stopped working by itself; resolves when it does.
    pub async fn failed(&self) -> Arc<str> {
        self.inner.stopped.wait().await
    }

    /// Whether it calls nobody any more: it was ended, or cannot go on.
    pub fn is_stopped(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Ends cleanly: no handler is called any more, those that run may finish within the grace
    /// period, and the store is closed. What was given up goes on when the store is next opened.
    pub async fn shut_down(&self) {
        self.inner.stop("it was shut down");
        let deadline = tokio::time::Instant::now() + self.inner.options.grace;
        while !lock(&self.inner.flights).is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.inner.note_time().await;
        self.abandon();
    }

    /// Ends at once, as a crash would: handlers are dropped where they are, and the store is closed.
    /// Everything goes on when the store is next opened.
    pub fn abandon(&self) {
        self.inner.stop("it was abandoned");
        // In an order that a simulation can repeat.
        let flights: BTreeMap<ExecutionId, Arc<Flight>> = {
            let flights = lock(&self.inner.flights);
            flights.iter().map(|(id, it)| (*id, it.clone())).collect()
        };
        for flight in flights.values() {
            if let Some(abort) = flight.abort.get() {
                abort.abort();
            }
        }
        self.inner.store.close();
    }
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its id.
    pub execution: ExecutionId,
    /// Its ARN.
    pub arn: Arc<str>,
    /// Whether an equal start had created it before.
    pub existed: bool,
}

/// The keys of a store, made when it is first used.
async fn keys(store: &dyn Store, random: &dyn Random) -> Result<Keys, Error> {
    let known = store.setting(KEYS_SETTING)?;
    let secret = match known.as_deref().map(<[u8; 32]>::try_from) {
        Some(Ok(secret)) => secret,
        Some(Err(_)) => {
            let reason = "the setting 'keys' is not a key".into();
            return Err(Error::Unreadable(StoreError::Unreadable(reason)));
        }
        None => {
            let secret = random.bytes();
            let put = store.put_setting(KEYS_SETTING, secret.to_vec());
            put.await.map_err(Error::NotWritten)?;
            secret
        }
    };
    Ok(Keys::new(Key::new(1, secret)))
}

impl Inner {
    /// The world, for one decision about an execution.
    pub(crate) fn with_env<R>(&self, reading: &Reading<'_>, work: impl FnOnce(&Env<'_>) -> R) -> R {
        let registry = read(&self.registry);
        let load = |number| reading.record(number);
        work(&Env {
            now: self.clock.now(),
            random: self.random.bytes(),
            keys: &self.keys,
            limits: &self.options.quotas,
            resolve: &|reference| registry.target(reference),
            load: &load,
        })
    }

    /// A reading of an execution's records, for payloads that are no longer in memory.
    pub(crate) fn reading(&self, id: ExecutionId) -> Reading<'_> {
        Reading::new(&*self.store, id)
    }

    /// Decides one input. A refusal that says [`Error::Rejected`] left the execution as it was; after
    /// any other the fold in memory must be thrown away.
    pub(crate) fn decide_one(
        &self,
        execution: &mut Execution,
        input: Input,
    ) -> Result<Decision, Error> {
        let reading = self.reading(execution.id());
        let decided = self.with_env(&reading, |env| execution.decide(env, input));
        self.judge(&reading, decided)
    }

    /// Asks an execution something for which payloads may have to be read again.
    pub(crate) fn ask<R>(
        &self,
        execution: &Execution,
        question: impl FnOnce(Load<'_>) -> Result<R, Rejection>,
    ) -> Result<R, Error> {
        let reading = self.reading(execution.id());
        let answer = question(&|number| reading.record(number));
        self.judge(&reading, answer)
    }

    /// Tells a refusal by the rules from a payload that could not be read, or that is not there.
    pub(crate) fn judge<R>(
        &self,
        reading: &Reading<'_>,
        answer: Result<R, Rejection>,
    ) -> Result<R, Error> {
        let id = reading.execution();
        answer.map_err(|rejection| match reading.failure() {
            Some(error) => self.damaged(id, error),
            None if rejection.code == Code::Service => {
                self.put_in_quarantine(id, rejection.to_string().into())
            }
            None => Error::Rejected(rejection),
        })
    }

    /// Posts mail to an execution; a task reads it.
    pub(crate) fn post(self: &Arc<Self>, id: ExecutionId, mail: Mail) {
        let cell: Arc<Cell> = self.cells.get(id);
        if cell.post([mail]) {
            drop(self.runtime.spawn(cell.work(self.clone())));
        }
    }

    /// Posts mail to an execution and reads it here, if nobody else is at it.
    async fn handle(self: &Arc<Self>, id: ExecutionId, mail: impl IntoIterator<Item = Mail>) {
        let cell = self.cells.get(id);
        if cell.post(mail) {
            // A mailbox must never be left half emptied.
            Unbroken::new(cell.work_once(self.clone()), &self.runtime).await;
        }
    }

    pub(crate) async fn decide(
        self: &Arc<Self>,
        id: ExecutionId,
        input: Input,
    ) -> Result<Reply, Error> {
        let (answer, reply): (Answer, _) = oneshot::channel();
        self.handle(id, [Mail::Decide(input, Some(answer))]).await;
        reply.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Looks at an execution as it is durable.
    pub(crate) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        id: ExecutionId,
        look: impl FnOnce(&Inner, &Execution) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (reader, seen) = self.reader(look);
        self.handle(id, [reader]).await;
        seen.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Decides an input and looks at the execution after it, in one go.
    pub(crate) async fn decide_and_read<R: Send + 'static>(
        self: &Arc<Self>,
        id: ExecutionId,
        input: Input,
        look: impl FnOnce(&Inner, &Execution) -> R + Send + 'static,
    ) -> (Result<Reply, Error>, Result<R, Error>) {
        let (answer, reply): (Answer, _) = oneshot::channel();
        let (reader, seen) = self.reader(look);
        let mail = [Mail::Decide(input, Some(answer)), reader];
        self.handle(id, mail).await;
        (
            reply.await.unwrap_or_else(|_| Err(self.gone())),
            seen.await.unwrap_or_else(|_| Err(self.gone())),
        )
    }

    fn reader<R: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&Inner, &Execution) -> R + Send + 'static,
    ) -> (Mail, oneshot::Receiver<Result<R, Error>>) {
        let (answer, seen) = oneshot::channel();
        let inner = self.clone();
        let reader = move |execution: Result<&Execution, Error>| {
            let _ = answer.send(execution.map(|execution| look(&inner, execution)));
        };
        (Mail::Read(Box::new(reader)), seen)
    }

    fn gone(&self) -> Error {
        let reason = self.stopped.reason().cloned();
        Error::Stopped(reason.unwrap_or_else(|| "its runtime is gone".into()))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.reason().is_some()
    }

    pub(crate) fn stop(&self, reason: &str) {
        self.stopped.set(reason);
        self.wakes.notify();
    }

    async fn start(self: &Arc<Self>, start: Start) -> Result<Started, Error> {
        if self.is_stopped() {
            return Err(self.gone());
        }
        if let Some(name) = &start.name
            && let Some(owner) = self.store.find(&start.function.name, name)?
        {
            return self.existing(owner, &start).await;
        }
        let id = ExecutionId::from_bits(0);
        let (execution, records) = self.with_env(&self.reading(id), |env| {
            Execution::start(env, start.clone())
        })?;
        let id = execution.id();
        let arn = execution.arn().clone();
        let inner = self.clone();
        // What becomes durable is called, even if its starter has gone meanwhile.
        let create = Unbroken::new(
            async move { inner.create_and_call(execution, records).await },
            &self.runtime,
        );
        match create.await {
            Ok(()) => Ok(Started {
                execution: id,
                arn,
                existed: false,
            }),
            Err(CommitError::NameTaken(owner)) => self.existing(owner, &start).await,
            Err(error) => {
                self.note_failure(&error);
                Err(Error::NotWritten(error))
            }
        }
    }

    /// The answer to a start whose name is taken.
    async fn existing(
        self: &Arc<Self>,
        owner: ExecutionId,
        start: &Start,
    ) -> Result<Started, Error> {
        let (function, input) = (start.function.clone(), start.input.clone());
        let found = self.read(owner, move |_, execution| {
            let reuse = reuse(Some(&execution.reservation()), &function, input.as_ref())?;
            Ok((reuse, execution.arn().clone()))
        });
        let (reuse, arn) = found.await?.map_err(Error::Rejected)?;
        match reuse {
            Reuse::Existing(_) | Reuse::New => Ok(Started {
                execution: owner,
                arn,
                existed: true,
            }),
        }
    }

    /// Stores a new execution that nobody else knows, and calls it: in the same commit, if a slot is
    /// free.
    async fn create_and_call(
        self: &Arc<Self>,
        mut execution: Execution,
        mut records: Vec<Record>,
    ) -> Result<(), CommitError> {
        let Some(boarded) = self.board(&mut execution, &mut records) else {
            return self.create(execution, &records).await;
        };
        match self.store_new(execution, &records).await {
            Ok(()) => {
                self.take_off(boarded);
                Ok(())
            }
            Err(error) => {
                self.stay(boarded);
                Err(error)
            }
        }
    }

    /// Stores a new execution and has it called.
    pub(crate) async fn create(
        self: &Arc<Self>,
        execution: Execution,
        records: &[Record],
    ) -> Result<(), CommitError> {
        let id = execution.id();
        let lane = lane(&execution.profile().arn.function);
        self.store_new(execution, records).await?;
        self.make_ready(&lane, id);
        Ok(())
    }

    async fn store_new(
        self: &Arc<Self>,
        execution: Execution,
        records: &[Record],
    ) -> Result<(), CommitError> {
        let commit = Commit {
            execution: execution.id(),
            expected: 0,
            records: frame::run(records),
            head: head(&execution, Some(ACTIVE)),
            snapshot: None,
        };
        self.store.commit(commit).await?;
        self.counts.started(&execution);
        let (id, deadline) = (execution.id(), execution.deadline());
        self.cells.put(id, Loaded::new(execution, Some(ACTIVE)));
        self.wakes.hint(id, deadline, true);
        Ok(())
    }

    /// Does what follows from a commit.
    pub(crate) fn act(
        self: &Arc<Self>,
        loaded: &Loaded,
        closed: bool,
        foreign: bool,
        intents: Vec<Intent>,
    ) {
        let execution = &loaded.execution;
        let id = execution.id();
        if closed {
            self.counts.ended(execution);
            if let Some(watcher) = lock(&self.watchers).remove(&id) {
                watcher.ended.notify_waiters();
            }
        }
        if foreign && let Some(flight) = lock(&self.flights).get(&id) {
            flight.changed.notify_one();
        }
        for intent in intents {
            if self.claim(id, &intent) {
                self.carry_out(id, intent);
            }
        }
        let now = self.clock.now();
        let flies = lock(&self.flights).contains_key(&id);
        let wake = if execution.invocation().is_some() && !flies {
            // Nobody calls it any more: what its invocation left is taken up soon.
            Some(now.plus_millis(LOOK_AGAIN_MS))
        } else if execution.status().is_terminal() {
            // Whoever carries out its intents comes back here.
            execution
                .retention_due()
                .filter(|_| !execution.has_intents())
        } else {
            execution.next_wake()
        };
        // What the index calls active it does not tell again, whatever has become of it since.
        self.wakes.settle(id, wake, loaded.wake == Some(ACTIVE));
        // A flight that is about to end looks for itself.
        if execution.wants_invocation(now) && !flies {
            self.make_ready(&lane(&execution.profile().arn.function), id);
        }
    }

    /// Remembers a store that can no longer be trusted.
    pub(crate) fn note_failure(&self, error: &CommitError) {
        if matches!(error, CommitError::Poisoned(_) | CommitError::Closed) {
            tracing::error!(%error, "the engine stops");
            self.stop(&error.to_string());
        }
    }

    /// What it means that nothing was written to an execution. One that is damaged stays so; the
    /// others are looked at again.
    pub(crate) fn not_written(&self, id: ExecutionId, error: CommitError) -> Error {
        if let CommitError::Damaged(reason) = error {
            return self.put_in_quarantine(id, reason);
        }
        self.note_failure(&error);
        self.look_again(id);
        Error::NotWritten(error)
    }

    /// Something could not be written: look at the execution again in a while.
    pub(crate) fn look_again(&self, id: ExecutionId) {
        let at = self.clock.now().plus_millis(LOOK_AGAIN_MS);
        self.wakes.hint(id, at, true);
    }

    pub(crate) fn damaged(&self, id: ExecutionId, error: StoreError) -> Error {
        match error {
            StoreError::Damaged { reason, .. } => self.put_in_quarantine(id, reason),
            StoreError::Unreadable(_) => Error::Unreadable(error),
        }
    }

    pub(crate) fn put_in_quarantine(&self, id: ExecutionId, reason: Arc<str>) -> Error {
        tracing::error!(execution = %id, %reason, "an execution is damaged and put in quarantine");
        self.quarantine.put(id, reason.clone());
        Error::Quarantined {
            execution: id,
            reason,
        }
    }

    /// Leaves a note of the time in the store, for a start with a clock that was set back.
    pub(crate) async fn note_time(&self) {
        if let Err(error) = self.clock.note(&*self.store).await {
            tracing::warn!(%error, "the time could not be noted");
            self.note_failure(&error);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn spawn(&self, work: BoxFuture<'static, ()>) -> AbortHandle {
        self.runtime.spawn(work).abort_handle()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
