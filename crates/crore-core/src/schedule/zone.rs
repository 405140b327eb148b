//! Time zones, as stretches of time with one offset each.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// After everything that a zone or a calendar knows, with room to add an offset.
const ALWAYS: i64 = 1 << 50;
/// How far back the start of a stretch is looked for. To cut a longer one changes nothing, as
/// nothing happens at the cut.
const LOOK_BACK: i64 = 400 * 86_400;

/// A zone of the compiled-in table.
#[derive(Clone)]
pub(super) struct Zone(TimeZone);

/// A stretch of time, in seconds since the epoch, in which clocks on the wall run evenly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Its first second.
    pub(super) start: i64,
    /// The first second behind it.
    pub(super) end: i64,
    /// What its clocks are ahead of UTC, in seconds.
    pub(super) offset: i64,
    /// What clocks were ahead of UTC until it began.
    pub(super) before: i64,
}

impl Zone {
    /// The zone of that name, in any case. Asks the compiled-in table and nothing else: a name is
    /// never a path, and the machine's own zones do not matter.
    pub(super) fn find(name: &str) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        zone.iana_name().is_some().then_some(Self(zone))
    }

    pub(super) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The name as the table spells it.
    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The stretch that `second` is in, at least as much of it as lies behind [`LOOK_BACK`].
    ///
    /// Only asks what follows an instant: asked what precedes one, the table makes up changes for
    /// zones that have just settled on a new rule (Ciudad Juárez in December 2022).
    pub(super) fn stretch_at(&self, second: i64) -> Stretch {
        let mut start = second.saturating_sub(LOOK_BACK);
        let mut end = ALWAYS;
        for change in self.0.following(stamp(start)) {
            let at = change.timestamp().as_second();
            if at > second {
                end = at;
                break;
            }
            start = at;
        }
        let (offset, before) = (self.offset_at(start), self.offset_at(start.saturating_sub(1)));
        Stretch { start, end, offset, before }
    }

    fn offset_at(&self, second: i64) -> i64 {
        i64::from(self.0.to_offset(stamp(second)).seconds())
    }
}

/// The nearest instant that the zone table can be asked about; it ends a day before crore does, and
/// no zone has plans for that day.
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
    fn stretches_of_every_zone_join_without_a_hole() {
        for name in TimeZoneDatabase::bundled().available() {
            let zone = Zone::find(name.as_str()).expect("listed");
            let mut stretch = zone.stretch_at(0);
            while stretch.end < 4_000_000_000 {
                let next = zone.stretch_at(stretch.end);
                assert_eq!((next.start, next.before), (stretch.end, stretch.offset), "{name}");
                assert_eq!(zone.stretch_at(next.start - 1).end, next.start, "{name}");
                stretch = next;
            }
        }
    }

    #[test]
    fn the_ends_of_time_have_a_stretch() {
        let zone = Zone::find("Europe/Berlin").expect("listed");
        for second in [-1, 0, 253_402_300_799] {
            let stretch = zone.stretch_at(second);
            assert!((stretch.start..stretch.end).contains(&second), "{stretch:?}");
        }
        assert_eq!(Zone::utc().stretch_at(0).end, ALWAYS);
    }
}
