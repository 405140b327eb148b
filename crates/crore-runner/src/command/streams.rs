//! Standard input and output of a program.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::output::{LogLines, OutputLimitExceeded, OutputTail};

/// Maximum size of one read.
const CHUNK: usize = 64 << 10;

/// The part of a stream that is kept.
#[derive(Debug)]
pub(super) enum StreamCapture {
    /// All of it, up to a number of bytes.
    All(Vec<u8>, u64),
    /// Only its end.
    End(OutputTail),
}

impl StreamCapture {
    fn take(&mut self, read: &[u8]) -> Result<(), OutputLimitExceeded> {
        match self {
            Self::All(kept, most) if (kept.len() + read.len()) as u64 <= *most => {
                kept.extend_from_slice(read);
                Ok(())
            }
            Self::All(..) => Err(OutputLimitExceeded),
            Self::End(tail) => {
                tail.take(read);
                Ok(())
            }
        }
    }
}

/// Reads a stream to its end, captures it and logs its lines.
pub(super) async fn read(
    stream: Option<OwnedFd>,
    keep: &mut StreamCapture,
    mut lines: LogLines<'_>,
) -> Result<(), OutputLimitExceeded> {
    let Some(mut stream) = stream.and_then(|stream| pipe::Receiver::from_owned_fd(stream).ok())
    else {
        return Ok(());
    };
    let mut chunk = Vec::with_capacity(CHUNK);
    // A read error ends the stream.
    while let Ok(1..) = stream.read_buf(&mut chunk).await {
        lines.take(&chunk);
        keep.take(&chunk)?;
        chunk.clear();
    }
    lines.end();
    Ok(())
}

/// Writes all bytes. A program that closes its input early is no error.
pub(super) async fn feed(stream: Option<OwnedFd>, bytes: &[u8]) {
    let Some(mut stream) = stream.and_then(|stream| pipe::Sender::from_owned_fd(stream).ok())
    else {
        return;
    };
    match stream.write_all(bytes).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => tracing::debug!(%error, "writing to a program's standard input failed"),
    }
}
