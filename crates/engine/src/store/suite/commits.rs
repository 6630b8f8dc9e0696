//! What commits, deletes and settings do, and when they are refused.

use super::{
    super::{Commit, CommitError, INTEGER_MAX, Run},
    Home, Rule, Verdict, at, create, follow, id, is_made_of, is_unknown, same,
};
use outlast_core::wire::ExecutionStatus;

pub(super) const RULES: &[Rule] = &[
    ("a commit creates an execution", creates),
    ("a commit appends to an execution", appends),
    (
        "the head is replaced, with and without records",
        replaces_the_head,
    ),
    (
        "a commit at another version is refused and changes nothing",
        compares_versions,
    ),
    (
        "a commit to an execution that is not there is refused",
        refuses_the_missing,
    ),
    ("an execution is created once", creates_once),
    (
        "a commit that contradicts itself is refused",
        refuses_the_malformed,
    ),
    ("function, name and start never change", keeps_identity),
    (
        "a name belongs to one execution of a function",
        claims_names,
    ),
    ("a deleted execution leaves nothing behind", deletes),
    (
        "a delete at another version is refused and changes nothing",
        compares_deletes,
    ),
    (
        "an execution deleted and created again has nothing of the first",
        begins_anew,
    ),
    (
        "the newest snapshot is loaded with the records after it",
        keeps_the_newest_snapshot,
    ),
    (
        "the greatest times and awkward texts come back as they were",
        keeps_extremes,
    ),
    ("a setting has the value it was last given", keeps_settings),
];

fn creates(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let commit = create(1, 3);
    is_unknown(&*store, &commit)?;
    store.commit(commit.clone()).wait()?;
    is_made_of(&*store, &[&commit])?;
    is_unknown(&*store, &create(2, 1))
}

fn appends(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    let second = follow(&first, 3);
    let third = follow(&second, 1);
    let other = create(2, 2);
    for commit in [&first, &second, &other, &third] {
        store.commit(commit.clone()).wait()?;
    }
    is_made_of(&*store, &[&first, &second, &third])?;
    is_made_of(&*store, &[&other])
}

fn replaces_the_head(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut first = create(1, 1);
    first.head.wake = Some(at(50));
    let mut second = follow(&first, 0);
    second.head.function_version = "2".into();
    second.head.wake = Some(at(40));
    let mut third = follow(&second, 1);
    third.head.wake = None;
    let mut fourth = follow(&third, 0);
    fourth.head.wake = Some(at(60));
    let mut fifth = follow(&fourth, 2);
    fifth.head.status = ExecutionStatus::Failed;
    fifth.head.ended = Some(at(2_000));
    let mut sixth = follow(&fifth, 0);
    sixth.head.ended = Some(at(2_001));
    sixth.head.wake = None;
    let commits = [&first, &second, &third, &fourth, &fifth, &sixth];
    for count in 1..=commits.len() {
        let (so_far, _) = commits.split_at(count);
        if let Some(&commit) = so_far.last() {
            store.commit(commit.clone()).wait()?;
            is_made_of(&*store, so_far)?;
        }
    }
    Ok(())
}

fn compares_versions(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 3);
    store.commit(first.clone()).wait()?;
    for expected in [2, 4] {
        for count in [0, 1] {
            let mut pretended = first.clone();
            pretended.head.version = expected;
            let mut commit = follow(&pretended, count);
            commit.head.wake = Some(at(9));
            commit.snapshot = Some(vec![9]);
            let found = Some(3);
            let conflict = Err(CommitError::Conflict { expected, found });
            same("outcome", store.commit(commit).wait(), conflict)?;
            is_made_of(&*store, &[&first])?;
        }
    }
    let second = follow(&first, 1);
    store.commit(second.clone()).wait()?;
    is_made_of(&*store, &[&first, &second])
}

fn refuses_the_missing(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    for expected in [1, INTEGER_MAX - 1] {
        let mut pretended = create(1, 1);
        pretended.head.version = expected;
        let commit = follow(&pretended, 1);
        let found = None;
        let conflict = Err(CommitError::Conflict { expected, found });
        same("outcome", store.commit(commit.clone()).wait(), conflict)?;
        is_unknown(&*store, &commit)?;
    }
    Ok(())
}

fn creates_once(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 2);
    store.commit(first.clone()).wait()?;
    let mut renamed = create(1, 1);
    renamed.head.name = "another".into();
    for again in [first.clone(), create(1, 1), renamed] {
        let conflict = Err(CommitError::Conflict {
            expected: 0,
            found: Some(2),
        });
        same("outcome", store.commit(again).wait(), conflict)?;
        is_made_of(&*store, &[&first])?;
    }
    same("the other name", store.find("order", "another")?, None)
}

fn refuses_the_malformed(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 2);
    store.commit(first.clone()).wait()?;
    let spoil = |spoil: fn(&mut Commit)| {
        let mut commit = follow(&first, 2);
        spoil(&mut commit);
        commit
    };
    let mut nothing = create(2, 0);
    nothing.records = Run::default();
    let malformed = [
        nothing,
        spoil(|commit| commit.records.first -= 1),
        spoil(|commit| commit.records.first += 1),
        spoil(|commit| commit.records.count -= 1),
        spoil(|commit| commit.records.count = 0),
        spoil(|commit| commit.head.version -= 1),
        spoil(|commit| commit.head.version += 1),
        spoil(|commit| commit.head.wake = Some(at(INTEGER_MAX + 1))),
        spoil(|commit| commit.head.ended = Some(at(INTEGER_MAX + 1))),
        spoil(|commit| commit.head.started = at(INTEGER_MAX + 1)),
        spoil(|commit| {
            commit.expected = INTEGER_MAX - 1;
            commit.records.first = INTEGER_MAX - 1;
            commit.head.version = INTEGER_MAX + 1;
        }),
        spoil(|commit| {
            commit.expected = u64::MAX;
            commit.records.first = u64::MAX;
            commit.head.version = 1;
        }),
    ];
    for (index, commit) in malformed.into_iter().enumerate() {
        let outcome = store.commit(commit).wait();
        let refused = matches!(outcome, Err(CommitError::Malformed(_)));
        same(&format!("commit {index} is refused"), refused, true)?;
        is_made_of(&*store, &[&first])?;
    }
    is_unknown(&*store, &create(2, 1))
}

fn keeps_identity(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    store.commit(first.clone()).wait()?;
    let changes: [fn(&mut Commit); 3] = [
        |commit| commit.head.function = "another".into(),
        |commit| commit.head.name = "another".into(),
        |commit| commit.head.started = at(1_001),
    ];
    for change in changes {
        let mut commit = follow(&first, 1);
        change(&mut commit);
        let outcome = store.commit(commit).wait();
        let refused = matches!(outcome, Err(CommitError::Malformed(_)));
        same("refused", refused, true)?;
        is_made_of(&*store, &[&first])?;
    }
    Ok(())
}

fn claims_names(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 1);
    store.commit(first.clone()).wait()?;

    let mut rival = create(2, 1);
    rival.head.name = first.head.name.clone();
    let taken = Err(CommitError::NameTaken(first.execution));
    same("rival", store.commit(rival.clone()).wait(), taken)?;
    is_unknown(&*store, &rival)?;
    is_made_of(&*store, &[&first])?;

    let mut elsewhere = rival.clone();
    elsewhere.execution = id(3);
    elsewhere.head.function = "refund".into();
    store.commit(elsewhere.clone()).wait()?;
    is_made_of(&*store, &[&elsewhere])?;
    is_made_of(&*store, &[&first])?;
    same(
        "another function",
        store.find("ship", &first.head.name)?,
        None,
    )?;

    store.delete(first.execution, 1).wait()?;
    store.commit(rival.clone()).wait()?;
    is_made_of(&*store, &[&rival])?;
    is_made_of(&*store, &[&elsewhere])
}

fn deletes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut first = create(1, 2);
    first.snapshot = Some(vec![1, 2, 3]);
    first.head.wake = Some(at(70));
    let second = follow(&first, 2);
    let neighbours = [create(0, 1), create(2, 1)];
    for commit in [&first, &second].into_iter().chain(&neighbours) {
        store.commit(commit.clone()).wait()?;
    }
    store.delete(first.execution, 4).wait()?;
    is_unknown(&*store, &first)?;
    for neighbour in &neighbours {
        is_made_of(&*store, &[neighbour])?;
    }
    let conflict = Err(CommitError::Conflict {
        expected: 4,
        found: None,
    });
    same("again", store.delete(first.execution, 4).wait(), conflict)?;
    let third = follow(&second, 1);
    let conflict = Err(CommitError::Conflict {
        expected: 4,
        found: None,
    });
    same("append", store.commit(third).wait(), conflict)
}

fn compares_deletes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let commit = create(1, 3);
    store.commit(commit.clone()).wait()?;
    for expected in [0, 2, 4, u64::MAX] {
        let found = Some(3);
        let conflict = Err(CommitError::Conflict { expected, found });
        same("outcome", store.delete(id(1), expected).wait(), conflict)?;
        is_made_of(&*store, &[&commit])?;
    }
    let conflict = Err(CommitError::Conflict {
        expected: 0,
        found: None,
    });
    same("missing", store.delete(id(2), 0).wait(), conflict)
}

fn begins_anew(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut first = create(1, 5);
    first.snapshot = Some(vec![5; 100]);
    first.head.wake = Some(at(70));
    store.commit(first.clone()).wait()?;
    store.delete(first.execution, 5).wait()?;
    let mut again = create(1, 1);
    again.head.started = at(3_000);
    again.head.function = "refund".into();
    store.commit(again.clone()).wait()?;
    is_made_of(&*store, &[&again])?;
    same("the name it had", store.find("order", "run-1")?, None)?;
    let second = follow(&again, 7);
    store.commit(second.clone()).wait()?;
    is_made_of(&*store, &[&again, &second])
}

fn keeps_the_newest_snapshot(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let first = create(1, 2);
    let mut second = follow(&first, 2);
    second.snapshot = Some(vec![4; 9]);
    let third = follow(&second, 3);
    let mut fourth = follow(&third, 1);
    fourth.snapshot = Some(vec![8; 20_000]);
    let mut fifth = follow(&fourth, 0);
    fifth.snapshot = Some(Vec::new());
    let sixth = follow(&fifth, 1);
    let commits = [&first, &second, &third, &fourth, &fifth, &sixth];
    for count in 1..=commits.len() {
        let (so_far, _) = commits.split_at(count);
        if let Some(&commit) = so_far.last() {
            store.commit(commit.clone()).wait()?;
            is_made_of(&*store, so_far)?;
        }
    }
    let loaded = store.load(first.execution)?;
    let first = loaded.and_then(|stored| stored.records.first().map(|run| run.first));
    same("the first record loaded", first, Some(8))
}

fn keeps_extremes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut greatest = create(u128::MAX, 1);
    greatest.head.started = at(INTEGER_MAX);
    greatest.head.ended = Some(at(INTEGER_MAX));
    greatest.head.wake = Some(at(INTEGER_MAX));
    let mut least = create(0, 1);
    least.head.started = at(0);
    least.head.ended = Some(at(0));
    least.head.wake = Some(at(0));
    let mut awkward = create(7, 1);
    awkward.head.function = "it's \"größer\"; DROP TABLE run; --".into();
    awkward.head.function_version = "".into();
    awkward.head.name = "名前 \u{0} % _ \\".into();
    let mut large = create(8, 1);
    large.records.bytes = (0..=u8::MAX).cycle().take(1_000_000).collect();
    large.snapshot = Some(large.records.bytes.iter().rev().copied().collect());
    let mut empty = create(9, 1);
    empty.records.bytes = Vec::new();
    let commits = [greatest, least, awkward, large, empty];
    for commit in &commits {
        store.commit(commit.clone()).wait()?;
    }
    for commit in &commits {
        is_made_of(&*store, &[commit])?;
    }
    Ok(())
}

fn keeps_settings(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    same("unknown", store.setting("key")?, None)?;
    for value in [vec![1, 2, 3], Vec::new(), vec![0; 100_000]] {
        store.put_setting("key", value.clone()).wait()?;
        same("value", store.setting("key")?, Some(value))?;
    }
    store.put_setting("Key", vec![7]).wait()?;
    same("another key", store.setting("Key")?, Some(vec![7]))?;
    same("this key", store.setting("key")?, Some(vec![0; 100_000]))?;
    same("a prefix", store.setting("ke")?, None)
}
