//! Converts queues and their settings.

use crore_core::{Code, Invalid, Span};

use super::{millis, v1};
use crate::api::queues::{ChangeQueue, Queue, QueueIndexField, QueueShare};
use crate::units::Period;

impl From<Queue> for v1::Queue {
    fn from(queue: Queue) -> Self {
        Self {
            name: queue.name,
            paused: queue.paused,
            counts: queue.counts,
            keep_done_ms: millis(queue.keep_done.0),
            max_done: queue.max_done,
            keep_dead_ms: millis(queue.keep_dead.0),
            max_dead: queue.max_dead,
            fair: queue.fair.map(|QueueShare { by, weights }| v1::QueueShare { by, weights }),
            index: queue.index.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<QueueIndexField> for v1::IndexedField {
    fn from(QueueIndexField { field, complete }: QueueIndexField) -> Self {
        Self { field, complete }
    }
}

impl v1::ChangeQueueRequest {
    /// The changes.
    pub fn read(self) -> Result<ChangeQueue, Invalid> {
        let period = |ms: Option<u64>| ms.map(|ms| Period(Span::from_millis(ms)));
        let share = |share: v1::QueueShare| QueueShare { by: share.by, weights: share.weights };
        let index = Some(self.index).filter(|fields| !fields.is_empty());
        Ok(ChangeQueue {
            keep_done: period(self.keep_done_ms),
            max_done: or_removed("max_done", self.max_done, self.any_done)?,
            keep_dead: period(self.keep_dead_ms),
            max_dead: or_removed("max_dead", self.max_dead, self.any_dead)?,
            fair: or_removed("fair", self.fair.map(share), self.not_fair)?,
            index: or_removed("index", index, self.not_indexed)?,
        })
    }
}

/// A new value, or its removal; `None`: unchanged.
fn or_removed<T>(
    field: &str,
    value: Option<T>,
    removed: bool,
) -> Result<Option<Option<T>>, Invalid> {
    match (value, removed) {
        (Some(_), true) => {
            let why = "is set and removed at the same time; send one of them";
            Err(Invalid::new(Code::Malformed, field, why))
        }
        (None, true) => Ok(Some(None)),
        (value, false) => Ok(value.map(Some)),
    }
}
