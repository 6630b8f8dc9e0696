//! The bounds of the queue, and that nobody waits for ever.

use super::*;
use std::thread;

fn setting(bytes: usize) -> Change {
    Change::Setting {
        key: "key".into(),
        value: vec![0; bytes],
    }
}

/// Whether a queue that holds `count` changes of `bytes` bytes each has room for ten bytes more.
fn has_room(count: usize, bytes: usize) -> bool {
    let queue = Queue::default();
    for _ in 0..count {
        drop(queue.push(setting(bytes)));
    }
    queue.state().has_room(10)
}

#[test]
fn changes_and_bytes_are_bounded_and_a_single_change_may_exceed_them() {
    assert!(has_room(CHANGES_MAX - 1, 0));
    assert!(!has_room(CHANGES_MAX, 0));
    assert!(has_room(1, BYTES_MAX - 11));
    assert!(has_room(1, BYTES_MAX - 10));
    assert!(!has_room(1, BYTES_MAX - 9));
    assert!(!has_room(1, BYTES_MAX + 1));
    let empty = State::default();
    assert!(empty.has_room(BYTES_MAX + 1));
}

#[test]
fn a_full_queue_makes_the_next_wait_and_loses_none() {
    let queue = Queue::default();
    for _ in 0..CHANGES_MAX {
        drop(queue.push(setting(0)));
    }
    thread::scope(|scope| {
        scope.spawn(|| drop(queue.push(setting(1))));
        let taken = queue.take().unwrap().changes;
        assert_eq!(taken.len(), CHANGES_MAX, "the queue was overfilled");
        assert_eq!(queue.take().unwrap().changes, [setting(1)]);
    });
}

#[test]
fn who_waits_for_room_is_refused_when_the_queue_closes() {
    let queue = Queue::default();
    for _ in 0..CHANGES_MAX {
        drop(queue.push(setting(0)));
    }
    thread::scope(|scope| {
        let late = scope.spawn(|| queue.push(setting(0)).wait());
        queue.close();
        assert_eq!(late.join().unwrap(), Err(CommitError::Closed));
    });
    assert_eq!(queue.take().unwrap().changes.len(), CHANGES_MAX);
    assert!(queue.take().is_none());
}

#[test]
fn a_group_that_is_dropped_leaves_nobody_waiting() {
    let queue = Queue::default();
    let committing = queue.push(setting(0));
    drop(queue.take());
    assert_eq!(committing.wait(), Err(CommitError::Closed));
}
