//! The protocol between host and child: frames of `length (u32) | tag (u8) | body`. The length covers tag
//! and body; all numbers are little-endian.
//!
//! Neither side trusts the other: each length is checked against a limit before anything is read or
//! allocated, and each number in a body against the bytes that are there.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

/// Size of length and tag in bytes.
pub const HEAD_BYTES: usize = 5;
/// Upper bound for a frame's size in addition to its payload or result.
const MAX_OVERHEAD: usize = 64 << 10;
/// Maximum size of a payload or a result. Servers cannot be configured to store as much.
const MAX_PAYLOAD: usize = 1 << 30;
/// Maximum number of items in a result.
const MAX_ITEMS: usize = 1 << 16;

/// Why a frame is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or exceeds the limit.
    #[error("frame with invalid length {0}")]
    Length(usize),
    /// The tag is unknown.
    #[error("frame with unknown tag {0}")]
    Tag(u8),
    /// The body is truncated or inconsistent.
    #[error("frame with invalid body")]
    Body,
}

/// A request to the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRequest {
    /// The first request, sent once: limits the memory and loads the plugin.
    Load {
        /// Memory limit in bytes; 0 is unlimited.
        memory: u64,
    },
    /// Runs a job.
    Run {
        /// Number of the run; a cancel refers to it.
        run: u64,
        /// Maximum output in bytes.
        max_output: u64,
        /// The job's payload.
        argument: Bytes,
    },
}

/// The class of a plugin's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginFailureClass {
    /// Temporary: a retry may succeed.
    Again,
    /// A retry would fail too.
    Other,
    /// The job cannot run at all.
    Fatal,
}

/// A message from the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostReply {
    /// The plugin is loaded and has this name.
    Loaded(String),
    /// The library cannot be used, for this reason. The child exits.
    Unusable(String),
    /// A line of the job's log.
    Line(String),
    /// The run succeeded with these items.
    Done(Vec<Bytes>),
    /// The run failed.
    Failed(PluginFailureClass, String),
}

/// Decodes and checks the length of a frame: the size of tag and body.
pub fn length(head: [u8; 4], max: usize) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(head) as usize;
    let is_allowed = (1..=max.min(MAX_PAYLOAD).saturating_add(MAX_OVERHEAD)).contains(&length);
    is_allowed.then_some(length).ok_or(FrameError::Length(length))
}

/// Reads the tag and body of one frame; `None` if the stream ends between frames.
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

/// Converts a frame error to an I/O error.
pub(crate) fn invalid(bad: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad)
}

fn framed(tag: u8, size: usize, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_BYTES + size);
    frame.extend([0; 4]);
    frame.push(tag);
    body(&mut frame);
    // The caller has checked the size: payloads, results and texts are far below this.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

fn number(body: &mut Bytes) -> Result<u64, FrameError> {
    body.try_get_u64_le().map_err(|_| FrameError::Body)
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).into_owned()
}

impl HostRequest {
    const LOAD: u8 = b'L';
    const RUN: u8 = b'R';

    /// Encodes the frame.
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

    /// Decodes the tag and body of a frame.
    pub fn decode(mut frame: Bytes) -> Result<Self, FrameError> {
        match frame.try_get_u8().map_err(|_| FrameError::Body)? {
            Self::LOAD => Ok(Self::Load { memory: number(&mut frame)? }),
            Self::RUN => {
                let (run, max_output) = (number(&mut frame)?, number(&mut frame)?);
                Ok(Self::Run { run, max_output, argument: frame })
            }
            tag => Err(FrameError::Tag(tag)),
        }
    }

    /// Maximum size of a request.
    pub const fn max() -> usize {
        MAX_PAYLOAD
    }
}

impl HostReply {
    const LOADED: u8 = b'l';
    const UNUSABLE: u8 = b'u';
    const LINE: u8 = b'n';
    const DONE: u8 = b'd';
    const AGAIN: u8 = b'a';
    const OTHER: u8 = b'o';
    const FATAL: u8 = b'f';

    /// Encodes the frame.
    pub fn encode(&self) -> Vec<u8> {
        let text_frame =
            |tag: u8, text: &str| framed(tag, text.len(), |f| f.extend_from_slice(text.as_bytes()));
        match self {
            Self::Loaded(name) => text_frame(Self::LOADED, name),
            Self::Unusable(why) => text_frame(Self::UNUSABLE, why),
            Self::Line(line) => text_frame(Self::LINE, line),
            Self::Failed(PluginFailureClass::Again, why) => text_frame(Self::AGAIN, why),
            Self::Failed(PluginFailureClass::Other, why) => text_frame(Self::OTHER, why),
            Self::Failed(PluginFailureClass::Fatal, why) => text_frame(Self::FATAL, why),
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

    /// Decodes the tag and body of a frame.
    pub fn decode(mut frame: Bytes) -> Result<Self, FrameError> {
        match frame.try_get_u8().map_err(|_| FrameError::Body)? {
            Self::LOADED => Ok(Self::Loaded(text(&frame))),
            Self::UNUSABLE => Ok(Self::Unusable(text(&frame))),
            Self::LINE => Ok(Self::Line(text(&frame))),
            Self::AGAIN => Ok(Self::Failed(PluginFailureClass::Again, text(&frame))),
            Self::OTHER => Ok(Self::Failed(PluginFailureClass::Other, text(&frame))),
            Self::FATAL => Ok(Self::Failed(PluginFailureClass::Fatal, text(&frame))),
            Self::DONE => items(frame).map(Self::Done),
            tag => Err(FrameError::Tag(tag)),
        }
    }

    /// Maximum size of a reply whose items have at most `max_output` bytes in total.
    pub const fn max(max_output: u64) -> usize {
        let output =
            if max_output < MAX_PAYLOAD as u64 { max_output as usize } else { MAX_PAYLOAD };
        output + 8 * MAX_ITEMS
    }

    /// Whether a result may have this many items.
    pub(crate) const fn allows_items(count: u64) -> bool {
        count <= MAX_ITEMS as u64
    }
}

fn items(mut body: Bytes) -> Result<Vec<Bytes>, FrameError> {
    let mut items = Vec::new();
    while body.has_remaining() {
        let length = usize::try_from(number(&mut body)?).map_err(|_| FrameError::Body)?;
        if length > body.len() || items.len() == MAX_ITEMS {
            return Err(FrameError::Body);
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
        assert!(from.is_empty(), "the length covers the whole frame");
        read
    }

    #[test]
    fn frames_round_trip() {
        let requests = [
            HostRequest::Load { memory: 1 << 40 },
            HostRequest::Run { run: 7, max_output: 9, argument: Bytes::new() },
            HostRequest::Run { run: u64::MAX, max_output: 0, argument: Bytes::from_static(b"\0x") },
        ];
        for request in requests {
            assert_eq!(HostRequest::decode(body(&request.encode())), Ok(request));
        }
        let replies = [
            HostReply::Loaded("Hello".into()),
            HostReply::Unusable("no symbol".into()),
            HostReply::Line("grüße".into()),
            HostReply::Done(vec![]),
            HostReply::Done(vec![Bytes::new(), Bytes::from_static(b"ab"), Bytes::new()]),
            HostReply::Failed(PluginFailureClass::Again, "later".into()),
            HostReply::Failed(PluginFailureClass::Other, String::new()),
            HostReply::Failed(PluginFailureClass::Fatal, "never".into()),
        ];
        for reply in replies {
            assert_eq!(HostReply::decode(body(&reply.encode())), Ok(reply));
        }
    }

    #[test]
    fn invalid_length_is_refused_before_the_body_is_read() {
        let (max, too_much) = (1000, (MAX_OVERHEAD + 1001) as u32);
        assert_eq!(length(0_u32.to_le_bytes(), max), Err(FrameError::Length(0)));
        assert_eq!(length(too_much.to_le_bytes(), max), Err(FrameError::Length(too_much as usize)));
        assert_eq!(
            length(u32::MAX.to_le_bytes(), usize::MAX),
            Err(FrameError::Length(u32::MAX as usize))
        );
        let error = read(&mut &[255, 255, 255, 255, b'R'][..], max).expect_err("4 GiB");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let cut = read(&mut &[9, 0, 0, 0, b'R', 1][..], max).expect_err("it ends early");
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(&mut &[][..], max).expect("an end is no error"), None);
    }

    #[test]
    fn bodies_with_wrong_lengths_are_refused() {
        let too_long = [&b"d"[..], &5_u64.to_le_bytes(), b"abcd"].concat();
        assert_eq!(HostReply::decode(too_long.into()), Err(FrameError::Body));
        let huge = [&b"d"[..], &u64::MAX.to_le_bytes(), b"abcd"].concat();
        assert_eq!(HostReply::decode(huge.into()), Err(FrameError::Body));
        let many = [b"d".to_vec(), vec![0; 8 * (MAX_ITEMS + 1)]].concat();
        assert_eq!(HostReply::decode(many.into()), Err(FrameError::Body));
        assert_eq!(HostReply::decode(Bytes::from_static(b"?")), Err(FrameError::Tag(b'?')));
        assert_eq!(HostReply::decode(Bytes::new()), Err(FrameError::Body));
        assert_eq!(HostRequest::decode(Bytes::from_static(b"R1234567")), Err(FrameError::Body));
        assert_eq!(HostRequest::decode(Bytes::from_static(b"L")), Err(FrameError::Body));
    }
}
