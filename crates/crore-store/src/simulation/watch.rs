//! The simulated disk with somebody who watches what the store is told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::embedded::disk::sim::SimDisk;
use crate::embedded::disk::{Disk, File, Open};

/// A disk that notes whether the store was told that there is no room.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    disk: SimDisk,
    told: Arc<Told>,
}

/// What a store was told by its disk.
#[derive(Debug, Default)]
pub(super) struct Told {
    full: AtomicBool,
}

impl Told {
    /// Whether it was told that there is no room since this was asked last.
    pub(super) fn take_full(&self) -> bool {
        self.full.swap(false, Ordering::Relaxed)
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
        Ok(Arc::new(WatchedFile { file, told: Arc::clone(&self.told) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    told: Arc<Told>,
}

impl File for WatchedFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(at, buffer)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.told.note(self.file.write(at, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.told.note(self.file.sync())
    }
}
