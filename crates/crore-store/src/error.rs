use crore_core::{Code, Invalid};

/// Why a store has no answer, by what the caller does next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request breaks a rule: mend it. Nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no room: free some. Reports and deletes still work.
    #[error("the store is full: {what}")]
    Full {
        /// What is full.
        what: String,
    },
    /// The store cannot be reached, or lost a race: try again. Whether the verb took effect is
    /// open.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is there is not a store, or one of a version that this one does not know: open another.
    #[error("not a store that can be opened: {what}")]
    Foreign {
        /// What was found.
        what: String,
    },
    /// Stored data is damaged: stop and look.
    #[error("stored data is damaged: {what}")]
    Corrupt {
        /// What, and where.
        what: String,
    },
    /// A sync failed or the process panicked inside a write: nothing more is promised, restart.
    #[error("the store gave up after a failed write")]
    Poisoned,
}

impl Error {
    /// The stable code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(invalid) => invalid.code,
            Self::Full { .. } => Code::Full,
            Self::Unavailable(_) => Code::Unavailable,
            Self::Foreign { .. } => Code::Foreign,
            Self::Corrupt { .. } => Code::Corrupt,
            Self::Poisoned => Code::Poisoned,
        }
    }
}
