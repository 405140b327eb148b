//! The parts of a filter that an index can serve: states, queues, kinds, ids and ranges of time.

use std::collections::BTreeSet;

use super::SearchFilter;
use super::term::{FilterTest, LabelMatch, PayloadValue, TextMatch, TimeField};
use crate::id::JobId;
use crate::index::{IndexKey, IndexedField};
use crate::job::State;
use crate::limit::{Comparison, Scalar};
use crate::name::Name;
use crate::time::Time;

/// A range of instants; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The earliest instant.
    pub from: Time,
    /// The latest instant.
    pub to: Time,
}

/// Keys of an index under which every job is that a term of a filter selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLookup {
    /// The number of the term, from 0.
    pub term: usize,
    /// The keys, in the order of the values, without duplicates. Jobs under them need not match.
    pub keys: Vec<IndexKey>,
    /// The payload field that must be indexed; `None`: a label or an error, which always is.
    pub field: Option<IndexedField>,
}

impl SearchFilter {
    /// The lookups in an index that can replace a scan; the most selective are expected first.
    pub fn lookups(&self) -> Vec<IndexLookup> {
        let mut lookups = Vec::new();
        for (term, one) in self.terms.iter().enumerate().filter(|(_, one)| !one.negated) {
            let (keys, field) = match &one.test {
                FilterTest::Error(all) => {
                    (Some(all.iter().map(|one| IndexKey::error(*one)).collect()), None)
                }
                FilterTest::Label(labels) => (label_keys(labels), None),
                FilterTest::Payload(field, values) => {
                    let field = IndexedField::from_field(field.clone());
                    (payload_keys(&field, values), Some(field))
                }
                _ => (None, None),
            };
            let Some(mut keys) = keys else { continue };
            let mut seen = BTreeSet::new();
            keys.retain(|key| seen.insert(*key));
            lookups.push(IndexLookup { term, keys, field });
        }
        // Stable: among equals, the first term counts.
        lookups.sort_by_key(|lookup| match self.terms[lookup.term].test {
            FilterTest::Payload(..) => 0,
            FilterTest::Error(_) => 1,
            _ => 2,
        });
        lookups
    }

    /// The states that a matching job can have, in life-cycle order.
    pub fn states(&self) -> Vec<State> {
        let possible = |state: &State| {
            self.terms.iter().all(|term| match &term.test {
                FilterTest::State(states) => states.contains(state) != term.negated,
                FilterTest::Time(TimeField::Ended, ..) => term.negated || state.has_ended(),
                FilterTest::Why(_) => term.negated || state.has_ended(),
                _ => true,
            })
        };
        State::ALL.into_iter().filter(possible).collect()
    }

    /// The queues that a matching job can be in, if a term names them without `*`.
    pub fn queues(&self) -> Option<Vec<Name>> {
        self.names(|test| match test {
            FilterTest::Queue(names) => Some(names),
            _ => None,
        })
    }

    /// The kinds that a matching job can have, if a term names them without `*`.
    pub fn kinds(&self) -> Option<Vec<Name>> {
        self.names(|test| match test {
            FilterTest::Kind(names) => Some(names),
            _ => None,
        })
    }

    /// The ids that a matching job can have, in order, if a term names them.
    pub fn ids(&self) -> Option<Vec<JobId>> {
        let mut ids = self.terms.iter().find_map(|term| match &term.test {
            FilterTest::Id(ids) if !term.negated => Some(ids.clone()),
            _ => None,
        })?;
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }

    /// The range of due times of matching jobs.
    pub fn due_range(&self, now: Time) -> TimeRange {
        self.range(TimeField::Due, now)
    }

    /// The range of end times of matching jobs.
    pub fn ended_range(&self, now: Time) -> TimeRange {
        self.range(TimeField::Ended, now)
    }

    /// Whether the filter says no more than [`Self::states`], [`Self::queues`], [`Self::kinds`] and the term of a lookup.
    pub fn is_indexed(&self, lookup: Option<usize>) -> bool {
        let count = |test: fn(&FilterTest) -> bool| {
            self.terms.iter().filter(|term| test(&term.test)).count() <= 1
        };
        let exact = |names: &[TextMatch]| names.iter().all(|n| matches!(n, TextMatch::Exact(_)));
        self.terms.iter().enumerate().all(|(nth, term)| match &term.test {
            FilterTest::State(_) => true,
            FilterTest::Queue(names) | FilterTest::Kind(names) => !term.negated && exact(names),
            _ => lookup == Some(nth),
        }) && count(|test| matches!(test, FilterTest::Queue(_)))
            && count(|test| matches!(test, FilterTest::Kind(_)))
    }

    fn range(&self, field: TimeField, now: Time) -> TimeRange {
        let mut range = TimeRange { from: Time::ZERO, to: Time::MAX };
        for term in self.terms.iter().filter(|term| !term.negated) {
            let FilterTest::Time(of, order, instant) = &term.test else { continue };
            let at = instant.at(now);
            match order {
                _ if *of != field => {}
                Comparison::Less | Comparison::AtMost => range.to = range.to.min(at),
                Comparison::More | Comparison::AtLeast => range.from = range.from.max(at),
            }
        }
        range
    }

    fn names(&self, of: fn(&FilterTest) -> Option<&Vec<TextMatch>>) -> Option<Vec<Name>> {
        let exact = |pattern: &TextMatch| match pattern {
            TextMatch::Exact(text) => Name::new("name", text).ok(),
            TextMatch::Glob(_) => None,
        };
        let positive = self.terms.iter().filter(|term| !term.negated);
        let mut names = positive
            .filter_map(|term| of(&term.test))
            .find_map(|patterns| patterns.iter().map(exact).collect::<Option<Vec<_>>>())?;
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}

/// The keys of jobs with one of these labels; `None`: one of them is not an exact value.
fn label_keys(labels: &[LabelMatch]) -> Option<Vec<IndexKey>> {
    let key = |label: &LabelMatch| match &label.value {
        Some(TextMatch::Exact(value)) => Some(IndexKey::label(&label.name, value)),
        Some(TextMatch::Glob(_)) | None => None,
    };
    let keys: Option<Vec<IndexKey>> = labels.iter().map(key).collect();
    keys.map(|mut keys| {
        keys.push(IndexKey::MANY_LABELS);
        keys
    })
}

/// The keys of jobs whose field has one of these values; `None`: one of them has no key.
fn payload_keys(field: &IndexedField, values: &[PayloadValue]) -> Option<Vec<IndexKey>> {
    let mut keys = Vec::new();
    for value in values {
        if let Some(scalar) = &value.scalar {
            keys.push(IndexKey::payload(field, scalar.borrowed())?);
        }
        keys.push(IndexKey::payload(field, Scalar::Text(&value.text))?);
    }
    Some(keys)
}
