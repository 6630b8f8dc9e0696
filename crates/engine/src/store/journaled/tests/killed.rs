//! A process that commits and is killed with SIGKILL, again and again.

use super::*;
use outlast_core::random::SplitMix64;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

/// Where the child that is to be killed keeps its store; unset in ordinary runs.
const CHILD_FOLDER: &str = "OUTLAST_TEST_KILLED_JOURNAL";
const CHILD_THREADS: u128 = 4;

/// Commits until it is killed, and says what was acknowledged. Only ever run by the test below.
#[test]
fn a_child_that_commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    let store = JournaledStore::open(folder.as_ref(), small()).unwrap();
    thread::scope(|scope| {
        for number in 0..CHILD_THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut next = create(number, 1);
                if let Some(head) = store.head(next.execution).unwrap() {
                    next.head = head;
                    next = follow(&next, 1);
                }
                loop {
                    let version = next.head.version;
                    next.snapshot = version
                        .is_multiple_of(64)
                        .then(|| version.to_be_bytes().to_vec());
                    next.head.wake = Some(Timestamp::from_millis(version));
                    store.commit(next.clone()).wait().unwrap();
                    let line = format!("ack {number} {version};\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                    next = follow(&next, 1 + u32::try_from(version % 3).unwrap());
                }
            });
        }
    });
}

fn spawn_child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg("store::journaled::tests::killed::a_child_that_commits_until_it_is_killed")
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The execution and version that a line acknowledges, unless the kill tore it.
fn acknowledged(line: &str) -> Option<(usize, u64)> {
    let (_, rest) = line.split_once("ack ")?;
    let (number, version) = rest.strip_suffix(';')?.split_once(' ')?;
    Some((number.parse().ok()?, version.parse().ok()?))
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = folder();
    let mut random = SplitMix64::new(3);
    let mut versions = [0_u64; CHILD_THREADS as usize];
    for round in 0..10 {
        let mut child = spawn_child(folder.path());
        let kill_at = 1 + random.below(400);
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let Some((number, version)) = acknowledged(&line.unwrap()) else {
                continue;
            };
            assert!(version > versions[number]);
            versions[number] = version;
            seen += 1;
            if seen == kill_at {
                // What is still in the pipe was acknowledged too: reading goes on to its end.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(seen >= kill_at, "round {round}: the child ended by itself");
        check(folder.path(), &mut versions, round);
    }
    assert!(versions.iter().sum::<u64>() > 1_000, "{versions:?}");
}

fn check(folder: &Path, versions: &mut [u64], round: usize) {
    let store = JournaledStore::open(folder, small()).unwrap();
    assert_eq!(store.damage(), []);
    assert_eq!(store.damaged(), []);
    for (number, version) in versions.iter_mut().enumerate() {
        let Some(stored) = store.load(create(number as u128, 1).execution).unwrap() else {
            assert_eq!(*version, 0, "round {round}: execution {number} is lost");
            continue;
        };
        let head = stored.head;
        // At most the one commit that was under way is there beyond what was acknowledged.
        assert!(
            (*version..=*version + 3).contains(&head.version),
            "round {round}: {version} was acknowledged, {} is there",
            head.version
        );
        assert_eq!(head.wake, Some(Timestamp::from_millis(head.version)));
        *version = head.version;
        let expected = follow(
            &create(number as u128, 0),
            u32::try_from(head.version).unwrap(),
        );
        let runs = store.records(expected.execution, 0, usize::MAX).unwrap();
        let bytes: Vec<u8> = runs.into_iter().flat_map(|run| run.bytes).collect();
        assert_eq!(bytes, expected.records.bytes, "round {round}");
    }
}
