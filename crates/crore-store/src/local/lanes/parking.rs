//! Parking: how lanes without a permit are set aside and reopened.

use crore_core::{Name, Time};

use super::super::permits::{LaneRefusal, PermitRefusal};
use super::{LaneHead, Lanes, NO_SHARE};

impl Lanes {
    /// Returns the permits of a delivery of this lane.
    pub(crate) fn return_permits(&mut self, lane: u32, now: Time) {
        let Some(buckets) = self.lanes.at(lane).buckets() else { return };
        for bucket in buckets.iter() {
            self.permits.return_permit(*bucket);
            self.reopen(*bucket, now);
        }
    }

    /// Opens the best parked lane of every partition at a bucket, unless its concurrency is
    /// exhausted. The lane is opened even if the rate is exhausted: the next claim then stores the
    /// TAT, capped for the current rate, in case it was set under a slower one.
    pub(super) fn reopen(&mut self, bucket: u32, now: Time) {
        let blocked = self.permits.blocked(bucket, now);
        if blocked == Some(PermitRefusal::Concurrency) {
            return;
        }
        let parked = &self.permits.buckets.at(bucket).parked;
        let partitions: Vec<u32> = parked.keys().copied().collect();
        for partition in partitions {
            self.open_best(bucket, partition);
            if blocked.is_none() {
                self.woken.insert(self.partitions.at(partition).queue);
            }
        }
    }

    /// Opens the best lane of a partition that is parked at a bucket; of the lanes with shares, when its turn comes.
    pub(super) fn open_best(&mut self, bucket: u32, partition: u32) {
        let Some(parked) = self.permits.buckets.at(bucket).parked.get(&partition) else { return };
        if let Some(head) = parked.plain.first().copied() {
            self.open_parked(head.lane);
        }
        self.open_reserved(bucket, partition);
        self.arm(bucket, partition);
    }

    /// Opens a parked lane.
    pub(super) fn open_parked(&mut self, lane: u32) {
        let head = self.lanes.at(lane).head(lane);
        self.unpark(lane, head);
        head.into_iter().for_each(|head| self.open(head));
    }

    /// Opens all parked lanes under a limit that has changed; the next claim applies the new limit.
    pub(crate) fn reopen_all(&mut self, limit: &Name) {
        let affected = self.lanes.iter().filter(|(_, lane)| lane.is_parked_and_has(limit));
        let affected: Vec<u32> = affected.map(|(number, _)| number).collect();
        for lane in affected {
            self.woken.insert(self.lanes.at(lane).queue);
            self.open_parked(lane);
        }
    }

    /// Reopens lanes of a queue whose rate timer has expired.
    pub(crate) fn fire_timers(&mut self, queue: u32, now: Time) {
        while let Some((at, bucket)) = self.queues.at(queue).timers.first().copied()
            && at <= now
        {
            self.queues.at_mut(queue).timers.pop_first();
            self.reopen(bucket, now);
        }
    }

    /// Next time at which a rate may admit a job of a queue. Corrects or drops timers that became
    /// invalid because the limit changed or no lane is parked there now.
    pub(crate) fn next_timer(&mut self, queue: u32, now: Time) -> Option<Time> {
        loop {
            let (at, bucket) = self.queues.at(queue).timers.first().copied()?;
            let parked = &self.permits.buckets.at(bucket).parked;
            let waits =
                parked.keys().any(|partition| self.partitions.at(*partition).queue == queue);
            let until = if waits && self.permits.is_costed(bucket) {
                self.next_costed(queue, bucket, now)
            } else {
                let blocked = self.permits.blocked(bucket, now).filter(|_| waits);
                blocked.and_then(PermitRefusal::until)
            };
            if until == Some(at) {
                return Some(at);
            }
            let timers = &mut self.queues.at_mut(queue).timers;
            timers.pop_first();
            timers.extend(until.map(|at| (at, bucket)));
        }
    }

    /// Parks an open lane with this head.
    pub(super) fn park(&mut self, head: LaneHead, refusal: LaneRefusal, now: Time) {
        let LaneRefusal { bucket, why, .. } = refusal;
        self.close(head);
        self.set_parked(head.lane, bucket);
        let row = self.lanes.at(head.lane);
        let (partition, others) = (row.partition, row.buckets());
        self.disarm(bucket, partition);
        if let Some(at) = why.until() {
            let queue = self.partitions.at(partition).queue;
            self.queues.at_mut(queue).timers.insert((at, bucket));
        }
        for other in others.iter().flat_map(|others| others.iter()) {
            if *other != bucket {
                self.try_open_best(*other, partition, now);
            }
        }
    }

    /// During a claim: opens the best parked lane of a partition if the bucket has a permit, or sets
    /// the queue's timer if its rate will have one.
    fn try_open_best(&mut self, bucket: u32, partition: u32, now: Time) {
        if !self.permits.buckets.at(bucket).parked.contains_key(&partition) {
            return;
        }
        if self.permits.is_costed(bucket) {
            return self.try_open_costed(bucket, partition, now);
        }
        let queue = self.partitions.at(partition).queue;
        match self.permits.check(bucket, now) {
            None => {
                self.open_best(bucket, partition);
                self.woken.insert(queue);
            }
            Some(refusal) => {
                let timers = &mut self.queues.at_mut(queue).timers;
                timers.extend(refusal.until().map(|at| (at, bucket)));
            }
        }
    }

    /// Removes a lane from those parked at its bucket, where it has this head.
    pub(super) fn unpark(&mut self, lane: u32, head: Option<LaneHead>) {
        let row = self.lanes.at_mut(lane);
        let (partition, share) = (row.partition, row.share);
        let parked = row.limited.as_mut().and_then(|limited| limited.parked.take());
        let (Some(bucket), Some(head)) = (parked, head) else { return };
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        let Some(lanes) = parked.get_mut(&partition) else { return };
        if share == NO_SHARE {
            lanes.plain.remove(&head);
        } else if let Some(fair) = &mut lanes.fair {
            fair.remove(head, (share, self.shares.rows.at(share)));
        }
        if lanes.is_empty() {
            self.disarm(bucket, partition);
            let parked = &mut self.permits.buckets.at_mut(bucket).parked;
            parked.remove(&partition);
            if parked.is_empty() {
                self.permits.refusing.remove(&bucket);
            }
        }
    }

    /// Adds a lane that is not open to those parked at a bucket.
    pub(super) fn set_parked(&mut self, lane: u32, bucket: u32) {
        let row = self.lanes.at_mut(lane);
        if let Some(limited) = &mut row.limited {
            limited.parked = Some(bucket);
        }
        let (partition, share, head) = (row.partition, row.share, row.head(lane));
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        if parked.is_empty() {
            self.permits.refusing.insert(bucket);
        }
        let lanes = parked.entry(partition).or_default();
        match head {
            Some(head) if share != NO_SHARE => {
                let fair = lanes.fair.get_or_insert_default();
                fair.insert(head, (share, self.shares.rows.at_mut(share)));
            }
            head => lanes.plain.extend(head),
        }
    }

    /// Reopens the best lane parked at each bucket of a lane whose head was claimed or removed: the
    /// parked lane may come first now. The next claim checks whether there is a permit.
    pub(super) fn open_best_parked(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let (partition, Some(buckets)) = (row.partition, row.buckets()) else { return };
        for bucket in buckets.iter() {
            self.open_best(*bucket, partition);
        }
    }
}
