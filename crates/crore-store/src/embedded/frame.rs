//! Frames: one commit each, checked as a whole.
//!
//! ```text
//! frame  = header (48 bytes), records, zeros up to a multiple of 8
//! header = checksum u32, length u32, segment u64, commit u64, synced u64, oldest u64, time i64
//! record = checksum u32, length u32, body (its first byte says what it is)
//! ```
//!
//! All numbers are little endian, and a length counts what follows its header. A record's checksum is
//! over its length and body. The frame's checksum is over the store's seed, the rest of the header and
//! the checksums of all records: so every byte is checked, and none twice.

use super::codec::{Damaged, Put, Reader};
use crate::bug::planted;

/// The length of a frame's header.
pub(crate) const HEADER: usize = 48;
/// The length of what stands before a record's body.
pub(crate) const RECORD: usize = 8;

/// No number that the store gives out is so large, so that there is always a next one.
pub(crate) const LAST: u64 = 1 << 62;

/// The header of a frame, without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// How many bytes of records follow.
    pub(crate) len: u32,
    /// The segment that it was written for: what an earlier use of the file has left is told apart.
    pub(crate) segment: u64,
    /// Its number, one more than that of the frame before.
    pub(crate) commit: u64,
    /// The newest commit that was known to be durable when this was written: if there is a frame that
    /// says so, a missing one up to there is damage and no unfinished write.
    pub(crate) synced: u64,
    /// The oldest segment that still counts.
    pub(crate) oldest: u64,
    /// The store's time, in milliseconds.
    pub(crate) at: i64,
}

impl Header {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.len);
        out.put_u64(self.segment);
        out.put_u64(self.commit);
        out.put_u64(self.synced);
        out.put_u64(self.oldest);
        out.put_u64(self.at.cast_unsigned());
    }

    /// The bytes of the header of a frame whose records have these checksums in sum.
    pub(crate) fn bytes(&self, seed: u64, records: u32) -> Vec<u8> {
        let mut rest = Vec::with_capacity(HEADER);
        self.put(&mut rest);
        let mut out = Vec::with_capacity(HEADER);
        out.put_u32(checksum(seed, &rest, records));
        out.extend_from_slice(&rest);
        out
    }

    /// Reads a header, and gives the frame's checksum with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(u32, Self), Damaged> {
        let mut reader = Reader::new(bytes);
        let checksum = reader.u32()?;
        let header = Self {
            len: reader.u32()?,
            segment: reader.u64()?,
            commit: reader.u64()?,
            synced: reader.u64()?,
            oldest: reader.u64()?,
            at: reader.u64()?.cast_signed(),
        };
        Ok((checksum, header))
    }

    /// How far the next frame is from the start of this one.
    pub(crate) const fn stride(&self) -> u64 {
        padded(HEADER as u64 + self.len as u64)
    }
}

fn checksum(seed: u64, header: &[u8], records: u32) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&seed.to_le_bytes()), header);
    crc32c::crc32c_append(sum, &records.to_le_bytes())
}

/// The next multiple of 8, at which frames begin.
pub(crate) const fn padded(at: u64) -> u64 {
    at.next_multiple_of(8)
}

/// Appends a record whose body `write` writes, adds its checksum to `sum`, and gives its length.
pub(crate) fn append(out: &mut Vec<u8>, sum: &mut u32, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD]);
    write(out);
    let len = out.len() - start;
    let body = u32::try_from(len - RECORD).unwrap_or(u32::MAX);
    if let Some(slot) = out.get_mut(start + 4..start + RECORD) {
        slot.copy_from_slice(&body.to_le_bytes());
    }
    let checksum = crc32c::crc32c(out.get(start + 4..).unwrap_or_default());
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&checksum.to_le_bytes());
    }
    *sum = crc32c::crc32c_append(*sum, &checksum.to_le_bytes());
    body + RECORD as u32
}

/// The body of a record of which these are all the bytes.
pub(crate) fn body(record: &[u8]) -> Result<&[u8], Damaged> {
    match records(record).next() {
        Some((_, Ok((checksum, body)))) if body.len() + RECORD == record.len() => {
            verify(record, checksum).map(|()| body)
        }
        _ => Err(Damaged("a record of another length")),
    }
}

fn verify(record: &[u8], checksum: u32) -> Result<(), Damaged> {
    if crc32c::crc32c(record.get(4..).unwrap_or_default()) == checksum {
        Ok(())
    } else {
        Err(Damaged("a record that fails its checksum"))
    }
}

/// A record's checksum and body.
pub(crate) type Raw<'a> = Result<(u32, &'a [u8]), Damaged>;

/// The records of a frame and where each begins, unchecked. It ends after the first that does not fit.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = (usize, Raw<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at;
        let mut reader = Reader::new(rest);
        let mut raw = || {
            let (checksum, len) = (reader.u32()?, reader.u32()?);
            Ok((checksum, reader.bytes(len as usize)?))
        };
        let raw = raw();
        at = raw.as_ref().map_or(bytes.len(), |(_, body)| start + RECORD + body.len());
        Some((start, raw))
    })
}

/// Checks the frame that begins with these bytes, whole.
pub(crate) fn check(bytes: &[u8], seed: u64, segment: u64) -> Result<Header, Damaged> {
    let (sum, header) = Header::read(bytes)?;
    if header.segment != segment {
        return Err(Damaged("a frame of another segment"));
    }
    if !(1..LAST).contains(&header.commit) || !(1..=segment).contains(&header.oldest) {
        return Err(Damaged("a number is out of range"));
    }
    if planted!("bug-17") && header.len > 0 {
        return Ok(header);
    }
    let end = HEADER + header.len as usize;
    let all = bytes.get(HEADER..end).ok_or(Damaged("a frame that is cut off"))?;
    let mut records_sum = 0;
    for (start, raw) in records(all) {
        let (checksum, body) = raw?;
        verify(all.get(start..start + RECORD + body.len()).unwrap_or_default(), checksum)?;
        records_sum = crc32c::crc32c_append(records_sum, &checksum.to_le_bytes());
    }
    let rest = bytes.get(4..HEADER).unwrap_or_default();
    if checksum(seed, rest, records_sum) != sum {
        return Err(Damaged("a frame that fails its checksum"));
    }
    Ok(header)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use super::*;

    const SEED: u64 = 0x5eed;

    fn frame(bodies: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut sum) = (vec![0; HEADER], 0);
        for body in bodies {
            append(&mut out, &mut sum, |out| out.extend_from_slice(body));
        }
        let len = u32::try_from(out.len() - HEADER).expect("short");
        let header = Header { len, segment: 7, commit: 9, synced: 8, oldest: 3, at: -1 };
        out.splice(..HEADER, header.bytes(SEED, sum));
        out
    }

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let bytes = frame(&[b"one", b"", b"three"]);
        let header = check(&bytes, SEED, 7).expect("good");
        assert_eq!((header.commit, header.synced, header.oldest, header.at), (9, 8, 3, -1));
        let all = bytes.get(HEADER..).expect("records");
        let bodies: Vec<_> = records(all).map(|(_, raw)| raw.expect("whole").1).collect();
        assert_eq!(bodies, [b"one".as_slice(), b"", b"three"]);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = frame(&[b"one", b"", b"three"]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            *damaged.get_mut(bit / 8).expect("inside") ^= 1 << (bit % 8);
            assert!(check(&damaged, SEED, 7).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(check(bytes.get(..end).expect("inside"), SEED, 7).is_err(), "cut at {end}");
        }
        assert!(check(&bytes, SEED + 1, 7).is_err(), "a frame of another store");
        assert!(check(&bytes, SEED, 8).is_err(), "a frame of another segment");
    }

    #[test]
    fn a_record_is_checked_alone() {
        let bytes = frame(&[b"payload"]);
        let record = bytes.get(HEADER..).expect("a record");
        assert_eq!(body(record), Ok(b"payload".as_slice()));
        for bit in 0..record.len() * 8 {
            let mut damaged = record.to_vec();
            *damaged.get_mut(bit / 8).expect("inside") ^= 1 << (bit % 8);
            assert!(body(&damaged).is_err(), "bit {bit}");
        }
    }
}
