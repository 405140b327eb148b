//! The child's two lines to whoever started it, taken away from under the plugin.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

/// The first number that is not one of the standard three.
const ABOVE: i32 = 3;

/// Where requests come from, and where answers go and cancels come from.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) requests: File,
    pub(crate) line: UnixStream,
}

impl Channels {
    /// Moves standard input and output to numbers that nobody else knows, and that no program which
    /// the plugin starts inherits. Then standard input is empty, and what is printed goes to standard
    /// error: a plugin that prints breaks no frame.
    pub(crate) fn take() -> io::Result<Self> {
        let is_socket = FileType::from_raw_mode(fstat(stdout())?.st_mode) == FileType::Socket;
        if !is_socket {
            return Err(io::Error::other("standard output is no socket"));
        }
        let requests: OwnedFd = fcntl_dupfd_cloexec(stdin(), ABOVE)?;
        let line: OwnedFd = fcntl_dupfd_cloexec(stdout(), ABOVE)?;
        dup2_stdin(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)?;
        dup2_stdout(stderr())?;
        Ok(Self { requests: requests.into(), line: line.into() })
    }
}
