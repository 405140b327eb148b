//! From frame to frame: where commits are missing that were there.

use std::collections::BTreeMap;

use super::segment::HEAD;
use super::survey::{Frame, Seen, Survey};

/// The frames that count, and what is missing between them.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// How many frames of each segment count, from its first on.
    pub(crate) counted: BTreeMap<u32, usize>,
    pub(crate) gaps: Vec<Gap>,
    /// The last commit.
    pub(crate) last: u64,
    /// Where a commit stands that was not finished: what there is of it does not count.
    pub(crate) unfinished: Option<(u32, u64, u64)>,
}

/// Commits that are missing, and where they must have been.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether older ones may be missing too: no good frame stands before them.
    pub(crate) is_oldest: bool,
    pub(crate) places: Vec<Place>,
}

impl Gap {
    /// What is said about it: the first is 0 if it is not known.
    pub(crate) const fn commits(&self) -> (u64, u64) {
        (if self.is_oldest { 0 } else { self.first }, self.last)
    }
}

/// A place where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// From the end of a good frame to the next one of the segment, if there is one.
    Stretch { segment: u32, from: u64, to: Option<u64> },
    /// The files of these segments.
    Files { first: u32, last: u32 },
}

/// The good frame behind which the next is looked for.
#[derive(Debug, Clone, Copy)]
struct Before {
    segment: u32,
    end: u64,
    next: u64,
}

impl Survey {
    /// Goes from frame to frame, up to the first commit that is missing and need not have been there.
    pub(crate) fn chain(&self) -> Chain {
        let mut chain = Chain::default();
        let (mut before, mut open) = (None, Vec::new());
        let mut number = self.oldest;
        for (segment, seen) in self.segments.range(self.oldest..) {
            if *segment > number && number > 0 {
                open.push(Place::Files { first: number, last: *segment - 1 });
            }
            number = segment.saturating_add(1);
            if self.go_through(*segment, seen, (&mut before, &mut open), &mut chain).is_err() {
                return chain;
            }
        }
        self.end(before, open, &mut chain);
        chain
    }

    /// Goes through a segment; an error: the log ends here.
    fn go_through(
        &self,
        segment: u32,
        seen: &Seen,
        (before, open): (&mut Option<Before>, &mut Vec<Place>),
        chain: &mut Chain,
    ) -> Result<(), ()> {
        let mut at = HEAD as u64;
        for frame in &seen.frames {
            let mut places = std::mem::take(open);
            if frame.at != at {
                places.push(Place::Stretch { segment, from: at, to: Some(frame.at) });
            }
            if places.is_empty()
                && let Some(before) = before.filter(|before| before.next != frame.header.commit)
            {
                let to = (before.segment == segment).then_some(frame.at);
                places.push(Place::Stretch { segment: before.segment, from: before.end, to });
            }
            if !places.is_empty() {
                let gap = gap(*before, places, frame);
                if !self.is_proven(*before, &gap.places) {
                    chain.unfinished = before.map(|b| (b.segment, b.end, b.next));
                    return Err(());
                }
                chain.gaps.push(gap);
            }
            *chain.counted.entry(segment).or_default() += 1;
            chain.last = frame.last;
            let next = frame.last.saturating_add(1);
            *before = Some(Before { segment, end: frame.end, next });
            at = frame.end;
        }
        if seen.frames.is_empty() {
            open.push(Place::Stretch { segment, from: at, to: None });
        }
        Ok(())
    }

    /// Whether what is missing was there.
    fn is_proven(&self, before: Option<Before>, places: &[Place]) -> bool {
        let files = places.iter().any(|place| matches!(place, Place::Files { .. }));
        files || self.proof >= before.map_or(1, |before| before.next)
    }

    /// What is missing behind the last good frame.
    fn end(&self, before: Option<Before>, mut open: Vec<Place>, chain: &mut Chain) {
        let next = before.map_or(1, |before| before.next);
        let files = open.iter().rposition(|place| matches!(place, Place::Files { .. }));
        open.truncate(files.map_or(0, |nth| nth + 1));
        if open.is_empty() && self.proof >= next {
            open.extend(before.map(|before| {
                let (segment, from) = (before.segment, before.end);
                Place::Stretch { segment, from, to: None }
            }));
        }
        if !open.is_empty() {
            let least = next.saturating_add(count(&open) - 1);
            let (last, is_oldest) = (self.proof.max(least), before.is_none());
            chain.gaps.push(Gap { first: next, last, is_oldest, places: open });
            return;
        }
        let torn = before
            .filter(|before| self.segments.get(&before.segment).is_some_and(|seen| seen.is_torn));
        chain.unfinished = torn.map(|before| (before.segment, before.end, before.next));
    }
}

fn gap(before: Option<Before>, places: Vec<Place>, frame: &Frame) -> Gap {
    let last = frame.header.commit.saturating_sub(1);
    // Nothing says what the commits before the oldest that can be read were; there was one at least.
    let first = before.map_or_else(
        || last.saturating_add(1).saturating_sub(count(&places)),
        |before| before.next,
    );
    Gap { first, last, is_oldest: before.is_none(), places }
}

/// How many frames are needed to fill these places.
pub(crate) fn count(places: &[Place]) -> u64 {
    let needs = |place: &Place| match place {
        Place::Stretch { .. } => 1,
        Place::Files { first, last } => u64::from(last - first) + 1,
    };
    places.iter().map(needs).sum()
}
