use crore_core::{Code, Invalid, JobId};

/// Why the engine has no answer, by what the caller does next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request breaks a rule: mend it. Nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such thing.
    #[error("{what} is not there")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// It is there, but not in a state for which this means anything; the reason says which.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked for.
        what: String,
        /// Why not.
        why: &'static str,
    },
    /// The idempotency key was used before, for another batch: use another key.
    #[error("the key `{key}` was used before, for another push")]
    KeyReused {
        /// The key.
        key: String,
        /// The first job that was stored under it, as far as it is known.
        first: Option<JobId>,
    },
    /// The engine is being stopped: ask another one, or later.
    #[error("the engine is stopping")]
    Stopping,
    /// The store has no answer.
    #[error(transparent)]
    Store(crore_store::Error),
}

impl Error {
    /// The stable code.
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
