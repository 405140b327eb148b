//! What a condition may ask about a job.

/// A field of a job: its kind, its queue, or a place inside its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The job's kind.
    Kind,
    /// The job's queue.
    Queue,
    /// A place in the payload.
    Payload(Path),
}

/// The way from the top of a payload to one of its values: 1 to 64 steps. Only the parser makes
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub(super) Vec<Step>);

/// One step down into a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The entry of an object.
    Name(Box<str>),
    /// The element of an array, from 0.
    Index(u32),
}

/// A step that borrows its name, so that a key can be looked up as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place<'a> {
    Name(&'a str),
    Index(u32),
}

impl Step {
    pub(super) fn place(&self) -> Place<'_> {
        match self {
            Self::Name(name) => Place::Name(name),
            Self::Index(index) => Place::Index(*index),
        }
    }
}

/// Whether `name` may stand in a path without quotes.
pub(super) fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_word_byte)
}

/// Whether a byte may stand inside a word of a limit's text.
pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
