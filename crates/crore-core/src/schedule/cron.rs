//! Cron expressions (`0 3 * * *`) in the local time of a zone.

use std::fmt;
use std::sync::Arc;

use super::calendar::Calendar;
use super::fields::CronFields;
use super::text::{MAX_TEXT, ScheduleText, ScheduleWord};
use super::zone::{OffsetPeriod, Zone};
use crate::code::{Code, Invalid, excerpt};
use crate::time::Time;

/// How far a search goes, in seconds. A leap day on a Monday can be 40 years away; an expression without a
/// match in a hundred years names a time of day that its zone skips every year.
const HORIZON: i64 = 100 * 366 * 86_400;

/// The last representable second.
const LAST: i64 = Time::MAX.as_millis() / 1000;

/// A cron expression in a time zone, UTC by default. Cloning shares it.
///
/// Five fields (minute, hour, day of month, month, day of week) or six (second first), or a
/// nickname such as `@daily`. When neither the day of month nor the day of week is a bare `*` or
/// `?`, either may match; `+` in front of the day of week requires both.
///
/// **Daylight saving changes** follow Vixie cron. An expression with a `*` in its second, minute or hour
/// (`*/15 * * * *`, `0 * * * *`) is periodic: it fires whenever the local time matches, so never in a
/// skipped hour and twice in a repeated one. Any other expression (`30 2 * * *`, `0,30 1-3 * * *`) names
/// times of day: skipped times fire once, together, right after the clocks have jumped, and repeated
/// times fire the first time only.
#[derive(Clone)]
pub struct Cron {
    text: Arc<str>,
    zone: Zone,
    calendar: Arc<Calendar>,
    repeats: bool,
}

impl Cron {
    /// Parses cron fields and a zone name. Errors name `field`, with an offset in `fields`.
    pub fn new(field: &str, fields: &str, zone: Option<&str>) -> Result<Self, Invalid> {
        let line = ScheduleText::new(field, fields)?;
        let found = zone.map_or(Ok(Zone::utc()), |name| {
            Zone::find(name).ok_or_else(|| Invalid::new(Code::ZoneUnknown, field, unknown(name)))
        })?;
        let cron = Self::build(&line, &line.words, found)?;
        // Fields and zone must fit into the maximum text, or the timing could be written but not parsed.
        match format!("cron {cron}").chars().nth(MAX_TEXT) {
            Some(_) => Err(line.too_long()),
            None => Ok(cron),
        }
    }

    /// Parses the text after `cron`.
    pub(super) fn read(
        line: &ScheduleText<'_>,
        words: &[ScheduleWord<'_>],
    ) -> Result<Self, Invalid> {
        let Some(index) = words.iter().position(|word| word.text == "in") else {
            return Self::build(line, words, Zone::utc());
        };
        let name = match &words[index + 1..] {
            [name] => name,
            [] => return Err(line.syntax(line.end, "`in` needs a time zone: Europe/Berlin")),
            [_, extra, ..] => {
                let message = format!("unexpected `{}`", excerpt(extra.text));
                return Err(line.syntax(extra.at, message));
            }
        };
        let zone = Zone::find(name.text)
            .ok_or_else(|| line.error(Code::ZoneUnknown, name.at, unknown(name.text)))?;
        Self::build(line, &words[..index], zone)
    }

    fn build(
        line: &ScheduleText<'_>,
        words: &[ScheduleWord<'_>],
        zone: Zone,
    ) -> Result<Self, Invalid> {
        let fields = CronFields::read(line, words)?;
        let at = words.first().map_or(line.end, |word| word.at);
        let calendar =
            Calendar::new(&fields.numbers).map_err(|message| line.syntax(at, message))?;
        if calendar.is_empty() {
            let message = "no year has such a day, so the schedule never fires";
            return Err(line.error(Code::ScheduleNever, at, message));
        }
        let words: Vec<_> = words.iter().map(|word| word.text).collect();
        let text = words.join(" ").into();
        Ok(Self { text, zone, calendar: Arc::new(calendar), repeats: fields.repeats })
    }

    /// The fields, or the nickname, with single spaces.
    pub fn fields(&self) -> &str {
        &self.text
    }

    /// The name of the time zone.
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    pub(super) fn next_after(&self, after: Time) -> Option<Time> {
        let first = after.as_millis() / 1000 + 1;
        let mut period = self.zone.period_at(first);
        loop {
            if let Some(tick) = self.first_in(period, first) {
                return (tick <= LAST).then(|| Time::from_millis(tick * 1000));
            }
            if period.end > LAST || period.end - first > HORIZON {
                return None;
            }
            period = self.zone.period_at(period.end);
        }
    }

    pub(super) fn last_between(&self, after: Time, until: Time) -> Option<Time> {
        let first = after.as_millis() / 1000 + 1;
        let mut last = until.as_millis() / 1000;
        while last >= first {
            let period = self.zone.period_at(last);
            if let Some(tick) = self.last_in(period, first, last) {
                return Some(Time::from_millis(tick * 1000));
            }
            last = period.start - 1;
        }
        None
    }

    /// The first tick of a period at or after `first`.
    fn first_in(&self, period: OffsetPeriod, first: i64) -> Option<i64> {
        if first <= period.start && self.fires_after_gap(period) {
            return Some(period.start);
        }
        let start = self.civil_start(period).max(first + period.offset);
        let civil = self.calendar.first_in(start..period.end + period.offset)?;
        Some(civil - period.offset)
    }

    /// The last tick of a period from `first` to `last`; `last` is in the period.
    fn last_in(&self, period: OffsetPeriod, first: i64, last: i64) -> Option<i64> {
        let start = self.civil_start(period).max(first + period.offset);
        let civil = self.calendar.last_in(start..last + 1 + period.offset);
        civil.map(|civil| civil - period.offset).or_else(|| {
            (first <= period.start && self.fires_after_gap(period)).then_some(period.start)
        })
    }

    /// The first civil second of a period that may fire: times of day repeated from the previous period
    /// have already fired.
    fn civil_start(&self, period: OffsetPeriod) -> i64 {
        let offset = match self.repeats {
            true => period.offset,
            false => period.offset.max(period.previous_offset),
        };
        period.start + offset
    }

    /// Whether a matching time of day was skipped when this period began.
    fn fires_after_gap(&self, period: OffsetPeriod) -> bool {
        let gap = period.start + period.previous_offset..period.start + period.offset;
        !self.repeats && !gap.is_empty() && self.calendar.first_in(gap).is_some()
    }
}

fn unknown(name: &str) -> String {
    format!("`{}` is not a time zone such as Europe/Berlin", excerpt(name))
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.zone == Zone::utc() {
            return Ok(());
        }
        write!(f, " in {}", self.zone.name())
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone) == (&other.text, &other.zone)
    }
}

impl Eq for Cron {}
