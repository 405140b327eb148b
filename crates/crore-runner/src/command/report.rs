//! What is told of a program that has ended, or could not be started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use super::settings::{Give, Settings};
use crate::output::{exit_code, with_last_line, with_stderr};
use crate::runner::Failure;

/// Why a program could not be started.
pub(super) fn not_started(error: &io::Error, program: &Path, settings: &Settings) -> Failure {
    let program = program.display();
    let fatal = |reason: &str, message: String| Failure::fatal(message).with("reason", reason);
    match error.kind() {
        io::ErrorKind::NotFound => fatal(
            "not-found",
            format!("the program `{program}`, or what it is interpreted by, is not there"),
        ),
        io::ErrorKind::PermissionDenied => {
            fatal("not-executable", format!("the program `{program}` may not be executed"))
        }
        io::ErrorKind::ArgumentListTooLong => {
            let is_payload = matches!(settings.payload, Give::Lines | Give::Args);
            let field = if is_payload { "payload" } else { "settings.args" };
            fatal(field, format!("{field}: more arguments than the system takes"))
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            fatal("not-executable", format!("`{program}` is no program that this machine knows"))
        }
        _ => Failure::again(format!("the program `{program}` could not be started: {error}")),
    }
}

/// Whether it went well, as the handler sees it, with what it printed to the standard error.
pub(super) fn check(status: ExitStatus, settings: &Settings, stderr: &str) -> Result<(), Failure> {
    if let Some(code) = status.code() {
        if settings.success.has(code) {
            return Ok(());
        }
        return Err(exit_code(code, stderr));
    }
    let signal = status.signal().unwrap_or_default();
    let failure = Failure::again(with_last_line(format!("killed by {}", name(signal)), stderr));
    Err(with_stderr(failure.with("signal", signal), stderr))
}

fn name(signal: i32) -> String {
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
