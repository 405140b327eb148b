//! Text form of durations and sizes: `30s`, `1h30m`, `64MiB`. The configuration, the API and the command
//! line all use this parser.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::code::excerpt;
use crate::time::Span;

/// Milliseconds of each time unit, longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Bytes of each size unit, largest first.
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

    /// Parses `30s`, `1h30m` or `250ms`. The units are `d`, `h`, `m`, `s` and `ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{}` is not a duration such as `30s` or `1h30m`", excerpt(text));
        let mut millis: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (number, after) = number(rest).ok_or_else(invalid)?;
            let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, left) = after.split_at_checked(end).ok_or_else(invalid)?;
            let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?.1;
            millis = number
                .checked_mul(factor)
                .and_then(|n| millis.checked_add(n))
                .ok_or_else(invalid)?;
            rest = left;
        }
        if text.is_empty() { Err(invalid()) } else { Ok(Self::from_millis(millis)) }
    }
}

impl Span {
    /// Rounded down to its two longest units, for display: `1h59m`.
    pub fn roughly(self) -> String {
        let mut rest = self.as_millis();
        let mut text = String::new();
        let longest = UNITS.iter().position(|(_, factor)| rest >= *factor).unwrap_or(UNITS.len());
        for (unit, factor) in UNITS.iter().skip(longest).take(2) {
            if rest >= *factor {
                text += &format!("{}{unit}", rest / factor);
            }
            rest %= factor;
        }
        if text.is_empty() { "0s".to_owned() } else { text }
    }
}

impl fmt::Display for Span {
    /// The longest unit that divides the span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.as_millis();
        let exact =
            UNITS.iter().find(|(_, factor)| millis >= *factor && millis.is_multiple_of(*factor));
        let (unit, factor) = exact.copied().unwrap_or(("s", 1000));
        write!(f, "{}{unit}", millis / factor)
    }
}

/// A number of bytes, written as `64MiB`, `1000B`, or the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// As `usize`, saturating.
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
        let invalid = || format!("`{}` is not a size such as `64MiB` or `500KB`", excerpt(text));
        let (number, unit) = number(text).ok_or_else(invalid)?;
        let unit = if unit.is_empty() { "B" } else { unit };
        let factor = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?.1;
        number.checked_mul(factor).map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact =
            SIZES.iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        let (unit, factor) = exact.copied().unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
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

/// Splits the leading digits off a text.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_to_its_two_longest_units() {
        for (millis, expected) in [
            (0, "0s"),
            (7, "7ms"),
            (1_007, "1s7ms"),
            (60_000, "1m"),
            (7_199_914, "1h59m"),
            (7_200_000, "2h"),
            (86_400_999, "1d"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(Span::from_millis(millis).roughly(), expected);
        }
    }

    #[test]
    fn durations_are_parsed_and_printed() {
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
    fn sizes_are_parsed_and_printed() {
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
