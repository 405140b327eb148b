use crore_core::{Code, Invalid, JobId};

/// Error of an engine call. The variants are named for what the caller does next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid: correct it. Nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The object does not exist.
    #[error("{what} not found")]
    NotFound {
        /// The object, as the message names it.
        what: String,
    },
    /// The object exists, but its state does not allow the call.
    #[error("{what}: {why}")]
    Refused {
        /// The object.
        what: String,
        /// The reason.
        why: &'static str,
    },
    /// The idempotency key was used for a different batch: use another key.
    #[error("the idempotency key `{key}` was used for a different push; use another key")]
    KeyReused {
        /// The key.
        key: String,
        /// The first job that was stored under it, if known.
        first: Option<JobId>,
    },
    /// The engine is shutting down: retry later, or on another server.
    #[error("the engine is stopping")]
    Stopping,
    /// The store failed; its error says whether a retry helps.
    #[error(transparent)]
    Store(crore_store::Error),
}

impl Error {
    /// The stable error code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(invalid) => invalid.code,
            Self::NotFound { .. } => Code::NotFound,
            Self::Refused { .. } => Code::Refused,
            Self::KeyReused { .. } => Code::KeyReused,
            Self::Stopping => Code::Stopping,
            Self::Store(error) => error.code(),
        }
    }
}

impl From<crore_store::Error> for Error {
    fn from(error: crore_store::Error) -> Self {
        match error {
            crore_store::Error::Invalid(invalid) => Self::Invalid(invalid),
            other => Self::Store(other),
        }
    }
}
