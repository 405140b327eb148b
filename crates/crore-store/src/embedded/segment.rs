//! Segments: the files of the log, and how their first bytes say what they are.
//!
//! ```text
//! offset  0  magic "crorelog"
//!         8  format version u32
//!        12  checksum u32, over bytes 16 to 64
//!        16  segment u64: its number, from 1; 0 is a spare file
//!        24  seed u64: the store's own number, which all its checksums begin with
//!        32  size u64: how long the file is at least, so that it is seen if its end is cut off
//!        40  zeros up to 64, where the first frame begins
//! ```
//!
//! A file that begins with zeros was being made. A file's name says nothing about what it holds, so that
//! a file is used again by writing a new head into it.

use super::codec::{Damaged, Put, Reader};

/// Where the first frame begins.
pub(crate) const HEAD: usize = 64;
/// The version of everything in the files. Another form of anything is another version.
pub(crate) const VERSION: u32 = 1;
/// The number of a file that holds nothing yet.
pub(crate) const SPARE: u64 = 0;
const MAGIC: &[u8; 8] = b"crorelog";
const PREFIX: &str = "log-";

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) segment: u64,
    pub(crate) seed: u64,
    pub(crate) size: u64,
}

/// What the first bytes of a file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment(Head),
    /// Zeros, or nothing yet.
    Blank,
    /// Written by a version that this one does not know.
    Newer(u32),
    /// Something else: not ours, or damaged.
    Unknown,
}

impl Head {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(HEAD);
        rest.put_u64(self.segment);
        rest.put_u64(self.seed);
        rest.put_u64(self.size);
        rest.resize(HEAD - 16, 0);
        let mut out = Vec::with_capacity(HEAD);
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(crc32c::crc32c(&rest));
        out.extend_from_slice(&rest);
        out
    }

    fn read(bytes: &[u8]) -> Result<Kind, Damaged> {
        let mut reader = Reader::new(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(Damaged("not the head of a segment"));
        }
        let (version, checksum) = (reader.u32()?, reader.u32()?);
        let rest = bytes.get(16..HEAD).ok_or(Damaged("a head that is cut off"))?;
        if crc32c::crc32c(rest) != checksum {
            return Err(Damaged("a head that fails its checksum"));
        }
        if version != VERSION {
            return Ok(Kind::Newer(version));
        }
        let (segment, seed) = (reader.u64()?, reader.u64()?);
        if segment >= u64::from(u32::MAX) {
            return Err(Damaged("a segment's number is out of range"));
        }
        Ok(Kind::Segment(Self { segment, seed, size: reader.u64()? }))
    }
}

impl Kind {
    /// What a file is that begins with these bytes, up to [`HEAD`] of them.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        Head::read(bytes).unwrap_or(Self::Unknown)
    }
}

/// How long a segment is made, where none is to be longer than `most`. The first ones are short, so
/// that a small store is small, and is there at once.
pub(crate) fn size(segment: u64, most: u64) -> u64 {
    let shift = segment.saturating_sub(1).saturating_mul(2).min(20);
    most.min((1 << 20) << shift)
}

/// The name of the n-th file.
pub(crate) fn name(n: u64) -> String {
    format!("{PREFIX}{n:08}")
}

/// The number in a file's name, if it is one of ours.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_a_flipped_bit_is_seen() {
        let head = Head { segment: 5, seed: 6, size: 7 };
        let bytes = head.bytes();
        assert_eq!(Kind::of(&bytes), Kind::Segment(head));
        for bit in 0..HEAD * 8 {
            let mut damaged = bytes.clone();
            *damaged.get_mut(bit / 8).expect("inside") ^= 1 << (bit % 8);
            assert!(matches!(Kind::of(&damaged), Kind::Unknown | Kind::Newer(_)), "bit {bit}");
        }
        assert_eq!(Kind::of(&[0; HEAD]), Kind::Blank);
        assert_eq!(Kind::of(b""), Kind::Blank);
        assert_eq!(Kind::of(b"hello"), Kind::Unknown);
    }

    #[test]
    fn names_say_their_number() {
        assert_eq!(number(&name(12)), Some(12));
        assert_eq!(number("log-"), None);
        assert_eq!(number("log-+1"), None);
        assert_eq!(number("hint-1"), None);
    }
}
