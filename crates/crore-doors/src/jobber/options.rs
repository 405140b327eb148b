use std::collections::BTreeMap;

use crore_core::Span;
use crore_core::settings::{Given, Setting, Shape, section};

section! {
    /// Jobber.
    pub struct Options: Eq = "jobber" {
        /// How long a worker may be silent about a job before another one gets it.
        visibility_timeout: Span = "15s",
        /// The same for single types: `["report=10m", "mail=30s"]`.
        types: BTreeMap<String, Span> as types: Types = none,
    }
}

impl Options {
    /// Every visibility timeout; the first is that of all types without one of their own.
    pub fn visibility_timeouts(&self) -> impl Iterator<Item = Span> {
        std::iter::once(self.visibility_timeout).chain(self.types.values().copied())
    }
}

/// Types, each with its visibility timeout.
struct Types(BTreeMap<String, Span>);

impl Setting for Types {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let one = |text: &str| match text.rsplit_once('=') {
            Some((kind, span)) if !kind.is_empty() => {
                Ok((kind.to_owned(), Span::read(&Given::One(span.to_owned()))?))
            }
            _ => Err(format!("`{text}` is no type and its span: say `mail=30s`")),
        };
        given.texts().into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self(BTreeMap::new()))
    }
}

impl From<Types> for BTreeMap<String, Span> {
    fn from(types: Types) -> Self {
        types.0
    }
}
