//! The guarantees that a run is checked against.

use crore_core::{Span, Time};

/// Durability class that a store claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DurabilityClass {
    /// None: any acknowledged write may be lost at any stop.
    D0,
    /// Survives the death of its process; a power cut may lose the last [`CheckRules::loss`].
    D1,
    /// Survives a power cut.
    #[default]
    D2,
    /// Survives the loss of a machine.
    D3,
}

/// The guarantees that a run is checked against. The default is the embedded store's: it survives a power
/// cut, loses nothing, and its clock is the recorder's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckRules {
    /// Durability class of the store.
    pub durability: DurabilityClass,
    /// Writes that a power cut may lose under [`DurabilityClass::D1`], as a time before the cut.
    pub loss: Span,
    /// Maximum difference between the store's clock and the recorder's, either way, apart from recorded
    /// jumps.
    pub tolerance: Span,
    /// The store's time when the recorder's was zero, if known. Instants named by callers are then also
    /// checked against the recorder's clock, and not only against the times in responses.
    pub epoch: Option<Time>,
    /// Whether order is exact: one ordered queue instead of several that are merged.
    pub ordered: bool,
    /// Whether reports and deletions succeed while the disk is full.
    pub reserve: bool,
}

impl Default for CheckRules {
    fn default() -> Self {
        Self {
            durability: DurabilityClass::D2,
            loss: Span::from_secs(1),
            tolerance: Span::ZERO,
            epoch: None,
            ordered: true,
            reserve: true,
        }
    }
}

impl CheckRules {
    pub(crate) const fn slack(&self) -> u64 {
        nanos(self.tolerance)
    }
}

/// A span in the recorder's nanoseconds.
pub(crate) const fn nanos(span: Span) -> u64 {
    span.as_millis().saturating_mul(1_000_000)
}
