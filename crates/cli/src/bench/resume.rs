//! A history of steps, then a timer: how late the code after it runs, and when all is done.

use crate::{
    arguments::Resume,
    bench::{
        functions::{History, RESUME},
        probe::Probe,
        report::Figures,
        stand::Stand,
    },
};
use anyhow::{Context, ensure};
use serde::de::IgnoredAny;
use std::time::Duration;
use tokio::{task::JoinSet, time::Instant};

/// Measures in rounds: all executions get to their timer, then all go on.
///
/// # Errors
/// When an execution fails, or the folder cannot be opened again in time.
pub(crate) async fn measure(mut stand: Stand, resume: &Resume) -> anyhow::Result<(Stand, Figures)> {
    let period = Duration::from_secs(resume.seconds.into());
    let bar = stand.output.progress("measuring", period.as_secs());
    let first = stand.read().await?;
    let mut rounds = 0;
    // A round is measured whole or not at all.
    while rounds == 0 || first.at.elapsed() < period {
        stand = round(stand, resume, rounds).await?;
        rounds += 1;
        bar.set_position(first.at.elapsed().as_secs());
    }
    bar.finish_and_clear();
    let figures = Figures::between(&first, &stand.read().await?).with_times(&stand.probe);
    let figures = Figures {
        // Most of the time nothing happens, by intention: a rate says nothing.
        executions_per_second: None,
        steps_per_second: None,
        commits_per_second: None,
        ..figures
    };
    Ok((stand, figures))
}

async fn round(mut stand: Stand, resume: &Resume, round: u64) -> anyhow::Result<Stand> {
    let concurrency = u64::from(resume.concurrency);
    let numbers = round * concurrency..(round + 1) * concurrency;
    let mut arns = Vec::new();
    for number in numbers.clone() {
        let history = History {
            number,
            steps: resume.steps,
            wait_seconds: resume.wait_seconds,
        };
        let execution = stand.client().start(RESUME, &history).await?;
        arns.push((number, execution.arn().to_owned()));
    }
    if resume.cold {
        stand.rest(Probe::waits, numbers.end).await?;
        (stand, _) = stand.reopen().await?;
        let open = numbers.into_iter().all(|number| {
            let due = stand.probe.due_time(number);
            due.is_some_and(|due| due > Instant::now())
        });
        ensure!(
            open,
            "the folder was not open again when the timer was due; give --wait-seconds more"
        );
    }
    let mut ends = JoinSet::new();
    for (number, arn) in arns {
        let execution = stand.client().execution(&arn)?;
        let probe = stand.probe.clone();
        ends.spawn(async move {
            execution.result::<IgnoredAny>().await?;
            let due = probe.due_time(number);
            let late = due
                .context("an execution ended without its wait")?
                .elapsed();
            probe.execution_done(late);
            anyhow::Ok(())
        });
    }
    while let Some(ended) = ends.join_next().await {
        ended??;
    }
    Ok(stand)
}
