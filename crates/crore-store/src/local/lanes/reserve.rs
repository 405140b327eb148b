//! Costs: what the heads of lanes take from the rates of their limits, and rates that are reserved for a head.
//!
//! A rate that counts costs may have enough for one job and not for another. The first job that it does not have enough
//! for gets it reserved, or cheaper jobs of other lanes would take what it waits for, again and again.

use std::sync::Arc;

use crore_core::limit::{LimitKey, PauseEnd};
use crore_core::{JobId, Name, Time};

use super::super::permits::cost_at;
use super::{LaneHead, Lanes, TurnHead};

impl Lanes {
    /// Sets the costs of a ready job, or removes those of another one.
    pub(crate) fn set_costs(&mut self, id: JobId, costs: Option<&Arc<[u32]>>) {
        match costs {
            Some(costs) => _ = self.costs.insert(id, Arc::clone(costs)),
            None => _ = self.costs.remove(&id),
        }
    }

    /// The cost of the head of a lane under a bucket.
    fn cost_of(&self, head: LaneHead, bucket: u32) -> u32 {
        let buckets = self.lanes.at(head.lane).buckets();
        let nth = buckets.and_then(|all| all.iter().position(|number| *number == bucket));
        cost_at(self.costs.get(&head.id).map(|costs| &**costs), nth.unwrap_or(usize::MAX))
    }

    /// After a refusal that reserved the rates of a head: lanes parked there may be tried when the reservation ends.
    pub(super) fn note_reserved(&mut self, buckets: &[u32], head: LaneHead) {
        if let Some(limited) = &mut self.lanes.at_mut(head.lane).limited {
            limited.is_reserved = true;
        }
        for bucket in buckets {
            let row = self.permits.buckets.at(*bucket);
            let Some(reserved) = row.reserved.filter(|reserved| reserved.head == head) else {
                continue;
            };
            for partition in row.parked.keys() {
                let queue = self.partitions.at(*partition).queue;
                self.queues.at_mut(queue).timers.insert((reserved.end(), *bucket));
            }
        }
    }

    /// Removes the reservations for the head of a lane, which has changed.
    pub(super) fn drop_reservations(&mut self, lane: u32) {
        let Some(limited) = &mut self.lanes.at_mut(lane).limited else { return };
        if !std::mem::take(&mut limited.is_reserved) {
            return;
        }
        let buckets = Arc::clone(&limited.buckets);
        for bucket in buckets.iter() {
            let row = self.permits.buckets.at_mut(*bucket);
            if row.reserved.take_if(|reserved| reserved.head.lane == lane).is_none() {
                continue;
            }
            let partitions: Vec<u32> = row.parked.keys().copied().collect();
            for partition in partitions {
                self.open_best(*bucket, partition);
                self.woken.insert(self.partitions.at(partition).queue);
            }
        }
    }

    /// After a start: a job that these rates are reserved for waits longer now, and is tried again to know how long.
    pub(super) fn retry_reserved(&mut self, buckets: &[u32], head: LaneHead) {
        for bucket in buckets {
            let reserved = self.permits.buckets.at(*bucket).reserved;
            if let Some(other) = reserved.map(|it| it.head).filter(|other| other.lane != head.lane)
            {
                self.open_reserved(*bucket, self.lanes.at(other.lane).partition);
            }
        }
    }

    /// Opens the lane that a bucket is reserved for, if it is parked there and belongs to this partition.
    pub(super) fn open_reserved(&mut self, bucket: u32, partition: u32) {
        let Some(reserved) = self.permits.buckets.at(bucket).reserved else { return };
        let row = self.lanes.at(reserved.head.lane);
        if row.partition == partition && row.parked().is_some() {
            self.open_parked(reserved.head.lane);
        }
    }

    /// The heads of parked lanes that may be the next to start, of one partition at a bucket: the
    /// best without a share, the one that the bucket is reserved for, and the best with a share.
    fn parked_candidates(&mut self, bucket: u32, partition: u32) -> [Option<LaneHead>; 3] {
        let row = self.permits.buckets.at(bucket);
        let plain = row.parked.get(&partition).and_then(|parked| parked.plain.first()).copied();
        let reserved = row.reserved.map(|reserved| reserved.head).filter(|head| {
            let lane = self.lanes.at(head.lane);
            lane.partition == partition && lane.parked() == Some(bucket)
        });
        let fair = self.first_parked_share(bucket, partition).map(TurnHead::lane_head);
        [plain, reserved, fair]
    }

    /// During a claim: opens the lanes of a partition that are parked at a bucket and would get their costs from it, or
    /// sets the queue's timer.
    pub(super) fn try_open_costed(&mut self, bucket: u32, partition: u32, now: Time) {
        let candidates = self.parked_candidates(bucket, partition);
        let queue = self.partitions.at(partition).queue;
        let mut next: Option<Time> = None;
        for (nth, head) in candidates.into_iter().enumerate() {
            let Some(head) = head else { continue };
            if let Some(refusal) =
                self.permits.refusal(bucket, (head, self.cost_of(head, bucket)), now)
            {
                next = next.into_iter().chain(refusal.until()).min();
                continue;
            }
            if nth == 2 {
                self.arm(bucket, partition);
            } else if self.lanes.at(head.lane).parked() == Some(bucket) {
                self.open_parked(head.lane);
            }
            self.woken.insert(queue);
        }
        self.queues.at_mut(queue).timers.extend(next.map(|at| (at, bucket)));
    }

    /// When a lane of a queue that is parked at a bucket may get its cost; `None`: a permit must be returned first.
    pub(super) fn next_costed(&mut self, queue: u32, bucket: u32, now: Time) -> Option<Time> {
        let parked = self.permits.buckets.at(bucket).parked.keys().copied();
        let of_queue = parked.filter(|partition| self.partitions.at(*partition).queue == queue);
        let partitions: Vec<u32> = of_queue.collect();
        let mut next: Option<Time> = None;
        for partition in partitions {
            for head in self.parked_candidates(bucket, partition).into_iter().flatten() {
                let cost = self.cost_of(head, bucket);
                let until = match self.permits.refusal(bucket, (head, cost), now) {
                    None => Some(now),
                    Some(refusal) => refusal.until(),
                };
                next = next.into_iter().chain(until).min();
            }
        }
        next
    }

    /// Corrects what a start has taken from a bucket.
    pub(crate) fn correct_cost(&mut self, key: &LimitKey, costs: (u32, u32), now: Time) {
        if let Some(bucket) = self.permits.correct_cost(key, costs, now) {
            self.reopen(bucket, now);
        }
    }

    /// Pauses a key of a limit.
    pub(crate) fn pause_key(&mut self, key: &LimitKey, until: PauseEnd, now: Time) {
        self.permits.pause(key, until, now);
    }

    /// Ends the pauses of a limit's keys, or of one of them; returns how many there were.
    pub(crate) fn resume_keys(&mut self, limit: &Name, key: Option<&LimitKey>, now: Time) -> usize {
        let buckets = self.permits.resume(limit, key, now);
        for bucket in &buckets {
            self.reopen(*bucket, now);
        }
        buckets.len()
    }
}
