//! The state of a simulated disk, under one lock.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crash::{PowerCutPlan, PowerCutStyle};
use super::fault::{ActiveFaults, CallCounts, DiskCall, DiskError};
use super::inode::Inode;
use super::random::Random;

/// Locked only while the lock of the disk is held.
pub(super) type SharedInode = Arc<Mutex<Inode>>;

#[derive(Debug)]
pub(super) struct SimDiskState {
    pub(super) files: BTreeMap<String, SharedInode>,
    /// The last removal, while a power cut can still undo it.
    pub(super) removed: Option<(String, SharedInode)>,
    pub(super) random: Random,
    pub(super) counts: CallCounts,
    pub(super) faults: ActiveFaults,
    pub(super) crash_at: Option<u64>,
    pub(super) capacity: u64,
    pub(super) off: bool,
    turn: u64,
}

/// The outcome of a call.
pub(super) enum CallOutcome {
    Succeeds,
    Fails(DiskError),
    /// The machine loses power during the call.
    PowerLost,
}

impl SimDiskState {
    pub(super) fn new(files: BTreeMap<String, SharedInode>, random: Random, capacity: u64) -> Self {
        Self {
            files,
            removed: None,
            random,
            counts: CallCounts::default(),
            faults: ActiveFaults::default(),
            crash_at: None,
            capacity,
            off: false,
            turn: 0,
        }
    }

    /// Counts a call; an error if the machine is off.
    pub(super) fn call(&mut self, call: DiskCall) -> io::Result<CallOutcome> {
        if self.off {
            return Err(power_off_error());
        }
        self.counts.add(call);
        if self.crash_at.is_some_and(|n| self.counts.of(DiskCall::Any) >= n) {
            self.off = true;
            return Ok(CallOutcome::PowerLost);
        }
        Ok(self.faults.on_call(call).map_or(CallOutcome::Succeeds, CallOutcome::Fails))
    }

    pub(super) fn create(&mut self, name: &str) -> SharedInode {
        self.removed = None;
        Arc::clone(self.files.entry(name.to_owned()).or_default())
    }

    /// The sequence number of a write, across all files.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// The length to which a file that is `length` long now may grow.
    pub(super) fn max_length(&self, length: usize) -> usize {
        if self.capacity == u64::MAX {
            return usize::MAX;
        }
        let used: u64 = self.files.values().map(|file| lock(file).current.len() as u64).sum();
        let free = usize::try_from(self.capacity.saturating_sub(used)).unwrap_or(usize::MAX);
        length.saturating_add(free)
    }

    /// The disk after the process died: nothing is lost, and unsynced writes stay unsynced.
    pub(super) fn killed(&self) -> Self {
        let copy = |file: &SharedInode| Arc::new(Mutex::new(lock(file).clone()));
        let files = self.files.iter().map(|(name, file)| (name.clone(), copy(file))).collect();
        let mut after = Self::new(files, self.random.clone(), self.capacity);
        after.removed = self.removed.as_ref().map(|(name, file)| (name.clone(), copy(file)));
        after.turn = self.turn;
        after
    }

    /// The disk after a power cut.
    pub(super) fn cut(&self, style: PowerCutStyle, mut random: Random) -> Self {
        let turns: Vec<u64> = self.files.values().flat_map(|file| turns(&lock(file))).collect();
        let cut = PowerCutPlan::draw(style, &turns, &mut random);
        let mut files = BTreeMap::new();
        for (name, file) in &self.files {
            let left = cut.of(&lock(file), &mut random);
            files.insert(name.clone(), Arc::new(Mutex::new(left)));
        }
        if let Some((name, file)) =
            self.removed.as_ref().filter(|_| style.undoes_removal(&mut random))
        {
            let back = Inode::from_content(Arc::clone(&lock(file).durable));
            files.insert(name.clone(), Arc::new(Mutex::new(back)));
        }
        Self::new(files, random, self.capacity)
    }
}

fn turns(inode: &Inode) -> Vec<u64> {
    inode.unsynced.iter().map(|write| write.sequence).collect()
}

pub(super) fn power_off_error() -> io::Error {
    io::Error::other("the machine is off")
}

/// A test that panicked while it held the lock has failed already.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
