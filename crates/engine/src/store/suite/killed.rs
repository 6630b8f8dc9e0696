//! A process that commits and is killed with SIGKILL, again and again.
//!
//! The process is the test's own program, started again with one test of it: that one opens a store
//! and calls [`commit_until_killed`]. A killed process leaves the page cache behind, so this says
//! nothing about power cuts.

use super::{Broken, Home, Verdict, at, create, follow, same};
use crate::store::Store;
use outlast_core::random::SplitMix64;
use std::{
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// Where the child keeps its store; unset in ordinary runs.
const FOLDER: &str = "OUTLAST_TEST_KILLED";
const THREADS: usize = 4;

/// How often, and when.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// So many kills.
    pub rounds: u32,
    /// Each after at most so many acknowledgements.
    pub acknowledged_max: u64,
    /// What the numbers are drawn from.
    pub seed: u64,
}

/// The folder of the store, in the child; none in ordinary runs.
pub fn folder_of_child() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs one test of this program, by its full name, as the child.
///
/// # Errors
/// When the program cannot be found.
pub fn child(test: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", "--nocapture", "--test-threads=1", test])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Ok(command)
}

/// Commits to a few executions at once and says what was acknowledged, until the process is killed.
///
/// # Errors
/// When a commit is refused.
pub fn commit_until_killed(store: &dyn Store) -> Verdict {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || commit_for_ever(store, number as u128)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let panicked = |_| Err(Broken("a thread panicked".into()));
            thread.join().unwrap_or_else(panicked)
        })
    })
}

fn commit_for_ever(store: &dyn Store, number: u128) -> Verdict {
    let mut next = create(number, 1);
    if let Some(head) = store.head(next.execution)? {
        next.head = head;
        next = follow(&next, 1);
    }
    loop {
        let version = next.head.version;
        next.snapshot = version
            .is_multiple_of(64)
            .then(|| version.to_be_bytes().to_vec());
        next.head.wake = Some(at(version));
        store.commit(next.clone()).wait()?;
        io::stdout().write_all(format!("ack {number} {version};\n").as_bytes())?;
        next = follow(&next, 1 + u32::try_from(version % 3).unwrap_or(0));
    }
}

/// That whatever a child acknowledged before it was killed is there afterwards, and at most one
/// commit of each execution more.
///
/// # Errors
/// When it is not, or the child cannot be started.
pub fn survives(
    home: &mut dyn Home,
    kills: Kills,
    child: impl Fn() -> io::Result<Command>,
) -> Verdict {
    let mut random = SplitMix64::new(kills.seed);
    let mut versions = [0_u64; THREADS];
    for round in 0..kills.rounds {
        let kill_at = 1 + random.below(kills.acknowledged_max);
        kill_after(&mut child()?, kill_at, &mut versions)?;
        let store = home.open();
        for (number, version) in versions.iter_mut().enumerate() {
            *version = check(&*store, number as u128, *version)
                .map_err(|broken| Broken(format!("round {round}, execution {number}: {broken}")))?;
        }
        store.close();
    }
    Ok(())
}

/// Kills the child after so many acknowledgements, and notes them all.
fn kill_after(child: &mut Command, kill_at: u64, versions: &mut [u64]) -> Verdict {
    let mut child = child.spawn()?;
    let output = child.stdout.take();
    let output = output.ok_or_else(|| Broken("the child has no output".into()))?;
    let mut seen = 0;
    for line in BufReader::new(output).lines() {
        let Some((number, version)) = acknowledged(&line?) else {
            continue;
        };
        if let Some(newest) = versions.get_mut(number) {
            same("versions only grow", version > *newest, true)?;
            *newest = version;
        }
        seen += 1;
        if seen == kill_at {
            // What is still in the pipe was acknowledged too: reading goes on to its end.
            child.kill()?;
        }
    }
    child.wait()?;
    same("the child lived until it was killed", seen >= kill_at, true)
}

/// The execution and version that a line acknowledges, unless the kill tore it.
fn acknowledged(line: &str) -> Option<(usize, u64)> {
    let (_, rest) = line.split_once("ack ")?;
    let (number, version) = rest.strip_suffix(';')?.split_once(' ')?;
    Some((number.parse().ok()?, version.parse().ok()?))
}

/// Compares an execution with the version last acknowledged; gives the one that is there.
fn check(store: &dyn Store, number: u128, acknowledged: u64) -> Result<u64, Broken> {
    let Some(stored) = store.load(create(number, 1).execution)? else {
        same("it is not there, so its version is", acknowledged, 0)?;
        return Ok(0);
    };
    let version = stored.head.version;
    // At most the one commit that was under way is there beyond what was acknowledged.
    if !(acknowledged..=acknowledged + 3).contains(&version) {
        return Err(Broken(format!(
            "version {acknowledged} was acknowledged, {version} is there"
        )));
    }
    same("its wake", stored.head.wake, Some(at(version)))?;
    let count = u32::try_from(version).map_err(|error| Broken(error.to_string()))?;
    let expected = create(number, count);
    let runs = store.records(expected.execution, 0, usize::MAX)?;
    let bytes: Vec<u8> = runs.into_iter().flat_map(|run| run.bytes).collect();
    same("its records", bytes, expected.records.bytes)?;
    Ok(version)
}
