//! Many commits at once, the end of a store, and its next beginning.

use super::{
    super::{Commit, CommitError, Committing, Head, Store, Wake, memory::MemoryStore},
    Broken, Home, INTEGER_MAX, Rule, Verdict, at, create, everything, follow, id, is_made_of,
    is_unknown, load, same,
};
use outlast_core::{arn::ExecutionId, random::SplitMix64, wire::ExecutionStatus};
use std::thread;

pub(super) const RULES: &[Rule] = &[
    (
        "commits handed over without waiting take effect in order",
        keeps_order,
    ),
    (
        "a refused commit does not harm those beside it",
        spares_neighbours,
    ),
    ("of commits that race for a version one wins", one_wins),
    ("many threads commit and read at once", serves_many),
    (
        "a commit that nobody waits for is made all the same",
        commits_unwatched,
    ),
    (
        "close makes durable what was handed over and refuses what comes later",
        closes,
    ),
    (
        "an opened store has everything the one before acknowledged",
        reopens,
    ),
    (
        "random changes have the outcome and the effect they have in memory",
        agrees_with_memory,
    ),
];

fn keeps_order(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut last = create(1, 1);
    let mut commits = vec![last.clone()];
    for count in 0..200 {
        let mut next = follow(&last, count % 3);
        next.head.wake = (count % 5 > 0).then(|| at(u64::from(count)));
        next.snapshot = (count % 50 == 9).then(|| count.to_be_bytes().to_vec());
        commits.push(next.clone());
        last = next;
    }
    let handed: Vec<Committing> = commits
        .iter()
        .map(|commit| store.commit(commit.clone()))
        .collect();
    for committing in handed {
        committing.wait()?;
    }
    is_made_of(&*store, &commits.iter().collect::<Vec<&Commit>>())
}

fn spares_neighbours(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    let second = follow(&first, 1);
    let third = follow(&second, 1);
    let mut rival = create(2, 1);
    rival.head.name = first.head.name.clone();
    let handed = [
        store.commit(first.clone()),
        store.commit(rival),
        store.commit(third.clone()),
        store.delete(id(7), 1),
        store.commit(second.clone()),
        store.put_setting("key", vec![1]),
        store.commit(second.clone()),
        store.commit(third.clone()),
    ];
    let outcomes = handed.map(Committing::wait);
    let conflict = |expected, found| Err(CommitError::Conflict { expected, found });
    let expected = [
        Ok(()),
        Err(CommitError::NameTaken(id(1))),
        conflict(2, Some(1)),
        conflict(1, None),
        Ok(()),
        Ok(()),
        conflict(1, Some(2)),
        Ok(()),
    ];
    same("outcomes", outcomes, expected)?;
    is_made_of(&*store, &[&first, &second, &third])
}

fn one_wins(home: &mut dyn Home) -> Verdict {
    const RIVALS: usize = 8;
    const ROUNDS: u32 = 20;
    let store = home.open();
    let mut last = create(1, 1);
    let mut commits = vec![last.clone()];
    store.commit(last.clone()).wait()?;
    for _ in 0..ROUNDS {
        let next = follow(&last, 1);
        let outcomes: Vec<Result<(), CommitError>> = thread::scope(|scope| {
            let race = || store.commit(next.clone()).wait();
            let rivals: Vec<_> = (0..RIVALS).map(|_| scope.spawn(race)).collect();
            let ended = rivals.into_iter().map(|rival| rival.join());
            ended
                .map(|ended| ended.unwrap_or(Err(CommitError::Closed)))
                .collect()
        });
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        same("winners", won, 1)?;
        let conflict = Err(CommitError::Conflict {
            expected: next.expected,
            found: Some(next.head.version),
        });
        let lost = outcomes
            .iter()
            .filter(|outcome| **outcome == conflict)
            .count();
        same("losers", lost, RIVALS - 1)?;
        commits.push(next.clone());
        last = next;
    }
    is_made_of(&*store, &commits.iter().collect::<Vec<&Commit>>())
}

fn serves_many(home: &mut dyn Home) -> Verdict {
    const THREADS: u128 = 8;
    const EXECUTIONS: u128 = 10;
    let store = home.open();
    let live = |number: u128| -> Verdict {
        let mut first = create(number, 2);
        first.head.wake = Some(at(u64::try_from(number).unwrap_or(0)));
        store.commit(first.clone()).wait()?;
        // What has resolved is seen at once, by every way to read.
        is_made_of(&*store, &[&first])?;
        let second = follow(&first, 1);
        let mut third = follow(&second, 1);
        third.head.status = ExecutionStatus::Succeeded;
        third.head.ended = Some(at(5_000));
        third.head.wake = None;
        let handed = [store.commit(second.clone()), store.commit(third.clone())];
        for committing in handed {
            committing.wait()?;
        }
        is_made_of(&*store, &[&first, &second, &third])?;
        if number.is_multiple_of(2) {
            store.delete(id(number), 4).wait()?;
            is_unknown(&*store, &first)?;
        }
        Ok(())
    };
    let live = &live;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut numbers = thread * EXECUTIONS..(thread + 1) * EXECUTIONS;
                    numbers.try_for_each(live)
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(verdict) => verdict,
                Err(_) => Err(Broken("a thread panicked".into())),
            })
    })?;
    let left = store.list(&everything())?.len();
    same("left", left as u128, THREADS * EXECUTIONS / 2)?;
    same("due", store.due(None, at(INTEGER_MAX), 1_000)?, Vec::new())
}

fn commits_unwatched(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    let second = follow(&first, 1);
    drop(store.commit(first.clone()));
    store.commit(second.clone()).wait()?;
    is_made_of(&*store, &[&first, &second])
}

fn closes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    let second = follow(&first, 1);
    let handed = [store.commit(first.clone()), store.commit(second.clone())];
    store.close();
    for committing in handed {
        committing.wait()?;
    }
    store.close();
    let closed = Err(CommitError::Closed);
    same(
        "commit",
        store.commit(follow(&second, 1)).wait(),
        closed.clone(),
    )?;
    same("delete", store.delete(id(1), 2).wait(), closed.clone())?;
    same("setting", store.put_setting("key", vec![1]).wait(), closed)?;
    drop(store);
    let store = home.open();
    is_made_of(&*store, &[&first, &second])?;
    same("setting", store.setting("key")?, None)
}

fn reopens(home: &mut dyn Home) -> Verdict {
    let mut commits: Vec<Commit> = Vec::new();
    for generation in 0..4_u8 {
        let store = home.open();
        let mut next = create(1, 1);
        if let Some(last) = commits.last() {
            is_made_of(&*store, &commits.iter().collect::<Vec<&Commit>>())?;
            is_unknown(&*store, &create(9, 1))?;
            let before = store.setting("generation")?;
            same("setting", before, Some(vec![generation - 1]))?;
            let conflict = Err(CommitError::Conflict {
                expected: last.expected,
                found: Some(last.head.version),
            });
            let again = store.commit(last.clone()).wait();
            same("the last commit again", again, conflict)?;
            next = follow(last, 2);
        }
        next.head.wake = Some(at(u64::from(generation)));
        next.snapshot = (generation == 2).then(|| vec![generation; 5_000]);
        store.commit(next.clone()).wait()?;
        commits.push(next);
        store.commit(create(9, 3)).wait()?;
        store.delete(id(9), 3).wait()?;
        store.put_setting("generation", vec![generation]).wait()?;
        store.close();
    }
    Ok(())
}

/// What a store has, by every way to read it.
type Content = (
    Vec<(ExecutionId, Head)>,
    Vec<Option<super::Stored>>,
    Vec<Wake>,
);

fn content(store: &dyn Store) -> Result<Content, Broken> {
    let list = store.list(&everything())?;
    let loaded = list.iter().map(|(execution, _)| load(store, *execution));
    let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
    Ok((list, loaded, store.due(None, at(INTEGER_MAX), usize::MAX)?))
}

fn agrees_with_memory(home: &mut dyn Home) -> Verdict {
    const ROUNDS: u32 = 40;
    const BATCH: u32 = 25;
    let mut store = home.open();
    let model = MemoryStore::new();
    let mut random = SplitMix64::new(0x0571_1a57);
    for round in 0..ROUNDS {
        let mut handed = Vec::new();
        for _ in 0..BATCH {
            let number = u128::from(random.below(12));
            // The version it has in the model, which is ahead of the store: now and then one off.
            let version = model.head(id(number))?.map_or(0, |head| head.version);
            let version = (version + random.below(12) / 11).saturating_sub(random.below(12) / 11);
            if random.below(10) == 0 {
                let expected = model.delete(id(number), version).wait();
                handed.push((store.delete(id(number), version), expected));
                continue;
            }
            let commit = random_commit(&mut random, number, version);
            let expected = model.commit(commit.clone()).wait();
            handed.push((store.commit(commit), expected));
        }
        for (committing, expected) in handed {
            same(
                &format!("an outcome of round {round}"),
                committing.wait(),
                expected,
            )?;
        }
        let found = content(&*store)?;
        same(
            &format!("the content after round {round}"),
            found,
            content(&model)?,
        )?;
        if round % 10 == 9 {
            store.close();
            drop(store);
            store = home.open();
        }
    }
    same(
        "the content in the end",
        content(&*store)?,
        content(&model)?,
    )
}

fn random_commit(random: &mut SplitMix64, number: u128, version: u64) -> Commit {
    let mut pretended = create(number, 1);
    // Twelve executions share ten names, so some are refused.
    pretended.head.name = format!("run-{}", number % 10).into();
    pretended.head.version = version;
    let count = u32::try_from(random.below(4)).unwrap_or(0);
    let mut commit = follow(&pretended, count);
    if random.below(2) == 0 {
        commit.head.wake = Some(at(random.below(50)));
    }
    if random.below(6) == 0 {
        commit.snapshot = Some(vec![7; 30]);
    }
    if random.below(6) == 0 {
        commit.head.status = ExecutionStatus::Failed;
        commit.head.ended = Some(at(random.below(50)));
    }
    commit
}
