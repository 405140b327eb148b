//! Read access for user interfaces and operators, and the notes kept for them.

use std::sync::Arc;

use crore_core::fair::FairKey;
use crore_core::group::Group;
use crore_core::limit::LimitKey;
use crore_core::version::VersionRequirement;
use crore_core::{
    Delivery, GroupId, IndexKey, Job, JobId, JobStats, Name, Restriction, Span, State, Time,
};

use crate::bug::planted;
use crate::{StoreFuture, StorePart};

/// Read operations, and writing notes.
pub trait Views: StorePart {
    /// Stores notes: progress and log lines of a running delivery, and statistics. Notes of a
    /// delivery that is not the running one are dropped and not counted. Returns how many were
    /// stored, statistics included. A job's notes stay until the job is removed, across deliveries.
    /// Not durable when the future resolves: notes may be lost in a crash.
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize>;

    /// Returns the notes of a job; empty if there are none.
    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes>;

    /// Returns a page of jobs. Indexes serve state, queue and kind; `kind` without `queue` visits
    /// every queue that has the kind.
    ///
    /// Each state has its own order: ready jobs in claim order; scheduled jobs by due time; waiting
    /// and running jobs by id; done, dead and cancelled jobs by end time, newest first, and larger
    /// ids first among equal times.
    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage>;

    /// Whether [`list`](Self::list) finds jobs by index key. Otherwise it ignores keys, and a search reads all jobs.
    fn has_index(&self) -> bool {
        false
    }

    /// Returns the number of jobs by queue, kind and state, in this order, without zeros. The store
    /// maintains the counts; it does not compute them on demand.
    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>>;

    /// Returns the number of ready jobs that require a version, by queue, kind and requirement, in this order, without
    /// zeros. Like [`counts`](Self::counts), it is not computed on demand. A store that refuses such jobs has none.
    fn required_versions(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<RequiredVersion>> {
        drop(queue);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns up to `n` keys that are paused, of one limit or of all, in order, with the end of each pause. A store
    /// that refuses pauses has none.
    fn paused_keys(&self, limit: Option<Name>, n: usize) -> StoreFuture<'_, Vec<PausedKey>> {
        drop((limit, n));
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns the keys of limits that hold back ready jobs now, of one queue or of all: up to `n`, the ones with most
    /// jobs first. A job is held back at one key, even if several have no permit for it; jobs that no claim has
    /// reached are not. The store visits a bounded number of keys and lanes. A store that does not know has none.
    fn held_back(&self, queue: Option<Name>, n: usize) -> StoreFuture<'_, Vec<HeldBack>> {
        drop((queue, n));
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns, for each queue, since when its oldest ready job is due; `None` if it has no ready job, or if the store
    /// does not know. In a queue with more than 1,000 lanes only the jobs of the first ones count.
    fn oldest_ready(&self, queues: Vec<Name>) -> StoreFuture<'_, Vec<Option<Time>>> {
        Box::pin(std::future::ready(Ok(vec![None; queues.len()])))
    }

    /// Returns the `n` fair keys of a shared queue with most ready jobs, the largest first. In a queue with more than
    /// 10,000 lanes only the jobs of the first ones count. A store that does not know has none.
    fn largest_shares(&self, queue: Name, n: usize) -> StoreFuture<'_, Vec<ShareCount>> {
        drop((queue, n));
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns up to `n` groups with ids below `before`, or the newest ones, in descending order of ids. A store that
    /// cannot list groups has none.
    fn groups(&self, before: Option<GroupId>, n: usize) -> StoreFuture<'_, Vec<GroupRow>> {
        let _ = (before, n);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns a statistic over time, oldest bucket first, each with its start time; empty buckets
    /// are left out. Buckets start at multiples of the step since the epoch. The current bucket
    /// counts among the [`StatStep::buckets`] that are kept.
    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>>;

    /// Returns statistics of jobs by queue and kind ([`Note::Jobs`]), summed up as the query asks; rows
    /// without any statistics are left out. Buckets are those of [`Views::stats`]. The store limits the
    /// size of all statistics together, so the oldest buckets may be dropped before their age is reached.
    ///
    /// At most [`MAX_SERIES`] combinations of queue and kind have statistics of their own, in the order
    /// of their first note; further ones are summed up as `other`, which only a query without any
    /// restriction includes. When there are too many, one without notes for a week gives up its place,
    /// and its past becomes part of `other`.
    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>>;
}

/// A note to store.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// Progress of a delivery.
    Progress {
        /// The job.
        id: JobId,
        /// The delivery.
        delivery: Delivery,
        /// 0 to 100.
        percent: u8,
        /// Description of the progress.
        text: Arc<str>,
    },
    /// A log line of a delivery.
    Line {
        /// The job.
        id: JobId,
        /// The delivery.
        delivery: Delivery,
        /// Text of the line.
        text: Arc<str>,
    },
    /// Increment of a statistic at the current time.
    Stat {
        /// Name of the statistic.
        series: Name,
        /// Increment.
        n: u64,
    },
    /// Statistics of jobs, added to those of the current time.
    Jobs {
        /// Their queue and kind; `None`: they count as `other`.
        series: Option<(Name, Name)>,
        /// The statistics.
        stats: Box<JobStats>,
    },
}

/// Maximum number of combinations of queue and kind with statistics of their own.
pub const MAX_SERIES: usize = 1000;

/// Maximum log lines kept per job; the oldest is dropped first.
pub const MAX_LOG_LINES: usize = 100;

/// The notes of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobNotes {
    /// The latest progress: time, percent, text.
    pub progress: Option<(Time, u8, Arc<str>)>,
    /// The latest log lines, oldest first.
    pub lines: Vec<(Time, Arc<str>)>,
}

/// Resolution and retention of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatStep {
    /// One-minute buckets, kept for a day.
    Minute,
    /// One-hour buckets, kept for 90 days.
    Hour,
    /// One-day buckets (UTC), kept for 400 days.
    Day,
}

impl StatStep {
    /// Every resolution.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Length of a bucket.
    pub const fn span(self) -> Span {
        match self {
            Self::Minute => Span::from_secs(60),
            Self::Hour => Span::from_secs(3600),
            Self::Day => Span::from_secs(24 * 3600),
        }
    }

    /// Number of buckets kept.
    pub const fn buckets(self) -> u64 {
        match self {
            Self::Minute => 24 * 60,
            Self::Hour => 90 * 24,
            Self::Day => 400,
        }
    }
}

/// Selection of statistics of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatsQuery {
    /// Queue of the jobs; `None` means all.
    pub queue: Option<Name>,
    /// Kind of the jobs; `None` means all.
    pub kind: Option<Name>,
    /// Only what this covers; `None` means all.
    pub within: Option<Arc<Restriction>>,
    /// Length of the buckets.
    pub step: StatStep,
    /// Beginning: buckets that end later are included.
    pub from: Time,
    /// End: buckets that start earlier are included.
    pub to: Time,
    /// Grouping of the rows.
    pub shape: StatsShape,
}

impl JobStatsQuery {
    /// Whether it selects the jobs of this queue and kind.
    pub fn matches(&self, queue: &Name, kind: &Name) -> bool {
        let is_within = self.within.as_ref().is_none_or(|within| within.covers(queue, kind));
        let is_kind = planted!("bug-52") || self.kind.as_ref().is_none_or(|it| it == kind);
        is_within && is_kind && self.queue.as_ref().is_none_or(|it| it == queue)
    }

    /// Whether it selects jobs that are counted as `other`.
    pub const fn includes_other(&self) -> bool {
        self.queue.is_none() && self.kind.is_none() && self.within.is_none()
    }
}

/// Rows of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsShape {
    /// A row for each bucket, oldest first; series are summed up.
    OverTime,
    /// A row for each series, in order of queue and kind, `other` last; buckets are summed up.
    BySeries,
}

/// Statistics of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatsRow {
    /// Queue and kind; `None` for `other`, and in [`StatsShape::OverTime`].
    pub series: Option<(Name, Name)>,
    /// Start of the first bucket with statistics.
    pub at: Time,
    /// The statistics.
    pub stats: JobStats,
}

/// Selection of jobs for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// State of the jobs.
    pub state: State,
    /// Queue of the jobs; `None` means all.
    pub queue: Option<Name>,
    /// Kind of the jobs; `None` means all.
    pub kind: Option<Name>,
    /// Index key of the jobs ([`IndexKey::of_job`]); `None` means all. Only for a store that has an
    /// [index](Views::has_index); others ignore it.
    pub key: Option<IndexKey>,
    /// Where the previous page ended; `None` means the first page.
    pub after: Option<Cursor>,
    /// Maximum number of jobs.
    pub n: usize,
}

/// End of a page. Valid for the same state, queue, kind and key. Jobs that enter or leave the list
/// between pages may or may not appear; no job that stays in it is skipped or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Priority, for ready jobs; else zero.
    pub priority: i32,
    /// Time by which the state is ordered; zero where the order is by id.
    pub at: Time,
    /// The last job of the page.
    pub id: JobId,
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; `None` if this is the last one.
    pub next: Option<Cursor>,
}

/// Number of jobs of one queue, kind and state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobCount {
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The state.
    pub state: State,
    /// Number of jobs.
    pub n: u64,
}

/// A key of a limit under which no job starts for some time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PausedKey {
    /// The key.
    pub key: LimitKey,
    /// The end of the pause.
    pub until: Time,
}

/// Ready jobs of one queue that a key of a limit holds back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// The queue.
    pub queue: Name,
    /// The key.
    pub key: LimitKey,
    /// Number of ready jobs.
    pub jobs: u64,
    /// Number of running jobs of all queues that hold a permit of the key.
    pub running: u32,
    /// When the key may have a permit again; `None`: when one is returned.
    pub until: Option<Time>,
}

/// Ready jobs of one fair key of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareCount {
    /// The key.
    pub key: FairKey,
    /// Its weight.
    pub weight: u32,
    /// Number of ready jobs.
    pub ready: u64,
}

/// A group in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRow {
    /// The id.
    pub id: GroupId,
    /// The counters.
    pub group: Group,
    /// When the counters last changed.
    pub changed_at: Time,
}

/// Number of ready jobs of one queue and kind that require the same version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredVersion {
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// The versions that may run the jobs.
    pub version: VersionRequirement,
    /// Number of jobs.
    pub n: u64,
}
