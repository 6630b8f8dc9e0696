use super::*;
use std::{sync::mpsc, thread, time::Duration};

fn setting(bytes: usize) -> Change {
    Change::Setting {
        key: "key".into(),
        value: vec![0; bytes],
    }
}

/// Hands over one more of `bytes` bytes and says whether that had to wait until something was taken.
fn waits(queue: &Queue, bytes: usize) -> bool {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            drop(queue.push(setting(bytes)));
            sender.send(()).unwrap();
        });
        let waited = receiver.recv_timeout(Duration::from_millis(100)).is_err();
        if waited {
            let before = queue.take().unwrap();
            assert!(!before.changes.is_empty());
            receiver.recv().unwrap();
        }
        waited
    })
}

#[test]
fn a_full_queue_makes_the_next_wait_and_loses_none() {
    for (before, expected) in [(CHANGES_MAX - 1, false), (CHANGES_MAX, true)] {
        let queue = Queue::default();
        for _ in 0..before {
            drop(queue.push(setting(0)));
        }
        assert_eq!(waits(&queue, 0), expected, "{before} before");
        let left = queue.take().unwrap().changes.len();
        assert_eq!(left, if expected { 1 } else { CHANGES_MAX });
    }
}

#[test]
fn bytes_are_bounded_and_a_single_change_may_exceed_them() {
    for (bytes, expected) in [
        (BYTES_MAX - 11, false),
        (BYTES_MAX - 10, false),
        (BYTES_MAX - 9, true),
        (BYTES_MAX + 1, true),
    ] {
        let queue = Queue::default();
        drop(queue.push(setting(bytes)));
        assert_eq!(waits(&queue, 10), expected, "{bytes} before");
    }
    let queue = Queue::default();
    assert!(!waits(&queue, BYTES_MAX + 1));
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
