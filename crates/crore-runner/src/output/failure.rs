//! Failures of programs and containers.

use crore_wire::units::Size;

use crate::runner::RunFailure;

/// Maximum length, in characters, of a line of standard error in an error message.
const MAX_LINE: usize = 300;

/// The output exceeds the limit of the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputLimitExceeded;

impl OutputLimitExceeded {
    /// As a failure, with the end of standard error.
    pub(crate) fn into_failure(self, most: Size, stderr: &str) -> RunFailure {
        let message = format!("output exceeds `settings.max_output`, which is `{most}`");
        with_stderr(RunFailure::other(message).with("reason", "output"), stderr)
    }
}

/// The failure for an exit code that does not count as success.
pub(crate) fn exit_code(code: impl Into<i64>, stderr: &str) -> RunFailure {
    let code = code.into();
    let failure = RunFailure::temporary(with_last_line(format!("exit code {code}"), stderr));
    with_stderr(failure.with("exit_code", code), stderr)
}

/// Adds the end of standard error, if there is any.
pub(crate) fn with_stderr(failure: RunFailure, stderr: &str) -> RunFailure {
    if stderr.is_empty() { failure } else { failure.with("stderr", stderr) }
}

/// One line: the event, and the last line of standard error.
pub(crate) fn with_last_line(what: String, stderr: &str) -> String {
    let Some(line) = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return what;
    };
    let line: String =
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LINE).collect();
    format!("{what}: {line}")
}
