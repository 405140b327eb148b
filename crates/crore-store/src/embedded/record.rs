//! What a record says: one thing, by its key, as it is from this commit on.
//!
//! | first byte | body |
//! |---|---|
//! | 1 put | id, length of the spec, spec, live: a job, whole |
//! | 2 live | id, priority, where its put is (segment, offset, length), live: a job whose spec stays |
//! | 3 gone | id: the job is removed |
//! | 4 side | key, then 0 or 1 and the value: something besides a job (`side.rs`) |
//! | 5 meta | the last id, the last delivery, the registry's revision |
//! | 6 hole | first and last commit, id, delivery, revision, zeros: a repair put it where damage was |
//! | 7 closed | nothing: the store was closed, and is as it was left |
//!
//! The last record of a key wins, so a key's older records are waste.
//!
//! A hole is exactly as long as what it stands for, so numbers that find no room in it are left out,
//! from the last one on, and zeros fill it up. A number that is left out is 0.

use crore_core::{Job, JobId, Live, Spec};

use super::codec::{Damaged, Put, Reader, put_live, put_spec};
use super::frame::LAST;
use super::side;
use crate::local::{Key, Value};

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spot {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// The numbers that a store never gives out twice.
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
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (last_id, last_delivery) = (number(reader)?, number(reader)?);
        Ok(Self { last_id, last_delivery, revision: number(reader)? })
    }

    /// The larger of both, number by number.
    pub(crate) fn or_later(self, other: Self) -> Self {
        Self {
            last_id: self.last_id.max(other.last_id),
            last_delivery: self.last_delivery.max(other.last_delivery),
            revision: self.revision.max(other.revision),
        }
    }
}

/// What a repair knows of something that cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hole {
    /// The first and the last commit of which nothing is left; `None`: a part of its own commit is
    /// missing. The next frame is that of the commit after the last.
    pub(crate) commits: Option<(u64, u64)>,
    /// No number above these was given out by what is missing.
    pub(crate) meta: Meta,
}

/// A record, taken apart as far as its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record<'a> {
    Put { id: JobId, spec: &'a [u8], live: &'a [u8] },
    Live { id: JobId, priority: i32, base: Spot, live: &'a [u8] },
    Gone(JobId),
    Side { key: Key, value: &'a [u8] },
    Meta(Meta),
    Hole(Hole),
    Closed,
}

impl<'a> Record<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(body);
        match reader.u8()? {
            1 => {
                let (id, spec) = (get_id(&mut reader)?, reader.chunk()?);
                Ok(Self::Put { id, spec, live: reader.rest() })
            }
            2 => {
                let (id, priority) = (get_id(&mut reader)?, reader.zig32()?);
                let (segment, offset, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let base = Spot { segment, offset, len };
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
            _ => Err(Damaged("an unknown sort of record")),
        }
    }
}

/// A number that the store has given out.
pub(crate) fn number(reader: &mut Reader<'_>) -> Result<u64, Damaged> {
    Some(reader.var()?).filter(|n| *n < LAST).ok_or(Damaged("a number is out of range"))
}

fn get_id(reader: &mut Reader<'_>) -> Result<JobId, Damaged> {
    number(reader).map(JobId)
}

/// A job, whole.
pub(crate) fn put_job(job: &Job, out: &mut Vec<u8>) {
    out.put_u8(1);
    out.put_var(job.id.0);
    put_long(out, |out| put_spec(&job.spec, out));
    put_live(&job.live, out);
}

/// Appends a chunk of unknown length in place: room for the length is left before it is written, and
/// taken back if the length needs less.
fn put_long(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
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

/// A job whose parts are at hand as they are stored.
pub(crate) fn put_parts(id: JobId, spec: &[u8], live: &[u8], out: &mut Vec<u8>) {
    out.put_u8(1);
    out.put_var(id.0);
    out.put_chunk(spec);
    out.extend_from_slice(live);
}

/// A job whose put is at `base`.
pub(crate) fn put_change(id: JobId, spec: &Spec, base: Spot, live: &Live, out: &mut Vec<u8>) {
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

pub(crate) fn put_side(key: &Key, value: Option<&Value>, out: &mut Vec<u8>) {
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

/// A hole whose body has `len` bytes, at least one.
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

fn get_hole(reader: &mut Reader<'_>) -> Hole {
    let mut number = || reader.var().unwrap_or_default();
    let (first, last) = (number(), number());
    let meta = Meta { last_id: number(), last_delivery: number(), revision: number() };
    Hole { commits: (first > 0 && first <= last).then_some((first, last)), meta }
}

/// That a job is removed, in a record whose body has `len` bytes.
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

    fn read_back(hole: Hole, len: usize) -> (usize, Result<Record<'static>, Damaged>) {
        let mut body = Vec::new();
        put_hole(hole, len, &mut body);
        let read = Record::read(&body).map(|record| match record {
            Record::Hole(hole) => Record::Hole(hole),
            other => panic!("a hole, and not {other:?}"),
        });
        (body.len(), read)
    }

    #[test]
    fn a_hole_is_as_long_as_asked_and_says_what_it_has_room_for() {
        let meta = Meta { last_id: 300, last_delivery: 1 << 40, revision: 7 };
        let hole = Hole { commits: Some((1000, 2000)), meta };
        assert_eq!(read_back(hole, 51), (51, Ok(Record::Hole(hole))));
        assert_eq!(read_back(hole, 1 << 20), (1 << 20, Ok(Record::Hole(hole))));
        let short =
            Hole { commits: Some((1000, 2000)), meta: Meta { last_id: 300, ..Meta::default() } };
        assert_eq!(read_back(hole, 8), (8, Ok(Record::Hole(short))));
        assert_eq!(read_back(hole, 1), (1, Ok(Record::Hole(Hole::default()))));
        assert_eq!(
            read_back(Hole { commits: None, meta }, 60).1,
            Ok(Record::Hole(Hole { commits: None, meta }))
        );
    }

    #[test]
    fn a_long_gone_is_gone() {
        let mut body = Vec::new();
        put_gone_long(JobId(77), 40, &mut body);
        assert_eq!((body.len(), Record::read(&body)), (40, Ok(Record::Gone(JobId(77)))));
    }
}
