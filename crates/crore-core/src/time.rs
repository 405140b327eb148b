//! Instants and durations in whole milliseconds with saturating arithmetic, and the [`Clock`] trait.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since the Unix epoch, in UTC.
///
/// Arithmetic saturates at [`Time::ZERO`] and [`Time::MAX`]: an excessive duration can delay a job
/// forever, but never wraps around into the past.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// The Unix epoch; the earliest representable instant.
    pub const ZERO: Self = Self(0);
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// An instant from epoch milliseconds, clamped to [`Time::ZERO`]..=[`Time::MAX`].
    pub const fn from_millis(millis: i64) -> Self {
        if millis < 0 {
            Self::ZERO
        } else if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since the epoch; never negative.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `span` later.
    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        let span = if span.0 > Self::MAX.0 as u64 { Self::MAX.0 } else { span.0 as i64 };
        Self::from_millis(self.0.saturating_add(span))
    }

    /// The instant `span` earlier.
    #[must_use]
    pub const fn before(self, span: Span) -> Self {
        let span = if span.0 > Self::MAX.0 as u64 { Self::MAX.0 } else { span.0 as i64 };
        Self::from_millis(self.0.saturating_sub(span))
    }

    /// The time elapsed since `earlier`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        if self.0 > earlier.0 { Span((self.0 - earlier.0) as u64) } else { Span::ZERO }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A duration in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Span {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The sum, or [`Span::MAX`].
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The product, or [`Span::MAX`].
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// Whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_millis(span.0)
    }
}

/// The source of the current time. Stores use it, passed in by the code that opens them; the rules of
/// this crate take `now` as an argument.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current instant.
    fn now(&self) -> Time;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX.after(Span::MAX), Time::MAX);
        assert_eq!(Time::ZERO.before(Span::MAX), Time::ZERO);
        assert_eq!(Time::from_millis(i64::MIN), Time::ZERO);
        assert_eq!(Time::from_millis(i64::MAX), Time::MAX);
        assert_eq!(Span::MAX.plus(Span::MAX), Span::MAX);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
    }

    #[test]
    fn since_is_never_negative() {
        let (early, late) = (Time::from_millis(5), Time::from_millis(9));
        assert_eq!(late.since(early), Span::from_millis(4));
        assert_eq!(early.since(late), Span::ZERO);
    }
}
