//! Sources of a claim: the queues or kinds that it names, merged by their heads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crore_core::Name;

use super::{LaneHead, Lanes, TurnHead};

/// A source of jobs for a claim: a queue, or kinds of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimSource {
    Queue(u32),
    Partition(u32),
    /// Several partitions of a shared queue: turns are comparable within a queue only.
    Partitions(Vec<u32>),
}

/// All sources of a claim.
#[derive(Debug)]
pub(crate) enum ClaimSources {
    One(ClaimSource),
    /// The head of each source, best first.
    Merged {
        heads: BinaryHeap<Reverse<(LaneHead, ClaimSource)>>,
        /// The source taken from last; its next head is not in `heads` yet.
        drawn: Option<ClaimSource>,
    },
}

impl Lanes {
    /// The sources of a claim for these queues and kinds.
    pub(crate) fn claim_sources(&mut self, queues: &[u32], kinds: Option<&[Name]>) -> ClaimSources {
        if let ([queue], None) = (queues, kinds)
            && !self.queues.at(*queue).paused
        {
            return ClaimSources::One(ClaimSource::Queue(*queue));
        }
        let mut sources = Vec::with_capacity(queues.len());
        for queue in queues.iter().filter(|queue| !self.queues.at(**queue).paused) {
            match kinds {
                None => sources.push(ClaimSource::Queue(*queue)),
                Some(kinds) => self.sources_of_kinds(*queue, kinds, &mut sources),
            }
        }
        if sources.len() == 1
            && let Some(one) = sources.pop()
        {
            return ClaimSources::One(one);
        }
        let head = |source| Some(Reverse((self.head(&source)?, source)));
        ClaimSources::Merged { heads: sources.into_iter().filter_map(head).collect(), drawn: None }
    }

    fn sources_of_kinds(&self, queue: u32, kinds: &[Name], sources: &mut Vec<ClaimSource>) {
        let queue = self.queues.at(queue);
        let partitions = kinds.iter().filter_map(|kind| queue.partitions.get(kind)).copied();
        if queue.shares == 0 {
            sources.extend(partitions.map(ClaimSource::Partition));
        } else {
            sources.push(ClaimSource::Partitions(partitions.collect()));
        }
    }

    fn head(&mut self, source: &ClaimSource) -> Option<LaneHead> {
        match source {
            ClaimSource::Queue(number) => {
                let queue = self.queues.at(*number);
                let plain = queue.heads.first();
                if queue.fair.is_empty() {
                    return plain;
                }
                let first = self.first_of_queue(*number);
                first.into_iter().chain(plain.map(TurnHead::plain)).min().map(TurnHead::lane_head)
            }
            ClaimSource::Partition(number) => self.head_of(*number).map(TurnHead::lane_head),
            ClaimSource::Partitions(numbers) => {
                let heads = numbers.iter().filter_map(|number| self.head_of(*number));
                heads.min().map(TurnHead::lane_head)
            }
        }
    }

    fn head_of(&mut self, partition: u32) -> Option<TurnHead> {
        let fair = self.first_of_partition(partition);
        let row = self.partitions.at(partition);
        let plain = row.plain.and_then(|lane| self.lanes.at(lane).head(lane));
        let plain = plain.into_iter().chain(row.heads.first().copied()).min();
        fair.into_iter().chain(plain.map(TurnHead::plain)).min()
    }

    /// The best head of all sources. A head changes only when its source was taken from, or when
    /// the same queue or partition was named twice, so the cached heads of the other sources hold.
    pub(super) fn best(&mut self, sources: &mut ClaimSources) -> Option<LaneHead> {
        let (heads, drawn) = match sources {
            ClaimSources::One(source) => return self.head(source),
            ClaimSources::Merged { heads, drawn } => (heads, drawn),
        };
        loop {
            if let Some(source) = drawn.take() {
                heads.extend(self.head(&source).map(|head| Reverse((head, source))));
            }
            let Reverse((head, source)) = heads.pop()?;
            let holds = self.head(&source) == Some(head);
            *drawn = Some(source);
            if holds {
                return Some(head);
            }
        }
    }
}
