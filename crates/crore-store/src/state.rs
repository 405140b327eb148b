//! What a store can be relied on for, and what ails it.

use std::fmt;

/// What the answers of a store survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// D0: nothing; all is in memory.
    Memory,
    /// D1: the end of the process, but perhaps not a power cut.
    Process,
    /// D2: a power cut.
    Power,
    /// D3: the loss of a host.
    Host,
}

impl fmt::Display for Durability {
    /// The class: `D0` to `D3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "D0",
            Self::Process => "D1",
            Self::Power => "D2",
            Self::Host => "D3",
        })
    }
}

/// What is wrong with a store, by what it means for its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ailment {
    /// Nothing is promised any more; it has to be opened anew.
    Poisoned,
    /// There is no room for anything new, for this reason; reports and deletes still work.
    Full(String),
}
