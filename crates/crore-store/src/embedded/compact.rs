//! Compaction: moves the live records of the oldest segment to the end of the log, in slices.
//!
//! Only the oldest segment is compacted, so the record that a job is gone never disappears before
//! the record that it existed.

use std::sync::Arc;

use crore_core::JobId;

use super::codec::Damaged;
use super::disk::DiskFile;
use super::frame;
use super::hint::{Hint, HintBuilder, HintCursor, HintItem, HintJob, HintPosition};
use super::inner::{EmbeddedInner, EmbeddedState, WaitsForCommit};
use super::keeper::{Keeper, StoreLoad, side_bytes};
use super::log_files::FreedFile;
use super::record::{LogRecord, RecordLocation};
use super::recover::{corrupt, unavailable};
use super::replay::read_hint;
use super::scan::{self, RecordKind};
use crate::Error;
use crate::bug::planted;
use crate::local::{IndexPosition, RunSlot};

/// Minimum bytes per slice: hardly lengthens a commit.
const MIN_SLICE_BYTES: u64 = 64 << 10;
/// Maximum slice, as a fraction of a segment. Larger frames would leave much of each segment empty,
/// and compaction would never end.
const MIN_SLICES_PER_SEGMENT: u64 = 8;
/// Maximum records examined per slice.
const MAX_RECORDS_PER_SLICE: usize = 4096;

/// Bytes of a segment read between two pauses.
const PAUSE_AFTER: u64 = 256 << 10;

/// A segment being compacted.
#[derive(Debug)]
pub(crate) struct Compaction {
    segment: u32,
    hint: Vec<u8>,
    mark: HintPosition,
    /// The commit of the last slice; the next slice waits for it.
    commit: u64,
}

impl EmbeddedInner {
    /// Moves the next slice of the oldest segment if the log has too much waste.
    pub(crate) fn compact(&self, keeper: &mut Keeper, load: StoreLoad) -> Result<bool, Error> {
        if keeper.compaction.is_none() {
            keeper.compaction = match self.begin_compaction(keeper, load) {
                Err(Error::Corrupt { what }) => {
                    keeper.stuck = Some(what);
                    None
                }
                begun => begun?,
            };
        }
        let Some(compaction) = &mut keeper.compaction else { return Ok(false) };
        if !self.durable.has(compaction.commit) {
            return Ok(false);
        }
        let mut state = self.lock()?;
        let size = self.options.segment_bytes;
        let slice = state
            .slice_bytes(compaction.segment, size)
            .max(MIN_SLICE_BYTES)
            .min(size / MIN_SLICES_PER_SEGMENT);
        // A file that grows may find the disk full.
        let room = if state.full.is_some() { 2 * slice } else { slice + slice / 4 };
        let log = state.local.records_mut();
        if log.next.is_some() && !log.ensure_room(room) {
            // The pending commit is the last one in its file.
            self.wake_committer(&mut state, WaitsForCommit::Yes);
            drop(state);
            self.pause(load);
            return Ok(true);
        }
        // A new file that is too small for the slice.
        let left = log.bytes_left();
        let slice = if log.next.is_some() && left < room { slice.min(left / 2) } else { slice };
        let over = state.move_slice(compaction, slice);
        match over {
            Ok(false) => {}
            Ok(true) => {
                state.release_segment(compaction.segment);
                keeper.compaction = None;
            }
            Err(error) => {
                keeper.stuck = Some(error.to_string());
                keeper.compaction = None;
            }
        }
        state.append_touched();
        self.wake_committer(&mut state, WaitsForCommit::Yes);
        Ok(true)
    }

    fn begin_compaction(
        &self,
        keeper: &Keeper,
        load: StoreLoad,
    ) -> Result<Option<Compaction>, Error> {
        let (segment, (name, file, end), seed, is_empty) = {
            let state = self.lock()?;
            let log = state.local.records();
            let Some((number, oldest)) = log.segments.first_key_value() else { return Ok(None) };
            let settled = oldest.last <= self.durable.synced();
            if keeper.stuck.is_some() || !settled || !self.has_waste(&state) {
                return Ok(None);
            }
            // Moving only a part would use up space without freeing any.
            let to_move = log.bytes_to_move(*number, side_bytes(&state.local));
            if state.full.is_some() && log.usable(self.options.segment_bytes) < to_move {
                return Ok(None);
            }
            let is_empty = oldest.live == 0 && oldest.sides == 0;
            let file = (oldest.name, Arc::clone(&oldest.file), oldest.end);
            (*number, file, log.seed, is_empty)
        };
        if is_empty {
            // Nothing to move.
            let hint = HintBuilder::new(segment).finish(seed, 0);
            return Compaction::new(segment, seed, hint).map(Some);
        }
        let known = read_hint(&*self.disk, segment)?;
        let hint = match known.filter(|bytes| Hint::read(bytes, segment, seed).is_ok()) {
            Some(bytes) => bytes,
            None => {
                let gathered = self.gather_live(&*file, (segment, end), load)?;
                let gathered = gathered.map_err(|(at, damaged)| corrupt(name, at, damaged.0));
                gathered?.finish(seed, end)
            }
        };
        Compaction::new(segment, seed, hint).map(Some)
    }
}

impl EmbeddedInner {
    /// Collects the live records of a segment. Most records are superseded, so only live ones are
    /// decoded.
    fn gather_live(
        &self,
        file: &dyn DiskFile,
        (segment, end): (u32, u64),
        load: StoreLoad,
    ) -> Result<Result<HintBuilder, (u64, Damaged)>, Error> {
        let mut gathered = HintBuilder::new(segment);
        let mut pause_at = PAUSE_AFTER;
        let mut frames = scan::FrameReader::of(file, end);
        while let Some((at, frame)) = frames.next().map_err(unavailable)? {
            if at > pause_at {
                self.pause(load);
                pause_at = at + PAUSE_AFTER;
            }
            let locations = match scan::record_locations(frame, segment, at) {
                Ok(locations) => locations,
                Err(damaged) => return Ok(Err((at, damaged))),
            };
            for location in self.select_live(&locations)? {
                let start = (u64::from(location.offset) - at) as usize;
                let record = frame.get(start..start + location.len as usize).unwrap_or_default();
                let gathering =
                    frame::body(record).and_then(|body| gathered.add_record(location, body));
                if let Err(damaged) = gathering {
                    return Ok(Err((location.offset.into(), damaged)));
                }
            }
        }
        let rest = (end, Damaged("frame beyond the end of the segment"));
        Ok(if frames.is_whole() { Ok(gathered) } else { Err(rest) })
    }

    /// Selects the live ones of these records.
    fn select_live(
        &self,
        locations: &[(RecordLocation, RecordKind)],
    ) -> Result<Vec<RecordLocation>, Error> {
        let state = self.lock()?;
        let rows = &state.local.records().rows;
        let counts = |(location, kind): &&(RecordLocation, RecordKind)| match kind {
            RecordKind::Put(id) => rows.get(*id).is_some(),
            RecordKind::Live(id) => rows.get(*id).is_some_and(|row| row.location == *location),
            RecordKind::Side => true,
        };
        Ok(locations.iter().filter(counts).map(|(location, _)| *location).collect())
    }
}

impl Compaction {
    fn new(segment: u32, seed: u64, hint: Vec<u8>) -> Result<Self, Error> {
        let mark = Hint::read(&hint, segment, seed).and_then(|hint| HintCursor::begin(&hint));
        let mark = mark.map_err(|e| corrupt(0, 0, e.0))?.mark();
        Ok(Self { segment, hint, mark, commit: 0 })
    }
}

impl EmbeddedState {
    /// Bytes to move with each commit, so that a segment is released before half of another one is
    /// written.
    fn slice_bytes(&self, segment: u32, size: u64) -> u64 {
        let log = self.local.records();
        let last = log.in_flight.as_ref().map_or(0, |flight| flight.bytes.len() as u64);
        2 * last * log.bytes_to_move(segment, 0) / size
    }

    /// Moves the live records of the next part of a segment; returns whether it was the last part.
    fn move_slice(&mut self, compaction: &mut Compaction, max_bytes: u64) -> Result<bool, Error> {
        let Compaction { segment, hint, mark, commit } = compaction;
        let start = self.local.records().pending.len();
        let damaged = |e: Damaged| Error::Corrupt { what: e.0.to_owned() };
        let mut walk = HintCursor::resume(hint, *mark);
        let mut over = false;
        for _ in 0..MAX_RECORDS_PER_SLICE {
            if self.local.records().pending.len() > start + max_bytes {
                break;
            }
            if let Some(item) = walk.next_job().map_err(damaged)? {
                self.move_job(*segment, item)?;
            } else if let Some(body) = walk.next_side().map_err(damaged)? {
                self.move_side(body).map_err(damaged)?;
            } else {
                over = true;
                break;
            }
        }
        *mark = walk.mark();
        *commit = self.local.records().pending.commit;
        Ok(over)
    }

    fn move_job(&mut self, segment: u32, item: HintItem) -> Result<(), Error> {
        let HintItem { id, job: Some(job) } = item else { return Ok(()) };
        let log = self.local.records();
        // The hint mostly still has the newest record, which then need not be read again.
        let is_same = log.rows.get(id).is_some_and(|row| row.location == job.location);
        let known = is_same.then_some(Ok([job.location, job.base]));
        let Some(locations) = known.or_else(|| log.locations(id)) else { return Ok(()) };
        let moved = locations.and_then(|locations| {
            let counts = locations.iter().any(|location| location.segment == segment);
            let counts = counts && !(planted!("bug-13") && locations.first() != locations.last());
            if counts { self.local.records_mut().move_job(id) } else { Ok(()) }
        });
        match moved {
            Err(Error::Corrupt { what }) => self.mark_damaged(id, &job, &what),
            moved => moved,
        }
    }

    /// Replaces an unreadable job by a dead one with the reason.
    fn mark_damaged(&mut self, id: JobId, job: &HintJob, what: &str) -> Result<(), Error> {
        let log = self.local.records();
        let Some(row) = log.rows.get(id).copied().filter(|row| row.location == job.location) else {
            return Err(Error::Corrupt { what: what.to_owned() });
        };
        let position = IndexPosition {
            lane: row.lane(),
            state: job.state,
            broken: job.broken,
            priority: job.priority,
            slot: RunSlot { at: job.at, id },
            lease_until: job.lease_until,
            result_until: job.result_until,
            deadline: job.deadline,
        };
        self.local.mark_damaged(position, what, self.last_time)
    }

    fn move_side(&mut self, body: &[u8]) -> Result<(), Damaged> {
        if planted!("bug-14") {
            return Ok(());
        }
        if let LogRecord::Side { key, .. } = LogRecord::read(body)?
            && let Some(value) = self.local.side_value(&key)
        {
            self.local.records_mut().append_side(&key, Some(&value));
        }
        Ok(())
    }

    /// Releases a segment from the next commit on; its file can be reused when that commit is
    /// durable.
    fn release_segment(&mut self, number: u32) {
        let meta = self.local.meta();
        let log = self.local.records_mut();
        log.append_meta(meta);
        let commit = log.pending.commit;
        if let Some(segment) = log.segments.remove(&number) {
            let (name, file, size) = (segment.name, segment.file, segment.size);
            log.freed.push_back(FreedFile { commit, name, segment: number, file, size });
        }
    }
}
