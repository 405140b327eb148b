//! Intervals: `every 90s`, `every 15m from 2026-01-01T00:00:00Z`.

use std::fmt;

use jiff::Timestamp;

use super::text::{ScheduleText, ScheduleWord};
use crate::code::{Code, Invalid, excerpt};
use crate::time::{Span, Time};

/// Minimum interval.
pub const MIN_EVERY: Span = Span::from_secs(1);
/// Maximum interval: 366 days.
pub const MAX_EVERY: Span = Span::from_secs(366 * 86_400);

/// Units of durations, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Ticks at `from`, `from + every`, `from + 2·every`, … They are computed from `from`, not from the
/// previous tick, so that a late push, a restart or a missed tick causes no drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    every: Span,
    from: Time,
}

impl Interval {
    /// An interval of 1 second to 366 days; errors name `field`.
    pub fn new(field: &str, every: Span, from: Time) -> Result<Self, Invalid> {
        if every < MIN_EVERY {
            let message = format!("`{}` is shorter than a second", IntervalText(every));
            return Err(Invalid::new(Code::ScheduleTooOften, field, message));
        }
        if every > MAX_EVERY {
            let message = format!("`{}` is longer than 366 days", IntervalText(every));
            return Err(Invalid::new(Code::TimeRange, field, message));
        }
        if Timestamp::from_millisecond(from.as_millis()).is_err() {
            let message = "`from` is after the last date that can be written";
            return Err(Invalid::new(Code::TimeRange, field, message));
        }
        Ok(Self { every, from })
    }

    /// The interval between two ticks.
    pub fn every(self) -> Span {
        self.every
    }

    /// The first tick.
    pub fn from(self) -> Time {
        self.from
    }

    /// Parses the text after `every`.
    pub(super) fn read(
        line: &ScheduleText<'_>,
        words: &[ScheduleWord<'_>],
    ) -> Result<Self, Invalid> {
        let (every, from) = match words {
            [every] => (every, None),
            [every, ScheduleWord { text: "from", .. }, from] => (every, Some(from)),
            [] => return Err(line.syntax(line.end, "`every` needs a duration such as `90s`")),
            [_, ScheduleWord { text: "from", .. }] => {
                return Err(line.syntax(line.end, "`from` needs a time: 2026-01-01T00:00:00Z"));
            }
            [_, ScheduleWord { text: "from", .. }, _, extra, ..] | [_, extra, ..] => {
                let message = format!("unexpected `{}`", excerpt(extra.text));
                return Err(line.syntax(extra.at, message));
            }
        };
        let span = read_span(line, every)?;
        let from = from.map_or(Ok(Time::ZERO), |word| read_time(line, word))?;
        Self::new("", span, from).map_err(|e| line.error(e.code, every.at, e.message))
    }

    pub(super) fn next_after(self, after: Time) -> Option<Time> {
        if after < self.from {
            return Some(self.from);
        }
        let every = self.every.as_millis() as i64;
        let last = self.last_until(after.as_millis());
        last.checked_add(every).filter(|at| *at <= Time::MAX.as_millis()).map(Time::from_millis)
    }

    pub(super) fn last_between(self, after: Time, until: Time) -> Option<Time> {
        if until < self.from {
            return None;
        }
        Some(Time::from_millis(self.last_until(until.as_millis()))).filter(|tick| *tick > after)
    }

    /// The latest tick at or before `until`; `until` is not before `from`.
    fn last_until(self, until: i64) -> i64 {
        let passed = until - self.from.as_millis();
        until - passed % self.every.as_millis() as i64
    }
}

fn read_span(line: &ScheduleText<'_>, word: &ScheduleWord<'_>) -> Result<Span, Invalid> {
    let invalid = || {
        let message =
            format!("`{}` is not a duration such as `90s`, `15m` or `1h30m`", excerpt(word.text));
        line.syntax(word.at, message)
    };
    let (mut rest, mut units, mut total) = (word.text, &UNITS[..], 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, tail) = tail.split_at(letters);
        let index = units.iter().position(|(name, _)| *name == unit).ok_or_else(invalid)?;
        let count: u64 = match count.parse() {
            Ok(count) => count,
            Err(_) if count.is_empty() => return Err(invalid()),
            Err(_) => u64::MAX,
        };
        total = total.saturating_add(count.saturating_mul(units[index].1));
        (rest, units) = (tail, &units[index + 1..]);
    }
    Ok(Span::from_millis(total))
}

fn read_time(line: &ScheduleText<'_>, word: &ScheduleWord<'_>) -> Result<Time, Invalid> {
    let stamp: Timestamp = word.text.parse().map_err(|_| {
        let message = format!("`{}` is not a time: 2026-01-01T00:00:00Z", excerpt(word.text));
        line.syntax(word.at, message)
    })?;
    if stamp.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(line.syntax(word.at, "a time has at most three decimal places"));
    }
    if stamp < Timestamp::UNIX_EPOCH {
        return Err(line.error(Code::TimeRange, word.at, "a time must not be before 1970"));
    }
    Ok(Time::from_millis(stamp.as_millisecond()))
}

/// Writes a span in the longest unit that divides it.
struct IntervalText(Span);

impl fmt::Display for IntervalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let fits = |(_, length): &&(&str, u64)| millis != 0 && millis.is_multiple_of(*length);
        let (unit, length) = UNITS.iter().find(fits).unwrap_or(&("s", 1000));
        write!(f, "{}{unit}", millis / length)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", IntervalText(self.every))?;
        if self.from == Time::ZERO {
            return Ok(());
        }
        let from = Timestamp::from_millisecond(self.from.as_millis()).map_err(|_| fmt::Error)?;
        write!(f, " from {from}")
    }
}
