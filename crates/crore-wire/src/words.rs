//! Times and sizes as people write them: `30s`, `1h30m`, `64MiB`, `2026-11-15T08:00:00Z`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crore_core::code::excerpt;
use crore_core::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds of each unit of time, the longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Bytes of each unit of size, the largest first.
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
    ("B", 1),
];

/// A length of time in words: `30s`, `1h30m`, `250ms`. The units are `d`, `h`, `m`, `s` and `ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Span);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{}` is not a length of time such as `30s` or `1h30m`", excerpt(text));
        let mut millis: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (number, after) = number(rest).ok_or_else(wrong)?;
            let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, left) = after.split_at_checked(end).ok_or_else(wrong)?;
            let of = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            millis =
                number.checked_mul(of).and_then(|n| millis.checked_add(n)).ok_or_else(wrong)?;
            rest = left;
        }
        if text.is_empty() { Err(wrong()) } else { Ok(Self(Span::from_millis(millis))) }
    }
}

impl Period {
    /// In its two longest units, for people: `1h59m` of what is a little less than two hours.
    pub fn roughly(self) -> String {
        let mut rest = self.0.as_millis();
        let mut said = String::new();
        let longest = UNITS.iter().position(|(_, of)| rest >= *of).unwrap_or(UNITS.len());
        for (unit, of) in UNITS.iter().skip(longest).take(2) {
            if rest >= *of {
                said += &format!("{}{unit}", rest / of);
            }
            rest %= of;
        }
        if said.is_empty() { "0s".to_owned() } else { said }
    }
}

impl fmt::Display for Period {
    /// In the longest unit that says it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let exact = UNITS.iter().find(|(_, of)| millis >= *of && millis.is_multiple_of(*of));
        let (unit, of) = exact.copied().unwrap_or(("s", 1000));
        write!(f, "{}{unit}", millis / of)
    }
}

/// A number of bytes in words: `64MiB`, `1000B`, or the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a size such as `64MiB` or `500KB`", excerpt(text));
        let (number, unit) = number(text).ok_or_else(wrong)?;
        let unit = if unit.is_empty() { "B" } else { unit };
        let of = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        number.checked_mul(of).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZES.iter().find(|(_, of)| self.0 >= *of && self.0.is_multiple_of(*of));
        let (unit, of) = exact.copied().unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / of)
    }
}

/// An instant by RFC 3339, with a zone. One before 1970 is 1970; a leap second is the second before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Time);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = excerpt(text);
            format!("`{text}` is not an instant with a zone, such as `2026-11-15T08:00:00Z`")
        };
        if text.len() > 40 {
            return Err(wrong());
        }
        let instant: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
        Ok(Self(Time::from_millis(instant.as_millisecond())))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{millis}"),
        }
    }
}

/// The digits at the start of a text, and what follows.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

macro_rules! as_text {
    ($($name:ident)+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

as_text!(Period Size Moment);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_told_roughly_in_its_two_longest_units() {
        for (millis, said) in [
            (0, "0s"),
            (7, "7ms"),
            (1_007, "1s7ms"),
            (60_000, "1m"),
            (7_199_914, "1h59m"),
            (7_200_000, "2h"),
            (86_400_999, "1d"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(Period(Span::from_millis(millis)).roughly(), said);
        }
    }

    #[test]
    fn lengths_of_time_are_read_and_written() {
        for (text, millis, written) in [
            ("30s", 30_000, "30s"),
            ("1h30m", 5_400_000, "90m"),
            ("250ms", 250, "250ms"),
            ("60s", 60_000, "1m"),
            ("2d", 172_800_000, "2d"),
            ("0s", 0, "0s"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!((period.0.as_millis(), period.to_string()), (millis, written.to_owned()));
        }
        for bad in ["", "s", "10", "-1s", "1.5s", "1 s", "1w", "99999999999999999999s", "1s2"] {
            assert!(bad.parse::<Period>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("1000B", 1000), ("17", 17), ("3GB", 3_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        assert_eq!(Size(64 << 20).to_string(), "64MiB");
        for bad in ["", "MiB", "-1", "1.5MiB", "1TiB", "99999999999GiB"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn instants_need_a_zone_and_a_day_that_exists() {
        let millis = |text: &str| text.parse::<Moment>().map(|moment| moment.0.as_millis());
        assert_eq!(millis("1970-01-01T00:00:01.5Z"), Ok(1500));
        assert_eq!(millis("1970-01-01T01:00:00+01:00"), Ok(0));
        assert_eq!(millis("1969-12-31T00:00:00Z"), Ok(0));
        assert_eq!(millis("2016-12-31T23:59:60Z"), millis("2016-12-31T23:59:59Z"));
        for bad in
            ["2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "10000-01-01T00:00:00Z", "now", ""]
        {
            assert!(millis(bad).is_err(), "{bad}");
        }
        assert_eq!(Moment(Time::from_millis(1500)).to_string(), "1970-01-01T00:00:01.500Z");
    }
}
