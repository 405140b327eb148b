//! Position of a job in the index.

use crore_core::{Job, State, Time};

use super::lanes::LaneHead;
use super::records::JobRecord;
use super::sorted_run::RunSlot;

/// The fields of a record that determine its position in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexPosition {
    pub(crate) lane: u32,
    pub(crate) state: State,
    pub(crate) broken: bool,
    pub(crate) priority: i32,
    /// Sort key among the jobs of the same state.
    pub(crate) slot: RunSlot,
    pub(crate) lease_until: Time,
    pub(crate) result_until: Option<Time>,
    /// Deadline for the first start, while a decision about it may be needed.
    pub(crate) deadline: Option<Time>,
}

impl IndexPosition {
    /// Position of a ready job at the head of its lane.
    pub(crate) const fn ready(head: LaneHead) -> Self {
        Self {
            lane: head.lane,
            state: State::Ready,
            broken: false,
            priority: head.priority,
            slot: RunSlot { at: head.at, id: head.id },
            lease_until: Time::ZERO,
            result_until: None,
            deadline: None,
        }
    }

    /// Position in its lane, if the job is ready.
    pub(crate) fn lane_head(&self) -> Option<LaneHead> {
        let Self { priority, lane, slot, .. } = *self;
        let head = LaneHead { priority, at: slot.at, id: slot.id, lane };
        (self.state == State::Ready).then_some(head)
    }

    pub(crate) fn of(record: &JobRecord) -> Self {
        let live = &record.job.live;
        Self {
            lane: record.lane,
            state: live.state,
            broken: live.broken,
            priority: record.priority,
            slot: slot_of(&record.job),
            lease_until: live.lease_until,
            result_until: live.result.as_ref().map(|kept| kept.until),
            deadline: indexed_deadline(live.state, live.broken, live.deadline),
        }
    }
}

/// The deadline, if a decision about it may be needed: not of a job with a broken dependency, which is cancelled
/// anyway.
pub(crate) const fn indexed_deadline(
    state: State,
    broken: bool,
    deadline: Option<Time>,
) -> Option<Time> {
    match state {
        State::Waiting | State::Scheduled | State::Ready if !broken => deadline,
        _ => None,
    }
}

/// Sort key by the list order of the job's state.
fn slot_of(job: &Job) -> RunSlot {
    let at = match job.live.state {
        State::Ready | State::Scheduled => job.live.due,
        State::Waiting | State::Running => Time::ZERO,
        State::Done | State::Dead | State::Cancelled => job.live.ended_at.unwrap_or_default(),
    };
    RunSlot { at, id: job.id }
}
