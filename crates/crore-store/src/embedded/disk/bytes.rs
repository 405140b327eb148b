//! Content of an in-memory file, read and written by offset.

use std::io;

/// Maximum size of an in-memory file, so that a wrong offset fails instead of exhausting memory.
const MAX_BYTES: usize = 1 << 30;

/// Start and end of a write of `n` bytes at `at`.
pub fn range(at: u64, n: usize) -> io::Result<(usize, usize)> {
    let start = usize::try_from(at).ok();
    let end = start.and_then(|start| start.checked_add(n)).filter(|end| *end <= MAX_BYTES);
    start.zip(end).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Copies bytes from `at` on into the buffer, and returns how many.
pub fn read(content: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| content.get(at..)).unwrap_or_default();
    let n = rest.len().min(buffer.len());
    if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
        to.copy_from_slice(from);
    }
    n
}

/// Writes `new` at `at`. A gap before it is filled with zeros; an empty write changes nothing.
pub fn write(content: &mut Vec<u8>, at: usize, new: &[u8]) {
    let end = at.saturating_add(new.len());
    if new.is_empty() {
        return;
    }
    if content.len() < end {
        content.resize(end, 0);
    }
    if let Some(to) = content.get_mut(at..end) {
        to.copy_from_slice(new);
    }
}
