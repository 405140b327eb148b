//! The byte backend under the log: a directory of files, and six things to do with them.
//!
//! Everything that the log asks of a machine goes through here, so that it runs the same on files,
//! in memory, and on a disk that forgets, tears, fails and fills up when a test says so. An
//! implementation of [`Disk`] checks names by [`name`] and reports failures by [`mod@error`]; one that
//! keeps files in memory uses [`bytes`].

pub mod bytes;
pub mod error;
mod file;
mod memory;
pub mod name;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub use file::Directory;
pub use memory::InMemory;

/// A directory of files. Names are plain: letters, digits, dots and dashes.
pub trait Disk: Debug + Send + Sync {
    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file. With [`Open::Create`] it is made, empty, if it is not there, and its being
    /// there survives a power cut from then on, though nothing in it does that was not synced.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>>;

    /// Removes a file, if it is there; a power cut soon after may bring it back as it was.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Whether a file that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It has to be there: `NotFound` otherwise.
    Existing,
    /// It is made if it is not there.
    Create,
}

/// An open file: bytes by their offset.
pub trait File: Debug + Send + Sync {
    /// Reads into `buffer` from `at` on, and says how many bytes there were: fewer than asked for
    /// only at the end of the file.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `at`; the file grows as needed. Not durable before a [`File::sync`]
    /// has answered, and after an error anything may have been written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything durable that was written before. After an error nothing is known of any
    /// write since the last sync, and asking again proves nothing.
    fn sync(&self) -> io::Result<()>;
}
