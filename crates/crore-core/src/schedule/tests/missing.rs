//! Missed ticks.

use super::*;
use crate::time::Span;

const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::All];

#[test]
fn each_policy_has_its_effect() {
    let (hourly, cursor) = (timing("cron @hourly"), time("2026-01-01T00:00:00Z"));
    let now = time("2026-01-01T03:00:30Z");
    let fired = |missed, now| show(&due(&hourly, missed, cursor, now, 10).fire);
    let ticks = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"];
    assert_eq!(fired(Missed::All, now), ticks);
    assert_eq!(fired(Missed::Once, now), ticks[2..]);
    assert_eq!(fired(Missed::Skip, now), ticks[2..]);
    let late = time("2026-01-01T03:01:00.001Z");
    assert_eq!(fired(Missed::Once, late), ticks[2..]);
    assert_eq!(fired(Missed::Skip, late), [""; 0]);
}

#[test]
fn skipped_ticks_are_accounted_for() {
    let (hourly, cursor) = (timing("cron @hourly"), time("2026-01-01T00:00:00Z"));
    let skipped = due(&hourly, Missed::Skip, cursor, time("2026-01-01T03:30:00Z"), 10);
    let three = time("2026-01-01T03:00:00Z");
    let next = Some(time("2026-01-01T04:00:00Z"));
    assert_eq!(skipped, DueTicks { fire: vec![], cursor: three, next });
}

#[test]
fn ticks_left_by_max_are_due_at_once() {
    let (hourly, cursor) = (timing("cron @hourly"), time("2026-01-01T00:00:00Z"));
    let now = time("2026-01-01T03:30:00Z");
    let part = due(&hourly, Missed::All, cursor, now, 2);
    assert_eq!(part.cursor, time("2026-01-01T02:00:00Z"));
    assert_eq!(part.next, Some(time("2026-01-01T03:00:00Z")));
    let rest = due(&hourly, Missed::All, part.cursor, now, 2);
    assert_eq!(show(&rest.fire), ["2026-01-01T03:00:00Z"]);
    for missed in ALL {
        let none = due(&hourly, missed, cursor, now, 0);
        assert_eq!((none.fire, none.cursor), (vec![], cursor), "{missed:?}");
    }
}

#[test]
fn a_clock_set_back_fires_nothing() {
    let (hourly, cursor) = (timing("cron @hourly"), time("2026-01-01T05:00:00Z"));
    for missed in ALL {
        let due = due(&hourly, missed, cursor, time("2026-01-01T03:00:00Z"), 10);
        assert_eq!((due.fire, due.cursor), (vec![], cursor), "{missed:?}");
        assert_eq!(due.next, Some(time("2026-01-01T06:00:00Z")), "{missed:?}");
    }
}

/// Three hundred million missed ticks, a thousand times: iterating over every tick would exceed the test
/// timeout.
#[test]
fn years_of_missed_ticks_are_not_iterated() {
    let cursor = time("2016-01-01T00:00:00Z");
    for text in ["cron * * * * * * in Europe/Berlin", "every 1s", "cron 0 0 29 2 +MON"] {
        let timing = timing(text);
        for i in 0..1000 {
            let now = time("2026-01-01T00:00:00Z").after(Span::from_secs(i));
            for missed in [Missed::Skip, Missed::Once] {
                assert!(due(&timing, missed, cursor, now, 10).cursor <= now);
            }
        }
    }
}

/// Increasing instants, milliseconds to weeks apart.
fn rising() -> impl Strategy<Value = (Time, Vec<Time>)> {
    let step = prop_oneof![0_u64..5_000, 0_u64..7_200_000, 0_u64..2_000_000_000];
    (any_time(), proptest::collection::vec(step, 1..8)).prop_map(|(start, steps)| {
        let mut now = start;
        let times = steps.into_iter().map(|step| {
            now = now.after(Span::from_millis(step));
            now
        });
        (start, times.collect())
    })
}

proptest! {
    #[test]
    fn all_fires_every_tick_once(
        timing in any_timing(), (start, nows) in rising(), max in 1_usize..40,
    ) {
        let last = nows.iter().copied().max().unwrap_or(start);
        prop_assume!(between(&timing, start, last).len() < 5_000);
        let (mut cursor, mut fired) = (start, Vec::new());
        for now in nows {
            loop {
                let due = due(&timing, Missed::All, cursor, now, max);
                prop_assert!(due.fire.len() <= max && due.cursor >= cursor);
                fired.extend(due.fire);
                cursor = due.cursor;
                if due.next.is_none_or(|next| next > now) {
                    break;
                }
            }
        }
        prop_assert_eq!(fired, between(&timing, start, last));
    }

    #[test]
    fn once_and_skip_fire_the_newest_or_nothing(timing in any_timing(), (start, nows) in rising()) {
        for missed in [Missed::Once, Missed::Skip] {
            let mut cursor = start;
            for now in &nows {
                let newest = timing.last_between(cursor, *now);
                let due = due(&timing, missed, cursor, *now, 10);
                let wanted = newest.filter(|t| missed == Missed::Once || now.since(*t) <= GRACE);
                prop_assert_eq!(due.fire, wanted.into_iter().collect::<Vec<_>>());
                prop_assert_eq!(due.cursor, newest.unwrap_or(cursor));
                prop_assert!(due.next.is_none_or(|next| next > *now));
                cursor = due.cursor;
            }
        }
    }
}
