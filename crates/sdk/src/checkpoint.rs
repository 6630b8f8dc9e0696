//! The checkpoint queue of one invocation: what waits to be written, in which batches, and who
//! waits for it.
//!
//! One writer, one request in flight, first in first out. A fire-and-forget update starts no
//! request of its own: it travels with the next synchronous one, or is flushed after a short
//! linger, so that a quick step costs one request. The queue does no IO; the driver sends.

use outlast_core::{
    limits,
    time::Timestamp,
    wire::{ErrorObject, OperationAction, OperationType, OperationUpdate},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::Waker,
};

/// Whether the caller waits for the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The caller waits.
    Synchronous,
    /// Nobody waits; losing it is legal.
    FireAndForget,
}

/// More fire-and-forget updates than this make their callers wait for the writer.
const BACKLOG_MAX: usize = 4 * limits::BATCH_UPDATES_MAX;

/// Updates that wait to be written, and the callers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<(OperationUpdate, Delivery)>,
    /// Number of the last update enqueued; numbers start at 1.
    last: u64,
    /// All updates up to this number are durable.
    acknowledged: u64,
    synchronous: usize,
    lingering_since: Option<Timestamp>,
    blocked_since: Option<Timestamp>,
    flush: bool,
    refresh: bool,
    in_flight: bool,
    waiters: BTreeMap<u64, Waker>,
}

/// When the writer should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// At once.
    Now,
    /// Not before this moment, unless something else comes up.
    At(Timestamp),
    /// There is nothing to send.
    Never,
}

impl Queue {
    /// Adds an update; the number returned is what its caller may wait for.
    pub(crate) fn push(
        &mut self,
        update: OperationUpdate,
        delivery: Delivery,
        now: Timestamp,
    ) -> u64 {
        self.last += 1;
        match delivery {
            Delivery::Synchronous => {
                self.synchronous += 1;
                self.blocked_since.get_or_insert(now);
            }
            Delivery::FireAndForget => {
                self.lingering_since.get_or_insert(now);
            }
        }
        self.entries.push_back((update, delivery));
        self.last
    }

    /// Whether a caller of a fire-and-forget update should wait after all.
    pub(crate) fn is_congested(&self) -> bool {
        self.entries.len() > BACKLOG_MAX
    }

    /// Asks for an empty request, to learn what changed. Any number of askers share one.
    pub(crate) fn request_refresh(&mut self) {
        self.refresh = true;
    }

    /// Asks for everything queued to be written now.
    pub(crate) fn request_flush(&mut self) {
        self.flush = !self.entries.is_empty();
    }

    /// Nothing queued, nothing asked for, nothing in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy() && self.entries.is_empty()
    }

    /// A request is in flight or must be sent; lone fire-and-forget updates do not count.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight || self.refresh || self.flush || self.synchronous > 0
    }

    /// Whether an answer is being waited for.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// When to send next, given how long lone updates linger and how long callers may be batched.
    pub(crate) fn due(&self, linger_ms: u64, delay_ms: u64) -> Due {
        if self.in_flight {
            return Due::Never;
        }
        if self.refresh || self.flush || self.entries.len() >= limits::BATCH_UPDATES_MAX {
            return Due::Now;
        }
        match (self.blocked_since, self.lingering_since) {
            (Some(_), _) if delay_ms == 0 => Due::Now,
            (Some(since), _) => Due::At(since.plus_millis(delay_ms)),
            (None, Some(since)) if !self.entries.is_empty() => {
                Due::At(since.plus_millis(linger_ms))
            }
            (None, _) => Due::Never,
        }
    }

    /// Takes the next batch out of the queue and marks the writer busy.
    pub(crate) fn seal(&mut self) -> Batch {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while let Some((update, _)) = self.entries.front() {
            let size = update.bytes();
            let full = batch.updates.len() >= limits::BATCH_UPDATES_MAX
                || bytes + size > limits::BATCH_BYTES_MAX;
            if full && !batch.updates.is_empty() {
                break;
            }
            bytes += size;
            if let Some((update, delivery)) = self.entries.pop_front() {
                self.synchronous -= usize::from(delivery == Delivery::Synchronous);
                batch.updates.push(update);
                batch.deliveries.push(delivery);
            }
        }
        batch.last = self.last - self.entries.len() as u64;
        self.in_flight = true;
        self.refresh = false;
        self.flush = self.flush && !self.entries.is_empty();
        if self.synchronous == 0 {
            self.blocked_since = None;
        }
        if self.entries.is_empty() {
            self.lingering_since = None;
        }
        batch
    }

    /// The request that carried everything up to `last` was accepted: whoever waited for it may go
    /// on.
    pub(crate) fn acknowledge(&mut self, last: u64) -> impl Iterator<Item = Waker> {
        self.in_flight = false;
        self.acknowledged = self.acknowledged.max(last);
        let later = self.waiters.split_off(&(last + 1));
        std::mem::replace(&mut self.waiters, later).into_values()
    }

    /// Whether update `number` is durable; if not, `waiter` is told when it is.
    pub(crate) fn wait(&mut self, number: u64, waiter: &Waker) -> bool {
        if number <= self.acknowledged {
            return true;
        }
        self.waiters.insert(number, waiter.clone());
        false
    }

    /// Forgets a caller that went away.
    pub(crate) fn abandon(&mut self, number: u64) {
        self.waiters.remove(&number);
    }

    /// Forgets everything: the invocation is over.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            last: self.last,
            acknowledged: self.acknowledged,
            ..Self::default()
        };
    }

    /// One phrase about what the queue is doing.
    pub(crate) fn describe(&self) -> Option<&'static str> {
        match self {
            Self {
                in_flight: true, ..
            } => Some("a checkpoint request is in flight"),
            Self { refresh: true, .. } => Some("a refresh is about to be sent"),
            Self {
                synchronous: 1.., ..
            }
            | Self { flush: true, .. } => Some("updates wait to be written"),
            _ => None,
        }
    }
}

/// What one request carries.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The updates, in order; none for a pure refresh.
    pub(crate) updates: Vec<OperationUpdate>,
    /// Whether each one's caller waits.
    pub(crate) deliveries: Vec<Delivery>,
    /// The number of the last update in it, or of the last one written before.
    pub(crate) last: u64,
}

impl Batch {
    /// Closing updates for the steps of a batch that the backend refused for good.
    ///
    /// Their bodies have run; without a recorded outcome they would run again on every replay. The
    /// reason takes the place of whatever made the batch unacceptable. The starts of steps and of
    /// the contexts around them come along: without its context no operation is accepted.
    pub(crate) fn failures_in_place(
        updates: &[OperationUpdate],
        reason: &str,
    ) -> Vec<OperationUpdate> {
        let ran = |update: &OperationUpdate| {
            update.operation_type == OperationType::Step && update.action != OperationAction::Start
        };
        if !updates.iter().any(ran) {
            return Vec::new();
        }
        let kept = updates.iter().filter_map(|update| {
            if ran(update) {
                let action = OperationAction::Fail;
                let mut failure =
                    OperationUpdate::new(update.id.clone(), OperationType::Step, action);
                failure.parent_id.clone_from(&update.parent_id);
                failure.name.clone_from(&update.name);
                failure.sub_type.clone_from(&update.sub_type);
                failure.error = Some(Arc::new(ErrorObject::new(
                    "CheckpointRejectedError",
                    reason,
                )));
                return Some(failure);
            }
            let block = matches!(
                update.operation_type,
                OperationType::Step | OperationType::Context
            );
            (block && update.action == OperationAction::Start).then(|| update.clone())
        });
        kept.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::id::Position;

    fn update(number: u64, payload_bytes: usize) -> OperationUpdate {
        let mut update = OperationUpdate::new(
            Position::root().child(number).id(),
            OperationType::Step,
            OperationAction::Succeed,
        );
        update.payload = (payload_bytes > 0).then(|| "x".repeat(payload_bytes).into());
        update
    }

    fn push(queue: &mut Queue, count: u64, delivery: Delivery) {
        for number in 0..count {
            queue.push(update(number, 0), delivery, Timestamp::from_millis(100));
        }
    }

    #[test]
    fn a_lone_fire_and_forget_update_lingers_and_a_synchronous_one_takes_it_along() {
        let mut queue = Queue::default();
        push(&mut queue, 1, Delivery::FireAndForget);
        assert_eq!(queue.due(20, 0), Due::At(Timestamp::from_millis(120)));
        assert!(!queue.is_busy() && !queue.is_idle());
        push(&mut queue, 1, Delivery::Synchronous);
        assert_eq!(queue.due(20, 0), Due::Now);
        let batch = queue.seal();
        assert_eq!((batch.updates.len(), batch.last), (2, 2));
        assert_eq!(queue.due(20, 0), Due::Never);
        assert!(!queue.is_idle());
        queue.acknowledge(batch.last).for_each(drop);
        assert!(queue.is_idle());
    }

    #[test]
    fn a_batching_delay_holds_back_synchronous_updates() {
        let mut queue = Queue::default();
        push(&mut queue, 1, Delivery::Synchronous);
        assert_eq!(queue.due(20, 5), Due::At(Timestamp::from_millis(105)));
    }

    #[test]
    fn batches_split_at_the_update_limit() {
        for (count, sizes) in [(249, vec![249]), (250, vec![250]), (251, vec![250, 1])] {
            let mut queue = Queue::default();
            push(&mut queue, count, Delivery::Synchronous);
            let mut seen = Vec::new();
            while queue.due(0, 0) == Due::Now {
                let batch = queue.seal();
                seen.push(batch.updates.len());
                queue.acknowledge(batch.last).for_each(drop);
            }
            assert_eq!(seen, sizes);
        }
    }

    #[test]
    fn batches_split_at_the_byte_limit_and_a_larger_update_travels_alone() {
        let overhead = update(1, 1).bytes() - 1;
        let exact = limits::BATCH_BYTES_MAX - 2 * overhead;
        let sealed = |second: usize| {
            let mut queue = Queue::default();
            queue.push(update(1, 1), Delivery::Synchronous, Timestamp::default());
            queue.push(
                update(2, second),
                Delivery::Synchronous,
                Timestamp::default(),
            );
            queue.seal().updates.len()
        };
        assert_eq!(
            [sealed(exact - 2), sealed(exact - 1), sealed(exact)],
            [2, 2, 1]
        );
        let mut queue = Queue::default();
        queue.push(
            update(1, limits::BATCH_BYTES_MAX * 2),
            Delivery::Synchronous,
            Timestamp::default(),
        );
        assert_eq!(queue.seal().updates.len(), 1);
    }

    #[test]
    fn a_refresh_is_an_empty_request_and_is_shared() {
        let mut queue = Queue::default();
        queue.request_refresh();
        queue.request_refresh();
        assert_eq!(queue.due(20, 5), Due::Now);
        let batch = queue.seal();
        assert!(batch.updates.is_empty());
        queue.acknowledge(batch.last).for_each(drop);
        assert!(queue.is_idle());
    }

    #[test]
    fn congestion_starts_above_the_backlog_bound() {
        let mut queue = Queue::default();
        push(&mut queue, BACKLOG_MAX as u64, Delivery::FireAndForget);
        assert!(!queue.is_congested());
        push(&mut queue, 1, Delivery::FireAndForget);
        assert!(queue.is_congested());
    }

    #[test]
    fn only_steps_that_ran_are_failed_in_place() {
        let mut start = update(1, 0);
        start.action = OperationAction::Start;
        let mut context = update(2, 0);
        context.operation_type = OperationType::Context;
        let mut around = update(4, 0);
        around.operation_type = OperationType::Context;
        around.action = OperationAction::Start;
        let batch = [around, start, context, update(3, 9)];
        let failures = Batch::failures_in_place(&batch, "too large");
        let actions: Vec<_> = failures.iter().map(|update| update.action).collect();
        let start = OperationAction::Start;
        assert_eq!(actions, [start, start, OperationAction::Fail]);
        assert!(failures[2].payload.is_none());
        assert!(Batch::failures_in_place(&batch[..3], "too large").is_empty());
    }
}
