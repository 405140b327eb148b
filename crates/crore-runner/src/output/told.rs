//! What is told of something that was run and did not go well.

use crore_wire::words::Size;

use crate::runner::Failure;

/// The most characters of a line of the standard error in an error.
const MAX_LINE: usize = 300;

/// More came out than the handler allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl TooMuch {
    /// As a failure, with the end of the standard error.
    pub(crate) fn told(self, most: Size, stderr: &str) -> Failure {
        let message = format!("more output than `{most}`, which is `settings.max_output`");
        with_stderr(Failure::other(message).with("reason", "output"), stderr)
    }
}

/// It ended with a code that does not mean that it went well.
pub(crate) fn exit_code(code: impl Into<i64>, stderr: &str) -> Failure {
    let code = code.into();
    let failure = Failure::again(with_last_line(format!("exit code {code}"), stderr));
    with_stderr(failure.with("exit_code", code), stderr)
}

/// With the end of the standard error, if there is any.
pub(crate) fn with_stderr(failure: Failure, stderr: &str) -> Failure {
    if stderr.is_empty() { failure } else { failure.with("stderr", stderr) }
}

/// One line: what happened, and the last that was said to the standard error.
pub(crate) fn with_last_line(what: String, stderr: &str) -> String {
    let Some(line) = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return what;
    };
    let line: String =
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LINE).collect();
    format!("{what}: {line}")
}
