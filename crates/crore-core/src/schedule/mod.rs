//! Schedules: when a job is to be pushed again and again.
//!
//! A schedule is written as one line of text, and that text is also how it is stored:
//!
//! ```text
//! cron 0 3 * * * in Europe/Berlin
//! every 90s
//! every 15m from 2026-01-01T00:00:00Z
//! ```
//!
//! The instants at which a schedule fires are its *ticks*. They follow from the text alone, so that
//! every node finds the same ones, and a tick is the same whether it is found from before
//! ([`Timing::next_after`]) or from behind ([`Timing::last_between`]).

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
pub use missed::{Due, GRACE, Missed, due};
pub use text::MAX_TEXT;

use crate::code::Invalid;
use crate::time::Time;
use text::Line;

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Timing {
    /// At the times of a calendar and a clock on the wall.
    Cron(Cron),
    /// At even distances.
    Every(Interval),
}

impl Timing {
    /// Reads the text form; `field` is what an error is about. Whatever this accepts, `Display`
    /// writes in a form that reads back as the same timing.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let line = Line::new(field, text)?;
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

    /// The first tick after `after`, or `None` if there is none before [`Time::MAX`], or none for a
    /// hundred years.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        match self {
            Self::Cron(cron) => cron.next_after(after),
            Self::Every(interval) => interval.next_after(after),
        }
    }

    /// The newest tick that is later than `after` and not later than `until`. The cost does not
    /// depend on how many ticks lie between the two.
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
