//! Read-ahead: jobs are mostly claimed in push order, so their records are mostly read in log
//! order.

use super::disk::DiskFile;
use super::record::RecordLocation;

/// Bytes per read.
const BLOCK: usize = 64 << 10;
/// Number of sequential readers tracked: about one per busy queue.
const MAX_READERS: usize = 8;

/// Blocks around the most recently read records.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// Most recently used first.
    readers: Vec<SequentialReader>,
}

/// The position of one sequential reader in a segment.
#[derive(Debug)]
struct SequentialReader {
    segment: u32,
    /// Start of the block; without a block, the offset last read.
    at: u64,
    bytes: Vec<u8>,
}

impl SequentialReader {
    fn get(&self, location: RecordLocation) -> Option<&[u8]> {
        super::pending_commit::record_bytes(&self.bytes, self.segment, self.at, location)
    }

    /// Whether the record follows closely what this reader read last.
    fn is_near(&self, location: RecordLocation) -> bool {
        let here = self.at..self.at + (self.bytes.len() + BLOCK) as u64;
        self.segment == location.segment && here.contains(&location.offset.into())
    }
}

impl ReadAhead {
    /// Returns a record that is in a block.
    pub(crate) fn get(&self, location: RecordLocation) -> Option<&[u8]> {
        self.readers.iter().find_map(|run| run.get(location))
    }

    /// Announces the read of a record. If the previous read was near, reads a block from the record
    /// on, up to `end`, behind which the file may still change.
    pub(crate) fn prefetch(&mut self, location: RecordLocation, file: &dyn DiskFile, end: u64) {
        if self.readers.first().is_some_and(|run| run.get(location).is_some()) {
            return;
        }
        let near = self.readers.iter().position(|run| run.is_near(location));
        let mut run = match near {
            Some(nth) => self.readers.remove(nth),
            None => {
                self.readers.truncate(MAX_READERS - 1);
                SequentialReader {
                    segment: location.segment,
                    at: location.offset.into(),
                    bytes: Vec::new(),
                }
            }
        };
        if near.is_some() && run.get(location).is_none() {
            run.read(location, file, end);
        }
        self.readers.insert(0, run);
    }
}

impl SequentialReader {
    fn read(&mut self, location: RecordLocation, file: &dyn DiskFile, end: u64) {
        self.at = location.offset.into();
        let len = BLOCK.min(usize::try_from(end.saturating_sub(self.at)).unwrap_or(BLOCK));
        self.bytes.resize(len, 0);
        // After a failed block read, the record is read alone, which reports the error.
        let n = file.read(self.at, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(n);
    }
}
