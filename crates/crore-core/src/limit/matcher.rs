//! Conditions, and whether a job meets them.

use std::cell::OnceCell;
use std::cmp::Ordering;

use super::field::{Field, Step};
use super::scalar::{Literal, Number, Scalar, Seen};
use super::walk::Found;
use crate::payload::Payload;

/// Which jobs a limit is about. The default matches every job; any other comes from a limit's
/// text, so it is never nested deeper than the parser allows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matcher(pub(super) Option<Condition>);

/// `All` and `Any` have at least two parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Test(Field, Test),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Equal(Literal),
    Unequal(Literal),
    Compare(Comparison, Number),
    /// Sorted, without doubles, and not empty.
    In(Vec<Literal>),
    Prefix(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Matcher {
    /// Whether a job is selected.
    ///
    /// A comparison with a field that the job does not have is false, and so is one with a value of
    /// another type, an object, an array or NaN. `!=` is the negation of `=`, hence true for all of
    /// these. A field that is there with the value null equals `null`; an absent one does not.
    pub fn matches(&self, queue: &str, kind: &str, payload: &Payload) -> bool {
        let mut paths = Vec::new();
        self.collect_paths(&mut paths);
        self.holds(&Facts::new(queue, kind, payload, paths))
    }

    pub(super) fn holds(&self, facts: &Facts<'_>) -> bool {
        self.0.as_ref().is_none_or(|condition| condition.holds(facts))
    }

    pub(super) fn collect_paths<'m>(&'m self, paths: &mut Vec<&'m [Step]>) {
        if let Some(condition) = &self.0 {
            condition.collect_paths(paths);
        }
    }
}

impl Condition {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Test(field, test) => test.holds(facts.value(field)),
            Self::All(parts) => parts.iter().all(|part| part.holds(facts)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(facts)),
            Self::Not(inner) => !inner.holds(facts),
        }
    }

    fn collect_paths<'m>(&'m self, paths: &mut Vec<&'m [Step]>) {
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
    fn holds(&self, value: Option<Seen<'_>>) -> bool {
        let equals = |literal: &Literal| value == Some(literal.seen());
        match (self, value) {
            (Self::Equal(literal), _) => equals(literal),
            (Self::Unequal(literal), _) => !equals(literal),
            (Self::In(set), Some(value)) => {
                set.binary_search_by(|literal| literal.seen().cmp(&value)).is_ok()
            }
            (Self::Compare(how, number), Some(Scalar::Number(value))) => {
                how.accepts(value.cmp(number))
            }
            (Self::Prefix(prefix), Some(Scalar::Text(value))) => value.starts_with(&**prefix),
            (Self::In(_) | Self::Compare(..) | Self::Prefix(_), _) => false,
        }
    }
}

impl Comparison {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

impl Field {
    pub(super) fn collect_path<'f>(&'f self, paths: &mut Vec<&'f [Step]>) {
        if let Self::Payload(path) = self {
            paths.push(&path.0);
        }
    }
}

/// What is known of one job. The payload is read when a payload field is first asked for, once for
/// all `paths`.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    queue: &'a str,
    kind: &'a str,
    payload: &'a Payload,
    paths: Vec<&'a [Step]>,
    found: OnceCell<Found<'a>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(
        queue: &'a str,
        kind: &'a str,
        payload: &'a Payload,
        paths: Vec<&'a [Step]>,
    ) -> Self {
        Self { queue, kind, payload, paths, found: OnceCell::new() }
    }

    pub(super) fn value(&self, field: &Field) -> Option<Seen<'_>> {
        match field {
            Field::Kind => Some(Scalar::Text(self.kind)),
            Field::Queue => Some(Scalar::Text(self.queue)),
            Field::Payload(path) => {
                let found =
                    self.found.get_or_init(|| Found::read(self.payload, self.paths.clone()));
                found.value(&path.0).map(Literal::seen)
            }
        }
    }

    /// Whether the payload was read.
    #[cfg(test)]
    pub(super) fn has_read(&self) -> bool {
        self.found.get().is_some()
    }
}
