//! Processes that must not begin at the same time.
//!
//! A runtime client may unpack a library to a place that it shares with all others of its kind, as if
//! it were alone on the machine. Of two that do so at once, one loads what the other is still writing,
//! and crashes.

use crate::host::worker::Worker;
use std::{fs, time::Duration};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

/// How often to look whether a process has loaded the library.
const PERIOD: Duration = Duration::from_millis(10);

/// Among the processes that are given the same one, only one begins at a time.
#[derive(Debug)]
pub struct Turn {
    lock: Mutex<()>,
    library: &'static str,
}

impl Turn {
    /// A process has begun when it has loaded a library with this name, or asks for work.
    pub const fn until_loaded(library: &'static str) -> Self {
        Self {
            lock: Mutex::const_new(()),
            library,
        }
    }

    /// Waits for those that are beginning.
    pub(super) async fn take(&'static self) -> Taken {
        Taken {
            library: self.library,
            _guard: self.lock.lock().await,
        }
    }
}

/// Nobody else begins while this is there.
pub(super) struct Taken {
    library: &'static str,
    _guard: MutexGuard<'static, ()>,
}

impl Taken {
    /// Lets the next one begin when this process has begun.
    pub(super) async fn until_begun(self, process: Option<u32>, worker: &Worker) {
        let loaded = async {
            while !has_loaded(process, self.library) {
                sleep(PERIOD).await;
            }
        };
        tokio::select! {
            () = loaded => {}
            () = worker.polled() => {}
        }
    }
}

/// Never where the system does not tell.
fn has_loaded(process: Option<u32>, library: &str) -> bool {
    let maps = process.and_then(|id| fs::read_to_string(format!("/proc/{id}/maps")).ok());
    // Another process may have replaced the file since.
    let name = |line: &str| line.trim_end_matches(" (deleted)").ends_with(library);
    maps.is_some_and(|maps| maps.lines().any(name))
}
