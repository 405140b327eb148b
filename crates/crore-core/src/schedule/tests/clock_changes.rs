//! Daylight saving changes, and days that do not occur every year.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::*;

/// The ticks of `text` in the 24 hours after `from`.
fn day(text: &str, from: &str) -> Vec<String> {
    let from = time(from);
    let until = from.after(crate::time::Span::from_secs(86_400));
    show(&between(&timing(text), from, until))
}

#[test]
fn a_skipped_local_time_fires_right_after_the_clock_change() {
    for (zone, eve, jump) in [
        ("Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"),
        ("America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"),
        ("America/New_York", "2027-03-13T12:00:00Z", "2027-03-14T07:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T03:00:00Z", "2026-10-03T15:30:00Z"),
    ] {
        // Lord Howe jumps from 2:00 to 2:30 only.
        assert_eq!(day(&format!("cron 15 2 * * * in {zone}"), eve), [jump]);
        assert_eq!(day(&format!("cron 0,5,10 2 * * * in {zone}"), eve), [jump], "once for all");
        assert_eq!(
            day(&format!("cron */5 2 * * * in {zone}"), eve).first().map(String::as_str),
            zone.contains("Howe").then_some(jump),
            "in local time"
        );
    }
}

#[test]
fn a_repeated_local_time_fires_the_first_time_only() {
    for (zone, eve, first) in [
        ("Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:45:00Z"),
        ("Europe/Berlin", "2027-10-30T12:00:00Z", "2027-10-31T00:45:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T03:00:00Z", "2026-04-04T14:45:00Z"),
    ] {
        let hour = if zone.contains("Howe") { 1 } else { 2 };
        assert_eq!(day(&format!("cron 45 {hour} * * * in {zone}"), eve), [first]);
    }
    for (eve, first) in [
        ("2026-10-31T12:00:00Z", "2026-11-01T05:45:00Z"),
        ("2027-11-06T12:00:00Z", "2027-11-07T05:45:00Z"),
    ] {
        assert_eq!(day("cron 45 1 * * * in America/New_York", eve), [first]);
    }
}

#[test]
fn hourly_ticks_are_an_hour_apart_across_clock_changes() {
    for (zone, eve) in [
        ("Europe/Berlin", "2026-03-28T12:00:00Z"),
        ("Europe/Berlin", "2026-10-24T12:00:00Z"),
        ("America/New_York", "2027-03-13T12:00:00Z"),
        ("America/New_York", "2027-11-06T12:00:00Z"),
    ] {
        let ticks = between(
            &timing(&format!("cron @hourly in {zone}")),
            time(eve),
            time(eve).after(crate::time::Span::from_secs(86_400)),
        );
        assert_eq!(ticks.len(), 24, "{zone} {eve}");
        assert!(ticks.windows(2).all(|two| two[1].since(two[0]).as_millis() == 3_600_000));
    }
}

#[test]
fn half_an_hour_is_repeated_on_lord_howe() {
    // From 2:00 back to 1:30: 1:45 occurs twice, half an hour apart.
    let ticks = day("cron 45 * * * * in Australia/Lord_Howe", "2026-04-04T14:00:00Z");
    let expected = ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"];
    assert_eq!(ticks[..3], expected);
}

#[test]
fn a_gap_that_ends_on_the_next_day_still_fires() {
    // Nuuk jumps from Saturday 23:00 to Sunday 0:00.
    let ticks = day("cron 30 23 * * SAT in America/Nuuk", "2026-03-28T12:00:00Z");
    assert_eq!(ticks, ["2026-03-29T01:00:00Z"]);
}

#[test]
fn a_day_that_a_zone_skips_fires_once() {
    // Samoa had no 30 December 2011.
    let ticks = day("cron 0 6,12 30 12 * in Pacific/Apia", "2011-12-30T00:00:00Z");
    assert_eq!(ticks, ["2011-12-30T10:00:00Z"]);
}

#[test]
fn leap_days_fire_in_leap_years_only() {
    let leap = timing("cron 0 0 29 2 *");
    let ticks = show(&leap.preview(time("2095-01-01T00:00:00Z"), 2));
    assert_eq!(ticks, ["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"]);
    let monday = timing("cron 0 0 29 2 +MON");
    let ticks = show(&monday.preview(time("2072-03-01T00:00:00Z"), 1));
    assert_eq!(ticks, ["2112-02-29T00:00:00Z"], "forty years");
}

#[test]
fn special_days_fire() {
    for (fields, expected) in [
        ("0 0 L 2 *", "2026-02-28T00:00:00Z"),
        ("0 0 LW 5 *", "2026-05-29T00:00:00Z"),
        ("0 0 15W 8 *", "2026-08-14T00:00:00Z"),
        ("0 0 1W 8 *", "2026-08-03T00:00:00Z"),
        ("0 0 * 3 FRI#2", "2026-03-13T00:00:00Z"),
        ("0 0 * 3 7L", "2026-03-29T00:00:00Z"),
        ("0 0 13 * +FRI", "2026-02-13T00:00:00Z"),
        ("0 0 13 * FRI", "2026-01-02T00:00:00Z"),
    ] {
        let ticks = timing(&format!("cron {fields}")).preview(time("2026-01-01T00:00:00Z"), 1);
        assert_eq!(show(&ticks), [expected], "{fields}");
    }
}

/// The ticks of a window, by checking the local time of every minute.
fn scan(
    zone: &TimeZone,
    repeats: bool,
    window: (i64, i64),
    fits: impl Fn(DateTime) -> bool,
) -> BTreeSet<i64> {
    let wall: Vec<(i64, DateTime)> = (window.0..window.1)
        .step_by(60)
        .map(|at| (at, zone.to_datetime(Timestamp::from_second(at).expect("in range"))))
        .collect();
    if repeats {
        return wall.iter().filter(|(_, clock)| fits(*clock)).map(|(at, _)| *at).collect();
    }
    // A time of day fires when the local time first reaches or passes it.
    let (mut ticks, mut latest) = (BTreeSet::new(), wall[0].1);
    for (at, clock) in &wall {
        while latest <= *clock {
            if fits(latest) {
                ticks.insert(*at);
            }
            latest = latest.saturating_add(jiff::SignedDuration::from_mins(1));
        }
    }
    ticks
}

proptest! {
    #[test]
    fn ticks_agree_with_a_scan_of_every_local_minute(
        zone in any_zone(),
        minute in field(0, 59),
        hour in field(0, 23),
        weekday in field(0, 6),
        near in any_time(),
    ) {
        // A window of four days around an offset change, if the zone has any left.
        let zone_name = zone;
        let zone = TimeZoneDatabase::bundled().get(&zone_name).expect("listed");
        let near = Timestamp::from_millisecond(near.as_millis()).expect("in range");
        let change = zone.following(near).next().map_or(near, |change| change.timestamp());
        let middle = change.as_second().div_euclid(60) * 60;
        let window = (middle - 2 * 86_400, middle + 2 * 86_400);

        let fields = format!("{} {} * * {}", minute.0, hour.0, weekday.0);
        let timing = timing(&format!("cron {fields} in {zone_name}"));
        let fits = |clock: DateTime| {
            minute.1.contains(&(clock.minute() as u32))
                && hour.1.contains(&(clock.hour() as u32))
                && weekday.1.contains(&(clock.weekday().to_sunday_zero_offset() as u32))
        };
        let repeats = minute.0.contains('*') || hour.0.contains('*');
        prop_assume!(window.0 > 0 && zone.to_offset(near).seconds() % 60 == 0);
        let expected = scan(&zone, repeats, window, fits);
        let found = between(
            &timing,
            Time::from_millis(window.0 * 1000 - 1),
            Time::from_millis(window.1 * 1000 - 1),
        );
        let found: BTreeSet<_> = found.into_iter().map(|tick| tick.as_millis() / 1000).collect();
        prop_assert_eq!(found.symmetric_difference(&expected).next(), None);
    }
}
