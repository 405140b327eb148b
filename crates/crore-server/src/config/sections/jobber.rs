use crore_core::settings::{Given, Setting, Shape, section};
use std::collections::BTreeMap;

use crore_core::Span;
use crore_doors::jobber;
use crore_wire::words::Period;

section! {
    /// Jobber.
    pub(crate) struct Jobber = "jobber" {
        /// How long a worker may be silent about a job before another one gets it.
        visibility_timeout: Span = "15s",
        /// The same for single types: `["report=10m", "mail=30s"]`.
        types: Option<Types> = none,
    }
}

/// Types, each with a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Types(BTreeMap<String, Period>);

impl Setting for Types {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let one = |text: &str| match text.rsplit_once('=') {
            Some((kind, span)) if !kind.is_empty() => {
                Ok((kind.to_owned(), Period(Span::read(&Given::One(span.to_owned()))?)))
            }
            _ => Err(format!("`{text}` is no type and its span: say `mail=30s`")),
        };
        given.texts().into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl Jobber {
    /// How the door is set up.
    pub(crate) fn options(&self) -> jobber::Options {
        jobber::Options {
            visibility_timeout: Period(self.visibility_timeout),
            types: self.types.clone().map(|Types(types)| types).unwrap_or_default(),
        }
    }

    /// Every span, by its type; the first is for all others.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        let types = self.types.iter().flat_map(|Types(types)| types.values());
        std::iter::once(self.visibility_timeout).chain(types.map(|period| period.0))
    }
}
