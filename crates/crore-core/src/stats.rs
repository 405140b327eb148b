//! Statistics of jobs: counters, and histograms of durations, which can be added up.
//!
//! One [`JobStats`] describes the jobs of one queue and kind in one interval of time. The sum of two is the
//! statistics of both, so minutes add up to hours and kinds to queues.

use crate::{Span, Time};

/// A counted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobCounter {
    /// A job was pushed.
    Pushed,
    /// A job was delivered.
    Started,
    /// A job is done.
    Done,
    /// An attempt failed or exceeded its timeout.
    Failed,
    /// A job will be attempted again after a failure or a lapse.
    Retried,
    /// A job became dead.
    Dead,
    /// A job was cancelled.
    Cancelled,
    /// A lease expired without a report.
    Lapsed,
    /// A job was not started by its deadline, and is counted as cancelled, too.
    Expired,
}

impl JobCounter {
    /// Every counter.
    pub const ALL: [Self; 9] = [
        Self::Pushed,
        Self::Started,
        Self::Done,
        Self::Failed,
        Self::Retried,
        Self::Dead,
        Self::Cancelled,
        Self::Lapsed,
        Self::Expired,
    ];
}

/// Statistics of the jobs of one queue and kind in one interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobStats {
    /// By [`JobCounter`], in the order of [`JobCounter::ALL`].
    counts: [u64; JobCounter::ALL.len()],
    /// From due to start of each delivery.
    pub wait: SpanHistogram,
    /// From start to end of each delivery.
    pub run: SpanHistogram,
}

impl JobStats {
    /// The value of a counter.
    pub const fn count(&self, counter: JobCounter) -> u64 {
        self.counts[counter as usize]
    }

    /// Adds to a counter.
    pub const fn add(&mut self, counter: JobCounter, n: u64) {
        let count = &mut self.counts[counter as usize];
        *count = count.saturating_add(n);
    }

    /// Counts a delivery, with the time since the job was due.
    pub fn started(&mut self, due: Time, pushed_at: Time, now: Time) {
        self.add(JobCounter::Started, 1);
        self.wait.record(now.since(due.max(pushed_at)), 1);
    }

    /// Adds the statistics of other jobs or of another interval.
    pub fn merge(&mut self, other: &Self) {
        for counter in JobCounter::ALL {
            self.add(counter, other.count(counter));
        }
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|n| *n == 0) && self.wait.is_empty() && self.run.is_empty()
    }
}

/// Durations by size. Buckets grow by up to a third, so a quantile differs from the exact one by at most 15 %;
/// durations of [`SpanHistogram::MAX`] and more share the last bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanHistogram {
    /// By bucket; the last number is not zero.
    counts: Vec<u64>,
}

/// Number of buckets.
const BUCKETS: usize = 90;

/// Smallest duration of each bucket, in milliseconds.
const BOUNDS: [u64; BUCKETS] = {
    let mut bounds = [0; BUCKETS];
    let mut bucket = 1;
    while bucket < BUCKETS {
        bounds[bucket] = largest(bounds[bucket - 1]) + 1;
        bucket += 1;
    }
    bounds
};

/// Largest duration of the bucket that begins with this one. Small buckets are narrower, because their middle is
/// rounded to whole milliseconds.
const fn largest(smallest: u64) -> u64 {
    match smallest {
        0..6 => smallest,
        6..64 => smallest * 5 / 4,
        _ => smallest * 33 / 25,
    }
}

impl SpanHistogram {
    /// Number of buckets.
    pub const BUCKETS: usize = BUCKETS;

    /// Smallest duration of the last bucket: more than a year.
    pub const MAX: Span = Span::from_millis(BOUNDS[BUCKETS - 1]);

    /// Adds `n` durations of this size.
    pub fn record(&mut self, span: Span, n: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound <= span.as_millis()) - 1;
        self.add(bucket, n);
    }

    /// Adds `n` durations to a bucket; buckets beyond the last count as the last.
    pub fn add(&mut self, bucket: usize, n: u64) {
        if n == 0 {
            return;
        }
        let bucket = bucket.min(BUCKETS - 1);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(n);
        }
    }

    /// Counts by bucket, from the first; buckets that are left out are empty.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds other durations.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, n) in other.counts.iter().enumerate() {
            self.add(bucket, *n);
        }
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The duration that `percent` of all do not exceed, within 15 %; `None` if there are none.
    pub fn quantile(&self, percent: u8) -> Option<Span> {
        let total = u128::from(self.count());
        let rank = (total * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += u128::from(*n);
            seen >= rank
        })?;
        Some(middle(bucket))
    }
}

/// The duration that stands for a bucket: its relative distance from both ends is the same.
fn middle(bucket: usize) -> Span {
    let smallest = BOUNDS.get(bucket).copied().unwrap_or_default();
    if smallest == 0 || bucket + 1 >= BUCKETS {
        return Span::from_millis(smallest);
    }
    let (smallest, largest) = (u128::from(smallest), u128::from(largest(smallest)));
    let sum = smallest + largest;
    let middle = (2 * smallest * largest + sum / 2) / sum;
    Span::from_millis(u64::try_from(middle).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    #[test]
    fn every_duration_is_shown_within_fifteen_percent() {
        let ends = BOUNDS.iter().flat_map(|bound| [*bound, bound.saturating_sub(1)]);
        for exact in (0..10_000).chain(ends) {
            let mut one = SpanHistogram::default();
            one.record(ms(exact), 1);
            let shown = one.quantile(50).expect("one duration").as_millis();
            assert!(shown.abs_diff(exact) * 100 <= exact * 15, "{exact} is shown as {shown}");
        }
        assert!(SpanHistogram::MAX > Span::from_secs(365 * 24 * 3600), "{:?}", SpanHistogram::MAX);
    }

    #[test]
    fn durations_beyond_the_last_bucket_are_counted() {
        let mut spans = SpanHistogram::default();
        spans.record(Span::MAX, u64::MAX);
        spans.record(SpanHistogram::MAX, 5);
        spans.add(usize::MAX, 1);
        assert_eq!((spans.count(), spans.quantile(99)), (u64::MAX, Some(SpanHistogram::MAX)));
        assert_eq!(spans.counts().len(), BUCKETS);
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let mut spans = SpanHistogram::default();
        assert_eq!(spans.quantile(50), None);
        spans.record(ms(7), 0);
        assert!(spans.is_empty(), "zero durations leave no trace");
    }

    #[test]
    fn wait_begins_when_the_job_is_due_or_pushed() {
        let mut stats = JobStats::default();
        let at = Time::from_millis;
        stats.started(at(0), at(1_000), at(1_003));
        stats.started(at(2_000), at(1_000), at(2_004));
        stats.started(at(9_000), at(1_000), at(2_004));
        assert_eq!(stats.wait.counts(), [1, 0, 0, 1, 1]);
        assert_eq!(stats.count(JobCounter::Started), 3);
    }

    proptest! {
        #[test]
        fn quantiles_are_near_those_of_the_sorted_durations(
            mut exact in prop::collection::vec(0u64..100_000_000, 1..200), percent in 1u8..=100,
        ) {
            let mut spans = SpanHistogram::default();
            exact.iter().for_each(|n| spans.record(ms(*n), 1));
            exact.sort_unstable();
            let rank = (exact.len() * usize::from(percent)).div_ceil(100);
            let wanted = exact[rank - 1];
            let shown = spans.quantile(percent).expect("a quantile").as_millis();
            prop_assert!(shown.abs_diff(wanted) * 100 <= wanted * 15, "{shown} for {wanted}");
        }

        #[test]
        fn a_merge_counts_the_durations_of_both(
            one in prop::collection::vec(0u64..100_000_000, 0..50),
            two in prop::collection::vec(0u64..100_000_000, 0..50),
        ) {
            let of = |all: &[u64]| {
                let mut stats = JobStats::default();
                for n in all {
                    stats.run.record(ms(*n), 1);
                    stats.add(JobCounter::Done, 1);
                }
                stats
            };
            let mut sum = of(&one);
            sum.merge(&of(&two));
            prop_assert_eq!(sum, of(&[one, two].concat()));
        }
    }
}
