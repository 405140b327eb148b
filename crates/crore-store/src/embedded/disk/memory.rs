//! In-memory files, for tests that are not about the disk.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{Disk, DiskFile, OpenMode, bytes, error, name};

/// A disk that loses everything when it is dropped, and never fails. As on a file system, a removed
/// file stays usable through open handles.
#[derive(Default)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, Arc<RwLock<Vec<u8>>>>>,
}

impl MemoryDisk {
    /// Creates a disk without files.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RwLock<Vec<u8>>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for MemoryDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InMemory").field("files", &self.files().len()).finish_non_exhaustive()
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        name::check(name)?;
        let mut files = self.files();
        let content = match (files.get(name), mode) {
            (Some(content), _) => Arc::clone(content),
            (None, OpenMode::Create) => Arc::clone(files.entry(name.to_owned()).or_default()),
            (None, OpenMode::Existing) => {
                return Err(error::failed("open", name, io::ErrorKind::NotFound.into()));
            }
        };
        Ok(Arc::new(MemoryFile { name: name.to_owned(), content }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        name::check(name)?;
        self.files().remove(name);
        Ok(())
    }
}

struct MemoryFile {
    name: String,
    content: Arc<RwLock<Vec<u8>>>,
}

impl Debug for MemoryFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DiskFile for MemoryFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        Ok(bytes::read(&content, at, buffer))
    }

    fn write(&self, at: u64, new: &[u8]) -> io::Result<()> {
        let too_large = |error| error::write(at, new.len(), &self.name, error);
        let (start, _) = bytes::range(at, new.len()).map_err(too_large)?;
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        bytes::write(&mut content, start, new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
