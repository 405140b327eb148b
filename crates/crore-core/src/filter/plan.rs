//! The parts of a filter that an index can serve: states, queues, kinds, ids and ranges of time.

use super::SearchFilter;
use super::term::{FilterTest, TextMatch, TimeField};
use crate::id::JobId;
use crate::job::State;
use crate::limit::Comparison;
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

impl SearchFilter {
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

    /// Whether the filter says no more than [`Self::states`], [`Self::queues`] and [`Self::kinds`].
    pub fn is_indexed(&self) -> bool {
        let count = |test: fn(&FilterTest) -> bool| {
            self.terms.iter().filter(|term| test(&term.test)).count() <= 1
        };
        let exact = |names: &[TextMatch]| names.iter().all(|n| matches!(n, TextMatch::Exact(_)));
        self.terms.iter().all(|term| match &term.test {
            FilterTest::State(_) => true,
            FilterTest::Queue(names) | FilterTest::Kind(names) => !term.negated && exact(names),
            _ => false,
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
