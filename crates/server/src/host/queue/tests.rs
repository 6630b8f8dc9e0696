//! The line of calls and the workers that ask, step by step and against a plain model.

use super::*;
use outlast_core::random::SplitMix64;

type Plain = Queue<&'static str, &'static str>;

fn tenant(name: &str) -> Tenant {
    Some(name.into())
}

fn matched(queue: &mut Plain) -> Vec<(&'static str, &'static str)> {
    let mut matches = Vec::new();
    while let Some(found) = queue.next_match() {
        matches.push((found.waiting.call, found.poll));
    }
    matches
}

#[test]
fn calls_are_served_in_the_order_they_came() {
    let mut queue = Plain::default();
    for call in ["a", "b", "c"] {
        queue.offer(None, call);
    }
    assert!(matched(&mut queue).is_empty());
    queue.ask(Key::Connection(1), "one");
    queue.ask(Key::Connection(2), "two");
    assert_eq!(matched(&mut queue), [("a", "one"), ("b", "two")]);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn a_worker_never_serves_two_tenants() {
    let mut queue = Plain::default();
    queue.offer(tenant("x"), "x1");
    queue.offer(tenant("y"), "y1");
    queue.offer(tenant("x"), "x2");
    queue.offer(None, "none");
    queue.ask(Key::Worker(1), "one");
    assert_eq!(matched(&mut queue), [("x1", "one")]);
    queue.ask(Key::Worker(1), "one again");
    assert_eq!(matched(&mut queue), [("x2", "one again")]);
    queue.ask(Key::Worker(1), "one idle");
    assert!(matched(&mut queue).is_empty());
    assert_eq!(queue.misfits().collect::<Vec<_>>(), [Key::Worker(1)]);
    queue.ask(Key::Process(7, 7), "seven");
    assert_eq!(matched(&mut queue), [("y1", "seven")]);
}

#[test]
fn a_worker_that_served_nobodys_call_serves_no_tenant() {
    let mut queue = Plain::default();
    queue.offer(None, "none");
    queue.ask(Key::Worker(1), "one");
    assert_eq!(matched(&mut queue).len(), 1);
    queue.offer(tenant("x"), "x");
    queue.ask(Key::Worker(1), "one");
    assert!(matched(&mut queue).is_empty());
}

#[test]
fn a_worker_that_is_about_to_be_replaced_gets_nothing_more() {
    let mut queue = Plain::default();
    queue.ask(Key::Worker(1), "one");
    queue.offer(tenant("x"), "x1");
    assert_eq!(matched(&mut queue).len(), 1);
    let asking = queue.ask(Key::Worker(1), "one again");
    queue.offer(tenant("y"), "y1");
    queue.retire(Key::Worker(1));
    queue.offer(tenant("x"), "x2");
    queue.ask(Key::Worker(1), "and again");
    assert!(matched(&mut queue).is_empty());
    assert_eq!(queue.misfits().count(), 0);
    assert_eq!(queue.unask(asking), Some("one again"));
    queue.ask(Key::Worker(2), "two");
    assert_eq!(matched(&mut queue), [("y1", "two")]);
}

#[test]
fn the_first_call_binds_all_polls_of_a_worker() {
    let mut queue = Plain::default();
    queue.ask(Key::Worker(1), "first");
    queue.ask(Key::Worker(1), "second");
    queue.offer(tenant("x"), "x1");
    queue.offer(tenant("y"), "y1");
    queue.offer(tenant("x"), "x2");
    assert_eq!(matched(&mut queue), [("x1", "first"), ("x2", "second")]);
}

#[test]
fn a_connection_that_could_be_anybody_gets_no_tenants_call() {
    let mut queue = Plain::default();
    queue.offer(tenant("x"), "x");
    queue.offer(None, "none");
    queue.ask(Key::Connection(1), "one");
    queue.ask(Key::Connection(2), "two");
    assert_eq!(matched(&mut queue), [("none", "one")]);
    assert_eq!(queue.misfits().count(), 0);
}

#[test]
fn a_worker_that_keeps_tenants_apart_serves_them_all_in_order() {
    let mut queue = Plain::default();
    for (name, call) in [("x", "x1"), ("y", "y1")] {
        queue.offer(tenant(name), call);
    }
    queue.offer(None, "none");
    queue.offer(tenant("x"), "x2");
    for poll in ["one", "two", "three"] {
        queue.ask(Key::Shared(1), poll);
    }
    let expected = [("x1", "one"), ("y1", "two"), ("none", "three")];
    assert_eq!(matched(&mut queue), expected);
    assert_eq!(queue.misfits().count(), 0);
    assert_eq!(queue.take_for(Key::Shared(1)).unwrap().call, "x2");
    let asking = queue.ask(Key::Shared(1), "four");
    assert_eq!(queue.unask(asking), Some("four"));
    assert_eq!(queue.workers().count(), 0);
}

#[test]
fn whoever_can_serve_nobody_else_goes_first() {
    let mut queue = Plain::default();
    queue.offer(tenant("x"), "x1");
    queue.ask(Key::Worker(1), "bound");
    assert_eq!(matched(&mut queue), [("x1", "bound")]);
    queue.ask(Key::Shared(2), "shared");
    queue.ask(Key::Worker(1), "bound");
    queue.offer(tenant("x"), "x2");
    queue.offer(tenant("y"), "y1");
    assert_eq!(matched(&mut queue), [("x2", "bound"), ("y1", "shared")]);
}

#[test]
fn a_call_that_was_put_back_is_the_next_one() {
    let mut queue = Plain::default();
    queue.offer(None, "a");
    queue.offer(None, "b");
    queue.ask(Key::Worker(1), "one");
    let first = queue.next_match().unwrap();
    queue.put_back(first.waiting);
    queue.ask(Key::Worker(2), "two");
    assert_eq!(matched(&mut queue), [("a", "two")]);
}

#[test]
fn what_is_withdrawn_is_not_matched() {
    let mut queue = Plain::default();
    let place = queue.offer(None, "a");
    let asking = queue.ask(Key::Connection(1), "one");
    assert_eq!(queue.unask(asking), Some("one"));
    assert_eq!(queue.unask(asking), None);
    assert_eq!(queue.workers().count(), 0);
    assert!(queue.withdraw(place).is_some());
    assert!(queue.withdraw(place).is_none());
    queue.ask(Key::Connection(1), "one");
    assert!(matched(&mut queue).is_empty());
}

#[test]
fn a_worker_that_fails_to_start_takes_the_call_it_would_have_got() {
    let mut queue = Plain::default();
    queue.offer(tenant("x"), "x");
    queue.offer(None, "none");
    let taken = queue.take_for(Key::Connection(9)).unwrap();
    assert_eq!(taken.call, "none");
    assert!(queue.take_for(Key::Connection(9)).is_none());
    assert_eq!(queue.take_for(Key::Worker(1)).unwrap().call, "x");
    assert!(queue.take_for(Key::Worker(1)).is_none());
}

#[test]
fn workers_that_are_gone_are_forgotten() {
    let mut queue = Plain::default();
    queue.offer(tenant("x"), "x");
    queue.ask(Key::Worker(1), "one");
    queue.ask(Key::Worker(2), "two");
    assert_eq!(matched(&mut queue), [("x", "one")]);
    queue.retain(|_| false);
    // Who asks is there.
    assert_eq!(queue.workers().collect::<Vec<_>>(), [Key::Worker(2)]);
}

/// Random lives: whatever happens, nobody serves two tenants, and nothing is lost or served twice.
#[test]
fn random_lives_keep_the_rules() {
    for seed in 0..2_000 {
        random_life(seed);
    }
}

fn random_life(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut pick = |bound: u64| random.next_u64() % bound;
    let mut queue: Queue<(u64, Tenant), Key> = Queue::default();
    let mut served: BTreeMap<Key, BTreeSet<Tenant>> = BTreeMap::new();
    let (mut offered, mut ended) = (0, BTreeSet::new());
    let (mut places, mut askings) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        match pick(8) {
            0..=2 => {
                let tenant =
                    [None, tenant("x"), tenant("y")][usize::try_from(pick(3)).unwrap()].clone();
                offered += 1;
                places.push(queue.offer(tenant.clone(), (offered, tenant)));
            }
            3..=5 => {
                let number = pick(4);
                let key = [
                    Key::Worker(number),
                    Key::Process(1, number),
                    Key::Connection(number),
                ];
                let key = key[usize::try_from(pick(3)).unwrap()];
                askings.push(queue.ask(key, key));
            }
            6 if !places.is_empty() => {
                let index = usize::try_from(pick(places.len() as u64)).unwrap();
                if let Some(waiting) = queue.withdraw(places.swap_remove(index)) {
                    assert!(ended.insert(waiting.call.0), "seed {seed}");
                }
            }
            _ if !askings.is_empty() => {
                let index = usize::try_from(pick(askings.len() as u64)).unwrap();
                queue.unask(askings.swap_remove(index));
            }
            _ => {}
        }
        while let Some(found) = queue.next_match() {
            let (number, tenant) = found.waiting.call.clone();
            let mut tenants = served.get(&found.poll).cloned().unwrap_or_default();
            tenants.insert(tenant.clone());
            assert!(
                tenants.len() == 1,
                "seed {seed}: {:?} {tenants:?}",
                found.poll
            );
            assert!(found.poll.tells_apart() || tenant.is_none(), "seed {seed}");
            if pick(8) == 0 {
                queue.put_back(found.waiting);
                served.insert(found.poll, tenants);
                continue;
            }
            assert!(ended.insert(number), "seed {seed}: served twice");
            served.insert(found.poll, tenants);
        }
    }
    assert_eq!(
        queue.waiting() + ended.len(),
        usize::try_from(offered).unwrap()
    );
}
