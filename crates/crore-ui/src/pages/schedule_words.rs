//! The timing of a schedule in plain words, where it has a common form.

use crore_core::schedule::{Cron, Timing};

use crate::html::format::span;
use crate::text::{Texts, fill};

/// The words for a timing; `None`: it has no simple form.
pub(super) fn words(text: &Texts, timing: &Timing) -> Option<String> {
    match timing {
        Timing::Every(interval) => Some(fill(text.every, &[&span(text, interval.every())])),
        Timing::Cron(cron) => cron_words(text, cron),
    }
}

/// The zone of a timing; an interval counts in UTC.
pub(super) fn zone(timing: &Timing) -> &str {
    match timing {
        Timing::Cron(cron) => cron.zone(),
        Timing::Every(_) => "UTC",
    }
}

fn cron_words(text: &Texts, cron: &Cron) -> Option<String> {
    let fields: Vec<&str> = cron.fields().split_whitespace().collect();
    let (minute, hour, day, month, weekday) = match fields.as_slice() {
        [minute, hour, day, month, weekday] | ["0", minute, hour, day, month, weekday] => {
            (*minute, *hour, *day, *month, *weekday)
        }
        _ => return None,
    };
    if month != "*" {
        return None;
    }
    let at =
        number(minute).zip(number(hour)).map(|(minute, hour)| format!("{hour:02}:{minute:02}"));
    match (at, day, weekday) {
        (Some(at), "*", "*") => Some(fill(text.daily_at, &[&at])),
        (Some(at), "*", "1-5" | "MON-FRI" | "mon-fri") => Some(fill(text.workdays_at, &[&at])),
        (Some(at), "*", weekday) => {
            let names: Vec<&str> = text.weekdays.split(' ').collect();
            let name = names.get(usize::try_from(number(weekday)? % 7).ok()?)?;
            Some(fill(text.weekly_at, &[name, &at]))
        }
        (Some(at), day, "*") => Some(fill(text.monthly_at, &[&number(day)?, &at])),
        (None, "*", "*") => frequent(text, minute, hour),
        _ => None,
    }
}

/// Ticks that repeat within a day.
fn frequent(text: &Texts, minute: &str, hour: &str) -> Option<String> {
    let step = |field: &str| number(field.strip_prefix("*/")?);
    match (number(minute), hour) {
        (Some(minute), "*") => Some(fill(text.hourly_at, &[&format!("{minute:02}")])),
        (Some(minute), hour) => {
            Some(fill(text.every_hours_at, &[&step(hour)?, &format!("{minute:02}")]))
        }
        (None, "*") if minute == "*" => Some(text.every_minute.to_owned()),
        (None, "*") => Some(fill(text.every_minutes, &[&step(minute)?])),
        _ => None,
    }
}

fn number(field: &str) -> Option<u32> {
    field.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ENGLISH;

    #[test]
    fn common_timings_have_words() {
        for (timing, expected) in [
            ("every 15m", Some("every 15 min")),
            ("cron 0 3 * * * in Europe/Berlin", Some("every day at 03:00")),
            ("cron 30 8 * * 1-5", Some("Monday to Friday at 08:30")),
            ("cron 0 9 * * 1", Some("every Monday at 09:00")),
            ("cron 0 0 1 * *", Some("on day 1 of every month at 00:00")),
            ("cron */5 * * * *", Some("every 5 minutes")),
            ("cron * * * * *", Some("every minute")),
            ("cron 15 * * * *", Some("every hour at minute 15")),
            ("cron 0 */6 * * *", Some("every 6 hours, at minute 00")),
            ("cron 0 3 * 2 *", None),
            ("cron 0 3 1-7 * 1", None),
        ] {
            let parsed = Timing::parse("timing", timing).unwrap();
            assert_eq!(words(&ENGLISH, &parsed).as_deref(), expected, "{timing}");
        }
    }
}
