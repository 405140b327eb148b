//! Limits: rate and concurrency constraints on the jobs that a matcher selects, and their text form.
//!
//! ```text
//! where kind = "mail" and payload.tenant in ("a", "b") and not (queue prefix "low" or
//!   payload.size >= 1000) rate 100/1m burst 20 concurrency 5 per payload.tenant
//!
//! limit     = [ "where" any ] clause { clause }
//! any       = all { "or" all }
//! all       = one { "and" one }
//! one       = "not" one | "(" any ")" | field test
//! test      = ( "=" | "!=" ) literal | ( "<" | "<=" | ">" | ">=" ) number
//!           | "in" "(" literal { "," literal } ")" | "prefix" text
//! field     = "kind" | "queue" | "payload" step { step }
//! step      = "." ( word | text ) | "[" digits "]"
//! literal   = text | number | "true" | "false" | "null"
//! clause    = "rate" digits "/" duration | "burst" digits | "cost" field | "concurrency" digits | "per" field
//! duration  = [ digits ] ( "ms" | "s" | "m" | "h" | "d" )
//! number    = [ "-" ] digits [ "." digits ] [ ( "e" | "E" ) [ "+" | "-" ] digits ]
//! text      = '"' { character | "\" ( '"' | "\" | "n" | "r" | "t" | "u{" hex "}" ) } '"'
//! word      = ( letter | "_" ) { letter | digit | "_" | "-" }
//! ```
//!
//! Each clause occurs at most once, in any order. A rate or a concurrency is required, and a burst and a cost need
//! a rate. The field of a cost is one of the payload: the rate counts its values instead of jobs. Kinds and queues are compared with texts only. A number without point and exponent fits into 64
//! bits; any other is a finite double. The text has at most 16 KiB, as written and as printed. A condition
//! nests at most 64 levels; each `not` and each pair of parentheses is one.
//!
//! [`Matcher::matches`] defines the comparisons, [`LimitKey`] the values of `per`, and [`bucket`] the rate
//! algorithm.

pub mod bucket;
mod charge;
mod condition;
mod field;
mod key;
mod lex;
mod matcher;
mod parse;
mod point;
mod print;
#[cfg(test)]
pub(crate) mod sample;
mod scalar;
mod walk;

use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use bucket::{CostGrant, Rate, RateGrant, Tat};
pub use charge::{JobCharges, MAX_PAUSE, PauseEnd, charges_for};
pub use field::{JobField, Path};
pub use key::{LimitKey, MAX_VALUE};
pub(crate) use key::{text_value, value_text};
pub(crate) use lex::read_quoted;
pub use matcher::Matcher;
pub(crate) use matcher::{Comparison, MatchContext};
pub use point::point_at;
pub(crate) use print::Quoted;
pub(crate) use scalar::{Number, NumberFault, Scalar, ScalarRef};

use crate::code::{Code, Invalid};
use crate::job::Spec;
use crate::name::Name;
use crate::payload::Payload;

/// Maximum length of a limit, in bytes.
pub const MAX_TEXT: usize = 16 * 1024;
/// Maximum nesting depth of a condition.
pub const MAX_NESTING: usize = 64;

/// A rate limit, a concurrency limit, or both, on the jobs that a matcher selects; over all of them, or
/// separately for each value of a field.
///
/// Stored and sent as text.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The jobs that the limit applies to.
    pub matcher: Matcher,
    /// Maximum rate of starts.
    pub rate: Option<Rate>,
    /// The payload field with the cost of a job, which the rate counts instead of one.
    pub cost: Option<JobField>,
    /// Maximum number of running jobs; 0 stops all.
    pub concurrency: Option<u32>,
    /// The field whose values are limited separately.
    pub per: Option<JobField>,
}

impl Limit {
    /// Parses a limit. An error has the offset of the offending character.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse::parse(text)
    }

    /// The names in the paths of all payload fields that the limit uses.
    pub fn payload_names(&self) -> impl Iterator<Item = &str> {
        let mut paths = Vec::new();
        self.matcher.collect_paths(&mut paths);
        self.per.iter().chain(&self.cost).for_each(|field| field.collect_path(&mut paths));
        paths.into_iter().flat_map(field::names_in)
    }

    /// Validates that the limit can be written as text. Every parsed limit can.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |code, message: String| Err(Invalid::new(code, "limit", message));
        if self.rate.is_none() && self.concurrency.is_none() {
            let message = "a limit needs a `rate` or a `concurrency`";
            return invalid(Code::LimitSyntax, message.to_owned());
        }
        if let Some(cost) = &self.cost
            && (self.rate.is_none() || !matches!(cost, JobField::Payload(_)))
        {
            let message =
                format!("cost `{cost}`: a cost needs a `rate` and a field of the payload");
            return invalid(Code::LimitSyntax, message);
        }
        if let Some((_, message)) = self.rate.and_then(|rate| rate.fault()) {
            return invalid(Code::LimitRange, message);
        }
        match self.to_string().len() {
            0..=MAX_TEXT => Ok(()),
            n => invalid(
                Code::LimitTooLong,
                format!("printed, the limit has {n} bytes, at most {MAX_TEXT} are allowed"),
            ),
        }
    }

    /// The bucket that a job counts against, if the limit applies to it. A job whose `per` field is absent
    /// or not a scalar counts against the bucket without a value.
    pub fn key(&self, name: &Name, queue: &str, kind: &str, payload: &Payload) -> Option<LimitKey> {
        keys_for([(name, self)].into_iter(), queue, kind, payload).pop()
    }
}

/// The value of a field of a job, in the form of [`LimitKey::value`].
pub(crate) fn field_text(field: &JobField, spec: &Spec) -> Option<Arc<str>> {
    let mut paths = Vec::new();
    field.collect_path(&mut paths);
    let context = MatchContext::new(spec.queue.as_str(), spec.kind.as_str(), &spec.payload, paths);
    context.value(field).and_then(value_text)
}

/// The buckets that a job counts against, sorted by limit name. The payload is parsed at most once, and
/// only if a limit needs one of its fields.
pub fn keys_for<'a>(
    limits: impl Iterator<Item = (&'a Name, &'a Limit)>,
    queue: &str,
    kind: &str,
    payload: &Payload,
) -> Vec<LimitKey> {
    charges_for(limits, queue, kind, payload).keys
}

impl Serialize for Limit {
    /// Fails for a limit that [`Limit::check`] refuses, since it could not be parsed again.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.check().map_err(S::Error::custom)?;
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
