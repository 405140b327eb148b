//! New files of the log: zero-filled and synced, so that a commit into them changes no metadata of the file system.

use std::io;

use super::disk::{Disk, OpenMode};
use super::log_files::Segment;
use super::segment::{self, HEAD_BYTES, SegmentHead};

/// Bytes written and synced at once. A commit that begins meanwhile waits for all of them.
const PART: &[u8] = &[0; 256 << 10];

/// Creates and syncs a zero-filled segment with its head.
pub(crate) fn make_segment(disk: &dyn Disk, name: u64, head: SegmentHead) -> io::Result<Segment> {
    let size = head.size;
    let file = disk.open(&segment::name(name), OpenMode::Create)?;
    let mut at = 0;
    while at < size {
        let n = (size - at).min(PART.len() as u64);
        file.write(at, PART.get(..n as usize).unwrap_or_default())?;
        at += n;
        // Syncs in parts: a commit would otherwise wait behind all of it.
        file.sync()?;
    }
    file.write(0, &head.bytes())?;
    file.sync()?;
    Ok(Segment {
        name,
        file,
        size,
        end: HEAD_BYTES as u64,
        live: 0,
        sides: 0,
        last: 0,
        hinted: false,
    })
}
