//! Where the index has a job: all that it knows of one.

use crore_core::{Job, State, Time};

use super::lanes::Head;
use super::records::Record;
use super::run::Slot;

/// What of a record decides where the job stands in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) lane: u32,
    pub(crate) state: State,
    pub(crate) broken: bool,
    pub(crate) priority: i32,
    /// Its place among those of its state.
    pub(crate) slot: Slot,
    pub(crate) lease_until: Time,
    pub(crate) result_until: Option<Time>,
}

impl Place {
    /// The place of a ready job at the head of its lane.
    pub(crate) const fn ready(head: Head) -> Self {
        Self {
            lane: head.lane,
            state: State::Ready,
            broken: false,
            priority: head.priority,
            slot: Slot { at: head.at, id: head.id },
            lease_until: Time::ZERO,
            result_until: None,
        }
    }

    pub(crate) fn of(record: &Record) -> Self {
        let live = &record.job.live;
        Self {
            lane: record.lane,
            state: live.state,
            broken: live.broken,
            priority: record.priority,
            slot: slot_of(&record.job),
            lease_until: live.lease_until,
            result_until: live.result.as_ref().map(|kept| kept.until),
        }
    }
}

/// Each state has the order that it is asked for in.
fn slot_of(job: &Job) -> Slot {
    let at = match job.live.state {
        State::Ready | State::Scheduled => job.live.due,
        State::Waiting | State::Running => Time::ZERO,
        State::Done | State::Dead | State::Cancelled => job.live.ended_at.unwrap_or_default(),
    };
    Slot { at, id: job.id }
}
