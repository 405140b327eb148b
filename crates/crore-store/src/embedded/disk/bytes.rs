//! A file's content in memory, read and written by offset as a file is.

use std::io;

/// A file in memory grows no further, so that an offset that ran wild fails instead of taking all
/// memory.
const MAX_BYTES: usize = 1 << 30;

/// Where a write of `n` bytes at `at` begins and ends.
pub fn range(at: u64, n: usize) -> io::Result<(usize, usize)> {
    let start = usize::try_from(at).ok();
    let end = start.and_then(|start| start.checked_add(n)).filter(|end| *end <= MAX_BYTES);
    start.zip(end).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Copies what there is from `at` on, and says how much that was.
pub fn read(content: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| content.get(at..)).unwrap_or_default();
    let n = rest.len().min(buffer.len());
    if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
        to.copy_from_slice(from);
    }
    n
}

/// Writes `new` at `at`; a gap before it becomes zeros, and no bytes change nothing.
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
