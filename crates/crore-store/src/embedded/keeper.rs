//! The keeper: background work on the files, one step at a time.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::commit::{PanicGuard, with_causes};
use super::compact::Compaction;
use super::disk::OpenMode;
use super::inner::{EmbeddedInner, EmbeddedState, ThreadState};
use super::log::Log;
use super::log_files::{FreedFile, Segment};
use super::new_file::NewFileUse;
use super::recover::{hint_name, unavailable};
use super::scan;
use super::segment::{self, SegmentHead};
use crate::Error;
use crate::bug::planted;
use crate::local::{LocalIndex, SideKey};

/// Retry interval on a full disk when nothing else happens.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long the store must be idle before work that is not urgent is done.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// Number of full segments left without a hint while the store is busy: they may be released before
/// a hint is needed.
const MAX_WITHOUT_HINT: u32 = 6;

/// Pause of the keeper between parts of a long step, so that it does not compete with the committer
/// for a core.
const PAUSE: Duration = Duration::from_micros(200);

/// Whether the store is busy, so that work that is not urgent is postponed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreLoad {
    Busy,
    Idle,
}

/// State that only the keeper uses.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) compaction: Option<Compaction>,
    /// Why the oldest segment cannot be released.
    pub(crate) stuck: Option<String>,
}

impl EmbeddedInner {
    /// Does one step; returns whether there was any work.
    ///
    /// An error poisons the store before this returns, as an error of the committer does: a commit
    /// that begins after a disk error in the keeper is never acknowledged (I23).
    pub(crate) fn maintain_once(&self, load: StoreLoad) -> Result<bool, Error> {
        let mut keeper = self.keeper.lock().map_err(|_| Error::Poisoned)?;
        self.maintain(&mut keeper, load).inspect_err(|error| self.poison(&with_causes(error)))
    }

    fn maintain(&self, keeper: &mut Keeper, load: StoreLoad) -> Result<bool, Error> {
        if planted!("bug-37") && self.lock()?.full.is_some() {
            return Ok(false);
        }
        Ok(self.prepare_next()?
            || self.prepare_reserve(keeper)?
            || self.remove_released(load)?
            || self.compact(keeper, load)?
            || self.write_hint(load)?)
    }

    /// Pauses in the middle of a long step.
    #[expect(clippy::disallowed_methods, reason = "it yields the processor, and waits for nothing")]
    pub(crate) fn pause(&self, load: StoreLoad) {
        if load == StoreLoad::Busy {
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether the keeper may have work.
    pub(crate) fn has_keeper_work(&self, state: &EmbeddedState) -> bool {
        let log = state.local.records();
        let lacks = log.next.is_none() || log.reserve.is_none();
        let is_freed = !log.freed.is_empty() && (lacks || self.holds_too_much(state));
        lacks && state.full.is_none() || is_freed || self.has_waste(state)
    }

    /// Main loop of the keeper thread.
    pub(crate) fn run_keeper(&self) {
        let _guard = PanicGuard(self);
        let mut load = StoreLoad::Busy;
        loop {
            let Ok(did_work) = self.maintain_once(load) else { return };
            load = StoreLoad::Busy;
            let Ok(mut state) = self.lock() else { return };
            if state.stopping {
                return;
            }
            if !did_work {
                state.keeper = ThreadState::Idle;
                load = self.wait_for_keeper_work(state);
            }
        }
    }

    /// Sleeps until there may be work; returns whether there is time for work that is not urgent. A
    /// store without such work has no timer.
    fn wait_for_keeper_work(&self, state: MutexGuard<'_, EmbeddedState>) -> StoreLoad {
        let log = state.local.records();
        let mut full = log.segments.range(..log.pending.segment);
        let is_left = !log.freed.is_empty() || full.any(|(_, segment)| !segment.hinted);
        let span = match (&state.full, is_left) {
            (Some(_), _) => RETRY_AFTER,
            (None, true) => IDLE_AFTER,
            (None, false) => {
                drop(self.keeper_wakeup.wait(state));
                return StoreLoad::Busy;
            }
        };
        let commit = log.pending.commit;
        let waited = self.keeper_wakeup.wait_timeout(state, span);
        let (state, end) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_quiet = end.timed_out() && state.local.records().pending.commit == commit;
        if is_quiet { StoreLoad::Idle } else { StoreLoad::Busy }
    }

    /// Whether the last file is nearly full, or too full for an operation of `bytes` bytes, and a next
    /// one might still be made. Writing on would risk that the file cannot grow, which poisons the
    /// store.
    pub(crate) fn lacks_next(&self, state: &EmbeddedState, bytes: u64) -> bool {
        let log = state.local.records();
        let may_be = state.full.is_none() || self.has_reserve(log);
        // The first files are small, and a file that grew is large.
        let least = log.current_size().min(self.options.segment_bytes) / 8;
        log.next.is_none()
            && may_be
            && log.bytes_left() < bytes.clamp(least, self.max_slice_bytes().max(least))
    }

    /// Whether the reserve file is large enough for the next segment.
    fn has_reserve(&self, log: &Log) -> bool {
        let size = segment::size(u64::from(log.pending.segment) + 1, self.options.segment_bytes);
        log.reserve.as_ref().is_some_and(|reserve| reserve.size >= size)
    }

    /// Prepares the next segment on the calling thread instead of the keeper's, or finds that the
    /// disk is full.
    pub(crate) fn prepare_next_now(&self) -> Result<(), Error> {
        let _keeper = self.keeper.lock().map_err(|_| Error::Poisoned)?;
        self.prepare_next().map(drop)
    }

    /// Prepares the next segment, from a released file if there is one.
    fn prepare_next(&self) -> Result<bool, Error> {
        let (spare, head, name) = {
            let mut state = self.lock()?;
            let log = state.local.records_mut();
            if log.next.is_some() {
                return Ok(false);
            }
            let segment = u64::from(log.pending.segment) + 1;
            let size = segment::size(segment, self.options.segment_bytes);
            let fits = |reserve: &mut FreedFile| reserve.size >= size;
            let spare = self.take_spare(log, size).or_else(|| log.reserve.take_if(fits));
            let name = spare.as_ref().map_or(log.next_name, |spare| spare.name);
            if spare.is_none() {
                log.next_name += 1;
            }
            (spare, SegmentHead { segment, seed: log.seed, size }, name)
        };
        let made = self.clear_hints(spare.as_ref(), head).and_then(|()| match spare {
            Some(spare) => reuse(spare, head),
            None => self.make_segment(name, head, NewFileUse::Next),
        });
        match made {
            Ok(segment) => {
                self.lock()?.local.records_mut().next = Some(segment);
                Ok(true)
            }
            Err(error) => self.handle_create_error(name, error),
        }
    }

    /// Removes the hint of the file's old segment, and any of its new one, which exists only if
    /// that segment was there before and its file was lost.
    fn clear_hints(&self, spare: Option<&FreedFile>, head: SegmentHead) -> io::Result<()> {
        if let Some(spare) = spare {
            self.disk.remove(&hint_name(spare.segment))?;
        }
        self.disk.remove(&hint_name(u32::try_from(head.segment).unwrap_or(u32::MAX)))
    }

    /// Prepares the reserve file. If that fails, the disk is full.
    fn prepare_reserve(&self, keeper: &Keeper) -> Result<bool, Error> {
        let (spare, name, (size, seed)) = {
            let mut state = self.lock()?;
            let is_soon = self.frees_file_soon(&state, keeper);
            let log = state.local.records_mut();
            if log.reserve.is_some() || log.next.is_none() {
                return Ok(false);
            }
            let size =
                segment::size(u64::from(log.pending.segment) + 2, self.options.segment_bytes);
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
                let head = SegmentHead { segment: segment::SPARE, seed, size };
                let made = self.make_segment(name, head, NewFileUse::Reserve);
                made.map(|Segment { file, size, .. }| FreedFile {
                    commit: 0,
                    name,
                    segment: 0,
                    file,
                    size,
                })
            }
        };
        match made {
            Ok(file) => {
                let mut state = self.lock()?;
                state.full = None;
                state.local.records_mut().reserve = Some(file);
                Ok(true)
            }
            Err(error) => self.handle_create_error(name, error),
        }
    }

    /// Whether a file will be released while the last one still has much space: making one file and
    /// removing another would waste disk bandwidth.
    fn frees_file_soon(&self, state: &EmbeddedState, keeper: &Keeper) -> bool {
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let space = SpaceUsage::of(state);
        let has_waste = space.used > 2 * space.live + size / 2;
        let has_time = log.bytes_left() > size / 8;
        state.full.is_none() && keeper.stuck.is_none() && log.pins == 0 && has_waste && has_time
    }

    /// Handles a failure to make a file: a full disk is recorded, any other error poisons the
    /// store.
    fn handle_create_error(&self, name: u64, error: io::Error) -> Result<bool, Error> {
        if error.kind() != io::ErrorKind::StorageFull {
            self.poison(&format!("cannot create a log segment: {}", with_causes(&error)));
            return Err(unavailable(error));
        }
        // A partly made file would only take up space.
        let _ = self.disk.remove(&segment::name(name));
        self.lock()?.full = Some(error.to_string());
        Ok(false)
    }

    /// Takes a released file that is large enough and no longer needed by a crash recovery.
    fn take_spare(&self, log: &mut Log, size: u64) -> Option<FreedFile> {
        let synced = self.durable.synced();
        let settled = |freed: &FreedFile| freed.commit <= synced || planted!("bug-12");
        let fits = |freed: &FreedFile| settled(freed) && freed.size >= size;
        let nth = log.freed.iter().position(fits).filter(|_| log.pins == 0)?;
        log.freed.remove(nth)
    }

    /// Removes a released file and its hint if it is not needed or too short to be reused.
    fn remove_released(&self, load: StoreLoad) -> Result<bool, Error> {
        let freed = {
            let mut state = self.lock()?;
            if load == StoreLoad::Busy && state.full.is_none() && !self.holds_too_much(&state) {
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

    /// Writes the hint of a full segment that has none.
    fn write_hint(&self, load: StoreLoad) -> Result<bool, Error> {
        let later = if load == StoreLoad::Busy { MAX_WITHOUT_HINT } else { 0 };
        let (number, file, seed, end) = {
            let state = self.lock()?;
            let log = state.local.records();
            let synced = self.durable.synced();
            let mut full =
                log.segments.iter().filter(|(number, _)| **number + later < log.pending.segment);
            let Some((number, segment)) =
                full.find(|(_, segment)| !segment.hinted && segment.last <= synced)
            else {
                return Ok(false);
            };
            (*number, Arc::clone(&segment.file), log.seed, segment.end)
        };
        let written = match scan::hint(&*file, number, seed, end).map_err(unavailable)? {
            Some(hint) => self.put_hint(number, &hint),
            // The segment is damaged; the damage is reported, with its offset, when the segment is
            // read.
            None => Ok(()),
        };
        match written {
            Ok(()) => {}
            // A store without a hint only opens more slowly.
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
        // An existing file may be longer.
        self.disk.remove(&hint_name(number))?;
        let file = self.disk.open(&hint_name(number), OpenMode::Create)?;
        file.write(0, hint)?;
        file.sync()
    }

    /// Whether the files exceed their maximum size, approximately. Below it, released files are
    /// kept for reuse.
    fn holds_too_much(&self, state: &EmbeddedState) -> bool {
        let (space, size) = (SpaceUsage::of(state), self.options.segment_bytes);
        space.used + space.ready > 2 * space.live + 4 * size - size / 4
    }

    /// Whether the log is so much larger than its live data that the oldest segment is compacted.
    /// On a full disk, any waste is too much.
    pub(crate) fn has_waste(&self, state: &EmbeddedState) -> bool {
        let (log, size) = (state.local.records(), self.options.segment_bytes);
        let SpaceUsage { used, live, .. } = SpaceUsage::of(state);
        let is_scarce =
            state.full.is_some() && log.waste_bytes() > side_bytes(&state.local) + size / 8;
        // Jobs mostly end in push order, so waiting makes compaction cheaper; releasing an empty
        // segment costs nothing.
        let is_empty = log.bytes_to_move(log.oldest(), u64::MAX) == 0;
        log.segments.len() > 1 && (is_empty || used > 2 * live + size + size / 4 || is_scarce)
    }
}

/// Disk usage of the log, in bytes.
#[derive(Debug, Clone, Copy)]
struct SpaceUsage {
    /// Files in use.
    used: u64,
    /// Files ready to be used.
    ready: u64,
    /// Newest records.
    live: u64,
}

impl SpaceUsage {
    fn of(state: &EmbeddedState) -> Self {
        let log = state.local.records();
        let used = log.segments.values().map(|segment| segment.size).sum();
        let files = log.freed.iter().chain(&log.reserve).map(|freed| freed.size);
        let ready = files.chain(log.next.iter().map(|next| next.size)).sum();
        Self { used, ready, live: log.live + side_bytes(&state.local) }
    }
}

/// Approximate bytes of the newest side records.
pub(crate) fn side_bytes(local: &LocalIndex<Log>) -> u64 {
    let written: &[(u64, u64); SideKey::KINDS] = &local.records().side_written;
    let sizes = written.iter().zip(local.side_counts());
    sizes.map(|((bytes, n), count)| (bytes / (*n).max(1)).max(32) * count as u64).sum()
}

fn reuse(spare: FreedFile, head: SegmentHead) -> io::Result<Segment> {
    spare.file.write(0, &head.bytes())?;
    spare.file.sync()?;
    let FreedFile { name, file, size, .. } = spare;
    Ok(Segment::empty(name, file, size))
}
