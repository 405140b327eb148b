//! What a run is held to.

use crore_core::{Span, Time};

/// What a store says that it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// Nothing: whatever was answered may be gone after any stop.
    D0,
    /// The death of its process; a power cut may cost the last [`Rules::loss`].
    D1,
    /// A power cut.
    #[default]
    D2,
    /// The loss of a host.
    D3,
}

/// What a run is held to. The default is the embedded store's: it survives a power cut, loses
/// nothing, and its clock is the recorder's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What the store says that it survives.
    pub durability: Durability,
    /// What a power cut may cost under [`Durability::D1`].
    pub loss: Span,
    /// How far the store's clock may be off the recorder's, either way, apart from recorded jumps.
    pub tolerance: Span,
    /// The store's time when the recorder's was zero, if it is known: then instants that callers
    /// name are judged by the recorder's clock too, and not only by the times in answers.
    pub epoch: Option<Time>,
    /// Whether order is exact: one place, not several that are merged.
    pub ordered: bool,
    /// Whether reports and deletions are to succeed while there is no room for new data.
    pub reserve: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            durability: Durability::D2,
            loss: Span::from_secs(1),
            tolerance: Span::ZERO,
            epoch: None,
            ordered: true,
            reserve: true,
        }
    }
}

impl Rules {
    pub(crate) const fn slack(&self) -> u64 {
        nanos(self.tolerance)
    }
}

/// A span in the recorder's nanoseconds.
pub(crate) const fn nanos(span: Span) -> u64 {
    span.as_millis().saturating_mul(1_000_000)
}
