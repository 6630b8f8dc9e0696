//! Times, counted in buckets: memory stays the same however long a measurement lasts.
//!
//! A bucket is at most a 64th of its value wide, which is finer than two runs on one machine agree.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Each power of two is cut into so many buckets, as a power of two itself.
const CUT_BITS: u32 = 6;
const CUTS: u64 = 1 << CUT_BITS;
/// Buckets for every number of nanoseconds there is.
const BUCKETS: usize = 60 << CUT_BITS;

/// Counted times; many tasks may add at once.
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({})", self.count())
    }
}

impl Histogram {
    /// Adds a time.
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(nanos)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets every time.
    pub(crate) fn clear(&self) {
        for bucket in &self.buckets {
            bucket.store(0, Ordering::Relaxed);
        }
    }

    /// How many times were added.
    pub(crate) fn count(&self) -> u64 {
        let counts = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed));
        counts.sum()
    }

    /// The time in milliseconds that so many percent of all do not exceed; nothing if there are
    /// none.
    pub(crate) fn percentile_ms(&self, percent: u64) -> Option<f64> {
        let count = self.count();
        let rank = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= rank {
                return Some(middle_of(index) / 1e6);
            }
        }
        None
    }
}

/// The bucket of a number: the position of its highest bit and the bits right below it.
fn bucket_of(nanos: u64) -> usize {
    let index = if nanos < CUTS {
        nanos
    } else {
        let shift = nanos.ilog2() - CUT_BITS;
        (u64::from(shift) << CUT_BITS) + (nanos >> shift)
    };
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn middle_of(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < CUTS {
        return bucket as f64;
    }
    let shift = (bucket >> CUT_BITS) - 1;
    let low = (bucket - (shift << CUT_BITS)) << shift;
    low as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_bucket_whose_middle_is_near() {
        let mut numbers: Vec<u64> = (0..1_000).collect();
        for bit in 6..64 {
            let power = 1_u64 << bit;
            numbers.extend([power - 1, power, power + 1, power + power / 2]);
        }
        numbers.push(u64::MAX);
        for number in numbers {
            let bucket = bucket_of(number);
            assert!(bucket < BUCKETS, "{number} is in bucket {bucket}");
            let error = (middle_of(bucket) - number as f64).abs();
            assert!(error <= number as f64 / 64.0, "{number}: {error} off");
        }
    }

    #[test]
    fn buckets_are_in_the_order_of_their_numbers() {
        let numbers = (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit) + (1 << bit) / 3]);
        let buckets: Vec<usize> = numbers.map(bucket_of).collect();
        assert!(buckets.is_sorted(), "{buckets:?}");
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let histogram = Histogram::default();
        assert_eq!(histogram.percentile_ms(50), None);
        let times: Vec<u64> = (1..=1_000).map(|number| number * 10_000).collect();
        for time in times.iter().rev() {
            histogram.add(Duration::from_nanos(*time));
        }
        assert_eq!(histogram.count(), 1_000);
        for (percent, exact) in [(1, 0.1), (50, 5.0), (99, 9.9), (100, 10.0)] {
            let found = histogram.percentile_ms(percent).unwrap();
            assert!((found - exact).abs() <= exact / 64.0, "{percent}: {found}");
        }
        histogram.clear();
        assert_eq!((histogram.count(), histogram.percentile_ms(99)), (0, None));
    }
}
