//! Text form of durations, sizes and instants: `30s`, `1h30m`, `64MiB`, `2026-11-15T08:00:00Z`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crore_core::code::excerpt;
pub use crore_core::units::Size;
use crore_core::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration as a field of the API: `30s`, `1h30m`, `250ms`. A plain [`Span`] serializes as a number of
/// milliseconds, as in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Span);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An RFC 3339 instant with a zone. An instant before 1970 is clamped to 1970; a leap second becomes the previous
/// second.
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

as_text!(Period Moment);

#[cfg(test)]
mod tests {
    use super::*;

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
