//! Reading ahead: jobs are mostly claimed in the order in which they were pushed, and so their
//! records are mostly read in the order in which they stand in the log.

use super::disk::File;
use super::record::Spot;

/// How much is read at a time.
const BLOCK: usize = 64 << 10;
/// How many readers, one behind the other, are told apart: one for each busy queue.
const RUNS: usize = 8;

/// Blocks around the places that were read last.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The one that was used last is the first.
    runs: Vec<Run>,
}

/// One reader's way through a segment.
#[derive(Debug)]
struct Run {
    segment: u32,
    /// Where the block begins, or where the reader was last if there is none yet.
    at: u64,
    bytes: Vec<u8>,
}

impl Run {
    fn get(&self, spot: Spot) -> Option<&[u8]> {
        super::tail::part(&self.bytes, self.segment, self.at, spot)
    }

    /// Whether whoever reads here was just before it.
    fn is_near(&self, spot: Spot) -> bool {
        let here = self.at..self.at + (self.bytes.len() + BLOCK) as u64;
        self.segment == spot.segment && here.contains(&spot.offset.into())
    }
}

impl Ahead {
    /// A record that was read with another one.
    pub(crate) fn get(&self, spot: Spot) -> Option<&[u8]> {
        self.runs.iter().find_map(|run| run.get(spot))
    }

    /// A record of a file is about to be read. If the last one was near, what follows it is read with
    /// it, up to where the file is known not to change any more.
    pub(crate) fn reach(&mut self, spot: Spot, file: &dyn File, end: u64) {
        if self.runs.first().is_some_and(|run| run.get(spot).is_some()) {
            return;
        }
        let near = self.runs.iter().position(|run| run.is_near(spot));
        let mut run = match near {
            Some(nth) => self.runs.remove(nth),
            None => {
                self.runs.truncate(RUNS - 1);
                Run { segment: spot.segment, at: spot.offset.into(), bytes: Vec::new() }
            }
        };
        if near.is_some() && run.get(spot).is_none() {
            run.read(spot, file, end);
        }
        self.runs.insert(0, run);
    }
}

impl Run {
    fn read(&mut self, spot: Spot, file: &dyn File, end: u64) {
        self.at = spot.offset.into();
        let len = BLOCK.min(usize::try_from(end.saturating_sub(self.at)).unwrap_or(BLOCK));
        self.bytes.resize(len, 0);
        // What cannot be read with others is read alone, and then says why.
        let n = file.read(self.at, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(n);
    }
}
