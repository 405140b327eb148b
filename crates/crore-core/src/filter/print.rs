//! Prints filters. The output parses to the same filter.

use std::fmt::{self, Display, Formatter};

use super::SearchFilter;
use super::term::{FilterTerm, FilterTest, InstantValue, LabelMatch, NumberField, PayloadValue};
use super::term::{TextMatch, TimeField, reason_word};
use super::values::{bare_scalar, is_bare_char};
use crate::limit::Quoted;

impl Display for SearchFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.terms
            .iter()
            .enumerate()
            .try_for_each(|(nth, term)| write!(f, "{}{term}", if nth > 0 { " " } else { "" }))
    }
}

impl Display for FilterTerm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negated { "-" } else { "" }, self.test)
    }
}

impl Display for FilterTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(states) => list(f, "state:", states.iter().map(|s| s.word())),
            Self::Queue(names) => list(f, "queue:", names),
            Self::Kind(names) => list(f, "kind:", names),
            Self::Worker(names) => list(f, "worker:", names),
            Self::Label(labels) => list(f, "label:", labels),
            Self::Id(ids) => list(f, "id:", ids),
            Self::Parent(ids) => list(f, "parent:", ids),
            Self::Replays(ids) => list(f, "replays:", ids),
            Self::Group(ids) => list(f, "group:", ids),
            Self::Why(reasons) => list(f, "why:", reasons.iter().map(|r| reason_word(*r))),
            Self::Error(fingerprints) => list(f, "error=", fingerprints),
            Self::ErrorText(texts) => list(f, "error~", texts.iter().map(|text| BareText(text))),
            Self::Payload(field, values) => list(f, &format!("{field}="), values),
            Self::PayloadText(field, texts) => {
                list(f, &format!("{field}~"), texts.iter().map(|text| BareText(text)))
            }
            Self::PayloadOrder(field, order, number) => {
                write!(f, "{field}{order}{}", number.literal())
            }
            Self::Age(order, span) => write!(f, "age{order}{span}"),
            Self::Time(field, order, instant) => write!(f, "{field}{order}{instant}"),
            Self::Number(field, numbers) => list(f, &format!("{field}="), numbers),
            Self::NumberOrder(field, order, number) => write!(f, "{field}{order}{number}"),
        }
    }
}

fn list(
    f: &mut Formatter<'_>,
    start: &str,
    values: impl IntoIterator<Item = impl Display>,
) -> fmt::Result {
    f.write_str(start)?;
    values
        .into_iter()
        .enumerate()
        .try_for_each(|(nth, value)| write!(f, "{}{value}", if nth > 0 { "," } else { "" }))
}

/// A text, in quotes if it needs them.
struct BareText<'a>(&'a str);

impl Display for BareText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            text if !text.is_empty() && text.chars().all(is_bare_char) => f.write_str(text),
            text => Quoted(text).fmt(f),
        }
    }
}

impl Display for TextMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(pattern) => f.write_str(pattern),
            Self::Exact(text) if text.contains('*') => Quoted(text).fmt(f),
            Self::Exact(text) => BareText(text).fmt(f),
        }
    }
}

impl Display for LabelMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.name.contains('=') {
            Quoted(&self.name).fmt(f)?;
        } else {
            BareText(&self.name).fmt(f)?;
        }
        self.value.as_ref().map_or(Ok(()), |value| write!(f, "={value}"))
    }
}

impl Display for PayloadValue {
    /// Quotes tell a text from the number that it looks like.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.scalar {
            None if bare_scalar(&self.text).is_some() => Quoted(&self.text).fmt(f),
            _ => BareText(&self.text).fmt(f),
        }
    }
}

impl Display for InstantValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ago(span) if span.is_zero() => f.write_str("now"),
            Self::Ago(span) => write!(f, "-{span}"),
            Self::Ahead(span) => write!(f, "+{span}"),
            Self::At(time) => match jiff::Timestamp::from_millisecond(time.as_millis()) {
                Ok(instant) => write!(f, "{instant:.3}"),
                Err(_) => f.write_str("now"),
            },
        }
    }
}

impl Display for TimeField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pushed => "pushed",
            Self::Due => "due",
            Self::Started => "started",
            Self::Ended => "ended",
        })
    }
}

impl Display for NumberField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempt => "attempt",
            Self::Crashes => "crashes",
            Self::Priority => "priority",
        })
    }
}
