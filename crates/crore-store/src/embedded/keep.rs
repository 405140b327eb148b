//! The keeper: what nobody waits for, one piece at a time.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use super::compact::Compaction;
use super::disk::Open;
use super::inner::{Inner, State};
use super::log::{Freed, Log, Segment};
use super::recover::{hint_name, make_segment, unavailable};
use super::scan;
use super::segment::{self, HEAD, Head};
use crate::Error;
use crate::local::{Key, Local};

/// How often a full disk is tried again when nothing else happens.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What only the keeper knows.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) compaction: Option<Compaction>,
    /// Why the oldest segment cannot be given up.
    pub(crate) stuck: Option<String>,
}

impl Inner {
    /// Does one piece of work; says whether there was any.
    pub(crate) fn keep_once(&self) -> Result<bool, Error> {
        let mut keeper = self.keeper.lock().map_err(|_| Error::Poisoned)?;
        Ok(self.make_ready()?
            || self.give_back()?
            || self.write_hint()?
            || self.compact(&mut keeper)?)
    }

    /// Whether the keeper may have something to do.
    pub(crate) fn has_keeping(&self, state: &State) -> bool {
        let log = state.local.records();
        log.next.is_none() || !log.freed.is_empty() || self.has_waste(&state.local)
    }

    /// The keeper's thread.
    pub(crate) fn keep_until_stopped(&self) {
        while let Ok(did) = self.keep_once() {
            let Ok(state) = self.lock() else { return };
            if state.stopping {
                return;
            }
            if !did {
                let waited = self.to_keep.wait_timeout(state, TRY_AGAIN_AFTER);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
        self.poison();
    }

    /// Makes the next segment ready, from a file that is not needed any more if there is one.
    fn make_ready(&self) -> Result<bool, Error> {
        let (spare, head, name) = {
            let mut state = self.lock()?;
            let log = state.local.records_mut();
            if log.next.is_some() {
                return Ok(false);
            }
            let spare = self.take_spare(log);
            let name = spare.as_ref().map_or(log.next_name, |spare| spare.name);
            if spare.is_none() {
                log.next_name += 1;
            }
            let segment = u64::from(log.tail.segment) + 1;
            let head = Head { segment, seed: log.seed, size: self.options.segment_bytes };
            (spare, head, name)
        };
        let made = match spare {
            Some(spare) => self.reuse(spare, head),
            None => make_segment(&*self.disk, name, head),
        };
        match made {
            Ok(segment) => {
                let mut state = self.lock()?;
                state.full = None;
                state.local.records_mut().next = Some(segment);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                // What was made of it would only take up room.
                let _ = self.disk.remove(&segment::name(name));
                self.lock()?.full = Some(error.to_string());
                Ok(false)
            }
            Err(error) => {
                self.poison();
                Err(unavailable(error))
            }
        }
    }

    /// Makes a segment of a file that holds nothing any more; the hint of what it held goes.
    fn reuse(&self, spare: Freed, head: Head) -> io::Result<Segment> {
        self.disk.remove(&hint_name(spare.segment))?;
        spare.file.write(0, &head.bytes())?;
        spare.file.sync()?;
        let Freed { name, file, size, .. } = spare;
        Ok(Segment { name, file, size, end: HEAD as u64, live: 0, last: 0, hinted: false })
    }

    /// A file that holds nothing any more, of the right size.
    fn take_spare(&self, log: &mut Log) -> Option<Freed> {
        let (synced, size) = (self.durable.synced(), self.options.segment_bytes);
        let fits = |freed: &Freed| freed.commit <= synced && freed.size == size;
        let nth = log.freed.iter().position(fits).filter(|_| log.pins == 0)?;
        log.freed.remove(nth)
    }

    /// Gives a file back to the file system, and removes the hint of what it held.
    fn give_back(&self) -> Result<bool, Error> {
        let freed = {
            let mut state = self.lock()?;
            let (synced, log) = (self.durable.synced(), state.local.records_mut());
            let over = log.freed.front().is_some_and(|freed| freed.commit <= synced);
            if !over || log.pins > 0 || log.next.is_none() {
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
    fn write_hint(&self) -> Result<bool, Error> {
        let (number, file, seed) = {
            let state = self.lock()?;
            let log = state.local.records();
            let synced = self.durable.synced();
            let full = log.segments.iter().filter(|(number, _)| **number < log.tail.segment);
            let Some((number, segment)) =
                full.filter(|(_, segment)| !segment.hinted && segment.last <= synced).next()
            else {
                return Ok(false);
            };
            (*number, std::sync::Arc::clone(&segment.file), log.seed)
        };
        let hint = scan::read_all(&*file).map(|bytes| scan::scan(&bytes, number, seed));
        let hint = hint.map_err(unavailable)?.map(|scan| scan.gathered.finish(seed, scan.end));
        let written = match hint {
            Ok(hint) => self.put_hint(number, &hint),
            // The segment is damaged; it is found out again, with its place, when it is needed.
            Err(_) => Ok(()),
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

    /// Whether the log is so much larger than what is in it that its oldest segment is to go.
    pub(crate) fn has_waste(&self, local: &Local<Log>) -> bool {
        let log = local.records();
        let used: u64 = log.segments.values().map(|segment| segment.size).sum();
        let live = log.live + side_bytes(local);
        log.segments.len() > 1 && used > 2 * live + self.options.segment_bytes
    }
}

/// About how many bytes the newest records of things besides jobs take.
fn side_bytes(local: &Local<Log>) -> u64 {
    let written: &[(u64, u64); Key::SORTS] = &local.records().side_written;
    let sizes = written.iter().zip(local.side_counts());
    sizes.map(|((bytes, n), count)| (bytes / (*n).max(1)).max(32) * count as u64).sum()
}
