//! Why a server could not be had.

use std::fmt;
use std::io::{self, Write};

use crate::Package;

/// Why a server could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A program is not on this machine: install the package, or skip.
    Missing {
        /// The program that was looked for.
        program: String,
        /// The Debian package that has it.
        package: Package,
    },
    /// This machine cannot do it, whatever is installed: it lacks rights or devices. Skip.
    Unable(String),
    /// The server did not come up, or a command failed: read the message, which ends with the
    /// server's last words.
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

/// The server, or `None` after saying loudly that this test is skipped because its package is
/// missing, or because the machine cannot do it. Written past the test harness, so that it is seen although the test passes.
///
/// # Panics
///
/// If the server is installed and did not start: that is a failure, never a skip.
#[track_caller]
pub fn or_skip<T>(started: Result<T, Error>) -> Option<T> {
    skip_aloud(started, &mut io::stderr())
}

#[track_caller]
fn skip_aloud<T>(started: Result<T, Error>, out: &mut impl Write) -> Option<T> {
    match started {
        Ok(server) => Some(server),
        Err(error @ (Error::Missing { .. } | Error::Unable(_))) => {
            let place = std::panic::Location::caller();
            // Nobody to tell is no reason to fail.
            _ = writeln!(out, "SKIPPED at {place}: {error}");
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
        let error = Error::Missing { program: "redis-server".into(), package: Package::Redis };
        let mut said = Vec::new();
        assert_eq!(skip_aloud::<()>(Err(error), &mut said), None);
        let said = String::from_utf8(said).expect("UTF-8");
        assert!(said.starts_with("SKIPPED at ") && said.contains("apt-get install redis-server"));
    }

    #[test]
    fn what_a_machine_cannot_do_is_skipped_with_the_reason() {
        let mut said = Vec::new();
        assert_eq!(skip_aloud::<()>(Err(Error::Unable("no root".into())), &mut said), None);
        let said = String::from_utf8(said).expect("UTF-8");
        assert!(said.starts_with("SKIPPED at ") && said.contains("no root"), "{said}");
    }

    #[test]
    #[should_panic(expected = "it fell over")]
    fn a_server_that_does_not_start_is_a_failure() {
        or_skip::<()>(Err(Error::Failed("it fell over".into())));
    }
}
