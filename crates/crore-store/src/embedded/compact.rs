//! Giving up the oldest segment: what still counts in it moves to the end of the log, in slices.
//!
//! Only the oldest goes. So what says that a job is gone is never given up before what says that it
//! was there.

use std::sync::Arc;

use crore_core::JobId;

use super::codec::Damaged;
use super::disk::File;
use super::frame;
use super::hint::{Gather, Hint, Item, JobItem, Mark, Walk};
use super::inner::{Inner, State, Waits};
use super::keep::{Busy, Keeper, side_bytes};
use super::record::{Record, Spot};
use super::recover::{corrupt, unavailable};
use super::replay::read_hint;
use super::room::Freed;
use super::scan::{self, What};
use crate::Error;
use crate::bug::planted;
use crate::local::{Place, Slot};

/// How much is moved at a time at the least: as much as hardly makes a commit longer.
const SLICE: u64 = 64 << 10;
/// Of a segment, at most this part is moved at a time: frames that are large for their segment leave
/// much of it empty, so that giving segments up would never end.
const SLICES: u64 = 8;
/// How many things are looked at in a time.
const LOOKS: usize = 4096;

/// How much of a segment is looked through in one breath.
const BREATH_AFTER: u64 = 256 << 10;

/// A segment that is being given up.
#[derive(Debug)]
pub(crate) struct Compaction {
    segment: u32,
    hint: Vec<u8>,
    mark: Mark,
    /// The commit that the last slice is part of; the next one waits for it.
    commit: u64,
}

impl Inner {
    /// Moves the next slice of the oldest segment, if the log is too large for what is in it.
    pub(crate) fn compact(&self, keeper: &mut Keeper, how: Busy) -> Result<bool, Error> {
        if keeper.compaction.is_none() {
            keeper.compaction = match self.begin_compaction(keeper, how) {
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
        let slice = state.pace(compaction.segment, size).max(SLICE).min(size / SLICES);
        // A file that grows may find that the disk is full.
        let room = if state.full.is_some() { 2 * slice } else { slice + slice / 4 };
        let log = state.local.records_mut();
        if log.next.is_some() && !log.make_way(room) {
            // The commit that is being gathered is the last one in its file.
            self.tell_committer(&mut state, Waits::Yes);
            drop(state);
            self.breathe(how);
            return Ok(true);
        }
        let over = state.move_slice(compaction, slice);
        match over {
            Ok(false) => {}
            Ok(true) => {
                state.give_up(compaction.segment);
                keeper.compaction = None;
            }
            Err(error) => {
                keeper.stuck = Some(error.to_string());
                keeper.compaction = None;
            }
        }
        state.write_sides();
        self.tell_committer(&mut state, Waits::Yes);
        Ok(true)
    }

    fn begin_compaction(&self, keeper: &Keeper, how: Busy) -> Result<Option<Compaction>, Error> {
        let (segment, (name, file, end), seed, is_empty) = {
            let state = self.lock()?;
            let log = state.local.records();
            let Some((number, oldest)) = log.segments.first_key_value() else { return Ok(None) };
            let settled = oldest.last <= self.durable.synced();
            if keeper.stuck.is_some() || !settled || !self.has_waste(&state) {
                return Ok(None);
            }
            // Half of it moved would only use up room.
            let to_move = log.to_move(*number, side_bytes(&state.local));
            if state.full.is_some() && log.usable(self.options.segment_bytes) < to_move {
                return Ok(None);
            }
            let is_empty = oldest.live == 0 && oldest.sides == 0;
            let file = (oldest.name, Arc::clone(&oldest.file), oldest.end);
            (*number, file, log.seed, is_empty)
        };
        if is_empty {
            // There is nothing to look for.
            let hint = Gather::new(segment).finish(seed, 0);
            return Compaction::new(segment, seed, hint).map(Some);
        }
        let known = read_hint(&*self.disk, segment)?;
        let hint = match known.filter(|bytes| Hint::read(bytes, segment, seed).is_ok()) {
            Some(bytes) => bytes,
            None => {
                let gathered = self.gather_live(&*file, (segment, end), how)?;
                let gathered = gathered.map_err(|(at, damaged)| corrupt(name, at, damaged.0));
                gathered?.finish(seed, end)
            }
        };
        Compaction::new(segment, seed, hint).map(Some)
    }
}

impl Inner {
    /// What still counts of a segment. Most of what is in it does not, so only what does is looked
    /// at closely.
    fn gather_live(
        &self,
        file: &dyn File,
        (segment, end): (u32, u64),
        how: Busy,
    ) -> Result<Result<Gather, (u64, Damaged)>, Error> {
        let mut gathered = Gather::new(segment);
        let mut breath_at = BREATH_AFTER;
        let mut frames = scan::Frames::of(file, end);
        while let Some((at, frame)) = frames.next().map_err(unavailable)? {
            if at > breath_at {
                self.breathe(how);
                breath_at = at + BREATH_AFTER;
            }
            let places = match scan::places(frame, segment, at) {
                Ok(places) => places,
                Err(damaged) => return Ok(Err((at, damaged))),
            };
            for spot in self.counting(&places)? {
                let start = (u64::from(spot.offset) - at) as usize;
                let record = frame.get(start..start + spot.len as usize).unwrap_or_default();
                let gathering = frame::body(record).and_then(|body| gathered.record(spot, body));
                if let Err(damaged) = gathering {
                    return Ok(Err((spot.offset.into(), damaged)));
                }
            }
        }
        let rest = (end, Damaged("frames that do not end"));
        Ok(if frames.is_whole() { Ok(gathered) } else { Err(rest) })
    }

    /// Those of these records that still count.
    fn counting(&self, places: &[(Spot, What)]) -> Result<Vec<Spot>, Error> {
        let state = self.lock()?;
        let rows = &state.local.records().rows;
        let counts = |(spot, what): &&(Spot, What)| match what {
            What::Put(id) => rows.get(*id).is_some(),
            What::Live(id) => rows.get(*id).is_some_and(|row| row.spot == *spot),
            What::Side => true,
        };
        Ok(places.iter().filter(counts).map(|(spot, _)| *spot).collect())
    }
}

impl Compaction {
    fn new(segment: u32, seed: u64, hint: Vec<u8>) -> Result<Self, Error> {
        let mark = Hint::read(&hint, segment, seed).and_then(|hint| Walk::begin(&hint));
        let mark = mark.map_err(|e| corrupt(0, 0, e.0))?.mark();
        Ok(Self { segment, hint, mark, commit: 0 })
    }
}

impl State {
    /// How much has to be moved with each commit, so that a segment is given up before half of
    /// another one is written.
    fn pace(&self, segment: u32, size: u64) -> u64 {
        let log = self.local.records();
        let last = log.flight.as_ref().map_or(0, |flight| flight.bytes.len() as u64);
        2 * last * log.to_move(segment, 0) / size
    }

    /// Moves what counts of the next part of a segment; says whether that was the last.
    fn move_slice(&mut self, compaction: &mut Compaction, most: u64) -> Result<bool, Error> {
        let Compaction { segment, hint, mark, commit } = compaction;
        let start = self.local.records().tail.len();
        let damaged = |e: Damaged| Error::Corrupt { what: e.0.to_owned() };
        let mut walk = Walk::resume(hint, *mark);
        let mut over = false;
        for _ in 0..LOOKS {
            if self.local.records().tail.len() > start + most {
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
        *commit = self.local.records().tail.commit;
        Ok(over)
    }

    fn move_job(&mut self, segment: u32, item: Item) -> Result<(), Error> {
        let Item { id, job: Some(job) } = item else { return Ok(()) };
        let log = self.local.records();
        // What was said of it here is mostly still so, and then it need not be read twice.
        let is_same = log.rows.get(id).is_some_and(|row| row.spot == job.spot);
        let known = is_same.then_some(Ok([job.spot, job.base]));
        let Some(spots) = known.or_else(|| log.spots(id)) else { return Ok(()) };
        let moved = spots.and_then(|spots| {
            let counts = spots.iter().any(|spot| spot.segment == segment);
            let counts = counts && !(planted!("bug-13") && spots.first() != spots.last());
            if counts { self.local.records_mut().move_job(id) } else { Ok(()) }
        });
        match moved {
            Err(Error::Corrupt { what }) => self.condemn(id, &job, &what),
            moved => moved,
        }
    }

    /// A job that cannot be read any more is dead, and says why.
    fn condemn(&mut self, id: JobId, job: &JobItem, what: &str) -> Result<(), Error> {
        let log = self.local.records();
        let Some(row) = log.rows.get(id).copied().filter(|row| row.spot == job.spot) else {
            return Err(Error::Corrupt { what: what.to_owned() });
        };
        let place = Place {
            lane: row.lane(),
            state: job.state,
            broken: job.broken,
            priority: job.priority,
            slot: Slot { at: job.at, id },
            lease_until: job.lease_until,
            result_until: job.result_until,
        };
        self.local.condemn(place, what, self.last)
    }

    fn move_side(&mut self, body: &[u8]) -> Result<(), Damaged> {
        if planted!("bug-14") {
            return Ok(());
        }
        if let Record::Side { key, .. } = Record::read(body)?
            && let Some(value) = self.local.side(&key)
        {
            self.local.records_mut().append_side(&key, Some(&value));
        }
        Ok(())
    }

    /// From the next commit on, a segment counts no more; its file can be used when that is durable.
    fn give_up(&mut self, number: u32) {
        let meta = self.local.meta();
        let log = self.local.records_mut();
        log.append_meta(meta);
        let commit = log.tail.commit;
        if let Some(segment) = log.segments.remove(&number) {
            let (name, file, size) = (segment.name, segment.file, segment.size);
            log.freed.push_back(Freed { commit, name, segment: number, file, size });
        }
    }
}
