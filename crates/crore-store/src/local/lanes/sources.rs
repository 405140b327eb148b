//! Sources of a claim: the queues or kinds that it names, merged by their heads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{LaneHead, Lanes, TurnHead};
use crate::bug::planted;
use crate::jobs::Claim;

/// A source of jobs for a claim: a queue, or kinds of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimSource {
    Queue(u32),
    Partition(u32),
    /// Several parts of a shared queue: turns are comparable within a queue only.
    Shared {
        /// The partitions without a required version.
        queue: Option<u32>,
        partitions: Vec<u32>,
    },
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
    /// The sources of a claim in some of its queues.
    pub(crate) fn claim_sources(&mut self, queues: &[u32], claim: &Claim) -> ClaimSources {
        if let ([queue], None) = (queues, &claim.kinds)
            && claim.versions.is_empty()
            && !self.queues.at(*queue).paused
        {
            return ClaimSources::One(ClaimSource::Queue(*queue));
        }
        let mut sources = Vec::with_capacity(queues.len());
        for queue in queues.iter().filter(|queue| !self.queues.at(**queue).paused) {
            self.sources_of_queue(*queue, claim, &mut sources);
        }
        if sources.len() == 1
            && let Some(one) = sources.pop()
        {
            return ClaimSources::One(one);
        }
        let head = |source| Some(Reverse((self.head(&source)?, source)));
        ClaimSources::Merged { heads: sources.into_iter().filter_map(head).collect(), drawn: None }
    }

    /// The whole queue or the partitions of the named kinds, and the partitions whose required version the claim has.
    fn sources_of_queue(&self, number: u32, claim: &Claim, sources: &mut Vec<ClaimSource>) {
        let queue = self.queues.at(number);
        let kinds = claim.kinds.as_deref();
        let of_kinds = kinds.into_iter().flatten();
        let of_kinds = of_kinds.filter_map(|kind| queue.partitions.get(kind)).copied();
        let versioned = self.versioned_partitions(number, claim);
        let whole = kinds.is_none().then_some(number);
        if queue.shares == 0 {
            sources.extend(whole.map(ClaimSource::Queue));
            sources.extend(of_kinds.chain(versioned).map(ClaimSource::Partition));
            return;
        }
        let partitions: Vec<u32> = of_kinds.chain(versioned).collect();
        sources.push(match whole {
            Some(number) if partitions.is_empty() => ClaimSource::Queue(number),
            queue => ClaimSource::Shared { queue, partitions },
        });
    }

    /// The partitions with a required version that a claim has, without those that have no ready job.
    fn versioned_partitions(&self, queue: u32, claim: &Claim) -> Vec<u32> {
        let mut found = Vec::new();
        for (kind, version) in claim.versions.among(claim.kinds.as_deref()) {
            let partitions = self.queues.at(queue).versioned.get(kind).into_iter().flatten();
            let satisfied = partitions.filter(|(requirement, _)| {
                requirement.is_satisfied_by(version) || planted!("bug-54")
            });
            let satisfied = satisfied.map(|(_, number)| *number);
            found.extend(satisfied.filter(|number| self.partitions.at(*number).ready > 0));
        }
        found
    }

    fn head(&mut self, source: &ClaimSource) -> Option<LaneHead> {
        match source {
            ClaimSource::Queue(number) => {
                let queue = self.queues.at(*number);
                if queue.fair.is_empty() {
                    return queue.heads.first();
                }
                self.head_of_queue(*number).map(TurnHead::lane_head)
            }
            ClaimSource::Partition(number) => self.head_of(*number).map(TurnHead::lane_head),
            ClaimSource::Shared { queue, partitions } => {
                let of_queue = queue.and_then(|queue| self.head_of_queue(queue));
                let heads = partitions.iter().filter_map(|number| self.head_of(*number));
                heads.chain(of_queue).min().map(TurnHead::lane_head)
            }
        }
    }

    fn head_of_queue(&mut self, number: u32) -> Option<TurnHead> {
        let first = self.first_of_queue(number);
        let plain = self.queues.at(number).heads.first();
        first.into_iter().chain(plain.map(TurnHead::plain)).min()
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
