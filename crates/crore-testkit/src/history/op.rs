//! What callers ask for.

use crore_core::job::{Keep, Lapse, Reports, Retain};
use crore_core::limit::LimitKey;
use crore_core::push::{After, GroupRef};
use crore_core::retry::Retry;
use crore_core::schedule::{Missed, Timing};
use crore_core::unique::Unique;
use crore_core::{Delivery, JobId, Name, NewJob, Span, Time};
use serde::{Deserialize, Serialize};

use super::Hash;
pub use crore_core::job::When;

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", content = "a", rename_all = "kebab-case")]
pub enum Op {
    /// One atomic batch of jobs. Answered by [`super::Answer::Pushed`].
    Push {
        /// How many new groups the batch brings.
        #[serde(default)]
        groups: usize,
        /// The jobs.
        items: Vec<Item>,
    },
    /// Takes ready jobs. Answered by [`super::Answer::Fetched`].
    Fetch {
        /// From which queues.
        queues: Vec<Name>,
        /// Only these kinds; none: any.
        #[serde(default)]
        kinds: Option<Vec<Name>>,
        /// At most so many.
        n: usize,
        /// Whether the queues are emptied one after the other, and not merged.
        #[serde(default)]
        strict: bool,
    },
    /// Extends leases. Answered by [`super::Answer::Renewed`].
    Renew {
        /// Which.
        leases: Vec<Lease>,
    },
    /// Says how a delivery went. Answered by [`super::Answer::Reported`].
    Report {
        /// The job.
        id: JobId,
        /// The delivery; none where the wire has no word for it.
        delivery: Option<Delivery>,
        /// How it went.
        outcome: Outcome,
        /// Jobs to push if this makes the job done.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_done: Vec<Item>,
        /// Jobs to push if this makes the job dead.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on_dead: Vec<Item>,
    },
    /// Somebody wants something of a job by hand. Answered by [`super::Answer::Changed`].
    Admin {
        /// The job.
        id: JobId,
        /// What is wanted.
        want: Want,
    },
    /// The engine noticed something about a job and had it decided. Only harnesses that drive the
    /// upkeep themselves see these; no check needs them, some are sharper with them. Answered by
    /// [`super::Answer::Changed`].
    Notice {
        /// The job.
        id: JobId,
        /// The delivery that it is about, if it is about one.
        delivery: Option<Delivery>,
        /// What was noticed.
        what: Noticed,
    },
    /// Takes a result away, or reads one that is kept for many. Answered by
    /// [`super::Answer::Result`].
    TakeResult {
        /// The job.
        id: JobId,
    },
    /// Looks at a job. Answered by [`super::Answer::Job`].
    Get {
        /// The job.
        id: JobId,
    },
    /// Ticks of a schedule are accounted for. Answered by [`super::Answer::Ticked`].
    Tick {
        /// The schedule.
        schedule: Name,
        /// The last tick that is accounted for with this.
        cursor: Time,
        /// The tick of each item, in the same order.
        fire: Vec<Time>,
        /// The jobs.
        items: Vec<Item>,
    },
    /// Sets or removes definitions, each answered singly by [`super::Answer::Defined`].
    Define {
        /// Which.
        entries: Vec<Entry>,
    },
    /// Which jobs there are, some or all. It says nothing of their states, only whose number is whose
    /// payload, so a harness may note it whenever it learns of that. Answered by
    /// [`super::Answer::Listed`].
    List,
    /// How many jobs there are. Answered by [`super::Answer::Counts`].
    Counts,
}

/// A job to be pushed, as its pusher said it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The caller's own number of it.
    pub seq: u64,
    /// Where it waits.
    pub queue: Name,
    /// What it is to do.
    pub kind: Name,
    /// Smaller first.
    pub priority: i32,
    /// When it is due.
    pub due: When,
    /// How often and when it is retried.
    pub retry: Retry,
    /// Its lease; none: done when handed over.
    pub lease: Option<Span>,
    /// How long one run may take; none: as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// What a lapsed lease means.
    pub lapse: Lapse,
    /// Whose report counts.
    pub reports: Reports,
    /// What becomes of its result.
    pub keep: Keep,
    /// What becomes of it when it is done.
    pub retain: Retain,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// The group that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupRef>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// The buckets that it counts against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitKey>,
    /// Its payload.
    pub payload: Hash,
}

impl Item {
    /// What is recorded of a new job.
    pub fn of(seq: u64, job: &NewJob) -> Self {
        let spec = &job.spec;
        Self {
            seq,
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            priority: spec.priority,
            due: job.due,
            retry: spec.retry,
            lease: spec.lease,
            timeout: spec.timeout,
            lapse: spec.lapse,
            reports: spec.reports,
            keep: spec.keep,
            retain: spec.retain,
            unique: spec.unique.clone(),
            group: job.group,
            after: job.after.clone(),
            limits: spec.limits.clone(),
            payload: Hash::of(&spec.payload),
        }
    }
}

/// A lease to extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The job.
    pub id: JobId,
    /// The delivery that holds it.
    pub delivery: Delivery,
    /// For how long from now; none: as the job's spec says.
    pub span: Option<Span>,
}

/// How a delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Well.
    Done {
        /// What it gave.
        result: Option<Hash>,
    },
    /// Badly.
    Failed {
        /// Whether and when to try again.
        again: Again,
        /// What went wrong, for programs: kept like a result if the job dies of it.
        detail: Option<Hash>,
    },
    /// Not yet: again after this long, at no cost.
    Snooze(Span),
    /// It was given up for good, or stopped because it was asked to.
    Cancel,
    /// It was handed back unfinished, at no cost.
    Interrupted,
}

/// Whether and when to try again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Again {
    /// As the job's policy says.
    ByPolicy,
    /// After this long.
    After(Span),
    /// Not at all.
    Never,
}

/// What somebody wants of a job by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// That it does not run, or stops.
    Cancel,
    /// That it runs again, or now.
    Retry,
    /// That it is gone.
    Delete,
    /// That it runs elsewhere or at another time. What is none stays.
    Edit {
        /// Another queue.
        queue: Option<Name>,
        /// Another priority.
        priority: Option<i32>,
        /// Another time.
        due: Option<When>,
        /// Other buckets.
        limits: Option<Vec<LimitKey>>,
    },
}

/// What the engine noticed about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noticed {
    /// A lease ended without a report.
    Lapsed,
    /// Its worker left, in the open, before its lease ended.
    Left,
    /// A run took longer than it may.
    TimedOut,
    /// A job without a lease was handed over.
    HandedOver,
    /// Something that it waits for can no longer succeed.
    Broken,
}

/// A definition to set or to remove.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the limit, queue or schedule.
    pub name: Name,
    /// What becomes of it.
    pub to: Meaning,
    /// How long it holds; none: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

/// What becomes of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// A limit. Which jobs it is about stands with the jobs, as their keys.
    Limit {
        /// How many may run at once.
        concurrency: Option<u32>,
        /// How many may start in a span.
        rate: Option<Rate>,
    },
    /// The limit is removed.
    NoLimit,
    /// Settings of a queue.
    Queue(Queue),
    /// The settings are removed, so the defaults hold.
    NoQueue,
    /// A schedule.
    Schedule {
        /// When it fires.
        timing: Timing,
        /// What becomes of ticks that nobody was there for.
        missed: Missed,
        /// The last tick that is accounted for.
        cursor: Time,
        /// Whether it is not to fire.
        paused: bool,
    },
    /// The schedule is removed.
    NoSchedule,
    /// Anything else that a registry keeps; of no meaning to jobs.
    Other,
}

/// So many jobs in a span of time, and how many of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many in every span.
    pub count: u32,
    /// The span.
    pub every: Span,
    /// How many at once.
    pub burst: u32,
}

/// Settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Whether its jobs are not handed out.
    pub paused: bool,
    /// How long done and cancelled jobs are kept.
    pub keep_done: Span,
    /// How many done and cancelled jobs are kept, each.
    pub max_done: u64,
    /// How long dead jobs are kept.
    pub keep_dead: Span,
    /// How many dead jobs are kept.
    pub max_dead: u64,
}

impl Default for Queue {
    fn default() -> Self {
        const DAY: Span = Span::from_secs(24 * 60 * 60);
        Self {
            paused: false,
            keep_done: DAY,
            max_done: 100_000,
            keep_dead: DAY.times(180),
            max_dead: u64::MAX,
        }
    }
}
