//! The end of the log: the pending commit, and the commit being written.

use std::sync::Arc;

use crore_core::{Name, Time};

use super::disk::DiskFile;
use super::frame::{self, FrameHeader, HEADER_BYTES};
use super::record::RecordLocation;

/// The pending commit. The position of its frame is known from the start, so every appended record
/// has its final location.
#[derive(Debug)]
pub(crate) struct PendingCommit {
    pub(crate) commit: u64,
    pub(crate) segment: u32,
    pub(crate) at: u64,
    /// The frame so far, with space for its header.
    bytes: Vec<u8>,
    /// Combined checksum of the records.
    sum: u32,
}

/// A commit being written.
#[derive(Debug)]
pub(crate) struct InFlightCommit {
    pub(crate) commit: u64,
    pub(crate) segment: u32,
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Queues with new claimable jobs once this commit is durable.
    pub(crate) woken: Vec<Name>,
}

/// Header fields that the pending commit does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameStamp {
    pub(crate) seed: u64,
    pub(crate) synced: u64,
    pub(crate) oldest: u32,
    pub(crate) at: Time,
}

impl PendingCommit {
    pub(crate) fn new(commit: u64, segment: u32, at: u64) -> Self {
        let bytes = vec![0; HEADER_BYTES];
        Self { commit, segment, at, bytes, sum: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// Length of the frame so far.
    pub(crate) const fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends a record and returns its location.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> RecordLocation {
        let offset = self.at + self.len();
        let len = frame::append(&mut self.bytes, &mut self.sum, write);
        RecordLocation {
            segment: self.segment,
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            len,
        }
    }

    /// Closes the frame and starts the next one, reusing the buffer of an earlier frame.
    pub(crate) fn close_frame(
        &mut self,
        stamp: FrameStamp,
        file: Arc<dyn DiskFile>,
        buffer: Vec<u8>,
    ) -> InFlightCommit {
        let mut next = Self::new(self.commit + 1, self.segment, 0);
        // The next frame is expected to be about as long; a buffer of four times that size is not kept.
        let about = self.bytes.len() + self.bytes.len() / 4;
        if (about..4 * about).contains(&buffer.capacity()) {
            next.bytes = buffer;
            next.bytes.clear();
            next.bytes.resize(HEADER_BYTES, 0);
        } else {
            next.bytes.reserve(about);
        }
        let Self { commit, segment, at, mut bytes, sum } = std::mem::replace(self, next);
        let header = FrameHeader {
            len: u32::try_from(bytes.len() - HEADER_BYTES).unwrap_or(u32::MAX),
            segment: segment.into(),
            commit,
            synced: stamp.synced,
            oldest: stamp.oldest.into(),
            at: stamp.at.as_millis(),
        };
        if let Some(slot) = bytes.get_mut(..HEADER_BYTES) {
            slot.copy_from_slice(&header.bytes(stamp.seed, sum));
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.at = at + header.stride();
        InFlightCommit { commit, segment, at, bytes, file, woken: Vec::new() }
    }

    /// Returns a record of this frame.
    pub(crate) fn get(&self, location: RecordLocation) -> Option<&[u8]> {
        record_bytes(&self.bytes, self.segment, self.at, location)
    }
}

impl InFlightCommit {
    /// Returns a record of this frame.
    pub(crate) fn get(&self, location: RecordLocation) -> Option<&[u8]> {
        record_bytes(&self.bytes, self.segment, self.at, location)
    }
}

/// Cuts a record out of bytes that start at offset `at` of a segment.
pub(crate) fn record_bytes(
    bytes: &[u8],
    segment: u32,
    at: u64,
    location: RecordLocation,
) -> Option<&[u8]> {
    if location.segment != segment {
        return None;
    }
    let start = usize::try_from(u64::from(location.offset).checked_sub(at)?).ok()?;
    bytes.get(start..start.checked_add(location.len as usize)?)
}
