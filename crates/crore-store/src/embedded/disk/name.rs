//! Valid file names of a store.

use std::io;

/// The lock file, which no disk lists as a file of the store.
pub(super) const LOCK: &str = "lock";

const MAX_NAME_BYTES: usize = 255;

/// Whether the name is valid and stays inside the directory.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'-';
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(plain)
        && name != "."
        && !name.contains("..")
        && name != LOCK
}

/// Refuses an invalid name.
pub fn check(name: &str) -> io::Result<()> {
    if is_plain(name) {
        return Ok(());
    }
    let why = format!("invalid file name `{name}`");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
