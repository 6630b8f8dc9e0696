//! A whole engine in a simulated world: real handlers of random programs on one thread, with a
//! clock, a disk and a host that fail in every way a seed can think of.
//!
//! `--seed S` runs one seed and `--seeds A..B` many; `--verbose` shows what happened. The same seed
//! gives the same run. It checks the engine and the SDK together; what a store does to a real disk
//! is tested elsewhere.

mod disk;
#[path = "../../../sdk/tests/programs/evaluate.rs"]
#[expect(
    dead_code,
    reason = "the SDK's own test of these programs checks more of them"
)]
mod evaluate;
mod host;
#[path = "../../../sdk/tests/programs/model.rs"]
#[expect(
    dead_code,
    reason = "the SDK's own test of these programs checks more of them"
)]
mod model;
mod outside;
mod plan;
#[path = "../../../sdk/tests/programs/play.rs"]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared with the SDK's tests, where that is allowed"
)]
mod play;
mod run;
mod shadow;
mod verdict;
mod world;

use run::{Report, run};
use std::{
    collections::BTreeMap,
    io::Write as _,
    ops::Range,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Lines of the trace that are shown when a run fails.
const SHOWN_LINES: usize = 60;

struct Arguments {
    seeds: Range<u64>,
    verbose: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut seeds = 0..200;
    let mut verbose = false;
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let number = |text: Option<String>| {
            let text = text.ok_or(format!("{argument} needs a value"))?;
            Ok::<_, String>(text)
        };
        let parse = |text: &str| {
            text.parse::<u64>()
                .map_err(|error| format!("{text}: {error}"))
        };
        match argument.as_str() {
            "--seed" => {
                let seed = parse(&number(given.next())?)?;
                seeds = seed..seed + 1;
            }
            "--seeds" => {
                let text = number(given.next())?;
                let (from, to) = text.split_once("..").ok_or("--seeds wants A..B")?;
                seeds = parse(from)?..parse(to)?;
            }
            "--verbose" => verbose = true,
            _ => {
                return Err(format!(
                    "{argument} is not known: --seed S, --seeds A..B, --verbose"
                ));
            }
        }
    }
    Ok(Arguments { seeds, verbose })
}

/// Runs a seed twice: the second run must be the first one again.
fn run_twice(seed: u64) -> Report {
    let mut first = run(seed);
    let second = run(seed);
    if first.violation.is_none() && first.digest != second.digest {
        let different = first
            .trace
            .iter()
            .zip(&second.trace)
            .find(|(one, other)| one != other);
        first.violation = Some(format!("two runs of a seed differ: {different:?}"));
    }
    first
}

/// What a failed run says for itself.
fn complaint(seed: u64, report: &Report, verbose: bool) -> String {
    let skipped = if verbose {
        0
    } else {
        report.trace.len().saturating_sub(SHOWN_LINES)
    };
    let lines = report.trace.get(skipped..).unwrap_or_default();
    format!(
        "{}\nseed {seed}: {}\nrun it again: cargo run --release -p outlast-engine --example sim -- --seed {seed}\n",
        lines.join("\n"),
        report.violation.as_deref().unwrap_or("no violation"),
    )
}

/// Runs seeds on every core; gives the sums, or the first complaint.
fn run_all(seeds: Range<u64>, twice: bool) -> Result<BTreeMap<&'static str, u64>, String> {
    let next = AtomicU64::new(seeds.start);
    let sums = Mutex::new(BTreeMap::new());
    let failure: Mutex<Option<(u64, String)>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let failed = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if seed >= seeds.end || failed.is_some() {
                        return;
                    }
                    drop(failed);
                    let report = if twice { run_twice(seed) } else { run(seed) };
                    if report.violation.is_some() {
                        let told = complaint(seed, &report, false);
                        let mut failed = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert((seed, told));
                        return;
                    }
                    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                    *sums.entry("runs").or_insert(0) += 1;
                    *sums.entry("trace lines").or_insert(0) += report.trace.len() as u64;
                    for (what, count) in report.counts {
                        *sums.entry(what).or_insert(0) += count;
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, told)) => Err(told),
        None => Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            let _ = writeln!(out, "{problem}");
            return ExitCode::from(2);
        }
    };
    let Range { start, end } = arguments.seeds;
    let told = if end == start + 1 {
        let report = run_twice(start);
        let told = complaint(start, &report, arguments.verbose);
        match report.violation {
            Some(_) => Err(told),
            None => Ok(format!(
                "{told}digest {:016x} {:?}",
                report.digest, report.counts
            )),
        }
    } else {
        run_all(start..end, true).map(|sums| format!("{sums:?}"))
    };
    let (text, code) = match told {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(text) => (text, ExitCode::FAILURE),
    };
    let _ = writeln!(out, "{text}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of the gate.
    const SEEDS: u64 = 200;

    #[test]
    fn whatever_fails_nothing_acknowledged_is_lost_and_everything_ends() {
        match run_all(0..SEEDS, true) {
            Ok(sums) => println!("{sums:?}"),
            Err(told) => panic!("{told}"),
        }
    }
}
