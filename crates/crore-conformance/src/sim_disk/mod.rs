//! A disk that forgets, tears, fails and fills up when a test says so, the same for the same seed.
//!
//! What it promises is what [`Disk`] promises and no more: synced bytes are there after a power cut,
//! and of the others any sector of any write may be. It never damages what was not being written.

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
use crore_store::embedded::disk::{Disk, File, Open, bytes, name};

use crash::Style;
pub use fault::{Call, Failure, Fault, Then};
use inode::Inode;
use random::Random;
use state::{Fate, Shared, State, lock, off};

/// A simulated disk. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk. The seed decides what is left to chance while it runs: the order of lists, how
    /// much of a failed write was written, and what a failed sync left.
    pub fn new(seed: u64) -> Self {
        Self::from_image(BTreeMap::new(), seed)
    }

    /// A disk with these files, all of them durable.
    pub fn from_image(image: BTreeMap<String, Vec<u8>>, seed: u64) -> Self {
        let file = |content| Arc::new(Mutex::new(Inode::from_content(Arc::new(content))));
        let files = image.into_iter().map(|(name, content)| (name, file(content))).collect();
        Self::over(State::new(files, Random::new(seed), u64::MAX))
    }

    /// What can be read now, whether the machine is on or off. Not a call.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |file: &Shared| lock(file).current.to_vec();
        self.state().files.iter().map(|(name, file)| (name.clone(), content(file))).collect()
    }

    /// What a power cut leaves; this disk is off from then on.
    ///
    /// The seed decides how bad it is: of what was not synced all may be gone, all may be there, or
    /// any part of it. Asking again gives what another seed leaves of the same moment. The new disk
    /// has the same capacity, no faults, and counts from nought.
    pub fn crash(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let style = Style::draw(&mut random);
        self.cut(style, random)
    }

    /// The disk after a power cut that tears many of the sectors that were not synced; otherwise as
    /// [`SimDisk::crash`].
    pub fn tear(&self, seed: u64) -> Self {
        self.cut(Style::Torn, Random::new(seed))
    }

    fn cut(&self, style: Style, random: Random) -> Self {
        let mut state = self.state();
        state.off = true;
        Self::over(state.cut(style, random))
    }

    /// What the end of the process leaves, which is everything; what was not synced is still not.
    /// This disk is off from then on. The new one has the same capacity, no faults, and counts from
    /// nought.
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.off = true;
        Self::over(state.killed())
    }

    /// The machine goes off during the `n`-th call, counted as [`SimDisk::calls`] does: it and every
    /// later one fail. A write, a creation or a removal that is under way then may have happened,
    /// which [`SimDisk::crash`] decides.
    pub fn crash_at(&self, n: u64) {
        self.state().crash_at = Some(n);
    }

    /// Switches a fault on, besides those that are on already.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Switches all faults off.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// From now on all files together have so many bytes at most; `u64::MAX` is no bound. A write
    /// that would pass it writes some first bytes and fails with `StorageFull`.
    pub fn capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// How many calls there were, those that failed included.
    pub fn calls(&self) -> u64 {
        self.count(Call::Any)
    }

    /// How many calls there were of one kind.
    pub fn count(&self, call: Call) -> u64 {
        self.state().counts.of(call)
    }

    fn over(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
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
        match state.call(Call::List)? {
            Fate::Goes => {}
            Fate::Fails(failure) => return Err(failed("list", "the disk", failure.error())),
            Fate::Dies => return Err(off()),
        }
        let mut rest: Vec<String> = state.files.keys().cloned().collect();
        let mut names = Vec::with_capacity(rest.len());
        while let Some(last) = rest.len().checked_sub(1) {
            names.push(rest.swap_remove(state.random.up_to(last)));
        }
        Ok(names)
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        name::check(name)?;
        let mut state = self.state();
        let fate = state.call(Call::Open)?;
        let there = state.files.get(name).cloned();
        let file = match (fate, there, how) {
            (Fate::Fails(failure), ..) => return Err(failed("open", name, failure.error())),
            (Fate::Dies, None, Open::Create) if state.random.coin() => {
                state.make(name);
                return Err(off());
            }
            (Fate::Dies, ..) => return Err(off()),
            (Fate::Goes, Some(file), _) => file,
            (Fate::Goes, None, Open::Create) => state.make(name),
            (Fate::Goes, None, Open::Existing) => {
                return Err(failed("open", name, io::ErrorKind::NotFound.into()));
            }
        };
        Ok(Arc::new(SimFile { name: name.to_owned(), disk: Arc::clone(&self.state), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        name::check(name)?;
        let mut state = self.state();
        let fate = state.call(Call::Remove)?;
        if let Fate::Fails(failure) = fate {
            return Err(failed("remove", name, failure.error()));
        }
        if let Some(file) = state.files.remove(name) {
            state.removed = Some((name.to_owned(), file));
        }
        if let Fate::Dies = fate { Err(off()) } else { Ok(()) }
    }
}

struct SimFile {
    name: String,
    disk: Arc<Mutex<State>>,
    file: Shared,
}

impl Debug for SimFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl File for SimFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut disk = lock(&self.disk);
        match disk.call(Call::Read)? {
            Fate::Goes => Ok(bytes::read(&lock(&self.file).current, at, buffer)),
            Fate::Fails(failure) => Err(error::read(at, buffer.len(), &self.name, failure.error())),
            Fate::Dies => Err(off()),
        }
    }

    fn write(&self, at: u64, new: &[u8]) -> io::Result<()> {
        let with_place = |error| error::write(at, new.len(), &self.name, error);
        let (start, end) = bytes::range(at, new.len()).map_err(with_place)?;
        let mut disk = lock(&self.disk);
        let fate = disk.call(Call::Write)?;
        let length = lock(&self.file).current.len();
        let room = if end > length { disk.room(length) } else { usize::MAX };
        let fits = room.saturating_sub(start).min(new.len());
        let (n, answer) = match fate {
            Fate::Goes if fits == new.len() => (fits, Ok(())),
            Fate::Goes => (disk.random.up_to(fits), Err(with_place(Failure::Enospc.error()))),
            Fate::Fails(failure) => (disk.random.up_to(fits), Err(with_place(failure.error()))),
            Fate::Dies => (fits, Err(off())),
        };
        let turn = disk.next_turn();
        lock(&self.file).write(turn, start, new.get(..n).unwrap_or(new));
        answer
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        match disk.call(Call::Sync)? {
            Fate::Goes => {
                disk.removed = None;
                lock(&self.file).sync();
                Ok(())
            }
            Fate::Fails(failure) => {
                lock(&self.file).forget(&mut disk.random);
                Err(failed("sync", &self.name, failure.error()))
            }
            Fate::Dies => Err(off()),
        }
    }
}

#[cfg(test)]
mod tests;
