//! Parses the fields of a cron expression and converts them to numbers.
//!
//! | field | values | besides `*`, lists, ranges and steps |
//! |---|---|---|
//! | second (optional) | 0-59 | |
//! | minute | 0-59 | |
//! | hour | 0-23 | |
//! | day of month | 1-31 | `?`, `L` last day, `LW` last weekday, `15W` weekday nearest the 15th |
//! | month | 1-12, JAN-DEC | |
//! | day of week | 0-7, SUN-SAT | `?`, `FRI#2` second Friday, `FRI#L` or `FRIL` last Friday |
//!
//! Sunday is 0 and 7. A `+` in front of the day of week requires both days to match. Steps follow
//! `*` or a range (`*/15`, `10-50/20`); a step larger than the range (`*/90` minutes) is refused, and so
//! is a seventh field, the year. `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`
//! and `@hourly` stand for five fields.

use super::text::{ScheduleText, ScheduleWord};
use crate::code::{Invalid, excerpt};

/// Six numeric fields, seconds first.
pub(super) struct CronFields {
    pub(super) numbers: String,
    /// Whether second, minute or hour has a `*`: the schedule is periodic, not a time of day.
    pub(super) repeats: bool,
}

struct CronFieldSpec {
    name: &'static str,
    min: u16,
    max: u16,
    names: &'static [&'static str],
}

const SPECS: [CronFieldSpec; 6] = [
    CronFieldSpec { name: "second", min: 0, max: 59, names: &[] },
    CronFieldSpec { name: "minute", min: 0, max: 59, names: &[] },
    CronFieldSpec { name: "hour", min: 0, max: 23, names: &[] },
    CronFieldSpec { name: "day of month", min: 1, max: 31, names: &[] },
    CronFieldSpec { name: "month", min: 1, max: 12, names: &MONTHS },
    CronFieldSpec { name: "day of week", min: 0, max: 7, names: &DAYS },
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl CronFields {
    pub(super) fn read(
        line: &ScheduleText<'_>,
        words: &[ScheduleWord<'_>],
    ) -> Result<Self, Invalid> {
        if let [ScheduleWord { at, text }] = words
            && text.starts_with('@')
        {
            return nickname(text).ok_or_else(|| {
                line.syntax(*at, format!("`{}` is not a nickname such as `@daily`", excerpt(text)))
            });
        }
        let specs = match words.len() {
            5 => &SPECS[1..],
            6 => &SPECS[..],
            n => return Err(wrong_count(line, words, n)),
        };
        let mut numbers = String::from(if words.len() == 5 { "0" } else { "" });
        for (spec, word) in specs.iter().zip(words) {
            let field = spec.field(word.text).map_err(|(at, message)| {
                line.syntax(word.at + at, format!("{}: {message}", spec.name))
            })?;
            numbers.push(' ');
            numbers.push_str(&field);
        }
        let clocks = &words[..words.len() - 3];
        let repeats = clocks.iter().any(|word| word.text.contains('*'));
        Ok(Self { numbers, repeats })
    }
}

fn nickname(text: &str) -> Option<CronFields> {
    let numbers = match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 0 1 1 *",
        "@monthly" => "0 0 0 1 * *",
        "@weekly" => "0 0 0 * * 0",
        "@daily" | "@midnight" => "0 0 0 * * *",
        "@hourly" => return Some(CronFields { numbers: "0 0 * * * *".to_owned(), repeats: true }),
        _ => return None,
    };
    Some(CronFields { numbers: numbers.to_owned(), repeats: false })
}

fn wrong_count(line: &ScheduleText<'_>, words: &[ScheduleWord<'_>], n: usize) -> Invalid {
    match words.get(6) {
        Some(extra) if n == 7 => line.syntax(extra.at, "a year is not supported"),
        Some(extra) => line.syntax(extra.at, format!("{n} fields, 5 or 6 are expected")),
        None => line.syntax(line.end, format!("{n} fields, 5 or 6 are expected")),
    }
}

impl CronFieldSpec {
    /// Converts one field to numbers; an error has its offset in the field.
    fn field(&self, text: &str) -> Result<String, (usize, String)> {
        if text == "*" || (text == "?" && self.is_day()) {
            return Ok("*".to_owned());
        }
        let (plus, list) = match text.strip_prefix('+') {
            Some(list) if self.is_weekday() => ("+", list),
            _ => ("", text),
        };
        let (mut at, mut out) = (plus.len(), Vec::new());
        for item in list.split(',') {
            out.push(self.item(item).map_err(|message| (at, message))?);
            at += item.chars().count() + 1;
        }
        // croner has one flag for both, so the list would silently lose the plain `L`.
        if ["L", "LW"].iter().all(|last| out.iter().any(|item| item == last)) {
            return Err((0, "`L` and `LW` cannot be combined".to_owned()));
        }
        Ok(plus.to_owned() + &out.join(","))
    }

    fn item(&self, item: &str) -> Result<String, String> {
        if let Some((range, step)) = item.split_once('/') {
            let step = number(step)
                .filter(|n| (1..=self.max).contains(n))
                .ok_or_else(|| format!("step `{}` is not in 1-{}", excerpt(step), self.max))?;
            return match range {
                "*" => Ok(format!("*/{step}")),
                _ => Ok(format!("{}/{step}", self.range(range)?)),
            };
        }
        if item.contains('-') {
            return self.range(item);
        }
        self.special(item).unwrap_or_else(|| Ok(self.value(item)?.to_string()))
    }

    fn range(&self, text: &str) -> Result<String, String> {
        let (first, last) = text.split_once('-').ok_or_else(|| {
            format!("a step follows `*` or a range, and `{}` is neither", excerpt(text))
        })?;
        let first = self.value(first)?;
        let last = match self.value(last)? {
            0 if self.is_weekday() && first > 0 => 7,
            last => last,
        };
        if first > last {
            return Err(format!("range `{}` runs backwards", excerpt(text)));
        }
        Ok(format!("{first}-{last}"))
    }

    /// Items of day fields only: `L`, `LW`, `15W`, `FRI#2`, `FRI#L`, `FRIL`.
    fn special(&self, item: &str) -> Option<Result<String, String>> {
        let upper = item.to_ascii_uppercase();
        if self.is_weekday() {
            let (day, nth) =
                upper.split_once('#').or_else(|| Some((upper.strip_suffix('L')?, "L")))?;
            let known = matches!(nth, "1" | "2" | "3" | "4" | "5" | "L");
            return Some(match self.value(day) {
                Ok(_) if !known => Err(format!("`#{}` is not `#1` to `#5` or `#L`", excerpt(nth))),
                Ok(day) => Ok(format!("{}#{nth}", day % 7)),
                Err(message) => Err(message),
            });
        }
        match upper.as_str() {
            "L" | "LW" if self.is_day() => Some(Ok(upper)),
            _ if self.is_day() => {
                Some(self.value(upper.strip_suffix('W')?).map(|day| format!("{day}W")))
            }
            _ => None,
        }
    }

    /// A number or a name; Sunday is 0.
    fn value(&self, text: &str) -> Result<u16, String> {
        let named = self.names.iter().zip(self.min..);
        let by_name = named.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = by_name.map(|(_, value)| value).or_else(|| number(text));
        value
            .filter(|value| (self.min..=self.max).contains(value))
            .ok_or_else(|| format!("`{}` is not in {}-{}", excerpt(text), self.min, self.max))
    }

    fn is_day(&self) -> bool {
        self.max == 31 || self.is_weekday()
    }

    fn is_weekday(&self) -> bool {
        self.max == 7
    }
}

/// One to three digits, without sign or space.
fn number(text: &str) -> Option<u16> {
    let plain = (1..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<String, (Option<usize>, String)> {
        let line = ScheduleText::new("schedule", text).expect("short");
        let fields = CronFields::read(&line, &line.words);
        fields.map(|fields| fields.numbers).map_err(|e| (e.at, e.message))
    }

    #[test]
    fn fields_become_numbers() {
        for (text, expected) in [
            ("* * * * *", "0 * * * * *"),
            ("*/5 1-9/2 1,15,L jan-Mar MON-FRI", "0 */5 1-9/2 1,15,L 1-3 1-5"),
            ("30 0 3 ? DEC ?", " 30 0 3 * 12 *"),
            ("0 0 15W,LW * *", "0 0 0 15W,LW * *"),
            ("0 0 * * 7", "0 0 0 * * 7"),
            ("0 0 * * sat-sun,SUN-SUN", "0 0 0 * * 6-7,0-0"),
            ("0 0 * * FRI#2,fril,7#L,7L", "0 0 0 * * 5#2,5#L,0#L,0#L"),
            ("0 0 13 * +FRI", "0 0 0 13 * +5"),
            ("@Weekly", "0 0 0 * * 0"),
        ] {
            assert_eq!(numbers(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_points_at_the_item() {
        for (text, at) in [
            ("60 * * * *", 0),
            ("0 24 * * *", 2),
            ("0  0 1,2,32 * *", 9),
            ("0 0 1 13 *", 6),
            ("0 0 1 * 8", 8),
            ("0 0 1 * +MON,", 13),
            ("0 0 1 * * * 2030", 12),
            ("* * * * * * * *", 12),
            ("* * * *", 7),
            ("", 0),
            ("@every 5m", 9),
            ("@reboot", 0),
        ] {
            assert_eq!(numbers(text).map_err(|e| e.0), Err(Some(at)), "{text}");
        }
    }

    #[test]
    fn text_outside_the_grammar_is_refused() {
        for bad in [
            "1,,2", ",", "1,", "-", "1-", "-1", "5-1", "1-2-3", "1/2", "*/0", "*/60", "/5", "*/",
            "1-5/2/2", "*-5", "1,*", "**", "?", "+1", "0x1", "1.5", "0001", "MON", "JAN", "1MON",
            "L", "W", "5W", "1#1", "٣", "ſUN", "1\u{0}",
        ] {
            assert!(numbers(&format!("{bad} * * * *")).is_err(), "minute {bad}");
        }
        for bad in
            ["0", "W", "32W", "L,LW", "LL", "L-3", "1-5W", "W15", "15WW", "?,1", "?/2", "JAN"]
        {
            assert!(numbers(&format!("0 0 {bad} * *")).is_err(), "day of month {bad}");
        }
        for bad in ["0", "JANUARY", "JANFEB", "1FEB", "DEC-JAN", "L", "MON", "?"] {
            assert!(numbers(&format!("0 0 1 {bad} *")).is_err(), "month {bad}");
        }
        for bad in ["L", "#1", "MON#0", "MON#6", "1-3#2", "MON#", "SAT-MON", "MONTUE", "*#1", "ſUN"]
        {
            assert!(numbers(&format!("0 0 * * {bad}")).is_err(), "day of week {bad}");
        }
    }
}
