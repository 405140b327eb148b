//! Parking: how lanes without a permit stand aside, and how they come back.

use crore_core::{Name, Time};

use super::super::permits::Blocked;
use super::Lanes;

impl Lanes {
    /// A delivery of the lane's job gives its permits back.
    pub(crate) fn give_back(&mut self, lane: u32, now: Time) {
        let Some(buckets) = self.lanes.at(lane).buckets() else { return };
        for bucket in buckets.iter() {
            self.permits.give_back(*bucket);
            self.reopen(*bucket, now);
        }
    }

    /// Opens the best lane of every desk that is parked at a bucket which may have a permit again.
    /// If its rate has none yet, the next claim finds that out, and the rate knows that it was asked:
    /// only so is a debt from slower times forgotten.
    fn reopen(&mut self, bucket: u32, now: Time) {
        let blocked = self.permits.blocked(bucket, now);
        if blocked == Some(Blocked::Held) {
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

    /// Opens all lanes that a limit is about which is another now, wherever they are parked; the next
    /// claim that comes to them finds out by the new terms.
    pub(crate) fn reopen_all(&mut self, limit: &Name) {
        let concerned = self.lanes.iter().filter(|(_, lane)| lane.is_parked_and_has(limit));
        let concerned: Vec<u32> = concerned.map(|(no, _)| no).collect();
        for lane in concerned {
            self.woken.insert(self.lanes.at(lane).queue);
            self.unpark(lane);
            self.open(lane);
        }
    }

    /// Tries what waits in a queue for a rate whose time has come.
    pub(crate) fn ring(&mut self, queue: u32, now: Time) {
        while let Some((at, bucket)) = self.queues.at(queue).timers.first().copied()
            && at <= now
        {
            self.queues.at_mut(queue).timers.pop_first();
            self.reopen(bucket, now);
        }
    }

    /// When a rate may let the next one of a queue through. Timers that mean nothing any more, since
    /// the limit was changed or nobody waits there now, are set right on the way.
    pub(crate) fn next_ring(&mut self, queue: u32, now: Time) -> Option<Time> {
        loop {
            let (at, bucket) = self.queues.at(queue).timers.first().copied()?;
            let parked = &self.permits.buckets.at(bucket).parked;
            let waits = parked.keys().any(|desk| self.desks.at(*desk).queue == queue);
            let blocked = self.permits.blocked(bucket, now).filter(|_| waits);
            if blocked == Some(Blocked::Until(at)) {
                return Some(at);
            }
            let timers = &mut self.queues.at_mut(queue).timers;
            timers.pop_first();
            if let Some(Blocked::Until(at)) = blocked {
                timers.insert((at, bucket));
            }
        }
    }

    pub(super) fn park(&mut self, lane: u32, bucket: u32, blocked: Blocked, now: Time) {
        self.close(lane);
        let row = self.lanes.at_mut(lane);
        row.parked = Some(bucket);
        let (desk, head) = (row.desk, row.head);
        let others = row.buckets();
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        parked.entry(desk).or_default().extend(head);
        if let Blocked::Until(at) = blocked {
            let queue = self.desks.at(desk).queue;
            self.queues.at_mut(queue).timers.insert((at, bucket));
        }
        for other in others.iter().flat_map(|others| others.iter()) {
            if *other != bucket {
                self.try_best(*other, desk, now);
            }
        }
    }

    /// During a claim: opens the best lane of a desk that is parked at a bucket, if the bucket has a
    /// permit; if its rate will have one, the queue's timer is set for then.
    fn try_best(&mut self, bucket: u32, desk: u32, now: Time) {
        let parked = &self.permits.buckets.at(bucket).parked;
        let Some(head) = parked.get(&desk).and_then(|heads| heads.first().copied()) else { return };
        let queue = self.desks.at(desk).queue;
        match self.permits.ask(bucket, now) {
            None => {
                self.unpark(head.lane);
                self.open(head.lane);
                self.woken.insert(queue);
            }
            Some(Blocked::Until(at)) => {
                self.queues.at_mut(queue).timers.insert((at, bucket));
            }
            Some(Blocked::Held) => {}
        }
    }

    pub(super) fn unpark(&mut self, lane: u32) {
        let row = self.lanes.at_mut(lane);
        let (Some(bucket), Some(head), desk) = (row.parked.take(), row.head, row.desk) else {
            return;
        };
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        if let Some(heads) = parked.get_mut(&desk) {
            heads.remove(&head);
            if heads.is_empty() {
                parked.remove(&desk);
            }
        }
    }

    /// A lane with limits has stepped back in the order, because its head was claimed or went away:
    /// whoever is parked at one of its buckets may be better now. Whether there is a permit is found
    /// out when a claim comes to it.
    pub(super) fn step_back(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let (desk, Some(buckets)) = (row.desk, row.buckets()) else { return };
        for bucket in buckets.iter() {
            let parked = &self.permits.buckets.at(*bucket).parked;
            let best = parked.get(&desk).and_then(|heads| heads.first().copied());
            if let Some(head) = best {
                self.unpark(head.lane);
                self.open(head.lane);
            }
        }
    }
}
