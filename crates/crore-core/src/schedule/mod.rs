//! Schedules: cron expressions and intervals that push recurring jobs.
//!
//! A schedule is written, and stored, as one line of text:
//!
//! ```text
//! cron 0 3 * * * in Europe/Berlin
//! every 90s
//! every 15m from 2026-01-01T00:00:00Z
//! ```
//!
//! The instants at which a schedule fires are its *ticks*. They depend on the text alone, so that every
//! node computes the same ones. Searching forwards ([`Timing::next_after`]) and backwards
//! ([`Timing::last_between`]) gives the same ticks.

mod calendar;
mod cron;
mod fields;
mod interval;
mod missed;
#[cfg(test)]
mod tests;
mod text;
mod zone;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use cron::Cron;
pub use interval::{Interval, MAX_EVERY, MIN_EVERY};
pub use missed::{DueTicks, GRACE, Missed, due};
pub use text::MAX_TEXT;

use crate::code::Invalid;
use crate::time::Time;
use text::ScheduleText;

/// Label of a job that a schedule pushed: the name of the schedule.
pub const SCHEDULE_LABEL: &str = "crore.schedule";

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Timing {
    /// At local times of a calendar.
    Cron(Cron),
    /// At a fixed interval.
    Every(Interval),
}

impl Timing {
    /// Parses the text form; errors name `field`. `Display` of the result parses back to the same timing.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let line = ScheduleText::new(field, text)?;
        match line.words.split_first() {
            Some((first, rest)) if first.text == "cron" => Cron::read(&line, rest).map(Self::Cron),
            Some((first, rest)) if first.text == "every" => {
                Interval::read(&line, rest).map(Self::Every)
            }
            _ => {
                let at = line.words.first().map_or(0, |word| word.at);
                Err(line.syntax(at, "a schedule starts with `cron` or `every`"))
            }
        }
    }

    /// The first tick after `after`; `None` if there is none before [`Time::MAX`] or within a hundred
    /// years.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        match self {
            Self::Cron(cron) => cron.next_after(after),
            Self::Every(interval) => interval.next_after(after),
        }
    }

    /// The latest tick after `after` and up to `until`. The cost does not depend on the number of ticks
    /// in between.
    pub fn last_between(&self, after: Time, until: Time) -> Option<Time> {
        match self {
            Self::Cron(cron) => cron.last_between(after, until),
            Self::Every(interval) => interval.last_between(after, until),
        }
    }

    /// The first `n` ticks after `after`; fewer if the schedule ends. The caller caps `n`.
    pub fn preview(&self, after: Time, n: usize) -> Vec<Time> {
        std::iter::successors(self.next_after(after), |tick| self.next_after(*tick))
            .take(n)
            .collect()
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => write!(f, "cron {cron}"),
            Self::Every(interval) => write!(f, "every {interval}"),
        }
    }
}

impl TryFrom<String> for Timing {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse("schedule", &text)
    }
}

impl From<Timing> for String {
    fn from(timing: Timing) -> Self {
        timing.to_string()
    }
}
