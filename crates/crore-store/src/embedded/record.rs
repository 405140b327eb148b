//! Records: each has the state of one key from its commit on.
//!
//! | first byte | body |
//! |---|---|
//! | 1 put | id, length of the spec, spec, live: a whole job |
//! | 2 live | id, priority, location of its put (segment, offset, length), live: a job with the same spec |
//! | 3 gone | id: the job is removed |
//! | 4 side | key, then 0 or 1 and the value: anything but a job (`side.rs`) |
//! | 5 meta | the last id, the last delivery, the registry's revision |
//! | 6 hole | first and last commit, id, delivery, revision, zeros: written by a repair in place of damage |
//! | 7 closed | nothing: the store was closed properly |
//!
//! The last record of a key wins; its older records are waste.
//!
//! A hole has exactly the length of the bytes that it replaces. Numbers that do not fit are omitted,
//! beginning with the last, and read as 0; zeros fill the rest.

use crore_core::{Job, JobId, Live, Spec};

use super::codec::{ByteReader, Damaged, Put, put_live, put_spec};
use super::frame::NUMBER_LIMIT;
use super::side;
use crate::local::{SideKey, SideValue};

/// Location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordLocation {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// The last allocated numbers; the store never reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// The last id of a job or group.
    pub(crate) last_id: u64,
    /// The last delivery.
    pub(crate) last_delivery: u64,
    /// The last revision of the registry.
    pub(crate) revision: u64,
}

impl Meta {
    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Result<Self, Damaged> {
        let (last_id, last_delivery) = (read_number(reader)?, read_number(reader)?);
        Ok(Self { last_id, last_delivery, revision: read_number(reader)? })
    }

    /// The maximum of each number.
    pub(crate) fn max_each(self, other: Self) -> Self {
        Self {
            last_id: self.last_id.max(other.last_id),
            last_delivery: self.last_delivery.max(other.last_delivery),
            revision: self.revision.max(other.revision),
        }
    }
}

/// Knowledge of a repair about unreadable data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hole {
    /// The first and last of the missing commits; `None` if only a part of the hole's own commit is
    /// missing. The next frame has the commit after the last.
    pub(crate) commits: Option<(u64, u64)>,
    /// Upper bounds of the numbers that the missing data may have allocated.
    pub(crate) meta: Meta,
}

/// A record, decoded up to its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LogRecord<'a> {
    Put { id: JobId, spec: &'a [u8], live: &'a [u8] },
    Live { id: JobId, priority: i32, base: RecordLocation, live: &'a [u8] },
    Gone(JobId),
    Side { key: SideKey, value: &'a [u8] },
    Meta(Meta),
    Hole(Hole),
    Closed,
}

impl<'a> LogRecord<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Damaged> {
        let mut reader = ByteReader::new(body);
        match reader.u8()? {
            1 => {
                let (id, spec) = (get_id(&mut reader)?, reader.chunk()?);
                Ok(Self::Put { id, spec, live: reader.rest() })
            }
            2 => {
                let (id, priority) = (get_id(&mut reader)?, reader.zig32()?);
                let (segment, offset, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let base = RecordLocation { segment, offset, len };
                Ok(Self::Live { id, priority, base, live: reader.rest() })
            }
            3 => get_id(&mut reader).map(Self::Gone),
            4 => {
                let key = side::get_key(&mut reader)?;
                Ok(Self::Side { key, value: reader.rest() })
            }
            5 => Meta::read(&mut reader).map(Self::Meta),
            6 => Ok(Self::Hole(get_hole(&mut reader))),
            7 => Ok(Self::Closed),
            _ => Err(Damaged("unknown record type")),
        }
    }
}

/// Reads an allocated number, and checks its range.
pub(crate) fn read_number(reader: &mut ByteReader<'_>) -> Result<u64, Damaged> {
    Some(reader.var()?).filter(|n| *n < NUMBER_LIMIT).ok_or(Damaged("number out of range"))
}

fn get_id(reader: &mut ByteReader<'_>) -> Result<JobId, Damaged> {
    read_number(reader).map(JobId)
}

/// Writes a put record.
pub(crate) fn put_job(job: &Job, out: &mut Vec<u8>) {
    out.put_u8(1);
    out.put_var(job.id.0);
    put_sized(out, |out| put_spec(&job.spec, out));
    put_live(&job.live, out);
}

/// Appends a chunk of unknown length in place: reserves bytes for the length, and corrects them
/// afterwards.
fn put_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    const ROOM: usize = 2;
    let start = out.len();
    out.extend_from_slice(&[0; ROOM]);
    write(out);
    let len = out.len() - start - ROOM;
    match out.get_mut(start..start + ROOM) {
        Some([low, high]) if (0x80..0x4000).contains(&len) => {
            (*low, *high) = ((len & 0x7f | 0x80) as u8, (len >> 7) as u8);
        }
        _ => {
            let mut digits = Vec::new();
            digits.put_var(len as u64);
            out.splice(start..start + ROOM, digits);
        }
    }
}

/// Writes a put record from already encoded parts.
pub(crate) fn put_parts(id: JobId, spec: &[u8], live: &[u8], out: &mut Vec<u8>) {
    out.put_u8(1);
    out.put_var(id.0);
    out.put_chunk(spec);
    out.extend_from_slice(live);
}

/// Writes a live record of a job whose put record is at `base`.
pub(crate) fn put_change(
    id: JobId,
    spec: &Spec,
    base: RecordLocation,
    live: &Live,
    out: &mut Vec<u8>,
) {
    out.put_u8(2);
    out.put_var(id.0);
    out.put_zig(spec.priority.into());
    out.put_u32(base.segment);
    out.put_u32(base.offset);
    out.put_u32(base.len);
    put_live(live, out);
}

pub(crate) fn put_gone(id: JobId, out: &mut Vec<u8>) {
    out.put_u8(3);
    out.put_var(id.0);
}

pub(crate) fn put_side(key: &SideKey, value: Option<&SideValue>, out: &mut Vec<u8>) {
    out.put_u8(4);
    side::put_key(key, out);
    out.put_option(value, |out, value| side::put_value(value, out));
}

pub(crate) fn put_meta(meta: Meta, out: &mut Vec<u8>) {
    out.put_u8(5);
    out.put_var(meta.last_id);
    out.put_var(meta.last_delivery);
    out.put_var(meta.revision);
}

/// Writes a hole whose body has `len` bytes, at least one.
pub(crate) fn put_hole(hole: Hole, len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_u8(6);
    let (first, last) = hole.commits.unwrap_or_default();
    let Meta { last_id, last_delivery, revision } = hole.meta;
    for number in [first, last, last_id, last_delivery, revision] {
        let before = out.len();
        out.put_var(number);
        if out.len() - start > len {
            out.truncate(before);
            break;
        }
    }
    out.resize(start + len.max(1), 0);
}

fn get_hole(reader: &mut ByteReader<'_>) -> Hole {
    let mut number = || reader.var().unwrap_or_default();
    let (first, last) = (number(), number());
    let meta = Meta { last_id: number(), last_delivery: number(), revision: number() };
    Hole { commits: (first > 0 && first <= last).then_some((first, last)), meta }
}

/// Writes a gone record whose body has `len` bytes.
pub(crate) fn put_gone_long(id: JobId, len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    put_gone(id, out);
    out.resize(start + len, 0);
}

pub(crate) fn put_closed(out: &mut Vec<u8>) {
    out.put_u8(7);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(hole: Hole, len: usize) -> (usize, Result<LogRecord<'static>, Damaged>) {
        let mut body = Vec::new();
        put_hole(hole, len, &mut body);
        let read = LogRecord::read(&body).map(|record| match record {
            LogRecord::Hole(hole) => LogRecord::Hole(hole),
            other => panic!("a hole, and not {other:?}"),
        });
        (body.len(), read)
    }

    #[test]
    fn a_hole_has_the_requested_length_and_keeps_what_fits() {
        let meta = Meta { last_id: 300, last_delivery: 1 << 40, revision: 7 };
        let hole = Hole { commits: Some((1000, 2000)), meta };
        assert_eq!(read_back(hole, 51), (51, Ok(LogRecord::Hole(hole))));
        assert_eq!(read_back(hole, 1 << 20), (1 << 20, Ok(LogRecord::Hole(hole))));
        let short =
            Hole { commits: Some((1000, 2000)), meta: Meta { last_id: 300, ..Meta::default() } };
        assert_eq!(read_back(hole, 8), (8, Ok(LogRecord::Hole(short))));
        assert_eq!(read_back(hole, 1), (1, Ok(LogRecord::Hole(Hole::default()))));
        assert_eq!(
            read_back(Hole { commits: None, meta }, 60).1,
            Ok(LogRecord::Hole(Hole { commits: None, meta }))
        );
    }

    #[test]
    fn padded_gone_record_is_read_as_gone() {
        let mut body = Vec::new();
        put_gone_long(JobId(77), 40, &mut body);
        assert_eq!((body.len(), LogRecord::read(&body)), (40, Ok(LogRecord::Gone(JobId(77)))));
    }
}
