//! How a function is run: everything that is configurable about a handler.

use crate::{
    checkpoint::Delivery,
    clock::{Clock, SharedClock, SystemClock},
    codec::{Codec, Coding},
    plugin::{Plugin, Plugins},
};
use outlast_core::{limits, wire::OperationUpdate};
use std::{fmt, sync::Arc, time::Duration};

/// Options of a function, with defaults for every one.
///
/// ```
/// use outlast::Config;
/// use std::time::Duration;
///
/// let config = Config::new().checkpoint_delay(Duration::from_millis(2)).log_while_replaying(true);
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) coding: Coding,
    pub(crate) executor: Executor,
    pub(crate) polling: Arc<dyn Fn(u32) -> Duration + Send + Sync>,
    pub(crate) checkpoint_delay: Duration,
    pub(crate) linger: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) log_while_replaying: bool,
    pub(crate) fail_on_mismatch: bool,
    pub(crate) fail_on_unawaited: bool,
    pub(crate) payload_bytes_max: usize,
    pub(crate) plugins: Plugins,
    pub(crate) clock: SharedClock,
    /// Sees every batch before it is sent; for the test kit.
    pub(crate) trace: Option<Trace>,
}

pub(crate) type Trace = Arc<dyn Fn(&[OperationUpdate], &[Delivery]) + Send + Sync>;

/// Where spawned operations run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Executor {
    /// On the runtime that polls the handler, as tasks of their own.
    #[default]
    Tasks,
    /// On this runtime.
    Runtime(tokio::runtime::Handle),
    /// Inside the handler's own task, one after another: no parallelism, and a run that can be
    /// repeated exactly.
    Inline,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            coding: Coding::default(),
            executor: Executor::default(),
            polling: Arc::new(default_polling),
            checkpoint_delay: Duration::ZERO,
            linger: Duration::from_millis(20),
            keep_alive: Duration::ZERO,
            log_while_replaying: false,
            fail_on_mismatch: false,
            fail_on_unawaited: false,
            payload_bytes_max: limits::PAYLOAD_BYTES_MAX,
            plugins: Plugins::default(),
            clock: SharedClock(Arc::new(SystemClock)),
            trace: None,
        }
    }
}

/// How long to wait before asking again about an operation that had not changed `misses` times:
/// one second more each time up to ten, and a minute once it has been asked about 95 times.
fn default_polling(misses: u32) -> Duration {
    Duration::from_secs(if misses > 95 {
        60
    } else {
        u64::from(misses.clamp(1, 10))
    })
}

impl Config {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The codec of every value of this function, unless an operation names its own.
    #[must_use]
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.coding = Coding(Some(Arc::new(codec)));
        self
    }

    /// Where spawned operations run.
    #[must_use]
    pub fn executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// How long to wait before asking the backend again about an operation, given how often it had
    /// not changed. Used only while something else keeps the invocation alive.
    #[must_use]
    pub fn polling(mut self, polling: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.polling = Arc::new(polling);
        self
    }

    /// Holds back checkpoints by this long to batch those of concurrent operations. Default: none.
    #[must_use]
    pub fn checkpoint_delay(mut self, delay: Duration) -> Self {
        self.checkpoint_delay = delay;
        self
    }

    /// How long a step's start may wait for company before it is written alone. Default: 20 ms.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Stays in memory instead of suspending when the next wait or retry is due within this long.
    /// Default: never.
    #[must_use]
    pub fn keep_alive(mut self, window: Duration) -> Self {
        self.keep_alive = window;
        self
    }

    /// Whether log lines of replayed code are shown. Default: no.
    #[must_use]
    pub fn log_while_replaying(mut self, on: bool) -> Self {
        self.log_while_replaying = on;
        self
    }

    /// Whether code that no longer matches its record fails the execution. By default it is held
    /// on Outlast, for a rollback or a fixed build, and fails on AWS Lambda.
    #[must_use]
    pub fn fail_on_mismatch(mut self, on: bool) -> Self {
        self.fail_on_mismatch = on;
        self
    }

    /// Whether returning while spawned operations still wait fails the execution instead of
    /// logging a warning.
    #[must_use]
    pub fn fail_on_unawaited(mut self, on: bool) -> Self {
        self.fail_on_unawaited = on;
        self
    }

    /// The largest payload the backend accepts for one operation. Default: 1 MiB.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Adds a plugin. `create` makes one instance per invocation, so that nothing leaks from one
    /// to the next.
    #[must_use]
    pub fn plugin<P: Plugin>(mut self, create: impl Fn() -> P + Send + Sync + 'static) -> Self {
        self.plugins.add(create);
        self
    }

    /// The clock that timers and timestamps follow. Embedded handlers follow their engine's, whatever
    /// is chosen here: a handler with a time of its own would wait for what is long over.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = SharedClock(Arc::new(clock));
        self
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("coding", &self.coding)
            .field("executor", &self.executor)
            .field("checkpoint_delay", &self.checkpoint_delay)
            .field("linger", &self.linger)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_slows_down_by_a_second_to_ten_and_to_a_minute_after_95_misses() {
        let seconds = |misses| default_polling(misses).as_secs();
        assert_eq!(
            [seconds(0), seconds(1), seconds(2), seconds(9)],
            [1, 1, 2, 9]
        );
        assert_eq!(
            [seconds(10), seconds(11), seconds(95), seconds(96)],
            [10, 10, 10, 60]
        );
    }
}
