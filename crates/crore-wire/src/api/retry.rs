//! When a job is tried again.

use crore_core::{Code, Invalid, Span, retry};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::words::Period;

/// How delays grow from one attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// There is no delay.
    None,
    /// Each delay is `base`.
    Constant,
    /// `base` after the first attempt, twice that after the second, and so on.
    Linear,
    /// `base` after the first attempt, and each delay `factor` times the one before.
    #[default]
    Exponential,
    /// `n⁴ + 15` seconds and some jitter, as Faktory has it.
    Polynomial,
}

/// When a job is tried again. What is left out is as the default has it: 20 attempts, delays of 1 s, 2 s,
/// 4 s and so on up to an hour, give or take a tenth.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many attempts there are in all, 1 to 1000; `null`: without end.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub max_attempts: Option<Option<u32>>,
    /// How delays grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The first delay, at most 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Period>,
    /// By how much an exponential delay grows: 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub factor: Option<f64>,
    /// No delay is longer; `null`: than 30 days.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Period>)]
    pub max_interval: Option<Option<Period>>,
    /// How far a delay may be off, either way, in percent: 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub jitter: Option<u8>,
}

/// Reads a field for which `null` says something else than to leave it out.
pub(super) fn said<'de, T, D>(reader: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(reader).map(Some)
}

impl Retry {
    /// The policy that is meant; its numbers are checked where all policies are.
    pub fn read(self) -> Result<retry::Retry, Invalid> {
        let usual = retry::Retry::default();
        Ok(retry::Retry {
            backoff: backoff(self.backoff.unwrap_or_default(), self.base, self.factor)?,
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            max_interval: match self.max_interval {
                Some(max) => max.map(|max| max.0),
                None => usual.max_interval,
            },
            jitter: self.jitter.unwrap_or(usual.jitter),
        })
    }
}

fn backoff(
    shape: Backoff,
    base: Option<Period>,
    factor: Option<f64>,
) -> Result<retry::Backoff, Invalid> {
    let wrong = |field: &str, why: String| Err(Invalid::new(Code::RetryRange, field, why));
    if factor.is_some() && shape != Backoff::Exponential {
        return wrong("retry.factor", "only exponential delays have a factor".to_owned());
    }
    let span = base.map_or(Span::from_secs(1), |base| base.0);
    Ok(match shape {
        Backoff::None | Backoff::Polynomial if base.is_some() => {
            return wrong("retry.base", "such delays have no base".to_owned());
        }
        Backoff::None => retry::Backoff::None,
        Backoff::Polynomial => retry::Backoff::Polynomial,
        Backoff::Constant => retry::Backoff::Constant { every: span },
        Backoff::Linear => retry::Backoff::Linear { step: span },
        Backoff::Exponential => {
            let factor = factor.unwrap_or(2.0);
            if !(1.0..=1000.0).contains(&factor) {
                return wrong("retry.factor", format!("`{factor}` lies outside 1 to 1000"));
            }
            retry::Backoff::Exponential { base: span, factor: (factor * 1000.0).round() as u32 }
        }
    })
}

impl From<&retry::Retry> for Retry {
    fn from(retry: &retry::Retry) -> Self {
        let (shape, base, factor) = match retry.backoff {
            retry::Backoff::None => (Backoff::None, None, None),
            retry::Backoff::Polynomial => (Backoff::Polynomial, None, None),
            retry::Backoff::Constant { every } => (Backoff::Constant, Some(every), None),
            retry::Backoff::Linear { step } => (Backoff::Linear, Some(step), None),
            retry::Backoff::Exponential { base, factor } => {
                (Backoff::Exponential, Some(base), Some(f64::from(factor) / 1000.0))
            }
        };
        Self {
            max_attempts: Some(retry.max_attempts),
            backoff: Some(shape),
            base: base.map(Period),
            factor,
            max_interval: Some(retry.max_interval.map(Period)),
            jitter: Some(retry.jitter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_usual_and_what_is_said_comes_back() {
        assert_eq!(Retry::default().read(), Ok(retry::Retry::default()));
        for backoff in [
            retry::Backoff::None,
            retry::Backoff::Polynomial,
            retry::Backoff::Constant { every: Span::from_secs(3) },
            retry::Backoff::Linear { step: Span::from_secs(3) },
            retry::Backoff::Exponential { base: Span::from_millis(5), factor: 1500 },
        ] {
            let policy =
                retry::Retry { backoff, max_attempts: None, max_interval: None, jitter: 3 };
            assert_eq!(Retry::from(&policy).read(), Ok(policy));
        }
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused_by_name() {
        for (bad, field) in [
            (Retry { factor: Some(0.5), ..Retry::default() }, "retry.factor"),
            (Retry { factor: Some(f64::NAN), ..Retry::default() }, "retry.factor"),
            (
                Retry { factor: Some(2.0), backoff: Some(Backoff::Linear), ..Retry::default() },
                "retry.factor",
            ),
            (
                Retry {
                    base: Some(Period(Span::ZERO)),
                    backoff: Some(Backoff::None),
                    ..Retry::default()
                },
                "retry.base",
            ),
        ] {
            assert_eq!(bad.read().unwrap_err().field, field);
        }
    }
}
