//! A deterministic disk that loses and tears writes, fails and fills up on request.
//!
//! The disk guarantees what [`Disk`] guarantees and no more: synced bytes survive a power cut, and of the others
//! any sector of any write may survive. Bytes that are not being written are never damaged.

mod crash;
mod fault;
mod inode;
mod random;
mod state;

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crore_store::embedded::disk::error::{self, failed};
use crore_store::embedded::disk::{Disk, DiskFile, OpenMode, bytes, name};

use crash::PowerCutStyle;
pub use fault::{DiskCall, DiskError, DiskFault, Recurrence};
use inode::Inode;
use random::Random;
use state::{CallOutcome, SharedInode, SimDiskState, lock, power_off_error};

/// A simulated disk. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<SimDiskState>>,
}

impl SimDisk {
    /// An empty disk. The seed determines the order of lists, how much of a failed write was written, and
    /// which unsynced writes survive a failed sync.
    pub fn new(seed: u64) -> Self {
        Self::from_image(BTreeMap::new(), seed)
    }

    /// A disk with these files, all of them durable.
    pub fn from_image(image: BTreeMap<String, Vec<u8>>, seed: u64) -> Self {
        let file = |content| Arc::new(Mutex::new(Inode::from_content(Arc::new(content))));
        let files = image.into_iter().map(|(name, content)| (name, file(content))).collect();
        Self::over(SimDiskState::new(files, Random::new(seed), u64::MAX))
    }

    /// The current contents, whether the machine is on or off. Does not count as a call.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |file: &SharedInode| lock(file).current.to_vec();
        self.state().files.iter().map(|(name, file)| (name.clone(), content(file))).collect()
    }

    /// The disk after a power cut; this disk is off from then on.
    ///
    /// The seed determines the damage: of the unsynced writes all may be lost, all may survive, or any part
    /// of them. Another call with another seed gives another outcome of the same cut. The new disk has the
    /// same capacity, no faults, and counts calls from zero.
    pub fn crash(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let style = PowerCutStyle::draw(&mut random);
        self.cut(style, random)
    }

    /// Like [`SimDisk::crash`], but many of the unsynced sectors are torn.
    pub fn tear(&self, seed: u64) -> Self {
        self.cut(PowerCutStyle::Torn, Random::new(seed))
    }

    fn cut(&self, style: PowerCutStyle, random: Random) -> Self {
        let mut state = self.state();
        state.off = true;
        Self::over(state.cut(style, random))
    }

    /// The disk after the process is killed: nothing is lost, and unsynced writes stay unsynced. This disk is
    /// off from then on. The new one has the same capacity, no faults, and counts calls from zero.
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.off = true;
        Self::over(state.killed())
    }

    /// The machine loses power during the `n`-th call, counted as by [`SimDisk::calls`]: this and every later
    /// call fail. A write, creation or removal in flight may have happened, as [`SimDisk::crash`] decides.
    pub fn crash_at(&self, n: u64) {
        self.state().crash_at = Some(n);
    }

    /// Adds a fault.
    pub fn fail(&self, fault: DiskFault) {
        self.state().faults.add(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Limits the total size of all files to this many bytes; `u64::MAX` is unlimited. A write beyond the
    /// limit writes a prefix and fails with `StorageFull`.
    pub fn capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Number of calls, including failed ones.
    pub fn calls(&self) -> u64 {
        self.count(DiskCall::Any)
    }

    /// Number of calls of one kind.
    pub fn count(&self, call: DiskCall) -> u64 {
        self.state().counts.of(call)
    }

    fn over(state: SimDiskState) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, SimDiskState> {
        lock(&self.state)
    }
}

impl Debug for SimDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDisk").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        match state.call(DiskCall::List)? {
            CallOutcome::Succeeds => {}
            CallOutcome::Fails(failure) => return Err(failed("list", "the disk", failure.error())),
            CallOutcome::PowerLost => return Err(power_off_error()),
        }
        let mut rest: Vec<String> = state.files.keys().cloned().collect();
        let mut names = Vec::with_capacity(rest.len());
        while let Some(last) = rest.len().checked_sub(1) {
            names.push(rest.swap_remove(state.random.up_to(last)));
        }
        Ok(names)
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        name::check(name)?;
        let mut state = self.state();
        let outcome = state.call(DiskCall::Open)?;
        let existing = state.files.get(name).cloned();
        let file = match (outcome, existing, mode) {
            (CallOutcome::Fails(failure), ..) => return Err(failed("open", name, failure.error())),
            (CallOutcome::PowerLost, None, OpenMode::Create) if state.random.coin() => {
                state.create(name);
                return Err(power_off_error());
            }
            (CallOutcome::PowerLost, ..) => return Err(power_off_error()),
            (CallOutcome::Succeeds, Some(file), _) => file,
            (CallOutcome::Succeeds, None, OpenMode::Create) => state.create(name),
            (CallOutcome::Succeeds, None, OpenMode::Existing) => {
                return Err(failed("open", name, io::ErrorKind::NotFound.into()));
            }
        };
        Ok(Arc::new(SimFile { name: name.to_owned(), disk: Arc::clone(&self.state), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        name::check(name)?;
        let mut state = self.state();
        let outcome = state.call(DiskCall::Remove)?;
        if let CallOutcome::Fails(failure) = outcome {
            return Err(failed("remove", name, failure.error()));
        }
        if let Some(file) = state.files.remove(name) {
            state.removed = Some((name.to_owned(), file));
        }
        if let CallOutcome::PowerLost = outcome { Err(power_off_error()) } else { Ok(()) }
    }
}

struct SimFile {
    name: String,
    disk: Arc<Mutex<SimDiskState>>,
    file: SharedInode,
}

impl Debug for SimFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DiskFile for SimFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut disk = lock(&self.disk);
        match disk.call(DiskCall::Read)? {
            CallOutcome::Succeeds => Ok(bytes::read(&lock(&self.file).current, at, buffer)),
            CallOutcome::Fails(failure) => {
                Err(error::read(at, buffer.len(), &self.name, failure.error()))
            }
            CallOutcome::PowerLost => Err(power_off_error()),
        }
    }

    fn write(&self, at: u64, new: &[u8]) -> io::Result<()> {
        let with_position = |error| error::write(at, new.len(), &self.name, error);
        let (start, end) = bytes::range(at, new.len()).map_err(with_position)?;
        let mut disk = lock(&self.disk);
        let outcome = disk.call(DiskCall::Write)?;
        let length = lock(&self.file).current.len();
        let room = if end > length { disk.max_length(length) } else { usize::MAX };
        let fits = room.saturating_sub(start).min(new.len());
        let (n, result) = match outcome {
            CallOutcome::Succeeds if fits == new.len() => (fits, Ok(())),
            CallOutcome::Succeeds => {
                (disk.random.up_to(fits), Err(with_position(DiskError::Enospc.error())))
            }
            CallOutcome::Fails(failure) => {
                (disk.random.up_to(fits), Err(with_position(failure.error())))
            }
            CallOutcome::PowerLost => (fits, Err(power_off_error())),
        };
        let sequence = disk.next_sequence();
        lock(&self.file).write(sequence, start, new.get(..n).unwrap_or(new));
        result
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        match disk.call(DiskCall::Sync)? {
            CallOutcome::Succeeds => {
                disk.removed = None;
                lock(&self.file).sync();
                Ok(())
            }
            CallOutcome::Fails(failure) => {
                lock(&self.file).fail_sync(&mut disk.random);
                Err(failed("sync", &self.name, failure.error()))
            }
            CallOutcome::PowerLost => Err(power_off_error()),
        }
    }
}

#[cfg(test)]
mod tests;
