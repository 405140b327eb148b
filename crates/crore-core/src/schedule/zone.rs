//! Time zones, as periods with one UTC offset each.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A second after the end of every zone and calendar, with room to add an offset.
const FAR_FUTURE: i64 = 1 << 50;
/// How far back the start of a period is searched, in seconds. A longer period is cut there, without
/// effect: the offset does not change at the cut.
const LOOK_BACK: i64 = 400 * 86_400;

/// A zone of the bundled time zone database.
#[derive(Clone)]
pub(super) struct Zone(TimeZone);

/// A period with a constant UTC offset, in seconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct OffsetPeriod {
    /// First second.
    pub(super) start: i64,
    /// First second after the period.
    pub(super) end: i64,
    /// UTC offset in seconds.
    pub(super) offset: i64,
    /// UTC offset before the period began.
    pub(super) previous_offset: i64,
}

impl Zone {
    /// Looks up a zone, ignoring case, in the bundled database only: a name is never a path, and the zones
    /// of the host are not used.
    pub(super) fn find(name: &str) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        zone.iana_name().is_some().then_some(Self(zone))
    }

    pub(super) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The canonical name.
    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The period that contains `second`, starting at most [`LOOK_BACK`] earlier.
    ///
    /// Uses forward iteration only: iterating backwards, jiff reports transitions that did not happen for
    /// zones that have just changed their rule (Ciudad Juárez in December 2022).
    pub(super) fn period_at(&self, second: i64) -> OffsetPeriod {
        let mut start = second.saturating_sub(LOOK_BACK);
        let mut end = FAR_FUTURE;
        for change in self.0.following(stamp(start)) {
            let at = change.timestamp().as_second();
            if at > second {
                end = at;
                break;
            }
            start = at;
        }
        let (offset, before) = (self.offset_at(start), self.offset_at(start.saturating_sub(1)));
        OffsetPeriod { start, end, offset, previous_offset: before }
    }

    fn offset_at(&self, second: i64) -> i64 {
        i64::from(self.0.to_offset(stamp(second)).seconds())
    }
}

/// The nearest `Timestamp`. jiff's range ends a day before [`Time::MAX`](crate::time::Time::MAX), and no
/// zone has a transition on that day.
fn stamp(second: i64) -> Timestamp {
    let nearest = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(nearest).unwrap_or(Timestamp::MAX)
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_table_are_zones() {
        for good in ["UTC", "Etc/UTC", "Europe/Berlin", "US/Eastern", "Australia/Lord_Howe"] {
            assert_eq!(Zone::find(good).as_ref().map(Zone::name), Some(good));
        }
        assert_eq!(Zone::find("europe/berlin").as_ref().map(Zone::name), Some("Europe/Berlin"));
        let tricks =
            ["", "../../etc/passwd", "/etc/localtime", ":Europe/Berlin", "Local", "localtime"];
        let unknown = ["Etc/Unknown", "Europe/Atlantis", "CET-1CEST", "+02:00", "Europe/Berlin\0"];
        for bad in tricks.into_iter().chain(unknown) {
            assert_eq!(Zone::find(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_periods_of_every_zone_are_contiguous() {
        for name in TimeZoneDatabase::bundled().available() {
            let zone = Zone::find(name.as_str()).expect("listed");
            let mut period = zone.period_at(0);
            while period.end < 4_000_000_000 {
                let next = zone.period_at(period.end);
                assert_eq!(
                    (next.start, next.previous_offset),
                    (period.end, period.offset),
                    "{name}"
                );
                assert_eq!(zone.period_at(next.start - 1).end, next.start, "{name}");
                period = next;
            }
        }
    }

    #[test]
    fn the_earliest_and_latest_instant_have_a_period() {
        let zone = Zone::find("Europe/Berlin").expect("listed");
        for second in [-1, 0, 253_402_300_799] {
            let period = zone.period_at(second);
            assert!((period.start..period.end).contains(&second), "{period:?}");
        }
        assert_eq!(Zone::utc().period_at(0).end, FAR_FUTURE);
    }
}
