//! Frames: one commit each, checked as a whole.
//!
//! ```text
//! frame  = header (48 bytes), records, zeros up to a multiple of 8
//! header = checksum u32, length u32, segment u64, commit u64, synced u64, oldest u64, time i64
//! record = checksum u32, length u32, body (its first byte is the type)
//! ```
//!
//! All numbers are little endian; a length counts the bytes behind its header. A record's checksum
//! covers its length and body. The frame's checksum covers the store's seed, the rest of the header
//! and the checksums of all records, so every byte is checked exactly once.

use super::codec::{ByteReader, Damaged, Put};
use crate::bug::planted;

/// Length of a frame header.
pub(crate) const HEADER_BYTES: usize = 48;
/// Length of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 8;

/// Exclusive upper bound of all allocated numbers, so that there is always a next one.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 62;

/// The header of a frame, without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Length of the records in bytes.
    pub(crate) len: u32,
    /// The segment that the frame was written for. Frames left from an earlier use of the file
    /// have another number.
    pub(crate) segment: u64,
    /// Number of the commit: one more than in the previous frame.
    pub(crate) commit: u64,
    /// The newest commit known to be durable when this was written. A missing commit up to this
    /// number is damage, not an unfinished write.
    pub(crate) synced: u64,
    /// The oldest segment in use.
    pub(crate) oldest: u64,
    /// The store's time in milliseconds.
    pub(crate) at: i64,
}

impl FrameHeader {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.len);
        out.put_u64(self.segment);
        out.put_u64(self.commit);
        out.put_u64(self.synced);
        out.put_u64(self.oldest);
        out.put_u64(self.at.cast_unsigned());
    }

    /// Encodes the header; `records` is the combined checksum of the records.
    pub(crate) fn bytes(&self, seed: u64, records: u32) -> Vec<u8> {
        let mut rest = Vec::with_capacity(HEADER_BYTES);
        self.put(&mut rest);
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.put_u32(checksum(seed, &rest, records));
        out.extend_from_slice(&rest);
        out
    }

    /// Decodes a header, and returns the frame's checksum with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(u32, Self), Damaged> {
        let mut reader = ByteReader::new(bytes);
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

    /// Distance from the start of this frame to the next one.
    pub(crate) const fn stride(&self) -> u64 {
        padded(HEADER_BYTES as u64 + self.len as u64)
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

/// Appends a record with the body that `write` produces, adds its checksum to `sum`, and returns
/// its length.
pub(crate) fn append(out: &mut Vec<u8>, sum: &mut u32, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    write(out);
    let len = out.len() - start;
    let body = u32::try_from(len - RECORD_HEADER_BYTES).unwrap_or(u32::MAX);
    if let Some(slot) = out.get_mut(start + 4..start + RECORD_HEADER_BYTES) {
        slot.copy_from_slice(&body.to_le_bytes());
    }
    let checksum = crc32c::crc32c(out.get(start + 4..).unwrap_or_default());
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&checksum.to_le_bytes());
    }
    *sum = crc32c::crc32c_append(*sum, &checksum.to_le_bytes());
    body + RECORD_HEADER_BYTES as u32
}

/// Checks a whole record and returns its body.
pub(crate) fn body(record: &[u8]) -> Result<&[u8], Damaged> {
    match records(record).next() {
        Some((_, Ok((checksum, body)))) if body.len() + RECORD_HEADER_BYTES == record.len() => {
            verify(record, checksum).map(|()| body)
        }
        _ => Err(Damaged("record with a wrong length")),
    }
}

fn verify(record: &[u8], checksum: u32) -> Result<(), Damaged> {
    if crc32c::crc32c(record.get(4..).unwrap_or_default()) == checksum {
        Ok(())
    } else {
        Err(Damaged("record with a wrong checksum"))
    }
}

/// Checksum and body of a record.
pub(crate) type RawRecord<'a> = Result<(u32, &'a [u8]), Damaged>;

/// The records of a frame with their offsets, unchecked. Ends after the first that does not fit.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = (usize, RawRecord<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at;
        let mut reader = ByteReader::new(rest);
        let mut raw = || {
            let (checksum, len) = (reader.u32()?, reader.u32()?);
            Ok((checksum, reader.bytes(len as usize)?))
        };
        let raw = raw();
        at = raw.as_ref().map_or(bytes.len(), |(_, body)| start + RECORD_HEADER_BYTES + body.len());
        Some((start, raw))
    })
}

/// Checks the whole frame that begins with these bytes.
pub(crate) fn check(bytes: &[u8], seed: u64, segment: u64) -> Result<FrameHeader, Damaged> {
    let (sum, header) = FrameHeader::read(bytes)?;
    if header.segment != segment {
        return Err(Damaged("frame of another segment"));
    }
    if !(1..NUMBER_LIMIT).contains(&header.commit) || !(1..=segment).contains(&header.oldest) {
        return Err(Damaged("number out of range"));
    }
    if planted!("bug-17") && header.len > 0 {
        return Ok(header);
    }
    let end = HEADER_BYTES + header.len as usize;
    let all = bytes.get(HEADER_BYTES..end).ok_or(Damaged("truncated frame"))?;
    let mut records_sum = 0;
    for (start, raw) in records(all) {
        let (checksum, body) = raw?;
        verify(
            all.get(start..start + RECORD_HEADER_BYTES + body.len()).unwrap_or_default(),
            checksum,
        )?;
        records_sum = crc32c::crc32c_append(records_sum, &checksum.to_le_bytes());
    }
    let rest = bytes.get(4..HEADER_BYTES).unwrap_or_default();
    if checksum(seed, rest, records_sum) != sum {
        return Err(Damaged("frame with a wrong checksum"));
    }
    Ok(header)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const SEED: u64 = 0x5eed;

    fn frame(bodies: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut sum) = (vec![0; HEADER_BYTES], 0);
        for body in bodies {
            append(&mut out, &mut sum, |out| out.extend_from_slice(body));
        }
        let len = u32::try_from(out.len() - HEADER_BYTES).expect("short");
        let header = FrameHeader { len, segment: 7, commit: 9, synced: 8, oldest: 3, at: -1 };
        out.splice(..HEADER_BYTES, header.bytes(SEED, sum));
        out
    }

    #[test]
    fn a_frame_reads_back_as_written() {
        let bytes = frame(&[b"one", b"", b"three"]);
        let header = check(&bytes, SEED, 7).expect("good");
        assert_eq!((header.commit, header.synced, header.oldest, header.at), (9, 8, 3, -1));
        let all = bytes.get(HEADER_BYTES..).expect("records");
        let bodies: Vec<_> = records(all).map(|(_, raw)| raw.expect("whole").1).collect();
        assert_eq!(bodies, [b"one".as_slice(), b"", b"three"]);
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let bytes = frame(&[b"one", b"", b"three"]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            *damaged.get_mut(bit / 8).expect("in range") ^= 1 << (bit % 8);
            assert!(check(&damaged, SEED, 7).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(check(bytes.get(..end).expect("in range"), SEED, 7).is_err(), "cut at {end}");
        }
        assert!(check(&bytes, SEED + 1, 7).is_err(), "a frame of another store");
        assert!(check(&bytes, SEED, 8).is_err(), "frame of another segment");
    }

    #[test]
    fn a_record_is_checked_separately() {
        let bytes = frame(&[b"payload"]);
        let record = bytes.get(HEADER_BYTES..).expect("a record");
        assert_eq!(body(record), Ok(b"payload".as_slice()));
        for bit in 0..record.len() * 8 {
            let mut damaged = record.to_vec();
            *damaged.get_mut(bit / 8).expect("in range") ^= 1 << (bit % 8);
            assert!(body(&damaged).is_err(), "bit {bit}");
        }
    }
}
