//! Conditions and their evaluation against a job.

use std::cell::OnceCell;
use std::cmp::Ordering;

use super::field::{JobField, PathStep};
use super::scalar::{Literal, Number, Scalar, ScalarRef};
use super::walk::PayloadFields;
use crate::payload::Payload;

/// Selects the jobs that a limit applies to. The default matches every job; any other matcher is parsed, so
/// its nesting is bounded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matcher(pub(super) Option<Condition>);

/// `All` and `Any` have at least two operands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Test(JobField, Test),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Equal(Literal),
    Unequal(Literal),
    Compare(Comparison, Number),
    /// Sorted, without duplicates, not empty.
    In(Vec<Literal>),
    Prefix(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Matcher {
    /// Whether a job is selected.
    ///
    /// A comparison with an absent field, a value of another type, an object, an array or NaN is false.
    /// `!=` is the negation of `=`, hence true for all of these. A field with the value null equals `null`;
    /// an absent field does not.
    pub fn matches(&self, queue: &str, kind: &str, payload: &Payload) -> bool {
        let mut paths = Vec::new();
        self.collect_paths(&mut paths);
        self.holds(&MatchContext::new(queue, kind, payload, paths))
    }

    pub(super) fn holds(&self, facts: &MatchContext<'_>) -> bool {
        self.0.as_ref().is_none_or(|condition| condition.holds(facts))
    }

    pub(super) fn collect_paths<'m>(&'m self, paths: &mut Vec<&'m [PathStep]>) {
        if let Some(condition) = &self.0 {
            condition.collect_paths(paths);
        }
    }
}

impl Condition {
    fn holds(&self, facts: &MatchContext<'_>) -> bool {
        match self {
            Self::Test(field, test) => test.holds(facts.value(field)),
            Self::All(parts) => parts.iter().all(|part| part.holds(facts)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(facts)),
            Self::Not(inner) => !inner.holds(facts),
        }
    }

    fn collect_paths<'m>(&'m self, paths: &mut Vec<&'m [PathStep]>) {
        match self {
            Self::Test(field, _) => field.collect_path(paths),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.collect_paths(paths));
            }
            Self::Not(inner) => inner.collect_paths(paths),
        }
    }
}

impl Test {
    fn holds(&self, value: Option<ScalarRef<'_>>) -> bool {
        let equals = |literal: &Literal| value == Some(literal.borrowed());
        match (self, value) {
            (Self::Equal(literal), _) => equals(literal),
            (Self::Unequal(literal), _) => !equals(literal),
            (Self::In(set), Some(value)) => {
                set.binary_search_by(|literal| literal.borrowed().cmp(&value)).is_ok()
            }
            (Self::Compare(comparison, number), Some(Scalar::Number(value))) => {
                comparison.accepts(value.cmp(number))
            }
            (Self::Prefix(prefix), Some(Scalar::Text(value))) => value.starts_with(&**prefix),
            (Self::In(_) | Self::Compare(..) | Self::Prefix(_), _) => false,
        }
    }
}

impl Comparison {
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

impl JobField {
    pub(crate) fn collect_path<'f>(&'f self, paths: &mut Vec<&'f [PathStep]>) {
        if let Self::Payload(path) = self {
            paths.push(&path.0);
        }
    }
}

/// The fields of one job. The payload is parsed on the first access to a payload field, once for all
/// `paths`.
#[derive(Debug)]
pub(crate) struct MatchContext<'a> {
    queue: &'a str,
    kind: &'a str,
    payload: &'a Payload,
    paths: Vec<&'a [PathStep]>,
    found: OnceCell<PayloadFields<'a>>,
}

impl<'a> MatchContext<'a> {
    pub(crate) fn new(
        queue: &'a str,
        kind: &'a str,
        payload: &'a Payload,
        paths: Vec<&'a [PathStep]>,
    ) -> Self {
        Self { queue, kind, payload, paths, found: OnceCell::new() }
    }

    pub(crate) fn value(&self, field: &JobField) -> Option<ScalarRef<'_>> {
        match field {
            JobField::Kind => Some(Scalar::Text(self.kind)),
            JobField::Queue => Some(Scalar::Text(self.queue)),
            JobField::Payload(path) => {
                let found = self
                    .found
                    .get_or_init(|| PayloadFields::read(self.payload, self.paths.clone()));
                found.value(&path.0).map(Literal::borrowed)
            }
        }
    }

    /// Whether the payload was parsed.
    #[cfg(test)]
    pub(super) fn has_read(&self) -> bool {
        self.found.get().is_some()
    }
}
