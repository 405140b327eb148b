//! The local times that match a cron expression, without a time zone.
//!
//! A *civil second* counts from 1970-01-01 00:00:00 local time.

use std::ops::Range;

use croner::parser::{CronParser, Seconds, Year};
use croner::{CronPattern, Weekday};
use jiff::SignedDuration;
use jiff::civil::Date;

const DAY: i64 = 86_400;
/// The last civil second of the year 9999, the end of the range of dates.
const LAST: i64 = 253_402_300_799;

/// The matching days, and the matching seconds of a day.
pub(super) struct Calendar {
    /// Used for days only: it implements `L`, `W` and `#`, and matches the day of month *or* the day of week
    /// when neither is `*`.
    days: CronPattern,
    hours: Bits,
    minutes: Bits,
    seconds: Bits,
}

impl Calendar {
    /// Parses six numeric fields.
    pub(super) fn new(numbers: &str) -> Result<Self, String> {
        let parser =
            CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let days = parser.parse(numbers).map_err(|e| e.to_string())?.pattern;
        let (hours, minutes, seconds) =
            (Bits::of(&days.hours), Bits::of(&days.minutes), Bits::of(&days.seconds));
        Ok(Self { days, hours, minutes, seconds })
    }

    /// Whether no day matches. Years differ only in length and first weekday, and the 28 years from 2000
    /// contain every such pair.
    pub(super) fn is_empty(&self) -> bool {
        let start = 10_957 * DAY;
        self.first_in(start..start + (28 * 365 + 7) * DAY).is_none()
    }

    /// The first matching civil second of `window`.
    pub(super) fn first_in(&self, window: Range<i64>) -> Option<i64> {
        let (mut day, mut from) = (window.start.div_euclid(DAY), window.start.rem_euclid(DAY));
        let mut date = date(day)?;
        while day * DAY < window.end {
            if self.has(date)
                && let Some(second) = self.first_from(from)
            {
                return Some(day * DAY + second).filter(|at| *at < window.end);
            }
            let next = match self.has_month(date) {
                true => date.tomorrow().ok()?,
                false => date.last_of_month().tomorrow().ok()?,
            };
            day += days_between(date, next);
            (date, from) = (next, 0);
        }
        None
    }

    /// The last matching civil second of `window`.
    pub(super) fn last_in(&self, window: Range<i64>) -> Option<i64> {
        let newest = (window.end - 1).min(LAST);
        let (mut day, mut until) = (newest.div_euclid(DAY), newest.rem_euclid(DAY));
        let mut date = date(day)?;
        while (day + 1) * DAY > window.start {
            if self.has(date)
                && let Some(second) = self.last_until(until)
            {
                return Some(day * DAY + second).filter(|at| *at >= window.start);
            }
            let previous = match self.has_month(date) {
                true => date.yesterday().ok()?,
                false => date.first_of_month().yesterday().ok()?,
            };
            day -= days_between(previous, date);
            (date, until) = (previous, DAY - 1);
        }
        None
    }

    fn has_month(&self, date: Date) -> bool {
        self.days.month_match(date.month() as u32).unwrap_or(false)
    }

    fn has(&self, date: Date) -> bool {
        let weekday = Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset() as u32);
        let (year, month, day) = (i32::from(date.year()), date.month() as u32, date.day() as u32);
        self.has_month(date) && self.days.day_match(year, month, day, weekday).unwrap_or(false)
    }

    /// The first matching second of a day at or after `second`.
    fn first_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = split(second);
        let same_minute = || Some((hour, minute, self.seconds.from(second)?));
        let same_hour = || Some((hour, self.minutes.from(minute + 1)?, self.seconds.from(0)?));
        let later = || {
            let hour = self.hours.from(hour + 1)?;
            Some((hour, self.minutes.from(0)?, self.seconds.from(0)?))
        };
        let here = self.hours.has(hour);
        let now = (here && self.minutes.has(minute)).then(same_minute).flatten();
        now.or_else(|| here.then(same_hour).flatten()).or_else(later).map(join)
    }

    /// The last matching second of a day at or before `second`.
    fn last_until(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = split(second);
        let same_minute = || Some((hour, minute, self.seconds.below(second + 1)?));
        let same_hour = || Some((hour, self.minutes.below(minute)?, self.seconds.below(60)?));
        let earlier = || {
            let hour = self.hours.below(hour)?;
            Some((hour, self.minutes.below(60)?, self.seconds.below(60)?))
        };
        let here = self.hours.has(hour);
        let now = (here && self.minutes.has(minute)).then(same_minute).flatten();
        now.or_else(|| here.then(same_hour).flatten()).or_else(earlier).map(join)
    }
}

fn split(second: i64) -> (u32, u32, u32) {
    ((second / 3600) as u32, (second / 60 % 60) as u32, (second % 60) as u32)
}

fn join((hour, minute, second): (u32, u32, u32)) -> i64 {
    i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
}

fn date(day: i64) -> Option<Date> {
    Date::constant(1970, 1, 1).checked_add(SignedDuration::from_secs(day.checked_mul(DAY)?)).ok()
}

fn days_between(first: Date, last: Date) -> i64 {
    first.duration_until(last).as_secs() / DAY
}

/// A set of numbers below 60.
#[derive(Clone, Copy)]
struct Bits(u64);

impl Bits {
    fn of(field: &croner::CronComponent) -> Self {
        Self(field.values().into_iter().fold(0, |bits, value| bits | 1 << value))
    }

    fn has(self, value: u32) -> bool {
        self.0 >> value & 1 == 1
    }

    /// The smallest member at or above `least`, which is at most 60.
    fn from(self, least: u32) -> Option<u32> {
        let rest = self.0 >> least;
        (rest != 0).then(|| least + rest.trailing_zeros())
    }

    /// The largest member below `end`, which is at most 60.
    fn below(self, end: u32) -> Option<u32> {
        (self.0 & ((1 << end) - 1)).checked_ilog2()
    }
}
