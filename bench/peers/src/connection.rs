//! A connection for hand-written protocols: output is buffered and sent at once, input is read in large chunks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::peer::PeerFault;

const READ_CHUNK: usize = 256 << 10;

/// Read timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct PeerConnection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Position of the next unread byte.
    at: usize,
    /// Output buffer.
    pub(crate) output: Vec<u8>,
}

impl PeerConnection {
    pub(crate) fn open(port: u16) -> Result<Self, PeerFault> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self {
            stream,
            input: Vec::with_capacity(READ_CHUNK),
            at: 0,
            output: Vec::with_capacity(READ_CHUNK),
        })
    }

    /// Sends the output buffer.
    pub(crate) fn send(&mut self) -> Result<(), PeerFault> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Whether there is unread input.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.input.len()
    }

    /// Waits for input, at most this long.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Result<bool, PeerFault> {
        if self.has_more() {
            return Ok(true);
        }
        self.stream.set_read_timeout(Some(at_most))?;
        let read = self.read();
        self.stream.set_read_timeout(Some(READ_TIMEOUT))?;
        match read {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        self.input.drain(..self.at);
        self.at = 0;
        let before = self.input.len();
        self.input.resize(before + READ_CHUNK, 0);
        let read = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
            _ => Ok(()),
        }
    }

    /// The next `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&[u8], PeerFault> {
        while self.input.len() - self.at < n {
            self.read()?;
        }
        self.at += n;
        Ok(&self.input[self.at - n..self.at])
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Result<&str, PeerFault> {
        let mut seen = 0;
        let length = loop {
            let rest = &self.input[self.at..];
            match rest[seen..].iter().position(|byte| *byte == b'\n') {
                Some(end) => break seen + end,
                None => seen = rest.len(),
            }
            self.read()?;
        };
        let line = str::from_utf8(self.bytes(length + 1)?)?;
        Ok(line.trim_end())
    }

    /// The next `n` bytes, which are followed by the end of a line.
    pub(crate) fn block(&mut self, n: usize) -> Result<&[u8], PeerFault> {
        self.bytes(n + 2).map(|bytes| &bytes[..n])
    }
}
