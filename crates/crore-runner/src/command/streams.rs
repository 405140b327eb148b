//! What goes into a program and what comes out of it.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::output::{Lines, Tail, TooMuch};

/// The most that is read at once.
const CHUNK: usize = 64 << 10;

/// What of a stream is kept.
#[derive(Debug)]
pub(super) enum Keep {
    /// All of it, up to a number of bytes.
    All(Vec<u8>, u64),
    /// Nothing but its end.
    End(Tail),
}

impl Keep {
    fn take(&mut self, read: &[u8]) -> Result<(), TooMuch> {
        match self {
            Self::All(kept, most) if (kept.len() + read.len()) as u64 <= *most => {
                kept.extend_from_slice(read);
                Ok(())
            }
            Self::All(..) => Err(TooMuch),
            Self::End(tail) => {
                tail.take(read);
                Ok(())
            }
        }
    }
}

/// Reads a stream to its end, keeps what is to be kept, and says its lines.
pub(super) async fn read(
    stream: Option<OwnedFd>,
    keep: &mut Keep,
    mut lines: Lines<'_>,
) -> Result<(), TooMuch> {
    let Some(mut stream) = stream.and_then(|stream| pipe::Receiver::from_owned_fd(stream).ok())
    else {
        return Ok(());
    };
    let mut chunk = Vec::with_capacity(CHUNK);
    // A pipe that cannot be read any more has ended.
    while let Ok(1..) = stream.read_buf(&mut chunk).await {
        lines.take(&chunk);
        keep.take(&chunk)?;
        chunk.clear();
    }
    lines.end();
    Ok(())
}

/// Writes all of it, unless the program does not want to read so much, which is its own affair.
pub(super) async fn feed(stream: Option<OwnedFd>, bytes: &[u8]) {
    let Some(mut stream) = stream.and_then(|stream| pipe::Sender::from_owned_fd(stream).ok())
    else {
        return;
    };
    match stream.write_all(bytes).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => tracing::debug!(%error, "a program's standard input"),
    }
}
