//! How a command ends: what it says of an error, and the code that scripts go by.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a command failed, as far as a script may want to know. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was tried, and failed.
    Failed = 1,
    /// It was not said right: flags, or the configuration.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// Something else is in the way: a state, another process, another revision.
    Conflict = 4,
    /// The server cannot be reached.
    NotReached = 5,
}

impl From<Why> for ExitCode {
    fn from(why: Why) -> Self {
        Self::from(why as u8)
    }
}

/// An error with its code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: Why,
    message: String,
}

impl Failure {
    pub(crate) fn new(why: Why, message: impl Into<String>) -> Self {
        Self { why, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Says what went wrong, and gives the code to leave with. Whoever has closed our output has seen enough:
/// that is no error.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    let is_closed = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_closed) {
        return ExitCode::SUCCESS;
    }
    eprint_or_ignore(&format!("error: {error:#}\n"));
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.map_or(Why::Failed, |failure| failure.why).into()
}

/// Writes to the standard error, which may be closed too.
pub(crate) fn eprint_or_ignore(text: &str) {
    use io::Write;
    // There is nobody left to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
