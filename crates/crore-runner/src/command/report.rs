//! Failures of programs that ended badly or could not be started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use super::settings::{CommandInput, CommandSettings};
use crate::output::{exit_code, with_last_line, with_stderr};
use crate::runner::RunFailure;

/// The failure of a program that could not be started.
pub(super) fn start_failure(
    error: &io::Error,
    program: &Path,
    settings: &CommandSettings,
) -> RunFailure {
    let program = program.display();
    let fatal = |reason: &str, message: String| RunFailure::fatal(message).with("reason", reason);
    match error.kind() {
        io::ErrorKind::NotFound => {
            fatal("not-found", format!("program `{program}` or its interpreter does not exist"))
        }
        io::ErrorKind::PermissionDenied => {
            fatal("not-executable", format!("program `{program}` is not executable"))
        }
        io::ErrorKind::ArgumentListTooLong => {
            let is_payload = matches!(settings.payload, CommandInput::Lines | CommandInput::Args);
            let field = if is_payload { "payload" } else { "settings.args" };
            fatal(field, format!("{field}: argument list too long for the system"))
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            fatal("not-executable", format!("program `{program}` has an unknown format"))
        }
        _ => RunFailure::temporary(format!("could not start program `{program}`: {error}")),
    }
}

/// Checks the exit status by the handler's `success` setting.
pub(super) fn check(
    status: ExitStatus,
    settings: &CommandSettings,
    stderr: &str,
) -> Result<(), RunFailure> {
    if let Some(code) = status.code() {
        if settings.success.has(code) {
            return Ok(());
        }
        return Err(exit_code(code, stderr));
    }
    let signal = status.signal().unwrap_or_default();
    let failure =
        RunFailure::temporary(with_last_line(format!("killed by {}", signal_name(signal)), stderr));
    Err(with_stderr(failure.with("signal", signal), stderr))
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("{name} (signal {signal})")
}
