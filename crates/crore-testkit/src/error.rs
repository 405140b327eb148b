//! Errors of starting servers.

use std::fmt;
use std::io::{self, Write};

use crate::DebianPackage;

/// Reason why a server or tool is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A program is not installed: install the package, or skip.
    Missing {
        /// The program.
        program: String,
        /// The Debian package that contains it.
        package: DebianPackage,
    },
    /// This machine lacks the required privileges or devices, whatever is installed: skip.
    Unable(String),
    /// The server did not start, or a command failed. The message ends with the server's last log lines.
    Failed(String),
}

impl Error {
    pub(crate) fn io(doing: impl fmt::Display, error: &io::Error) -> Self {
        Self::Failed(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, package } => write!(
                f,
                "`{program}` is not installed: run `apt-get install {package}`, \
                 or `crore-testservers --install` as root"
            ),
            Self::Unable(why) => write!(f, "this machine cannot do it: {why}"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// The server, or `None` after a visible message that this test is skipped because a package is missing or
/// the machine cannot run it. The message bypasses the test harness, so it is shown although the test passes.
///
/// # Panics
///
/// If the server is installed and did not start: a failure, never a skip.
#[track_caller]
pub fn or_skip<T>(started: Result<T, Error>) -> Option<T> {
    skip_visibly(started, &mut io::stderr())
}

#[track_caller]
fn skip_visibly<T>(started: Result<T, Error>, out: &mut impl Write) -> Option<T> {
    match started {
        Ok(server) => Some(server),
        Err(error @ (Error::Missing { .. } | Error::Unable(_))) => {
            let location = std::panic::Location::caller();
            // A closed stderr is no reason to fail.
            _ = writeln!(out, "SKIPPED at {location}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package_and_skips() {
        let error =
            Error::Missing { program: "redis-server".into(), package: DebianPackage::Redis };
        let mut printed = Vec::new();
        assert_eq!(skip_visibly::<()>(Err(error), &mut printed), None);
        let printed = String::from_utf8(printed).expect("UTF-8");
        assert!(
            printed.starts_with("SKIPPED at ") && printed.contains("apt-get install redis-server")
        );
    }

    #[test]
    fn a_test_that_the_machine_cannot_run_is_skipped_with_the_reason() {
        let mut printed = Vec::new();
        assert_eq!(skip_visibly::<()>(Err(Error::Unable("no root".into())), &mut printed), None);
        let printed = String::from_utf8(printed).expect("UTF-8");
        assert!(printed.starts_with("SKIPPED at ") && printed.contains("no root"), "{printed}");
    }

    #[test]
    #[should_panic(expected = "it fell over")]
    fn a_server_that_does_not_start_is_a_failure() {
        or_skip::<()>(Err(Error::Failed("it fell over".into())));
    }
}
