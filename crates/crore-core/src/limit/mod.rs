//! Limits: constraints on the jobs that a matcher selects, and the text in which they are written.
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
//! clause    = "rate" digits "/" duration | "burst" digits | "concurrency" digits | "per" field
//! duration  = [ digits ] ( "ms" | "s" | "m" | "h" | "d" )
//! number    = [ "-" ] digits [ "." digits ] [ ( "e" | "E" ) [ "+" | "-" ] digits ]
//! text      = '"' { character | "\" ( '"' | "\" | "n" | "r" | "t" | "u{" hex "}" ) } '"'
//! word      = ( letter | "_" ) { letter | digit | "_" | "-" }
//! ```
//!
//! Each clause stands at most once, in any order; there is a rate or a concurrency, and a burst
//! only with a rate. Kinds and queues are compared with texts only. A number without point and
//! exponent fits into 64 bits; any other is a finite double. The text has at most 16 KiB, as it is
//! written and as it is printed, and a condition nests at most 64 levels, where each `not` and each
//! pair of parentheses is one.
//!
//! What the comparisons mean is said at [`Matcher::matches`], what `per` makes at [`LimitKey`], and
//! how a rate is kept in [`bucket`].

pub mod bucket;
mod condition;
mod field;
mod key;
mod lex;
mod matcher;
mod parse;
mod point;
mod print;
#[cfg(test)]
mod sample;
mod scalar;
mod walk;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use bucket::{Rate, Taken, Tat};
pub use field::{Field, Path};
pub use key::{LimitKey, MAX_VALUE};
pub use matcher::Matcher;
pub use point::point_at;

use crate::code::{Code, Invalid};
use crate::name::Name;
use crate::payload::Payload;
use matcher::Facts;

/// The longest text of a limit, in bytes.
pub const MAX_TEXT: usize = 16 * 1024;
/// How deep a condition may be nested.
pub const MAX_NESTING: usize = 64;

/// A constraint on the jobs that a matcher selects: how many may start in a span of time, how many
/// may run at once, or both; over all of them, or for each value of a field on its own.
///
/// It is stored and sent as its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Which jobs the limit is about.
    pub matcher: Matcher,
    /// How many may start in a span of time.
    pub rate: Option<Rate>,
    /// How many may run at once; with 0 nothing runs.
    pub concurrency: Option<u32>,
    /// The field whose values are limited each on its own.
    pub per: Option<Field>,
}

impl Limit {
    /// Reads a limit from its text. An error points at the character that is wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse::parse(text)
    }

    /// Whether the limit is one that its text can say. Every limit that was parsed is.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |code, message: String| Err(Invalid::new(code, "limit", message));
        if self.rate.is_none() && self.concurrency.is_none() {
            let message = "a limit needs a `rate` or a `concurrency`";
            return invalid(Code::LimitSyntax, message.to_owned());
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

    /// The bucket that a job counts against, if the limit is about it. A job in which the `per`
    /// field is absent or has no plain value counts against the bucket without a value.
    pub fn key(&self, name: &Name, queue: &str, kind: &str, payload: &Payload) -> Option<LimitKey> {
        keys_for([(name, self)].into_iter(), queue, kind, payload).pop()
    }
}

/// The buckets that a job counts against, sorted by the limits' names. The payload is read at most
/// once, and only if a limit needs one of its fields to decide.
pub fn keys_for<'a>(
    limits: impl Iterator<Item = (&'a Name, &'a Limit)>,
    queue: &str,
    kind: &str,
    payload: &Payload,
) -> Vec<LimitKey> {
    let limits: Vec<_> = limits.collect();
    let mut paths = Vec::new();
    for (_, limit) in &limits {
        limit.matcher.collect_paths(&mut paths);
        limit.per.iter().for_each(|field| field.collect_path(&mut paths));
    }
    keys(&limits, &Facts::new(queue, kind, payload, paths))
}

fn keys(limits: &[(&Name, &Limit)], facts: &Facts<'_>) -> Vec<LimitKey> {
    let matching = limits.iter().filter(|(_, limit)| limit.matcher.holds(facts));
    let mut keys: Vec<_> = matching
        .map(|(name, limit)| {
            let value = limit.per.as_ref().and_then(|field| facts.value(field));
            LimitKey { limit: (*name).clone(), value: value.and_then(key::value_text) }
        })
        .collect();
    keys.sort_unstable();
    keys
}

impl Serialize for Limit {
    /// Refuses a limit that [`Limit::check`] refuses, since it could not be read again.
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
