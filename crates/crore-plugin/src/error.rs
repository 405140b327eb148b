//! Why a run did not go well.

use std::fmt;

use crate::abi;

/// Of what sort an error is: what crore does next with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may go better next time: the job is retried as its policy says.
    Again,
    /// It failed, and would again.
    Other,
    /// It cannot be run at all: a wrong argument, a wrong set-up.
    Fatal,
}

impl Class {
    /// The number for it.
    pub const fn as_abi(self) -> u32 {
        match self {
            Self::Again => abi::AGAIN,
            Self::Other => abi::OTHER,
            Self::Fatal => abi::FATAL,
        }
    }
}

/// Why a run did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Of what sort.
    pub class: Class,
    /// What went wrong, in words.
    pub text: String,
}

impl Error {
    /// It may go better next time.
    pub fn again(error: impl fmt::Display) -> Self {
        Self { class: Class::Again, text: error.to_string() }
    }

    /// It failed, and would again.
    pub fn other(error: impl fmt::Display) -> Self {
        Self { class: Class::Other, text: error.to_string() }
    }

    /// It cannot be run at all.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self { class: Class::Fatal, text: error.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
