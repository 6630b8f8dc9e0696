//! What a seed decides before anything runs: the programs, the crashes, the jumps of the clock.

use crate::{
    evaluate::{Expected, evaluate},
    model::{Program, Scripted},
    play::Player,
};
use outlast::{Config, core::random::SplitMix64};
use std::{sync::Arc, time::Duration};

/// Operations of the largest programs.
const SIZE_MAX: u64 = 20;
/// Executions of a run, at most.
const RUNS_MAX: u64 = 6;
/// Fewest records between two snapshots, and how many more it may be: executions here have tens to
/// hundreds of records.
const SNAPSHOT_RECORDS_MIN: u64 = 3;
const SNAPSHOT_RECORDS_SPREAD: u64 = 48;
/// How far the clock may jump ahead in a whole run: callbacks of the programs live for 1,000
/// seconds without a heartbeat, and none of them may time out unless its program says so.
const AHEAD_MS_MAX: u64 = 400_000;
/// How far the clock may jump back at a boot.
const BACK_MS_MAX: u64 = 3_600_000;

/// One in so many seeds has a clock that jumps by months and years.
const YEARS_EVERY: u64 = 200;
/// How far its clock may jump ahead: nothing may be deleted that somebody asks for later.
const YEARS_AHEAD_MS_MAX: u64 = 80 * 86_400_000;
/// How far it may jump back.
const YEARS_BACK_MS_MAX: u64 = 365 * 86_400_000;

/// A whole run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whether the clock jumps by months and years.
    pub(crate) years: bool,
    /// What is executed.
    pub(crate) runs: Vec<Run>,
    /// How every boot but the last one ends.
    pub(crate) ends: Vec<BootEnd>,
    /// How long faults go on in the last boot, in milliseconds.
    pub(crate) tail_ms: u64,
    /// One in how many chances to go wrong is taken.
    pub(crate) calmness: u64,
    /// The engine's slots.
    pub(crate) invocations_max: usize,
    /// How many invocations of the engine may begin at once.
    pub(crate) beginning_max: usize,
    /// The engine's waiting room.
    pub(crate) ready_max: usize,
    /// The engine's cache.
    pub(crate) resting_max: usize,
    /// Records between two snapshots of an execution, at least.
    pub(crate) snapshot_records: u64,
    /// Slots of the program's function.
    pub(crate) concurrency_max: usize,
    /// Bytes on a page of state.
    pub(crate) page_bytes_max: usize,
}

/// One execution of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// The program.
    pub(crate) program: Arc<Program>,
    /// What it must come to.
    pub(crate) expected: Expected,
    /// Performs it.
    pub(crate) player: Player,
    /// When it is started, in milliseconds of true time.
    pub(crate) start_at: u64,
    /// When somebody stops it.
    pub(crate) stop_at: Option<u64>,
    /// Whether its function gives it little time.
    pub(crate) brief: bool,
    /// Options of its handler.
    pub(crate) config: Config,
}

/// How a boot ends, and what the clock does before the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootEnd {
    /// How.
    pub(crate) how: How,
    /// How far the wall clock jumps, in milliseconds.
    pub(crate) jump_ms: i64,
}

/// How a boot ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Power cut after so many milliseconds.
    After(u64),
    /// Power cut at a commit: just before it is durable, or just after.
    AtCommit(u64, bool),
    /// A sync fails at a commit.
    Poison(u64),
    /// A clean end after so many milliseconds.
    ShutDown(u64),
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5eed_0f51);
        let runs = 1 + random.below(RUNS_MAX);
        let years = seed % YEARS_EVERY == YEARS_EVERY - 1;
        let runs: Vec<Run> = (0..runs).map(|_| Run::draw(&mut random, years)).collect();
        let boots = if years { 2 } else { random.below(6) };
        let mut left = if years {
            YEARS_AHEAD_MS_MAX
        } else {
            AHEAD_MS_MAX
        };
        let back = if years {
            YEARS_BACK_MS_MAX
        } else {
            BACK_MS_MAX
        };
        let ends = (0..boots)
            .map(|_| BootEnd::draw(&mut random, &mut left, back))
            .collect();
        let narrow = |number: u64| usize::try_from(number).unwrap_or(1);
        Self {
            years,
            runs,
            ends,
            tail_ms: random.below(60_000),
            calmness: pick(&mut random, &[4, 10, 30, 1_000_000]),
            invocations_max: narrow(pick(&mut random, &[1, 2, 8, 1_024])),
            beginning_max: narrow(pick(&mut random, &[1, 2, 64])),
            ready_max: narrow(pick(&mut random, &[1, 2, 1_024])),
            // Most of what rests is thrown out and folded again from a snapshot and a tail.
            resting_max: narrow(pick(&mut random, &[0, 0, 1, 3, 1_024])),
            snapshot_records: SNAPSHOT_RECORDS_MIN + random.below(SNAPSHOT_RECORDS_SPREAD),
            concurrency_max: narrow(pick(&mut random, &[1, 2, 1_024])),
            page_bytes_max: narrow(pick(&mut random, &[400, 2_000, 1_000_000])),
        }
    }
}

impl Run {
    fn draw(random: &mut SplitMix64, years: bool) -> Self {
        let mut program = Self::program(random);
        while years && !is_timeless(&program) {
            program = Self::program(random);
        }
        let config = Config::new()
            .checkpoint_delay(Duration::from_millis(pick(random, &[0, 0, 3])))
            .linger(Duration::from_millis(pick(random, &[0, 5, 20, 500])))
            .keep_alive(Duration::from_secs(pick(random, &[0, 0, 2, 1_000])));
        Self {
            expected: evaluate(&program),
            program: Arc::new(program),
            player: Player::new(random.next_u64()),
            start_at: random.below(3_000),
            stop_at: (random.below(6) == 0).then(|| random.below(60_000)),
            brief: random.below(6) == 0,
            config,
        }
    }

    fn program(random: &mut SplitMix64) -> Program {
        let size = 1 + random.below(SIZE_MAX);
        Program::draw(random.next_u64(), size)
    }
}

/// One of some choices.
fn pick(random: &mut SplitMix64, choices: &[u64]) -> u64 {
    let at = usize::try_from(random.below(choices.len() as u64)).unwrap_or(0);
    choices.get(at).copied().unwrap_or_default()
}

/// Whether a program comes to the same however much time passes: nothing in it is answered from
/// outside within a time limit, or counts on never completing.
fn is_timeless(program: &Program) -> bool {
    let answered = |scripted: &Scripted| matches!(scripted, Scripted::Callback(..));
    !program.script.iter().any(answered) && !format!("{:?}", program.root).contains("Never(")
}

impl BootEnd {
    fn draw(random: &mut SplitMix64, left: &mut u64, back: u64) -> Self {
        // Moments are spread over orders of magnitude: most of what can go wrong does so early.
        let scale = pick(random, &[5, 50, 500, 5_000, 60_000]);
        let moment = random.below(scale);
        let commit = 1 + random.below(60);
        let how = match random.below(10) {
            0..=3 => How::After(moment),
            4..=5 => How::AtCommit(commit, false),
            6..=7 => How::AtCommit(commit, true),
            8 => How::Poison(commit),
            _ => How::ShutDown(moment),
        };
        let forth = random.below(*left);
        let jump_ms = match random.below(4) {
            0 => {
                *left -= forth;
                forth.cast_signed()
            }
            1 => -random.below(back).cast_signed(),
            _ => random.below(100).cast_signed(),
        };
        Self { how, jump_ms }
    }
}
