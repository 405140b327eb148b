//! A connection for protocols that are spoken by hand: what is said is gathered and sent at once, what is
//! heard is read in large pieces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::peer::Fault;

const PIECE: usize = 256 << 10;

/// Nobody is silent for so long.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    heard: Vec<u8>,
    /// Up to where it was taken.
    at: usize,
    /// What is to be said.
    pub(crate) say: Vec<u8>,
}

impl Line {
    pub(crate) fn open(port: u16) -> Result<Self, Fault> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(Self { stream, heard: Vec::with_capacity(PIECE), at: 0, say: Vec::with_capacity(PIECE) })
    }

    /// Says what was gathered.
    pub(crate) fn send(&mut self) -> Result<(), Fault> {
        self.stream.write_all(&self.say)?;
        self.say.clear();
        Ok(())
    }

    /// Whether there is more to be taken without waiting.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.heard.len()
    }

    /// Waits until there is something, at most so long.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Result<bool, Fault> {
        if self.has_more() {
            return Ok(true);
        }
        self.stream.set_read_timeout(Some(at_most))?;
        let read = self.read();
        self.stream.set_read_timeout(Some(SILENCE))?;
        match read {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        self.heard.drain(..self.at);
        self.at = 0;
        let before = self.heard.len();
        self.heard.resize(before + PIECE, 0);
        let read = self.stream.read(&mut self.heard[before..]);
        self.heard.truncate(before + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
            _ => Ok(()),
        }
    }

    /// The next so many bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&[u8], Fault> {
        while self.heard.len() - self.at < n {
            self.read()?;
        }
        self.at += n;
        Ok(&self.heard[self.at - n..self.at])
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Result<&str, Fault> {
        let mut seen = 0;
        let length = loop {
            let rest = &self.heard[self.at..];
            match rest[seen..].iter().position(|byte| *byte == b'\n') {
                Some(end) => break seen + end,
                None => seen = rest.len(),
            }
            self.read()?;
        };
        let line = str::from_utf8(self.bytes(length + 1)?)?;
        Ok(line.trim_end())
    }

    /// So many bytes, and the end of a line behind them.
    pub(crate) fn block(&mut self, n: usize) -> Result<&[u8], Fault> {
        self.bytes(n + 2).map(|bytes| &bytes[..n])
    }
}
