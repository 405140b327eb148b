//! Retry policies.

use crore_core::{Code, Invalid, Span, retry};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::units::Period;

/// Back-off: how delays grow from one attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// No delay.
    None,
    /// Each delay is `base`.
    Constant,
    /// `base` after the first attempt, twice that after the second, …
    Linear,
    /// `base` after the first attempt; each later delay is `factor` times the previous one.
    #[default]
    Exponential,
    /// `n⁴ + 15` seconds plus jitter, as in Faktory.
    Polynomial,
}

/// Retry policy. Default: 20 attempts, exponential back-off of 1 s, 2 s, 4 s … up to one hour, 10 % jitter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Maximum number of attempts, 1 to 1000; `null`: unlimited. Default: 20.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub max_attempts: Option<Option<u32>>,
    /// Back-off. Default: `exponential`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// First delay, at most 30 days. Default: 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Period>,
    /// Factor of the exponential back-off, 1 to 1000. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub factor: Option<f64>,
    /// Maximum delay; `null`: 30 days. Default: 1 h.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Period>)]
    pub max_interval: Option<Option<Period>>,
    /// Jitter in percent, in both directions, 0 to 100. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub jitter: Option<u8>,
}

/// Deserializes a field in which `null` differs from an absent value.
pub(super) fn double_option<'de, T, D>(reader: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(reader).map(Some)
}

impl Retry {
    /// Converts to the core type; [`retry::Retry::check`] validates the ranges.
    pub fn read(self) -> Result<retry::Retry, Invalid> {
        let defaults = retry::Retry::default();
        Ok(retry::Retry {
            backoff: backoff(self.backoff.unwrap_or_default(), self.base, self.factor)?,
            max_attempts: self.max_attempts.unwrap_or(defaults.max_attempts),
            max_interval: match self.max_interval {
                Some(max) => max.map(|max| max.0),
                None => defaults.max_interval,
            },
            jitter: self.jitter.unwrap_or(defaults.jitter),
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
        return wrong("retry.factor", "only an exponential back-off has a factor".to_owned());
    }
    let span = base.map_or(Span::from_secs(1), |base| base.0);
    Ok(match shape {
        Backoff::None | Backoff::Polynomial if base.is_some() => {
            return wrong("retry.base", "this back-off has no base".to_owned());
        }
        Backoff::None => retry::Backoff::None,
        Backoff::Polynomial => retry::Backoff::Polynomial,
        Backoff::Constant => retry::Backoff::Constant { every: span },
        Backoff::Linear => retry::Backoff::Linear { step: span },
        Backoff::Exponential => {
            let factor = factor.unwrap_or(2.0);
            if !(1.0..=1000.0).contains(&factor) {
                return wrong("retry.factor", format!("`{factor}` is not between 1 and 1000"));
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
    fn omitted_fields_have_defaults_and_set_fields_round_trip() {
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
    fn invalid_numbers_are_refused_with_their_field() {
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
