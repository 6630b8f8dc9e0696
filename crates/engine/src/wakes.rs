//! When executions have to be looked at: near wakes in memory, the rest in the store.
//!
//! Memory holds the wakes up to a horizon, and those of executions that somebody works on. The
//! horizon moves ahead of time in bounded scans of the store's index, from where the last scan
//! ended: a million sleepers cost nothing until their time comes, and timers that have fired are
//! never passed over again. When too many are near, the last of them are left to the store again and
//! the horizon comes closer. A wake is a lower bound: looking too early is harmless.

use crate::{
    cell::ACTIVE,
    engine::{Inner, lock},
    store::{StoreError, Wake},
};
use outlast_core::{arn::ExecutionId, schedule::WakeQueue, time::Timestamp};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// How far ahead of time the store is scanned.
const AHEAD_MS: u64 = 60_000;
/// Wakes read in one scan.
const SCAN_MAX: usize = 10_000;
/// Executions looked at before others get their turn.
const LOOK_MAX: usize = 256;
/// Wakes that wait in memory before no more are read from the store.
const NEAR_MAX: usize = 50_000;
/// Wakes of sleepers in memory, at most: a scan may begin just before no more are read.
const SLEEPERS_MAX: usize = NEAR_MAX + SCAN_MAX;
/// Pause before an execution is offered again that found its function's queue full.
const OFFER_MS: u64 = 100;
/// Executions that are offered again in a millisecond: faster than they can be called, and slowly
/// enough that a million of them do not keep everybody busy.
const OFFERS_PER_MS: usize = 16;
/// Pause before a scan that failed is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// The wakes in memory.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    /// Wakes that the store's index has, too; bounded.
    near: WakeQueue<ExecutionId>,
    /// Wakes that it does not tell, because somebody works on the execution.
    active: WakeQueue<ExecutionId>,
    /// Every wake up to here is in memory, or its commit will bring it here.
    horizon: Timestamp,
    /// Where the last scan ended.
    scanned: Option<Wake>,
    /// How often wakes were left to the store again.
    sheds: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            near: WakeQueue::new(),
            active: WakeQueue::new(),
            horizon: ACTIVE,
            scanned: None,
            sheds: 0,
        }
    }
}

impl Wakes {
    /// Time has passed without anybody having slept.
    pub(crate) fn time_has_passed(&self) {
        self.news.notify_one();
    }

    /// An execution wants to be looked at. Kept in memory if that is soon, or if the store does not
    /// tell (`active`).
    pub(crate) fn hint(&self, id: ExecutionId, at: Timestamp, active: bool) {
        self.change(|state| {
            if active {
                state.active.hint(id, at);
            } else if at <= state.horizon {
                state.near.hint(id, at);
                state.shed();
            }
        });
    }

    /// An execution found its function's queue full: it is looked at again in a while, which is the
    /// longer the more of them there are.
    pub(crate) fn offer_again(&self, id: ExecutionId, now: Timestamp) {
        self.change(|state| {
            let others = (state.active.len() / OFFERS_PER_MS) as u64;
            state.active.hint(id, now.plus_millis(OFFER_MS + others));
        });
    }

    /// When an execution wants to be looked at, by whoever has just read it: what was known before
    /// counts no more. Kept in memory as with [`hint`](Self::hint).
    pub(crate) fn settle(&self, id: ExecutionId, at: Option<Timestamp>, active: bool) {
        self.change(|state| {
            let (queue, other) = if active {
                (&mut state.active, &mut state.near)
            } else {
                (&mut state.near, &mut state.active)
            };
            other.forget(&id);
            match at.filter(|at| active || *at <= state.horizon) {
                Some(at) => queue.reset(id, at),
                None => drop(queue.forget(&id)),
            }
            state.shed();
        });
    }

    /// Changes the wakes, and tells if the first one is earlier than before.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let earlier = {
            let mut state = lock(&self.state);
            let before = state.next();
            change(&mut state);
            match (state.next(), before) {
                (Some(now), Some(before)) => now < before,
                (Some(_), None) => true,
                (None, _) => false,
            }
        };
        if earlier {
            self.news.notify_one();
        }
    }

    pub(crate) fn notify(&self) {
        self.news.notify_one();
    }

    /// How long ago the first wake should have happened.
    pub(crate) fn lag_ms(&self, now: Timestamp) -> u64 {
        let next = lock(&self.state).next();
        next.map_or(0, |at| now.millis_since(at))
    }

    /// Wakes in memory.
    pub(crate) fn len(&self) -> usize {
        let state = lock(&self.state);
        state.near.len() + state.active.len()
    }
}

impl State {
    /// The earliest wake.
    fn next(&self) -> Option<Timestamp> {
        self.near.next().into_iter().chain(self.active.next()).min()
    }

    /// Leaves the last wakes to the store, if there are too many. It has them all: the next scan
    /// begins behind the last one that is kept.
    fn shed(&mut self) {
        if self.near.len() <= SLEEPERS_MAX {
            return;
        }
        while self.near.len() > SLEEPERS_MAX {
            self.near.pop_last();
        }
        if let Some((at, execution)) = self.near.last() {
            self.horizon = at;
            self.scanned = Some(Wake {
                at,
                execution: *execution,
            });
        }
        self.sheds += 1;
    }

    /// Takes at most `max` executions of each kind whose time has come.
    fn due(&mut self, now: Timestamp, max: usize) -> Vec<ExecutionId> {
        let mut due = self.active.due(now, max);
        due.extend(self.near.due(now, max));
        due
    }
}

impl Inner {
    /// Wakes what is due, until the engine stops.
    pub(crate) async fn keep_awake(self: &Arc<Self>) {
        while !self.is_stopped() {
            let now = self.now();
            if self.clock.wants_note() {
                let inner = self.clone();
                self.spawn(Box::pin(async move { inner.note_time().await }));
            }
            let scanned = self.scan(now);
            let due = lock(&self.wakes.state).due(now, LOOK_MAX);
            for id in &due {
                self.look(*id, now);
            }
            if !due.is_empty() {
                tokio::task::yield_now().await;
                continue;
            }
            let pause = if scanned { self.pause(now) } else { RETRY };
            let news = self.wakes.news.notified();
            let _ = tokio::time::timeout(pause, news).await;
        }
    }

    fn pause(&self, now: Timestamp) -> Duration {
        let state = lock(&self.wakes.state);
        let scan = state.horizon.millis_since(now) / 2;
        let next = state.next().map_or(u64::MAX, |at| at.millis_since(now));
        Duration::from_millis(next.min(scan.max(1))).min(self.clock.until_note())
    }

    /// Moves the horizon ahead of `now`. Whether the store could be read.
    fn scan(&self, now: Timestamp) -> bool {
        let ahead = now.plus_millis(AHEAD_MS);
        loop {
            let (after, before, sheds) = {
                let mut state = lock(&self.wakes.state);
                let near_enough = state.horizon.millis_since(now) > AHEAD_MS / 2;
                if near_enough || state.near.len() >= NEAR_MAX {
                    return true;
                }
                // First the horizon, then the scan: a commit that the scan does not see comes later
                // and is told of the new horizon.
                let before = std::mem::replace(&mut state.horizon, ahead);
                (state.scanned, before, state.sheds)
            };
            let after = after.unwrap_or(Wake {
                at: ACTIVE,
                execution: ExecutionId::from_bits(u128::MAX),
            });
            let found = match self.store.due(Some(after), ahead, SCAN_MAX) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "the wakes cannot be read");
                    let mut state = lock(&self.wakes.state);
                    state.horizon = state.horizon.min(before);
                    return false;
                }
            };
            let mut state = lock(&self.wakes.state);
            if state.sheds != sheds {
                // What was left to the store meanwhile may lie before what was found.
                continue;
            }
            for wake in &found {
                state.near.hint(wake.execution, wake.at);
            }
            match found.last() {
                Some(last) if found.len() >= SCAN_MAX => {
                    state.scanned = Some(*last);
                    state.horizon = last.at;
                }
                _ => {
                    state.scanned = Some(Wake {
                        at: ahead,
                        execution: ExecutionId::from_bits(u128::MAX),
                    });
                    return true;
                }
            }
        }
    }

    /// The time of an execution has come.
    fn look(self: &Arc<Self>, id: ExecutionId, now: Timestamp) {
        if lock(&self.flights).contains_key(&id) {
            self.tick(id);
            return;
        }
        if self.quarantine.reason(id).is_some() {
            return;
        }
        match self.store.head(id) {
            Ok(Some(head)) if head.status.is_terminal() => self.expire(id),
            // Whatever is due is settled when it is called; if it need not be, that is found out
            // then.
            Ok(Some(head)) => self.make_ready(&(head.function, head.function_version), id),
            Ok(None) => {}
            Err(StoreError::Damaged { reason, .. }) => drop(self.put_in_quarantine(id, reason)),
            Err(error @ StoreError::Unreadable(_)) => {
                tracing::error!(execution = %id, %error, "an execution cannot be read");
                let at = now.plus_millis(1_000);
                self.wakes.hint(id, at, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn id(number: u64) -> ExecutionId {
        ExecutionId::from_bits(u128::from(number))
    }

    #[test]
    fn as_many_sleepers_as_fit_are_near_and_the_last_are_left_to_the_store() {
        let max = SLEEPERS_MAX as u64;
        for (count, horizon) in [
            (max - 1, 10 * max),
            (max, 10 * max),
            (max + 1, max),
            (max + 9, max),
        ] {
            let wakes = Wakes::default();
            lock(&wakes.state).horizon = at(10 * max);
            // The latest first: nobody knows yet which of them will have to go.
            for number in (1..=count).rev() {
                wakes.hint(id(number), at(number), false);
            }
            assert_eq!(wakes.len() as u64, count.min(max));
            let state = lock(&wakes.state);
            assert_eq!(state.horizon, at(horizon), "{count}");
            let scanned = (count > max).then_some(Wake {
                at: at(max),
                execution: id(max),
            });
            assert_eq!(state.scanned, scanned, "{count}");
            assert_eq!(state.next(), Some(at(1)));
        }
    }

    #[test]
    fn the_lag_is_that_of_the_first_wake_and_none_before_its_time() {
        let wakes = Wakes::default();
        assert_eq!(wakes.lag_ms(at(1_000)), 0);
        wakes.hint(id(1), at(500), true);
        wakes.hint(id(2), at(800), true);
        for (now, lag) in [(499, 0), (500, 0), (501, 1), (1_000, 500)] {
            assert_eq!(wakes.lag_ms(at(now)), lag, "{now}");
        }
    }

    #[test]
    fn a_wake_that_somebody_works_on_is_never_left_to_the_store() {
        let wakes = Wakes::default();
        let count = SLEEPERS_MAX + 1;
        for number in 1..=count as u64 {
            wakes.settle(id(number), Some(at(number)), true);
        }
        assert_eq!(wakes.len(), count);
        assert_eq!(lock(&wakes.state).horizon, ACTIVE);
    }

    #[test]
    fn the_more_wait_for_a_queue_the_later_each_is_offered_again() {
        let wakes = Wakes::default();
        let mut last = at(0);
        for number in 0..=10 * OFFERS_PER_MS as u64 {
            wakes.offer_again(id(number), at(1_000));
            let state = lock(&wakes.state);
            last = state.active.wake_time(&id(number)).unwrap();
        }
        assert_eq!(lock(&wakes.state).next(), Some(at(1_000 + OFFER_MS)));
        assert_eq!(last, at(1_000 + OFFER_MS + 10));
    }
}
