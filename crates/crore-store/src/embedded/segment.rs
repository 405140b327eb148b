//! Segments: the files of the log, and their heads.
//!
//! ```text
//! offset  0  magic "crorelog"
//!         8  format version u32
//!        12  checksum u32, over bytes 16 to 64
//!        16  segment u64: its number, from 1; 0 is a spare file
//!        24  seed u64: a random number of the store, which starts all its checksums
//!        32  size u64: minimum length of the file, to detect truncation
//!        40  zeros up to 64, where the first frame begins
//! ```
//!
//! A file that begins with zeros is incomplete. The name of a file does not say which segment it
//! has, so a file is reused by writing a new head.

use super::codec::{ByteReader, Damaged, Put};

/// Offset of the first frame.
pub(crate) const HEAD_BYTES: usize = 64;
/// Version of all files. Any change of a format needs a new version.
pub(crate) const VERSION: u32 = 1;
/// Segment number of a spare file.
pub(crate) const SPARE: u64 = 0;
const MAGIC: &[u8; 8] = b"crorelog";
const PREFIX: &str = "log-";

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) segment: u64,
    pub(crate) seed: u64,
    pub(crate) size: u64,
}

/// Classification of a file by its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Segment(SegmentHead),
    /// Zeros, or empty.
    Blank,
    /// Written by an unknown version.
    Newer(u32),
    /// Not a file of the store, or damaged.
    Unknown,
}

impl SegmentHead {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(HEAD_BYTES);
        rest.put_u64(self.segment);
        rest.put_u64(self.seed);
        rest.put_u64(self.size);
        rest.resize(HEAD_BYTES - 16, 0);
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(crc32c::crc32c(&rest));
        out.extend_from_slice(&rest);
        out
    }

    fn read(bytes: &[u8]) -> Result<FileKind, Damaged> {
        let mut reader = ByteReader::new(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(Damaged("not the head of a segment"));
        }
        let (version, checksum) = (reader.u32()?, reader.u32()?);
        let rest = bytes.get(16..HEAD_BYTES).ok_or(Damaged("truncated head"))?;
        if crc32c::crc32c(rest) != checksum {
            return Err(Damaged("head with a wrong checksum"));
        }
        if version != VERSION {
            return Ok(FileKind::Newer(version));
        }
        let (segment, seed) = (reader.u64()?, reader.u64()?);
        if segment >= u64::from(u32::MAX) {
            return Err(Damaged("segment number out of range"));
        }
        Ok(FileKind::Segment(Self { segment, seed, size: reader.u64()? }))
    }
}

impl FileKind {
    /// Classifies a file by its first bytes, up to [`HEAD_BYTES`] of them.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        SegmentHead::read(bytes).unwrap_or(Self::Unknown)
    }
}

/// Length of a new segment, at most `most`. The first segments are short, so that a small store is
/// small and created quickly.
pub(crate) fn size(segment: u64, max: u64) -> u64 {
    let shift = segment.saturating_sub(1).saturating_mul(2).min(20);
    max.min((1 << 20) << shift)
}

/// Name of the n-th file.
pub(crate) fn name(n: u64) -> String {
    format!("{PREFIX}{n:08}")
}

/// Number in a file name, if it is the name of a log file.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_a_flipped_bit_is_detected() {
        let head = SegmentHead { segment: 5, seed: 6, size: 7 };
        let bytes = head.bytes();
        assert_eq!(FileKind::of(&bytes), FileKind::Segment(head));
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes.clone();
            *damaged.get_mut(bit / 8).expect("in range") ^= 1 << (bit % 8);
            assert!(
                matches!(FileKind::of(&damaged), FileKind::Unknown | FileKind::Newer(_)),
                "bit {bit}"
            );
        }
        assert_eq!(FileKind::of(&[0; HEAD_BYTES]), FileKind::Blank);
        assert_eq!(FileKind::of(b""), FileKind::Blank);
        assert_eq!(FileKind::of(b"hello"), FileKind::Unknown);
    }

    #[test]
    fn file_names_contain_their_number() {
        assert_eq!(number(&name(12)), Some(12));
        assert_eq!(number("log-"), None);
        assert_eq!(number("log-+1"), None);
        assert_eq!(number("hint-1"), None);
    }
}
