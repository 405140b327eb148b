//! The files of the log: which are in use, where the next commit goes, and how much room is left.

use std::sync::Arc;

use crore_core::{Name, Time};

use super::disk::File;
use super::log::Log;
use super::tail::{Flight, Stamp};

/// A file of the log that is in use.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The number in its name.
    pub(crate) name: u64,
    pub(crate) file: Arc<dyn File>,
    /// How many bytes of it are ours on the disk.
    pub(crate) size: u64,
    /// Where its frames end.
    pub(crate) end: u64,
    /// How many bytes of it are newest records of jobs.
    pub(crate) live: u64,
    /// How many records of it are not of jobs, whether they are newest or not.
    pub(crate) sides: u64,
    /// The newest commit in it.
    pub(crate) last: u64,
    /// Whether there is a hint file for it.
    pub(crate) hinted: bool,
}

/// A file that counts no more once a commit is durable.
#[derive(Debug)]
pub(crate) struct Freed {
    pub(crate) commit: u64,
    pub(crate) name: u64,
    pub(crate) segment: u32,
    pub(crate) file: Arc<dyn File>,
    pub(crate) size: u64,
}

impl Log {
    /// The oldest segment that counts.
    pub(crate) fn oldest(&self) -> u32 {
        self.segments.keys().next().copied().unwrap_or(self.tail.segment)
    }

    /// Closes the commit that is being gathered, which has something, and begins the next one: in the
    /// next segment, if this one would hardly hold another such frame; on a full disk, where no file
    /// can grow, well before.
    pub(crate) fn launch(
        &mut self,
        (synced, at): (u64, Time),
        woken: Vec<Name>,
        is_full: bool,
    ) -> Option<Arc<Flight>> {
        let stamp = Stamp { seed: self.seed, synced, oldest: self.oldest(), at };
        let segment = self.segments.get_mut(&self.tail.segment)?;
        let before = self.flight.take().and_then(Arc::into_inner);
        let buffer = before.map_or_else(Vec::new, |flight| flight.bytes);
        let flight = self.tail.launch(stamp, Arc::clone(&segment.file), buffer);
        let flight = Arc::new(Flight { woken, ..flight });
        (segment.end, segment.last) = (self.tail.at, flight.commit);
        segment.size = segment.size.max(segment.end);
        let scarce = if is_full { segment.size / 8 } else { 0 };
        if self.tail.at + scarce.max(flight.bytes.len() as u64) > segment.size {
            self.roll();
        }
        self.flight = Some(Arc::clone(&flight));
        Some(flight)
    }

    /// Goes on in the next segment, if it is ready; until then this one grows.
    pub(crate) fn roll(&mut self) {
        let Some(next) = self.next.take() else { return };
        self.tail.segment += 1;
        self.tail.at = next.end;
        self.segments.insert(self.tail.segment, next);
        self.meta_due = true;
    }

    /// Goes on in the next segment if this one has less room than that, and says whether there is as
    /// much now: not if there is no next one, or if records wait for their commit here.
    pub(crate) fn make_way(&mut self, bytes: u64) -> bool {
        if self.rest() < bytes && self.tail.is_empty() {
            self.roll();
        }
        self.rest() >= bytes
    }

    /// The commit after which there is so much room in one file, if it has to be waited for.
    pub(crate) fn in_the_way(&mut self, bytes: u64) -> Option<u64> {
        let waits = !self.make_way(bytes) && self.next.is_some() && !self.tail.is_empty();
        waits.then_some(self.tail.commit)
    }

    /// How many bytes can still be written where the disk has room for them already: every file but the
    /// last is left when it has no room for two slices more, and so with less than a quarter of it empty.
    pub(crate) fn usable(&self, segment_bytes: u64) -> u64 {
        let next = self.next.as_ref().map(|segment| segment.size);
        let reserve = self.reserve.as_ref().map(|freed| freed.size);
        let mut files = [Some(self.rest()), next, reserve].into_iter().flatten().rev();
        let last = files.next().unwrap_or(0);
        last + files.map(|room| room.saturating_sub(segment_bytes / 4)).sum::<u64>()
    }

    /// The same of the last file alone.
    pub(crate) fn rest(&self) -> u64 {
        self.size_here().saturating_sub(self.tail.at + self.tail.len())
    }

    /// How large the last file is.
    pub(crate) fn size_here(&self) -> u64 {
        self.segments.get(&self.tail.segment).map_or(0, |segment| segment.size)
    }

    /// How many bytes of the disk the log takes up.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let segments = self.segments.values().chain(&self.next).map(|segment| segment.size);
        let freed = self.freed.iter().chain(&self.reserve).map(|freed| freed.size);
        segments.chain(freed).sum()
    }

    /// How many bytes moving what counts of a segment takes at the most.
    pub(crate) fn to_move(&self, segment: u32, sides: u64) -> u64 {
        let of_sides =
            |segment: &Segment| if segment.sides > 0 { sides.min(segment.end) } else { 0 };
        self.segments.get(&segment).map_or(0, |segment| segment.live + of_sides(segment))
    }

    /// How many bytes of full segments are records that count no more.
    pub(crate) fn dead(&self) -> u64 {
        let full = self.segments.range(..self.tail.segment);
        full.map(|(_, segment)| segment.end.saturating_sub(segment.live)).sum()
    }
}
