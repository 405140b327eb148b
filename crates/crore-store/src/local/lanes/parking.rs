//! Parking: how lanes without a permit are set aside and reopened.

use crore_core::{Name, Time};

use super::super::permits::PermitRefusal;
use super::Lanes;

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
    fn reopen(&mut self, bucket: u32, now: Time) {
        let blocked = self.permits.blocked(bucket, now);
        if blocked == Some(PermitRefusal::Concurrency) {
            return;
        }
        let parked = &self.permits.buckets.at(bucket).parked;
        let best: Vec<_> = parked.values().filter_map(|heads| heads.first().copied()).collect();
        for head in best {
            self.unpark(head.lane);
            self.open(head.lane);
            if blocked.is_none() {
                self.woken.insert(self.lanes.at(head.lane).queue);
            }
        }
    }

    /// Opens all parked lanes under a limit that has changed; the next claim applies the new limit.
    pub(crate) fn reopen_all(&mut self, limit: &Name) {
        let affected = self.lanes.iter().filter(|(_, lane)| lane.is_parked_and_has(limit));
        let affected: Vec<u32> = affected.map(|(number, _)| number).collect();
        for lane in affected {
            self.woken.insert(self.lanes.at(lane).queue);
            self.unpark(lane);
            self.open(lane);
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
            let blocked = self.permits.blocked(bucket, now).filter(|_| waits);
            if blocked == Some(PermitRefusal::RateUntil(at)) {
                return Some(at);
            }
            let timers = &mut self.queues.at_mut(queue).timers;
            timers.pop_first();
            if let Some(PermitRefusal::RateUntil(at)) = blocked {
                timers.insert((at, bucket));
            }
        }
    }

    pub(super) fn park(&mut self, lane: u32, bucket: u32, blocked: PermitRefusal, now: Time) {
        self.close(lane);
        let row = self.lanes.at_mut(lane);
        row.parked = Some(bucket);
        let (partition, head) = (row.partition, row.head);
        let others = row.buckets();
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        parked.entry(partition).or_default().extend(head);
        if let PermitRefusal::RateUntil(at) = blocked {
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
        let parked = &self.permits.buckets.at(bucket).parked;
        let Some(head) = parked.get(&partition).and_then(|heads| heads.first().copied()) else {
            return;
        };
        let queue = self.partitions.at(partition).queue;
        match self.permits.check(bucket, now) {
            None => {
                self.unpark(head.lane);
                self.open(head.lane);
                self.woken.insert(queue);
            }
            Some(PermitRefusal::RateUntil(at)) => {
                self.queues.at_mut(queue).timers.insert((at, bucket));
            }
            Some(PermitRefusal::Concurrency) => {}
        }
    }

    pub(super) fn unpark(&mut self, lane: u32) {
        let row = self.lanes.at_mut(lane);
        let (Some(bucket), Some(head), partition) = (row.parked.take(), row.head, row.partition)
        else {
            return;
        };
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        if let Some(heads) = parked.get_mut(&partition) {
            heads.remove(&head);
            if heads.is_empty() {
                parked.remove(&partition);
            }
        }
    }

    /// Reopens the best lane parked at each bucket of a lane whose head was claimed or removed: the
    /// parked lane may come first now. The next claim checks whether there is a permit.
    pub(super) fn open_best_parked(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let (partition, Some(buckets)) = (row.partition, row.buckets()) else { return };
        for bucket in buckets.iter() {
            let parked = &self.permits.buckets.at(*bucket).parked;
            let best = parked.get(&partition).and_then(|heads| heads.first().copied());
            if let Some(head) = best {
                self.unpark(head.lane);
                self.open(head.lane);
            }
        }
    }
}
