//! Calls of ordinary functions that nobody waits for: durable before their caller is told, and made
//! at least once, whatever crashes in between.
//!
//! There is a bounded number of places, each a setting of the engine that is empty while nobody has
//! it. A call whose function fails is repeated as the service does; a call that nobody could take is
//! offered again until it is too old. What becomes of it in the end is only logged.

use crate::error::ApiError;
use outlast_core::{Code, intent::InvokeOutcome, wire::ErrorObject};
use outlast_engine::{Engine, Error, invoker::PlainCall};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{runtime::Handle, sync::OnceCell};

/// The setting that says how many places were ever used.
const PLACES_SETTING: &str = "events";
/// Places are taken into use in steps of so many: each step is one more write.
const STEP: usize = 64;
/// One function may have the places divided by this: another one still finds some.
const SHARES: usize = 4;
/// A call that is older is given up, unless it is running.
const AGE_MAX_MS: u64 = 6 * 3_600_000;
/// First pause before a call is offered again that nobody could take; doubles up to the next
/// constant.
const OFFER_MS_MIN: u64 = 1_000;
/// Longest pause before a call is offered again.
const OFFER_MS_MAX: u64 = 300_000;
/// Longest sleep: the engine's clock may be moved meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A call that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Event {
    function: String,
    version: String,
    input: String,
    tenant: Option<String>,
    trace: Option<String>,
    received_ms: u64,
    /// How often its function has failed.
    failures: usize,
    /// Not to be called before.
    due_ms: u64,
}

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    places_max: usize,
    /// Pauses before a call is repeated whose function failed, one for each repetition.
    retries: Vec<Duration>,
    places: Mutex<Places>,
    resumed: OnceCell<()>,
    /// One at a time takes further places into use.
    growing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Places {
    taken: BTreeSet<usize>,
    /// How many each function has.
    of: BTreeMap<String, usize>,
    /// Places that are read after a restart.
    used: usize,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// At most `places_max` calls; those left of an earlier life wait for [`resume`](Self::resume).
    pub(crate) fn new(engine: Engine, places_max: usize, retries: Vec<Duration>) -> Self {
        Self {
            inner: Arc::new(Inner {
                engine,
                places_max,
                retries,
                places: Mutex::default(),
                resumed: OnceCell::new(),
                growing: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().taken.len()
    }

    /// Takes up what an earlier life left behind, once.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn resume(&self) -> Result<(), Error> {
        let resumed = self.inner.resumed.get_or_try_init(|| async {
            let events = self.inner.read()?;
            for (number, event) in events {
                let place = self.inner.clone().occupy(number, &event.function);
                drop(Handle::current().spawn(place.work(event)));
            }
            Ok(())
        });
        resumed.await.copied()
    }

    /// Keeps a call and sees to it. Durable when this returns.
    ///
    /// # Errors
    /// When there is no place for it, or it cannot be stored.
    pub(crate) async fn accept(&self, call: PlainCall) -> Result<(), ApiError> {
        self.resume().await?;
        let now = self.inner.engine.now().as_millis();
        let event = Event {
            function: call.function.name.to_string(),
            version: call.function.version.to_string(),
            input: String::from(&*call.input),
            tenant: call.tenant,
            trace: call.trace,
            received_ms: now,
            failures: 0,
            due_ms: now,
        };
        let Some(place) = self.inner.clone().take(&event.function) else {
            let message = "too many asynchronous calls are under way";
            return Err(ApiError::of(Code::TooManyRequests, message));
        };
        // What is stored is called, even if its caller has gone meanwhile.
        let storing = Handle::current().spawn(async move {
            let inner = &place.inner;
            let stored = match inner.grow(place.number).await {
                Ok(()) => inner.put(place.number, Some(&event)).await,
                Err(error) => Err(error),
            };
            if stored.is_ok() {
                drop(Handle::current().spawn(place.work(event)));
            }
            stored
        });
        match storing.await {
            Ok(stored) => Ok(stored?),
            Err(_) => Err(ApiError::of(Code::Service, "the server is shutting down")),
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls that are stored, with their places.
    fn read(&self) -> Result<Vec<(usize, Event)>, Error> {
        let used = self.engine.setting(PLACES_SETTING)?.unwrap_or_default();
        let used = serde_json::from_slice(&used).unwrap_or_default();
        self.lock().used = used;
        let mut events = Vec::new();
        for number in 0..used {
            let stored = self.engine.setting(&key(number))?.unwrap_or_default();
            if stored.is_empty() {
                continue;
            }
            match serde_json::from_slice(&stored) {
                Ok(event) => events.push((number, event)),
                Err(error) => {
                    tracing::error!(number, %error, "an asynchronous call cannot be read");
                }
            }
        }
        Ok(events)
    }

    fn occupy(self: Arc<Self>, number: usize, function: &str) -> Place {
        let mut places = self.lock();
        places.taken.insert(number);
        *places.of.entry(function.to_owned()).or_default() += 1;
        drop(places);
        Place {
            inner: self,
            number,
            function: function.to_owned(),
        }
    }

    /// The first free place, if the function may have one more.
    fn take(self: Arc<Self>, function: &str) -> Option<Place> {
        let mut places = self.lock();
        let own = places.of.get(function).copied().unwrap_or_default();
        let share = (self.places_max / SHARES).max(1);
        // Those of an earlier life may lie beyond what is allowed now.
        if own >= share || places.taken.len() >= self.places_max {
            return None;
        }
        let number = (0..self.places_max).find(|number| !places.taken.contains(number))?;
        places.taken.insert(number);
        *places.of.entry(function.to_owned()).or_default() += 1;
        drop(places);
        Some(Place {
            inner: self,
            number,
            function: function.to_owned(),
        })
    }

    /// Makes sure that a place is read after a restart.
    async fn grow(&self, number: usize) -> Result<(), Error> {
        if number < self.lock().used {
            return Ok(());
        }
        let _growing = self.growing.lock().await;
        if number < self.lock().used {
            return Ok(());
        }
        let used = (number / STEP + 1) * STEP;
        let value = used.to_string().into_bytes();
        self.engine.put_setting(PLACES_SETTING, value).await?;
        self.lock().used = used;
        Ok(())
    }

    async fn put(&self, number: usize, event: Option<&Event>) -> Result<(), Error> {
        let value = event.map(serde_json::to_vec);
        let value = value.and_then(Result::ok).unwrap_or_default();
        self.engine.put_setting(&key(number), value).await
    }
}

/// The setting of a place.
fn key(number: usize) -> String {
    format!("event/{number}")
}

/// A place that somebody has, until this is dropped.
struct Place {
    inner: Arc<Inner>,
    number: usize,
    function: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.inner.lock();
        places.taken.remove(&self.number);
        if let Some(own) = places.of.get_mut(&self.function) {
            *own -= 1;
            if *own == 0 {
                places.of.remove(&self.function);
            }
        }
    }
}

/// What a call came to.
enum Tried {
    /// It is over, in one way or another.
    Over,
    /// Its function failed.
    Failed(ErrorObject),
    /// Nobody could take it.
    NotTaken(ErrorObject),
}

impl Place {
    /// Calls until that has worked or makes no sense any more; then empties the place.
    async fn work(self, mut event: Event) {
        let engine = self.inner.engine.clone();
        let mut offers = 0;
        loop {
            self.until(event.due_ms).await;
            if engine.is_stopped() {
                // It is called when the store is next opened.
                return;
            }
            let tried = self.call(&event).await;
            let now = engine.now().as_millis();
            let (error, pause_ms) = match tried {
                Tried::Over => break,
                Tried::Failed(error) => {
                    let pause = self.inner.retries.get(event.failures);
                    event.failures += 1;
                    (error, pause.map(|pause| millis(*pause)))
                }
                Tried::NotTaken(error) => {
                    let pause = OFFER_MS_MIN.saturating_mul(1 << offers.min(16));
                    offers += 1;
                    (error, Some(pause.min(OFFER_MS_MAX)))
                }
            };
            let due = pause_ms.map(|pause| now.saturating_add(pause));
            let due = due.filter(|due| due.saturating_sub(event.received_ms) <= AGE_MAX_MS);
            let function = &event.function;
            let Some(due) = due else {
                tracing::warn!(%function, %error, "an asynchronous call is given up");
                break;
            };
            tracing::info!(%function, %error, "an asynchronous call is repeated later");
            event.due_ms = due;
            if let Err(error) = self.inner.put(self.number, Some(&event)).await {
                // What is stored already only has it repeated earlier, or once more.
                tracing::warn!(%error, "the failure of an asynchronous call was not stored");
            }
        }
        self.empty().await;
    }

    async fn until(&self, due_ms: u64) {
        loop {
            let left = due_ms.saturating_sub(self.inner.engine.now().as_millis());
            if left == 0 || self.inner.engine.is_stopped() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left).min(SLEEP_MAX)).await;
        }
    }

    async fn call(&self, event: &Event) -> Tried {
        let reference = format!("{}:{}", event.function, event.version);
        let registered = match self.inner.engine.registered(&reference) {
            Ok(registered) if registered.config.is_none() => registered,
            Ok(_) | Err(_) => {
                tracing::warn!(function = %reference, "an asynchronous call has no function any more");
                return Tried::Over;
            }
        };
        let call = PlainCall {
            id: None,
            function: registered.function.clone(),
            input: event.input.as_str().into(),
            tenant: event.tenant.clone(),
            trace: event.trace.clone(),
            client_context: None,
        };
        match registered.call_plain(call).await {
            InvokeOutcome::Succeeded(_) | InvokeOutcome::Stopped(_) => Tried::Over,
            InvokeOutcome::Failed(error) if was_not_taken(&error) => Tried::NotTaken(error),
            InvokeOutcome::Failed(error) | InvokeOutcome::TimedOut(error) => Tried::Failed(error),
        }
    }

    /// Empties the place. Nobody else gets it before.
    async fn empty(&self) {
        while let Err(error) = self.inner.put(self.number, None).await {
            if self.inner.engine.is_stopped() {
                return;
            }
            tracing::warn!(%error, "the end of an asynchronous call was not stored");
            tokio::time::sleep(SLEEP_MAX).await;
        }
    }
}

/// Whether no handler saw the call, by the names that hosts use for that.
fn was_not_taken(error: &ErrorObject) -> bool {
    matches!(
        error.error_type.as_deref(),
        Some(
            "TooManyRequestsException"
                | "ResourceNotReadyException"
                | "ServiceUnavailableException"
        )
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
