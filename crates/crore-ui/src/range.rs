//! The time range of charts.

use crore_core::{Span, Time};
use crore_wire::api::stats::Step;

/// Maximum number of points of a chart.
const MAX_POINTS: u64 = 240;

/// A time range that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChartRange {
    Minutes5,
    Hour,
    Hours6,
    Day,
    Week,
    Month,
}

impl ChartRange {
    pub(crate) const ALL: [Self; 6] =
        [Self::Minutes5, Self::Hour, Self::Hours6, Self::Day, Self::Week, Self::Month];

    /// Its name in URLs and on the page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Minutes5 => "5m",
            Self::Hour => "1h",
            Self::Hours6 => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// The range with this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.name() == name)
    }

    /// Its length.
    pub(crate) const fn span(self) -> Span {
        Span::from_secs(match self {
            Self::Minutes5 => 300,
            Self::Hour => 3600,
            Self::Hours6 => 6 * 3600,
            Self::Day => 24 * 3600,
            Self::Week => 7 * 24 * 3600,
            Self::Month => 30 * 24 * 3600,
        })
    }

    /// The finest resolution that is kept for it. Minutes are kept for a day, without the current one.
    const fn step(self) -> (Step, Span) {
        match self {
            Self::Minutes5 | Self::Hour | Self::Hours6 | Self::Day => {
                (Step::Minute, Span::from_secs(60))
            }
            Self::Week | Self::Month => (Step::Hour, Span::from_secs(3600)),
        }
    }
}

/// The time axis that all charts of a page share: equal buckets, each of whole steps of the statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeAxis {
    /// The resolution of the statistics.
    pub(crate) step: Step,
    /// Start of the first bucket.
    pub(crate) from: Time,
    /// Length of a bucket.
    pub(crate) bucket: Span,
    /// Number of buckets.
    pub(crate) buckets: usize,
}

impl TimeAxis {
    /// The axis of a range that ends now.
    pub(crate) fn new(range: ChartRange, now: Time) -> Self {
        let (step, length) = range.step();
        let steps = range.span().as_millis() / length.as_millis().max(1);
        let bucket = length.times(steps.div_ceil(MAX_POINTS).max(1));
        let buckets = range.span().as_millis() / bucket.as_millis().max(1);
        // The last bucket is the current one, which is not complete.
        let last = now.as_millis() / bucket.as_millis() as i64 * bucket.as_millis() as i64;
        let from = Time::from_millis(last).before(bucket.times(buckets.saturating_sub(1)));
        Self { step, from, bucket, buckets: buckets as usize }
    }

    /// The bucket of an instant.
    pub(crate) fn index(&self, at: Time) -> Option<usize> {
        let after = at.as_millis().checked_sub(self.from.as_millis())?;
        let index = u64::try_from(after).ok()? / self.bucket.as_millis().max(1);
        usize::try_from(index).ok().filter(|index| *index < self.buckets)
    }

    /// The end of the last bucket.
    pub(crate) fn to(&self) -> Time {
        self.from.after(self.bucket.times(self.buckets as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_has_a_bounded_number_of_buckets_that_ends_now() {
        let now = Time::from_millis(1_795_000_123_456);
        for range in ChartRange::ALL {
            let axis = TimeAxis::new(range, now);
            assert!((5..=240).contains(&axis.buckets), "{range:?} {}", axis.buckets);
            assert_eq!(axis.index(now), Some(axis.buckets - 1), "{range:?}");
            assert_eq!(axis.index(axis.from), Some(0));
            assert_eq!(axis.index(axis.to()), None);
            assert_eq!(ChartRange::of_name(range.name()), Some(range));
        }
    }
}
