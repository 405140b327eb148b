//! Text form of schedules: parsing, printing, and errors with their offsets.

use super::*;

#[test]
fn texts_print_as_they_were_parsed() {
    for text in [
        "cron 0 3 * * * in Europe/Berlin",
        "cron @hourly",
        "cron 0 0 1 * +FRI#1 in US/Eastern",
        "every 90s",
        "every 1500ms",
        "every 15m from 2026-01-01T00:00:00Z",
        "every 366d from 2026-01-01T00:00:00.5Z",
    ] {
        assert_eq!(timing(text).to_string(), text);
    }
}

#[test]
fn texts_are_written_in_one_form() {
    for (text, written) in [
        (" cron  0 3 * *\t* in europe/BERLIN ", "cron 0 3 * * * in Europe/Berlin"),
        ("cron 0 3 * * * in UTC", "cron 0 3 * * *"),
        ("every 1h30m", "every 90m"),
        ("every 86400s", "every 1d"),
        ("every 1m from 2026-01-01T02:00:00+02:00", "every 1m from 2026-01-01T00:00:00Z"),
        ("every 1m from 1970-01-01T00:00:00Z", "every 1m"),
    ] {
        assert_eq!(timing(text).to_string(), written);
    }
}

#[test]
fn stored_timings_are_texts() {
    let stored = serde_json::to_string(&timing("every 90s")).expect("json");
    assert_eq!(stored, r#""every 90s""#);
    assert_eq!(serde_json::from_str::<Timing>(&stored).expect("json"), timing("every 90s"));
    assert!(serde_json::from_str::<Timing>(r#""every 0s""#).is_err());
}

#[test]
fn syntax_errors_have_the_offset_of_the_error() {
    for (text, at) in [
        ("", 0),
        ("  daily", 2),
        ("0 3 * * *", 0),
        ("cron", 4),
        ("cron in UTC", 11),
        ("cron 0 25 * * * in UTC", 7),
        ("cron 0 3 * * * in", 17),
        ("cron 0 3 * * * in UTC now", 22),
        ("cron 0 3 * * * 2030 1", 20),
        ("every", 5),
        ("every 90", 6),
        ("every s", 6),
        ("every 1m1h", 6),
        ("every -5s", 6),
        ("every 1.5h", 6),
        ("every 90s now", 10),
        ("every 90s from", 14),
        ("every 90s from noon", 15),
        ("every 90s from 2026-01-01T00:00:00.0001Z", 15),
        ("every 90s from 2026-01-01T00:00:00Z x", 36),
    ] {
        assert_eq!(refusal(text), (Code::ScheduleSyntax, Some(at)), "{text}");
    }
    let long = format!("cron 0 3 * * * {}", "x".repeat(128));
    assert_eq!(refusal(&long), (Code::ScheduleSyntax, Some(128)));
}

#[test]
fn zones_are_refused_unless_they_are_in_the_table() {
    for zone in ["../../etc/passwd", "/etc/localtime", "Mars/Olympus", "+02:00"] {
        assert_eq!(refusal(&format!("cron 0 3 * * * in {zone}")), (Code::ZoneUnknown, Some(18)));
        let error = Cron::new("schedule", "0 3 * * *", Some(zone)).expect_err(zone);
        assert_eq!((error.code, error.at), (Code::ZoneUnknown, None));
    }
}

#[test]
fn crons_that_never_fire_are_refused() {
    for never in
        ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 FEB +MON", "0 0 29 2 +MON#1"]
    {
        assert_eq!(refusal(&format!("cron {never}")), (Code::ScheduleNever, Some(5)), "{never}");
    }
    for rare in ["0 0 29 2 *", "0 0 31 2,3 *", "0 0 31 2 MON", "0 0 29 2 +MON", "0 0 29 2 +TUE#5"] {
        assert!(timing(&format!("cron {rare}")).next_after(Time::ZERO).is_some(), "{rare}");
    }
}

#[test]
fn intervals_out_of_range_are_refused() {
    for (text, code) in [
        ("every 999ms", Code::ScheduleTooOften),
        ("every 0s", Code::ScheduleTooOften),
        ("every 367d", Code::TimeRange),
        ("every 366d1ms", Code::TimeRange),
        ("every 99999999999999999999999d", Code::TimeRange),
    ] {
        assert_eq!(refusal(text), (code, Some(6)), "{text}");
    }
    assert_eq!(refusal("every 1m from 1969-12-31T23:59:59Z"), (Code::TimeRange, Some(14)));
    let error = Interval::new("schedule", MIN_EVERY, Time::MAX).expect_err("no such date");
    assert_eq!(error.code, Code::TimeRange);
}

#[test]
fn a_cron_with_a_long_zone_still_fits_one_line() {
    let fields = format!("{} * * * *", vec!["0"; 54].join(","));
    assert!(Cron::new("schedule", &fields, None).is_ok());
    let error = Cron::new("schedule", &fields, Some("America/Argentina/Buenos_Aires"));
    assert_eq!(error.map_err(|e| e.code), Err(Code::ScheduleSyntax));
}

proptest! {
    #[test]
    fn every_timing_reads_back_as_itself(timing in any_timing()) {
        let text = timing.to_string();
        prop_assert_eq!(&Timing::parse("schedule", &text), &Ok(timing));
        prop_assert!(text.chars().count() <= MAX_TEXT);
    }

    #[test]
    fn no_text_causes_a_panic(
        text in "((cron|every) )?([0-9a-zA-Z*/,#?@+ -]{0,40}|\\PC{0,40})( (in|from) \\PC{0,20})?"
    ) {
        if let Ok(timing) = Timing::parse("schedule", &text) {
            prop_assert_eq!(Timing::parse("schedule", &timing.to_string()), Ok(timing));
        }
    }
}
