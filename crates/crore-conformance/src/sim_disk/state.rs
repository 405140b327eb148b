//! What a simulated disk knows, under its one lock.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crash::{Cut, Style};
use super::fault::{Call, Counts, Failure, Faults};
use super::inode::Inode;
use super::random::Random;

/// Locked only by whoever has the lock of the disk.
pub(super) type Shared = Arc<Mutex<Inode>>;

#[derive(Debug)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, Shared>,
    /// The last removal, while a power cut can undo it.
    pub(super) removed: Option<(String, Shared)>,
    pub(super) random: Random,
    pub(super) counts: Counts,
    pub(super) faults: Faults,
    pub(super) crash_at: Option<u64>,
    pub(super) capacity: u64,
    pub(super) off: bool,
    turn: u64,
}

/// What becomes of a call.
pub(super) enum Fate {
    Goes,
    Fails(Failure),
    /// The machine goes off while it is under way.
    Dies,
}

impl State {
    pub(super) fn new(files: BTreeMap<String, Shared>, random: Random, capacity: u64) -> Self {
        Self {
            files,
            removed: None,
            random,
            counts: Counts::default(),
            faults: Faults::default(),
            crash_at: None,
            capacity,
            off: false,
            turn: 0,
        }
    }

    /// Counts a call; an error if the machine is off.
    pub(super) fn call(&mut self, call: Call) -> io::Result<Fate> {
        if self.off {
            return Err(off());
        }
        self.counts.add(call);
        if self.crash_at.is_some_and(|n| self.counts.of(Call::Any) >= n) {
            self.off = true;
            return Ok(Fate::Dies);
        }
        Ok(self.faults.meet(call).map_or(Fate::Goes, Fate::Fails))
    }

    pub(super) fn make(&mut self, name: &str) -> Shared {
        self.removed = None;
        Arc::clone(self.files.entry(name.to_owned()).or_default())
    }

    /// The number of a write, among those to all files.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// How far a file may grow that is `length` long now.
    pub(super) fn room(&self, length: usize) -> usize {
        if self.capacity == u64::MAX {
            return usize::MAX;
        }
        let used: u64 = self.files.values().map(|file| lock(file).current.len() as u64).sum();
        let free = usize::try_from(self.capacity.saturating_sub(used)).unwrap_or(usize::MAX);
        length.saturating_add(free)
    }

    /// The disk after the process died: nothing is lost, and what was not synced is still not.
    pub(super) fn killed(&self) -> Self {
        let copy = |file: &Shared| Arc::new(Mutex::new(lock(file).clone()));
        let files = self.files.iter().map(|(name, file)| (name.clone(), copy(file))).collect();
        let mut after = Self::new(files, self.random.clone(), self.capacity);
        after.removed = self.removed.as_ref().map(|(name, file)| (name.clone(), copy(file)));
        after.turn = self.turn;
        after
    }

    /// The disk after a power cut.
    pub(super) fn cut(&self, style: Style, mut random: Random) -> Self {
        let turns: Vec<u64> = self.files.values().flat_map(|file| turns(&lock(file))).collect();
        let cut = Cut::draw(style, &turns, &mut random);
        let mut files = BTreeMap::new();
        for (name, file) in &self.files {
            let left = cut.of(&lock(file), &mut random);
            files.insert(name.clone(), Arc::new(Mutex::new(left)));
        }
        if let Some((name, file)) = self.removed.as_ref().filter(|_| style.revives(&mut random)) {
            let back = Inode::from_content(Arc::clone(&lock(file).durable));
            files.insert(name.clone(), Arc::new(Mutex::new(back)));
        }
        Self::new(files, random, self.capacity)
    }
}

fn turns(inode: &Inode) -> Vec<u64> {
    inode.unsynced.iter().map(|write| write.turn).collect()
}

pub(super) fn off() -> io::Error {
    io::Error::other("the machine is off")
}

/// A test that panicked while it held the lock has failed already.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
