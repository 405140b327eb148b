//! Which names a file of the store may have.

use std::io;

/// The file that shows who has the store open. It is no file of the store, on any disk.
pub(super) const LOCK: &str = "lock";

const MAX_NAME_BYTES: usize = 255;

/// Whether this is the name of a file, and of nothing outside the directory.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'-';
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(plain)
        && name != "."
        && !name.contains("..")
        && name != LOCK
}

/// Refuses a name that is not plain.
pub fn check(name: &str) -> io::Result<()> {
    if is_plain(name) {
        return Ok(());
    }
    let why = format!("`{name}` is no name for a file of the store");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
