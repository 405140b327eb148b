//! Sweeping: what is empty goes.

use std::collections::HashSet;

use crore_core::{Name, Time};

use super::Lanes;

impl Lanes {
    /// Drops lanes, desks and queues that nothing stands in. Gives how many.
    pub(crate) fn prune(&mut self, now: Time) -> usize {
        let empty: Vec<u32> =
            self.lanes.iter().filter(|(_, lane)| lane.jobs == 0).map(|(no, _)| no).collect();
        for no in &empty {
            let lane = self.lanes.at_mut(*no);
            let (desk, limited) = (lane.desk, lane.limited.take());
            let row = self.desks.at_mut(desk);
            row.lanes.remove(no);
            match limited {
                None => row.plain = None,
                Some(limited) => {
                    limited.buckets.iter().for_each(|bucket| self.permits.leave(*bucket));
                    self.limited.remove(&(desk, limited.limits));
                }
            }
            if row.lanes.is_empty() {
                let queue = self.queues.at_mut(row.queue);
                queue.desks.remove(&row.kind);
                self.desks.remove(desk);
            }
            self.lanes.remove(*no);
        }
        self.prune_timers();
        self.prune_queues();
        empty.len() + self.permits.prune(now)
    }

    fn prune_queues(&mut self) {
        let empty = self.queues.iter().filter(|(_, queue)| queue.desks.is_empty() && !queue.paused);
        let empty: Vec<(u32, Name)> = empty.map(|(no, queue)| (no, queue.name.clone())).collect();
        for (no, name) in empty {
            self.numbers.remove(&name);
            self.woken.remove(&no);
            self.queues.remove(no);
        }
    }

    /// Drops timers of buckets that no lane of the queue is parked at, before their number is used
    /// for another.
    fn prune_timers(&mut self) {
        let mut parked = HashSet::new();
        for (bucket, row) in self.permits.buckets.iter() {
            parked.extend(row.parked.keys().map(|desk| (self.desks.at(*desk).queue, bucket)));
        }
        let timed = self.queues.iter().filter(|(_, queue)| !queue.timers.is_empty());
        let timed: Vec<u32> = timed.map(|(no, _)| no).collect();
        for no in timed {
            let timers = &mut self.queues.at_mut(no).timers;
            timers.retain(|(_, bucket)| parked.contains(&(no, *bucket)));
        }
    }
}
