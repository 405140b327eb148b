//! Files in memory, for tests that are about something else than the disk.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{Disk, File, Open, bytes, error, name};

/// A disk that forgets everything when it is dropped, and never fails. As on a file system, a
/// removed file can be used by those who have it open.
#[derive(Default)]
pub struct InMemory {
    files: Mutex<BTreeMap<String, Arc<RwLock<Vec<u8>>>>>,
}

impl InMemory {
    /// A disk without files.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RwLock<Vec<u8>>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for InMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InMemory").field("files", &self.files().len()).finish_non_exhaustive()
    }
}

impl Disk for InMemory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        name::check(name)?;
        let mut files = self.files();
        let content = match (files.get(name), how) {
            (Some(content), _) => Arc::clone(content),
            (None, Open::Create) => Arc::clone(files.entry(name.to_owned()).or_default()),
            (None, Open::Existing) => {
                return Err(error::failed("open", name, io::ErrorKind::NotFound.into()));
            }
        };
        Ok(Arc::new(Content { name: name.to_owned(), content }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        name::check(name)?;
        self.files().remove(name);
        Ok(())
    }
}

struct Content {
    name: String,
    content: Arc<RwLock<Vec<u8>>>,
}

impl Debug for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").field("name", &self.name).finish_non_exhaustive()
    }
}

impl File for Content {
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
