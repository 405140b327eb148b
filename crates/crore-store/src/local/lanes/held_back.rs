//! Views of the lanes for operators: keys that hold jobs back, the age of queues, the largest shares.
//!
//! Each visits a bounded number of lanes, because it runs under the lock of the store.

use std::collections::{BTreeMap, HashMap};

use crore_core::{JobId, Name, Time};

use super::super::permits::{ParkedLanes, PermitRefusal};
use super::{Lanes, NO_SHARE, QueueRow};
use crate::views::HeldBack;

/// Maximum number of lanes that one view of limits or shares visits.
const MAX_LANES: usize = 10_000;
/// Maximum number of lanes that are visited for the age of a queue.
const MAX_AGE_LANES: usize = 1_000;

impl Lanes {
    /// The keys that hold back ready jobs, of one queue or of all: up to `n`, most jobs first.
    pub(crate) fn held_back(&self, queue: Option<&Name>, n: usize, now: Time) -> Vec<HeldBack> {
        let only = match queue.map(|name| self.queue(name)) {
            Some(None) => return Vec::new(),
            Some(number) => number,
            None => None,
        };
        let (mut budget, mut found) = (MAX_LANES, Vec::new());
        for bucket in self.permits.refusing.iter().copied() {
            if budget == 0 {
                break;
            }
            budget -= 1;
            let mut jobs_of_queues: BTreeMap<u32, u64> = BTreeMap::new();
            for (partition, parked) in &self.permits.buckets.at(bucket).parked {
                let queue = self.partitions.at(*partition).queue;
                if only.is_none_or(|only| only == queue) {
                    *jobs_of_queues.entry(queue).or_default() +=
                        self.parked_jobs(parked, &mut budget);
                }
            }
            let refusal = self.permits.blocked(bucket, now);
            let until = refusal.and_then(PermitRefusal::until);
            let row = |(queue, jobs)| HeldBack {
                queue: self.queues.at(queue).name.clone(),
                key: self.permits.buckets.at(bucket).key.clone(),
                jobs,
                running: self.permits.held(bucket),
                until,
            };
            found.extend(jobs_of_queues.into_iter().filter(|(_, jobs)| *jobs > 0).map(row));
        }
        found.sort_unstable_by(|a, b| {
            b.jobs.cmp(&a.jobs).then_with(|| (&a.queue, &a.key).cmp(&(&b.queue, &b.key)))
        });
        found.truncate(n);
        found
    }

    /// Number of ready jobs of parked lanes.
    fn parked_jobs(&self, parked: &ParkedLanes, budget: &mut usize) -> u64 {
        let plain = parked.plain.iter().map(|head| head.lane);
        let share_of = |lane: u32| self.lanes.at(lane).share;
        let fair = parked.fair.iter().flat_map(|fair| fair.lanes(share_of));
        let lanes = plain.chain(fair).take(*budget);
        let (visited, jobs) = lanes.fold((0, 0), |(visited, jobs), lane| {
            (visited + 1, jobs + self.lanes.at(lane).ready.len() as u64)
        });
        *budget -= visited;
        jobs
    }

    /// Since when the oldest ready job of a queue is due.
    pub(crate) fn oldest_ready(&self, queue: &Name) -> Option<Time> {
        let lanes = self.lanes_of(queue).take(MAX_AGE_LANES);
        let runs = lanes.flat_map(|lane| self.lanes.at(lane).ready.runs());
        runs.filter_map(|(_, run)| Some(run.first()?.at)).min()
    }

    /// The shares of a queue with most ready jobs: the first job, the weight and the number of jobs of each.
    pub(crate) fn largest_shares(&self, queue: &Name, n: usize) -> Vec<(JobId, u32, u64)> {
        let mut shares: HashMap<u32, (JobId, u64)> = HashMap::new();
        for lane in self.lanes_of(queue).take(MAX_LANES) {
            let row = self.lanes.at(lane);
            let Some(head) = row.head(lane).filter(|_| row.share != NO_SHARE) else { continue };
            shares.entry(row.share).or_insert((head.id, 0)).1 += row.ready.len() as u64;
        }
        let mut shares: Vec<_> = shares
            .into_iter()
            .map(|(share, (first, jobs))| (first, self.share_weight(share), jobs))
            .collect();
        shares.sort_unstable_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        shares.truncate(n);
        shares
    }

    fn lanes_of(&self, queue: &Name) -> impl Iterator<Item = u32> {
        let queue = self.queue(queue).map(|number| self.queues.at(number));
        let partitions = queue.into_iter().flat_map(QueueRow::all_partitions);
        partitions.flat_map(|(_, partition)| self.partitions.at(partition).lanes.iter().copied())
    }
}
