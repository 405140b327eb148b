//! Tests of schedules as a whole.

mod clock_changes;
mod missing;
mod texts;
mod ticks;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::code::Code;

fn timing(text: &str) -> Timing {
    Timing::parse("schedule", text).unwrap_or_else(|e| panic!("{text}: {e} at {:?}", e.at))
}

fn refusal(text: &str) -> (Code, Option<usize>) {
    let error = Timing::parse("schedule", text).expect_err(text);
    (error.code, error.at)
}

fn time(text: &str) -> Time {
    Time::from_millis(text.parse::<Timestamp>().expect("a time").as_millisecond())
}

fn show(ticks: &[Time]) -> Vec<String> {
    let stamp = |tick: &Time| Timestamp::from_millisecond(tick.as_millis()).expect("in range");
    ticks.iter().map(|tick| stamp(tick).to_string()).collect()
}

/// The ticks after `from` up to `until`.
fn between(timing: &Timing, from: Time, until: Time) -> Vec<Time> {
    let first = timing.next_after(from);
    std::iter::successors(first, |tick| timing.next_after(*tick))
        .take_while(|tick| *tick <= until)
        .collect()
}

/// A field of numbers from `min` to `max`: its text, and its members.
fn field(min: u32, max: u32) -> impl Strategy<Value = (String, Vec<u32>)> {
    let list = proptest::collection::btree_set(min..=max, 1..4).prop_map(|set| {
        let texts: Vec<_> = set.iter().map(u32::to_string).collect();
        (texts.join(","), set.into_iter().collect())
    });
    let step = (1..=max)
        .prop_map(move |n| (format!("*/{n}"), (min..=max).step_by(n as usize).collect::<Vec<_>>()));
    let range = (min..=max, min..=max, 1..=max).prop_map(|(a, b, n)| {
        let (a, b) = (a.min(b), a.max(b));
        (format!("{a}-{b}/{n}"), (a..=b).step_by(n as usize).collect::<Vec<_>>())
    });
    prop_oneof![Just(("*".to_owned(), (min..=max).collect())), list, step, range]
}

/// Cron fields of every kind, seconds and special days among them.
fn any_fields() -> impl Strategy<Value = String> {
    let text = |min, max| field(min, max).prop_map(|(text, _)| text);
    let day = prop_oneof![
        3 => text(1, 28),
        1 => proptest::sample::select(vec!["L", "LW", "15W", "1W,31W", "31", "29,30", "L,3"])
            .prop_map(str::to_owned),
    ];
    let weekday = prop_oneof![
        3 => text(0, 6),
        1 => proptest::sample::select(vec!["FRI#2", "5#5", "SUNL", "7", "SAT-SUN", "+MON", "?"])
            .prop_map(str::to_owned),
    ];
    let second = prop_oneof![4 => Just(String::new()), 1 => text(0, 59).prop_map(|s| s + " ")];
    (second, text(0, 59), text(0, 23), day, text(1, 12), weekday)
        .prop_map(|(s, m, h, d, mo, w)| format!("{s}{m} {h} {d} {mo} {w}"))
}

/// Zones with unusual offset changes, and any other.
fn any_zone() -> impl Strategy<Value = String> {
    let odd = vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Nuuk",
        "Africa/Cairo",
        "Pacific/Apia",
        "Antarctica/Troll",
        "Africa/Casablanca",
    ];
    let all: Vec<_> =
        jiff::tz::TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    prop_oneof![
        proptest::sample::select(odd).prop_map(str::to_owned),
        proptest::sample::select(all),
    ]
}

/// Instants until 2100 in milliseconds.
fn any_time() -> impl Strategy<Value = Time> {
    (0_i64..4_102_444_800_000).prop_map(Time::from_millis)
}

fn any_timing() -> impl Strategy<Value = Timing> {
    let every = (1_000_u64..=MAX_EVERY.as_millis(), any_time()).prop_map(|(every, from)| {
        let every = crate::time::Span::from_millis(every);
        Timing::Every(Interval::new("schedule", every, from).expect("in range"))
    });
    let cron = (any_fields(), any_zone()).prop_filter_map("never fires", |(fields, zone)| {
        Cron::new("schedule", &fields, Some(&zone)).ok().map(Timing::Cron)
    });
    prop_oneof![1 => every, 4 => cron]
}
