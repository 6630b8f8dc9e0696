//! What the disk itself can do, measured twice: committers that each append to a file of their own
//! and sync it, and the same committers before one writer that syncs all that wait as one group.
//!
//! The first is what the disk and its file system do when many ask at once. The second is bound by
//! the processor as much as by the disk: it is the most that any store with one log could reach if
//! deciding and encoding cost nothing. Every figure is given as its share of both. Files are written
//! full first: a file that grows also has to have its length synced.

use crate::bench::histogram::Histogram;
use anyhow::Context;
use std::{
    fs::File,
    io::{ErrorKind, Seek, SeekFrom, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};

/// The folder of the files, removed afterwards.
const FOLDER: &str = "disk-limit";
/// Size of the log of the group; written around and around.
const FILE_BYTES: usize = 32 * 1_048_576;
/// Size of a committer's own file, if a commit is not larger.
const OWN_FILE_BYTES: usize = 256 * 1_024;
/// Committers with a thread and a file of their own, at most; a disk does not get faster by more.
const OWN_MAX: u32 = 1_024;
/// Commits in one group, at most.
const GROUP_MAX: usize = 1_024;
/// Bytes of one commit, at most: a whole group fits into the file.
const COMMIT_BYTES_MAX: usize = FILE_BYTES / GROUP_MAX;

/// What is to be committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    /// Bytes of each.
    pub(crate) bytes: usize,
    /// Committers that wait for one before they hand over the next.
    pub(crate) concurrency: u32,
    /// How long.
    pub(crate) period: Duration,
}

/// What the disk did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Commits of committers that each append and sync for themselves.
    pub(crate) commits_per_second: f64,
    /// Commits acknowledged by one writer that groups them.
    pub(crate) grouped_per_second: f64,
    /// Time of one append and its sync.
    pub(crate) sync_p50_ms: f64,
}

/// Measures the disk that a folder lies on.
///
/// # Errors
/// When the disk refuses.
pub(crate) async fn measure(folder: &Path, commits: Commits) -> anyhow::Result<Limit> {
    let folder = folder.join(FOLDER);
    match std::fs::create_dir(&folder) {
        // A measurement that was killed may have left it behind.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).context("the disk's own limit cannot be measured");
        }
        _ => {}
    }
    let measured = measure_both(&folder, commits).await;
    // Leaving it behind would count as the store's own.
    let removed = std::fs::remove_dir_all(&folder);
    let limit = measured.context("the disk's own limit cannot be measured")?;
    removed.context("the files of the disk's own limit cannot be removed")?;
    Ok(limit)
}

async fn measure_both(folder: &Path, commits: Commits) -> anyhow::Result<Limit> {
    let (grouped_per_second, sync_p50_ms) = grouped(&folder.join("log"), commits).await?;
    let own_folder = folder.to_owned();
    let commits_per_second =
        tokio::task::spawn_blocking(move || alone(&own_folder, commits)).await??;
    Ok(Limit {
        commits_per_second,
        grouped_per_second,
        sync_p50_ms,
    })
}

/// Every committer appends to its own file and syncs it.
fn alone(folder: &Path, commits: Commits) -> std::io::Result<f64> {
    let bytes = commits.bytes.clamp(1, COMMIT_BYTES_MAX);
    let committers = commits.concurrency.min(OWN_MAX);
    let mut files = Vec::new();
    for number in 0..committers {
        let mut file = File::create(folder.join(number.to_string()))?;
        file.write_all(&vec![0; OWN_FILE_BYTES.max(bytes)])?;
        file.sync_all()?;
        files.push(file);
    }
    let begun = Instant::now();
    let done = std::thread::scope(|scope| {
        let working: Vec<_> = files
            .into_iter()
            .map(|file| scope.spawn(move || append_alone(file, bytes, begun + commits.period)))
            .collect();
        let done = working.into_iter().map(|committer| {
            let gone = || std::io::Error::other("a committer ended unexpectedly");
            committer.join().map_err(|_| gone())?
        });
        done.sum::<std::io::Result<u64>>()
    })?;
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

fn append_alone(mut file: File, bytes: usize, until: Instant) -> std::io::Result<u64> {
    let data = vec![0x5a; bytes];
    let (mut offset, mut done) = (0, 0);
    // Once at least, however late its thread gets a processor.
    while done == 0 || Instant::now() < until {
        if offset + bytes > OWN_FILE_BYTES.max(bytes) {
            offset = 0;
        }
        file.seek(SeekFrom::Start(offset as u64))?;
        file.write_all(&data)?;
        file.sync_data()?;
        offset += bytes;
        done += 1;
    }
    Ok(done)
}

/// Commits per second of one writer for all, and the time of one append and its sync.
async fn grouped(path: &Path, commits: Commits) -> anyhow::Result<(f64, f64)> {
    let mut file = File::create(path)?;
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let (queue, waiting) = mpsc::channel::<oneshot::Sender<()>>();
    let syncs = Arc::new(Histogram::default());
    let times = syncs.clone();
    let bytes = commits.bytes.clamp(1, COMMIT_BYTES_MAX);
    let writer = std::thread::spawn(move || write(file, &waiting, bytes, &times));
    let done = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut committers = JoinSet::new();
    for _ in 0..commits.concurrency {
        let (queue, done) = (queue.clone(), done.clone());
        committers.spawn(async move {
            // Once at least, however late its turn comes.
            let mut first = true;
            while std::mem::take(&mut first) || begun.elapsed() < commits.period {
                let (acknowledge, acknowledged) = oneshot::channel();
                if queue.send(acknowledge).is_err() || acknowledged.await.is_err() {
                    return;
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    drop(queue);
    while committers.join_next().await.is_some() {}
    let elapsed = begun.elapsed();
    match writer.join() {
        Ok(written) => written?,
        Err(_) => anyhow::bail!("the writer ended unexpectedly"),
    }
    Ok((
        done.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64(),
        syncs.percentile_ms(50).unwrap_or_default(),
    ))
}

/// Takes all that wait as one group, until nobody can come any more.
fn write(
    mut file: File,
    waiting: &mpsc::Receiver<oneshot::Sender<()>>,
    bytes: usize,
    times: &Histogram,
) -> std::io::Result<()> {
    let data = vec![0x5a; bytes * GROUP_MAX];
    let mut group = Vec::with_capacity(GROUP_MAX);
    let mut offset = 0;
    while let Ok(first) = waiting.recv() {
        group.push(first);
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        let length = bytes * group.len();
        if offset + length > FILE_BYTES {
            offset = 0;
        }
        let begun = Instant::now();
        file.seek(SeekFrom::Start(offset as u64))?;
        file.write_all(data.get(..length).unwrap_or(&data))?;
        file.sync_data()?;
        times.add(begun.elapsed());
        offset += length;
        for acknowledge in group.drain(..) {
            // Whoever waited may have gone.
            let _ = acknowledge.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_of_every_size_are_measured_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [
            0,
            1,
            COMMIT_BYTES_MAX - 1,
            COMMIT_BYTES_MAX,
            COMMIT_BYTES_MAX + 1,
        ] {
            let commits = Commits {
                bytes,
                concurrency: 3,
                period: Duration::from_millis(20),
            };
            let limit = measure(folder.path(), commits).await.unwrap();
            assert!(limit.commits_per_second > 0.0 && limit.sync_p50_ms > 0.0);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_an_error() {
        let commits = Commits {
            bytes: 1,
            concurrency: 1,
            period: Duration::from_millis(1),
        };
        let outer = tempfile::tempdir().unwrap();
        assert!(measure(&outer.path().join("none"), commits).await.is_err());
    }
}
