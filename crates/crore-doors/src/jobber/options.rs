use std::collections::BTreeMap;

use crore_core::Span;
use crore_core::settings::{Setting, SettingValue, Shape, section};

section! {
    /// The Jobber protocol.
    pub struct Options: Eq = "jobber" {
        /// Visibility timeout (lease duration): a job whose worker neither finishes it nor renews its lease within this
        /// time is delivered again.
        visibility_timeout: Span = "15s",
        /// Visibility timeouts of individual job types: `["report=10m", "mail=30s"]`.
        types: BTreeMap<String, Span> as types: TypeTimeouts = none,
    }
}

impl Options {
    /// All visibility timeouts; the first is the default.
    pub fn visibility_timeouts(&self) -> impl Iterator<Item = Span> {
        std::iter::once(self.visibility_timeout).chain(self.types.values().copied())
    }
}

/// Types with their visibility timeouts.
struct TypeTimeouts(BTreeMap<String, Span>);

impl Setting for TypeTimeouts {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let one = |text: &str| match text.rsplit_once('=') {
            Some((kind, span)) if !kind.is_empty() => {
                Ok((kind.to_owned(), Span::read(&SettingValue::One(span.to_owned()))?))
            }
            _ => Err(format!("`{text}` is not a type with its timeout, such as `mail=30s`")),
        };
        given.texts().into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self(BTreeMap::new()))
    }
}

impl From<TypeTimeouts> for BTreeMap<String, Span> {
    fn from(types: TypeTimeouts) -> Self {
        types.0
    }
}
