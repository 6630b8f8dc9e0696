//! Which waiting call goes to which asking worker. Pure: no clock, no IO, no tasks.
//!
//! Calls are served in the order they came, as far as tenants allow. A worker that has served a
//! tenant, or none, serves no other one from then on. A worker that cannot be told from others gets
//! no tenant's calls at all: nobody could say what it has served before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The tenant of a call, or none.
pub(crate) type Tenant = Option<Arc<str>>;

/// Who asks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A worker that was announced to the host, by number.
    Worker(u64),
    /// A process, by id and time of birth.
    Process(i32, u64),
    /// A connection of which nothing else is known, by number.
    Connection(u64),
}

impl Key {
    /// Whether all requests of this worker, and only its requests, carry this key.
    fn tells_apart(self) -> bool {
        match self {
            Self::Worker(_) | Self::Process(..) => true,
            Self::Connection(_) => false,
        }
    }
}

/// A call that waits, with its place in line.
#[derive(Debug)]
pub(crate) struct Waiting<C> {
    place: u64,
    tenant: Tenant,
    pub(crate) call: C,
}

/// The place of a call in line, by which it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// A request for work, by which it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking(u64);

/// A call and who gets it.
#[derive(Debug)]
pub(crate) struct Match<C, P> {
    pub(crate) waiting: Waiting<C>,
    pub(crate) poll: P,
}

/// Calls that wait for workers, and workers that wait for calls.
#[derive(Debug)]
pub(crate) struct Queue<C, P> {
    next: u64,
    waiting: BTreeMap<u64, Waiting<C>>,
    waiting_of: BTreeMap<Tenant, BTreeSet<u64>>,
    polls: BTreeMap<u64, (Key, P)>,
    /// Polls of workers that have served nobody yet.
    fresh: BTreeSet<u64>,
    /// Polls of workers that serve one tenant only.
    bound: BTreeMap<Tenant, BTreeSet<u64>>,
    workers: BTreeMap<Key, Worker>,
}

#[derive(Debug, Default)]
struct Worker {
    /// Whom it has served.
    serves: Option<Tenant>,
    polls: BTreeSet<u64>,
    /// It is about to be replaced and gets nothing more.
    retired: bool,
}

impl<C, P> Default for Queue<C, P> {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
            waiting_of: BTreeMap::new(),
            polls: BTreeMap::new(),
            fresh: BTreeSet::new(),
            bound: BTreeMap::new(),
            workers: BTreeMap::new(),
        }
    }
}

impl<C, P> Queue<C, P> {
    /// Calls that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Requests for work that are open.
    pub(crate) fn asking(&self) -> usize {
        self.polls.len()
    }

    /// Workers that are known.
    pub(crate) fn workers(&self) -> impl Iterator<Item = Key> {
        self.workers.keys().copied()
    }

    /// Puts a call at the end of the line.
    pub(crate) fn offer(&mut self, tenant: Tenant, call: C) -> Place {
        let place = self.number();
        self.put_back(Waiting {
            place,
            tenant,
            call,
        });
        Place(place)
    }

    /// Puts a call where it was in the line.
    pub(crate) fn put_back(&mut self, waiting: Waiting<C>) {
        let line = self.waiting_of.entry(waiting.tenant.clone()).or_default();
        line.insert(waiting.place);
        self.waiting.insert(waiting.place, waiting);
    }

    /// Takes a call out of the line.
    pub(crate) fn withdraw(&mut self, place: Place) -> Option<Waiting<C>> {
        let waiting = self.waiting.remove(&place.0)?;
        if let Some(line) = self.waiting_of.get_mut(&waiting.tenant) {
            line.remove(&place.0);
            if line.is_empty() {
                self.waiting_of.remove(&waiting.tenant);
            }
        }
        Some(waiting)
    }

    /// A worker asks for work.
    pub(crate) fn ask(&mut self, key: Key, poll: P) -> Asking {
        let number = self.number();
        let worker = self.workers.entry(key).or_default();
        worker.polls.insert(number);
        if !key.tells_apart() {
            worker.serves = Some(None);
        }
        match &worker.serves {
            _ if worker.retired => false,
            None => self.fresh.insert(number),
            Some(tenant) => self.bound.entry(tenant.clone()).or_default().insert(number),
        };
        self.polls.insert(number, (key, poll));
        Asking(number)
    }

    /// A worker no longer waits for what it asked for.
    pub(crate) fn unask(&mut self, asking: Asking) -> Option<P> {
        let (key, poll) = self.polls.remove(&asking.0)?;
        self.fresh.remove(&asking.0);
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.polls.remove(&asking.0);
            if let Some(tenant) = &worker.serves
                && let Some(polls) = self.bound.get_mut(tenant)
            {
                polls.remove(&asking.0);
                if polls.is_empty() {
                    self.bound.remove(tenant);
                }
            }
            if worker.polls.is_empty() && !key.tells_apart() {
                self.workers.remove(&key);
            }
        }
        Some(poll)
    }

    /// The next call for which there is a worker. Repeated until there is none left.
    pub(crate) fn next_match(&mut self) -> Option<Match<C, P>> {
        let place = match self.fresh.is_empty() {
            false => self.waiting.keys().next().copied(),
            true => {
                let lines = self.bound.keys().map(|tenant| self.waiting_of.get(tenant));
                lines.flatten().filter_map(BTreeSet::first).min().copied()
            }
        }?;
        let tenant = self.waiting.get(&place)?.tenant.clone();
        let number = self.poll_for(&tenant)?;
        let (key, _) = self.polls.get(&number)?;
        self.bind(*key, tenant);
        let poll = self.unask(Asking(number))?;
        let waiting = self.withdraw(Place(place))?;
        Some(Match { waiting, poll })
    }

    /// The first waiting call that this worker could serve, for when the worker fails to start.
    pub(crate) fn take_for(&mut self, key: Key) -> Option<Waiting<C>> {
        let serves = self
            .workers
            .get(&key)
            .and_then(|worker| worker.serves.clone());
        let place = match (serves, key.tells_apart()) {
            (Some(tenant), _) => *self.waiting_of.get(&tenant)?.first()?,
            (None, true) => *self.waiting.keys().next()?,
            (None, false) => *self.waiting_of.get(&None)?.first()?,
        };
        self.withdraw(Place(place))
    }

    /// Forgets workers that are gone. Whoever still asks is not gone.
    pub(crate) fn retain(&mut self, mut is_there: impl FnMut(Key) -> bool) {
        self.workers
            .retain(|key, worker| !worker.polls.is_empty() || is_there(*key));
    }

    /// Workers that wait although calls do, because they have served another tenant. Only a fresh
    /// worker in the stead of one of them helps.
    pub(crate) fn misfits(&self) -> impl Iterator<Item = Key> {
        let idle = match self.waiting.is_empty() {
            true => None,
            false => Some(self.polls.values().map(|(key, _)| *key)),
        };
        let serves = |key: &Key| self.workers.get(key).is_some_and(|worker| !worker.retired);
        idle.into_iter()
            .flatten()
            .filter(move |key| key.tells_apart() && serves(key))
    }

    /// A worker is about to be replaced: it gets nothing more, however often it asks.
    pub(crate) fn retire(&mut self, key: Key) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        worker.retired = true;
        for number in &worker.polls {
            self.fresh.remove(number);
            if let Some(tenant) = &worker.serves
                && let Some(polls) = self.bound.get_mut(tenant)
            {
                polls.remove(number);
                if polls.is_empty() {
                    self.bound.remove(tenant);
                }
            }
        }
    }

    fn poll_for(&self, tenant: &Tenant) -> Option<u64> {
        let bound = self.bound.get(tenant).and_then(BTreeSet::first);
        bound.or_else(|| self.fresh.first()).copied()
    }

    /// From now on the worker serves this tenant only, with all its polls.
    fn bind(&mut self, key: Key, tenant: Tenant) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if worker.serves.is_none() {
            let bound = self.bound.entry(tenant.clone()).or_default();
            for number in &worker.polls {
                self.fresh.remove(number);
                bound.insert(*number);
            }
            worker.serves = Some(tenant);
        }
    }

    fn number(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }
}

#[cfg(test)]
mod tests;
