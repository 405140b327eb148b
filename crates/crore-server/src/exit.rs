//! Exit codes and error output of commands.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::output::escaped_lines;

/// Exit code of a failed command. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureCode {
    Failed = 1,
    /// Wrong flags or configuration.
    Usage = 2,
    NotFound = 3,
    /// Conflict with a state, another process or another revision.
    Conflict = 4,
    Unreachable = 5,
}

impl From<FailureCode> for ExitCode {
    fn from(why: FailureCode) -> Self {
        Self::from(why as u8)
    }
}

/// An error with an exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: FailureCode,
    message: String,
}

impl CliError {
    pub(crate) fn new(why: FailureCode, message: impl Into<String>) -> Self {
        Self { code: why, message: message.into() }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

/// Prints an error and returns its exit code. A closed output pipe is not an error.
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    let is_closed = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_closed) {
        return ExitCode::SUCCESS;
    }
    eprint_or_ignore(&format!("error: {error:#}\n"));
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<CliError>());
    failure.map_or(FailureCode::Failed, |failure| failure.code).into()
}

/// Writes to standard error, ignoring failures: it may be closed. Escapes messages, which may quote stored values.
pub(crate) fn eprint_or_ignore(text: &str) {
    use io::Write;
    let _ = io::stderr().write_all(escaped_lines(text).as_bytes());
}
