//! Workers elsewhere that somebody announces: `outlast worker` does, for the program it runs.
//!
//! Nothing can be seen of a process on another machine, so its keeper says that it is there, by a
//! request that it repeats over a connection which it uses for nothing else. When that connection
//! closes, or the keeper says so, the worker is dead. The requests of the worker itself name the id
//! under which it was announced, whichever connections they come over.

use crate::host::{lock, peer::Peer, worker::Worker};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::runtime::Handle;

/// Workers of one function version that may be announced at once.
pub const ANNOUNCED_MAX: usize = 4_096;
/// Bytes of an id, at most.
const ID_BYTES_MAX: usize = 64;

/// The workers of one function version that were announced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    workers: Arc<Mutex<BTreeMap<Arc<str>, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    worker: Arc<Worker>,
    /// The connection that spoke for it last.
    connection: u64,
}

impl Announced {
    /// The worker under this id, from now on as alive as this connection. None if the id cannot be
    /// one, or too many are announced.
    pub(crate) fn alive(&self, id: &str, peer: &Peer) -> Option<Arc<Worker>> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(legal) {
            return None;
        }
        let mut workers = lock(&self.workers);
        let connection = peer.number();
        if let Some(entry) = workers.get_mut(id) {
            if entry.connection != connection {
                // Its keeper lost a connection and made another, sooner than that was noticed here.
                entry.connection = connection;
                self.watch(id.into(), peer.clone());
            }
            return Some(entry.worker.clone());
        }
        if workers.len() >= ANNOUNCED_MAX {
            return None;
        }
        let worker = Worker::new();
        let entry = Entry {
            worker: worker.clone(),
            connection,
        };
        workers.insert(id.into(), entry);
        self.watch(id.into(), peer.clone());
        Some(worker)
    }

    /// Takes a worker away that its keeper says is dead.
    pub(crate) fn remove(&self, id: &str) -> Option<Arc<Worker>> {
        lock(&self.workers).remove(id).map(|entry| entry.worker)
    }

    /// Who made a request that names this id.
    pub(crate) fn peer(&self, id: &str) -> Option<Peer> {
        let worker = lock(&self.workers).get(id)?.worker.clone();
        Some(Peer::of_worker(worker))
    }

    /// Notices the end of a connection that speaks for a worker.
    fn watch(&self, id: Arc<str>, peer: Peer) {
        let workers = self.workers.clone();
        drop(Handle::current().spawn(async move {
            peer.closed().await;
            let mut workers = lock(&workers);
            let current = workers.get(&id).map(|entry| entry.connection);
            if current == Some(peer.number())
                && let Some(entry) = workers.remove(&id)
            {
                entry.worker.died("the worker's connection ended");
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::peer::Connection;

    fn connection() -> Connection {
        let address = "127.0.0.1:1".parse().unwrap();
        Connection::new(address, address)
    }

    #[tokio::test]
    async fn a_worker_lives_as_long_as_the_newest_connection_that_speaks_for_it() {
        let announced = Announced::default();
        let (first, second) = (connection(), connection());
        let worker = announced.alive("a", &first.peer()).unwrap();
        let same = announced.alive("a", &second.peer()).unwrap();
        assert!(Arc::ptr_eq(&worker, &same));
        drop(first);
        tokio::task::yield_now().await;
        assert!(!worker.is_dead());
        assert!(announced.peer("a").is_some());
        drop(second);
        assert_eq!(&*worker.dead().await, "the worker's connection ended");
        assert!(announced.peer("a").is_none());
    }

    #[tokio::test]
    async fn ids_and_their_number_are_bounded() {
        let announced = Announced::default();
        let connection = connection();
        let peer = connection.peer();
        for (letters, accepted) in [
            (0, false),
            (1, true),
            (ID_BYTES_MAX - 1, true),
            (ID_BYTES_MAX, true),
            (ID_BYTES_MAX + 1, false),
        ] {
            let id = "a".repeat(letters);
            assert_eq!(announced.alive(&id, &peer).is_some(), accepted, "{letters}");
        }
        assert!(announced.alive("a/b", &peer).is_none());
        let announced = Announced::default();
        for number in 0..ANNOUNCED_MAX {
            assert!(announced.alive(&number.to_string(), &peer).is_some());
        }
        assert!(announced.alive("more", &peer).is_none());
        assert!(announced.alive("0", &peer).is_some());
        announced.remove("0");
        assert!(announced.alive("more", &peer).is_some());
    }
}
