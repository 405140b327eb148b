//! Cron: `0 3 * * *`, on the wall clocks of a time zone.

use std::fmt;
use std::sync::Arc;

use super::calendar::Calendar;
use super::fields::Fields;
use super::text::{Line, MAX_TEXT, Word};
use super::zone::{Stretch, Zone};
use crate::code::{Code, Invalid, excerpt};
use crate::time::Time;

/// How long a search goes on. A leap day that is a Monday can be 40 years away; what has not come
/// after a hundred years is a time of day that its zone leaves out every year.
const HORIZON: i64 = 100 * 366 * 86_400;

/// The last second that crore knows.
const LAST: i64 = Time::MAX.as_millis() / 1000;

/// A cron text in a time zone, UTC unless said. Cloning shares it.
///
/// Five fields (minute, hour, day of month, month, day of week) or six (second first), or a
/// nickname such as `@daily`. When neither the day of month nor the day of week is a bare `*` or
/// `?`, either may match; `+` in front of the day of week asks for both.
///
/// **When clocks change**, Vixie cron's rules hold. A cron with a `*` in its second, minute or hour
/// (`*/15 * * * *`, `0 * * * *`) means "again and again": it fires whenever the clock on the wall
/// shows a matching time, so never in an hour that is left out and twice in one that is repeated.
/// Any other (`30 2 * * *`, `0,30 1-3 * * *`) means times of day: those that are left out fire
/// once, together, the moment the clocks have jumped, and those that are repeated fire the first
/// time only.
#[derive(Clone)]
pub struct Cron {
    text: Arc<str>,
    zone: Zone,
    calendar: Arc<Calendar>,
    repeats: bool,
}

impl Cron {
    /// Reads cron fields and the name of a zone; `field` is what an error is about, and its
    /// position is one in `fields`.
    pub fn new(field: &str, fields: &str, zone: Option<&str>) -> Result<Self, Invalid> {
        let line = Line::new(field, fields)?;
        let found = zone.map_or(Ok(Zone::utc()), |name| {
            Zone::find(name).ok_or_else(|| Invalid::new(Code::ZoneUnknown, field, unknown(name)))
        })?;
        let cron = Self::build(&line, &line.words, found)?;
        // Text and zone have to fit into one line, or the timing could be written but not read.
        match format!("cron {cron}").chars().nth(MAX_TEXT) {
            Some(_) => Err(line.too_long()),
            None => Ok(cron),
        }
    }

    /// Reads what stands behind the word `cron`.
    pub(super) fn read(line: &Line<'_>, words: &[Word<'_>]) -> Result<Self, Invalid> {
        let Some(place) = words.iter().position(|word| word.text == "in") else {
            return Self::build(line, words, Zone::utc());
        };
        let name = match &words[place + 1..] {
            [name] => name,
            [] => return Err(line.syntax(line.end, "`in` needs a time zone: Europe/Berlin")),
            [_, extra, ..] => {
                let message = format!("`{}` has no place here", excerpt(extra.text));
                return Err(line.syntax(extra.at, message));
            }
        };
        let zone = Zone::find(name.text)
            .ok_or_else(|| line.error(Code::ZoneUnknown, name.at, unknown(name.text)))?;
        Self::build(line, &words[..place], zone)
    }

    fn build(line: &Line<'_>, words: &[Word<'_>], zone: Zone) -> Result<Self, Invalid> {
        let fields = Fields::read(line, words)?;
        let at = words.first().map_or(line.end, |word| word.at);
        let calendar =
            Calendar::new(&fields.numbers).map_err(|message| line.syntax(at, message))?;
        if calendar.is_empty() {
            let message = "no year has such a day, so it would never fire";
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
        let mut stretch = self.zone.stretch_at(first);
        loop {
            if let Some(tick) = self.first_in(stretch, first) {
                return (tick <= LAST).then(|| Time::from_millis(tick * 1000));
            }
            if stretch.end > LAST || stretch.end - first > HORIZON {
                return None;
            }
            stretch = self.zone.stretch_at(stretch.end);
        }
    }

    pub(super) fn last_between(&self, after: Time, until: Time) -> Option<Time> {
        let first = after.as_millis() / 1000 + 1;
        let mut last = until.as_millis() / 1000;
        while last >= first {
            let stretch = self.zone.stretch_at(last);
            if let Some(tick) = self.last_in(stretch, first, last) {
                return Some(Time::from_millis(tick * 1000));
            }
            last = stretch.start - 1;
        }
        None
    }

    /// The first tick of a stretch that is not before `first`.
    fn first_in(&self, stretch: Stretch, first: i64) -> Option<i64> {
        if first <= stretch.start && self.fires_after_gap(stretch) {
            return Some(stretch.start);
        }
        let start = self.civil_start(stretch).max(first + stretch.offset);
        let civil = self.calendar.first_in(start..stretch.end + stretch.offset)?;
        Some(civil - stretch.offset)
    }

    /// The last tick of a stretch that is between `first` and `last`, which is in the stretch.
    fn last_in(&self, stretch: Stretch, first: i64, last: i64) -> Option<i64> {
        let start = self.civil_start(stretch).max(first + stretch.offset);
        let civil = self.calendar.last_in(start..last + 1 + stretch.offset);
        civil.map(|civil| civil - stretch.offset).or_else(|| {
            (first <= stretch.start && self.fires_after_gap(stretch)).then_some(stretch.start)
        })
    }

    /// The first civil second of a stretch that may fire: times of day that the stretch repeats
    /// from the one before have had their turn.
    fn civil_start(&self, stretch: Stretch) -> i64 {
        let offset = match self.repeats {
            true => stretch.offset,
            false => stretch.offset.max(stretch.before),
        };
        stretch.start + offset
    }

    /// Whether a time of day was left out when this stretch began.
    fn fires_after_gap(&self, stretch: Stretch) -> bool {
        let gap = stretch.start + stretch.before..stretch.start + stretch.offset;
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
