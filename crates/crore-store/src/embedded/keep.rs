//! The keeper: what nobody waits for, one piece at a time.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::commit::{Fuse, whole};
use super::compact::Compaction;
use super::disk::Open;
use super::inner::{Inner, Sleep, State};
use super::log::Log;
use super::recover::{hint_name, make_segment, unavailable};
use super::room::{Freed, Segment};
use super::scan;
use super::segment::{self, HEAD, Head};
use crate::Error;
use crate::bug::planted;
use crate::local::{Key, Local};

/// How often a full disk is tried again when nothing else happens.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long nothing is committed before what is not urgent is done: not in every short pause.
const AT_LEISURE_AFTER: Duration = Duration::from_secs(10);

/// How many full segments are left without a hint while there is much to do: they may be given up
/// before anybody needs one.
const WITHOUT_HINT: u32 = 6;

/// How long the keeper leaves the processor alone between two parts of something long: whoever waits
/// for a commit is not to wait for the keeper's share of a core as well.
const BREATH: Duration = Duration::from_micros(200);

/// Whether there is so much to do that what is not urgent is left for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    Yes,
    No,
}

/// What only the keeper knows.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) compaction: Option<Compaction>,
    /// Why the oldest segment cannot be given up.
    pub(crate) stuck: Option<String>,
}

impl Inner {
    /// Does one piece of work; says whether there was any.
    ///
    /// An error ends the store before this returns, as an error of the committer does: no commit that
    /// begins after the disk has failed the keeper is acknowledged (I23).
    pub(crate) fn keep_once(&self, how: Busy) -> Result<bool, Error> {
        let mut keeper = self.keeper.lock().map_err(|_| Error::Poisoned)?;
        self.keep(&mut keeper, how).inspect_err(|error| self.poison(&whole(error)))
    }

    fn keep(&self, keeper: &mut Keeper, how: Busy) -> Result<bool, Error> {
        if planted!("bug-37") && self.lock()?.full.is_some() {
            return Ok(false);
        }
        Ok(self.make_ready()?
            || self.make_reserve(keeper)?
            || self.give_back(how)?
            || self.compact(keeper, how)?
            || self.write_hint(how)?)
    }

    /// Lets others go first, in the middle of something long.
    #[expect(clippy::disallowed_methods, reason = "it waits for nothing but that others go first")]
    pub(crate) fn breathe(&self, how: Busy) {
        if how == Busy::Yes {
            std::thread::sleep(BREATH);
        }
    }

    /// Whether the keeper may have something to do.
    pub(crate) fn has_keeping(&self, state: &State) -> bool {
        let log = state.local.records();
        let lacks = log.next.is_none() || log.reserve.is_none();
        let is_freed = !log.freed.is_empty() && (lacks || self.holds_too_much(state));
        lacks && state.full.is_none() || is_freed || self.has_waste(state)
    }

    /// The keeper's thread.
    pub(crate) fn keep_until_stopped(&self) {
        let _fuse = Fuse(self);
        let mut how = Busy::Yes;
        loop {
            let Ok(did) = self.keep_once(how) else { return };
            how = Busy::Yes;
            let Ok(mut state) = self.lock() else { return };
            if state.stopping {
                return;
            }
            if !did {
                state.keeper = Sleep::Idle;
                how = self.sleep_until_kept(state);
            }
        }
    }

    /// Sleeps until there may be something to do, and says whether there is time for what is not
    /// urgent. A store with nothing of that has no timer.
    fn sleep_until_kept(&self, state: MutexGuard<'_, State>) -> Busy {
        let log = state.local.records();
        let mut full = log.segments.range(..log.tail.segment);
        let is_left = !log.freed.is_empty() || full.any(|(_, segment)| !segment.hinted);
        let span = match (&state.full, is_left) {
            (Some(_), _) => TRY_AGAIN_AFTER,
            (None, true) => AT_LEISURE_AFTER,
            (None, false) => {
                drop(self.to_keep.wait(state));
                return Busy::Yes;
            }
        };
        let commit = log.tail.commit;
        let waited = self.to_keep.wait_timeout(state, span);
        let (state, end) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_quiet = end.timed_out() && state.local.records().tail.commit == commit;
        if is_quiet { Busy::No } else { Busy::Yes }
    }

    /// Whether the last file is nearly full, and it is open whether there can be another one. Whoever
    /// writes on may find that this one cannot grow, and that would be the end.
    pub(crate) fn lacks_next(&self, state: &State) -> bool {
        let log = state.local.records();
        let may_be = state.full.is_none() || self.has_reserve(log);
        log.next.is_none() && may_be && log.rest() < self.options.segment_bytes / 8
    }

    /// Whether the next segment can be made of the file that is kept for that.
    fn has_reserve(&self, log: &Log) -> bool {
        let size = segment::size(u64::from(log.tail.segment) + 1, self.options.segment_bytes);
        log.reserve.as_ref().is_some_and(|reserve| reserve.size >= size)
    }

    /// Does what the keeper has not come to: makes the next segment, or finds that the disk is full.
    pub(crate) fn make_next(&self) -> Result<(), Error> {
        let _keeper = self.keeper.lock().map_err(|_| Error::Poisoned)?;
        self.make_ready().map(drop)
    }

    /// Makes the next segment ready, from a file that is not needed any more if there is one.
    fn make_ready(&self) -> Result<bool, Error> {
        let (spare, head, name) = {
            let mut state = self.lock()?;
            let log = state.local.records_mut();
            if log.next.is_some() {
                return Ok(false);
            }
            let segment = u64::from(log.tail.segment) + 1;
            let size = segment::size(segment, self.options.segment_bytes);
            let fits = |reserve: &mut Freed| reserve.size >= size;
            let spare = self.take_spare(log, size).or_else(|| log.reserve.take_if(fits));
            let name = spare.as_ref().map_or(log.next_name, |spare| spare.name);
            if spare.is_none() {
                log.next_name += 1;
            }
            (spare, Head { segment, seed: log.seed, size }, name)
        };
        let made = self.clear_hints(spare.as_ref(), head).and_then(|()| match spare {
            Some(spare) => reuse(spare, head),
            None => make_segment(&*self.disk, name, head),
        });
        match made {
            Ok(segment) => {
                self.lock()?.local.records_mut().next = Some(segment);
                Ok(true)
            }
            Err(error) => self.not_made(name, error),
        }
    }

    /// Removes the hint of what a file held, and any of what it is to hold: there is one only if that
    /// segment was there before, and its file was lost.
    fn clear_hints(&self, spare: Option<&Freed>, head: Head) -> io::Result<()> {
        if let Some(spare) = spare {
            self.disk.remove(&hint_name(spare.segment))?;
        }
        self.disk.remove(&hint_name(u32::try_from(head.segment).unwrap_or(u32::MAX)))
    }

    /// Keeps a file for the day when the disk is full. That day has come if there can be none.
    fn make_reserve(&self, keeper: &Keeper) -> Result<bool, Error> {
        let (spare, name, (size, seed)) = {
            let mut state = self.lock()?;
            let is_soon = self.is_one_freed_soon(&state, keeper);
            let log = state.local.records_mut();
            if log.reserve.is_some() || log.next.is_none() {
                return Ok(false);
            }
            let size = segment::size(u64::from(log.tail.segment) + 2, self.options.segment_bytes);
            let spare = self.take_spare(log, size);
            if spare.is_none() && is_soon {
                return Ok(false);
            }
            log.next_name += u64::from(spare.is_none());
            (spare, log.next_name.saturating_sub(1), (size, log.seed))
        };
        let made = match spare {
            Some(spare) => Ok(spare),
            None => {
                let head = Head { segment: segment::SPARE, seed, size };
                let made = make_segment(&*self.disk, name, head);
                made.map(|Segment { file, .. }| Freed { commit: 0, name, segment: 0, file, size })
            }
        };
        match made {
            Ok(file) => {
                let mut state = self.lock()?;
                state.full = None;
                state.local.records_mut().reserve = Some(file);
                Ok(true)
            }
            Err(error) => self.not_made(name, error),
        }
    }

    /// Whether a file will be freed while there is much room in the last one: to make one and to give
    /// another one back would keep the disk busy for nothing.
    fn is_one_freed_soon(&self, state: &State, keeper: &Keeper) -> bool {
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let space = Space::of(state);
        let has_waste = space.used > 2 * space.live + size / 2;
        let has_time = log.rest() > size / 8;
        state.full.is_none() && keeper.stuck.is_none() && log.pins == 0 && has_waste && has_time
    }

    /// A file could not be made: because the disk is full, or that is the end.
    fn not_made(&self, name: u64, error: io::Error) -> Result<bool, Error> {
        if error.kind() != io::ErrorKind::StorageFull {
            self.poison(&format!("a new file of the log cannot be made: {}", whole(&error)));
            return Err(unavailable(error));
        }
        // What was made of it would only take up room.
        let _ = self.disk.remove(&segment::name(name));
        self.lock()?.full = Some(error.to_string());
        Ok(false)
    }

    /// A file that holds nothing any more, and is as large as it has to be.
    fn take_spare(&self, log: &mut Log, size: u64) -> Option<Freed> {
        let synced = self.durable.synced();
        let settled = |freed: &Freed| freed.commit <= synced || planted!("bug-12");
        let fits = |freed: &Freed| settled(freed) && freed.size >= size;
        let nth = log.freed.iter().position(fits).filter(|_| log.pins == 0)?;
        log.freed.remove(nth)
    }

    /// Gives a file back to the file system, and removes the hint of what it held: if it is not needed,
    /// or too short to be used again.
    fn give_back(&self, how: Busy) -> Result<bool, Error> {
        let freed = {
            let mut state = self.lock()?;
            if how == Busy::Yes && state.full.is_none() && !self.holds_too_much(&state) {
                return Ok(false);
            }
            let (synced, log) = (self.durable.synced(), state.local.records_mut());
            let over = log.freed.front().is_some_and(|freed| freed.commit <= synced);
            if !over || log.pins > 0 {
                return Ok(false);
            }
            log.freed.pop_front()
        };
        let Some(freed) = freed else { return Ok(false) };
        self.disk.remove(&segment::name(freed.name)).map_err(unavailable)?;
        self.disk.remove(&hint_name(freed.segment)).map_err(unavailable)?;
        Ok(true)
    }

    /// Writes the hint of a segment that is full and has none.
    fn write_hint(&self, how: Busy) -> Result<bool, Error> {
        let later = if how == Busy::Yes { WITHOUT_HINT } else { 0 };
        let (number, file, seed, end) = {
            let state = self.lock()?;
            let log = state.local.records();
            let synced = self.durable.synced();
            let mut full =
                log.segments.iter().filter(|(number, _)| **number + later < log.tail.segment);
            let Some((number, segment)) =
                full.find(|(_, segment)| !segment.hinted && segment.last <= synced)
            else {
                return Ok(false);
            };
            (*number, Arc::clone(&segment.file), log.seed, segment.end)
        };
        let written = match scan::hint(&*file, number, seed, end).map_err(unavailable)? {
            Some(hint) => self.put_hint(number, &hint),
            // The segment is damaged; it is found out again, with its place, when it is needed.
            None => Ok(()),
        };
        match written {
            Ok(()) => {}
            // A store without a hint opens more slowly, and that is all.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let _ = self.disk.remove(&hint_name(number));
            }
            Err(error) => return Err(unavailable(error)),
        }
        let mut state = self.lock()?;
        if let Some(segment) = state.local.records_mut().segments.get_mut(&number) {
            segment.hinted = true;
        }
        Ok(true)
    }

    fn put_hint(&self, number: u32, hint: &[u8]) -> io::Result<()> {
        // What was there may be longer.
        self.disk.remove(&hint_name(number))?;
        let file = self.disk.open(&hint_name(number), Open::Create)?;
        file.write(0, hint)?;
        file.sync()
    }

    /// Whether there are more files than there may be, near enough. Up to there one that is not needed
    /// now is kept for later.
    fn holds_too_much(&self, state: &State) -> bool {
        let (space, size) = (Space::of(state), self.options.segment_bytes);
        space.used + space.ready > 2 * space.live + 4 * size - size / 4
    }

    /// Whether the log is so much larger than what is in it that its oldest segment is to go.
    /// On a full disk any of it is too much.
    pub(crate) fn has_waste(&self, state: &State) -> bool {
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let Space { used, live, .. } = Space::of(state);
        let is_scarce = state.full.is_some() && log.dead() > side_bytes(&state.local) + size / 8;
        // Jobs mostly go in the order in which they came: what is to be moved gets less by itself,
        // and to give up what is empty costs nothing.
        let is_empty = log.to_move(log.oldest(), u64::MAX) == 0;
        log.segments.len() > 1 && (is_empty || used > 2 * live + size + size / 4 || is_scarce)
    }
}

/// How the files of the log are used, in bytes.
#[derive(Debug, Clone, Copy)]
struct Space {
    /// Files with something in them.
    used: u64,
    /// Files that are ready to be used.
    ready: u64,
    /// Newest records.
    live: u64,
}

impl Space {
    fn of(state: &State) -> Self {
        let log = state.local.records();
        let used = log.segments.values().map(|segment| segment.size).sum();
        let files = log.freed.iter().chain(&log.reserve).map(|freed| freed.size);
        let ready = files.chain(log.next.iter().map(|next| next.size)).sum();
        Self { used, ready, live: log.live + side_bytes(&state.local) }
    }
}

/// About how many bytes the newest records of things besides jobs take.
pub(crate) fn side_bytes(local: &Local<Log>) -> u64 {
    let written: &[(u64, u64); Key::SORTS] = &local.records().side_written;
    let sizes = written.iter().zip(local.side_counts());
    sizes.map(|((bytes, n), count)| (bytes / (*n).max(1)).max(32) * count as u64).sum()
}

fn reuse(spare: Freed, head: Head) -> io::Result<Segment> {
    spare.file.write(0, &head.bytes())?;
    spare.file.sync()?;
    let Freed { name, file, size, .. } = spare;
    Ok(Segment { name, file, size, end: HEAD as u64, live: 0, sides: 0, last: 0, hinted: false })
}
