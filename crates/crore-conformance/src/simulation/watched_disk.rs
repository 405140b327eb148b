//! Wraps the simulated disk: records what it returns to the store, and can run the keeper between a commit's
//! write and its sync, as a separate thread would.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_store::embedded::disk::{Disk, DiskFile, OpenMode};

use super::subject::StoreLoops;
use crate::sim_disk::SimDisk;

/// A disk that records whether the store ran out of space, and whether it reused a file.
#[derive(Debug, Clone)]
pub(super) struct WatchedDisk {
    disk: SimDisk,
    conditions: Arc<DiskConditions>,
}

/// Conditions that the disk reported to the store.
#[derive(Debug, Default)]
pub(super) struct DiskConditions {
    full: AtomicBool,
    reused: AtomicBool,
    ended: AtomicBool,
    /// Loops to run before the next sync, and the number of keeper turns.
    pending_keeper: Mutex<Option<(Arc<dyn StoreLoops>, usize)>>,
}

impl DiskConditions {
    /// Whether the disk was full, since the last call.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::Relaxed)
    }

    /// Whether a file was reused, since the last call.
    pub(super) fn take_reused(&self) -> bool {
        self.reused.swap(false, Ordering::Relaxed)
    }

    /// Lets the keeper make this many turns before the next sync.
    pub(super) fn schedule_keeper(&self, loops: Arc<dyn StoreLoops>, turns: usize) {
        *self.between() = Some((loops, turns));
    }

    /// Cancels the keeper turns before the next sync.
    pub(super) fn cancel_keeper(&self) {
        *self.between() = None;
    }

    fn between(&self) -> MutexGuard<'_, Option<(Arc<dyn StoreLoops>, usize)>> {
        self.pending_keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the pending keeper turns.
    fn run_keeper(&self) {
        let Some((loops, turns)) = self.between().take() else { return };
        for _ in 0..turns {
            match loops.keep_once() {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.ended.store(true, Ordering::Relaxed),
            }
        }
    }

    /// Whether the keeper failed, since the last call.
    pub(super) fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::Relaxed)
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::StorageFull
        {
            self.full.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl WatchedDisk {
    pub(super) fn new(disk: &SimDisk, conditions: &Arc<DiskConditions>) -> Self {
        Self { disk: disk.clone(), conditions: Arc::clone(conditions) }
    }
}

impl Disk for WatchedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.conditions.note(self.disk.open(name, mode))?;
        let began = AtomicU32::new(if mode == OpenMode::Existing { NEW } else { 0 });
        let conditions = Arc::clone(&self.conditions);
        Ok(Arc::new(WatchedFile { file, head_writes: began, conditions }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

/// Writes at the beginning of a new file: zeros, then a head.
const NEW: u32 = 2;

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn DiskFile>,
    /// Number of writes at its beginning.
    head_writes: AtomicU32,
    conditions: Arc<DiskConditions>,
}

impl DiskFile for WatchedFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(at, buffer)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at == 0 && self.head_writes.fetch_add(1, Ordering::Relaxed) >= NEW {
            self.conditions.reused.store(true, Ordering::Relaxed);
        }
        self.conditions.note(self.file.write(at, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.conditions.run_keeper();
        self.conditions.note(self.file.sync())
    }
}
