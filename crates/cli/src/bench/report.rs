//! What a measurement found out.

use crate::{
    bench::{limit::Limit, probe::Probe, stand::Reading},
    output::{Report, bytes},
};
use serde::Serialize;

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Parameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) map: Option<bool>,
    pub(crate) concurrency: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cold: Option<bool>,
    pub(crate) prefill: u32,
}

/// Every figure; those that a workload does not have are null.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) workload: &'static str,
    pub(crate) version: &'static str,
    pub(crate) parameters: Parameters,
    pub(crate) seconds: f64,
    pub(crate) executions: u64,
    pub(crate) steps: u64,
    pub(crate) commits: u64,
    pub(crate) bytes_per_commit: u64,
    pub(crate) executions_per_second: Option<f64>,
    /// Acknowledged, whether or not their executions have come any further.
    pub(crate) starts_per_second: Option<f64>,
    pub(crate) steps_per_second: Option<f64>,
    pub(crate) commits_per_second: Option<f64>,
    /// Of an execution: from its start to its end, or what the workload measures instead.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// From a start to its acknowledgement.
    pub(crate) p50_start_ms: Option<f64>,
    pub(crate) p99_start_ms: Option<f64>,
    pub(crate) p50_step_ms: Option<f64>,
    pub(crate) p99_step_ms: Option<f64>,
    /// From the time a timer was due to the code after it.
    pub(crate) p50_late_ms: Option<f64>,
    pub(crate) p99_late_ms: Option<f64>,
    /// Executions of another function before and while a herd runs, and their times before it; the
    /// times while it runs are [`p50_ms`](Self::p50_ms) and [`p99_ms`](Self::p99_ms).
    pub(crate) others_before: Option<u64>,
    pub(crate) others: Option<u64>,
    pub(crate) p50_before_ms: Option<f64>,
    pub(crate) p99_before_ms: Option<f64>,
    /// From the time a herd was due to the last of it.
    pub(crate) drain_ms: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) cpu_seconds_per_1000_steps: Option<f64>,
    pub(crate) cpu_seconds_per_1000_executions: Option<f64>,
    pub(crate) rss_bytes_start: Option<u64>,
    /// At the end.
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) rss_bytes_per_sleeper: Option<f64>,
    pub(crate) disk_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) fsyncs: u64,
    pub(crate) index_lag_bytes_start: u64,
    pub(crate) index_lag_bytes_end: u64,
    /// Bare appends of as many bytes, each synced by its own committer, mean of before and after.
    pub(crate) commit_limit_per_second: Option<f64>,
    /// The same behind one writer that syncs them in groups.
    pub(crate) group_limit_per_second: Option<f64>,
    /// One append and its sync while that was measured.
    pub(crate) bare_sync_p50_ms: Option<f64>,
    pub(crate) ratio_to_limit: Option<f64>,
    pub(crate) ratio_to_group_limit: Option<f64>,
    /// From the last start to the moment when nothing ran any more.
    pub(crate) rest_ms: Option<f64>,
    /// From opening the folder again to the acknowledgement of a first start.
    pub(crate) restart_ms: Option<f64>,
    /// Executions that were there before the restart and not after it, or never ended.
    pub(crate) lost: Option<u64>,
}

impl Figures {
    /// What was done between two readings.
    pub(crate) fn between(first: &Reading, last: &Reading) -> Self {
        let seconds = (last.at - first.at).as_secs_f64();
        let cpu = last.cpu.zip(first.cpu);
        let cpu_seconds = cpu.map(|(last, first)| last.saturating_sub(first).as_secs_f64());
        let executions = last.executions - first.executions;
        let steps = last.steps - first.steps;
        let commits = last.commits - first.commits;
        let commit_bytes = last.commit_bytes - first.commit_bytes;
        let per_1000 = |count: u64| {
            let cpu_seconds = cpu_seconds.filter(|_| count > 0)?;
            Some(cpu_seconds * 1_000.0 / count as f64)
        };
        let rate = |count: u64| (count > 0).then(|| count as f64 / seconds);
        Self {
            seconds,
            executions,
            steps,
            commits,
            bytes_per_commit: commit_bytes.checked_div(commits).unwrap_or_default(),
            executions_per_second: rate(executions),
            steps_per_second: rate(steps),
            commits_per_second: rate(commits),
            cpu_seconds,
            cpu_seconds_per_1000_steps: per_1000(steps),
            cpu_seconds_per_1000_executions: per_1000(executions),
            rss_bytes_start: first.rss_bytes,
            rss_bytes: last.rss_bytes,
            disk_bytes: last.store.disk_bytes,
            written_bytes: last
                .store
                .written_bytes
                .saturating_sub(first.store.written_bytes),
            fsyncs: last.store.syncs.saturating_sub(first.store.syncs),
            index_lag_bytes_start: first.store.index_lag_bytes,
            index_lag_bytes_end: last.store.index_lag_bytes,
            ..Self::default()
        }
    }

    /// Adds the times that were noted.
    pub(crate) fn with_times(self, probe: &Probe) -> Self {
        Self {
            p50_ms: probe.execution_times.percentile_ms(50),
            p99_ms: probe.execution_times.percentile_ms(99),
            p50_start_ms: probe.start_times.percentile_ms(50),
            p99_start_ms: probe.start_times.percentile_ms(99),
            p50_step_ms: probe.step_times.percentile_ms(50),
            p99_step_ms: probe.step_times.percentile_ms(99),
            p50_late_ms: probe.late_times.percentile_ms(50),
            p99_late_ms: probe.late_times.percentile_ms(99),
            ..self
        }
    }

    /// Adds the disk's own limit, and the share of it that `per_second` is.
    pub(crate) fn with_limits(self, limits: [Limit; 2], per_second: Option<f64>) -> Self {
        let [before, after] = limits;
        let limit = f64::midpoint(before.commits_per_second, after.commits_per_second);
        let grouped = f64::midpoint(before.grouped_per_second, after.grouped_per_second);
        let share = |of: f64| per_second.filter(|_| of > 0.0).map(|rate| rate / of);
        Self {
            commit_limit_per_second: Some(limit),
            group_limit_per_second: Some(grouped),
            bare_sync_p50_ms: Some(f64::midpoint(before.sync_p50_ms, after.sync_p50_ms)),
            ratio_to_limit: share(limit),
            ratio_to_group_limit: share(grouped),
            ..self
        }
    }
}

impl Report for Figures {
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Rows::default();
        rows.text("workload", self.workload.to_owned());
        rows.number("executions/s", self.executions_per_second, 1);
        rows.number("starts/s", self.starts_per_second, 1);
        rows.number("steps/s", self.steps_per_second, 1);
        rows.number("commits/s", self.commits_per_second, 1);
        rows.number(
            "the disk's own limit, commits/s",
            self.commit_limit_per_second,
            1,
        );
        rows.number("ratio to that limit", self.ratio_to_limit, 3);
        rows.number(
            "with one writer for all, commits/s",
            self.group_limit_per_second,
            1,
        );
        rows.number("ratio to that one", self.ratio_to_group_limit, 3);
        rows.number("a bare append and sync, p50 ms", self.bare_sync_p50_ms, 3);
        if let Some((before, during)) = self.others_before.zip(self.others) {
            rows.text("others before the herd", before.to_string());
            rows.text("others while it ran", during.to_string());
        }
        rows.number("before the herd, p50 ms", self.p50_before_ms, 3);
        rows.number("before the herd, p99 ms", self.p99_before_ms, 3);
        rows.number("p50 ms", self.p50_ms, 3);
        rows.number("p99 ms", self.p99_ms, 3);
        rows.number("start, p50 ms", self.p50_start_ms, 3);
        rows.number("start, p99 ms", self.p99_start_ms, 3);
        rows.number("step, p50 ms", self.p50_step_ms, 3);
        rows.number("step, p99 ms", self.p99_step_ms, 3);
        rows.number("late, p50 ms", self.p50_late_ms, 3);
        rows.number("late, p99 ms", self.p99_late_ms, 3);
        rows.number(
            "CPU seconds per 1,000 steps",
            self.cpu_seconds_per_1000_steps,
            4,
        );
        rows.number(
            "CPU seconds per 1,000 executions",
            self.cpu_seconds_per_1000_executions,
            4,
        );
        rows.bytes("memory at the start", self.rss_bytes_start);
        rows.bytes("memory at the end", self.rss_bytes);
        rows.number("memory per sleeper, bytes", self.rss_bytes_per_sleeper, 0);
        rows.bytes("on disk", Some(self.disk_bytes));
        rows.bytes("written", Some(self.written_bytes));
        rows.text("fsyncs", self.fsyncs.to_string());
        rows.text("bytes per commit", self.bytes_per_commit.to_string());
        rows.bytes(
            "not yet indexed at the start",
            Some(self.index_lag_bytes_start),
        );
        rows.bytes("not yet indexed at the end", Some(self.index_lag_bytes_end));
        rows.number("from due to the last of the herd, ms", self.drain_ms, 1);
        rows.number("to rest, ms", self.rest_ms, 1);
        rows.number("restart, ms", self.restart_ms, 1);
        if let Some(lost) = self.lost {
            rows.text("lost", lost.to_string());
        }
        rows.0
    }
}

#[derive(Default)]
struct Rows(Vec<(String, String)>);

impl Rows {
    fn text(&mut self, what: &str, value: String) {
        self.0.push((what.to_owned(), value));
    }

    fn number(&mut self, what: &str, value: Option<f64>, digits: usize) {
        if let Some(value) = value {
            self.text(what, format!("{value:.digits$}"));
        }
    }

    fn bytes(&mut self, what: &str, count: Option<u64>) {
        if let Some(count) = count {
            self.text(what, bytes(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_engine::store::Status;
    use std::time::Duration;
    use tokio::time::Instant;

    fn reading(at: Instant, count: u64) -> Reading {
        Reading {
            at: at + Duration::from_secs(count),
            cpu: Some(Duration::from_millis(count * 500)),
            rss_bytes: Some(count),
            store: Status {
                written_bytes: count * 1_000,
                syncs: count * 10,
                index_lag_bytes: count,
                disk_bytes: count,
                ..Status::default()
            },
            commits: count * 20,
            commit_bytes: count * 20 * 100,
            executions: count * 5,
            steps: count * 15,
        }
    }

    #[test]
    fn figures_are_differences_per_second_and_per_piece() {
        let now = Instant::now();
        let figures = Figures::between(&reading(now, 2), &reading(now, 4));
        assert_eq!((figures.executions, figures.steps), (10, 30));
        assert_eq!(figures.executions_per_second, Some(5.0));
        assert_eq!(figures.steps_per_second, Some(15.0));
        assert_eq!((figures.commits, figures.bytes_per_commit), (40, 100));
        let per_step = figures.cpu_seconds_per_1000_steps.unwrap();
        assert!((per_step - 1_000.0 / 30.0).abs() < 1e-9);
        assert_eq!((figures.written_bytes, figures.fsyncs), (2_000, 20));
        assert_eq!(
            (figures.index_lag_bytes_start, figures.index_lag_bytes_end),
            (2, 4)
        );
        assert_eq!(
            (figures.rss_bytes_start, figures.rss_bytes),
            (Some(2), Some(4))
        );
    }

    #[test]
    fn nothing_done_gives_no_rates_and_a_reopened_store_no_negative_counts() {
        let now = Instant::now();
        let (mut first, last) = (reading(now, 3), reading(now, 3));
        first.store.syncs = 1_000;
        let figures = Figures::between(&first, &last);
        assert_eq!(figures.executions_per_second, None);
        assert_eq!(figures.cpu_seconds_per_1000_steps, None);
        assert_eq!((figures.fsyncs, figures.bytes_per_commit), (0, 0));
    }

    #[test]
    fn the_limit_is_the_mean_and_the_ratio_its_share() {
        let limit = |commits_per_second| Limit {
            commits_per_second,
            grouped_per_second: 4.0 * commits_per_second,
            sync_p50_ms: 1.0,
        };
        let figures = Figures::default().with_limits([limit(100.0), limit(300.0)], Some(50.0));
        assert_eq!(figures.commit_limit_per_second, Some(200.0));
        assert_eq!(figures.ratio_to_limit, Some(0.25));
        assert_eq!(figures.group_limit_per_second, Some(800.0));
        assert_eq!(figures.ratio_to_group_limit, Some(0.0625));
        let none = Figures::default().with_limits([limit(0.0), limit(0.0)], Some(50.0));
        assert_eq!(none.ratio_to_limit, None);
    }
}
