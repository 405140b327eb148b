//! Counters of a store's own work, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the commit latency buckets, in microseconds.
pub const COMMIT_BUCKETS: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// Work since the store was opened, and its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreMetrics {
    /// Commits by duration of write and sync: one count per bucket of [`COMMIT_BUCKETS`], not
    /// cumulative, and one for longer commits.
    pub commits: [u64; COMMIT_BUCKETS.len() + 1],
    /// Total duration of all commits.
    pub commit_time: Duration,
    /// Total bytes written by commits.
    pub bytes_written: u64,
    /// Current size of the store on disk, in bytes.
    pub bytes_on_disk: u64,
    /// Bytes of that which records occupy that are not superseded; compaction frees the rest.
    pub live_bytes: u64,
    /// Number of segment files in use.
    pub segments: usize,
    /// Whether segments cannot be released because of damage, so that the store grows until it is
    /// repaired.
    pub is_stuck: bool,
}

/// Commit counters. Only the committer updates them, once per commit.
#[derive(Debug, Default)]
pub(crate) struct CommitCounters {
    commits: [AtomicU64; COMMIT_BUCKETS.len() + 1],
    micros: AtomicU64,
    bytes: AtomicU64,
}

impl CommitCounters {
    /// Records a commit of `bytes` bytes that took `took`.
    pub(crate) fn record_commit(&self, took: Duration, bytes: usize) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BUCKETS.partition_point(|end| *end < micros);
        if let Some(count) = self.commits.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Total bytes written by commits.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the counts so far.
    pub(crate) fn snapshot(&self) -> StoreMetrics {
        let mut vitals = StoreMetrics::default();
        for (shown, count) in vitals.commits.iter_mut().zip(&self.commits) {
            *shown = count.load(Ordering::Relaxed);
        }
        vitals.commit_time = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        vitals.bytes_written = self.bytes_written();
        vitals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_in_the_first_bucket_that_holds_it() {
        let pulse = CommitCounters::default();
        for micros in [0, 50, 51, 5_000_000, 5_000_001] {
            pulse.record_commit(Duration::from_micros(micros), 100);
        }
        let vitals = pulse.snapshot();
        assert_eq!(vitals.commits, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(vitals.bytes_written, 500);
        assert_eq!(vitals.commit_time, Duration::from_micros(10_000_102));
    }
}
