//! A job: what its pusher said ([`Spec`]) and where it stands ([`Live`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Delivery, GroupId, JobId, Revision};
use crate::limit::LimitKey;
use crate::name::Name;
use crate::payload::Payload;
use crate::retry::Retry;
use crate::time::{Span, Time};
use crate::unique::Unique;

/// Where a job stands. "Retrying" is `Scheduled` with an attempt behind it; "cancelling" is
/// [`Live::stop`] on a `Running` job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Held until other jobs or groups have ended.
    Waiting,
    /// Due later.
    Scheduled,
    /// May be claimed now.
    Ready,
    /// Claimed; one delivery holds its lease.
    Running,
    /// Ended well.
    Done,
    /// Ended badly and kept for people to look at; may be retried by hand.
    Dead,
    /// Ended because somebody said so.
    Cancelled,
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Scheduled,
        Self::Ready,
        Self::Running,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
    ];

    /// Whether the job has come to an end.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

/// When a job is due, said relative to the store's clock so that no caller's clock matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// At the moment of the write.
    #[default]
    Now,
    /// This long after the moment of the write.
    After(Span),
    /// At an instant; one in the past means now, so that nobody can jump a queue by lying.
    At(Time),
    /// As it was, so that a job handed back keeps its place.
    Keep,
}

impl When {
    /// The instant meant, at `now`, for a job that was due at `before`.
    pub const fn resolve(self, now: Time, before: Time) -> Time {
        match self {
            Self::Now => now,
            Self::After(span) => now.after(span),
            Self::At(time) if time.as_millis() > now.as_millis() => time,
            Self::At(_) => now,
            Self::Keep => before,
        }
    }
}

/// What a lapsed lease, or a worker that vanished, means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lapse {
    /// A crash of the worker: costs no attempt; after `quarantine` crashes the job is dead.
    Crash {
        /// How many crashes are too many; `None`: any number is put up with.
        quarantine: Option<u32>,
    },
    /// A failure like any other: costs an attempt and is retried after the policy's delay.
    Failure,
    /// Costs an attempt, but is tried again at once (Lakh's reservation). A worker that vanished costs none.
    Again,
}

/// Whose report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reports {
    /// Only the current delivery's.
    Fenced,
    /// Any delivery's; and a success also ends a job that waits to be retried.
    Any,
}

/// What becomes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// It is not kept.
    Discard,
    /// It can be read once, within the span.
    Once(Span),
    /// It can be read as often as one likes, within the span.
    For(Span),
}

/// What becomes of a job that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retain {
    /// It is kept as long as its queue's settings say.
    AsQueue,
    /// It is removed in the write that makes it done; if that gives a result to keep, in the write
    /// that takes it, and if nobody does, when its queue's settings say.
    Nothing,
}

/// Something that a job may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Thing {
    /// A job.
    Job(JobId),
    /// A group.
    Group(GroupId),
}

/// What has to become of the thing that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// It has ended, in whatever way (for a group: all have run).
    End,
    /// It has succeeded (for a group: all have). A dead job holds its dependants, since it may be
    /// retried; one that was cancelled or removed breaks them, and they are cancelled too.
    Success,
}

impl Needs {
    /// Both, the weaker first.
    pub const ALL: [Self; 2] = [Self::End, Self::Success];
}

/// One thing that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// The thing.
    pub on: Thing,
    /// What has to become of it.
    pub needs: Needs,
}

/// What the pusher said. It changes only by an operator's edit.
///
/// Stored: a new field needs a default, and a changed one a new version of the stored form. Laid out
/// as written, so that what every claim looks at lies together.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
#[repr(C)]
pub struct Spec {
    /// How long a delivery may be silent; `None`: fire and forget, done when handed over.
    pub lease: Option<Span>,
    /// At most one such job at a time.
    pub unique: Option<Unique>,
    /// Where the job waits.
    pub queue: Name,
    /// What it is to do.
    pub kind: Name,
    /// Smaller first.
    pub priority: i32,
    /// What it is to do it with.
    pub payload: Payload,
    /// How failures are retried.
    pub retry: Retry,
    /// How long one run may take; `None`: as long as it likes.
    pub timeout: Option<Span>,
    /// What a lapsed lease means.
    pub lapse: Lapse,
    /// Whose report counts.
    pub reports: Reports,
    /// What becomes of the result.
    pub keep: Keep,
    /// What becomes of the job when it is done.
    pub retain: Retain,
    /// The caller's own id: unique among the ids that came through the same door.
    pub client_id: Option<ClientId>,
    /// The buckets that a run of this job counts against; computed from the limits at push.
    pub limits: Vec<LimitKey>,
    /// The group that it belongs to; filled in by the store.
    pub group: Option<GroupId>,
    /// What it waits for; filled in by the store.
    pub after: Vec<Dependency>,
    /// The job whose end pushed this one, and its place among that job's follow-ups.
    pub parent: Option<(JobId, u32)>,
    /// Free marks to filter by.
    pub labels: BTreeMap<String, String>,
    /// Trace context, carried from push to run.
    pub trace: Option<Arc<str>>,
}

/// The lease that a job without one of its own is given.
pub const DEFAULT_LEASE: Span = Span::from_secs(30);

impl Spec {
    /// A job of `kind` with the defaults of the native doors.
    pub fn new(queue: Name, kind: Name, payload: Payload) -> Self {
        Self {
            queue,
            kind,
            priority: 0,
            payload,
            retry: Retry::default(),
            lease: Some(DEFAULT_LEASE),
            timeout: None,
            lapse: Lapse::Crash { quarantine: Some(3) },
            reports: Reports::Fenced,
            keep: Keep::Discard,
            retain: Retain::AsQueue,
            unique: None,
            client_id: None,
            limits: Vec::new(),
            group: None,
            after: Vec::new(),
            parent: None,
            labels: BTreeMap::new(),
            trace: None,
        }
    }
}

/// A caller's own id for a job, and the door within which it is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// The door: `lakh:mail`, `faktory`, `native`.
    pub door: Name,
    /// The id as the caller wrote it.
    pub id: Arc<str>,
}

/// How a delivery came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It reported success.
    Done,
    /// It reported a failure.
    Failed,
    /// It asked to be run again later.
    Snoozed,
    /// It was handed back unfinished.
    Interrupted,
    /// It was silent until its lease ended, or its stream closed.
    Lapsed,
    /// It took longer than the job's timeout.
    TimedOut,
    /// It stopped because it was asked to, or gave the job up for good.
    Cancelled,
}

/// One delivery in a job's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number.
    pub delivery: Delivery,
    /// When it was handed over.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// Who had it.
    pub worker: Option<Name>,
    /// How it ended.
    pub ended: Ended,
    /// What it said, for those that did not end well.
    pub error: Option<Arc<str>>,
}

/// Why a job is dead or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It failed as often as it may.
    Exhausted,
    /// It failed, and the report said not to try again.
    NotRetried,
    /// Its workers crashed too often.
    Quarantined,
    /// Somebody cancelled it.
    Asked,
    /// Its worker gave it up for good.
    GivenUp,
    /// Something that it waited for can no longer succeed.
    DependencyBroken,
    /// Its record could not be read any more: the disk has damaged it.
    Damaged,
}

/// A result that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The result.
    pub payload: Payload,
    /// It is gone from here on.
    pub until: Time,
    /// Whether the first reader takes it away.
    pub once: bool,
}

/// How many deliveries a job's history keeps.
pub const MAX_HISTORY: usize = 10;

/// Where a job stands.
///
/// Stored: a new field needs a default, and a changed one a new version of the stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The state.
    pub state: State,
    /// Whether a running job was asked to stop.
    pub stop: bool,
    /// Whether this job was already counted as run in its group.
    pub counted: bool,
    /// Whether something that it waits for can no longer succeed.
    pub broken: bool,
    /// How many things it still waits for.
    pub waits: u32,
    /// The newest delivery.
    pub delivery: Delivery,
    /// How often the record was changed.
    pub revision: Revision,
    /// Deliveries that counted against the maximum, the current one included.
    pub attempt: u32,
    /// Deliveries that ended by a crash of their worker.
    pub crashes: u32,
    /// When it was pushed.
    pub pushed_at: Time,
    /// When it may start, and its place in the order among equals in priority.
    pub due: Time,
    /// When the newest delivery was handed over.
    pub started_at: Time,
    /// When the current lease ends.
    pub lease_until: Time,
    /// When the job ended.
    pub ended_at: Option<Time>,
    /// Who has it, or had it last.
    pub worker: Option<Name>,
    /// Why it is dead or cancelled.
    pub why: Option<Why>,
    /// How earlier deliveries ended, newest first, at most [`MAX_HISTORY`].
    pub history: Vec<Attempt>,
    /// The result, while it is kept.
    pub result: Option<Kept>,
}

/// A job as a store keeps it. Cloning shares the spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What its pusher said.
    pub spec: Arc<Spec>,
    /// Where it stands.
    pub live: Live,
}

/// What a caller saw of a job. A guarded write applies only while the job still looks like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The state.
    pub state: State,
    /// The newest delivery: no two runs of a job share one, not even across a crash.
    pub delivery: Delivery,
    /// The revision.
    pub revision: Revision,
    /// When the lease ends, if that is what the decision is about: a renewal is no new revision, so
    /// that no report is stale by it, but the end of a lease that was renewed is.
    pub lease_until: Option<Time>,
}

impl Job {
    /// What there is to see of the job now.
    pub const fn seen(&self) -> Seen {
        self.live.seen()
    }

    /// The result, unless its time is over.
    pub fn result_at(&self, now: Time) -> Option<&Kept> {
        self.live.result.as_ref().filter(|kept| now < kept.until)
    }
}
