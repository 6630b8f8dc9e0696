//! What the server counts, and the text that Prometheus reads. Counting never waits; what others
//! know already (the engine, the hosts) is read when somebody asks.

use crate::{
    host::runtime::Backlog,
    operation::{OPERATIONS, Operation},
};
use outlast_core::arn::Function;
use outlast_engine::{Health, Lane, store::Status};
use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper ends of the buckets of a latency, in microseconds, and as Prometheus writes them.
const BUCKETS: [(u64, &str); 13] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (30_000_000, "30"),
];
/// The statuses that answers have; any other counts as the last.
const STATUSES: [u16; 19] = [
    200, 201, 202, 204, 400, 401, 402, 403, 404, 408, 409, 412, 413, 415, 429, 500, 502, 503, 0,
];

/// Counters of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// One for each operation, and one for requests that are none.
    requests: Vec<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    statuses: [AtomicU64; STATUSES.len()],
    /// Not summed up: each bucket counts what no smaller one does.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// What others know.
pub(crate) struct Known {
    pub(crate) health: Health,
    pub(crate) functions: usize,
    pub(crate) events: usize,
    pub(crate) backlogs: Vec<(Function, Backlog)>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let requests = (0..=OPERATIONS.len()).map(|_| Requests::default());
        Self {
            requests: requests.collect(),
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, operation: Option<Operation>, status: u16, took: Duration) {
        let index = operation.map_or(OPERATIONS.len(), Operation::index);
        let Some(requests) = self.requests.get(index) else {
            return;
        };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let status = STATUSES.iter().position(|known| *known == status);
        let status = status.unwrap_or(STATUSES.len() - 1);
        let bucket = BUCKETS.partition_point(|(end, _)| *end < micros);
        let (status, bucket) = (requests.statuses.get(status), requests.buckets.get(bucket));
        for counter in [status, bucket].into_iter().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        requests.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(&self, known: &Known) -> String {
        let mut text = Text::default();
        self.requests(&mut text);
        engine(&mut text, &known.health);
        executions(&mut text, &known.health);
        store(&mut text, &known.health.store);
        let functions = known.functions;
        text.single(
            "outlast_functions",
            "gauge",
            "Functions there are.",
            functions,
        );
        text.single(
            "outlast_events",
            "gauge",
            "Asynchronous calls of ordinary functions that are not over.",
            known.events,
        );
        backlogs(&mut text, &known.backlogs);
        if let Some(bytes) = resident_bytes() {
            let name = "process_resident_memory_bytes";
            text.single(name, "gauge", "Memory the process holds.", bytes);
        }
        text.0
    }

    fn requests(&self, text: &mut Text) {
        let asked = || {
            let names = OPERATIONS.iter().map(|(_, name, _)| *name);
            names.chain(["unknown"]).zip(&self.requests)
        };
        let name = "outlast_requests_total";
        text.family(
            name,
            "counter",
            "Requests answered, by operation and status.",
        );
        for (operation, requests) in asked() {
            for (status, counter) in STATUSES.iter().zip(&requests.statuses) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = format!("operation=\"{operation}\",status=\"{status}\"");
                    text.sample(name, &labels, count);
                }
            }
        }
        let name = "outlast_request_duration_seconds";
        text.family(
            name,
            "histogram",
            "Time from a request's headers to its answer.",
        );
        for (operation, requests) in asked() {
            let mut sum = 0;
            let ends = BUCKETS.iter().map(|(_, end)| *end).chain(["+Inf"]);
            let counts: Vec<(&str, u64)> = ends
                .zip(&requests.buckets)
                .map(|(end, counter)| {
                    sum += counter.load(Ordering::Relaxed);
                    (end, sum)
                })
                .collect();
            if sum == 0 {
                continue;
            }
            for (end, count) in counts {
                let labels = format!("operation=\"{operation}\",le=\"{end}\"");
                text.sample("outlast_request_duration_seconds_bucket", &labels, count);
            }
            let labels = format!("operation=\"{operation}\"");
            let micros = requests.micros.load(Ordering::Relaxed);
            let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            text.sample("outlast_request_duration_seconds_sum", &labels, seconds);
            text.sample("outlast_request_duration_seconds_count", &labels, sum);
        }
    }
}

fn engine(text: &mut Text, health: &Health) {
    for (name, what, value) in [
        ("executions_loaded", "Executions in memory.", health.loaded),
        ("wakes_loaded", "Wakes in memory.", health.wakes),
        (
            "executions_ready",
            "Executions in memory that wait for an invocation.",
            health.ready,
        ),
        ("invocations", "Invocations in flight.", health.invocations),
        (
            "executions_watched",
            "Executions whose end somebody waits for.",
            health.watched,
        ),
        (
            "intents_carried",
            "Intents being carried out.",
            health.carried,
        ),
        (
            "executions_quarantined",
            "Damaged executions.",
            health.quarantined.len(),
        ),
    ] {
        text.single(&format!("outlast_{name}"), "gauge", what, value);
    }
}

fn executions(text: &mut Text, health: &Health) {
    let totals = &health.totals;
    text.single(
        "outlast_executions_started_total",
        "counter",
        "Executions started.",
        totals.started,
    );
    let name = "outlast_executions_ended_total";
    text.family(name, "counter", "Executions ended, by status.");
    for (status, count) in [
        ("SUCCEEDED", totals.succeeded),
        ("FAILED", totals.failed),
        ("TIMED_OUT", totals.timed_out),
        ("STOPPED", totals.stopped),
    ] {
        text.sample(name, &format!("status=\"{status}\""), count);
    }
    running(text, health);
    let lag = health.wake_lag_ms;
    text.single(
        "outlast_wake_lag_seconds",
        "gauge",
        "How overdue the first execution is that waits to be looked at.",
        format!("{}.{:03}", lag / 1_000, lag % 1_000),
    );
    type Of = fn(&Lane) -> usize;
    let families: [(&str, &str, Of); 2] = [
        (
            "outlast_function_executions_ready",
            "Executions that wait for an invocation, by function and version.",
            |lane| lane.waiting,
        ),
        (
            "outlast_function_invocations",
            "Invocations in flight, by function and version.",
            |lane| lane.invocations,
        ),
    ];
    for (name, what, of) in families {
        text.family(name, "gauge", what);
        for lane in &health.lanes {
            let (function, version) = (escaped(&lane.function), escaped(&lane.version));
            let labels = format!("function=\"{function}\",version=\"{version}\"");
            text.sample(name, &labels, of(lane));
        }
    }
}

/// Left out while it is not known: a dashboard shows a gap, and not a number that is wrong.
fn running(text: &mut Text, health: &Health) {
    let Some(running) = &health.running else {
        return;
    };
    text.single(
        "outlast_executions_running",
        "gauge",
        "Executions that have not ended.",
        running.iter().map(|it| it.executions).sum::<u64>(),
    );
    let name = "outlast_function_executions_running";
    let what = "Executions that have not ended, by function and version.";
    text.family(name, "gauge", what);
    for it in running {
        let (function, version) = (escaped(&it.function), escaped(&it.version));
        let labels = format!("function=\"{function}\",version=\"{version}\"");
        text.sample(name, &labels, it.executions);
    }
}

fn store(text: &mut Text, store: &Status) {
    let (full, poisoned) = (u64::from(store.full), store.poisoned.is_some().into());
    for (name, kind, what, value) in [
        (
            "index_lag_bytes",
            "gauge",
            "Bytes that are durable and not yet indexed.",
            store.index_lag_bytes,
        ),
        (
            "disk_bytes",
            "gauge",
            "Bytes the store takes on disk.",
            store.disk_bytes,
        ),
        (
            "full",
            "gauge",
            "Whether the last commit found the disk full.",
            full,
        ),
        (
            "poisoned",
            "gauge",
            "Whether nothing is acknowledged any more.",
            poisoned,
        ),
        (
            "commits_total",
            "counter",
            "Commits that were handed over.",
            store.commits,
        ),
        (
            "commit_bytes_total",
            "counter",
            "Bytes of those commits.",
            store.commit_bytes,
        ),
        (
            "syncs_total",
            "counter",
            "Syncs that commits waited for.",
            store.syncs,
        ),
        (
            "written_bytes_total",
            "counter",
            "Bytes written to files.",
            store.written_bytes,
        ),
    ] {
        text.single(&format!("outlast_store_{name}"), kind, what, value);
    }
}

fn backlogs(text: &mut Text, backlogs: &[(Function, Backlog)]) {
    type Of = fn(&Backlog) -> usize;
    let families: [(&str, &str, Of); 3] = [
        (
            "outlast_calls_waiting",
            "Calls that wait for a worker.",
            |of| of.waiting,
        ),
        (
            "outlast_calls_assigned",
            "Invocations that a worker has.",
            |of| of.assigned,
        ),
        (
            "outlast_workers",
            "Workers that are known to be there.",
            |of| of.workers,
        ),
    ];
    for (name, what, of) in families {
        text.family(name, "gauge", what);
        for (function, backlog) in backlogs {
            let (function, version) = (escaped(&function.name), escaped(&function.version));
            let labels = format!("function=\"{function}\",version=\"{version}\"");
            text.sample(name, &labels, of(backlog));
        }
    }
}

/// Prometheus' text format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, what: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {what}\n# TYPE {name} {kind}");
    }

    /// A family of one sample.
    fn single(&mut self, name: &str, kind: &str, what: &str, value: impl Display) {
        self.family(name, kind, what);
        self.sample(name, "", value);
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }
}

/// A label's value between its quotes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

/// What the system says the process holds; nothing where it does not say.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_status_and_sorted_into_buckets() {
        let metrics = Metrics::new();
        for micros in [499, 500, 501, 30_000_000, 30_000_001] {
            let took = Duration::from_micros(micros);
            metrics.answered(Some(Operation::Invoke), 200, took);
        }
        metrics.answered(None, 418, Duration::ZERO);
        let mut text = Text::default();
        metrics.requests(&mut text);
        for line in [
            "outlast_requests_total{operation=\"Invoke\",status=\"200\"} 5",
            "outlast_requests_total{operation=\"unknown\",status=\"0\"} 1",
            "outlast_request_duration_seconds_bucket{operation=\"Invoke\",le=\"0.0005\"} 2",
            "outlast_request_duration_seconds_bucket{operation=\"Invoke\",le=\"0.001\"} 3",
            "outlast_request_duration_seconds_bucket{operation=\"Invoke\",le=\"30\"} 4",
            "outlast_request_duration_seconds_bucket{operation=\"Invoke\",le=\"+Inf\"} 5",
            "outlast_request_duration_seconds_sum{operation=\"Invoke\"} 60.001501",
            "outlast_request_duration_seconds_count{operation=\"Invoke\"} 5",
        ] {
            assert!(
                text.0.lines().any(|found| found == line),
                "{line}\n{}",
                text.0
            );
        }
        assert!(
            !text.0.contains("GetAlias"),
            "what was never asked is left out"
        );
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_holds_some_memory() {
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
