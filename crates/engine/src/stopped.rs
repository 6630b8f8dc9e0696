//! Whether an engine still works, and why it does not.
//!
//! Those who wait are told in the order they came, so that a simulation can repeat a run; tokio's
//! `watch` wakes in a random one.

use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// Set once, for good.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    reason: OnceLock<Arc<str>>,
    told: Notify,
}

impl Stopped {
    /// Stops; the first reason counts.
    pub(crate) fn set(&self, reason: &str) {
        self.reason.get_or_init(|| reason.into());
        self.told.notify_waiters();
    }

    /// Why, if so.
    pub(crate) fn reason(&self) -> Option<&Arc<str>> {
        self.reason.get()
    }

    /// Resolves when it happens, with the reason.
    pub(crate) async fn wait(&self) -> Arc<str> {
        loop {
            let mut told = std::pin::pin!(self.told.notified());
            // Registered before looking: a stop in between is not missed.
            told.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason.clone();
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn whoever_waits_is_told_the_first_reason() {
        let stopped = Stopped::default();
        let mut waits = Box::pin(stopped.wait());
        assert_eq!(waits.as_mut().now_or_never(), None);
        assert_eq!(stopped.reason(), None);
        stopped.set("the disk");
        stopped.set("the power");
        assert_eq!(&*waits.await, "the disk");
        assert_eq!(&*stopped.wait().await, "the disk");
    }
}
