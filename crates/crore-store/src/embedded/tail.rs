//! The end of the log: the commit that is being gathered, and the one that is being written.

use std::sync::Arc;

use crore_core::{Name, Time};

use super::disk::File;
use super::frame::{self, HEADER, Header};
use super::record::Spot;

/// The commit that is being gathered. Where its frame will stand is known from the start, and so is
/// where every record in it will be.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) commit: u64,
    pub(crate) segment: u32,
    pub(crate) at: u64,
    /// The frame so far, with room for its header.
    bytes: Vec<u8>,
    /// The sum of the records' checksums.
    sum: u32,
}

/// A commit on its way to the disk.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) commit: u64,
    pub(crate) segment: u32,
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) file: Arc<dyn File>,
    /// Queues in which there is something new to claim once this is durable.
    pub(crate) woken: Vec<Name>,
}

/// What a frame's header says besides what its tail knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) seed: u64,
    pub(crate) synced: u64,
    pub(crate) oldest: u32,
    pub(crate) at: Time,
}

impl Tail {
    pub(crate) fn new(commit: u64, segment: u32, at: u64) -> Self {
        let bytes = vec![0; HEADER];
        Self { commit, segment, at, bytes, sum: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER
    }

    /// How long the frame is by now.
    pub(crate) const fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends a record, and gives where it will be.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Spot {
        let offset = self.at + self.len();
        let len = frame::append(&mut self.bytes, &mut self.sum, write);
        Spot { segment: self.segment, offset: u32::try_from(offset).unwrap_or(u32::MAX), len }
    }

    /// Closes the frame, and leaves an empty tail behind it, in the buffer of a frame before.
    pub(crate) fn launch(&mut self, stamp: Stamp, file: Arc<dyn File>, buffer: Vec<u8>) -> Flight {
        let mut next = Self::new(self.commit + 1, self.segment, 0);
        // The next one will be about as long as this one, and not keep more than that.
        let about = self.bytes.len() + self.bytes.len() / 4;
        if (about..4 * about).contains(&buffer.capacity()) {
            next.bytes = buffer;
            next.bytes.clear();
            next.bytes.resize(HEADER, 0);
        } else {
            next.bytes.reserve(about);
        }
        let Self { commit, segment, at, mut bytes, sum } = std::mem::replace(self, next);
        let header = Header {
            len: u32::try_from(bytes.len() - HEADER).unwrap_or(u32::MAX),
            segment: segment.into(),
            commit,
            synced: stamp.synced,
            oldest: stamp.oldest.into(),
            at: stamp.at.as_millis(),
        };
        if let Some(slot) = bytes.get_mut(..HEADER) {
            slot.copy_from_slice(&header.bytes(stamp.seed, sum));
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.at = at + header.stride();
        Flight { commit, segment, at, bytes, file, woken: Vec::new() }
    }

    /// A record of this frame.
    pub(crate) fn get(&self, spot: Spot) -> Option<&[u8]> {
        part(&self.bytes, self.segment, self.at, spot)
    }
}

impl Flight {
    /// A record of this frame.
    pub(crate) fn get(&self, spot: Spot) -> Option<&[u8]> {
        part(&self.bytes, self.segment, self.at, spot)
    }
}

/// The bytes of a record, of those from a place in a segment on.
pub(crate) fn part(bytes: &[u8], segment: u32, at: u64, spot: Spot) -> Option<&[u8]> {
    if spot.segment != segment {
        return None;
    }
    let start = usize::try_from(u64::from(spot.offset).checked_sub(at)?).ok()?;
    bytes.get(start..start.checked_add(spot.len as usize)?)
}
