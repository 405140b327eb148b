//! Durability class and health of a store.

use std::fmt;

/// The failures that acknowledged writes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// D0: nothing; everything is in memory.
    Memory,
    /// D1: the end of the process, but not necessarily a power failure.
    Process,
    /// D2: a power failure.
    Power,
    /// D3: the loss of a machine.
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

/// Why a store cannot serve all operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreProblem {
    /// A write failed; the store refuses everything until it is reopened.
    Poisoned,
    /// No space for new jobs, for this reason; reports and deletions still work.
    Full(String),
}
