//! The records of a closed store: every record in a valid frame is read and checked.

use std::collections::{BTreeMap, HashMap};

use crore_core::{JobId, State};

use super::commits::{CommitChain, Gap, GapLocation};
use super::files::{Frame, SegmentFile, StoreFiles};
use crate::Error;
use crate::embedded::codec::{ByteReader, Damaged, get_live, get_spec};
use crate::embedded::disk::Disk;
use crate::embedded::frame::{self, HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::embedded::hint::{Hint, HintBuilder};
use crate::embedded::record::{LogRecord, Meta, RecordLocation};
use crate::embedded::recover::unavailable;
use crate::embedded::replay::read_hint;
use crate::embedded::scan;
use crate::embedded::side;

/// The decoded records, summarized.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Records with a correct checksum that cannot be decoded.
    pub(super) bad: Vec<BadRecord>,
    /// Jobs whose newest record refers to a missing put record.
    pub(super) orphans: Vec<(JobId, RecordLocation)>,
    /// Segments whose hint does not match them.
    pub(super) false_hints: Vec<u32>,
    /// Holes of earlier repairs, with the missing commits.
    pub(super) holes: Vec<(RecordLocation, Option<(u64, u64)>)>,
    pub(super) jobs: BTreeMap<State, u64>,
    /// Bytes of the newest records of jobs.
    pub(super) live: u64,
    /// The largest id, delivery and revision in any record.
    pub(super) meta: Meta,
}

/// A record with a correct checksum that cannot be decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct BadRecord {
    pub(super) location: RecordLocation,
    pub(super) frame: Frame,
    pub(super) what: &'static str,
}

/// Locations of a job's newest record and of its put record.
#[derive(Debug, Clone, Copy)]
struct Newest {
    location: RecordLocation,
    base: RecordLocation,
    state: State,
}

type Rows = HashMap<JobId, Newest>;

/// Whether a part of this segment is missing.
fn touches(gap: &Gap, number: u32) -> bool {
    gap.locations.iter().any(|location| match location {
        GapLocation::Bytes { segment, .. } => *segment == number,
        GapLocation::Segments { first, last } => (*first..=*last).contains(&number),
    })
}

/// The records of a good frame.
pub(super) fn records(
    bytes: &[u8],
    segment: u32,
    frame: Frame,
) -> impl Iterator<Item = (RecordLocation, &[u8])> {
    let start = frame.at as usize + HEADER_BYTES;
    let all = bytes.get(start..start + frame.header.len as usize).unwrap_or_default();
    frame::records(all).filter_map(move |(at, raw)| {
        let (_, body) = raw.ok()?;
        let offset = u32::try_from(start + at).unwrap_or(u32::MAX);
        Some((
            RecordLocation { segment, offset, len: (body.len() + RECORD_HEADER_BYTES) as u32 },
            body,
        ))
    })
}

/// Decodes a record to its last byte.
pub(super) fn check_record(body: &[u8]) -> Result<LogRecord<'_>, Damaged> {
    let record = LogRecord::read(body)?;
    match &record {
        LogRecord::Put { spec, live, .. } => {
            read_whole(spec, |reader| get_spec(reader).map(drop))?;
            read_whole(live, |reader| get_live(reader).map(drop))?;
        }
        LogRecord::Live { live, .. } => read_whole(live, |reader| get_live(reader).map(drop))?,
        LogRecord::Side { key, value } => side::get_value(key, value).map(drop)?,
        LogRecord::Gone(_) | LogRecord::Meta(_) | LogRecord::Hole(_) | LogRecord::Closed => {}
    }
    Ok(record)
}

fn read_whole(
    bytes: &[u8],
    read: impl FnOnce(&mut ByteReader<'_>) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    let mut reader = ByteReader::new(bytes);
    read(&mut reader)?;
    if reader.rest().is_empty() { Ok(()) } else { Err(Damaged("trailing bytes")) }
}

impl Contents {
    /// Reads every record in use.
    pub(super) fn read(
        disk: &dyn Disk,
        files: &StoreFiles,
        chain: &CommitChain,
    ) -> Result<Self, Error> {
        let (mut contents, mut rows) = (Self::default(), Rows::new());
        for (segment, segment_file) in files.segments.range(files.oldest..) {
            let bytes = scan::read_all(&*segment_file.file).map_err(unavailable)?;
            let counted = chain.counted.get(segment).copied().unwrap_or_default();
            let mut gathered = HintBuilder::new(*segment);
            for frame in segment_file.frames.iter().take(counted) {
                gathered.begin_frame(frame.header);
                for (location, body) in records(&bytes, *segment, *frame) {
                    if let Err(damaged) = contents.record(&mut rows, location, body) {
                        contents.bad.push(BadRecord { location, frame: *frame, what: damaged.0 });
                    }
                    // A record that cannot be added is already in `bad`.
                    let _ = gathered.add_record(location, body);
                }
            }
            contents.meta = contents.meta.max_each(gathered.meta());
            let is_damaged = chain.gaps.iter().any(|gap| touches(gap, *segment));
            if !is_damaged {
                contents.compare_hint(disk, files, (*segment, segment_file), gathered)?;
            }
        }
        contents.count(files, &rows)?;
        Ok(contents)
    }

    fn record(
        &mut self,
        rows: &mut Rows,
        location: RecordLocation,
        body: &[u8],
    ) -> Result<(), Damaged> {
        let state = |live| get_live(&mut ByteReader::new(live)).map(|live| live.state);
        match check_record(body)? {
            LogRecord::Put { id, live, .. } => {
                rows.insert(id, Newest { location, base: location, state: state(live)? });
            }
            LogRecord::Live { id, base, live, .. } => {
                rows.insert(id, Newest { location, base, state: state(live)? });
            }
            LogRecord::Gone(id) => {
                rows.remove(&id);
            }
            LogRecord::Hole(hole) => self.holes.push((location, hole.commits)),
            LogRecord::Side { .. } | LogRecord::Meta(_) | LogRecord::Closed => {}
        }
        Ok(())
    }

    /// Compares a readable hint with its segment, because opening trusts it. An unreadable one may
    /// be left by a crash, and is rewritten.
    fn compare_hint(
        &mut self,
        disk: &dyn Disk,
        files: &StoreFiles,
        (segment, segment_file): (u32, &SegmentFile),
        gathered: HintBuilder,
    ) -> Result<(), Error> {
        let Some(bytes) = read_hint(disk, segment)? else { return Ok(()) };
        let (seed, goes_on) = (files.seed, files.segments.contains_key(&(segment + 1)));
        let is_read = Hint::read(&bytes, segment, seed).is_ok();
        // A hint is written only after the log has continued in the next segment.
        if is_read && (!goes_on || gathered.finish(seed, segment_file.end()) != bytes) {
            self.false_hints.push(segment);
        }
        Ok(())
    }

    /// Counts jobs, and finds those without a put record.
    fn count(&mut self, files: &StoreFiles, rows: &Rows) -> Result<(), Error> {
        let mut all: Vec<_> = rows.iter().map(|(id, newest)| (*id, *newest)).collect();
        all.sort_unstable_by_key(|(_, newest)| (newest.base.segment, newest.base.offset));
        for (id, Newest { location, base, state }) in all {
            if base != location && !is_put(files, id, base)? {
                self.orphans.push((id, location));
                continue;
            }
            *self.jobs.entry(state).or_default() += 1;
            self.live +=
                u64::from(location.len) + if base == location { 0 } else { base.len.into() };
        }
        self.orphans.sort_unstable_by_key(|(id, _)| *id);
        Ok(())
    }
}

/// Whether there is a put record of this job at this location.
fn is_put(files: &StoreFiles, id: JobId, location: RecordLocation) -> Result<bool, Error> {
    let segment_file =
        files.segments.get(&location.segment).filter(|_| location.segment >= files.oldest);
    let Some(segment_file) = segment_file else { return Ok(false) };
    if u64::from(location.offset) + u64::from(location.len) > segment_file.size {
        return Ok(false);
    }
    let mut bytes = vec![0; location.len as usize];
    segment_file.file.read(location.offset.into(), &mut bytes).map_err(unavailable)?;
    let put = frame::body(&bytes).and_then(check_record);
    Ok(matches!(put, Ok(LogRecord::Put { id: of, .. }) if of == id))
}
