//! Pages of records, due wakes and lists: their edges and their order.

use super::{
    super::{Commit, Head, Query, Run, Store, Wake},
    Broken, Home, Rule, Verdict, at, create, everything, follow, id, joined, same,
};
use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use std::sync::Arc;

pub(super) const RULES: &[Rule] = &[
    (
        "records begin with the run that contains the one asked for",
        begins_in_a_run,
    ),
    (
        "records stop before the run that exceeds the bytes",
        stops_at_bytes,
    ),
    ("due wakes come in order of time and id", orders_wakes),
    ("due wakes have edges and a maximum", bounds_wakes),
    ("a moved wake leaves no ghost", moves_wakes),
    (
        "a list is in order of start and id, both ways",
        orders_lists,
    ),
    (
        "a list can be filtered by everything a query names",
        filters_lists,
    ),
    ("pages of a list make the whole list", pages_lists),
    (
        "a change of status moves an execution between lists",
        moves_between_lists,
    ),
];

/// An execution of commits of 2, 1 and 3 records, and the runs the store made of them.
fn some_runs(store: &dyn Store) -> Result<Vec<Run>, Broken> {
    let first = create(5, 2);
    let second = follow(&first, 1);
    let third = follow(&second, 3);
    // Neighbours on both sides, so that a scan that goes too far is seen.
    for commit in [&create(4, 9), &create(6, 9), &first, &second, &third] {
        store.commit(commit.clone()).wait()?;
    }
    let runs = store.records(id(5), 0, usize::MAX)?;
    let expected = joined(&[first.records, second.records, third.records])?;
    same("all records", joined(&runs)?, expected)?;
    Ok(runs)
}

fn begins_in_a_run(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let runs = some_runs(&*store)?;
    for from in 0..6 {
        let contains = |run: &&Run| from < run.first + u64::from(run.count);
        let expected: Vec<Run> = runs.iter().filter(contains).cloned().collect();
        let found = store.records(id(5), from, usize::MAX)?;
        same(&format!("records from {from}"), found, expected)?;
    }
    for from in [6, 7, u64::MAX] {
        same(
            "beyond the end",
            store.records(id(5), from, 100)?,
            Vec::new(),
        )?;
    }
    same("unknown", store.records(id(9), 0, 100)?, Vec::new())
}

fn stops_at_bytes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let runs = some_runs(&*store)?;
    for skipped in 0..runs.len() {
        let rest: Vec<Run> = runs.iter().skip(skipped).cloned().collect();
        let from = rest.first().map_or(0, |run| run.first);
        for count in 1..=rest.len() {
            let (fitting, _) = rest.split_at(count);
            let bytes: usize = fitting.iter().map(|run| run.bytes.len()).sum();
            // At least one, and one less when a byte is missing.
            for (bytes_max, count) in [
                (bytes - 1, (count - 1).max(1)),
                (bytes, count),
                (bytes + 1, count),
            ] {
                let (expected, _) = rest.split_at(count);
                let found = store.records(id(5), from, bytes_max)?;
                let what = format!("records from {from} in {bytes_max} bytes");
                same(&what, found, expected.to_vec())?;
            }
        }
        let found = store.records(id(5), from, 0)?;
        same("in no bytes", found.as_slice(), rest.split_at(1).0)?;
    }
    Ok(())
}

fn sleeper(number: u128, wake: u64) -> Commit {
    let mut commit = create(number, 1);
    commit.head.wake = Some(at(wake));
    commit
}

fn wake(number: u128, ms: u64) -> Wake {
    Wake {
        at: at(ms),
        execution: id(number),
    }
}

fn orders_wakes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    for (number, ms) in [(3, 20), (1, 30), (2, 20), (4, 10), (u128::MAX, 20), (0, 20)] {
        store.commit(sleeper(number, ms)).wait()?;
    }
    store.commit(create(9, 1)).wait()?;
    let expected = [(4, 10), (0, 20), (2, 20), (3, 20), (u128::MAX, 20), (1, 30)];
    let expected: Vec<Wake> = expected.map(|(number, ms)| wake(number, ms)).into();
    same("all", store.due(None, at(100), 100)?, expected.clone())?;
    let mut one_by_one = Vec::new();
    while let [next] = store
        .due(one_by_one.last().copied(), at(100), 1)?
        .as_slice()
    {
        one_by_one.push(*next);
    }
    same("one by one", one_by_one, expected)
}

fn bounds_wakes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    for (number, ms) in [(1, 10), (2, 20), (3, 20), (4, 30)] {
        store.commit(sleeper(number, ms)).wait()?;
    }
    let all = [wake(1, 10), wake(2, 20), wake(3, 20), wake(4, 30)];
    for (until, count) in [
        (0, 0),
        (9, 0),
        (10, 1),
        (11, 1),
        (19, 1),
        (20, 3),
        (29, 3),
        (30, 4),
    ] {
        let expected: Vec<Wake> = all.iter().take(count).copied().collect();
        let found = store.due(None, at(until), 10)?;
        same(&format!("until {until}"), found, expected)?;
    }
    for max in 0..=5 {
        let expected: Vec<Wake> = all.iter().take(max).copied().collect();
        same("max", store.due(None, at(u64::MAX), max)?, expected)?;
    }
    // The place to go on from need not be there any more.
    for (after, skipped) in [
        (wake(0, 10), 0),
        (wake(1, 10), 1),
        (wake(9, 15), 1),
        (wake(2, 20), 2),
        (wake(9, 20), 3),
        (wake(4, 30), 4),
    ] {
        let expected: Vec<Wake> = all.iter().skip(skipped).copied().collect();
        let found = store.due(Some(after), at(100), 10)?;
        same(&format!("after {after:?}"), found, expected)?;
    }
    same(
        "nothing between",
        store.due(Some(wake(9, 20)), at(20), 10)?,
        vec![],
    )
}

fn moves_wakes(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let mut commit = sleeper(1, 50);
    store.commit(commit.clone()).wait()?;
    store.commit(sleeper(2, 50)).wait()?;
    for ms in [Some(20), Some(80), Some(80), None, None, Some(50)] {
        commit = follow(&commit, 1);
        commit.head.wake = ms.map(at);
        store.commit(commit.clone()).wait()?;
        let mut expected = vec![wake(2, 50)];
        expected.extend(ms.map(|ms| wake(1, ms)));
        expected.sort();
        same("after a move", store.due(None, at(100), 10)?, expected)?;
    }
    store.delete(id(1), commit.head.version).wait()?;
    same(
        "after the end",
        store.due(None, at(100), 10)?,
        vec![wake(2, 50)],
    )
}

/// Twelve executions of two functions, two versions and all statuses, three at each start.
fn population(store: &dyn Store) -> Result<Vec<(ExecutionId, Head)>, Broken> {
    use ExecutionStatus::{Failed, Running, Stopped, Succeeded, TimedOut};
    let statuses = [Running, Succeeded, Failed, TimedOut, Stopped];
    let mut heads = Vec::new();
    for number in 0..12_usize {
        // Neither the order of ids nor that of commits is the order of starts.
        let key = (number as u128 * 7) % 12;
        let mut commit = create(key, 1);
        let head = &mut commit.head;
        head.started = at(100 + 10 * (number as u64 % 4));
        head.function = if number % 3 == 0 { "refund" } else { "order" }.into();
        head.function_version = if number % 2 == 0 { "1" } else { "2" }.into();
        if number % 3 == 0 {
            head.name = format!("run-{}", (key + 1) % 12).into();
        }
        if let Some(status) = statuses.get(number % 5) {
            head.status = *status;
            head.ended = status.is_terminal().then(|| at(500));
        }
        store.commit(commit.clone()).wait()?;
        heads.push((commit.execution, commit.head));
    }
    heads.sort_by_key(|(execution, head)| (head.started, *execution));
    Ok(heads)
}

fn orders_lists(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    same("empty", store.list(&everything())?, Vec::new())?;
    let mut expected = population(&*store)?;
    same("oldest first", store.list(&everything())?, expected.clone())?;
    let newest_first = Query {
        newest_first: true,
        ..everything()
    };
    expected.reverse();
    same("newest first", store.list(&newest_first)?, expected)
}

/// Every filter alone and every pair that a person would ask for.
fn queries() -> Vec<Query> {
    use ExecutionStatus::{Failed, Running, Stopped, Succeeded};
    let functions = [None, Some("order"), Some("refund"), Some("ship")];
    let statuses = [
        vec![],
        vec![Running],
        vec![Stopped, Succeeded],
        vec![Failed, Failed],
    ];
    let ranges = [
        (None, None),
        (Some(110), None),
        (None, Some(120)),
        (Some(110), Some(120)),
        (Some(111), Some(119)),
        (Some(109), Some(121)),
        (Some(120), Some(110)),
        (Some(u64::MAX), None),
        (None, Some(0)),
    ];
    let details = [
        (None, None),
        (Some("2"), None),
        (None, Some("run-5")),
        (Some("1"), Some("run-5")),
    ];
    let mut queries = Vec::new();
    for function in functions {
        for statuses in &statuses {
            for (from, until) in ranges {
                for (version, name) in details {
                    queries.push(Query {
                        function: function.map(Arc::from),
                        function_version: version.map(Arc::from),
                        name: name.map(Arc::from),
                        statuses: statuses.clone(),
                        started_from: from.map(Timestamp::from_millis),
                        started_until: until.map(Timestamp::from_millis),
                        max: 100,
                        ..Query::default()
                    });
                }
            }
        }
    }
    queries
}

fn filters_lists(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let heads = population(&*store)?;
    for mut query in queries() {
        let mut expected = heads.clone();
        expected.retain(|(_, head)| query.matches(head));
        same(&format!("{query:?}"), store.list(&query)?, expected.clone())?;
        query.newest_first = true;
        expected.reverse();
        same(&format!("{query:?}"), store.list(&query)?, expected)?;
    }
    Ok(())
}

fn pages_lists(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let heads = population(&*store)?;
    for (index, mut query) in queries().into_iter().enumerate() {
        query.newest_first = index % 2 == 0;
        let mut expected = heads.clone();
        expected.retain(|(_, head)| query.matches(head));
        if query.newest_first {
            expected.reverse();
        }
        for max in [1, expected.len().max(1)] {
            query.max = max;
            query.after = None;
            let mut found = Vec::new();
            loop {
                let page = store.list(&query)?;
                same("a page is not too long", page.len() <= max, true)?;
                let Some((execution, head)) = page.last() else {
                    break;
                };
                query.after = Some((head.started, *execution));
                found.extend(page);
                same("pages end", found.len() <= expected.len(), true)?;
            }
            same(&format!("pages of {query:?}"), found, expected.clone())?;
        }
    }
    // The place to go on from need not be there, and may lie outside of the range.
    for newest_first in [false, true] {
        for (ms, number) in [(0, 0), (105, 3), (110, u128::MAX), (135, 0), (u64::MAX, 5)] {
            let query = Query {
                newest_first,
                after: Some((at(ms), id(number))),
                started_from: Some(at(110)),
                started_until: Some(at(120)),
                ..everything()
            };
            let mut expected = heads.clone();
            expected.retain(|(execution, head)| {
                query.matches(head) && query.follows(head.started, *execution)
            });
            if newest_first {
                expected.reverse();
            }
            same(&format!("{query:?}"), store.list(&query)?, expected)?;
        }
    }
    let none = Query::default();
    same("a page of none", store.list(&none)?, Vec::new())
}

fn moves_between_lists(home: &mut dyn Home) -> Verdict {
    let store = home.open();
    let listed = |function: Option<&str>, status| {
        let query = Query {
            function: function.map(Arc::from),
            statuses: vec![status],
            ..everything()
        };
        store.list(&query).map(|listed| listed.len())
    };
    let first = create(1, 1);
    store.commit(first.clone()).wait()?;
    for function in [None, Some("order")] {
        same("running", listed(function, ExecutionStatus::Running)?, 1)?;
        same("stopped", listed(function, ExecutionStatus::Stopped)?, 0)?;
    }
    let mut second = follow(&first, 1);
    second.head.status = ExecutionStatus::Stopped;
    second.head.ended = Some(at(9_000));
    store.commit(second).wait()?;
    for function in [None, Some("order")] {
        same("running", listed(function, ExecutionStatus::Running)?, 0)?;
        same("stopped", listed(function, ExecutionStatus::Stopped)?, 1)?;
    }
    Ok(())
}
