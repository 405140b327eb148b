//! Filters: the text by which people and programs search for jobs, for lists and bulk actions.
//!
//! ```text
//! state:dead,cancelled kind:mail* -queue:low payload.to=ada error~timeout age>1h
//!
//! filter    = { term }                                   all terms hold; separated by spaces
//! term      = [ "-" ] field operator value { "," value } "-" negates; one of the values holds
//! operator  = ":" | "=" | "!=" | "~" | "<" | "<=" | ">" | ">="
//! value     = bare | text
//! bare      = any characters except spaces, control characters, `,`, `"`, `(` and `)`
//! text      = a text in quotes, with the escapes of a limit
//! ```
//!
//! | field | operators | values |
//! |---|---|---|
//! | `state` | `:` | `waiting`, `scheduled`, `ready`, `running`, `done`, `dead`, `cancelled` |
//! | `queue`, `kind`, `worker` | `:` | a name; `*` outside quotes stands for any characters |
//! | `label` | `:` | `NAME`: has the label; `NAME=VALUE`, with `*` as above |
//! | `id`, `parent`, `replays`, `group` | `:` | an id |
//! | `why` | `:` | why it is dead or cancelled: `exhausted`, `not-retried`, `quarantined`, … |
//! | `error` | `~`, `=` | contains the text; has the [`Fingerprint`] |
//! | `payload.PATH` | `=`, `~`, `<` … `>=` | a scalar; contains the text; a number |
//! | `age` | `<` … `>=` | a duration since the push: `1h30m` |
//! | `pushed`, `due`, `started`, `ended` | `<` … `>=` | `2026-11-18`, `2026-11-18T08:00:00Z`, `now`, `-1h`, `+1h` |
//! | `attempt`, `crashes`, `priority` | `=`, `<` … `>=` | a whole number |
//!
//! `:` and `=` mean the same; `field!=value` is `-field=value`; `created` is `pushed`. Comparisons have one value.
//! A comparison with something that the job does not have is false, and its negation true.
//!
//! A value of a payload without quotes equals a text and, if it has the form of one, a number, `true`, `false` or
//! `null`; in quotes it equals a text only. `~` ignores the case of ASCII letters. The error of a job is the newest
//! one in its history.
//!
//! A filter has at most [`MAX_FILTER`] bytes, as written and as printed, [`MAX_TERMS`] terms and [`MAX_VALUES`]
//! values. Parentheses are reserved.

mod fingerprint;
mod matching;
mod parse;
mod plan;
mod print;
#[cfg(test)]
mod sample;
mod term;
#[cfg(test)]
mod tests;
mod values;

pub use fingerprint::Fingerprint;
pub use plan::{IndexLookup, TimeRange};
use term::FilterTerm;

use crate::code::Invalid;
use crate::job::State;
use crate::name::Name;
use term::{FilterTest, TextMatch};

/// Maximum length of a filter, in bytes.
pub const MAX_FILTER: usize = 4096;
/// Maximum number of terms.
pub const MAX_TERMS: usize = 64;
/// Maximum number of values of all terms together.
pub const MAX_VALUES: usize = 256;

/// The values of `why`.
pub fn reason_words() -> impl Iterator<Item = &'static str> {
    term::REASONS.iter().map(|reason| term::reason_word(*reason))
}

/// A parsed filter. The default matches every job.
///
/// Two filters with the same text are equal; the text is canonical, so it identifies the filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchFilter {
    terms: Vec<FilterTerm>,
}

impl SearchFilter {
    /// Parses a filter. An error names `field` and has the offset of the offending character.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        parse::parse(field, text)
    }

    /// The names in the paths of all payload fields that the filter tests.
    pub fn payload_names(&self) -> impl Iterator<Item = &str> {
        let fields = self.terms.iter().filter_map(|term| match &term.test {
            FilterTest::Payload(field, _)
            | FilterTest::PayloadText(field, _)
            | FilterTest::PayloadOrder(field, ..) => Some(field),
            _ => None,
        });
        fields.flat_map(crate::limit::JobField::names)
    }

    /// Whether the filter has no terms, and so matches every job.
    pub const fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Adds the condition that a job is in one of `states`.
    #[must_use]
    pub fn with_states(self, states: &[State]) -> Self {
        self.with(FilterTest::State(states.to_vec()))
    }

    /// Adds the condition that a job is in `queue`.
    #[must_use]
    pub fn with_queue(self, queue: &Name) -> Self {
        self.with(FilterTest::Queue(vec![TextMatch::Exact(queue.as_str().into())]))
    }

    /// Adds the condition that a job is of `kind`.
    #[must_use]
    pub fn with_kind(self, kind: &Name) -> Self {
        self.with(FilterTest::Kind(vec![TextMatch::Exact(kind.as_str().into())]))
    }

    fn with(mut self, test: FilterTest) -> Self {
        self.terms.push(FilterTerm { negated: false, test });
        self
    }
}
