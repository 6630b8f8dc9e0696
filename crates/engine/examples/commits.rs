//! Measures durable commits of a store: `commits [journaled|sqlite] [committers] [seconds]`.
//!
//! Each committer starts an execution, appends ten times 300 bytes and closes it, one commit after
//! the other, again and again. Prints commits per second, latencies and the bare disk's own limit
//! (append and sync of the same bytes per batch of one). Not a benchmark of the engine: nothing is
//! folded and nothing invoked.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]
#![expect(clippy::unwrap_used, reason = "whatever fails ends the measurement")]

use outlast_core::{arn::ExecutionId, time::Timestamp, wire::ExecutionStatus};
use outlast_engine::{
    disk::{Disk, RealDisk},
    store::{
        Commit, Head, Run, Store,
        journaled::{JournaledStore, Options},
        sqlite::SqliteStore,
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const STEPS: u64 = 10;
const RECORD_BYTES: usize = 300;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "journaled".to_owned());
    let committers: u64 = arguments.next().map_or(256, |text| text.parse().unwrap());
    let seconds: u64 = arguments.next().map_or(5, |text| text.parse().unwrap());
    let folder = tempfile::tempdir_in(".").unwrap();
    let bare = bare(&folder.path().join("bare"));
    let path = folder.path().join("store");
    let store: Arc<dyn Store> = match kind.as_str() {
        "sqlite" => Arc::new(SqliteStore::open(&path).unwrap()),
        _ => Arc::new(JournaledStore::open(&path, Options::default()).unwrap()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(seconds);
    let all: Vec<_> = (0..committers)
        .map(|committer| runtime.spawn(commit_until(store.clone(), committer, until)))
        .collect();
    let mut latencies: Vec<Duration> = Vec::new();
    for committer in all {
        latencies.extend(runtime.block_on(committer).unwrap());
    }
    let elapsed = begun.elapsed();
    latencies.sort_unstable();
    let at = |part: usize| latencies.get(latencies.len() * part / 100).unwrap();
    let status = store.status();
    println!(
        "{kind} committers={committers} commits/s={:.0} p50={:?} p99={:?} syncs={} lag={} \
         bare_sync_p50={bare:?}",
        latencies.len() as f64 / elapsed.as_secs_f64(),
        at(50),
        at(99),
        status.syncs,
        status.index_lag_bytes,
    );
    let closing = Instant::now();
    store.close();
    println!("closed in {:?}", closing.elapsed());
}

/// What one append and sync of a preallocated file takes, at the median.
fn bare(path: &std::path::Path) -> Duration {
    let disk = RealDisk::new(path).unwrap();
    let file = disk.create("file").unwrap();
    file.write_at(0, &vec![0; 1 << 20]).unwrap();
    file.sync().unwrap();
    disk.sync_folder().unwrap();
    let mut times: Vec<Duration> = (0..500)
        .map(|index| {
            let begun = Instant::now();
            file.write_at(index * 512, &[1; 512]).unwrap();
            file.sync().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    *times.get(250).unwrap()
}

async fn commit_until(store: Arc<dyn Store>, committer: u64, until: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let function: Arc<str> = "bench".into();
    let version: Arc<str> = "$LATEST".into();
    for round in 0_u64.. {
        let number = u128::from(committer) << 80 | u128::from(round) << 8;
        let name: Arc<str> = format!("{committer}-{round}").into();
        for step in 0..=STEPS {
            let commit = Commit {
                execution: ExecutionId::from_bits(number),
                expected: step,
                records: Run {
                    first: step,
                    count: 1,
                    bytes: vec![7; RECORD_BYTES],
                },
                head: Head {
                    version: step + 1,
                    function: function.clone(),
                    function_version: version.clone(),
                    name: name.clone(),
                    status: match step {
                        STEPS => ExecutionStatus::Succeeded,
                        _ => ExecutionStatus::Running,
                    },
                    started: Timestamp::from_millis(round),
                    ended: (step == STEPS).then_some(Timestamp::from_millis(round + 1)),
                    wake: (step < STEPS).then_some(Timestamp::from_millis(round + step)),
                },
                snapshot: None,
            };
            let begun = Instant::now();
            store.commit(commit).await.unwrap();
            latencies.push(begun.elapsed());
        }
        if Instant::now() >= until {
            break;
        }
    }
    latencies
}
