//! Forward and backward search of ticks, and the limits of the time range.

use croner::parser::CronParser;
use jiff::tz::TimeZone;

use super::*;
use crate::time::Span;

#[test]
fn intervals_keep_their_phase() {
    let quarter = timing("every 15m from 2026-01-01T00:05:00Z");
    let ticks = quarter.preview(time("2031-07-01T12:00:00.001Z"), 2);
    assert_eq!(show(&ticks), ["2031-07-01T12:05:00Z", "2031-07-01T12:20:00Z"]);
    let first = quarter.preview(time("2020-01-01T00:00:00Z"), 1);
    assert_eq!(show(&first), ["2026-01-01T00:05:00Z"], "the first tick is at `from`");
    assert_eq!(quarter.last_between(Time::ZERO, time("2026-01-01T00:04:59.999Z")), None);
}

#[test]
fn both_ends_of_time_are_safe() {
    for text in [
        "cron * * * * * *",
        "cron * * * * * * in Europe/Berlin",
        "cron 59 23 31 12 * in America/New_York",
        "cron 0 0 1 1 * in Pacific/Kiritimati",
        "every 1s",
        "every 366d from 9999-12-30T00:00:00Z",
    ] {
        let timing = timing(text);
        assert_eq!(timing.next_after(Time::MAX), None, "{text}");
        assert!(timing.next_after(Time::ZERO).is_some(), "{text}");
        assert!(timing.last_between(Time::ZERO, Time::MAX).is_some(), "{text}");
        assert_eq!(timing.last_between(Time::MAX, Time::MAX), None, "{text}");
        assert_eq!(timing.last_between(Time::MAX, Time::ZERO), None, "{text}");
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            due(&timing, missed, Time::ZERO, Time::MAX, 3);
            due(&timing, missed, Time::MAX, Time::MAX, 3);
        }
    }
    let last = timing("cron * * * * * *").last_between(Time::ZERO, Time::MAX);
    assert_eq!(last, Some(Time::from_millis(253_402_300_799_000)));
}

#[test]
fn the_search_ends_for_a_time_that_its_zone_always_skips() {
    let gap = timing("cron */5 2 * 3 SUN#L in Europe/Berlin");
    assert_eq!(gap.next_after(time("2026-01-01T00:00:00Z")), None);
    assert!(gap.next_after(Time::ZERO).is_some(), "1970 had no summer time");
}

/// Reference implementation of cron: tests one minute.
fn fits(at: i64, fields: &[(String, Vec<u32>); 5]) -> bool {
    let clock = TimeZone::UTC.to_datetime(Timestamp::from_second(at).expect("in range"));
    let weekday = clock.weekday().to_sunday_zero_offset();
    let has = |i: usize, value: i8| fields[i].1.contains(&(value as u32));
    let (day, weekday) = (has(2, clock.day()), has(4, weekday));
    let both_given = fields[2].0 != "*" && fields[4].0 != "*";
    has(0, clock.minute())
        && has(1, clock.hour())
        && has(3, clock.month())
        && if both_given { day || weekday } else { day && weekday }
}

proptest! {
    #[test]
    fn simple_crons_agree_with_a_scan_of_minutes(
        fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)),
        from in any_time(),
    ) {
        let (minute, hour, day, month, weekday) = fields;
        let fields = [minute, hour, day, month, weekday];
        let texts: Vec<_> = fields.iter().map(|(text, _)| text.as_str()).collect();
        let Ok(timing) = Timing::parse("schedule", &format!("cron {}", texts.join(" "))) else {
            return Ok(());
        };
        let start = from.as_millis().div_euclid(60_000) * 60;
        let minutes = (start..start + 3 * 86_400).step_by(60);
        let expected: Vec<_> = minutes.filter(|at| fits(*at, &fields)).collect();
        let found = between(
            &timing,
            Time::from_millis(start * 1000 - 1),
            Time::from_millis((start + 3 * 86_400) * 1000 - 1),
        );
        let found: Vec<_> = found.iter().map(|tick| tick.as_millis() / 1000).collect();
        // The epoch is the first instant, so no search can find it.
        prop_assert_eq!(found, expected.into_iter().filter(|at| *at > 0).collect::<Vec<_>>());
    }

    #[test]
    fn crons_in_utc_agree_with_an_independent_search(fields in any_fields(), from in any_time()) {
        let Ok(timing) = Timing::parse("schedule", &format!("cron {fields}")) else {
            return Ok(());
        };
        let theirs = CronParser::new().parse(&fields).expect("both parsers accept the grammar");
        let start = Timestamp::from_millisecond(from.as_millis()).expect("in range");
        let expected = theirs
            .find_next_occurrence(&start.to_zoned(TimeZone::UTC), false)
            .expect("it fires")
            .timestamp()
            .as_millisecond();
        prop_assert_eq!(timing.next_after(from).map(Time::as_millis), Some(expected));
    }

    #[test]
    fn forward_and_backward_search_find_the_same_ticks(timing in any_timing(), from in any_time()) {
        let Some(next) = timing.next_after(from) else { return Ok(()) };
        prop_assert!(next > from);
        prop_assert_eq!(timing.last_between(from, next), Some(next));
        prop_assert_eq!(timing.last_between(from, next.before(Span::from_millis(1))), None);
        prop_assert_eq!(timing.next_after(next.before(Span::from_millis(1))), Some(next));
    }

    #[test]
    fn later_instants_have_no_earlier_ticks(
        timing in any_timing(), a in any_time(), b in any_time(),
    ) {
        let (early, late) = (timing.next_after(a.min(b)), timing.next_after(a.max(b)));
        prop_assert!(early <= late || late.is_none());
    }

    #[test]
    fn previews_rise_strictly(timing in any_timing(), from in any_time()) {
        let ticks = timing.preview(from, 50);
        prop_assert!(ticks.windows(2).all(|two| two[0] < two[1]), "{:?}", show(&ticks));
    }
}
