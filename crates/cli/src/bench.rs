//! `outlast bench`: measures the embedded engine, and the disk it stands on in the same run.
//!
//! Every workload goes the same way: the folder is filled, the program warms up, the disk is
//! measured, then the engine, then the disk again. Clients wait for one execution before they start
//! the next, so nothing hides in a backlog. No figure is judged here.

mod clients;
mod counted;
mod folder;
mod functions;
mod herd;
mod histogram;
mod limit;
mod probe;
mod process;
mod report;
mod resume;
mod sleepers;
mod stand;

use crate::{
    arguments::{Bench, Place, Workload},
    bench::{
        clients::{Clients, Load},
        folder::Folder,
        functions::{FANOUT, MAP, NOTHING, SEQUENTIAL},
        limit::{Commits, Limit},
        report::{Figures, Parameters},
        stand::Stand,
    },
    output::{Output, Verdict},
};
use anyhow::Context;
use indicatif::ProgressBar;
use std::{path::Path, time::Duration};

/// How long the program warms up, and how long the disk is measured each time.
const PREPARATION: Duration = Duration::from_secs(1);
/// How long clients work before the first reading.
const RAMP: Duration = Duration::from_secs(1);
/// Steps of an execution that only warms up: it must be over when the disk is measured.
const WARM_STEPS_MAX: u32 = 100;

/// Measures and reports.
///
/// # Errors
/// When something fails that is measured.
pub(crate) fn run(bench: Bench, output: &Output) -> anyhow::Result<Verdict> {
    let folder = Folder::choose(place(&bench.workload).data.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .context("the program cannot start its threads")?;
    let measured = measure(&bench.workload, folder.path(), *output);
    let figures = runtime.block_on(Box::pin(measured))?;
    output.report(&figures)?;
    match figures.lost {
        Some(lost) if lost > 0 => Ok(Verdict::Bad),
        _ => Ok(Verdict::Good),
    }
}

async fn measure(workload: &Workload, folder: &Path, output: Output) -> anyhow::Result<Figures> {
    let stand = Stand::open(folder, output).await?;
    stand.prefill(place(workload).prefill.into()).await?;
    let bytes = warm_up(&stand, load(workload)).await?;
    stand.settle().await;
    let parameters = parameters(workload);
    let commits = Commits {
        bytes,
        concurrency: parameters.concurrency,
        period: PREPARATION,
    };
    let before: Limit = limit::measure(folder, commits).await?;
    stand.probe.forget_times();
    let (stand, figures) = match workload {
        Workload::Sequential(_) | Workload::Fanout(_) | Workload::Start(_) => {
            let seconds = parameters.seconds.unwrap_or_default();
            let figures = work(&stand, load(workload), seconds).await?;
            (stand, figures)
        }
        Workload::Sleepers(sleepers) => sleepers::measure(stand, sleepers).await?,
        Workload::Herd(herd) => {
            let figures = herd::measure(&stand, herd).await?;
            (stand, figures)
        }
        Workload::Resume(resume) => resume::measure(stand, resume).await?,
    };
    stand.close().await;
    let after = limit::measure(folder, commits).await?;
    let per_second = durable_per_second(workload, &figures);
    Ok(Figures {
        workload: name(workload),
        version: env!("CARGO_PKG_VERSION"),
        parameters,
        ..figures.with_limits([before, after], per_second)
    })
}

/// Lets caches fill and threads start. Gives the mean size of a commit.
async fn warm_up(stand: &Stand, load: Load) -> anyhow::Result<usize> {
    let load = Load {
        input: load.input.min(WARM_STEPS_MAX),
        ..load
    };
    let bar = stand.output.progress("warming up", PREPARATION.as_secs());
    let first = stand.read();
    let mut clients = Clients::begin(stand, load);
    clients.work(PREPARATION, &bar).await?;
    clients.stop().await?;
    let bytes = Figures::between(&first, &stand.read()).bytes_per_commit;
    usize::try_from(bytes).context("a commit is larger than memory")
}

/// Clients in a closed loop, for so many seconds.
async fn work(stand: &Stand, load: Load, seconds: u32) -> anyhow::Result<Figures> {
    let period = Duration::from_secs(seconds.into());
    let bar = stand.output.progress("measuring", period.as_secs());
    let mut clients = Clients::begin(stand, load);
    // So that memory and index lag at the start are those of an engine at work, as at the end.
    clients.work(RAMP, &ProgressBar::hidden()).await?;
    stand.probe.forget_times();
    let first = stand.read();
    clients.work(period, &bar).await?;
    let figures = Figures::between(&first, &stand.read()).with_times(&stand.probe);
    clients.stop().await?;
    Ok(figures)
}

/// What is done over and over: by the workload itself, or to warm up for it.
fn load(workload: &Workload) -> Load {
    let (function, input, concurrency) = match workload {
        Workload::Sequential(asked) => (SEQUENTIAL, asked.steps, asked.concurrency),
        Workload::Fanout(asked) if asked.map => (MAP, asked.steps, 1),
        Workload::Fanout(asked) => (FANOUT, asked.steps, 1),
        Workload::Sleepers(asked) => (NOTHING, 0, asked.concurrency),
        Workload::Herd(asked) => (SEQUENTIAL, herd::OTHER_STEPS, asked.concurrency),
        Workload::Resume(asked) => (SEQUENTIAL, asked.steps, asked.concurrency),
        Workload::Start(asked) => (NOTHING, 0, asked.concurrency),
    };
    Load {
        concurrency,
        function,
        input,
        count: None,
        until_end: true,
    }
}

/// What is compared with the disk's commits: what a client gets acknowledged.
fn durable_per_second(workload: &Workload, figures: &Figures) -> Option<f64> {
    match workload {
        Workload::Sequential(_) => figures.steps_per_second,
        Workload::Sleepers(_) | Workload::Start(_) => figures.executions_per_second,
        // Many steps share a commit here.
        Workload::Fanout(_) | Workload::Herd(_) | Workload::Resume(_) => figures.commits_per_second,
    }
}

fn name(workload: &Workload) -> &'static str {
    match workload {
        Workload::Sequential(_) => "sequential",
        Workload::Fanout(_) => "fanout",
        Workload::Sleepers(_) => "sleepers",
        Workload::Herd(_) => "herd",
        Workload::Resume(_) => "resume",
        Workload::Start(_) => "start",
    }
}

fn place(workload: &Workload) -> &Place {
    match workload {
        Workload::Sequential(asked) => &asked.place,
        Workload::Fanout(asked) => &asked.place,
        Workload::Sleepers(asked) => &asked.place,
        Workload::Herd(asked) => &asked.place,
        Workload::Resume(asked) => &asked.place,
        Workload::Start(asked) => &asked.place,
    }
}

fn parameters(workload: &Workload) -> Parameters {
    let shared = Parameters {
        concurrency: 1,
        prefill: place(workload).prefill,
        ..Parameters::default()
    };
    match workload {
        Workload::Sequential(asked) => Parameters {
            steps: Some(asked.steps),
            concurrency: asked.concurrency,
            seconds: Some(asked.seconds),
            ..shared
        },
        Workload::Fanout(asked) => Parameters {
            steps: Some(asked.steps),
            map: Some(asked.map),
            seconds: Some(asked.seconds),
            ..shared
        },
        Workload::Sleepers(asked) => Parameters {
            count: Some(asked.count),
            concurrency: asked.concurrency,
            ..shared
        },
        Workload::Herd(asked) => Parameters {
            count: Some(asked.count),
            concurrency: asked.concurrency,
            seconds: Some(asked.seconds),
            wait_seconds: Some(herd::wait_seconds(asked)),
            ..shared
        },
        Workload::Resume(asked) => Parameters {
            steps: Some(asked.steps),
            concurrency: asked.concurrency,
            seconds: Some(asked.seconds),
            wait_seconds: Some(asked.wait_seconds),
            cold: Some(asked.cold),
            ..shared
        },
        Workload::Start(asked) => Parameters {
            concurrency: asked.concurrency,
            seconds: Some(asked.seconds),
            ..shared
        },
    }
}
