//! Removal of empty lanes, partitions and queues.

use std::collections::HashSet;

use crore_core::{Name, Time};

use super::rows::QueueRow;
use super::{Lanes, NO_SHARE};

impl Lanes {
    /// Removes empty lanes, partitions and queues, and returns how many.
    pub(crate) fn prune(&mut self, now: Time) -> usize {
        let empty: Vec<u32> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.jobs == 0)
            .map(|(number, _)| number)
            .collect();
        for number in &empty {
            let lane = self.lanes.at_mut(*number);
            let (partition, share, limited) = (lane.partition, lane.share, lane.limited.take());
            let row = self.partitions.at_mut(partition);
            row.lanes.remove(number);
            match limited {
                None if share == NO_SHARE => row.plain = None,
                None => {
                    // A share with one lane has no entry.
                    self.shared.remove(&(partition, share));
                }
                Some(limited) => {
                    limited.buckets.iter().for_each(|bucket| self.permits.remove_lane(*bucket));
                    self.limited.remove(&(partition, share, limited.limits));
                }
            }
            if row.lanes.is_empty() {
                let queue = self.queues.at_mut(row.queue);
                queue.remove_partition(&row.kind, row.version.as_ref());
                self.enter(partition, None);
                self.partitions.remove(partition);
            }
            self.remove_from_share(share);
            self.lanes.remove(*number);
        }
        self.prune_timers();
        self.prune_queues();
        empty.len() + self.permits.prune(now)
    }

    fn prune_queues(&mut self) {
        let is_default = |queue: &QueueRow| !queue.paused && queue.fair_share.is_none();
        let empty = self.queues.iter().filter(|(_, queue)| queue.is_empty() && is_default(queue));
        let empty: Vec<(u32, Name)> =
            empty.map(|(number, queue)| (number, queue.name.clone())).collect();
        for (number, name) in empty {
            self.numbers.remove(&name);
            self.woken.remove(&number);
            self.queues.remove(number);
        }
    }

    /// Removes timers of buckets without parked lanes of the queue, before a bucket number is
    /// reused.
    fn prune_timers(&mut self) {
        let mut parked = HashSet::new();
        for (bucket, row) in self.permits.buckets.iter() {
            parked.extend(
                row.parked.keys().map(|partition| (self.partitions.at(*partition).queue, bucket)),
            );
        }
        let timed = self.queues.iter().filter(|(_, queue)| !queue.timers.is_empty());
        let timed: Vec<u32> = timed.map(|(number, _)| number).collect();
        for number in timed {
            let timers = &mut self.queues.at_mut(number).timers;
            timers.retain(|(_, bucket)| parked.contains(&(number, *bucket)));
        }
    }
}
