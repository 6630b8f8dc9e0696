//! When executions have to be looked at: near wakes in memory, the rest in the store.
//!
//! Memory holds the wakes up to a horizon, and those of executions that somebody works on. The
//! horizon moves ahead of time in bounded scans of the store's index, from where the last scan
//! ended: a million sleepers cost nothing until their time comes, and timers that have fired are
//! never passed over again. A wake is a lower bound: looking too early is harmless.

use crate::{
    cell::ACTIVE,
    engine::{Inner, lock},
    store::Wake,
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
}

impl Default for State {
    fn default() -> Self {
        Self {
            near: WakeQueue::new(),
            active: WakeQueue::new(),
            horizon: ACTIVE,
            scanned: None,
        }
    }
}

impl Wakes {
    /// An execution wants to be looked at. Kept in memory if that is soon, or if the store does not
    /// tell (`active`).
    pub(crate) fn hint(&self, id: ExecutionId, at: Timestamp, active: bool) {
        self.change(|state| {
            if active {
                state.active.hint(id, at);
            } else if at <= state.horizon {
                state.near.hint(id, at);
            }
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
            let (after, before) = {
                let mut state = lock(&self.wakes.state);
                let near_enough = state.horizon.millis_since(now) > AHEAD_MS / 2;
                if near_enough || state.near.len() >= NEAR_MAX {
                    return true;
                }
                // First the horizon, then the scan: a commit that the scan does not see comes later
                // and is told of the new horizon.
                let before = std::mem::replace(&mut state.horizon, ahead);
                (state.scanned, before)
            };
            let after = after.unwrap_or(Wake {
                at: ACTIVE,
                execution: ExecutionId::from_bits(u128::MAX),
            });
            let found = match self.store.due(Some(after), ahead, SCAN_MAX) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "the wakes cannot be read");
                    lock(&self.wakes.state).horizon = before;
                    return false;
                }
            };
            let mut state = lock(&self.wakes.state);
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
        match self.store.head(id) {
            Ok(Some(head)) if head.status.is_terminal() => self.expire(id),
            // Whatever is due is settled when it is called; if it need not be, that is found out
            // then.
            Ok(Some(head)) => self.make_ready(&head.function, id),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(execution = %id, %error, "an execution cannot be read");
                let at = now.plus_millis(1_000);
                self.wakes.hint(id, at, true);
            }
        }
    }
}
