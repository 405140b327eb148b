//! One simulated file: its durable content, its current content, and the unsynced writes between the two.

use std::sync::Arc;

use super::random::Random;
use crore_store::embedded::disk::bytes;

/// A sector is written atomically, unless the simulation tears it.
const SECTOR_BYTES: usize = 512;

/// Clones are cheap: content is shared until one of them changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    /// Content that survives a power cut.
    pub(super) durable: Arc<Vec<u8>>,
    /// Content that reads return: all writes, synced or not.
    pub(super) current: Arc<Vec<u8>>,
    /// Writes that the next sync makes durable, oldest first.
    pub(super) unsynced: Vec<UnsyncedWrite>,
}

/// A write that is not durable yet.
#[derive(Debug, Clone)]
pub(super) struct UnsyncedWrite {
    /// Sequence number among the writes to all files of the disk.
    pub(super) sequence: u64,
    at: usize,
    bytes: Arc<[u8]>,
}

impl Inode {
    pub(super) fn from_content(content: Arc<Vec<u8>>) -> Self {
        Self { durable: Arc::clone(&content), current: content, unsynced: Vec::new() }
    }

    pub(super) fn write(&mut self, turn: u64, at: usize, new: &[u8]) {
        bytes::write(Arc::make_mut(&mut self.current), at, new);
        self.unsynced.push(UnsyncedWrite { sequence: turn, at, bytes: new.into() });
    }

    pub(super) fn sync(&mut self) {
        for write in std::mem::take(&mut self.unsynced) {
            write.persist(&mut self.durable, usize::MAX);
        }
    }

    /// The effect of a failed sync: some sectors may have reached the device; the others are marked clean and
    /// never written, though they are still read. The next sync ignores them and succeeds.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let odds = random.pick(&[0, 0, 4]).unwrap_or_default();
        for write in std::mem::take(&mut self.unsynced) {
            write.persist_sectors(&mut self.durable, odds, None, random);
        }
    }
}

impl UnsyncedWrite {
    /// Keeps the first `n` bytes.
    pub(super) fn persist(&self, durable: &mut Arc<Vec<u8>>, n: usize) {
        let kept = self.bytes.get(..n).unwrap_or(&self.bytes);
        if !kept.is_empty() {
            bytes::write(Arc::make_mut(durable), self.at, kept);
        }
    }

    pub(super) fn persist_prefix(&self, durable: &mut Arc<Vec<u8>>, random: &mut Random) {
        self.persist(durable, random.up_to(self.bytes.len()));
    }

    /// Keeps each sector with a chance of `odds` in 8. Of the `torn` sector only a prefix of the write is
    /// kept; bytes outside the write are never touched.
    pub(super) fn persist_sectors(
        &self,
        durable: &mut Arc<Vec<u8>>,
        odds: usize,
        torn: Option<usize>,
        random: &mut Random,
    ) {
        let mut at = self.at;
        let mut rest = &*self.bytes;
        for sector in 0.. {
            let room = SECTOR_BYTES - at % SECTOR_BYTES;
            let (mut new, later) = rest.split_at(room.min(rest.len()));
            rest = later;
            if torn == Some(sector) {
                new = new.get(..random.up_to(new.len())).unwrap_or(new);
            } else if !random.chance(odds) {
                new = &[];
            }
            if !new.is_empty() {
                bytes::write(Arc::make_mut(durable), at, new);
            }
            if rest.is_empty() {
                return;
            }
            at = at.saturating_add(room);
        }
    }

    /// Keeps a quarter of the sectors, loses a quarter, and tears the others: each keeps its first or its
    /// last bytes.
    pub(super) fn tear_sectors(&self, durable: &mut Arc<Vec<u8>>, random: &mut Random) {
        let (mut at, mut rest) = (self.at, &*self.bytes);
        while !rest.is_empty() {
            let room = SECTOR_BYTES - at % SECTOR_BYTES;
            let (sector, later) = rest.split_at(room.min(rest.len()));
            let cut = random.up_to(sector.len());
            let (start, kept) = match random.up_to(3) {
                0 => (0, sector),
                1 => (0, &[][..]),
                2 => (0, sector.get(..cut).unwrap_or_default()),
                _ => (cut, sector.get(cut..).unwrap_or_default()),
            };
            if !kept.is_empty() {
                bytes::write(Arc::make_mut(durable), at.saturating_add(start), kept);
            }
            at = at.saturating_add(sector.len());
            rest = later;
        }
    }

    /// A random sector that the write covers.
    pub(super) fn any_sector(&self, random: &mut Random) -> usize {
        let from = self.at % SECTOR_BYTES;
        let last = from.saturating_add(self.bytes.len()).saturating_sub(1) / SECTOR_BYTES;
        random.up_to(last)
    }
}
