//! Random filters for tests.

use proptest::prelude::*;

use super::SearchFilter;
use super::fingerprint::Fingerprint;
use super::term::{FilterTerm, FilterTest, InstantValue, LabelMatch, NumberField, PayloadValue};
use super::term::{REASONS, TextMatch, TimeField};
use super::values::{bare_scalar, is_bare_char};
use crate::id::{GroupId, JobId};
use crate::job::State;
use crate::limit::sample::{number, path, text};
use crate::limit::{Comparison, JobField};
use crate::time::{Span, Time};

fn list<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 1..4)
}

fn name() -> impl Strategy<Value = Box<str>> {
    text().prop_filter("a name", |text| crate::Name::new("name", text).is_ok())
}

fn text_match(exact: impl Strategy<Value = Box<str>>) -> impl Strategy<Value = TextMatch> {
    let glob = text().prop_map(|text| {
        let bare: String = text.chars().filter(|c| is_bare_char(*c)).collect();
        TextMatch::Glob(format!("{bare}*").into())
    });
    prop_oneof![exact.prop_map(TextMatch::Exact), glob]
}

fn label() -> impl Strategy<Value = LabelMatch> {
    (text(), prop::option::of(text_match(text())))
        .prop_map(|(name, value)| LabelMatch { name, value })
}

fn payload_value() -> impl Strategy<Value = PayloadValue> {
    let plain = prop_oneof![text(), Just("null".into()), Just("-1.50".into()), Just("7".into())];
    (plain, any::<bool>()).prop_map(|(text, bare)| {
        let scalar = bare_scalar(&text).filter(|_| bare);
        PayloadValue { text, scalar }
    })
}

fn order() -> impl Strategy<Value = Comparison> {
    use Comparison::{AtLeast, AtMost, Less, More};
    prop::sample::select(vec![Less, AtMost, More, AtLeast])
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![(1..100_000_000_000_u64), (1..1000_u64).prop_map(|n| n * 3_600_000)]
        .prop_map(Span::from_millis)
}

fn instant() -> impl Strategy<Value = InstantValue> {
    prop_oneof![
        (0..Time::MAX.as_millis()).prop_map(|millis| InstantValue::At(Time::from_millis(millis))),
        Just(InstantValue::Ago(Span::ZERO)),
        span().prop_map(InstantValue::Ago),
        span().prop_map(InstantValue::Ahead),
    ]
}

fn lists() -> impl Strategy<Value = FilterTest> {
    let ids = || list((1..=u64::MAX >> 1).prop_map(JobId));
    prop_oneof![
        list(prop::sample::select(State::ALL.to_vec())).prop_map(FilterTest::State),
        list(text_match(name())).prop_map(FilterTest::Queue),
        list(text_match(name())).prop_map(FilterTest::Kind),
        list(text_match(name())).prop_map(FilterTest::Worker),
        list(label()).prop_map(FilterTest::Label),
        ids().prop_map(FilterTest::Id),
        ids().prop_map(FilterTest::Parent),
        ids().prop_map(FilterTest::Replays),
        ids().prop_map(|ids| FilterTest::Group(ids.iter().map(|id| GroupId(id.0)).collect())),
        list(prop::sample::select(REASONS.to_vec())).prop_map(FilterTest::Why),
        list(any::<u64>().prop_map(Fingerprint)).prop_map(FilterTest::Error),
        list(text()).prop_map(FilterTest::ErrorText),
    ]
}

fn comparisons() -> impl Strategy<Value = FilterTest> {
    let field = path().prop_filter("a path", |field| matches!(field, JobField::Payload(_))).boxed();
    let time = prop::sample::select(vec![
        TimeField::Pushed,
        TimeField::Due,
        TimeField::Started,
        TimeField::Ended,
    ]);
    let count = prop::sample::select(vec![
        NumberField::Attempt,
        NumberField::Crashes,
        NumberField::Priority,
    ]);
    prop_oneof![
        (field.clone(), list(payload_value())).prop_map(|(f, v)| FilterTest::Payload(f, v)),
        (field.clone(), list(text())).prop_map(|(f, v)| FilterTest::PayloadText(f, v)),
        (field, order(), number()).prop_map(|(f, o, n)| FilterTest::PayloadOrder(f, o, n)),
        (order(), span()).prop_map(|(o, s)| FilterTest::Age(o, s)),
        (time, order(), instant()).prop_map(|(f, o, i)| FilterTest::Time(f, o, i)),
        (count.clone(), list(any::<i64>())).prop_map(|(f, v)| FilterTest::Number(f, v)),
        (count, order(), any::<i64>()).prop_map(|(f, o, n)| FilterTest::NumberOrder(f, o, n)),
    ]
}

/// Filters that the parser can return, except that their text may be too long.
pub(super) fn filters() -> impl Strategy<Value = SearchFilter> {
    let test = prop_oneof![lists(), comparisons()];
    let term = (any::<bool>(), test).prop_map(|(negated, test)| FilterTerm { negated, test });
    let short = |filter: &SearchFilter| {
        filter.terms.iter().all(|term| match &term.test {
            FilterTest::Label(labels) => labels.iter().all(|label| match &label.value {
                Some(TextMatch::Exact(text) | TextMatch::Glob(text)) => text.len() <= 255,
                None => true,
            }),
            FilterTest::Queue(names) | FilterTest::Kind(names) | FilterTest::Worker(names) => {
                names.iter().all(|name| match name {
                    TextMatch::Exact(text) | TextMatch::Glob(text) => text.len() <= 255,
                })
            }
            _ => true,
        })
    };
    prop::collection::vec(term, 0..6)
        .prop_map(|terms| SearchFilter { terms })
        .prop_filter("short values", short)
}
