//! What the frames that count say, record by record.

use std::collections::{BTreeMap, HashMap};

use crore_core::{JobId, State};

use super::codec::{Damaged, Reader, get_live, get_spec};
use super::disk::Disk;
use super::frame::{self, HEADER, RECORD};
use super::gaps::{Chain, Gap, Place};
use super::hint::{Gather, Hint};
use super::record::{Meta, Record, Spot};
use super::recover::unavailable;
use super::replay::read_hint;
use super::scan;
use super::side;
use super::survey::{Frame, Seen, Survey};
use crate::Error;

/// What is in a store.
#[derive(Debug, Default)]
pub(crate) struct Exam {
    /// Records that fit their checksum and make no sense.
    pub(crate) bad: Vec<BadRecord>,
    /// Jobs whose newest record is based on a put that is not there.
    pub(crate) orphans: Vec<(JobId, Spot)>,
    /// Hints that say something else than their segment.
    pub(crate) false_hints: Vec<u32>,
    /// Where earlier repairs have left holes, and which commits are missing there.
    pub(crate) holes: Vec<(Spot, Option<(u64, u64)>)>,
    pub(crate) jobs: BTreeMap<State, u64>,
    /// The bytes of newest records of jobs.
    pub(crate) live: u64,
    /// The largest numbers that any record has.
    pub(crate) meta: Meta,
}

/// A record that fits its checksum and makes no sense.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadRecord {
    pub(crate) spot: Spot,
    pub(crate) frame: Frame,
    pub(crate) what: &'static str,
}

/// A job's newest record, and its put.
#[derive(Debug, Clone, Copy)]
struct Newest {
    spot: Spot,
    base: Spot,
    state: State,
}

type Rows = HashMap<JobId, Newest>;

/// Reads every record that counts.
pub(crate) fn examine(disk: &dyn Disk, survey: &Survey, chain: &Chain) -> Result<Exam, Error> {
    let (mut exam, mut rows) = (Exam::default(), Rows::new());
    for (segment, seen) in survey.segments.range(survey.oldest..) {
        let bytes = scan::read_all(&*seen.file).map_err(unavailable)?;
        let counted = chain.counted.get(segment).copied().unwrap_or_default();
        let mut gathered = Gather::new(*segment);
        for frame in seen.frames.iter().take(counted) {
            gathered.frame(frame.header);
            for (spot, body) in records(&bytes, *segment, *frame) {
                if let Err(damaged) = exam.record(&mut rows, spot, body) {
                    exam.bad.push(BadRecord { spot, frame: *frame, what: damaged.0 });
                }
                // What cannot be gathered is bad, and said so.
                let _ = gathered.record(spot, body);
            }
        }
        exam.meta = exam.meta.or_later(gathered.meta());
        let is_damaged = chain.gaps.iter().any(|gap| touches(gap, *segment));
        if !is_damaged {
            exam.compare_hint(disk, survey, (*segment, seen), gathered)?;
        }
    }
    exam.count(survey, &rows)?;
    Ok(exam)
}

/// Whether anything of a segment is missing.
fn touches(gap: &Gap, number: u32) -> bool {
    gap.places.iter().any(|place| match place {
        Place::Stretch { segment, .. } => *segment == number,
        Place::Files { first, last } => (*first..=*last).contains(&number),
    })
}

/// The records of a good frame.
pub(crate) fn records(
    bytes: &[u8],
    segment: u32,
    frame: Frame,
) -> impl Iterator<Item = (Spot, &[u8])> {
    let start = frame.at as usize + HEADER;
    let all = bytes.get(start..start + frame.header.len as usize).unwrap_or_default();
    frame::records(all).filter_map(move |(at, raw)| {
        let (_, body) = raw.ok()?;
        let offset = u32::try_from(start + at).unwrap_or(u32::MAX);
        Some((Spot { segment, offset, len: (body.len() + RECORD) as u32 }, body))
    })
}

/// Reads a record to its last byte.
pub(crate) fn check(body: &[u8]) -> Result<Record<'_>, Damaged> {
    let record = Record::read(body)?;
    match &record {
        Record::Put { spec, live, .. } => {
            whole(spec, |reader| get_spec(reader).map(drop))?;
            whole(live, |reader| get_live(reader).map(drop))?;
        }
        Record::Live { live, .. } => whole(live, |reader| get_live(reader).map(drop))?,
        Record::Side { key, value } => side::get_value(key, value).map(drop)?,
        Record::Gone(_) | Record::Meta(_) | Record::Hole(_) | Record::Closed => {}
    }
    Ok(record)
}

fn whole(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    let mut reader = Reader::new(bytes);
    read(&mut reader)?;
    if reader.rest().is_empty() { Ok(()) } else { Err(Damaged("something stands behind its end")) }
}

impl Exam {
    fn record(&mut self, rows: &mut Rows, spot: Spot, body: &[u8]) -> Result<(), Damaged> {
        let state = |live| get_live(&mut Reader::new(live)).map(|live| live.state);
        match check(body)? {
            Record::Put { id, live, .. } => {
                rows.insert(id, Newest { spot, base: spot, state: state(live)? });
            }
            Record::Live { id, base, live, .. } => {
                rows.insert(id, Newest { spot, base, state: state(live)? });
            }
            Record::Gone(id) => {
                rows.remove(&id);
            }
            Record::Hole(hole) => self.holes.push((spot, hole.commits)),
            Record::Side { .. } | Record::Meta(_) | Record::Closed => {}
        }
        Ok(())
    }

    /// A hint that can be read is believed, so it has to be right. One that cannot be is made anew,
    /// and may be left of a crash.
    fn compare_hint(
        &mut self,
        disk: &dyn Disk,
        survey: &Survey,
        (segment, seen): (u32, &Seen),
        gathered: Gather,
    ) -> Result<(), Error> {
        let Some(bytes) = read_hint(disk, segment)? else { return Ok(()) };
        let (seed, goes_on) = (survey.seed, survey.segments.contains_key(&(segment + 1)));
        let is_read = Hint::read(&bytes, segment, seed).is_ok();
        // It is written when the log goes on in the next segment.
        if is_read && (!goes_on || gathered.finish(seed, seen.end()) != bytes) {
            self.false_hints.push(segment);
        }
        Ok(())
    }

    /// Counts jobs, and finds those without a put.
    fn count(&mut self, survey: &Survey, rows: &Rows) -> Result<(), Error> {
        let mut all: Vec<_> = rows.iter().map(|(id, newest)| (*id, *newest)).collect();
        all.sort_unstable_by_key(|(_, newest)| (newest.base.segment, newest.base.offset));
        for (id, Newest { spot, base, state }) in all {
            if base != spot && !is_put(survey, id, base)? {
                self.orphans.push((id, spot));
                continue;
            }
            *self.jobs.entry(state).or_default() += 1;
            self.live += u64::from(spot.len) + if base == spot { 0 } else { base.len.into() };
        }
        self.orphans.sort_unstable_by_key(|(id, _)| *id);
        Ok(())
    }
}

/// Whether there is a put of this job at this place.
fn is_put(survey: &Survey, id: JobId, spot: Spot) -> Result<bool, Error> {
    let seen = survey.segments.get(&spot.segment).filter(|_| spot.segment >= survey.oldest);
    let Some(seen) = seen else { return Ok(false) };
    if u64::from(spot.offset) + u64::from(spot.len) > seen.size {
        return Ok(false);
    }
    let mut bytes = vec![0; spot.len as usize];
    seen.file.read(spot.offset.into(), &mut bytes).map_err(unavailable)?;
    let put = frame::body(&bytes).and_then(check);
    Ok(matches!(put, Ok(Record::Put { id: of, .. }) if of == id))
}
