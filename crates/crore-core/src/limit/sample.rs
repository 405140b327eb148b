//! Random limits for tests.

use proptest::prelude::*;

use super::bucket::MAX_EVERY;
use super::field::{Path, PathStep};
use super::matcher::{Comparison, Condition, Test};
use super::scalar::{Literal, Number, Scalar};
use super::{JobField, Limit, Matcher, Rate};
use crate::time::Span;

pub(crate) fn text() -> impl Strategy<Value = Box<str>> {
    prop_oneof!["[a-z_][a-z0-9_-]{0,4}", "\\PC{0,6}", any::<String>()].prop_map(Into::into)
}

pub(crate) fn number() -> impl Strategy<Value = Number> {
    let float = any::<f64>().prop_filter("finite", |float| float.is_finite());
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        float.prop_map(|float| Number::from_f64(float).expect("finite")),
        (-70..70_i32).prop_map(|n| Number::from_f64(2_f64.powi(n)).expect("finite")),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        number().prop_map(Scalar::Number),
        text().prop_map(Scalar::Text),
    ]
}

fn set(of: impl Strategy<Value = Literal>) -> impl Strategy<Value = Test> {
    prop::collection::btree_set(of, 1..4).prop_map(|set| Test::In(set.into_iter().collect()))
}

pub(crate) fn path() -> impl Strategy<Value = JobField> {
    let step = prop_oneof![text().prop_map(PathStep::Name), any::<u32>().prop_map(PathStep::Index)];
    prop::collection::vec(step, 1..4).prop_map(|steps| JobField::Payload(Path(steps)))
}

fn test(literal: impl Strategy<Value = Literal> + Clone) -> impl Strategy<Value = Test> {
    prop_oneof![
        literal.clone().prop_map(Test::Equal),
        literal.clone().prop_map(Test::Unequal),
        set(literal),
        text().prop_map(Test::Prefix),
    ]
}

fn compare() -> impl Strategy<Value = Test> {
    let how = prop_oneof![
        Just(Comparison::Less),
        Just(Comparison::AtMost),
        Just(Comparison::More),
        Just(Comparison::AtLeast),
    ];
    (how, number()).prop_map(|(how, number)| Test::Compare(how, number))
}

fn leaf() -> impl Strategy<Value = Condition> {
    let name = prop_oneof![Just(JobField::Kind), Just(JobField::Queue)];
    let name_test = test(text().prop_map(Scalar::Text).boxed());
    prop_oneof![
        (name, name_test).prop_map(|(field, test)| Condition::Test(field, test)),
        (path(), prop_oneof![test(literal().boxed()), compare()])
            .prop_map(|(field, test)| Condition::Test(field, test)),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    leaf().prop_recursive(6, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::Any),
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}

fn rate() -> impl Strategy<Value = Rate> {
    let unit =
        prop_oneof![Just(1_u64), Just(1000), Just(60_000), Just(3_600_000), Just(86_400_000)];
    let burst = prop::option::of(1..100_u32);
    (1..1000_u32, 1..=31_u64, unit, burst).prop_map(|(count, n, unit, burst)| {
        let every = Span::from_millis(n * unit).min(MAX_EVERY);
        Rate { count, every, burst: burst.unwrap_or(count) }
    })
}

pub(super) fn limits() -> impl Strategy<Value = Limit> {
    let field = prop_oneof![Just(JobField::Kind), Just(JobField::Queue), path()];
    let condition = prop::option::weighted(0.8, condition());
    let numbers = prop_oneof![
        (rate().prop_map(Some), prop::option::of(path()), any::<Option<u32>>()),
        (Just(None), Just(None), any::<u32>().prop_map(Some)),
    ];
    (condition, numbers, prop::option::of(field)).prop_map(
        |(condition, (rate, cost, concurrency), per)| Limit {
            matcher: Matcher(condition),
            rate,
            cost,
            concurrency,
            per,
        },
    )
}
