//! The terms of a filter.

use crate::filter::Fingerprint;
use crate::id::{GroupId, JobId};
use crate::job::{EndReason, State};
use crate::limit::{Comparison, JobField, Number, Scalar};
use crate::time::{Span, Time};

/// One condition of a filter, or its negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilterTerm {
    pub(super) negated: bool,
    pub(super) test: FilterTest,
}

/// A condition. Lists are not empty; one of their values must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilterTest {
    State(Vec<State>),
    Queue(Vec<TextMatch>),
    Kind(Vec<TextMatch>),
    Worker(Vec<TextMatch>),
    Label(Vec<LabelMatch>),
    Id(Vec<JobId>),
    Parent(Vec<JobId>),
    Replays(Vec<JobId>),
    Group(Vec<GroupId>),
    Why(Vec<EndReason>),
    Error(Vec<Fingerprint>),
    ErrorText(Vec<Box<str>>),
    Payload(JobField, Vec<PayloadValue>),
    PayloadText(JobField, Vec<Box<str>>),
    PayloadOrder(JobField, Comparison, Number),
    Age(Comparison, Span),
    Time(TimeField, Comparison, InstantValue),
    Number(NumberField, Vec<i64>),
    NumberOrder(NumberField, Comparison, i64),
}

/// Matches a whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextMatch {
    Exact(Box<str>),
    /// With at least one `*`, which stands for any characters.
    Glob(Box<str>),
}

/// Matches a label by its name, and by its value if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelMatch {
    pub(super) name: Box<str>,
    pub(super) value: Option<TextMatch>,
}

/// A value that a field of a payload is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PayloadValue {
    pub(super) text: Box<str>,
    /// The number, boolean or null that the text means, if it was written without quotes.
    pub(super) scalar: Option<Scalar<Box<str>>>,
}

/// An instant, absolute or relative to the time of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstantValue {
    At(Time),
    Ago(Span),
    /// Not zero.
    Ahead(Span),
}

impl InstantValue {
    pub(super) const fn at(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::Ago(span) => now.before(span),
            Self::Ahead(span) => now.after(span),
        }
    }
}

/// A time of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeField {
    Pushed,
    Due,
    Started,
    Ended,
}

/// A number of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberField {
    Attempt,
    Crashes,
    Priority,
}

/// Every reason for an end.
pub(super) const REASONS: [EndReason; 9] = [
    EndReason::Exhausted,
    EndReason::NotRetried,
    EndReason::Quarantined,
    EndReason::Asked,
    EndReason::GivenUp,
    EndReason::DependencyBroken,
    EndReason::Expired,
    EndReason::EventTimedOut,
    EndReason::Damaged,
];

/// The word for a reason.
pub(super) const fn reason_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exhausted => "exhausted",
        EndReason::NotRetried => "not-retried",
        EndReason::Quarantined => "quarantined",
        EndReason::Asked => "asked",
        EndReason::GivenUp => "given-up",
        EndReason::DependencyBroken => "dependency-broken",
        EndReason::Expired => "expired",
        EndReason::EventTimedOut => "event-timed-out",
        EndReason::Damaged => "damaged",
    }
}
