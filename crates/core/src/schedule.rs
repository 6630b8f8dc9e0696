//! Many executions: which of them wakes next, and which gets a free slot.
//!
//! Pure bookkeeping over keys. What is stored, who is told and what an invocation is are the
//! shell's concern; time is an argument.

#[cfg(test)]
mod tests;

use crate::time::Timestamp;
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

/// One wake time per key, as a lower bound.
///
/// A hint only ever moves a wake earlier. Waking too early costs one look at the execution, which
/// then says when it really wants to wake; waking too late would lose a timer. So a deadline that
/// moves later, as a heartbeat's does, need not be told at all. Every call is logarithmic.
///
/// ```
/// use outlast_core::{schedule::WakeQueue, time::Timestamp};
///
/// let at = Timestamp::from_millis;
/// let mut queue = WakeQueue::new();
/// queue.hint("order-1", at(500));
/// queue.hint("order-1", at(900));
/// assert_eq!(queue.next(), Some(at(500)));
/// assert_eq!(queue.due(at(500), 10), ["order-1"]);
/// assert_eq!(queue.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct WakeQueue<K> {
    wakes: BTreeMap<K, Timestamp>,
    /// The same pairs, earliest first.
    order: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Clone> WakeQueue<K> {
    /// A queue without wakes.
    pub const fn new() -> Self {
        Self {
            wakes: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Asks to wake `key` at `at` or before. Whether that changed its wake time.
    pub fn hint(&mut self, key: K, at: Timestamp) -> bool {
        let earlier = self.wakes.get(&key).is_none_or(|known| at < *known);
        if earlier {
            self.reset(key, at);
        }
        earlier
    }

    /// Sets the wake time of `key`, also to a later one: for whoever has just read the truth.
    pub fn reset(&mut self, key: K, at: Timestamp) {
        if let Some(known) = self.wakes.insert(key.clone(), at) {
            self.order.remove(&(known, key.clone()));
        }
        self.order.insert((at, key));
    }

    /// Drops the wake of `key`. Whether there was one.
    pub fn forget(&mut self, key: &K) -> bool {
        match self.wakes.remove(key) {
            Some(at) => self.order.remove(&(at, key.clone())),
            None => false,
        }
    }

    /// Takes at most `max` keys whose time has come, the earliest first.
    ///
    /// They are no longer in the queue: whoever looks at them says when they wake next.
    pub fn due(&mut self, now: Timestamp, max: usize) -> Vec<K> {
        let mut due = Vec::new();
        while due.len() < max && self.next().is_some_and(|at| at <= now) {
            if let Some((_, key)) = self.order.pop_first() {
                self.wakes.remove(&key);
                due.push(key);
            }
        }
        due
    }

    /// Takes the last key of all, and when it would have woken: for queues that have to stay short
    /// and whose keys are known elsewhere, too.
    pub fn pop_last(&mut self) -> Option<(Timestamp, K)> {
        let (at, key) = self.order.pop_last()?;
        self.wakes.remove(&key);
        Some((at, key))
    }

    /// The last key of all, and when it wakes.
    pub fn last(&self) -> Option<(Timestamp, &K)> {
        self.order.last().map(|(at, key)| (*at, key))
    }

    /// The earliest wake time of all keys.
    pub fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The wake time of one key.
    pub fn wake_time(&self, key: &K) -> Option<Timestamp> {
        self.wakes.get(key).copied()
    }

    /// Keys with a wake time.
    pub fn len(&self) -> usize {
        self.wakes.len()
    }

    /// Whether nothing will ever wake.
    pub fn is_empty(&self) -> bool {
        self.wakes.is_empty()
    }
}

impl<K: Ord + Clone> Default for WakeQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// What one function may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Invocations at the same time; 0 pauses the function.
    pub concurrency_max: usize,
    /// Claims in a row while others wait: its share relative to theirs. 0 counts as 1.
    pub weight: u32,
}

impl Default for Share {
    /// Bounded by the slots alone, one claim per turn.
    fn default() -> Self {
        Self {
            concurrency_max: usize::MAX,
            weight: 1,
        }
    }
}

/// What became of an execution that was reported ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an execution that found no room has to be offered again"]
pub enum Admission {
    /// It waits in its function's queue.
    Queued,
    /// It was waiting there already.
    AlreadyQueued,
    /// The queue is full; whoever keeps the execution offers it again later.
    Full,
}

/// Shares a number of slots fairly among functions.
///
/// Ready executions queue first in, first out per function. Functions take turns by deficit round
/// robin: at its turn a function may claim as many executions as its weight says, and what a small
/// batch left of the turn is kept. However long one function's queue, every other is served within
/// one round. A function that is empty or at its cap holds no turn, so a claim never searches.
///
/// A claimed execution that becomes ready again is queued again: whether two invocations of it may
/// overlap is not decided here.
#[derive(Clone, Debug)]
pub struct Dispatcher<F, K> {
    slots: usize,
    queue_max: usize,
    running: usize,
    shares: BTreeMap<F, Share>,
    /// Functions with something queued or running, and no others: memory follows work.
    lanes: BTreeMap<F, Lane<K>>,
    /// Functions in the order of their turns, each at most once.
    turns: VecDeque<F>,
}

#[derive(Clone, Debug)]
struct Lane<K> {
    /// By order of arrival.
    queue: BTreeMap<u64, K>,
    /// The same entries by key.
    arrivals: BTreeMap<K, u64>,
    next_arrival: u64,
    running: usize,
    /// Claims left of the current turn.
    credit: u32,
    has_turn: bool,
}

impl<F: Ord + Clone, K: Ord + Clone> Dispatcher<F, K> {
    /// A dispatcher over `slots` invocations at once, with at most `queue_max` executions waiting
    /// per function.
    pub const fn new(slots: usize, queue_max: usize) -> Self {
        Self {
            slots,
            queue_max,
            running: 0,
            shares: BTreeMap::new(),
            lanes: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Changes the number of slots. Running invocations are left alone.
    pub const fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Sets what a function may use, from now on. Running invocations are left alone.
    pub fn set_share(&mut self, function: F, share: Share) {
        self.shares.insert(function.clone(), share);
        self.give_turn(&function);
    }

    /// Gives a function back the default share.
    pub fn forget_share(&mut self, function: &F) {
        self.shares.remove(function);
        self.give_turn(function);
    }

    /// Queues an execution of `function` unless it waits already.
    pub fn ready(&mut self, function: &F, key: K) -> Admission {
        let known = self.lanes.get(function);
        if known.is_some_and(|lane| lane.arrivals.contains_key(&key)) {
            return Admission::AlreadyQueued;
        }
        if self.queued(function) >= self.queue_max {
            return Admission::Full;
        }
        let lane = self.lanes.entry(function.clone()).or_default();
        lane.push(key);
        self.give_turn(function);
        Admission::Queued
    }

    /// Takes a waiting execution out of its queue. Whether it was there.
    pub fn withdraw(&mut self, function: &F, key: &K) -> bool {
        let Some(lane) = self.lanes.get_mut(function) else {
            return false;
        };
        let Some(arrival) = lane.arrivals.remove(key) else {
            return false;
        };
        lane.queue.remove(&arrival);
        self.drop_idle(function);
        true
    }

    /// Claims at most `max` executions for free slots; each holds its slot until [`Self::finished`].
    pub fn claim(&mut self, max: usize) -> Vec<(F, K)> {
        let mut claimed = Vec::new();
        // Every round claims one execution or takes one turn away, so the loop is bounded.
        while claimed.len() < max && self.running < self.slots {
            let Some(function) = self.turns.pop_front() else {
                break;
            };
            let share = self.share(&function);
            let Some(lane) = self.lanes.get_mut(&function) else {
                continue;
            };
            let key = if lane.may_claim(share) {
                lane.claim(share)
            } else {
                None
            };
            let more = lane.may_claim(share);
            lane.has_turn = more;
            if !more {
                lane.credit = 0;
            }
            let turn_goes_on = lane.credit > 0;
            if let Some(key) = key {
                self.running += 1;
                claimed.push((function.clone(), key));
            }
            match (more, turn_goes_on) {
                (true, true) => self.turns.push_front(function),
                (true, false) => self.turns.push_back(function),
                (false, _) => self.drop_idle(&function),
            }
        }
        claimed
    }

    /// Claims a slot for an execution of `function` that has not been queued, if that takes it from
    /// nobody: nothing waits that could have it. Whether it did.
    pub fn claim_free(&mut self, function: &F) -> bool {
        let share = self.share(function);
        let waits = !self.turns.is_empty() || self.queued(function) > 0;
        if waits || self.running >= self.slots || self.running(function) >= share.concurrency_max {
            return false;
        }
        self.lanes.entry(function.clone()).or_default().running += 1;
        self.running += 1;
        true
    }

    /// Gives back the slot of one claimed execution of `function`. Whether it held one.
    pub fn finished(&mut self, function: &F) -> bool {
        let Some(lane) = self.lanes.get_mut(function).filter(|l| l.running > 0) else {
            return false;
        };
        lane.running -= 1;
        self.running -= 1;
        self.give_turn(function);
        self.drop_idle(function);
        true
    }

    /// Executions that wait, of all functions.
    pub fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.queue.len()).sum()
    }

    /// Every function that waits or runs: its executions that wait, and the slots it holds.
    pub fn lanes(&self) -> impl Iterator<Item = (&F, usize, usize)> {
        let count = |lane: &Lane<K>| (lane.queue.len(), lane.running);
        self.lanes.iter().map(move |(function, lane)| {
            let (waiting, running) = count(lane);
            (function, waiting, running)
        })
    }

    /// Executions of `function` that wait.
    pub fn queued(&self, function: &F) -> usize {
        self.lanes.get(function).map_or(0, |lane| lane.queue.len())
    }

    /// Slots that `function` holds.
    pub fn running(&self, function: &F) -> usize {
        self.lanes.get(function).map_or(0, |lane| lane.running)
    }

    /// Slots that nobody holds.
    pub const fn free_slots(&self) -> usize {
        self.slots.saturating_sub(self.running)
    }

    fn share(&self, function: &F) -> Share {
        self.shares.get(function).copied().unwrap_or_default()
    }

    /// Puts a function that could claim behind those that already wait for their turn.
    fn give_turn(&mut self, function: &F) {
        let share = self.share(function);
        if let Some(lane) = self.lanes.get_mut(function)
            && !lane.has_turn
            && lane.may_claim(share)
        {
            lane.has_turn = true;
            self.turns.push_back(function.clone());
        }
    }

    /// Forgets a function that neither waits nor runs; a turn it still has is dropped when met.
    fn drop_idle(&mut self, function: &F) {
        let idle = |lane: &Lane<K>| lane.queue.is_empty() && lane.running == 0 && !lane.has_turn;
        if self.lanes.get(function).is_some_and(idle) {
            self.lanes.remove(function);
        }
    }
}

impl<K: Ord + Clone> Lane<K> {
    fn push(&mut self, key: K) {
        self.queue.insert(self.next_arrival, key.clone());
        self.arrivals.insert(key, self.next_arrival);
        self.next_arrival += 1;
    }

    fn may_claim(&self, share: Share) -> bool {
        !self.queue.is_empty() && self.running < share.concurrency_max
    }

    /// Takes the execution that waits longest, at the cost of one credit.
    fn claim(&mut self, share: Share) -> Option<K> {
        let (_, key) = self.queue.pop_first()?;
        self.arrivals.remove(&key);
        if self.credit == 0 {
            self.credit = share.weight.max(1);
        }
        self.credit -= 1;
        self.running += 1;
        Some(key)
    }
}

impl<K> Default for Lane<K> {
    fn default() -> Self {
        Self {
            queue: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            next_arrival: 0,
            running: 0,
            credit: 0,
            has_turn: false,
        }
    }
}
