//! The child's connections to its parent, moved out of reach of the plugin.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

/// The first file descriptor after the standard three.
const FIRST_FREE_FD: i32 = 3;

/// The pipe for requests, and the socket for replies and cancellations.
#[derive(Debug)]
pub(crate) struct HostChannels {
    pub(crate) requests: File,
    pub(crate) stream: UnixStream,
}

impl HostChannels {
    /// Moves standard input and output to other close-on-exec descriptors. Afterwards standard input is empty
    /// and standard output goes to standard error, so a plugin that prints cannot corrupt the protocol.
    pub(crate) fn take() -> io::Result<Self> {
        let is_socket = FileType::from_raw_mode(fstat(stdout())?.st_mode) == FileType::Socket;
        if !is_socket {
            return Err(io::Error::other("standard output is not a socket"));
        }
        let requests: OwnedFd = fcntl_dupfd_cloexec(stdin(), FIRST_FREE_FD)?;
        let stream: OwnedFd = fcntl_dupfd_cloexec(stdout(), FIRST_FREE_FD)?;
        dup2_stdin(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)?;
        dup2_stdout(stderr())?;
        Ok(Self { requests: requests.into(), stream: stream.into() })
    }
}
