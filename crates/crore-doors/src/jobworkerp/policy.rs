//! Translates retry policies.

use crore_core::retry::{Backoff, MAX_ATTEMPTS, Retry};
use crore_core::{Code, Invalid, Span};
use crore_wire::grpc::jobworkerp::data::{RetryPolicy, RetryType};

/// The policy of a worker without retries.
const NONE: RetryPolicy = RetryPolicy {
    r#type: RetryType::None as i32,
    interval: 0,
    max_interval: 0,
    max_retry: 0,
    basis: 2.0,
};

/// Converts a policy to the core type; without one there is a single attempt. Delays have no jitter.
pub(super) fn read(policy: Option<&RetryPolicy>) -> Result<Retry, Invalid> {
    let single =
        Retry { backoff: Backoff::None, max_attempts: Some(1), max_interval: None, jitter: 0 };
    let Some(policy) = policy else { return Ok(single) };
    let wrong = |field: &str, message: String| {
        Err(Invalid::new(Code::RetryRange, format!("retry_policy.{field}"), message))
    };
    let Ok(retry_type) = RetryType::try_from(policy.r#type) else {
        return wrong("type", format!("`{}` is not a known value", policy.r#type));
    };
    // NaN is refused too.
    if policy.basis.is_nan() || policy.basis < 1.0 {
        return wrong("basis", format!("`{}` is less than 1", policy.basis));
    }
    if policy.max_retry >= MAX_ATTEMPTS {
        let max = MAX_ATTEMPTS - 1;
        return wrong("max_retry", format!("`{}`, at most {max} are allowed", policy.max_retry));
    }
    let span = |millis: u32| Span::from_millis(millis.into());
    let interval = span(policy.interval);
    let backoff = match retry_type {
        RetryType::None => return Ok(single),
        RetryType::Exponential => {
            Backoff::Exponential { base: interval, factor: factor(policy.basis) }
        }
        RetryType::Linear => Backoff::Linear { step: interval },
        RetryType::Constant => Backoff::Constant { every: interval },
    };
    let max_interval = (policy.max_interval > 0).then(|| span(policy.max_interval));
    Ok(Retry { backoff, max_attempts: Some(policy.max_retry + 1), max_interval, jitter: 0 })
}

/// The factor in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is at least 1, and the cast saturates at a value that is refused"
)]
fn factor(basis: f32) -> u32 {
    (f64::from(basis) * 1000.0).round() as u32
}

/// The jobworkerp policy that is nearest to a core policy.
pub(super) fn to_policy(retry: &Retry) -> RetryPolicy {
    let max_retry = max_retries(retry);
    let millis = |span: Span| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
    let (retry_type, interval, basis) = match retry.backoff {
        _ if max_retry == 0 => return NONE,
        Backoff::Exponential { base, factor } => {
            (RetryType::Exponential, millis(base), factor as f32 / 1000.0)
        }
        Backoff::Linear { step } => (RetryType::Linear, millis(step), NONE.basis),
        Backoff::Constant { every } => (RetryType::Constant, millis(every), NONE.basis),
        Backoff::None => (RetryType::Constant, 0, NONE.basis),
        // An approximation: the polynomial back-off also starts at about 30 s, but grows more slowly.
        Backoff::Polynomial => (RetryType::Exponential, 30_000, NONE.basis),
    };
    let max_interval = retry.max_interval.map_or(0, millis);
    RetryPolicy { r#type: retry_type.into(), interval, max_interval, max_retry, basis }
}

/// Maximum number of retries.
pub(super) fn max_retries(retry: &Retry) -> u32 {
    retry.max_attempts.map_or(u32::MAX, |max| max.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retry_type: RetryType, interval: u32, max_interval: u32) -> RetryPolicy {
        RetryPolicy { r#type: retry_type.into(), interval, max_interval, max_retry: 3, basis: 2.0 }
    }

    fn delays(policy: RetryPolicy) -> Vec<u64> {
        let retry = read(Some(&policy)).expect("good");
        assert_eq!(retry.max_attempts, Some(4));
        (1..4).map(|attempt| retry.delay(attempt, 12345).as_millis()).collect()
    }

    #[test]
    fn delays_are_exact_and_max_interval_counts() {
        assert_eq!(delays(policy(RetryType::Exponential, 1000, 0)), [1000, 2000, 4000]);
        assert_eq!(delays(policy(RetryType::Exponential, 1000, 3000)), [1000, 2000, 3000]);
        assert_eq!(delays(policy(RetryType::Linear, 1000, 0)), [1000, 2000, 3000]);
        assert_eq!(delays(policy(RetryType::Constant, 700, 0)), [700, 700, 700]);
        let half = RetryPolicy { basis: 1.5, ..policy(RetryType::Exponential, 1000, 0) };
        assert_eq!(delays(half), [1000, 1500, 2250]);
    }

    #[test]
    fn no_policy_none_and_no_retries_are_a_single_attempt() {
        let none = policy(RetryType::None, 1000, 0);
        for policy in [None, Some(&none)] {
            let retry = read(policy).expect("good");
            assert!(retry.is_last(1));
            assert_eq!(to_policy(&retry), NONE);
        }
        let zero = RetryPolicy { max_retry: 0, ..policy(RetryType::Linear, 1000, 0) };
        assert!(read(Some(&zero)).expect("good").is_last(1));
    }

    #[test]
    fn policies_round_trip() {
        for retry_type in [RetryType::Exponential, RetryType::Linear, RetryType::Constant] {
            let policy = policy(retry_type, 1000, 20_000);
            assert_eq!(to_policy(&read(Some(&policy)).expect("good")), policy);
        }
        assert_eq!(to_policy(&Retry::default()).max_retry, 19);
    }

    #[test]
    fn a_basis_below_one_is_refused_even_if_absent() {
        for basis in [0.0, 0.999, -1.0, f32::NAN, f32::NEG_INFINITY] {
            for retry_type in [RetryType::None, RetryType::Exponential, RetryType::Constant] {
                let refused = read(Some(&RetryPolicy { basis, ..policy(retry_type, 1000, 0) }));
                assert_eq!(refused.expect_err("too small").field, "retry_policy.basis");
            }
        }
        let unknown = RetryPolicy { r#type: 9, ..policy(RetryType::None, 0, 0) };
        assert_eq!(read(Some(&unknown)).expect_err("nothing").field, "retry_policy.type");
        let often = RetryPolicy { max_retry: 1000, ..policy(RetryType::Constant, 1, 0) };
        assert_eq!(read(Some(&often)).expect_err("too often").field, "retry_policy.max_retry");
    }
}
