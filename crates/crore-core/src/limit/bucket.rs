//! Rate limiting with the generic cell rate algorithm (GCRA).
//!
//! A bucket is one number, the *theoretical arrival time* (TAT): the instant at which everything granted so
//! far will have been earned. With all numbers in microseconds,
//!
//! ```text
//! interval = ceil(every × 1000 / count)            every in milliseconds
//! full     = burst × interval
//! now      = min(now in milliseconds × 1000, NOW_MAX)
//! base     = min(max(tat, now), now + full)
//! granted  = min(n, floor((now + full - base) / interval))
//! tat      = base + granted × interval             stored even if nothing was granted
//! next     = max(now, tat + interval - full)       rounded up to a millisecond
//! ```
//!
//! Every store computes exactly this, in SQL or in Lua. `interval` and `full` come from
//! [`Rate::interval`] and [`Rate::full`], so a store needs only sums, one division and comparisons. No
//! intermediate value reaches 2⁵³, so a Lua number (a double) represents each exactly, and so the floor of
//! the quotient is exact. For this, `now` is capped at [`NOW_MAX`], in the year 2245.
//!
//! The interval is rounded up to a microsecond: no window of length `w` sees more than
//! `burst + w × count / every` grants, and the effective rate is lower than configured by less than one
//! part in `every × 1000 / count`: nothing at 1000/s or 100/1m, 0.2 % at 3000/s, but 17 % at 600000/s.
//!
//! `base` is capped at `now + full` because the stored TAT can be further ahead: when the limit was made
//! faster, or the clock was set back. The bucket then counts as just used up.
//!
//! A limit that counts costs takes `cost` units from its bucket, or none. A report moves the TAT by what the job
//! really cost, and may leave a *debt*: up to one burst beyond an empty bucket, less only where the sum would reach
//! 2⁵³. Here `base` is therefore capped at `now + full + debt`:
//!
//! ```text
//! debt     = min(full, MAX_FULL - full)
//! base     = min(max(tat, now), now + full + debt)
//! granted  = base <= now + full and floor((now + full - base) / interval) >= cost
//! settled  = max(now, min(base + (real - cost) × interval, now + full + debt))
//! ```
//!
//! No window of length `w` sees starts that cost more than `burst + w × count / every`, plus what reports in this
//! window have given back.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// Maximum period of a rate: 31 days.
pub const MAX_EVERY: Span = Span::from_secs(31 * 86_400);
/// Maximum time to refill an empty bucket: 3660 days, in microseconds.
const MAX_FULL: i64 = 3660 * 86_400 * 1_000_000;
/// Cap of `now`, in microseconds, so that no bucket exceeds 2⁵³ - 1.
pub const NOW_MAX: i64 = (1 << 53) - 1 - MAX_FULL;

/// A rate: jobs per period, with a burst.
///
/// [`Limit::parse`](super::Limit::parse) returns only rates in range: a count and a burst of at least 1, a
/// period of 1 ms to 31 days, at most one job per microsecond, and a burst that refills within 3660 days.
/// A rate out of range is treated as the nearest one in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Number of jobs that may start per period.
    pub count: u32,
    /// The period.
    pub every: Span,
    /// Number of jobs that may start at once from a full bucket.
    pub burst: u32,
}

/// The theoretical arrival time of a bucket, in microseconds since the epoch. The default is an unused
/// bucket.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tat(i64);

impl Tat {
    /// A bucket from its stored number.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The number to store: 0 to 2⁵³ - 1 if returned by [`Rate::take`].
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

/// Result of [`Rate::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateGrant {
    /// Number of permits granted.
    pub granted: u32,
    /// The bucket to store.
    pub tat: Tat,
}

/// Result of [`Rate::take_cost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostGrant {
    /// Whether the whole cost was taken.
    pub is_granted: bool,
    /// The bucket to store.
    pub tat: Tat,
}

/// The part of a rate that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RatePart {
    Count,
    Every,
    Burst,
}

impl Rate {
    /// Microseconds between two jobs at the full rate: 1 µs to 31 days.
    pub fn interval(&self) -> i64 {
        let every = self.every.min(MAX_EVERY).as_millis() * 1000;
        let interval = every.div_ceil(u64::from(self.count.max(1))).max(1);
        i64::try_from(interval).expect("at most 31 days")
    }

    /// Microseconds to refill an empty bucket: burst × interval.
    pub fn full(&self) -> i64 {
        let most = MAX_FULL / self.interval();
        i64::from(self.burst.max(1)).min(most) * self.interval()
    }

    /// Takes up to `n` permits. The caller stores the returned bucket even if nothing was granted; to only
    /// look, it discards the bucket.
    pub fn take(&self, tat: Tat, now: Time, n: u32) -> RateGrant {
        let now = micros(now);
        let base = self.base(tat, now);
        let room = (now + self.full() - base) / self.interval();
        let granted = u32::try_from(room).unwrap_or(u32::MAX).min(n);
        RateGrant { granted, tat: Tat(base + i64::from(granted) * self.interval()) }
    }

    /// When the next permit is available, at the earliest `now`. The bucket is one returned by
    /// [`Rate::take`].
    pub fn next_at(&self, tat: Tat, now: Time) -> Time {
        let next = self.base(tat, micros(now)) + self.interval() - self.full();
        Time::from_millis(next.max(0).unsigned_abs().div_ceil(1000).cast_signed()).max(now)
    }

    fn base(&self, tat: Tat, now: i64) -> i64 {
        tat.0.max(now).min(now + self.full())
    }

    /// Takes the whole cost or nothing. A cost above the burst counts as the burst: every job can run. The caller
    /// stores the returned bucket even if nothing was granted.
    pub fn take_cost(&self, tat: Tat, now: Time, cost: u32) -> CostGrant {
        let now = micros(now);
        let base = self.base_with_debt(tat, now);
        let cost = self.charged_units(cost);
        let room = now + self.full() - base;
        let is_granted = room >= 0 && room / self.interval() >= cost;
        let taken = if is_granted { cost * self.interval() } else { 0 };
        CostGrant { is_granted, tat: Tat(base + taken) }
    }

    /// When a cost can be taken, at the earliest `now`.
    pub fn next_at_cost(&self, tat: Tat, now: Time, cost: u32) -> Time {
        let base = self.base_with_debt(tat, micros(now));
        let next = base - self.full() + self.charged_units(cost) * self.interval();
        Time::from_millis(next.max(0).unsigned_abs().div_ceil(1000).cast_signed()).max(now)
    }

    /// The bucket after a job that was charged `charged` has really cost `real`: less gives back the difference, more
    /// takes it, up to the maximum debt.
    pub fn settle(&self, tat: Tat, now: Time, charged: u32, real: u32) -> Tat {
        let now = micros(now);
        let end = now + self.full() + self.max_debt();
        let most = (end - now) / self.interval();
        let units = (i64::from(real) - self.charged_units(charged)).clamp(-most, most);
        // Added before `now`: base is at most `end`, and the sum of both stays below 2⁵³.
        let ahead = self.base_with_debt(tat, now) - now + units * self.interval();
        Tat(now + ahead.clamp(0, end - now))
    }

    /// The units that a cost takes.
    fn charged_units(&self, cost: u32) -> i64 {
        i64::from(cost).min(self.full() / self.interval())
    }

    /// Maximum debt of a bucket, in microseconds: one burst.
    fn max_debt(&self) -> i64 {
        self.full().min(MAX_FULL - self.full())
    }

    fn base_with_debt(&self, tat: Tat, now: i64) -> i64 {
        tat.0.max(now).min(now + self.full() + self.max_debt())
    }

    /// The first part that is out of range, and why.
    pub(super) fn fault(&self) -> Option<(RatePart, String)> {
        let every = self.every.as_millis();
        if self.count == 0 {
            Some((RatePart::Count, "a rate of `0` stops all jobs; use `concurrency 0`".to_owned()))
        } else if self.every.is_zero() || self.every > MAX_EVERY {
            Some((RatePart::Every, format!("`{every}ms` is not between 1ms and 31d")))
        } else if u64::from(self.count) > every * 1000 {
            let most = every * 1000;
            Some((
                RatePart::Count,
                format!("rate `{}` is above {most}, which is one job per microsecond", self.count),
            ))
        } else if self.burst == 0 {
            Some((RatePart::Burst, "a burst of `0` stops all jobs".to_owned()))
        } else if i64::from(self.burst) > MAX_FULL / self.interval() {
            let most = MAX_FULL / self.interval();
            Some((
                RatePart::Burst,
                format!(
                    "burst `{}` is above {most}: refilling it would take more than 3660 days",
                    self.burst
                ),
            ))
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
        assert_eq!(rate.take(Tat::default(), now, 50), RateGrant { granted: 40, tat: one_by_one });
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
    fn a_faster_rate_does_not_wait_for_the_usage_of_a_slower_one() {
        let now = at(1_800_000_000_000);
        let used = rate(1, MAX_EVERY.as_millis(), 100).take(Tat::default(), now, 100);
        let fast = rate(1000, 1000, 10);
        let taken = fast.take(used.tat, now, 1);
        assert_eq!(taken.granted, 0);
        assert_eq!(fast.next_at(taken.tat, now), at(1_800_000_000_001));
        assert_eq!(fast.take(taken.tat, at(1_800_000_000_001), 5).granted, 1);
    }

    #[test]
    fn every_value_is_exact_in_a_double() {
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
        assert_eq!(part(zero), Some(RatePart::Count));
        assert_eq!(part(rate(1001, 1, 1)), Some(RatePart::Count));
        assert_eq!(part(rate(1000, 1, 1)), None);
        assert_eq!(part(rate(1, 0, 1)), Some(RatePart::Every));
        assert_eq!(part(rate(1, MAX_EVERY.as_millis() + 1, 1)), Some(RatePart::Every));
        assert_eq!(part(rate(1, 1, 0)), Some(RatePart::Burst));
        assert_eq!(part(rate(1, 86_400_000, 3660)), None);
        assert_eq!(part(rate(1, 86_400_000, 3661)), Some(RatePart::Burst));
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

    /// Pauses in units chosen by the test, and the number of permits requested after each.
    fn arrivals() -> impl Strategy<Value = Vec<(i64, u32)>> {
        let n = prop_oneof![0..12_u32, Just(u32::MAX)];
        prop::collection::vec((prop_oneof![Just(0), 0..1000_i64], n), 1..60)
    }

    #[test]
    fn a_cost_is_taken_whole_or_not_at_all() {
        let rate = rate(100, 60_000, 100);
        let start = at(1_800_000_000_000);
        let first = rate.take_cost(Tat::default(), start, 70);
        assert!(first.is_granted);
        let refused = rate.take_cost(first.tat, start, 31);
        assert_eq!(refused, CostGrant { is_granted: false, tat: first.tat });
        assert!(rate.take_cost(first.tat, start, 30).is_granted);
        assert_eq!(rate.next_at_cost(first.tat, start, 31), at(1_800_000_000_600));
        // A cost above the burst is the burst.
        assert_eq!(
            rate.next_at_cost(first.tat, start, 101),
            rate.next_at_cost(first.tat, start, 100)
        );
        assert!(rate.take_cost(Tat::default(), start, u32::MAX).is_granted);
        assert!(rate.take_cost(first.tat, start, 0).is_granted);
    }

    #[test]
    fn a_report_gives_back_or_goes_into_debt() {
        let rate = rate(100, 60_000, 100);
        let now = at(1_800_000_000_000);
        let taken = rate.take_cost(Tat::default(), now, 70).tat;
        let less = rate.settle(taken, now, 70, 20);
        assert!(
            rate.take_cost(less, now, 80).is_granted && !rate.take_cost(less, now, 81).is_granted
        );
        assert_eq!(rate.settle(taken, now, 70, 70), taken);
        // Nothing is given back beyond a full bucket.
        let unused = rate.settle(Tat::default(), now, 70, 0);
        assert!(rate.take_cost(unused, now, 100).is_granted);
        assert!(!rate.take_cost(unused, now, 100).tat.eq(&unused));
        let debt = rate.settle(taken, now, 70, 150);
        assert!(!rate.take_cost(debt, now, 0).is_granted);
        assert_eq!(rate.next_at_cost(debt, now, 0), at(1_800_000_030_000));
        assert_eq!(rate.next_at_cost(debt, now, 10), at(1_800_000_036_000));
        // The debt is at most one burst.
        let most = rate.settle(taken, now, 70, u32::MAX);
        assert_eq!(rate.next_at_cost(most, now, 0), at(1_800_000_060_000));
    }

    /// The formula of the module documentation, computed in doubles as in a script.
    fn take_in_doubles(rate: &Rate, tat: i64, now: i64, n: u32) -> (f64, f64) {
        let (interval, full) = (rate.interval() as f64, rate.full() as f64);
        let now = (now as f64 * 1000.0).min(NOW_MAX as f64);
        let base = (tat as f64).max(now).min(now + full);
        let granted = ((now + full - base) / interval).floor().min(f64::from(n));
        (granted, base + granted * interval)
    }

    proptest! {
        #[test]
        fn doubles_give_the_same_result(
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
                // Up to ten intervals, plus 0 to 2 ms.
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
        fn no_window_costs_more_than_burst_rate_and_what_was_given_back(
            rate in rates(), arrivals in arrivals(), reals in prop::collection::vec(0..3000_u32, 60),
        ) {
            let mut now = 1_800_000_000_000_i64;
            let mut tat = Tat::default();
            // Time, cost of a start, and what a report gave back.
            let mut seen: Vec<(i64, u128, u128)> = Vec::new();
            for ((pause, n), real) in arrivals.into_iter().zip(reals) {
                now += pause * (rate.interval() / 100) / 1000 + pause % 3;
                let cost = if n == u32::MAX { rate.burst } else { n.min(rate.burst) };
                let taken = rate.take_cost(tat, at(now), cost);
                tat = taken.tat;
                if taken.is_granted {
                    seen.push((now, cost.into(), 0));
                    now += pause % 7;
                    tat = rate.settle(tat, at(now), cost, real);
                    seen.push((now, 0, cost.saturating_sub(real).into()));
                }
                prop_assert!((0..1 << 53).contains(&tat.as_micros()));
            }
            for (i, &(from, ..)) in seen.iter().enumerate() {
                let mut sum = 0;
                let mut back = 0;
                for &(to, cost, given_back) in &seen[i..] {
                    sum += cost;
                    let (every, window) = (u128::from(rate.every.as_millis()), (to - from) as u128);
                    let most = (u128::from(rate.burst) + back) * every + window * u128::from(rate.count);
                    prop_assert!(sum * every <= most, "{sum} in {window} ms");
                    back += given_back;
                }
            }
        }

        #[test]
        fn a_cost_is_granted_at_next_at_and_no_earlier(
            rate in rates(), burst in prop_oneof![1..50_u32, any::<u32>()], cost: u32, stored: i64,
            now in prop_oneof![0..=Time::MAX.as_millis(), 1_700_000_000_000..2_000_000_000_000_i64],
            real: u32,
        ) {
            let rate = Rate { burst, ..rate };
            let tat = rate.settle(Tat::from_micros(stored), at(now), cost, real);
            prop_assert!((0..1 << 53).contains(&tat.as_micros()));
            let next = rate.next_at_cost(tat, at(now), cost);
            if next < Time::from_millis(NOW_MAX / 1000) {
                prop_assert!(rate.take_cost(tat, next, cost).is_granted);
                if next > at(now) {
                    let early = next.before(Span::from_millis(1));
                    prop_assert!(!rate.take_cost(tat, early, cost).is_granted);
                }
            }
        }

        #[test]
        fn a_permit_is_granted_at_next_at_and_no_earlier(
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
