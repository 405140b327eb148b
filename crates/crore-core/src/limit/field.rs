//! The fields of a job that a limit can refer to.

use crate::code::Invalid;

/// A field of a job: its kind, its queue, or a value in its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobField {
    /// The job's kind.
    Kind,
    /// The job's queue.
    Queue,
    /// A value in the payload.
    Payload(Path),
}

impl JobField {
    /// Parses a field: `kind`, `queue`, `payload.tenant`, `payload.items[0]."a b"`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        super::parse::parse_field(text)
    }

    /// The names in the path of a payload field.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let steps: &[PathStep] = if let Self::Payload(path) = self { &path.0 } else { &[] };
        names_in(steps)
    }
}

/// The names in a path.
pub(super) fn names_in(steps: &[PathStep]) -> impl Iterator<Item = &str> {
    steps.iter().filter_map(|step| match step {
        PathStep::Name(name) => Some(&**name),
        PathStep::Index(_) => None,
    })
}

/// The path of a value in a payload: 1 to 64 steps. Created by the parser only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub(super) Vec<PathStep>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    /// An entry of an object.
    Name(Box<str>),
    /// An element of an array, from 0.
    Index(u32),
}

/// A step that borrows its name, to look up a key without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathStepRef<'a> {
    Name(&'a str),
    Index(u32),
}

impl PathStep {
    pub(super) fn as_ref_step(&self) -> PathStepRef<'_> {
        match self {
            Self::Name(name) => PathStepRef::Name(name),
            Self::Index(index) => PathStepRef::Index(*index),
        }
    }
}

/// Whether `name` can be written in a path without quotes.
pub(super) fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_word_byte)
}

/// Whether a byte can be part of a word.
pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
