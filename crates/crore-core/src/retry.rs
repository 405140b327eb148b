//! Retry policies: whether and when a failed job is retried.
//!
//! Integer arithmetic only, so that a policy gives the same delay on every machine and in every replay.

use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid};
use crate::time::Span;

/// Maximum value of `max_attempts`.
pub const MAX_ATTEMPTS: u32 = 1000;
/// Upper bound of every delay: 30 days.
pub const MAX_DELAY: Span = Span::from_secs(30 * 86_400);
/// Maximum factor of an exponential back-off, in thousandths: ×1000.
pub const MAX_FACTOR: u32 = 1_000_000;

/// A retry policy. Default: 20 attempts, exponential back-off of 1 s, 2 s, 4 s … up to one hour with 10 %
/// jitter, about eight hours in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Retry {
    /// Back-off.
    pub backoff: Backoff,
    /// Maximum number of attempts, including the first; `None`: unlimited.
    pub max_attempts: Option<u32>,
    /// Maximum delay.
    pub max_interval: Option<Span>,
    /// Jitter in percent, in both directions, so that jobs that failed together are not retried together.
    pub jitter: u8,
}

/// Back-off: how delays grow from one attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// Retry immediately.
    None,
    /// A constant delay.
    Constant {
        /// The delay.
        every: Span,
    },
    /// One step after the first attempt, two after the second, …
    Linear {
        /// The step.
        step: Span,
    },
    /// Each delay is the previous one times a factor.
    Exponential {
        /// The delay after the first attempt.
        base: Span,
        /// The factor in thousandths: 2000 doubles.
        factor: u32,
    },
    /// Faktory's back-off: `n⁴ + 15 + r·(n + 1)` seconds, where n is 0 after the first attempt and r is
    /// random from 0 to 29. The policy's jitter does not apply.
    Polynomial,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            backoff: Backoff::Exponential { base: Span::from_secs(1), factor: 2000 },
            max_attempts: Some(20),
            max_interval: Some(Span::from_secs(3600)),
            jitter: 10,
        }
    }
}

impl Retry {
    /// Delay after attempt number `attempt` (from 1) has failed. `random` are 64 random bits, the only source
    /// of randomness. Never longer than `max_interval` or [`MAX_DELAY`]; defined for every policy and
    /// attempt, even those that [`Retry::check`] refuses.
    pub fn delay(&self, attempt: u32, random: u64) -> Span {
        let cap = self.max_interval.map_or(MAX_DELAY, |max| max.min(MAX_DELAY));
        let retries = attempt.saturating_sub(1);
        let plain = match self.backoff {
            Backoff::None => Span::ZERO,
            Backoff::Constant { every } => every,
            Backoff::Linear { step } => step.times(u64::from(retries) + 1),
            Backoff::Exponential { base, factor } => exponential(base, factor, retries),
            Backoff::Polynomial => return polynomial(retries, random).min(cap),
        };
        self.apply_jitter(plain.min(cap), cap, random)
    }

    /// Whether attempt number `attempt` was the last.
    pub fn is_last(&self, attempt: u32) -> bool {
        self.max_attempts.is_some_and(|max| attempt >= max)
    }

    /// Validates the policy; errors name fields below `field`.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        if self.max_attempts.is_some_and(|max| !(1..=MAX_ATTEMPTS).contains(&max)) {
            let message = format!("the maximum is 1 to {MAX_ATTEMPTS} attempts, or none");
            return Err(out_of_range("max-attempts", message).inside(field));
        }
        if self.max_interval.is_some_and(|max| max.is_zero() || max > MAX_DELAY) {
            let message = "the maximum interval is 1ms to 30d";
            return Err(out_of_range("max-interval", message).inside(field));
        }
        if self.jitter > 100 {
            let message = format!("`{}` percent, at most 100 are allowed", self.jitter);
            return Err(out_of_range("jitter", message).inside(field));
        }
        self.backoff.check().map_err(|e| e.inside("backoff").inside(field))
    }

    /// Applies jitter to `plain`. The range is cut at `cap` before drawing: clamping the drawn value instead
    /// would retry half of the jobs in the same millisecond.
    fn apply_jitter(&self, plain: Span, cap: Span, random: u64) -> Span {
        let plain = plain.as_millis();
        let spread = plain.saturating_mul(u64::from(self.jitter.min(100))) / 100;
        let (low, high) = (plain - spread, plain.saturating_add(spread).min(cap.as_millis()));
        Span::from_millis(low + random % (high - low + 1))
    }
}

impl Backoff {
    fn check(self) -> Result<(), Invalid> {
        let (name, span) = match self {
            Self::None | Self::Polynomial => return Ok(()),
            Self::Constant { every } => ("every", every),
            Self::Linear { step } => ("step", step),
            Self::Exponential { base, factor } => {
                if !(1000..=MAX_FACTOR).contains(&factor) {
                    let message = format!("`{factor}` thousandths are not in 1000-{MAX_FACTOR}");
                    return Err(out_of_range("factor", message));
                }
                ("base", base)
            }
        };
        match span > MAX_DELAY {
            true => Err(out_of_range(name, format!("`{span:?}` is longer than 30 days"))),
            false => Ok(()),
        }
    }
}

/// `base · factor^retries`, at most [`MAX_DELAY`]. Computed in nanoseconds, so that a small base still
/// grows by a small factor. The loop ends when the cap is reached or the delay stops growing: at most
/// about 20,000 rounds.
fn exponential(base: Span, factor: u32, retries: u32) -> Span {
    let nanos = |span: Span| u128::from(span.as_millis()) * 1_000_000;
    let mut delay = nanos(base);
    for _ in 0..retries {
        let next = delay * u128::from(factor) / 1000;
        if next == delay || delay > nanos(MAX_DELAY) {
            break;
        }
        delay = next;
    }
    Span::from_millis((delay.min(nanos(MAX_DELAY)) / 1_000_000) as u64)
}

fn polynomial(retries: u32, random: u64) -> Span {
    let n = u64::from(retries);
    let jitter = (random % 30).saturating_mul(n + 1);
    Span::from_secs(n.saturating_pow(4).saturating_add(15).saturating_add(jitter))
}

fn out_of_range(field: &str, message: impl Into<String>) -> Invalid {
    Invalid::new(Code::RetryRange, field, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(backoff: Backoff) -> Retry {
        Retry { backoff, max_attempts: None, max_interval: None, jitter: 0 }
    }

    fn delays(retry: Retry, n: u32) -> Vec<u64> {
        (1..=n).map(|attempt| retry.delay(attempt, 7).as_millis()).collect()
    }

    #[test]
    fn delays_grow_by_their_backoff() {
        let (second, half) = (Span::from_secs(1), Span::from_millis(500));
        assert_eq!(delays(plain(Backoff::None), 3), [0, 0, 0]);
        assert_eq!(delays(plain(Backoff::Constant { every: second }), 3), [1000, 1000, 1000]);
        assert_eq!(delays(plain(Backoff::Linear { step: half }), 3), [500, 1000, 1500]);
        let doubling = Backoff::Exponential { base: second, factor: 2000 };
        assert_eq!(delays(plain(doubling), 4), [1000, 2000, 4000, 8000]);
        let gentle = Backoff::Exponential { base: Span::from_millis(1), factor: 1500 };
        assert_eq!(delays(plain(gentle), 6), [1, 1, 2, 3, 5, 7]);
    }

    #[test]
    fn polynomial_delays_equal_those_of_faktory() {
        let polynomial = plain(Backoff::Polynomial);
        let seconds = |attempt, random| polynomial.delay(attempt, random).as_millis() / 1000;
        assert_eq!([seconds(1, 0), seconds(1, 29), seconds(1, 30)], [15, 44, 15]);
        assert_eq!([seconds(3, 0), seconds(3, 29)], [31, 31 + 29 * 3]);
        assert_eq!(seconds(26, 0), 390_640);
    }

    #[test]
    fn every_backoff_is_capped_by_its_maximum() {
        let max = Span::from_millis(2500);
        let second = Span::from_secs(1);
        for backoff in [
            Backoff::Constant { every: Span::MAX },
            Backoff::Linear { step: second },
            Backoff::Exponential { base: second, factor: 3000 },
            Backoff::Polynomial,
        ] {
            let retry = Retry { max_interval: Some(max), ..plain(backoff) };
            assert_eq!(retry.delay(9, 0), max, "{backoff:?}");
        }
    }

    #[test]
    fn the_default_is_as_documented() {
        let retry = Retry::default();
        assert_eq!(retry.check("retry"), Ok(()));
        let still = Retry { jitter: 0, ..retry };
        let delays = delays(still, 19);
        assert_eq!((delays[0], delays[11], delays[12]), (1000, 2_048_000, 3_600_000));
        assert_eq!(delays.iter().sum::<u64>() / 3_600_000, 8);
        assert!(!retry.is_last(19) && retry.is_last(20) && retry.is_last(21));
        assert!(!Retry { max_attempts: None, ..retry }.is_last(u32::MAX));
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let second = Span::from_secs(1);
        let long = MAX_DELAY.plus(Span::from_millis(1));
        let good = Retry::default();
        let with = |backoff| Retry { backoff, ..good };
        for (retry, field) in [
            (Retry { max_attempts: Some(0), ..good }, "retry.max-attempts"),
            (Retry { max_attempts: Some(1001), ..good }, "retry.max-attempts"),
            (Retry { max_interval: Some(Span::ZERO), ..good }, "retry.max-interval"),
            (Retry { max_interval: Some(long), ..good }, "retry.max-interval"),
            (Retry { jitter: 101, ..good }, "retry.jitter"),
            (with(Backoff::Constant { every: long }), "retry.backoff.every"),
            (with(Backoff::Linear { step: long }), "retry.backoff.step"),
            (with(Backoff::Exponential { base: long, factor: 2000 }), "retry.backoff.base"),
            (with(Backoff::Exponential { base: second, factor: 999 }), "retry.backoff.factor"),
            (
                with(Backoff::Exponential { base: second, factor: MAX_FACTOR + 1 }),
                "retry.backoff.factor",
            ),
        ] {
            let error = retry.check("retry").expect_err(field);
            assert_eq!((error.code, error.field.as_str()), (Code::RetryRange, field));
        }
        for max_attempts in [None, Some(1), Some(1000)] {
            assert_eq!(Retry { max_attempts, ..good }.check("retry"), Ok(()));
        }
    }

    #[test]
    fn stored_policies_read_back_and_leave_out_defaults() {
        let retry = Retry { max_attempts: None, ..plain(Backoff::Polynomial) };
        let stored = serde_json::to_string(&retry).expect("json");
        assert_eq!(serde_json::from_str::<Retry>(&stored).expect("json"), retry);
        assert_eq!(serde_json::from_str::<Retry>("{}").expect("json"), Retry::default());
        let packed = rmp_serde::to_vec_named(&Retry::default()).expect("msgpack");
        assert_eq!(rmp_serde::from_slice::<Retry>(&packed).expect("msgpack"), Retry::default());
    }

    fn any_span() -> impl Strategy<Value = Span> {
        prop_oneof![0_u64..100_000, any::<u64>()].prop_map(Span::from_millis)
    }

    fn any_retry() -> impl Strategy<Value = Retry> {
        let factor = prop_oneof![0_u32..4000, any::<u32>()];
        let backoff = prop_oneof![
            Just(Backoff::None),
            any_span().prop_map(|every| Backoff::Constant { every }),
            any_span().prop_map(|step| Backoff::Linear { step }),
            (any_span(), factor).prop_map(|(base, factor)| Backoff::Exponential { base, factor }),
            Just(Backoff::Polynomial),
        ];
        let max_interval = proptest::option::of(any_span());
        (backoff, proptest::option::of(any::<u32>()), max_interval, any::<u8>()).prop_map(
            |(backoff, max_attempts, max_interval, jitter)| Retry {
                backoff,
                max_attempts,
                max_interval,
                jitter,
            },
        )
    }

    fn any_attempt() -> impl Strategy<Value = u32> {
        prop_oneof![0_u32..50, any::<u32>(), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn no_delay_passes_its_maximum(
            retry in any_retry(), attempt in any_attempt(), random in any::<u64>(),
        ) {
            let delay = retry.delay(attempt, random);
            prop_assert!(delay <= MAX_DELAY);
            prop_assert!(retry.max_interval.is_none_or(|max| delay <= max));
            prop_assert_eq!(delay, retry.delay(attempt, random));
        }

        #[test]
        fn jitter_stays_within_its_percent(
            retry in any_retry(), attempt in any_attempt(), random in any::<u64>(),
        ) {
            prop_assume!(retry.backoff != Backoff::Polynomial);
            let plain = Retry { jitter: 0, ..retry }.delay(attempt, random).as_millis();
            let delay = retry.delay(attempt, random).as_millis();
            let percent = u64::from(retry.jitter.min(100));
            prop_assert!(delay.abs_diff(plain) * 100 <= plain * percent, "{delay} {plain}");
        }

        #[test]
        fn delays_without_jitter_never_shrink(
            retry in any_retry(), attempt in any_attempt(), random in any::<u64>(),
        ) {
            let shrinks = matches!(retry.backoff, Backoff::Exponential { factor: 0..1000, .. });
            prop_assume!(!shrinks);
            let still = Retry { jitter: 0, ..retry };
            let next = still.delay(attempt.saturating_add(1), random);
            prop_assert!(still.delay(attempt, random) <= next);
        }
    }

    #[test]
    fn a_capped_delay_is_still_spread() {
        let retry = Retry::default();
        let drawn: std::collections::BTreeSet<_> =
            (0..1000).map(|random| retry.delay(19, random * 7919)).collect();
        assert!(drawn.len() > 900, "{} different delays", drawn.len());
    }
}
