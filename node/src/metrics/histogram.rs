//! Latencies in buckets that double.
//!
//! Owns the bucket bounds. Recording is a count of leading zeros and two additions, without a float or a lock.

use std::time::Duration;

use super::Counter;

/// The smallest bound is 2^10 ns, about a microsecond.
const SMALLEST_BOUND_LOG2: u32 = 10;
/// Bounds up to 2^30 ns, about a second; what took longer is in the last bucket, which has none.
const BOUNDS: usize = 21;

/// Written by one thread, like any [`Counter`].
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BOUNDS + 1],
    sum_ns: Counter,
}

impl Histogram {
    pub fn record(&self, elapsed: Duration) {
        let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(ns)].add(1);
        self.sum_ns.add(ns);
    }
}

/// The first bucket whose bound is not below `ns`.
fn bucket_of(ns: u64) -> usize {
    let log2_rounded_up = u64::BITS - ns.saturating_sub(1).leading_zeros();
    (log2_rounded_up.saturating_sub(SMALLEST_BOUND_LOG2) as usize).min(BOUNDS)
}

/// Histograms added up.
#[derive(Clone, Debug, Default)]
pub struct HistogramTotals {
    buckets: [u64; BOUNDS + 1],
    sum_ns: u64,
}

impl HistogramTotals {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.get();
        }
        self.sum_ns += histogram.sum_ns.get();
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum_seconds(&self) -> f64 {
        Duration::from_nanos(self.sum_ns).as_secs_f64()
    }

    /// For each bound, in seconds, how many took at most that long.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        (SMALLEST_BOUND_LOG2..)
            .map(|log2| Duration::from_nanos(1 << log2).as_secs_f64())
            .zip(counts)
            .take(BOUNDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_first_bucket_that_is_not_too_small() {
        let cases = [
            (0, 0),
            (1, 0),
            (1024, 0),
            (1025, 1),
            (2048, 1),
            (2049, 2),
            (1 << 30, 20),
        ];
        for (ns, bucket) in cases {
            assert_eq!(bucket_of(ns), bucket, "{ns} ns");
        }
        assert_eq!(bucket_of((1 << 30) + 1), BOUNDS);
        assert_eq!(bucket_of(u64::MAX), BOUNDS);
    }

    #[test]
    fn bounds_count_everything_at_or_below_them() {
        let histogram = Histogram::default();
        for us in [1, 1, 3, 5_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut totals = HistogramTotals::default();
        totals.add(&histogram);
        let counts: Vec<_> = totals.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts[..4], [2, 2, 3, 3]);
        assert_eq!((counts[BOUNDS - 1], totals.count()), (3, 4));
    }
}
