//! What this process has used so far, as the operating system counts it.

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

    #[cfg(unix)]
    #[test]
    fn processor_time_only_grows() {
        let before = cpu_time().unwrap();
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && cpu_time().unwrap() > before);
    }
}
