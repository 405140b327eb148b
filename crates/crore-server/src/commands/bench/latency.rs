//! Latency histograms.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant digits of recorded values.
const DIGITS: u8 = 3;

/// Histogram of durations in nanoseconds.
#[derive(Debug)]
pub(super) struct LatencyHistogram(Histogram<u32>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Histogram::new(DIGITS).expect("three significant digits are supported"))
    }
}

impl LatencyHistogram {
    /// Records a duration `n` times.
    pub(super) fn add(&mut self, nanos: u64, n: u64) {
        // The histogram resizes itself, so recording cannot fail.
        let _ = self.0.record_n(nanos.max(1), u32::try_from(n).unwrap_or(u32::MAX));
    }

    /// Merges another histogram into this one.
    pub(super) fn merge(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    /// Percentiles; `None` if nothing was recorded.
    pub(super) fn summary(&self) -> Option<LatencySummary> {
        if self.0.is_empty() {
            return None;
        }
        let micros = |nanos: u64| (nanos as f64 / 100.0).round() / 10.0;
        let at = |share: f64| micros(self.0.value_at_quantile(share));
        Some(LatencySummary {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: micros(self.0.max()),
            mean: (self.0.mean() / 100.0).round() / 10.0,
        })
    }
}

/// Percentiles of a duration, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct LatencySummary {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_recorded_values() {
        let (mut times, mut other) = (LatencyHistogram::default(), LatencyHistogram::default());
        assert_eq!(times.summary(), None);
        times.add(1_000_000, 990);
        other.add(5_000_000_000, 10);
        times.merge(&other);
        let spread = times.summary().expect("something");
        let near = |value: f64, expected: f64| (value - expected).abs() < expected / 500.0;
        assert!(near(spread.p50, 1000.0) && near(spread.p99, 1000.0), "{spread:?}");
        assert!(near(spread.p99_9, 5e6) && near(spread.max, 5e6), "{spread:?}");
        assert!(near(spread.mean, 50_990.0), "{spread:?}");
    }
}
