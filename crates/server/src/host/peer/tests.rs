//! When a worker counts as dead.

use super::*;
use hyper::header::{HeaderName, HeaderValue};

fn connection() -> Connection {
    // Not a loopback address, so that no process is looked for.
    let address = "192.0.2.1:1".parse().unwrap();
    Connection::new(address, address)
}

async fn gone_after_closing_at(at: Duration, trusted: bool) -> Option<Duration> {
    let connection = connection();
    let peer = connection.peer();
    peer.key().await;
    let start = Instant::now();
    let closing = async {
        tokio::time::sleep(at).await;
        drop(connection);
        std::future::pending::<()>().await;
    };
    let limit = Duration::from_secs(1_000);
    tokio::select! {
        () = closing => None,
        gone = tokio::time::timeout(limit, peer.gone(trusted)) => gone.ok().map(|gone| {
            assert!(gone.guessed);
            start.elapsed()
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_early_means_death_after_the_grace() {
    let early = Duration::from_secs(3);
    assert_eq!(
        gone_after_closing_at(early, true).await,
        Some(early + GRACE)
    );
    let last = IDLE_MIN - Duration::from_millis(1);
    assert_eq!(gone_after_closing_at(last, true).await, Some(last + GRACE));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_idle_for_long_means_nothing() {
    assert_eq!(gone_after_closing_at(IDLE_MIN, true).await, None);
    let after = IDLE_MIN + Duration::from_millis(1);
    assert_eq!(gone_after_closing_at(after, true).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_trusted_means_nothing() {
    assert_eq!(
        gone_after_closing_at(Duration::from_secs(3), false).await,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_keepers_word_counts_at_once_and_the_connection_does_not() {
    let address = "192.0.2.1:1".parse().unwrap();
    let worker = Worker::new();
    let connection = Connection::of_worker(address, address, worker.clone());
    let peer = connection.peer();
    assert_eq!(peer.key().await, Key::Worker(worker.number()));
    drop(connection);
    assert!(peer.is_there());
    let waited = tokio::time::timeout(Duration::from_secs(1_000), peer.gone(true));
    assert!(waited.await.is_err());
    worker.died("killed by signal 9");
    let gone = peer.gone(false).await;
    assert_eq!((&*gone.of, gone.guessed), ("killed by signal 9", false));
    assert!(!peer.is_there());
}

#[test]
fn clients_that_announce_a_short_connection_are_recognised() {
    let check = |version, name: HeaderName, value: &'static str| {
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        is_passing(version, &headers)
    };
    let agent = |value| check(Version::HTTP_11, header::USER_AGENT, value);
    let connection = |value| check(Version::HTTP_11, header::CONNECTION, value);
    assert!(agent("curl/8.5.0"));
    assert!(agent("Wget/1.21"));
    assert!(!agent("aws-lambda-python/3.11.7-4.2.2"));
    assert!(connection("close"));
    assert!(connection("TE, Close"));
    assert!(!connection("keep-alive"));
    assert!(check(Version::HTTP_10, header::HOST, "x"));
    assert!(!check(Version::HTTP_11, header::HOST, "x"));
}
