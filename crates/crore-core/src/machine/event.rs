//! What can happen to a job, and what a decision about it says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::group::Tally;
use crate::id::{Delivery, JobId};
use crate::job::{Ended, Keep, Seen, Spec, When, Why};
use crate::payload::Payload;
use crate::push::NewJob;
use crate::time::Span;

/// Something that happened to a job, or that somebody asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker or runner reports how a delivery went.
    Finished {
        /// Which delivery; `None` where the wire has no word for it.
        delivery: Option<Delivery>,
        /// What it says.
        report: Report,
    },
    /// A delivery's lease ended without a report.
    Lapsed(Delivery),
    /// A delivery's worker is gone, and was so before its lease ended: its stream closed.
    Vanished(Delivery),
    /// A delivery took longer than the job's timeout.
    TimedOut(Delivery),
    /// A job that is fire and forget was handed over.
    HandedOver(Delivery),
    /// Somebody wants the job not to run, or to stop.
    Cancel,
    /// Somebody wants the job to run again, or now.
    Retry,
    /// Somebody wants the job gone. Its group goes on without it.
    Delete,
    /// An ended job was kept long enough. If it never succeeded, its group never can.
    Prune,
    /// Somebody changes where or when the job runs.
    Edit(Edit),
    /// A reader takes the result.
    TakeResult,
    /// Something that the job waits for can no longer succeed.
    Broken,
}

/// How a delivery went, and what is to follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it went.
    pub outcome: Outcome,
    /// Jobs to push if this makes the job done.
    pub on_done: Vec<NewJob>,
    /// Jobs to push if this makes the job dead.
    pub on_dead: Vec<NewJob>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, on_done: Vec::new(), on_dead: Vec::new() }
    }
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Well.
    Done {
        /// What it gave.
        result: Option<Payload>,
    },
    /// Badly.
    Failed {
        /// What went wrong, in words.
        error: Arc<str>,
        /// What went wrong, for programs; kept like a result if the job dies of it.
        detail: Option<Payload>,
        /// Whether and when to try again.
        again: Again,
    },
    /// Not yet: run it again after this long, at no cost in attempts.
    Snooze(Span),
    /// It was given up for good, or stopped because it was asked to.
    Cancel,
    /// It was handed back unfinished, at no cost in attempts.
    Interrupted,
}

/// What a failure report says about trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// As the job's policy says.
    ByPolicy,
    /// After this long, as far as the policy allows another attempt at all.
    After(Span),
    /// Not at all.
    Never,
}

/// A change of where or when a job runs. What is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// What it is from now on: the spec with another queue, priority or other limit keys.
    pub spec: Option<Arc<Spec>>,
    /// When it is due.
    pub due: Option<When>,
}

/// Why an event changes nothing. An answer, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The report is of a delivery that does not count any more.
    Stale,
    /// The job has ended.
    Ended,
    /// The job is running.
    Running,
    /// The job is not in a state for which this means anything.
    NotNow,
    /// There is nothing to take, or it was asked for before.
    Nothing,
}

/// A decision: what a job's record becomes and what else happens, in one atomic write.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The job.
    pub id: JobId,
    /// What the decision was based on; the write applies only while this is still so.
    pub seen: Seen,
    /// What the record becomes.
    pub next: Next,
    /// What happens to other records.
    pub effects: Vec<Effect>,
}

/// What a job's record becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// It is removed.
    Gone,
    /// It is kept, like this.
    Live(Box<NextLive>),
}

/// The part of a record that a change sets. Times are the store's to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct NextLive {
    /// The state.
    pub state: NextState,
    /// When it is due.
    pub due: When,
    /// Attempts so far.
    pub attempt: u32,
    /// Crashes so far.
    pub crashes: u32,
    /// Whether it is asked to stop.
    pub stop: bool,
    /// Whether it was counted as run in its group.
    pub counted: bool,
    /// Whether something that it waits for can no longer succeed.
    pub broken: bool,
    /// Why it is dead or cancelled.
    pub why: Option<Why>,
    /// Whether the current delivery ends with this, how, and what it said.
    pub ended: Option<(Ended, Option<Arc<str>>)>,
    /// What becomes of the result.
    pub result: ResultChange,
    /// The spec, if it changes.
    pub spec: Option<Arc<Spec>>,
}

/// The state that a change leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextState {
    /// Waiting, scheduled or ready: the store knows which, by what the job still waits for and by
    /// when it is due.
    Pending,
    /// Running still.
    Running,
    /// Done.
    Done,
    /// Dead.
    Dead,
    /// Cancelled.
    Cancelled,
}

/// What becomes of a job's result.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultChange {
    /// It stays as it is.
    Leave,
    /// It is removed.
    Drop,
    /// It is set, and kept as the job's spec says, from the moment of the write.
    Set(Payload, Keep),
}

/// What a change of one job does to other records. Each is applied exactly once, and in the order of
/// the change: follow-ups may join the group that is counted next.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The permits that the ended delivery held go back.
    ReturnPermits,
    /// The job's unique key is free again, if this job still holds it.
    ReleaseKey,
    /// The job's group counts.
    Tally(Tally),
    /// Jobs that wait for this one are told what became of it.
    Settle(Settled),
    /// Follow-ups are pushed; the n-th knows this job and n as its parent.
    Push(Vec<NewJob>),
}

/// What became of a job, for those that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// It succeeded: all that waited for it are released.
    Succeeded,
    /// It failed, but may be retried: those that need its end are released, others held.
    Failed,
    /// It will not succeed: those that need its end are released, others are broken.
    Gone,
}
