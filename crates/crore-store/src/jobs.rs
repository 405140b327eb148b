//! The life of a job in a store: push, claim, renew, apply, get.

use std::sync::Arc;

use crore_core::job::{ClientId, DependencyTarget};
use crore_core::limit::LimitKey;
use crore_core::machine::Change;
use crore_core::version::KindVersions;
use crore_core::{Batch, Delivery, GroupId, Job, JobId, Name, NewJob, Revision, Span, Time};

use crate::{Committed, StoreFuture, StorePart};

/// Operations on jobs. Each works on a batch, and results are in the order of the request.
pub trait Jobs: StorePart {
    /// Stores new groups and jobs in one atomic write. Durable when the future resolves.
    ///
    /// The store allocates ids in batch order and takes times from its own clock. Each job has its
    /// own result, and a job that is not stored does not affect the other jobs of the batch:
    ///
    /// - [`Pushed::Duplicate`]: the unique key or the client id is taken, by a stored job or by an
    ///   earlier job of the batch. References to this job mean the job that has the key.
    /// - [`Pushed::Broken`]: the group or a dependency does not exist, or the dependency can no
    ///   longer be satisfied.
    /// - [`Pushed::Sealed`]: the group is sealed.
    /// - [`Pushed::BrokenBy`]: a dependency is a job of the same batch that was not stored.
    ///
    /// The store checks in this order, and the first failure is the result: unique key, client id,
    /// group, then the dependencies in the order given. A dependency that is already satisfied is
    /// not waited for. A dead job does not break a dependency on its success, because it can be
    /// retried.
    ///
    /// [`Group::admission`](crore_core::group::Group::admission) decides whether a job joins its
    /// group: a sealed group accepts only follow-ups of its members. The store seals a new group
    /// after it has added all jobs of the batch, so a job that waits for the group may precede the
    /// members.
    ///
    /// A client id is taken while its job exists. A unique key is taken while its lock is held,
    /// which may be longer than its job exists. The caller has validated the batch with
    /// [`Batch::check`] and [`NewJob::check`]; a store does not validate it again, and treats a
    /// reference to a batch position that does not exist as broken.
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>>;

    /// Claims up to `n` ready jobs, each under a new delivery. Taking the permits, marking the job
    /// as running and hiding it from other claims are one atomic step.
    ///
    /// Order: (priority, due, id), smallest first, merged over the queues, or queue by queue with
    /// [`QueueOrder::Strict`]. The order is exact in a store with one index. A sharded store reads every
    /// shard and merges, so its order is exact only while nothing else changes; a claim for many
    /// jobs costs little more there than a claim for one.
    ///
    /// A claim takes ready jobs only; [`Upkeep::promote`](crate::Upkeep::promote) makes due jobs
    /// ready. It skips paused queues and jobs without a free permit, at a cost that does not grow
    /// with the number of jobs that wait there. It releases a unique key that is held until the
    /// start. An empty result is not an error. Not durable when the future resolves: a claim that
    /// is lost in a crash is claimed again, under another delivery.
    ///
    /// Permits: the store asks a job's buckets in the order of its limit keys, in each bucket the
    /// concurrency before the rate. The first bucket without a permit stops the attempt, and no
    /// permit is taken; if a rate refused, the store still saves the `tat` that the refusal
    /// returned. A key whose limit is not defined does not restrict the job. The concurrency in use
    /// is the number of running jobs with the key, whatever limit was defined when they were
    /// claimed. Permits of a rate are spent and not returned at the end of the delivery.
    fn claim(&self, request: Claim) -> StoreFuture<'_, Claimed>;

    /// Extends leases, counted from the store's current time. A delivery that is no longer the
    /// current one gets [`Renewed::Stale`]. A renewal never shortens a lease, and extends a lease
    /// that has ended as long as no decision about its end was applied. Not durable when the future resolves.
    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>>;

    /// Applies decisions. Each write is atomic with all its effects. It is applied exactly once, or
    /// not at all if the record no longer matches what the decision was based on
    /// ([`Applied::Stale`]). The writes of a batch are independent and applied in order; so are the
    /// effects of a write, so that a follow-up can take the unique key that its parent releases.
    /// Durable when the future resolves.
    fn apply(&self, writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>>;

    /// Returns jobs by job id or client id, `None` for a job that does not exist. Reads every write
    /// acknowledged before the call. [`Job::result_at`] says whether a result is still available.
    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>>;

    /// Returns the jobs that hold these unique keys, `None` for a free key. The holder is the job
    /// that a push with the key would report as its duplicate; it may have ended or have been
    /// removed. Reads every write acknowledged before the call. Reserves nothing: a later push may
    /// take a free key.
    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>>;
}

/// Selects a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSelector {
    /// By job id.
    Id(JobId),
    /// By the id that the caller gave the job.
    Client(ClientId),
}

impl JobSelector {
    /// Selects jobs by their ids.
    pub fn all(ids: &[JobId]) -> Vec<Self> {
        ids.iter().copied().map(Self::Id).collect()
    }
}

impl From<JobId> for JobSelector {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

/// Result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedBatch {
    /// The store's time of the write.
    pub now: Time,
    /// Ids of the new groups, in batch order.
    pub groups: Vec<GroupId>,
    /// A result per job, in batch order.
    pub jobs: Vec<Pushed>,
}

/// Result of one pushed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Stored under this id.
    New(JobId),
    /// Not stored: this job has the unique key or the client id.
    Duplicate(JobId),
    /// Not stored: this group or job does not exist, or can no longer satisfy the dependency.
    Broken(DependencyTarget),
    /// Not stored: this group is sealed.
    Sealed(GroupId),
    /// Not stored: it depends on the job at this batch position, which was not stored.
    BrokenBy(usize),
}

impl Pushed {
    /// The stored job that the pushed one stands for, if any.
    pub const fn id(self) -> Option<JobId> {
        match self {
            Self::New(id) | Self::Duplicate(id) => Some(id),
            Self::Broken(_) | Self::Sealed(_) | Self::BrokenBy(_) => None,
        }
    }
}

/// A request to claim jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Queues to claim from; an unknown queue counts as empty.
    pub queues: Vec<Name>,
    /// Kinds to claim; `None` means all.
    pub kinds: Option<Vec<Name>>,
    /// Versions of kinds that the worker runs. A job that requires a version is claimed only if the version of its kind
    /// satisfies it; jobs without a requirement do not depend on this.
    pub versions: KindVersions,
    /// Maximum number of jobs.
    pub n: usize,
    /// How jobs of several queues are merged.
    pub order: QueueOrder,
    /// The claiming worker, recorded with the delivery.
    pub worker: Name,
}

/// How a claim merges several queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// By (priority, due, id) over all queues.
    #[default]
    Merged,
    /// All ready jobs of the first queue, then the second, and so on.
    Strict,
}

/// Result of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The store's time of the claim.
    pub now: Time,
    /// The claimed jobs, in claim order, already in state running.
    pub jobs: Vec<Job>,
    /// With fewer than `n` jobs: when a rate limit may next admit a job of these queues, or now if there
    /// may be more. A hint for the next claim, which may be early.
    pub next_at: Option<Time>,
}

/// A request to extend a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renew {
    /// The job.
    pub id: JobId,
    /// The delivery that holds the lease.
    pub delivery: Delivery,
    /// Length from now; `None` means the lease length of the job's spec.
    pub span: Option<Span>,
}

/// Result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The lease holds.
    Until {
        /// New end of the lease.
        until: Time,
        /// Whether the worker is asked to stop the job.
        stop: bool,
    },
    /// Another delivery holds the job, or none does.
    Stale,
}

/// Maximum number of keys that one write resumes.
pub const MAX_RESUMED: usize = 1000;

/// An atomic write.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreWrite {
    /// A decision about a job, with its effects.
    Job(Change),
    /// Seals a group: it ends when its members have ended. Stale if it is sealed already or does
    /// not exist.
    Seal(GroupId),
    /// Ends the pauses of a limit's keys, at most [`MAX_RESUMED`] of them, or of one. Stale if none is paused.
    ResumeKeys {
        /// The limit.
        limit: Name,
        /// The key; `None` means all.
        key: Option<LimitKey>,
    },
    /// Accounts for the ticks of a schedule up to `cursor` by pushing these jobs. Stale if the
    /// registry entry does not exist or has another revision. Moving the cursor changes the entry's
    /// revision, so no tick is accounted for twice.
    Tick {
        /// The schedule.
        schedule: Name,
        /// Revision of the registry entry from which the ticks were computed.
        seen: Revision,
        /// The last tick that is accounted for by this write.
        cursor: Time,
        /// The jobs.
        push: Vec<NewJob>,
    },
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Written, with one result per pushed job.
    Yes(Vec<Pushed>),
    /// Not written: the record no longer matches what the write was based on.
    Stale,
}
