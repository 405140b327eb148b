use crore_core::{Code, Invalid};

/// Why an operation failed. The variants differ in what the caller does next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request breaks a rule: correct it. Nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No space left: free some. Reports and deletions still work.
    #[error("the store is full: {what}")]
    Full {
        /// Description of what is full.
        what: String,
    },
    /// The store cannot be reached, or lost a race: try again. The operation may have taken effect.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Not a store, or a store of an unknown version: open another one.
    #[error("not a store that can be opened: {what}")]
    Foreign {
        /// Description of what was found.
        what: String,
    },
    /// Stored data is damaged: stop and investigate.
    #[error("stored data is damaged: {what}")]
    Corrupt {
        /// Description and location of the damage.
        what: String,
    },
    /// A sync failed, or a panic happened inside a write: reopen the store.
    #[error("the store is poisoned: a write or a sync failed; restart the server")]
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
