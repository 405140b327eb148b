//! Lengths of time and sizes as people write them: `30s`, `1h30m`, `64MiB`. The one parser of both, for the
//! configuration, the API and the command line.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::code::excerpt;
use crate::time::Span;

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

impl FromStr for Span {
    type Err = String;

    /// From `30s`, `1h30m` or `250ms`. The units are `d`, `h`, `m`, `s` and `ms`.
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
        if text.is_empty() { Err(wrong()) } else { Ok(Self::from_millis(millis)) }
    }
}

impl Span {
    /// In its two longest units, for people: `1h59m` of what is a little less than two hours.
    pub fn roughly(self) -> String {
        let mut rest = self.as_millis();
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

impl fmt::Display for Span {
    /// In the longest unit that says it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.as_millis();
        let exact = UNITS.iter().find(|(_, of)| millis >= *of && millis.is_multiple_of(*of));
        let (unit, of) = exact.copied().unwrap_or(("s", 1000));
        write!(f, "{}{unit}", millis / of)
    }
}

/// A number of bytes, written as `64MiB`, `1000B`, or the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// As a length in memory; one that does not fit there is as long as any can be.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl From<Size> for usize {
    fn from(size: Size) -> Self {
        size.bytes()
    }
}

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

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The digits at the start of a text, and what follows.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

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
            assert_eq!(Span::from_millis(millis).roughly(), said);
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
            let span: Span = text.parse().unwrap();
            assert_eq!((span.as_millis(), span.to_string()), (millis, written.to_owned()));
        }
        for bad in ["", "s", "10", "-1s", "1.5s", "1 s", "1w", "99999999999999999999s", "1s2"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
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
}
