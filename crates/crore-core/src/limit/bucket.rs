//! Rates, and the one number that says how much of a rate is used up.
//!
//! A bucket is the *theoretical arrival time* of the generic cell rate algorithm: the instant at
//! which everything granted so far will have been earned. With all numbers in microseconds,
//!
//! ```text
//! interval = ceil(every × 1000 / count)            every in milliseconds
//! full     = burst × interval
//! now      = min(now in milliseconds × 1000, NOW_MAX)
//! base     = min(max(tat, now), now + full)
//! granted  = min(n, floor((now + full - base) / interval))
//! tat      = base + granted × interval             written back even if nothing was granted
//! next     = max(now, tat + interval - full)       rounded up to a millisecond
//! ```
//!
//! Every store computes exactly this, in SQL or in Lua. `interval` and `full` come from
//! [`Rate::interval`] and [`Rate::full`], so a store needs no more than sums, one division and
//! comparisons. No value on the way reaches 2⁵³, so a Lua number (a double) holds each exactly, and
//! so does the floor of its quotient. For that, time stands still for rates at [`NOW_MAX`], in the
//! year 2245.
//!
//! The interval is rounded up to a microsecond. So no window of length `w` ever sees more than
//! `burst + w × count / every` grants, and a rate may come out slower than it says, by less than
//! one part in `every × 1000 / count`: nothing at 1000/s or 100/1m, 0.2 % at 3000/s, but 17 % at
//! 600000/s.
//!
//! `base` is held to `now + full` because a bucket may be further ahead than its rate can fill it:
//! when the limit was made faster, or the clock was set back. It then counts as just used up.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// The longest span of a rate: 31 days.
pub const MAX_EVERY: Span = Span::from_secs(31 * 86_400);
/// How long an emptied bucket may take to fill up: 3660 days, in microseconds.
const MAX_FULL: i64 = 3660 * 86_400 * 1_000_000;
/// The last instant that rates tell from later ones, in microseconds: no bucket passes 2⁵³ - 1.
pub const NOW_MAX: i64 = (1 << 53) - 1 - MAX_FULL;

/// So many jobs in a span of time, and how many of them at once.
///
/// [`Limit::parse`](super::Limit::parse) makes only rates that are in range: a count and a burst of
/// at least 1, a span of 1 ms to 31 days, at most one job a microsecond, and a burst that is earned
/// in 3660 days. One that is not counts as the nearest that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many jobs may start in every span.
    pub count: u32,
    /// The span.
    pub every: Span,
    /// How many jobs may start at once after a quiet time.
    pub burst: u32,
}

/// A bucket's theoretical arrival time in microseconds since the epoch. The default is that of a
/// bucket which was never used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tat(i64);

impl Tat {
    /// A bucket as it was stored.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The number to store: 0 to 2⁵³ - 1 if it came from [`Rate::take`].
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

/// What [`Rate::take`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How many were granted.
    pub granted: u32,
    /// The bucket to keep.
    pub tat: Tat,
}

/// The part of a rate that is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Count,
    Every,
    Burst,
}

impl Rate {
    /// Microseconds from one job to the next at full pace: 1 µs to 31 days.
    pub fn interval(&self) -> i64 {
        let every = self.every.min(MAX_EVERY).as_millis() * 1000;
        let interval = every.div_ceil(u64::from(self.count.max(1))).max(1);
        i64::try_from(interval).expect("at most 31 days")
    }

    /// Microseconds in which an emptied bucket fills up again: the burst's intervals.
    pub fn full(&self) -> i64 {
        let most = MAX_FULL / self.interval();
        i64::from(self.burst.max(1)).min(most) * self.interval()
    }

    /// Takes as many grants as there are, up to `n`. The bucket in the answer is to be kept in any
    /// case. To look without taking, leave it.
    pub fn take(&self, tat: Tat, now: Time, n: u32) -> Taken {
        let now = micros(now);
        let base = self.base(tat, now);
        let room = (now + self.full() - base) / self.interval();
        let granted = u32::try_from(room).unwrap_or(u32::MAX).min(n);
        Taken { granted, tat: Tat(base + i64::from(granted) * self.interval()) }
    }

    /// When the next grant can be had, if nobody else takes it: `now` if there is one already. The
    /// bucket is one that [`Rate::take`] returned.
    pub fn next_at(&self, tat: Tat, now: Time) -> Time {
        let next = self.base(tat, micros(now)) + self.interval() - self.full();
        Time::from_millis(next.max(0).unsigned_abs().div_ceil(1000).cast_signed()).max(now)
    }

    fn base(&self, tat: Tat, now: i64) -> i64 {
        tat.0.max(now).min(now + self.full())
    }

    /// The first part that is out of range, and why.
    pub(super) fn fault(&self) -> Option<(Part, String)> {
        let every = self.every.as_millis();
        if self.count == 0 {
            Some((Part::Count, "a rate of `0` lets nothing run; say `concurrency 0`".to_owned()))
        } else if self.every.is_zero() || self.every > MAX_EVERY {
            Some((Part::Every, format!("`{every}ms` is not between 1ms and 31d")))
        } else if u64::from(self.count) > every * 1000 {
            let most = every * 1000;
            Some((Part::Count, format!("`{}` is above {most}, one a microsecond", self.count)))
        } else if self.burst == 0 {
            Some((Part::Burst, "a burst of `0` lets nothing run".to_owned()))
        } else if i64::from(self.burst) > MAX_FULL / self.interval() {
            let most = MAX_FULL / self.interval();
            Some((Part::Burst, format!("`{}` is above {most}, 3660 days of it", self.burst)))
        } else {
            None
        }
    }
}

fn micros(now: Time) -> i64 {
    now.as_millis().saturating_mul(1000).min(NOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(count: u32, millis: u64, burst: u32) -> Rate {
        Rate { count, every: Span::from_millis(millis), burst }
    }

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_burst_is_granted_at_once_and_the_rest_at_the_pace() {
        let rate = rate(7, 1000, 3);
        let start = at(1_800_000_000_000);
        let first = rate.take(Tat::default(), start, 5);
        assert_eq!(first.granted, 3);
        assert_eq!(rate.take(first.tat, start, 1).granted, 0);
        assert_eq!(rate.next_at(first.tat, start), at(1_800_000_000_143));
        assert_eq!(rate.take(first.tat, at(1_800_000_000_142), 1).granted, 0);
        assert_eq!(rate.take(first.tat, at(1_800_000_000_143), 9).granted, 1);
        assert_eq!(rate.take(first.tat, at(1_800_000_000_429), 9).granted, 3);
    }

    #[test]
    fn taking_one_by_one_is_taking_together() {
        let rate = rate(3000, 1000, 40);
        let now = at(1_800_000_000_000);
        let mut one_by_one = Tat::default();
        for _ in 0..40 {
            let taken = rate.take(one_by_one, now, 1);
            assert_eq!(taken.granted, 1);
            one_by_one = taken.tat;
        }
        assert_eq!(rate.take(Tat::default(), now, 50), Taken { granted: 40, tat: one_by_one });
    }

    #[test]
    fn rounding_makes_a_rate_slower_and_never_faster() {
        let start = 1_800_000_000_000;
        for (count, granted) in [(7, 7), (1000, 1000), (3000, 2994), (600_000, 500_000)] {
            let rate = rate(count, 1000, 5000);
            let mut tat = rate.take(Tat::default(), at(start), u32::MAX).tat;
            let mut sum = 0;
            for now in start + 1..=start + 1000 {
                let taken = rate.take(tat, at(now), u32::MAX);
                (sum, tat) = (sum + taken.granted, taken.tat);
            }
            assert!(sum <= count && sum.abs_diff(granted) <= 1, "{sum} of {count}");
        }
    }

    #[test]
    fn a_faster_limit_does_not_wait_for_what_a_slower_one_used() {
        let now = at(1_800_000_000_000);
        let used = rate(1, MAX_EVERY.as_millis(), 100).take(Tat::default(), now, 100);
        let fast = rate(1000, 1000, 10);
        let taken = fast.take(used.tat, now, 1);
        assert_eq!(taken.granted, 0);
        assert_eq!(fast.next_at(taken.tat, now), at(1_800_000_000_001));
        assert_eq!(fast.take(taken.tat, at(1_800_000_000_001), 5).granted, 1);
    }

    #[test]
    fn nothing_reaches_what_a_double_cannot_count() {
        let slow = rate(1, MAX_EVERY.as_millis(), u32::MAX);
        for tat in [Tat::default(), Tat::from_micros(i64::MAX), Tat::from_micros(i64::MIN)] {
            let taken = slow.take(tat, Time::MAX, u32::MAX);
            assert!((0..1 << 53).contains(&taken.tat.as_micros()), "{taken:?}");
            assert!(slow.next_at(tat, Time::MAX) >= Time::MAX);
        }
        let taken = slow.take(Tat::from_micros(i64::MIN), Time::ZERO, 1);
        assert_eq!((taken.granted, slow.next_at(taken.tat, Time::ZERO)), (1, Time::ZERO));
    }

    #[test]
    fn a_rate_out_of_range_is_the_nearest_in_range() {
        let zero = rate(0, 0, 0);
        assert_eq!((zero.interval(), zero.full()), (1, 1));
        assert_eq!(rate(u32::MAX, 1, 1).interval(), 1);
        assert_eq!(rate(1, u64::MAX, 1).interval(), 31 * 86_400 * 1_000_000);
        let part = |rate: Rate| rate.fault().map(|(part, _)| part);
        assert_eq!(part(zero), Some(Part::Count));
        assert_eq!(part(rate(1001, 1, 1)), Some(Part::Count));
        assert_eq!(part(rate(1000, 1, 1)), None);
        assert_eq!(part(rate(1, 0, 1)), Some(Part::Every));
        assert_eq!(part(rate(1, MAX_EVERY.as_millis() + 1, 1)), Some(Part::Every));
        assert_eq!(part(rate(1, 1, 0)), Some(Part::Burst));
        assert_eq!(part(rate(1, 86_400_000, 3660)), None);
        assert_eq!(part(rate(1, 86_400_000, 3661)), Some(Part::Burst));
    }

    prop_compose! {
        fn rates()(
            every in prop_oneof![1..2000_u64, 1..=MAX_EVERY.as_millis()],
            count in prop_oneof![1..50_u32, 1..5_000_000_u32],
            burst in prop_oneof![1..50_u32, 1..5000_u32],
        ) -> Rate {
            rate(count.min(u32::try_from(every * 1000).unwrap_or(u32::MAX)), every, burst)
        }
    }

    /// A pause in units that a test chooses, and how many are asked for after it.
    fn arrivals() -> impl Strategy<Value = Vec<(i64, u32)>> {
        let n = prop_oneof![0..12_u32, Just(u32::MAX)];
        prop::collection::vec((prop_oneof![Just(0), 0..1000_i64], n), 1..60)
    }

    /// The formula at the top of this file as a script computes it, in doubles.
    fn take_in_doubles(rate: &Rate, tat: i64, now: i64, n: u32) -> (f64, f64) {
        let (interval, full) = (rate.interval() as f64, rate.full() as f64);
        let now = (now as f64 * 1000.0).min(NOW_MAX as f64);
        let base = (tat as f64).max(now).min(now + full);
        let granted = ((now + full - base) / interval).floor().min(f64::from(n));
        (granted, base + granted * interval)
    }

    proptest! {
        #[test]
        fn doubles_say_the_same(
            rate in rates(), burst in prop_oneof![1..50_u32, any::<u32>()],
            now in prop_oneof![0..=Time::MAX.as_millis(), 1_700_000_000_000..2_000_000_000_000_i64],
            ahead in prop_oneof![-100..100_i64, any::<i64>()], n: u32,
        ) {
            let rate = Rate { burst, ..rate };
            let edge = micros(at(now)) + rate.full();
            let stored = edge.saturating_add(ahead).clamp(0, (1 << 53) - 1);
            let taken = rate.take(Tat::from_micros(stored), at(now), n);
            let (granted, tat) = take_in_doubles(&rate, stored, now, n);
            prop_assert_eq!((f64::from(taken.granted), taken.tat.as_micros() as f64), (granted, tat));
        }

        #[test]
        fn no_window_sees_more_than_burst_and_rate(rate in rates(), arrivals in arrivals()) {
            let mut now = 1_800_000_000_000_i64;
            let mut tat = Tat::default();
            let mut grants: Vec<(i64, u128)> = Vec::new();
            for (pause, n) in arrivals {
                // Up to ten intervals, and a little.
                now += pause * (rate.interval() / 100) / 1000 + pause % 3;
                let taken = rate.take(tat, at(now), n);
                prop_assert!(taken.granted <= n && taken.tat >= tat);
                tat = taken.tat;
                grants.push((now, taken.granted.into()));
            }
            for (i, &(from, _)) in grants.iter().enumerate() {
                let mut sum = 0;
                for &(to, granted) in &grants[i..] {
                    sum += granted;
                    let (every, window) = (u128::from(rate.every.as_millis()), (to - from) as u128);
                    let most = u128::from(rate.burst) * every + window * u128::from(rate.count);
                    prop_assert!(sum * every <= most, "{sum} grants in {window} ms");
                }
            }
        }

        #[test]
        fn who_waits_until_next_is_served_and_no_earlier(
            rate in rates(), arrivals in arrivals(), stored: i64,
        ) {
            let mut now = 1_800_000_000_000_i64;
            let mut tat = Tat::from_micros(stored);
            for (pause, n) in arrivals {
                now += pause;
                let taken = rate.take(tat, at(now), n);
                tat = taken.tat;
                let next = rate.next_at(tat, at(now));
                prop_assert_eq!(rate.take(tat, next, 1).granted, 1);
                if next > at(now) {
                    let early = next.before(Span::from_millis(1));
                    prop_assert_eq!(rate.take(tat, early, 1).granted, 0);
                }
            }
        }
    }
}
