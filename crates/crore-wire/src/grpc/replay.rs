//! Converts replays to core types.

use crore_core::job::DueTime;
use crore_core::{Invalid, Name, Payload, ReplayEdits, Span, Time};

use super::v1::{self, replay_edits, replay_request};
use crate::api::replay::{ReplayAll, version_edit};
use crate::units::{Moment, Period};

impl v1::ReplayRequest {
    /// The edits.
    pub fn edits(&self) -> Result<ReplayEdits, Invalid> {
        let payload = match &self.payload {
            Some(bytes) => Some(Payload::new(v1::Encoding::read(self.encoding)?, bytes.to_vec())),
            None => None,
        };
        let due = self.when.map(|when| match when {
            replay_request::When::DueMs(due) => DueTime::At(Time::from_millis(due)),
            replay_request::When::DelayMs(delay) => DueTime::After(Span::from_millis(delay)),
        });
        Ok(ReplayEdits {
            payload,
            queue: self.queue.as_deref().map(|queue| Name::new("queue", queue)).transpose()?,
            priority: self.priority,
            worker_version: version_edit(version(self.worker_version.as_deref()))?,
            due,
        })
    }
}

impl From<v1::ReplayEdits> for ReplayAll {
    fn from(edits: v1::ReplayEdits) -> Self {
        let (due, delay) = match edits.when {
            Some(replay_edits::When::DueMs(due)) => (Some(Moment(Time::from_millis(due))), None),
            Some(replay_edits::When::DelayMs(delay)) => {
                (None, Some(Period(Span::from_millis(delay))))
            }
            None => (None, None),
        };
        let worker_version = version(edits.worker_version.as_deref());
        Self {
            queue: edits.queue,
            priority: edits.priority,
            worker_version: worker_version.map(|text| text.map(str::to_owned)),
            due,
            delay,
        }
    }
}

/// An empty text stands for any worker.
fn version(text: Option<&str>) -> Option<Option<&str>> {
    text.map(|text| (!text.is_empty()).then_some(text))
}
