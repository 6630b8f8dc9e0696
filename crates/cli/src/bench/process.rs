//! What a process has used so far, as the operating system counts it.

use std::time::Duration;

/// Processor time of all threads, in the program and in the kernel.
#[cfg(unix)]
pub(crate) fn cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

/// Processor time is not known here.
#[cfg(not(unix))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}

/// Memory in use, where the kernel tells it in `/proc`.
pub(crate) fn rss_bytes() -> Option<u64> {
    parse_rss(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Processor time of another process, where the kernel tells it in `/proc`.
pub(crate) fn cpu_time_of(id: u32) -> Option<Duration> {
    parse_cpu(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Memory in use by another process, where the kernel tells it in `/proc`.
pub(crate) fn rss_bytes_of(id: u32) -> Option<u64> {
    parse_rss(&std::fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

/// User and system time are the 14th and 15th fields; the second, a name, may contain anything.
fn parse_cpu(stat: &str) -> Option<Duration> {
    /// Linux counts in hundredths of a second here, whatever its own tick is.
    const TICK_MS: u64 = 10;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * TICK_MS))
}

fn parse_rss(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim();
    Some(kibibytes.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_understood() {
        let status = "Name:\toutlast\nVmRSS:\t    2048 kB\nThreads:\t1\n";
        assert_eq!(parse_rss(status), Some(2_097_152));
        assert_eq!(parse_rss("Name:\toutlast\n"), None);
        assert_eq!(parse_rss("VmRSS:\tmany\n"), None);
    }

    #[test]
    fn processor_time_of_another_process_is_found_behind_any_name() {
        let stat = "7 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0";
        assert_eq!(parse_cpu(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(parse_cpu("7 (a) S 1"), None);
        if cfg!(target_os = "linux") {
            assert!(cpu_time_of(std::process::id()).is_some());
            assert!(rss_bytes_of(std::process::id()).unwrap() > 0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn processor_time_only_grows() {
        let before = cpu_time().unwrap();
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && cpu_time().unwrap() > before);
    }
}
