//! A second opinion on the lifecycle's counters, by counting again. For debug builds and tests: the
//! decision itself never scans.

use super::{Actor, Entry, State, is_idle_wait, is_retrying_step};

impl State {
    /// Counts again what the counters say, and names the first one that is wrong. Scans everything;
    /// for tests and debug builds.
    pub(crate) fn drift(&self) -> Option<&'static str> {
        let runnable = self.actors.values().filter(|actor| !actor.blocked).count();
        let asleep = |actor: &Actor| actor.parked > 0 && !actor.woken && !actor.polled;
        let in_state = |state: fn(&State) -> usize, counted: fn(&Entry) -> bool| {
            state(self) == self.entries.values().filter(|entry| counted(entry)).count()
        };
        let armed = |entry: &&Entry| entry.next_poll.is_some();
        if runnable != self.runnable {
            Some("runnable")
        } else if !self
            .actors
            .values()
            .all(|actor| !actor.blocked || asleep(actor))
        {
            Some("blocked")
        } else if !in_state(
            |state| state.retrying_steps,
            |entry| entry.is_retrying_step(),
        ) {
            Some("retrying_steps")
        } else if !in_state(|state| state.idle_waits, |entry| entry.is_idle_wait()) {
            Some("idle_waits")
        } else if self.timers.len() != self.entries.values().filter(armed).count() {
            Some("timers")
        } else {
            None
        }
    }
}

impl Entry {
    fn is_retrying_step(&self) -> bool {
        is_retrying_step(&self.identity, self.state)
    }

    fn is_idle_wait(&self) -> bool {
        is_idle_wait(&self.identity, self.state)
    }
}
