//! Wakes and slots: what is due, who is next, and that nobody starves.

use super::*;
use alloc::vec;
use proptest::prelude::*;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[test]
fn a_hint_moves_a_wake_earlier_and_never_later() {
    let mut queue = WakeQueue::default();
    assert!(queue.hint('a', at(100)));
    assert!(!queue.hint('a', at(101)));
    assert!(!queue.hint('a', at(100)));
    assert_eq!(queue.wake_time(&'a'), Some(at(100)));
    assert!(queue.hint('a', at(99)));
    assert_eq!(queue.next(), Some(at(99)));
    queue.reset('a', at(500));
    assert_eq!(queue.next(), Some(at(500)));
    assert_eq!(queue.len(), 1);
}

#[test]
fn wakes_are_due_at_their_time_and_not_before() {
    let mut queue = WakeQueue::new();
    queue.hint('b', at(20));
    queue.hint('a', at(10));
    assert!(queue.due(at(9), 5).is_empty());
    assert_eq!(queue.due(at(10), 5), ['a']);
    assert!(queue.due(at(19), 5).is_empty());
    assert_eq!(queue.due(at(21), 5), ['b']);
    assert!(queue.is_empty());
}

#[test]
fn the_last_wake_can_be_given_up() {
    let mut queue = WakeQueue::new();
    assert_eq!(queue.last(), None);
    assert_eq!(queue.pop_last(), None);
    queue.hint('a', at(30));
    queue.hint('b', at(20));
    queue.hint('c', at(30));
    assert_eq!(queue.last(), Some((at(30), &'c')));
    assert_eq!(queue.pop_last(), Some((at(30), 'c')));
    assert_eq!(queue.pop_last(), Some((at(30), 'a')));
    assert_eq!((queue.len(), queue.wake_time(&'a')), (1, None));
    assert_eq!(queue.due(at(20), 5), ['b']);
}

#[test]
fn a_herd_is_taken_in_bounded_batches_the_earliest_first() {
    let mut queue = WakeQueue::new();
    for key in 0..5 {
        queue.hint(key, at(10 - key));
    }
    assert!(queue.due(at(10), 0).is_empty());
    assert_eq!(queue.due(at(10), 2), [4, 3]);
    assert_eq!(queue.due(at(10), 4), [2, 1, 0]);
}

#[test]
fn a_forgotten_key_never_wakes() {
    let mut queue = WakeQueue::new();
    queue.hint('a', at(1));
    assert!(queue.forget(&'a'));
    assert!(!queue.forget(&'a'));
    assert!(queue.due(at(9), 9).is_empty());
    assert_eq!(queue.next(), None);
}

fn backlogged(functions: &[char], executions: u32, slots: usize) -> Dispatcher<char, u32> {
    let mut dispatcher = Dispatcher::new(slots, usize::MAX);
    for function in functions {
        for key in 0..executions {
            assert_eq!(dispatcher.ready(function, key), Admission::Queued);
        }
    }
    dispatcher
}

#[test]
fn functions_take_turns_and_keep_their_own_order() {
    let mut dispatcher = backlogged(&['a', 'b'], 2, 9);
    let expected = [('a', 0), ('b', 0), ('a', 1), ('b', 1)];
    assert_eq!(dispatcher.claim(9), expected);
    assert!(dispatcher.claim(9).is_empty());
}

#[test]
fn a_herd_in_one_function_does_not_delay_a_newcomer() {
    let mut dispatcher = backlogged(&['h'], 10_000, 100);
    assert_eq!(dispatcher.claim(50).len(), 50);
    assert_eq!(dispatcher.ready(&'n', 7), Admission::Queued);
    assert!(dispatcher.claim(2).contains(&('n', 7)));
}

#[test]
fn a_turn_cut_short_by_a_small_batch_goes_on_in_the_next() {
    let mut dispatcher = backlogged(&['a', 'b'], 9, 99);
    let concurrency_max = usize::MAX;
    dispatcher.set_share(
        'a',
        Share {
            concurrency_max,
            weight: 3,
        },
    );
    let mut claimed = vec![];
    for _ in 0..4 {
        claimed.extend(
            dispatcher
                .claim(2)
                .into_iter()
                .map(|(function, _)| function),
        );
    }
    assert_eq!(claimed, ['a', 'a', 'a', 'b', 'a', 'a', 'a', 'b']);
}

#[test]
fn a_function_that_lost_its_turn_at_the_cap_begins_a_whole_one_later() {
    let mut dispatcher = backlogged(&['a', 'b'], 9, 99);
    let share = |concurrency_max| Share {
        concurrency_max,
        weight: 3,
    };
    dispatcher.set_share('a', share(1));
    assert_eq!(dispatcher.claim(2), [('a', 0), ('b', 0)]);
    dispatcher.set_share('a', share(9));
    let functions = dispatcher
        .claim(5)
        .into_iter()
        .map(|(function, _)| function);
    assert_eq!(functions.collect::<Vec<_>>(), ['b', 'a', 'a', 'a', 'b']);
}

#[test]
fn slots_bound_what_is_claimed() {
    let mut dispatcher = backlogged(&['a'], 9, 2);
    assert_eq!(dispatcher.free_slots(), 2);
    assert_eq!(dispatcher.claim(9).len(), 2);
    assert_eq!(dispatcher.free_slots(), 0);
    assert!(dispatcher.claim(9).is_empty());
    assert!(dispatcher.finished(&'a'));
    assert_eq!(dispatcher.claim(9), [('a', 2)]);
    dispatcher.set_slots(1);
    assert_eq!(dispatcher.free_slots(), 0);
    assert!(dispatcher.finished(&'a'));
    assert!(dispatcher.claim(9).is_empty());
    dispatcher.set_slots(3);
    assert_eq!(dispatcher.claim(9).len(), 2);
}

#[test]
fn a_function_at_its_cap_leaves_the_slots_to_others() {
    let mut dispatcher = backlogged(&['a', 'b'], 9, 4);
    let share = |concurrency_max| Share {
        concurrency_max,
        ..Share::default()
    };
    dispatcher.set_share('a', share(1));
    assert_eq!(dispatcher.claim(9).len(), 4);
    assert_eq!((dispatcher.running(&'a'), dispatcher.running(&'b')), (1, 3));
    // A cap that is lifted serves again, one that is lowered below the running ones only waits.
    dispatcher.set_slots(6);
    dispatcher.set_share('a', share(2));
    dispatcher.set_share('b', share(0));
    assert_eq!(dispatcher.claim(9), [('a', 1)]);
    assert!(dispatcher.finished(&'b'));
    assert!(dispatcher.claim(9).is_empty());
    dispatcher.forget_share(&'b');
    assert_eq!(dispatcher.claim(9), [('b', 3), ('b', 4)]);
}

#[test]
fn an_execution_waits_at_most_once() {
    let mut dispatcher = Dispatcher::new(1, 9);
    assert_eq!(dispatcher.ready(&'a', 1), Admission::Queued);
    assert_eq!(dispatcher.ready(&'a', 1), Admission::AlreadyQueued);
    assert_eq!(dispatcher.claim(9), [('a', 1)]);
    assert_eq!(dispatcher.ready(&'a', 1), Admission::Queued);
    assert_eq!(dispatcher.queued(&'a'), 1);
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let mut dispatcher = Dispatcher::new(1, 2);
    assert_eq!(dispatcher.ready(&'a', 1), Admission::Queued);
    assert_eq!(dispatcher.ready(&'a', 2), Admission::Queued);
    assert_eq!(dispatcher.ready(&'a', 3), Admission::Full);
    assert_eq!(dispatcher.ready(&'a', 2), Admission::AlreadyQueued);
    assert_eq!(dispatcher.ready(&'b', 3), Admission::Queued);
    assert_eq!(dispatcher.claim(1), [('a', 1)]);
    assert_eq!(dispatcher.ready(&'a', 3), Admission::Queued);
    let mut closed = Dispatcher::new(1, 0);
    assert_eq!(closed.ready(&'a', 1), Admission::Full);
    assert!(closed.lanes.is_empty());
}

#[test]
fn a_withdrawn_execution_is_not_claimed() {
    let mut dispatcher = backlogged(&['a'], 3, 9);
    assert!(dispatcher.withdraw(&'a', &1));
    assert!(!dispatcher.withdraw(&'a', &1));
    assert!(!dispatcher.withdraw(&'b', &1));
    assert_eq!(dispatcher.claim(9), [('a', 0), ('a', 2)]);
}

#[test]
fn a_free_slot_is_claimed_at_once_unless_it_would_be_taken_from_somebody() {
    let mut dispatcher = Dispatcher::<char, u32>::new(2, 9);
    let one = Share {
        concurrency_max: 1,
        ..Share::default()
    };
    dispatcher.set_share('a', one);
    assert!(dispatcher.claim_free(&'a'));
    // At its cap, although a slot is free.
    assert!(!dispatcher.claim_free(&'a'));
    // Its own queue comes first, and so does anybody's turn.
    assert_eq!(dispatcher.ready(&'a', 1), Admission::Queued);
    assert!(dispatcher.finished(&'a'));
    assert!(!dispatcher.claim_free(&'a') && !dispatcher.claim_free(&'b'));
    assert_eq!(dispatcher.claim(9), [('a', 1)]);
    assert!(dispatcher.claim_free(&'b'));
    // No slot is left.
    assert!(!dispatcher.claim_free(&'b'));
    assert!(dispatcher.finished(&'b') && dispatcher.claim_free(&'b'));
}

#[test]
fn a_slot_is_given_back_once() {
    let mut dispatcher = backlogged(&['a'], 1, 1);
    assert!(!dispatcher.finished(&'a'));
    assert!(!dispatcher.finished(&'b'));
    assert_eq!(dispatcher.claim(1).len(), 1);
    assert!(dispatcher.finished(&'a'));
    assert!(!dispatcher.finished(&'a'));
    assert_eq!(dispatcher.free_slots(), 1);
}

#[test]
fn a_function_without_work_takes_no_memory() {
    let mut dispatcher = backlogged(&['a', 'b'], 2, 9);
    dispatcher.withdraw(&'b', &0);
    dispatcher.withdraw(&'b', &1);
    dispatcher.claim(9);
    dispatcher.finished(&'a');
    dispatcher.finished(&'a');
    assert!(dispatcher.lanes.is_empty());
    assert!(dispatcher.turns.is_empty());
}

/// The simplest queue that could be right.
#[derive(Default)]
struct Model(Vec<(u8, u64)>);

impl Model {
    fn set(&mut self, key: u8, wake: u64) {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, wake));
    }

    fn due(&mut self, now: u64, max: usize) -> Vec<u8> {
        self.0.sort_by_key(|(key, wake)| (*wake, *key));
        let count = self.0.iter().take_while(|(_, wake)| *wake <= now).count();
        self.0.drain(..count.min(max)).map(|(key, _)| key).collect()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Ready(u8, u16),
    Claim(usize),
    Finish(usize),
    Withdraw(u8, u16),
    Share(u8, usize, u32),
    Slots(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0u8..4, 0u16..30).prop_map(|(f, k)| Act::Ready(f, k)),
        3 => (0usize..6).prop_map(Act::Claim),
        3 => any::<usize>().prop_map(Act::Finish),
        1 => (0u8..4, 0u16..30).prop_map(|(f, k)| Act::Withdraw(f, k)),
        1 => (0u8..4, 0usize..4, 0u32..4).prop_map(|(f, c, w)| Act::Share(f, c, w)),
        1 => (0usize..6).prop_map(Act::Slots),
    ]
}

/// A dispatcher beside the plain facts it must respect.
struct World {
    dispatcher: Dispatcher<u8, u16>,
    waiting: BTreeMap<u8, Vec<u16>>,
    running: Vec<u8>,
    caps: BTreeMap<u8, usize>,
    slots: usize,
}

const QUEUE_MAX: usize = 12;

impl World {
    fn cap(&self, function: u8) -> usize {
        self.caps.get(&function).copied().unwrap_or(usize::MAX)
    }

    fn running(&self, function: u8) -> usize {
        self.running.iter().filter(|f| **f == function).count()
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Ready(function, key) => {
                let queue = self.waiting.entry(function).or_default();
                let expected = if queue.contains(&key) {
                    Admission::AlreadyQueued
                } else if queue.len() == QUEUE_MAX {
                    Admission::Full
                } else {
                    queue.push(key);
                    Admission::Queued
                };
                assert_eq!(self.dispatcher.ready(&function, key), expected);
            }
            Act::Claim(max) => self.claim(max),
            Act::Finish(pick) if self.running.is_empty() => {
                assert!(!self.dispatcher.finished(&(pick % 4).to_le_bytes()[0]));
            }
            Act::Finish(pick) => {
                let function = self.running.swap_remove(pick % self.running.len());
                assert!(self.dispatcher.finished(&function));
            }
            Act::Withdraw(function, key) => {
                let queue = self.waiting.entry(function).or_default();
                let length = queue.len();
                queue.retain(|k| *k != key);
                let was_there = queue.len() < length;
                assert_eq!(self.dispatcher.withdraw(&function, &key), was_there);
            }
            Act::Share(function, concurrency_max, weight) => {
                self.caps.insert(function, concurrency_max);
                let share = Share {
                    concurrency_max,
                    weight,
                };
                self.dispatcher.set_share(function, share);
            }
            Act::Slots(slots) => {
                self.slots = slots;
                self.dispatcher.set_slots(slots);
            }
        }
    }

    fn claim(&mut self, max: usize) {
        let claimed = self.dispatcher.claim(max);
        assert!(claimed.len() <= max);
        let count = claimed.len();
        for (function, key) in claimed {
            // First in, first out, and only what waits.
            assert_eq!(self.waiting.get_mut(&function).unwrap().remove(0), key);
            assert!(self.running(function) < self.cap(function));
            assert!(self.running.len() < self.slots);
            self.running.push(function);
        }
        // Work that could run is never left lying while there is room.
        if count < max && self.running.len() < self.slots {
            for (function, queue) in &self.waiting {
                assert!(queue.is_empty() || self.running(*function) >= self.cap(*function));
            }
        }
    }

    fn check(&self) {
        let d = &self.dispatcher;
        assert_eq!(
            d.free_slots(),
            self.slots.saturating_sub(self.running.len())
        );
        for (function, queue) in &self.waiting {
            assert_eq!(d.queued(function), queue.len());
            assert_eq!(d.running(function), self.running(*function));
        }
        let turns: BTreeSet<u8> = d.turns.iter().copied().collect();
        assert_eq!(turns.len(), d.turns.len());
    }
}

proptest! {
    #[test]
    fn the_wake_queue_agrees_with_a_sorted_list(
        acts in proptest::collection::vec((0u8..5, 0u8..8, 0u64..40), 0..80),
    ) {
        let (mut queue, mut model) = (WakeQueue::new(), Model::default());
        for (act, key, time) in acts {
            let known = queue.wake_time(&key).map(Timestamp::as_millis);
            match act {
                0 | 1 => {
                    queue.hint(key, at(time));
                    model.set(key, known.map_or(time, |known| known.min(time)));
                }
                2 => {
                    queue.reset(key, at(time));
                    model.set(key, time);
                }
                3 => {
                    prop_assert_eq!(queue.forget(&key), known.is_some());
                    model.0.retain(|(other, _)| *other != key);
                }
                _ => {
                    let max = usize::from(key);
                    prop_assert_eq!(queue.due(at(time), max), model.due(time, max));
                }
            }
            let next = model.0.iter().map(|(_, wake)| *wake).min();
            prop_assert_eq!(queue.next().map(Timestamp::as_millis), next);
            prop_assert_eq!(queue.len(), model.0.len());
            prop_assert_eq!(queue.len(), queue.order.len());
        }
    }

    #[test]
    fn nothing_is_lost_nothing_claimed_twice_and_no_cap_exceeded(
        acts in proptest::collection::vec(any_act(), 0..200),
    ) {
        let mut world = World {
            dispatcher: Dispatcher::new(3, QUEUE_MAX),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            caps: BTreeMap::new(),
            slots: 3,
        };
        for act in acts {
            world.act(act);
            world.check();
        }
        // With caps and slots open, all that waits is served.
        world.act(Act::Slots(usize::MAX));
        for function in 0..4 {
            world.act(Act::Share(function, usize::MAX, 1));
        }
        world.act(Act::Claim(usize::MAX));
        prop_assert!(world.waiting.values().all(Vec::is_empty));
        while !world.running.is_empty() {
            world.act(Act::Finish(0));
        }
        prop_assert!(world.dispatcher.lanes.is_empty() && world.dispatcher.turns.is_empty());
    }

    #[test]
    fn backlogged_functions_get_their_shares_within_one_turn(
        weights in proptest::collection::vec(1u32..5, 2..6),
        slots in 1usize..8,
        batches in proptest::collection::vec((1usize..5, any::<usize>()), 1..120),
    ) {
        let mut dispatcher = Dispatcher::new(slots, usize::MAX);
        for (function, weight) in weights.iter().enumerate() {
            let concurrency_max = usize::MAX;
            dispatcher.set_share(function, Share { concurrency_max, weight: *weight });
            for key in 0..600 {
                assert_eq!(dispatcher.ready(&function, key), Admission::Queued);
            }
        }
        let mut running: Vec<usize> = Vec::new();
        let mut served = vec![0u32; weights.len()];
        for (max, pick) in batches {
            for (function, _) in dispatcher.claim(max) {
                served[function] += 1;
                running.push(function);
                // Complete turns of any two functions differ by at most one.
                let turns = || served.iter().zip(&weights).map(|(s, w)| s / w);
                let (least, most) = (turns().min().unwrap(), turns().max().unwrap());
                prop_assert!(most - least <= 1, "{served:?} of {weights:?}");
            }
            if running.len() == slots {
                let function = running.swap_remove(pick % running.len());
                prop_assert!(dispatcher.finished(&function));
            }
        }
    }

    #[test]
    fn a_newcomer_is_served_within_one_round_of_every_herd(
        herds in 1usize..6,
        weight in 1u32..4,
        before in 0usize..50,
    ) {
        let mut dispatcher = Dispatcher::new(usize::MAX, usize::MAX);
        for herd in 0..herds {
            let concurrency_max = usize::MAX;
            dispatcher.set_share(herd, Share { concurrency_max, weight });
            for key in 0..300 {
                assert_eq!(dispatcher.ready(&herd, key), Admission::Queued);
            }
        }
        dispatcher.claim(before);
        let newcomer = herds;
        assert_eq!(dispatcher.ready(&newcomer, 0), Admission::Queued);
        let round = herds * weight as usize + 1;
        prop_assert!(dispatcher.claim(round).contains(&(newcomer, 0)));
    }
}
