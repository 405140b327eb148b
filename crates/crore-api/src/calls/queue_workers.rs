//! The connected workers of each queue.

use std::collections::HashMap;

use crore_wire::api::queues::Queue;

use crate::Api;

/// The connected workers, by queue.
#[derive(Debug)]
pub(super) struct QueueWorkers(HashMap<String, QueueCapacity>);

/// The workers of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QueueCapacity {
    pub(super) workers: usize,
    /// Workers that an operator made quiet.
    pub(super) quiet: usize,
    pub(super) slots: usize,
    /// Slots that run a job of any queue.
    pub(super) busy: usize,
}

impl QueueWorkers {
    pub(super) fn of(&self, queue: &str) -> QueueCapacity {
        self.0.get(queue).copied().unwrap_or_default()
    }
}

impl QueueCapacity {
    pub(super) fn add_to(self, queue: &mut Queue) {
        (queue.workers, queue.slots, queue.busy_slots) = (self.workers, self.slots, self.busy);
    }
}

impl Api {
    /// The workers that are connected by a stream, by queue.
    pub(super) fn queue_workers(&self) -> QueueWorkers {
        let mut queues: HashMap<String, QueueCapacity> = HashMap::new();
        for worker in self.connected_workers().list() {
            if worker.until.is_some() {
                continue;
            }
            for queue in worker.stream.queues {
                let capacity = queues.entry(queue).or_default();
                capacity.workers += 1;
                capacity.quiet += usize::from(worker.stream.quiet);
                capacity.slots += worker.stream.slots;
                capacity.busy += worker.stream.running;
            }
        }
        QueueWorkers(queues)
    }
}
