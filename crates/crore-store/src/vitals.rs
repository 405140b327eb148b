//! What a store can tell of its own work, for those who watch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the buckets end by which commits are counted, in microseconds: from a fast disk to one about
/// which somebody should be woken.
pub const COMMIT_BUCKETS: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// What a store has done since it was opened, and what it takes up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vitals {
    /// Commits by how long their write and sync took: one for each of [`COMMIT_BUCKETS`], each without
    /// those before it, and a last one for what took longer.
    pub commits: [u64; COMMIT_BUCKETS.len() + 1],
    /// How long all of them took together.
    pub commit_time: Duration,
    /// How many bytes they wrote.
    pub bytes_written: u64,
    /// How many bytes the store takes up on the disk now.
    pub bytes_on_disk: u64,
    /// Whether old parts cannot be given up, so that the store grows until it is repaired.
    pub is_stuck: bool,
}

/// Counts commits. Only the committer writes here, once for each commit and never for a verb.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    commits: [AtomicU64; COMMIT_BUCKETS.len() + 1],
    micros: AtomicU64,
    bytes: AtomicU64,
}

impl Pulse {
    /// A commit of so many bytes took so long.
    pub(crate) fn beat(&self, took: Duration, bytes: usize) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BUCKETS.partition_point(|end| *end < micros);
        if let Some(count) = self.commits.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(crate) fn vitals(&self) -> Vitals {
        let mut vitals = Vitals::default();
        for (shown, count) in vitals.commits.iter_mut().zip(&self.commits) {
            *shown = count.load(Ordering::Relaxed);
        }
        vitals.commit_time = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        vitals.bytes_written = self.bytes.load(Ordering::Relaxed);
        vitals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_falls_into_the_first_bucket_that_is_long_enough() {
        let pulse = Pulse::default();
        for micros in [0, 50, 51, 5_000_000, 5_000_001] {
            pulse.beat(Duration::from_micros(micros), 100);
        }
        let vitals = pulse.vitals();
        assert_eq!(vitals.commits, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(vitals.bytes_written, 500);
        assert_eq!(vitals.commit_time, Duration::from_micros(10_000_102));
    }
}
