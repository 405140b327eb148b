//! Fair share: a queue hands out its jobs in turns between the values of one field, its *fair keys*.
//!
//! Each key has a [`Turn`], the number by which keys of one priority are ordered (start-time fair queuing). The queue
//! has a virtual time, the start of the last claimed job. A claim of a key with weight `w` starts at the larger of
//! the key's turn and the virtual time; the virtual time becomes this start, and the key's turn the start plus
//! [`STEP`]` / w`. Nothing but a claim changes a turn. Between two jobs of an eligible key of weight `wᵢ` there are
//! therefore at most `⌈wⱼ/wᵢ⌉ + 1` jobs of the same priority of another key of weight `wⱼ`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid, excerpt};
use crate::job::Spec;
use crate::limit::{JobField, MAX_VALUE, field_text};

/// Maximum weight of a key.
pub const MAX_WEIGHT: u32 = 1000;
/// Maximum number of keys with a weight of their own, per queue.
pub const MAX_WEIGHTS: usize = 1000;
/// Weight of a key without one of its own.
pub const DEFAULT_WEIGHT: u32 = 1;

/// Distance between the turns of a key with weight 1. At this size rounding does not break the bound for any two
/// weights, and a key can be claimed 10¹³ times.
pub const STEP: u64 = 1 << 20;

/// Position of a key in the order of its queue.
pub type Turn = u64;

/// The value by which a job shares its queue: the text of a field, as in [`LimitKey`](crate::limit::LimitKey); empty
/// if the field is absent, null, an object or an array. At most 256 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FairKey(Arc<str>);

impl FairKey {
    /// The key for the text of a field; `None` is the key of all jobs without the field.
    pub fn new(value: Option<Arc<str>>) -> Self {
        Self(value.unwrap_or_default())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a queue shares its claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairShare {
    /// The field whose values share the queue.
    pub by: FairField,
    /// Weights of keys; all others have weight 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// The field whose values share a queue: `kind`, `payload.tenant`, `label.team`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FairField {
    /// The kind, or a value in the payload.
    Field(JobField),
    /// A label.
    Label(Box<str>),
}

/// Prefix of a field that is a label.
const LABEL: &str = "label.";
/// Maximum length of a field's text, in bytes.
const MAX_FIELD: usize = 1024;

impl FairField {
    /// Parses a field.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |message: String| Invalid::new(Code::FairField, "fair.by", message);
        if text.len() > MAX_FIELD {
            let n = text.len();
            return Err(invalid(format!(
                "the field has {n} bytes, at most {MAX_FIELD} are allowed"
            )));
        }
        if let Some(label) = text.strip_prefix(LABEL) {
            if label.is_empty() || label.len() > MAX_VALUE || label.chars().any(char::is_control) {
                let label = excerpt(label);
                return Err(invalid(format!(
                    "`{label}` cannot be a label; use 1 to {MAX_VALUE} bytes without control characters"
                )));
            }
            return Ok(Self::Label(label.into()));
        }
        match JobField::parse(text) {
            Ok(JobField::Queue) => {
                Err(invalid("a queue is shared by `kind`, `payload.…` or `label.…`".to_owned()))
            }
            Ok(field) => Ok(Self::Field(field)),
            Err(fault) => {
                let message = format!(
                    "`{}` is not a field to share by, such as `payload.tenant` or `label.team`: {}",
                    excerpt(text),
                    fault.message
                );
                Err(Invalid { at: fault.at, ..invalid(message) })
            }
        }
    }
}

impl fmt::Display for FairField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => field.fmt(f),
            Self::Label(label) => write!(f, "{LABEL}{label}"),
        }
    }
}

impl TryFrom<String> for FairField {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<FairField> for String {
    fn from(field: FairField) -> Self {
        field.to_string()
    }
}

impl FairShare {
    /// Validates the weights.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |field: String, message| Err(Invalid::new(Code::CountRange, field, message));
        if self.weights.len() > MAX_WEIGHTS {
            let n = self.weights.len();
            let message = format!("{n} weights, at most {MAX_WEIGHTS} are allowed");
            return invalid("fair.weights".to_owned(), message);
        }
        for (key, weight) in &self.weights {
            let field = format!("fair.weights.{}", excerpt(key));
            if key.len() > MAX_VALUE {
                let n = key.len();
                return invalid(
                    field,
                    format!("the value has {n} bytes, at most {MAX_VALUE} are allowed"),
                );
            }
            if !(1..=MAX_WEIGHT).contains(weight) {
                let message = format!("weight `{weight}` is out of range; use 1 to {MAX_WEIGHT}");
                return invalid(field, message);
            }
        }
        Ok(())
    }

    /// The key of a job.
    pub fn key(&self, spec: &Spec) -> FairKey {
        match &self.by {
            FairField::Field(field) => FairKey::new(field_text(field, spec)),
            FairField::Label(label) => {
                let value = spec.labels.get(&**label);
                FairKey::new(value.map(|value| crate::limit::text_value(value)))
            }
        }
    }

    /// The weight of a key.
    pub fn weight(&self, key: &str) -> u32 {
        // A stored weight of 0 would divide by zero.
        self.weights.get(key).copied().unwrap_or(DEFAULT_WEIGHT).clamp(1, MAX_WEIGHT)
    }
}

/// The start of a claim, which is the new virtual time, and the next turn of its key.
pub fn after_claim(turn: Turn, virtual_time: Turn, weight: u32) -> (Turn, Turn) {
    let start = turn.max(virtual_time);
    (start, start.saturating_add(STEP / u64::from(weight.clamp(1, MAX_WEIGHT))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::payload::Payload;
    use proptest::prelude::*;

    fn spec(payload: &str) -> Spec {
        let name = |text| Name::new("name", text).expect("a name");
        let mut spec = Spec::new(name("mail"), name("welcome"), Payload::json(payload));
        spec.labels.insert("team".to_owned(), "red".to_owned());
        spec
    }

    fn share(by: &str) -> FairShare {
        FairShare { by: FairField::parse(by).expect("a field"), weights: BTreeMap::new() }
    }

    #[test]
    fn a_key_is_the_text_of_the_field() {
        let key = |by: &str, payload: &str| share(by).key(&spec(payload)).as_str().to_owned();
        assert_eq!(key("payload.tenant", r#"{"tenant":"acme"}"#), "acme");
        assert_eq!(key("payload.tenant", r#"{"tenant":17}"#), "#17");
        assert_eq!(key("kind", "1"), "welcome");
        assert_eq!(key("label.team", "1"), "red");
        for none in ["1", "{}", r#"{"tenant":null}"#, r#"{"tenant":{}}"#, r#"{"tenant":[1]}"#, "{"]
        {
            assert_eq!(key("payload.tenant", none), "", "{none}");
        }
        assert_eq!(key("label.other", "1"), "");
        let long = format!(r#"{{"tenant":"{}"}}"#, "x".repeat(100_000));
        assert!(key("payload.tenant", &long).len() <= MAX_VALUE);
    }

    #[test]
    fn a_field_prints_as_it_was_written() {
        for text in ["kind", "payload.tenant", "payload.a[2].b", "label.team", "label.a b"] {
            assert_eq!(FairField::parse(text).map(|field| field.to_string()), Ok(text.to_owned()));
        }
        let long = "x".repeat(2000);
        for text in ["", "queue", "payload", "label.", "label.\n", "tenant", "payload.a b", &long] {
            let fault = FairField::parse(text).expect_err(text);
            assert_eq!((fault.code, fault.field.as_str()), (Code::FairField, "fair.by"), "{text}");
        }
    }

    #[test]
    fn weights_out_of_range_are_refused_by_name() {
        let check = |weight| {
            let weights = [("acme".to_owned(), weight)].into();
            FairShare { weights, ..share("kind") }
                .check()
                .map_err(|fault| (fault.code, fault.field))
        };
        assert_eq!((check(1), check(1000)), (Ok(()), Ok(())));
        for weight in [0, 1001, u32::MAX] {
            assert_eq!(check(weight), Err((Code::CountRange, "fair.weights.acme".to_owned())));
        }
        let many = (0..1001).map(|n| (n.to_string(), 1)).collect();
        assert!(FairShare { weights: many, ..share("kind") }.check().is_err());
        let long = [("x".repeat(257), 1)].into();
        assert!(FairShare { weights: long, ..share("kind") }.check().is_err());
    }

    proptest! {
        /// Two keys that always have jobs: between two claims of one, the other is claimed at most ⌈wⱼ/wᵢ⌉ + 1 times.
        #[test]
        fn no_key_waits_longer_than_its_weight_says(
            weights in proptest::array::uniform2(1u32..=MAX_WEIGHT),
            turns in proptest::array::uniform2(0u64..3 * STEP),
            virtual_time in 0u64..3 * STEP,
        ) {
            let step = |nth: usize| STEP / u64::from(weights[nth]);
            // A turn is at most one step behind the virtual time.
            let mut turns = [0, 1].map(|nth| turns[nth].min(virtual_time + step(nth)));
            let (mut now, mut others) = (virtual_time, [0u32; 2]);
            for _ in 0..3000 {
                let next = usize::from(turns[1] < turns[0]);
                (now, turns[next]) = after_claim(turns[next], now, weights[next]);
                others[next] = 0;
                others[1 - next] += 1;
                let bound = weights[next].div_ceil(weights[1 - next]) + 1;
                prop_assert!(others[1 - next] <= bound, "{} > {bound}", others[1 - next]);
            }
        }
    }
}
