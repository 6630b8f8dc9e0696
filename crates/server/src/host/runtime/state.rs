//! What a runtime host remembers: the line, the open requests for work and the invocations that
//! workers have. Everything is changed under one lock, and nobody waits while holding it.

use crate::host::{
    ending::Ending,
    lock,
    peer::{Gone, Peer},
    queue::{Asking, Key, Place, Queue, Waiting},
    runtime::{Backlog, NewCall},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};
use tokio::{sync::oneshot, time::Instant};

/// Invocations, given up because their worker seemed dead, whose answers are still recognised.
const GIVEN_UP_MAX: usize = 64;

/// A call on its way to a worker.
#[derive(Debug)]
pub(super) struct Work {
    call: NewCall,
    handed: oneshot::Sender<Handover>,
    ended: oneshot::Sender<Ending>,
}

impl Work {
    pub(super) fn new(
        call: NewCall,
        handed: oneshot::Sender<Handover>,
        ended: oneshot::Sender<Ending>,
    ) -> Self {
        Self {
            call,
            handed,
            ended,
        }
    }
}

/// A worker has the call.
#[derive(Debug)]
pub(super) struct Handover {
    pub(super) peer: Peer,
    /// Whether the end of its process or connection may mean its death.
    pub(super) trusted: bool,
    pub(super) until: Instant,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    /// It ended the invocation.
    Taken,
    /// There is no such invocation, or no longer.
    Unknown,
}

/// What a runtime host remembers.
#[derive(Debug, Default)]
pub(super) struct State {
    queue: Queue<Work, oneshot::Sender<Waiting<Work>>>,
    assigned: BTreeMap<Arc<str>, Assigned>,
    /// How to find out whether a worker is still there.
    peers: BTreeMap<Key, Peer>,
    /// Invocations whose end nobody waits for any more, with their deadlines.
    abandoned: BTreeMap<Arc<str>, Instant>,
    given_up: VecDeque<Arc<str>>,
    /// Some worker answered after its process or connection had ended.
    outlived: bool,
}

#[derive(Debug)]
struct Assigned {
    key: Key,
    until: Instant,
    ended: oneshot::Sender<Ending>,
}

impl State {
    /// Whether a worker has taken this call.
    pub(super) fn has_worker(&self, id: &str) -> bool {
        self.assigned.contains_key(id)
    }

    pub(super) fn backlog(&self) -> Backlog {
        let asking = self.queue.workers();
        let there = asking.filter(|key| self.peers.get(key).is_none_or(Peer::is_there));
        let workers: BTreeSet<Key> = there
            .chain(self.assigned.values().map(|assigned| assigned.key))
            .collect();
        Backlog {
            waiting: self.queue.waiting(),
            assigned: self.assigned.len(),
            asking: self.queue.asking(),
            workers: workers.len(),
        }
    }

    pub(super) fn expects(&mut self, id: &str) -> bool {
        if self.given_up.iter().any(|given_up| **given_up == *id) {
            // It was not dead: do not conclude that again.
            self.outlived = true;
        }
        self.assigned.contains_key(id) || self.abandoned.contains_key(id)
    }

    pub(super) fn end(&mut self, id: &str, ending: Ending) -> Reported {
        if let Some(until) = self.abandoned.remove(id) {
            // Its execution was stopped, say. That is not the worker's mistake, and a client that is
            // refused gives up its process.
            return match Instant::now() < until {
                true => Reported::Taken,
                false => Reported::Unknown,
            };
        }
        let ended = self.assigned.remove(id).map(|assigned| assigned.ended);
        match ended.map(|ended| ended.send(ending)) {
            Some(Ok(())) => Reported::Taken,
            Some(Err(_)) | None => Reported::Unknown,
        }
    }

    /// Fails the call that a worker would have got.
    pub(super) fn fail_first(&mut self, key: Key, ending: Ending) {
        if let Some(waiting) = self.queue.take_for(key) {
            let _ = waiting.call.ended.send(ending);
        }
    }

    /// Gives a call to a worker. None when nobody waits for its end any more.
    pub(super) fn assign(&mut self, work: Work, key: Key, handover: Handover) -> Option<NewCall> {
        let Work {
            call,
            handed,
            ended,
        } = work;
        if let Some(worker) = handover.peer.worker() {
            worker.has(&call.id, handover.until);
        }
        let (peer, until) = (handover.peer.clone(), handover.until);
        if handed.send(handover).is_err() {
            if let Some(worker) = peer.worker() {
                worker.answered(&call.id);
            }
            return None;
        }
        let assigned = Assigned { key, until, ended };
        self.assigned.insert(call.id.clone(), assigned);
        Some(call)
    }

    /// Brings calls and workers together.
    fn pair(&mut self) {
        while let Some(found) = self.queue.next_match() {
            // A request for work that was withdrawn just now leaves the call in the line.
            if let Err(waiting) = found.poll.send(found.waiting) {
                self.queue.put_back(waiting);
            }
        }
        self.replace_misfit();
    }

    /// Has an idle worker replaced if calls wait that it may not serve.
    fn replace_misfit(&mut self) {
        let busy = |key: &Key| self.assigned.values().any(|assigned| assigned.key == *key);
        let kept = |key: Key| Some((key, self.peers.get(&key)?.worker()?.clone()));
        let mut misfits = self.queue.misfits().filter(|key| !busy(key));
        if let Some((key, worker)) = misfits.find_map(kept) {
            drop(misfits);
            self.queue.retire(key);
            worker.is_unwanted();
        }
    }

    fn ask(&mut self, key: Key, peer: Peer, answer: oneshot::Sender<Waiting<Work>>) -> Asking {
        if self.peers.insert(key, peer).is_none() {
            // A new worker: time to forget those that are gone.
            let Self {
                queue,
                peers,
                assigned,
                ..
            } = self;
            let busy: BTreeSet<Key> = assigned.values().map(|assigned| assigned.key).collect();
            peers.retain(|other, peer| *other == key || busy.contains(other) || peer.is_there());
            queue.retain(|key| peers.contains_key(&key));
        }
        let asking = self.queue.ask(key, answer);
        self.pair();
        asking
    }
}

/// A worker's request for work, withdrawn when dropped.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    state: &'a Mutex<State>,
    asking: Asking,
    answer: oneshot::Receiver<Waiting<Work>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(state: &'a Mutex<State>, key: Key, peer: Peer) -> Self {
        let (sender, answer) = oneshot::channel();
        let asking = lock(state).ask(key, peer, sender);
        Self {
            state,
            asking,
            answer,
        }
    }

    pub(super) async fn work(&mut self) -> Option<Work> {
        let waiting = (&mut self.answer).await.ok()?;
        Some(waiting.call)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = lock(self.state);
        let withdrawn = state.queue.unask(self.asking);
        // What was on its way to this request goes back to its place in the line.
        if let Ok(waiting) = self.answer.try_recv() {
            state.queue.put_back(waiting);
            state.pair();
        }
        drop(state);
        drop(withdrawn);
    }
}

/// A call's place; dropped with the call, it leaves the line or forgets the invocation.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    state: &'a Mutex<State>,
    place: Place,
    id: Arc<str>,
    /// Whether the call is over, so that no answer counts any more.
    over: bool,
}

impl<'a> Ticket<'a> {
    /// A place in the line, if there is one left.
    pub(super) fn new(state: &'a Mutex<State>, work: Work, waiting_max: usize) -> Option<Self> {
        let mut locked = lock(state);
        let id = work.call.id.clone();
        let place = locked.queue.offer(work.call.tenant.clone(), work);
        locked.pair();
        // Counted after the pairing: a call that a worker takes at once does not wait.
        if locked.queue.waiting() > waiting_max {
            locked.queue.withdraw(place);
            return None;
        }
        Some(Self {
            state,
            place,
            id,
            over: false,
        })
    }

    /// The call is over: an answer that still comes is refused.
    pub(super) fn fence(mut self) {
        self.over = true;
    }

    /// Waits until the worker that has the call is dead.
    pub(super) async fn worker_gone(&self, handover: &Handover) -> Arc<str> {
        let trusted = handover.trusted && !lock(self.state).outlived;
        let Gone { of, guessed } = handover.peer.gone(trusted).await;
        if guessed {
            let mut state = lock(self.state);
            state.given_up.push_back(self.id.clone());
            if state.given_up.len() > GIVEN_UP_MAX {
                state.given_up.pop_front();
            }
        }
        of
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = lock(self.state);
        let waiting = state.queue.withdraw(self.place);
        let assigned = state.assigned.remove(&self.id);
        if let Some(assigned) = &assigned
            && !self.over
        {
            let now = Instant::now();
            state.abandoned.retain(|_, until| *until > now);
            state.abandoned.insert(self.id.clone(), assigned.until);
        }
        drop(state);
        drop((waiting, assigned));
    }
}
