//! `outlast bench`: its figures are there and possible. How good they are is not tested.

use crate::outlast;
use serde_json::Value;

/// Figures that every workload reports, if only as null.
const FIELDS: [&str; 22] = [
    "workload",
    "version",
    "parameters",
    "executions",
    "steps",
    "commits",
    "executions_per_second",
    "steps_per_second",
    "p50_ms",
    "p99_ms",
    "p50_step_ms",
    "cpu_seconds_per_1000_steps",
    "rss_bytes",
    "disk_bytes",
    "written_bytes",
    "fsyncs",
    "index_lag_bytes_start",
    "index_lag_bytes_end",
    "commit_limit_per_second",
    "ratio_to_limit",
    "restart_ms",
    "lost",
];

/// Figures of which more than nothing is expected.
#[track_caller]
fn positive(report: &Value, fields: &[&str]) {
    for field in fields {
        let value = report[field].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{field}: {report}");
    }
}

/// Measures; gives the report, in which everything is there.
#[track_caller]
fn bench(arguments: &[&str]) -> Value {
    let called = outlast(&[&["--json", "bench"], arguments].concat());
    assert_eq!(
        (called.code, called.stderr.as_str()),
        (Some(0), ""),
        "{called:?}"
    );
    let report = called.json();
    for field in FIELDS {
        assert!(report.get(field).is_some(), "no {field} in {report}");
    }
    assert_eq!(report["workload"], arguments[0]);
    positive(
        &report,
        &["commits", "commit_limit_per_second", "p50_ms", "p99_ms"],
    );
    report
}

#[test]
fn sequential_reports_steps_and_their_times() {
    let report = bench(&[
        "sequential",
        "--steps=3",
        "--concurrency=4",
        "--seconds=1",
        "--prefill=20",
    ]);
    let parameters = &report["parameters"];
    assert_eq!(parameters["steps"], 3);
    assert_eq!(parameters["concurrency"], 4);
    assert_eq!(parameters["prefill"], 20);
    positive(
        &report,
        &[
            "executions_per_second",
            "steps_per_second",
            "p50_step_ms",
            "p50_start_ms",
            "ratio_to_limit",
            "bare_sync_p50_ms",
            "bytes_per_commit",
        ],
    );
    let of = |field: &str| report[field].as_f64().unwrap();
    assert!(of("p50_ms") <= of("p99_ms"), "{report}");
    assert!(of("p50_step_ms") <= of("p50_ms"), "{report}");
    // Each of four clients may be in the middle of an execution at either end.
    let difference = of("steps") - 3.0 * of("executions");
    assert!(difference.abs() <= 4.0 * 3.0, "{report}");
    if cfg!(target_os = "linux") {
        positive(&report, &["rss_bytes", "cpu_seconds_per_1000_steps"]);
    }
}

#[test]
fn start_reports_whole_executions_without_steps() {
    let report = bench(&["start", "--concurrency=2", "--seconds=1"]);
    positive(
        &report,
        &["executions_per_second", "p50_start_ms", "ratio_to_limit"],
    );
    assert_eq!(report["steps"], 0);
    assert_eq!(report["steps_per_second"], Value::Null);
}

#[test]
fn fanout_runs_every_step_of_every_execution() {
    let report = bench(&["fanout", "--steps=50", "--seconds=1"]);
    positive(&report, &["executions", "steps_per_second"]);
    let of = |field: &str| report[field].as_u64().unwrap();
    // The first one may have begun before the measurement.
    assert!(of("steps") + 50 >= 50 * of("executions"), "{report}");
}

#[test]
fn sleepers_are_all_there_after_the_restart() {
    let report = bench(&["sleepers", "--count=200", "--concurrency=8"]);
    assert_eq!(
        (&report["executions"], &report["lost"]),
        (&200.into(), &0.into())
    );
    positive(
        &report,
        &["executions_per_second", "starts_per_second", "restart_ms"],
    );
}

#[test]
fn a_herd_ends_whole_and_the_others_are_measured_before_and_while_it_runs() {
    let report = bench(&["herd", "--count=300", "--concurrency=2", "--seconds=1"]);
    assert_eq!(
        (&report["executions"], &report["lost"]),
        (&300.into(), &0.into())
    );
    positive(
        &report,
        &[
            "others_before",
            "others",
            "p50_before_ms",
            "p99_before_ms",
            "p99_late_ms",
            "drain_ms",
            "starts_per_second",
        ],
    );
}

#[test]
fn a_herd_that_is_due_too_soon_is_refused_with_a_remedy() {
    let called = outlast(&["bench", "herd", "--count=10", "--wait-seconds=1", "--json"]);
    assert_eq!(called.code, Some(1));
    assert!(
        called.stderr.contains("give --wait-seconds more"),
        "{called:?}"
    );
}

#[test]
fn resume_reports_how_late_the_code_after_the_timer_runs_warm_and_cold() {
    for cold in [false, true] {
        let mut arguments = vec!["resume", "--steps=20", "--seconds=1", "--concurrency=2"];
        arguments.extend(cold.then_some("--cold"));
        let report = bench(&arguments);
        assert_eq!(report["parameters"]["cold"], cold);
        positive(&report, &["p50_late_ms", "p99_late_ms"]);
        let of = |field: &str| report[field].as_f64().unwrap();
        assert!(of("p50_late_ms") <= of("p50_ms"), "{report}");
        assert_eq!(of("steps"), 20.0 * of("executions"), "{report}");
    }
}

#[test]
fn a_folder_that_is_named_is_kept_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data={}", folder.path().join("data").display());
    for _ in 0..2 {
        bench(&["start", "--concurrency=1", "--seconds=1", &data]);
    }
    assert!(folder.path().join("data/BENCH").exists());
    assert!(!folder.path().join("data/disk-limit").exists());
}

#[test]
fn a_folder_of_somebody_else_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    let data = format!("--data={}", folder.path().display());
    let called = outlast(&["bench", "start", "--json", &data]);
    assert_eq!(called.code, Some(1));
    assert!(
        called.stderr.contains("name a new folder with --data"),
        "{called:?}"
    );
    let error = called.json()["error"].as_str().unwrap().to_owned();
    assert!(called.stderr.contains(&error));
}

#[test]
fn people_get_a_table() {
    let called = outlast(&["bench", "start", "--concurrency=1", "--seconds=1"]);
    assert_eq!(
        (called.code, called.stderr.as_str()),
        (Some(0), ""),
        "{called:?}"
    );
    for row in [
        "workload ",
        "executions/s ",
        "p99 ms ",
        "ratio to that limit ",
    ] {
        assert!(called.stdout.contains(row), "{row} in {}", called.stdout);
    }
}

#[cfg(unix)]
#[test]
fn a_server_and_its_worker_give_the_same_figures_and_their_shares() {
    for arguments in [
        &[
            "sequential",
            "--steps=3",
            "--concurrency=4",
            "--seconds=1",
            "--prefill=20",
        ][..],
        &["start", "--concurrency=2", "--seconds=1"],
        &["fanout", "--steps=50", "--seconds=1"],
        &["sleepers", "--count=50", "--concurrency=8"],
        &[
            "resume",
            "--steps=20",
            "--seconds=1",
            "--cold",
            "--wait-seconds=5",
        ],
    ] {
        let report = bench(&[arguments, &["--home=remote"]].concat());
        assert_eq!(report["home"], "remote");
        positive(&report, &["executions", "bytes_per_commit", "disk_bytes"]);
        if cfg!(target_os = "linux") {
            let of = |field: &str| report[field].as_f64().unwrap();
            let memory = of("server_rss_bytes") + of("worker_rss_bytes");
            assert!((of("rss_bytes") - memory).abs() < 1.0, "{report}");
            let cpu = of("server_cpu_seconds") + of("worker_cpu_seconds");
            let sum = of("cpu_seconds");
            // A server that was started again counts from its own beginning.
            assert!(
                arguments[0] == "resume" || (sum - cpu).abs() < 0.001,
                "{report}"
            );
        }
    }
}
