//! The storage backend of the log: a directory of files with six operations.
//!
//! The log does all its I/O here, so that it runs unchanged on files, in memory, and on simulated
//! disks that lose, tear and refuse writes or fill up. Implementations of [`Disk`] check names with
//! [`name`] and report failures with [`mod@error`]; in-memory ones use [`bytes`].

pub mod bytes;
pub mod error;
mod file;
mod memory;
pub mod name;
mod volatile;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub use file::Directory;
pub use memory::MemoryDisk;
pub use volatile::in_memory_file_system;

/// A directory of files. Names consist of letters, digits, dots and dashes.
pub trait Disk: Debug + Send + Sync {
    /// Returns the names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file. [`OpenMode::Create`] creates a missing file, empty; its existence is durable when
    /// this returns, but not its unsynced content.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes a file if it exists. A power failure soon after may restore it.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Whether opening creates a missing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; `NotFound` otherwise.
    Existing,
    /// A missing file is created.
    Create,
}

/// An open file, accessed by offset.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads into `buffer` from `at` on, and returns the number of bytes; fewer than requested only
    /// at the end of the file.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `at`, extending the file as needed. Durable only after
    /// [`DiskFile::sync`] succeeds. After an error, any part may have been written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable. After an error, the state of every write since the last
    /// successful sync is unknown, and a successful retry proves nothing.
    fn sync(&self) -> io::Result<()>;
}
