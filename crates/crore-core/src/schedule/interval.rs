//! Intervals: `every 90s`, `every 15m from 2026-01-01T00:00:00Z`.

use std::fmt;

use jiff::Timestamp;

use super::text::{Line, Word};
use crate::code::{Code, Invalid, excerpt};
use crate::time::{Span, Time};

/// The shortest interval.
pub const MIN_EVERY: Span = Span::from_secs(1);
/// The longest interval: 366 days.
pub const MAX_EVERY: Span = Span::from_secs(366 * 86_400);

/// The units of a span's text, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Ticks at `from`, `from + every`, `from + 2·every` and so on. They are counted from `from` and
/// never from the tick before, so that a late push, a restart or a missed tick moves no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    every: Span,
    from: Time,
}

impl Interval {
    /// An interval of 1 second to 366 days; `field` is what an error is about.
    pub fn new(field: &str, every: Span, from: Time) -> Result<Self, Invalid> {
        if every < MIN_EVERY {
            let message = format!("`{}` is shorter than a second", Words(every));
            return Err(Invalid::new(Code::ScheduleTooOften, field, message));
        }
        if every > MAX_EVERY {
            let message = format!("`{}` is longer than 366 days", Words(every));
            return Err(Invalid::new(Code::TimeRange, field, message));
        }
        if Timestamp::from_millisecond(from.as_millis()).is_err() {
            let message = "`from` is later than a date can be written";
            return Err(Invalid::new(Code::TimeRange, field, message));
        }
        Ok(Self { every, from })
    }

    /// The distance of two ticks.
    pub fn every(self) -> Span {
        self.every
    }

    /// The first tick.
    pub fn from(self) -> Time {
        self.from
    }

    /// Reads what stands behind the word `every`.
    pub(super) fn read(line: &Line<'_>, words: &[Word<'_>]) -> Result<Self, Invalid> {
        let (every, from) = match words {
            [every] => (every, None),
            [every, Word { text: "from", .. }, from] => (every, Some(from)),
            [] => return Err(line.syntax(line.end, "`every` needs a span such as `90s`")),
            [_, Word { text: "from", .. }] => {
                return Err(line.syntax(line.end, "`from` needs a time: 2026-01-01T00:00:00Z"));
            }
            [_, Word { text: "from", .. }, _, extra, ..] | [_, extra, ..] => {
                let message = format!("`{}` has no place here", excerpt(extra.text));
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

    /// The newest tick at or before `until`, which is not before `from`.
    fn last_until(self, until: i64) -> i64 {
        let passed = until - self.from.as_millis();
        until - passed % self.every.as_millis() as i64
    }
}

fn read_span(line: &Line<'_>, word: &Word<'_>) -> Result<Span, Invalid> {
    let wrong = || {
        let message =
            format!("`{}` is not a span such as `90s`, `15m` or `1h30m`", excerpt(word.text));
        line.syntax(word.at, message)
    };
    let (mut rest, mut units, mut total) = (word.text, &UNITS[..], 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, tail) = tail.split_at(letters);
        let place = units.iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let count: u64 = match count.parse() {
            Ok(count) => count,
            Err(_) if count.is_empty() => return Err(wrong()),
            Err(_) => u64::MAX,
        };
        total = total.saturating_add(count.saturating_mul(units[place].1));
        (rest, units) = (tail, &units[place + 1..]);
    }
    Ok(Span::from_millis(total))
}

fn read_time(line: &Line<'_>, word: &Word<'_>) -> Result<Time, Invalid> {
    let stamp: Timestamp = word.text.parse().map_err(|_| {
        let message = format!("`{}` is not a time: 2026-01-01T00:00:00Z", excerpt(word.text));
        line.syntax(word.at, message)
    })?;
    if stamp.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(line.syntax(word.at, "a time has no more than three decimals"));
    }
    if stamp < Timestamp::UNIX_EPOCH {
        return Err(line.error(Code::TimeRange, word.at, "a time is not before 1970"));
    }
    Ok(Time::from_millis(stamp.as_millisecond()))
}

/// Writes a span in the longest unit that leaves no rest.
struct Words(Span);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let fits = |(_, length): &&(&str, u64)| millis != 0 && millis.is_multiple_of(*length);
        let (unit, length) = UNITS.iter().find(fits).unwrap_or(&("s", 1000));
        write!(f, "{}{unit}", millis / length)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Words(self.every))?;
        if self.from == Time::ZERO {
            return Ok(());
        }
        let from = Timestamp::from_millisecond(self.from.as_millis()).map_err(|_| fmt::Error)?;
        write!(f, " from {from}")
    }
}
