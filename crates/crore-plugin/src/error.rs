//! The error of a run.

use std::fmt;

use crate::abi;

/// The class of an error: determines what crore does with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Temporary: the job's retry policy applies.
    Again,
    /// A retry would fail too.
    Other,
    /// The job cannot run at all: wrong argument or configuration.
    Fatal,
}

impl ErrorClass {
    /// Its status code in the C interface.
    pub const fn as_abi(self) -> u32 {
        match self {
            Self::Again => abi::AGAIN,
            Self::Other => abi::OTHER,
            Self::Fatal => abi::FATAL,
        }
    }
}

/// The error of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The class of the error.
    pub class: ErrorClass,
    /// The error message.
    pub text: String,
}

impl Error {
    /// A temporary failure.
    pub fn again(error: impl fmt::Display) -> Self {
        Self { class: ErrorClass::Again, text: error.to_string() }
    }

    /// A failure that a retry would not fix.
    pub fn other(error: impl fmt::Display) -> Self {
        Self { class: ErrorClass::Other, text: error.to_string() }
    }

    /// The job cannot run at all.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self { class: ErrorClass::Fatal, text: error.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
