//! The simulated disk with somebody who watches what the store is told, and who lets the keeper come
//! between a commit's write and its sync, as a thread of its own would.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore_store::embedded::disk::{Disk, File, Open};

use super::subject::Loops;
use crate::sim_disk::SimDisk;

/// A disk that notes whether the store was told that there is no room, and whether it began a file
/// anew.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    disk: SimDisk,
    told: Arc<Told>,
}

/// What a store was told by its disk.
#[derive(Debug, Default)]
pub(super) struct Told {
    full: AtomicBool,
    reused: AtomicBool,
    ended: AtomicBool,
    /// Who comes before the next sync, and for how many turns.
    between: Mutex<Option<(Arc<dyn Loops>, usize)>>,
}

impl Told {
    /// Whether it was told that there is no room since this was asked last.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::Relaxed)
    }

    /// Whether a file was begun anew since this was asked last.
    pub(super) fn take_reused(&self) -> bool {
        self.reused.swap(false, Ordering::Relaxed)
    }

    /// Before the next sync the keeper makes so many turns.
    pub(super) fn come_between(&self, loops: Arc<dyn Loops>, turns: usize) {
        *self.between() = Some((loops, turns));
    }

    /// Nobody comes before the next sync.
    pub(super) fn stay_away(&self) {
        *self.between() = None;
    }

    fn between(&self) -> MutexGuard<'_, Option<(Arc<dyn Loops>, usize)>> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who come between do.
    fn let_between(&self) {
        let Some((loops, turns)) = self.between().take() else { return };
        for _ in 0..turns {
            match loops.keep_once() {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.ended.store(true, Ordering::Relaxed),
            }
        }
    }

    /// Whether the keeper came to its end since this was asked last.
    pub(super) fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::Relaxed)
    }

    fn note<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &answer
            && error.kind() == io::ErrorKind::StorageFull
        {
            self.full.store(true, Ordering::Relaxed);
        }
        answer
    }
}

impl Watch {
    pub(super) fn new(disk: &SimDisk, told: &Arc<Told>) -> Self {
        Self { disk: disk.clone(), told: Arc::clone(told) }
    }
}

impl Disk for Watch {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.told.note(self.disk.open(name, how))?;
        let began = AtomicU32::new(if how == Open::Existing { NEW } else { 0 });
        let told = Arc::clone(&self.told);
        Ok(Arc::new(WatchedFile { file, began, told }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

/// How often the beginning of a new file is written: zeros, then a head.
const NEW: u32 = 2;

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    /// How often its beginning was written.
    began: AtomicU32,
    told: Arc<Told>,
}

impl File for WatchedFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(at, buffer)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at == 0 && self.began.fetch_add(1, Ordering::Relaxed) >= NEW {
            self.told.reused.store(true, Ordering::Relaxed);
        }
        self.told.note(self.file.write(at, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.told.let_between();
        self.told.note(self.file.sync())
    }
}
