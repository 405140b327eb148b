//! The sequence of commits in a closed store, and the gaps in it.

use std::collections::BTreeMap;

use super::files::{Frame, SegmentFile, StoreFiles};
use crate::embedded::segment::HEAD_BYTES;

/// The frames in use, and the gaps between them.
#[derive(Debug, Default)]
pub(super) struct CommitChain {
    /// Number of frames in use per segment, from its first on.
    pub(super) counted: BTreeMap<u32, usize>,
    pub(super) gaps: Vec<Gap>,
    /// The last commit.
    pub(super) last: u64,
    /// Segment, offset and number of an unfinished commit, which is ignored.
    pub(super) unfinished: Option<(u32, u64, u64)>,
}

/// Missing commits, and where they must have been.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether older commits may be missing too, because no good frame precedes them.
    pub(super) is_oldest: bool,
    pub(super) locations: Vec<GapLocation>,
}

impl Gap {
    /// The commits as shown in reports: 0 as the first if it is unknown.
    pub(super) const fn commits(&self) -> (u64, u64) {
        (if self.is_oldest { 0 } else { self.first }, self.last)
    }
}

/// Location of missing commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GapLocation {
    /// From the end of a good frame to the next one of the segment, if there is one.
    Bytes { segment: u32, from: u64, to: Option<u64> },
    /// Whole segments.
    Segments { first: u32, last: u32 },
}

/// The last good frame.
#[derive(Debug, Clone, Copy)]
struct LastFrame {
    segment: u32,
    end: u64,
    next: u64,
}

impl StoreFiles {
    /// Follows the frames up to the first missing commit that was not durable.
    pub(super) fn commit_chain(&self) -> CommitChain {
        let mut chain = CommitChain::default();
        let (mut before, mut open) = (None, Vec::new());
        let mut number = self.oldest;
        for (segment, segment_file) in self.segments.range(self.oldest..) {
            if *segment > number && number > 0 {
                open.push(GapLocation::Segments { first: number, last: *segment - 1 });
            }
            number = segment.saturating_add(1);
            if self
                .add_segment(*segment, segment_file, (&mut before, &mut open), &mut chain)
                .is_err()
            {
                return chain;
            }
        }
        self.end(before, open, &mut chain);
        chain
    }

    /// Adds the frames of a segment; an error means that the log ends here.
    fn add_segment(
        &self,
        segment: u32,
        segment_file: &SegmentFile,
        (before, open): (&mut Option<LastFrame>, &mut Vec<GapLocation>),
        chain: &mut CommitChain,
    ) -> Result<(), ()> {
        let mut at = HEAD_BYTES as u64;
        for frame in &segment_file.frames {
            let mut locations = std::mem::take(open);
            if frame.at != at {
                locations.push(GapLocation::Bytes { segment, from: at, to: Some(frame.at) });
            }
            if locations.is_empty()
                && let Some(before) = before.filter(|before| before.next != frame.header.commit)
            {
                let to = (before.segment == segment).then_some(frame.at);
                locations.push(GapLocation::Bytes {
                    segment: before.segment,
                    from: before.end,
                    to,
                });
            }
            if !locations.is_empty() {
                let gap = gap(*before, locations, frame);
                if !self.is_proven(*before, &gap.locations) {
                    chain.unfinished = before.map(|b| (b.segment, b.end, b.next));
                    return Err(());
                }
                chain.gaps.push(gap);
            }
            *chain.counted.entry(segment).or_default() += 1;
            chain.last = frame.last;
            let next = frame.last.saturating_add(1);
            *before = Some(LastFrame { segment, end: frame.end, next });
            at = frame.end;
        }
        if segment_file.frames.is_empty() {
            open.push(GapLocation::Bytes { segment, from: at, to: None });
        }
        Ok(())
    }

    /// Whether the missing commits were durable.
    fn is_proven(&self, before: Option<LastFrame>, locations: &[GapLocation]) -> bool {
        let has_segments =
            locations.iter().any(|location| matches!(location, GapLocation::Segments { .. }));
        has_segments || self.last_synced >= before.map_or(1, |before| before.next)
    }

    /// Adds what is missing after the last good frame.
    fn end(&self, before: Option<LastFrame>, mut open: Vec<GapLocation>, chain: &mut CommitChain) {
        let next = before.map_or(1, |before| before.next);
        let has_segments =
            open.iter().rposition(|location| matches!(location, GapLocation::Segments { .. }));
        open.truncate(has_segments.map_or(0, |nth| nth + 1));
        if open.is_empty() && self.last_synced >= next {
            open.extend(before.map(|before| {
                let (segment, from) = (before.segment, before.end);
                GapLocation::Bytes { segment, from, to: None }
            }));
        }
        if !open.is_empty() {
            let least = next.saturating_add(count(&open) - 1);
            let (last, is_oldest) = (self.last_synced.max(least), before.is_none());
            chain.gaps.push(Gap { first: next, last, is_oldest, locations: open });
            return;
        }
        let torn = before.filter(|before| {
            self.segments.get(&before.segment).is_some_and(|segment_file| segment_file.is_torn)
        });
        chain.unfinished = torn.map(|before| (before.segment, before.end, before.next));
    }
}

fn gap(before: Option<LastFrame>, locations: Vec<GapLocation>, frame: &Frame) -> Gap {
    let last = frame.header.commit.saturating_sub(1);
    // The numbers before the oldest readable commit are unknown; there was at least one.
    let first = before.map_or_else(
        || last.saturating_add(1).saturating_sub(count(&locations)),
        |before| before.next,
    );
    Gap { first, last, is_oldest: before.is_none(), locations }
}

/// Number of frames that fill these locations.
pub(super) fn count(locations: &[GapLocation]) -> u64 {
    let needs = |location: &GapLocation| match location {
        GapLocation::Bytes { .. } => 1,
        GapLocation::Segments { first, last } => u64::from(last - first) + 1,
    };
    locations.iter().map(needs).sum()
}
