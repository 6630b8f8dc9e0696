//! Calling handlers: fair turns, one invocation per execution, and what to do when one is lost.

use crate::{
    cell::Mail,
    engine::{Flight, Inner, LOOK_AGAIN_MS, lock, read},
    error::Error,
    function::{Known, NameAndVersion, lane},
    invoker::Call,
};
use outlast_core::{
    Code, Execution, Input, Outcome, Record,
    arn::{ExecutionId, Function},
    id::{digest128, uuid},
    record::Profile,
    schedule::Admission,
    wire::{ErrorObject, InvocationInput},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::task::JoinSet;

/// Executions taken up in one go after a restart.
const RECOVER_MAX: usize = 256;

impl Inner {
    /// An execution wants to be called.
    pub(crate) fn make_ready(self: &Arc<Self>, lane: &NameAndVersion, id: ExecutionId) {
        let admission = lock(&self.dispatcher).ready(lane, id);
        match admission {
            Admission::Queued | Admission::AlreadyQueued => self.pump(),
            Admission::Full => self.wakes.offer_again(id, self.now()),
        }
    }

    /// Calls whoever's turn it is.
    pub(crate) fn pump(self: &Arc<Self>) {
        // Whoever is at it already does it once more: a runtime that ends drops what is spawned at
        // once, slot and all, and would otherwise end up here again for every execution that waits.
        if self.pumps.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.call_claimed();
            let wanted = self.pumps.fetch_sub(seen, Ordering::AcqRel);
            seen = wanted - seen;
            if seen == 0 {
                return;
            }
        }
    }

    fn call_claimed(self: &Arc<Self>) {
        if self.is_stopped() {
            return;
        }
        let claimed = {
            let mut dispatcher = lock(&self.dispatcher);
            let beginning = self.beginning.load(Ordering::Relaxed);
            let free = self.options.beginning_max.saturating_sub(beginning);
            let claimed = dispatcher.claim(free);
            self.beginning.fetch_add(claimed.len(), Ordering::Relaxed);
            claimed
        };
        for (lane, id) in claimed {
            let slot = self.slot(lane, id);
            let flight = slot.flight.clone();
            let begins = Begins(self.clone());
            let call = async move { slot.inner.fly(&slot, begins).await };
            let abort = self.spawn(Box::pin(call));
            let _ = flight.abort.set(abort);
        }
    }

    /// A claimed slot. Whatever becomes of the call, it comes back.
    fn slot(self: &Arc<Self>, lane: NameAndVersion, id: ExecutionId) -> Slot {
        let random = self.random.bytes();
        let invocation = uuid(digest128(&[b"invocation", &random]));
        Slot {
            inner: self.clone(),
            lane,
            id,
            flight: Arc::new(Flight::new(invocation.into())),
        }
    }

    /// Begins the first invocation of an execution that is about to be stored, if it would get a
    /// slot at once: one commit less than storing it first.
    pub(crate) fn board(
        self: &Arc<Self>,
        execution: &mut Execution,
        records: &mut Vec<Record>,
    ) -> Option<Boarded> {
        let lane = lane(&execution.profile().arn.function);
        if self.is_stopped() || !lock(&self.dispatcher).claim_free(&lane) {
            return None;
        }
        let slot = self.slot(lane, execution.id());
        let begin = Input::Invoke {
            invocation_id: slot.flight.invocation.clone(),
        };
        // Nothing forbids it to an execution that is new; if something did, its turn would tell.
        let decision = self.decide_one(execution, begin).ok()?;
        lock(&self.flights).insert(slot.id, slot.flight.clone());
        records.extend(decision.records);
        Some(Boarded {
            profile: execution.shared_profile().clone(),
            input: decision.reply.into_invocation()?,
            slot,
        })
    }

    /// Calls the handler of an execution that has been stored with its invocation.
    pub(crate) fn take_off(self: &Arc<Self>, boarded: Boarded) {
        let flight = boarded.slot.flight.clone();
        let call = async move {
            let Boarded {
                slot,
                input,
                profile,
            } = boarded;
            slot.inner.carry(&slot, &profile, input).await;
        };
        let abort = self.spawn(Box::pin(call));
        let _ = flight.abort.set(abort);
    }

    /// The execution was not stored: there is nothing to look at again.
    pub(crate) fn stay(&self, boarded: Boarded) {
        self.land(boarded.slot.id, &boarded.slot.flight);
    }

    /// One invocation, from its beginning to its end.
    async fn fly(self: &Arc<Self>, slot: &Slot, begins: Begins) {
        let Slot { id, flight, .. } = slot;
        let id = *id;
        // Whoever flies now looks at its end whether another flight is wanted.
        if lock(&self.flights).try_insert(id, flight.clone()).is_err() {
            return;
        }
        let begin = Input::Invoke {
            invocation_id: flight.invocation.clone(),
        };
        let profile = |_: &Self, execution: &Execution| execution.shared_profile().clone();
        let (reply, profile) = self.decide_and_read(id, begin, profile).await;
        let input = match reply {
            Ok(reply) => reply.into_invocation(),
            Err(Error::Rejected(rejection)) if rejection.code == Code::Conflict => {
                self.land(id, flight);
                self.recover(id).await;
                None
            }
            Err(error) => {
                tracing::warn!(execution = %id, %error, "an invocation could not begin");
                None
            }
        };
        let (Some(input), Ok(profile)) = (input, profile) else {
            return;
        };
        drop(begins);
        self.carry(slot, &profile, input).await;
    }

    /// Calls the handler, and stores how that ended.
    async fn carry(self: &Arc<Self>, slot: &Slot, profile: &Profile, input: InvocationInput) {
        let Slot { id, flight, .. } = slot;
        let id = *id;
        let invocation = flight.invocation.clone();
        let outcome = self.call(profile, &invocation, input).await;
        note_outcome(profile, &outcome);
        let end = Input::Complete {
            invocation_id: invocation,
            outcome,
        };
        let own = flight.clone();
        let again = move |inner: &Self, execution: &Execution| {
            // The flight ends while nobody else decides: what is decided later finds it gone and has
            // the execution called itself, what was decided before is seen here.
            inner.land(id, &own);
            execution.wants_invocation(inner.now())
        };
        let (ended, again) = self.decide_and_read(id, end, again).await;
        self.land(id, flight);
        if let Err(error) = ended {
            tracing::warn!(execution = %id, %error, "the end of an invocation could not be stored");
            self.look_again(id);
        }
        if matches!(again, Ok(true)) {
            self.make_ready(&slot.lane, id);
        }
    }

    /// A flight is over. Whether it was the one in the air.
    fn land(&self, id: ExecutionId, flight: &Arc<Flight>) -> bool {
        let mut flights = lock(&self.flights);
        let known = flights.get(&id);
        let own = known.is_some_and(|known| Arc::ptr_eq(known, flight));
        if own {
            flights.remove(&id);
        }
        own
    }

    /// The invocation whose handler nobody has called yet, and the function it is of.
    pub(crate) fn unbegun<'a>(&self, execution: &'a Execution) -> Option<(&'a str, &'a Function)> {
        // One that was stopped meanwhile has an answer of its own.
        if execution.status().is_terminal() {
            return None;
        }
        let invocation = execution.invocation()?;
        let function = &execution.profile().arn.function;
        let registry = read(&self.registry);
        let registered = registry.get(&function.name, &function.version)?;
        (!registered.invoker.has_begun(invocation)).then_some((invocation, function))
    }

    async fn call(
        &self,
        profile: &Profile,
        invocation: &Arc<str>,
        input: InvocationInput,
    ) -> Outcome {
        let Function { name, version, .. } = &profile.arn.function;
        let (registered, known) = {
            let registry = read(&self.registry);
            (registry.get(name, version).cloned(), registry.known)
        };
        let Some(registered) = registered else {
            if known == Known::ByCatalogue {
                return Outcome::function_missing(&profile.arn.function.to_string());
            }
            let message = format!("no host serves the function {name}:{version}");
            let error = ErrorObject::new("ResourceNotReadyException", message);
            return Outcome::NotStarted(error);
        };
        let call = Call {
            function: profile.arn.function.clone(),
            invocation_id: invocation.clone(),
            input,
            tenant: profile.tenant.as_deref().map(Into::into),
            trace: profile.trace.as_deref().map(Into::into),
            client_context: profile.client_context.as_deref().map(Into::into),
        };
        let running = registered.invoker.invoke(call);
        match registered.timeout {
            None => running.await,
            Some(limit) => tokio::time::timeout(limit, running)
                .await
                .unwrap_or_else(|_| {
                    Outcome::timed_out(u32::try_from(limit.as_secs()).unwrap_or(u32::MAX))
                }),
        }
    }

    /// Lets what is due happen.
    pub(crate) fn tick(self: &Arc<Self>, id: ExecutionId) {
        self.post(id, Mail::Decide(Input::Tick, None));
    }

    /// Takes up every execution that somebody was working on when the store was last used.
    pub(crate) async fn recover_all(self: &Arc<Self>) {
        let mut after = None;
        loop {
            let until = crate::cell::ACTIVE;
            let found = match self.store.due(after, until, RECOVER_MAX) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "the executions in flight cannot be read");
                    if self.is_stopped() {
                        return;
                    }
                    // Nobody else would ever take them up.
                    tokio::time::sleep(Duration::from_millis(LOOK_AGAIN_MS)).await;
                    continue;
                }
            };
            let mut recovering = JoinSet::new();
            for wake in &found {
                let (inner, id) = (self.clone(), wake.execution);
                recovering.spawn_on(async move { inner.recover(id).await }, &self.runtime);
            }
            while recovering.join_next().await.is_some() {}
            match found.last() {
                Some(last) => after = Some(*last),
                None => return,
            }
        }
    }

    /// Takes up one execution, whatever was going on with it.
    pub(crate) async fn recover(self: &Arc<Self>, id: ExecutionId) {
        let seen = self.read(id, move |inner, execution| {
            let mut intents = inner.ask(execution, |load| execution.intents(load))?;
            // Claimed while nobody else decides: what is not claimed yet is not acknowledged
            // either.
            intents.retain(|intent| inner.claim(id, intent));
            Ok::<_, Error>(Seen {
                invocation: execution.invocation().cloned(),
                intents,
            })
        });
        let seen = match seen.await.flatten() {
            Ok(seen) => seen,
            Err(error) => {
                tracing::error!(execution = %id, %error, "an execution cannot be taken up");
                if matches!(error, Error::Unreadable(_)) {
                    self.recover_later(id);
                }
                return;
            }
        };
        for intent in seen.intents {
            self.carry_out(id, intent);
        }
        // Nobody calls it: whoever did is gone.
        let lost = seen
            .invocation
            .filter(|_| !lock(&self.flights).contains_key(&id));
        let input = match lost {
            Some(invocation_id) => Input::Complete {
                invocation_id,
                outcome: Outcome::Lost,
            },
            None => Input::Tick,
        };
        if let Err(error) = self.decide(id, input).await {
            tracing::warn!(execution = %id, %error, "an execution could not be taken up");
        }
    }

    /// Takes up one execution in a while: nobody else would carry out its intents.
    fn recover_later(self: &Arc<Self>, id: ExecutionId) {
        let inner = self.clone();
        self.spawn(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(LOOK_AGAIN_MS)).await;
            if !inner.is_stopped() {
                inner.recover(id).await;
            }
        }));
    }

    /// An execution has ended long enough ago.
    pub(crate) fn expire(self: &Arc<Self>, id: ExecutionId) {
        let inner = self.clone();
        self.spawn(Box::pin(async move {
            let due = inner.read(id, |_, execution| {
                let left = execution.has_intents() || execution.invocation().is_some();
                (left, execution.retention_due(), execution.records())
            });
            match due.await {
                // It ended before what it had under way did.
                Ok((true, _, _)) => inner.recover(id).await,
                Ok((false, Some(due), version)) if due <= inner.now() => {
                    match inner.store.delete(id, version).await {
                        Ok(()) => inner.cells.forget(id),
                        Err(error) => drop(inner.not_written(id, error)),
                    }
                }
                Ok((false, Some(due), _)) => inner.wakes.hint(id, due, false),
                Ok((false, None, _)) => {}
                // If it could not be read, its turn has asked to look again.
                Err(error) => tracing::warn!(execution = %id, %error, "retention has to wait"),
            }
        }));
    }
}

/// Tells operators of calls that went wrong. The message may hold anything, so only its type.
fn note_outcome(profile: &Profile, outcome: &Outcome) {
    let execution = &profile.arn;
    match outcome {
        Outcome::Failed(error) => {
            let kind = error.error_type.as_deref().unwrap_or_default();
            tracing::warn!(%execution, kind, "an invocation failed");
        }
        Outcome::FunctionMissing(_) => {
            tracing::warn!(%execution, "the function of an execution is gone: it fails");
        }
        Outcome::NotStarted(error) => {
            let kind = error.error_type.as_deref().unwrap_or_default();
            tracing::info!(%execution, kind, "nobody took an invocation; it is tried again");
        }
        Outcome::Lost => tracing::info!(%execution, "an invocation is lost"),
        Outcome::Answered(_) | Outcome::Output(_) => {}
    }
}

struct Seen {
    invocation: Option<Arc<str>>,
    intents: Vec<outlast_core::Intent>,
}

/// A first invocation that is about to be stored together with its execution.
pub(crate) struct Boarded {
    slot: Slot,
    profile: Arc<Profile>,
    input: InvocationInput,
}

/// An invocation that is about to begin, until this is dropped.
struct Begins(Arc<Inner>);

impl Drop for Begins {
    fn drop(&mut self) {
        self.0.beginning.fetch_sub(1, Ordering::Relaxed);
        self.0.pump();
    }
}

/// A claimed slot, which comes back however the call ends.
struct Slot {
    inner: Arc<Inner>,
    lane: NameAndVersion,
    id: ExecutionId,
    flight: Arc<Flight>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.inner.land(self.id, &self.flight) {
            // It did not come to its end: whatever it has begun has to be taken up.
            self.inner.look_again(self.id);
        }
        lock(&self.inner.dispatcher).finished(&self.lane);
        self.inner.pump();
    }
}
