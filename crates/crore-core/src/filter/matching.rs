//! Evaluation of a filter against a job.

use super::SearchFilter;
use super::fingerprint::Fingerprint;
use super::term::{FilterTest, LabelMatch, NumberField, PayloadValue, TextMatch, TimeField};
use crate::id::Delivery;
use crate::job::Job;
use crate::limit::{MatchContext, Scalar, ScalarRef};
use crate::restriction::matches_stars;
use crate::time::Time;

impl SearchFilter {
    /// Whether a job matches at `now`. The payload is parsed at most once, and only if a term needs it.
    pub fn matches(&self, job: &Job, now: Time) -> bool {
        let mut paths = Vec::new();
        for term in &self.terms {
            if let FilterTest::Payload(field, _)
            | FilterTest::PayloadText(field, _)
            | FilterTest::PayloadOrder(field, ..) = &term.test
            {
                field.collect_path(&mut paths);
            }
        }
        let spec = &job.spec;
        let context =
            MatchContext::new(spec.queue.as_str(), spec.kind.as_str(), &spec.payload, paths);
        self.terms.iter().all(|term| term.test.holds(job, &context, now) != term.negated)
    }
}

impl FilterTest {
    fn holds(&self, job: &Job, context: &MatchContext<'_>, now: Time) -> bool {
        let (spec, live) = (&job.spec, &job.live);
        match self {
            Self::State(states) => states.contains(&live.state),
            Self::Queue(names) => any(names, spec.queue.as_str()),
            Self::Kind(names) => any(names, spec.kind.as_str()),
            Self::Worker(names) => live.worker.as_ref().is_some_and(|w| any(names, w.as_str())),
            Self::Label(labels) => labels.iter().any(|label| label.matches(job)),
            Self::Id(ids) => ids.contains(&job.id),
            Self::Parent(ids) => spec.parent.is_some_and(|(id, _)| ids.contains(&id)),
            Self::Replays(ids) => spec.replay_of.is_some_and(|id| ids.contains(&id)),
            Self::Group(ids) => spec.group.is_some_and(|id| ids.contains(&id)),
            Self::Why(reasons) => live.why.is_some_and(|why| reasons.contains(&why)),
            Self::Error(fingerprints) => job
                .live
                .newest_error()
                .is_some_and(|error| fingerprints.contains(&Fingerprint::of(error))),
            Self::ErrorText(texts) => {
                job.live.newest_error().is_some_and(|error| contains(error, texts))
            }
            Self::Payload(field, values) => {
                context.value(field).is_some_and(|found| values.iter().any(|v| v.equals(found)))
            }
            Self::PayloadText(field, texts) => {
                matches!(context.value(field), Some(Scalar::Text(text)) if contains(text, texts))
            }
            Self::PayloadOrder(field, order, number) => {
                matches!(context.value(field), Some(Scalar::Number(n)) if order.accepts(n.cmp(number)))
            }
            Self::Age(order, span) => order.accepts(now.since(live.pushed_at).cmp(span)),
            Self::Time(field, order, instant) => {
                field.of(job).is_some_and(|time| order.accepts(time.cmp(&instant.at(now))))
            }
            Self::Number(field, numbers) => numbers.contains(&field.of(job)),
            Self::NumberOrder(field, order, number) => order.accepts(field.of(job).cmp(number)),
        }
    }
}

fn any(patterns: &[TextMatch], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

/// Whether `text` contains one of `parts`, without regard to the case of ASCII letters. Copies the text, to search in
/// linear time.
fn contains(text: &str, parts: &[Box<str>]) -> bool {
    let text = text.to_ascii_lowercase();
    parts.iter().any(|part| text.contains(&part.to_ascii_lowercase()))
}

impl TextMatch {
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *text,
            Self::Glob(pattern) => matches_stars(pattern, text),
        }
    }
}

impl LabelMatch {
    fn matches(&self, job: &Job) -> bool {
        let found = job.spec.labels.get(&*self.name);
        found.is_some_and(|text| self.value.as_ref().is_none_or(|value| value.matches(text)))
    }
}

impl PayloadValue {
    fn equals(&self, found: ScalarRef<'_>) -> bool {
        match (found, &self.scalar) {
            (Scalar::Text(text), _) => *text == *self.text,
            (found, Some(scalar)) => found == scalar.borrowed(),
            (_, None) => false,
        }
    }
}

impl TimeField {
    fn of(self, job: &Job) -> Option<Time> {
        let live = &job.live;
        match self {
            Self::Pushed => Some(live.pushed_at),
            Self::Due => Some(live.due),
            Self::Started => (live.delivery != Delivery::NONE).then_some(live.started_at),
            Self::Ended => live.ended_at,
        }
    }
}

impl NumberField {
    fn of(self, job: &Job) -> i64 {
        match self {
            Self::Attempt => job.live.attempt.into(),
            Self::Crashes => job.live.crashes.into(),
            Self::Priority => job.spec.priority.into(),
        }
    }
}
