//! The files of the log: which are in use, where the next commit goes, and how much space is left.

use std::sync::Arc;

use crore_core::{Name, Time};

use super::disk::DiskFile;
use super::log::Log;
use super::pending_commit::{FrameStamp, InFlightCommit};
use super::segment::HEAD_BYTES;

/// A file of the log that is in use.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Number in the file name.
    pub(crate) name: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Bytes allocated on disk.
    pub(crate) size: u64,
    /// End of the frames.
    pub(crate) end: u64,
    /// Bytes of job records that are not superseded.
    pub(crate) live: u64,
    /// Number of side records, superseded or not.
    pub(crate) sides: u64,
    /// The newest commit in the file.
    pub(crate) last: u64,
    /// Whether a hint file exists.
    pub(crate) hinted: bool,
}

impl Segment {
    /// A file without frames.
    pub(crate) const fn empty(name: u64, file: Arc<dyn DiskFile>, size: u64) -> Self {
        let end = HEAD_BYTES as u64;
        Self { name, file, size, end, live: 0, sides: 0, last: 0, hinted: false }
    }
}

/// A file that is unused once `commit` is durable.
#[derive(Debug)]
pub(crate) struct FreedFile {
    pub(crate) commit: u64,
    pub(crate) name: u64,
    pub(crate) segment: u32,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
}

impl Log {
    /// The oldest segment in use.
    pub(crate) fn oldest(&self) -> u32 {
        self.segments.keys().next().copied().unwrap_or(self.pending.segment)
    }

    /// Closes the pending commit, which is not empty, and begins the next one. Continues in the
    /// next segment if the current one has no space for another frame of this size; on a full disk,
    /// where no file can grow, already if less than an eighth of it is left.
    pub(crate) fn close_commit(
        &mut self,
        (synced, at): (u64, Time),
        woken: Vec<Name>,
        is_full: bool,
    ) -> Option<Arc<InFlightCommit>> {
        let stamp = FrameStamp { seed: self.seed, synced, oldest: self.oldest(), at };
        let segment = self.segments.get_mut(&self.pending.segment)?;
        let before = self.in_flight.take().and_then(Arc::into_inner);
        let buffer = before.map_or_else(Vec::new, |flight| flight.bytes);
        let flight = self.pending.close_frame(stamp, Arc::clone(&segment.file), buffer);
        let flight = Arc::new(InFlightCommit { woken, ..flight });
        (segment.end, segment.last) = (self.pending.at, flight.commit);
        segment.size = segment.size.max(segment.end);
        let scarce = if is_full { segment.size / 8 } else { 0 };
        if self.pending.at + scarce.max(flight.bytes.len() as u64) > segment.size {
            self.roll();
        }
        self.in_flight = Some(Arc::clone(&flight));
        Some(flight)
    }

    /// Continues in the next segment if it is prepared; otherwise the current one grows.
    pub(crate) fn roll(&mut self) {
        let Some(next) = self.next.take() else { return };
        self.pending.segment += 1;
        self.pending.at = next.end;
        self.segments.insert(self.pending.segment, next);
        self.meta_due = true;
    }

    /// Continues in the next segment if the current one has less than `bytes` bytes left; returns
    /// whether there is enough space now. There is not if no next segment is ready or the pending
    /// commit has records. A segment without a commit is never left: between others it would look
    /// like lost commits. Its file grows if it has to.
    pub(crate) fn ensure_room(&mut self, bytes: u64) -> bool {
        if self.bytes_left() < bytes && self.pending.is_empty() && !self.is_new_segment() {
            self.roll();
        }
        self.bytes_left() >= bytes || (self.pending.is_empty() && self.is_new_segment())
    }

    /// Whether the current segment has no commit yet, except the pending one.
    fn is_new_segment(&self) -> bool {
        self.segments.get(&self.pending.segment).is_some_and(|segment| segment.last == 0)
    }

    /// The commit to wait for before one file has `bytes` bytes of space; `None` if waiting does
    /// not help.
    pub(crate) fn commit_to_wait_for(&mut self, bytes: u64) -> Option<u64> {
        let waits = !self.ensure_room(bytes) && self.next.is_some() && !self.pending.is_empty();
        waits.then_some(self.pending.commit)
    }

    /// Bytes that can be written into allocated space: the current segment, the next one and the
    /// reserve. The log moves on to the next file when the current one has no space for two more
    /// slices (an eighth of a segment each), so up to a quarter of every file but the last stays
    /// empty.
    pub(crate) fn usable(&self, segment_bytes: u64) -> u64 {
        let next = self.next.as_ref().map(|segment| segment.size);
        let reserve = self.reserve.as_ref().map(|freed| freed.size);
        let mut files = [Some(self.bytes_left()), next, reserve].into_iter().flatten().rev();
        let last = files.next().unwrap_or(0);
        last + files.map(|room| room.saturating_sub(segment_bytes / 4)).sum::<u64>()
    }

    /// Allocated bytes left in the current segment.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.current_size().saturating_sub(self.pending.at + self.pending.len())
    }

    /// Allocated size of the current segment.
    pub(crate) fn current_size(&self) -> u64 {
        self.segments.get(&self.pending.segment).map_or(0, |segment| segment.size)
    }

    /// Bytes that the log occupies on disk.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let segments = self.segments.values().chain(&self.next).map(|segment| segment.size);
        let freed = self.freed.iter().chain(&self.reserve).map(|freed| freed.size);
        segments.chain(freed).sum()
    }

    /// Bytes of records that are not superseded.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.live).sum()
    }

    /// Number of segments that are in use.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Maximum bytes written by compacting a segment.
    pub(crate) fn bytes_to_move(&self, segment: u32, sides: u64) -> u64 {
        let of_sides =
            |segment: &Segment| if segment.sides > 0 { sides.min(segment.end) } else { 0 };
        self.segments.get(&segment).map_or(0, |segment| segment.live + of_sides(segment))
    }

    /// Bytes of superseded records in full segments.
    pub(crate) fn waste_bytes(&self) -> u64 {
        let full = self.segments.range(..self.pending.segment);
        full.map(|(_, segment)| segment.end.saturating_sub(segment.live)).sum()
    }
}
