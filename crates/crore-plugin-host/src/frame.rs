//! What goes between a server and the child: frames of `length (u32) | tag (u8) | body`, the length
//! of tag and body together, all numbers little-endian.
//!
//! Neither side believes the other: a length is checked against a bound before anything is read or
//! allocated, and every number inside a body against what is there.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

/// Bytes of a frame's head.
pub const HEAD: usize = 5;
/// More than any request or answer needs beside the payload or the result in it.
const SLACK: usize = 64 << 10;
/// The most that a request may carry, and a result: what a server may be configured to keep at most
/// is less.
const MOST: usize = 1 << 30;
/// Items of a result.
const MOST_ITEMS: usize = 1 << 16;

/// Why a frame is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// Its length is more than is allowed, or less than there must be.
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// Nothing has this tag.
    #[error("a frame of the unknown sort {0}")]
    Tag(u8),
    /// It ends before it should, or says more than there is.
    #[error("a frame that does not hold what it says")]
    Body,
}

/// What the child is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Comes first and once: how much memory the plugin may have, and then to load it.
    Load {
        /// In bytes; 0 is as much as there is.
        memory: u64,
    },
    /// Runs a job.
    Run {
        /// Its number, which a cancel names.
        run: u64,
        /// How many bytes may come out of it.
        max_output: u64,
        /// What it is run with.
        argument: Bytes,
    },
}

/// Of what sort a plugin's failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may go better next time.
    Again,
    /// It failed, and would again.
    Other,
    /// It cannot be run at all.
    Fatal,
}

/// What the child says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The plugin is loaded, and is called this.
    Loaded(String),
    /// The library is no plugin that can be used, for this reason. The child ends.
    Unusable(String),
    /// A line of the log.
    Line(String),
    /// A run went well, and gave this.
    Done(Vec<Bytes>),
    /// A run failed.
    Failed(Class, String),
}

/// The number of a frame's bytes after its length, from its first four.
pub fn length(head: [u8; 4], max: usize) -> Result<usize, Bad> {
    let length = u32::from_le_bytes(head) as usize;
    let is_allowed = (1..=max.min(MOST).saturating_add(SLACK)).contains(&length);
    is_allowed.then_some(length).ok_or(Bad::Length(length))
}

/// Reads one frame's tag and body; `None` where the stream ends between two frames.
pub fn read(from: &mut impl Read, max: usize) -> io::Result<Option<Bytes>> {
    let mut head = [0; 4];
    let first = loop {
        match from.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[first..])?;
    let length = length(head, max).map_err(invalid)?;
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(Some(frame.into()))
}

/// An error of reading.
pub(crate) fn invalid(bad: Bad) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad)
}

fn framed(tag: u8, size: usize, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + size);
    frame.extend([0; 4]);
    frame.push(tag);
    body(&mut frame);
    // Whoever makes a frame has checked its size: a payload, a result or a text is far below this.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

fn number(body: &mut Bytes) -> Result<u64, Bad> {
    body.try_get_u64_le().map_err(|_| Bad::Body)
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).into_owned()
}

impl Request {
    const LOAD: u8 = b'L';
    const RUN: u8 = b'R';

    /// As bytes, to be written at once.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Load { memory } => framed(Self::LOAD, 8, |f| f.extend(memory.to_le_bytes())),
            Self::Run { run, max_output, argument } => {
                framed(Self::RUN, 16 + argument.len(), |frame| {
                    frame.extend(run.to_le_bytes());
                    frame.extend(max_output.to_le_bytes());
                    frame.extend_from_slice(argument);
                })
            }
        }
    }

    /// From a frame's tag and body.
    pub fn decode(mut frame: Bytes) -> Result<Self, Bad> {
        match frame.try_get_u8().map_err(|_| Bad::Body)? {
            Self::LOAD => Ok(Self::Load { memory: number(&mut frame)? }),
            Self::RUN => {
                let (run, max_output) = (number(&mut frame)?, number(&mut frame)?);
                Ok(Self::Run { run, max_output, argument: frame })
            }
            tag => Err(Bad::Tag(tag)),
        }
    }

    /// The most that a request may be.
    pub const fn max() -> usize {
        MOST
    }
}

impl Answer {
    const LOADED: u8 = b'l';
    const UNUSABLE: u8 = b'u';
    const LINE: u8 = b'n';
    const DONE: u8 = b'd';
    const AGAIN: u8 = b'a';
    const OTHER: u8 = b'o';
    const FATAL: u8 = b'f';

    /// As bytes, to be written at once.
    pub fn encode(&self) -> Vec<u8> {
        let words =
            |tag: u8, text: &str| framed(tag, text.len(), |f| f.extend_from_slice(text.as_bytes()));
        match self {
            Self::Loaded(name) => words(Self::LOADED, name),
            Self::Unusable(why) => words(Self::UNUSABLE, why),
            Self::Line(line) => words(Self::LINE, line),
            Self::Failed(Class::Again, why) => words(Self::AGAIN, why),
            Self::Failed(Class::Other, why) => words(Self::OTHER, why),
            Self::Failed(Class::Fatal, why) => words(Self::FATAL, why),
            Self::Done(items) => {
                let size = items.iter().map(|item| 8 + item.len()).sum();
                framed(Self::DONE, size, |frame| {
                    for item in items {
                        frame.extend((item.len() as u64).to_le_bytes());
                        frame.extend_from_slice(item);
                    }
                })
            }
        }
    }

    /// From a frame's tag and body.
    pub fn decode(mut frame: Bytes) -> Result<Self, Bad> {
        match frame.try_get_u8().map_err(|_| Bad::Body)? {
            Self::LOADED => Ok(Self::Loaded(text(&frame))),
            Self::UNUSABLE => Ok(Self::Unusable(text(&frame))),
            Self::LINE => Ok(Self::Line(text(&frame))),
            Self::AGAIN => Ok(Self::Failed(Class::Again, text(&frame))),
            Self::OTHER => Ok(Self::Failed(Class::Other, text(&frame))),
            Self::FATAL => Ok(Self::Failed(Class::Fatal, text(&frame))),
            Self::DONE => items(frame).map(Self::Done),
            tag => Err(Bad::Tag(tag)),
        }
    }

    /// How many bytes an answer may have whose items have no more than `max_output` together.
    pub const fn max(max_output: u64) -> usize {
        let output = if max_output < MOST as u64 { max_output as usize } else { MOST };
        output + 8 * MOST_ITEMS
    }

    /// Whether so many items may be given.
    pub(crate) const fn may_have(count: u64) -> bool {
        count <= MOST_ITEMS as u64
    }
}

fn items(mut body: Bytes) -> Result<Vec<Bytes>, Bad> {
    let mut items = Vec::new();
    while body.has_remaining() {
        let length = usize::try_from(number(&mut body)?).map_err(|_| Bad::Body)?;
        if length > body.len() || items.len() == MOST_ITEMS {
            return Err(Bad::Body);
        }
        items.push(body.split_to(length));
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(frame: &[u8]) -> Bytes {
        let mut from = frame;
        let read = read(&mut from, 1 << 20).expect("it is a frame").expect("there is one");
        assert!(from.is_empty(), "it says its own length");
        read
    }

    #[test]
    fn what_is_written_is_read_again() {
        let requests = [
            Request::Load { memory: 1 << 40 },
            Request::Run { run: 7, max_output: 9, argument: Bytes::new() },
            Request::Run { run: u64::MAX, max_output: 0, argument: Bytes::from_static(b"\0x") },
        ];
        for request in requests {
            assert_eq!(Request::decode(body(&request.encode())), Ok(request));
        }
        let answers = [
            Answer::Loaded("Hello".into()),
            Answer::Unusable("no symbol".into()),
            Answer::Line("grüße".into()),
            Answer::Done(vec![]),
            Answer::Done(vec![Bytes::new(), Bytes::from_static(b"ab"), Bytes::new()]),
            Answer::Failed(Class::Again, "later".into()),
            Answer::Failed(Class::Other, String::new()),
            Answer::Failed(Class::Fatal, "never".into()),
        ];
        for answer in answers {
            assert_eq!(Answer::decode(body(&answer.encode())), Ok(answer));
        }
    }

    #[test]
    fn who_lies_about_a_length_is_refused_before_anything_is_read() {
        let (max, too_much) = (1000, (SLACK + 1001) as u32);
        assert_eq!(length(0_u32.to_le_bytes(), max), Err(Bad::Length(0)));
        assert_eq!(length(too_much.to_le_bytes(), max), Err(Bad::Length(too_much as usize)));
        assert_eq!(length(u32::MAX.to_le_bytes(), usize::MAX), Err(Bad::Length(u32::MAX as usize)));
        let error = read(&mut &[255, 255, 255, 255, b'R'][..], max).expect_err("4 GiB");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let cut = read(&mut &[9, 0, 0, 0, b'R', 1][..], max).expect_err("it ends early");
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(&mut &[][..], max).expect("an end is no error"), None);
    }

    #[test]
    fn bodies_that_say_more_than_they_hold_are_refused() {
        let lie = [&b"d"[..], &5_u64.to_le_bytes(), b"abcd"].concat();
        assert_eq!(Answer::decode(lie.into()), Err(Bad::Body));
        let huge = [&b"d"[..], &u64::MAX.to_le_bytes(), b"abcd"].concat();
        assert_eq!(Answer::decode(huge.into()), Err(Bad::Body));
        let many = [b"d".to_vec(), vec![0; 8 * (MOST_ITEMS + 1)]].concat();
        assert_eq!(Answer::decode(many.into()), Err(Bad::Body));
        assert_eq!(Answer::decode(Bytes::from_static(b"?")), Err(Bad::Tag(b'?')));
        assert_eq!(Answer::decode(Bytes::new()), Err(Bad::Body));
        assert_eq!(Request::decode(Bytes::from_static(b"R1234567")), Err(Bad::Body));
        assert_eq!(Request::decode(Bytes::from_static(b"L")), Err(Bad::Body));
    }
}
