//! The charges of a job under its limits, and statements of its report about them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::matcher::MatchContext;
use super::{Limit, LimitKey, Rate, Scalar, key};
use crate::code::{Code, Invalid};
use crate::name::Name;
use crate::payload::Payload;
use crate::time::{Span, Time};

/// Maximum time for which a report pauses a key: 31 days.
pub const MAX_PAUSE: Span = Span::from_secs(31 * 86_400);

/// The end of a pause of a key, resolved against the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseEnd {
    /// This long after the time of the write.
    After(Span),
    /// At an instant.
    At(Time),
}

impl PauseEnd {
    /// The end of a pause that is written at `now`, at most [`MAX_PAUSE`] later.
    pub fn resolve(self, now: Time) -> Time {
        let end = match self {
            Self::After(span) => now.after(span),
            Self::At(time) => time,
        };
        end.min(now.after(MAX_PAUSE))
    }

    /// Validates the pause of a report at `now`: it is at most [`MAX_PAUSE`]. An instant in the past is none.
    pub fn check(self, field: &str, now: Time) -> Result<(), Invalid> {
        let span = match self {
            Self::After(span) => span,
            Self::At(time) => time.since(now),
        };
        crate::push::within(Code::TimeRange, field, span, Span::ZERO, MAX_PAUSE)
    }
}

/// The buckets that a job counts against, and what it takes from each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobCharges {
    /// The buckets, sorted by limit name.
    pub keys: Vec<LimitKey>,
    /// The cost under each key; `None`: one under each.
    pub costs: Option<Arc<[u32]>>,
    /// The first cost that is missing or out of range. A push is refused with it. For a job that is stored already,
    /// a missing or invalid cost counts as one, and a cost above the burst as the burst.
    pub fault: Option<Invalid>,
}

/// The charges of a job under these limits. The payload is parsed at most once, and only if a limit needs
/// one of its fields.
pub fn charges_for<'a>(
    limits: impl Iterator<Item = (&'a Name, &'a Limit)>,
    queue: &str,
    kind: &str,
    payload: &Payload,
) -> JobCharges {
    let limits: Vec<_> = limits.collect();
    let mut paths = Vec::new();
    for (_, limit) in &limits {
        limit.matcher.collect_paths(&mut paths);
        limit.per.iter().chain(&limit.cost).for_each(|field| field.collect_path(&mut paths));
    }
    charges(&limits, &MatchContext::new(queue, kind, payload, paths))
}

pub(super) fn charges(limits: &[(&Name, &Limit)], context: &MatchContext<'_>) -> JobCharges {
    let matching = limits.iter().filter(|(_, limit)| limit.matcher.holds(context));
    let mut fault = None;
    let mut all: Vec<(LimitKey, u32)> = matching
        .map(|(name, limit)| {
            let value = limit.per.as_ref().and_then(|field| context.value(field));
            let key = LimitKey { limit: (*name).clone(), value: value.and_then(key::value_text) };
            let cost = cost_of(name, limit, context).unwrap_or_else(|(cost, invalid)| {
                fault.get_or_insert(*invalid);
                cost
            });
            (key, cost)
        })
        .collect();
    all.sort_unstable();
    let costs = all.iter().any(|(_, cost)| *cost != 1);
    let costs = costs.then(|| all.iter().map(|(_, cost)| *cost).collect());
    JobCharges { keys: all.into_iter().map(|(key, _)| key).collect(), costs, fault }
}

/// The cost of a job under a limit; if it is refused at a push, the cost that a stored job has.
fn cost_of(
    name: &Name,
    limit: &Limit,
    context: &MatchContext<'_>,
) -> Result<u32, (u32, Box<Invalid>)> {
    let (Some(field), Some(Rate { burst, .. })) = (&limit.cost, limit.rate) else { return Ok(1) };
    let refused = |cost: u32, what: &str| {
        let message = format!("{what}; limit `{name}` needs a whole number from 0 to {burst}");
        Err((cost, Box::new(Invalid::new(Code::CostRange, field.to_string(), message))))
    };
    match context.value(field) {
        Some(Scalar::Number(number)) => match number.whole() {
            Some(whole) if whole > i128::from(burst) => {
                refused(burst, &format!("cost `{whole}` is above the burst"))
            }
            Some(whole) => {
                u32::try_from(whole).or_else(|_| refused(1, &format!("cost `{whole}` is negative")))
            }
            None => refused(1, &format!("cost `{}` is not a whole number", number.literal())),
        },
        Some(Scalar::Text(_) | Scalar::Bool(_)) => refused(1, "the cost is not a number"),
        Some(Scalar::Null) | None => refused(1, "the cost is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("limit", text).expect("a name")
    }

    fn charges(limits: &[(&str, &str)], payload: &str) -> JobCharges {
        let parse =
            |(limit, text): &(&str, &str)| (name(limit), Limit::parse(text).expect("a limit"));
        let limits: Vec<_> = limits.iter().map(parse).collect();
        let limits = limits.iter().map(|(name, limit)| (name, limit));
        charges_for(limits, "q", "k", &Payload::json(payload))
    }

    const TOKENS: (&str, &str) = ("tokens", "rate 100/1m cost payload.tokens per payload.key");

    #[test]
    fn costs_are_those_of_the_keys() {
        let limits = [TOKENS, ("calls", "rate 5/1s"), ("z", "rate 9/1s cost payload.n")];
        let both = charges(&limits, r#"{"tokens": 40.0, "n": 0, "key": "a"}"#);
        let names: Vec<_> = both.keys.iter().map(|key| key.limit.as_str()).collect();
        assert_eq!(names, ["calls", "tokens", "z"]);
        assert_eq!(both.costs.as_deref(), Some(&[1, 40, 0][..]));
        assert_eq!((both.fault, both.keys[1].value.as_deref()), (None, Some("a")));
        let ones = charges(&limits, r#"{"tokens": 1, "n": 1}"#);
        assert_eq!((ones.keys.len(), ones.costs, ones.fault), (3, None, None));
    }

    #[test]
    fn a_bad_cost_is_named_and_has_a_cost_that_can_run() {
        for (payload, cost, what) in [
            ("{}", None, "the cost is missing"),
            (r#"{"tokens": null}"#, None, "the cost is missing"),
            (r#"{"tokens": [7]}"#, None, "the cost is missing"),
            (r#"{"tokens": "7"}"#, None, "the cost is not a number"),
            (r#"{"tokens": -7}"#, None, "cost `-7` is negative"),
            (r#"{"tokens": 7.5}"#, None, "cost `7.5` is not a whole number"),
            (r#"{"tokens": 1e300}"#, None, "cost `1e300` is not a whole number"),
            (r#"{"tokens": 101}"#, Some(100), "cost `101` is above the burst"),
            (
                r#"{"tokens": 18446744073709551615}"#,
                Some(100),
                "cost `18446744073709551615` is above the burst",
            ),
        ] {
            let found = charges(&[TOKENS], payload);
            let fault = found.fault.expect(payload);
            assert_eq!((fault.code, fault.field.as_str()), (Code::CostRange, "payload.tokens"));
            let message = format!("{what}; limit `tokens` needs a whole number from 0 to 100");
            assert_eq!(fault.message, message);
            assert_eq!(found.costs.map(|costs| costs[0]), cost, "{payload}");
        }
    }

    #[test]
    fn a_pause_is_bounded() {
        let now = Time::from_millis(1_800_000_000_000);
        let year = Span::from_secs(365 * 86_400);
        assert_eq!(PauseEnd::After(year).resolve(now), now.after(MAX_PAUSE));
        assert_eq!(PauseEnd::At(now.after(year)).resolve(now), now.after(MAX_PAUSE));
        assert_eq!(PauseEnd::At(Time::ZERO).resolve(now), Time::ZERO);
        assert!(PauseEnd::After(MAX_PAUSE).check("after", now).is_ok());
        let refused = PauseEnd::At(now.after(year)).check("until", now).expect_err("too long");
        assert_eq!((refused.code, refused.field.as_str()), (Code::TimeRange, "until"));
    }
}
