//! The path of a job: push, claim, renew, apply; and get.

use std::sync::Arc;

use crore_core::job::{ClientId, Thing};
use crore_core::machine::Change;
use crore_core::{Batch, Delivery, GroupId, Job, JobId, Name, NewJob, Revision, Span, Time};

use crate::{Answer, Committed, Part};

/// The verbs on the path of a job. Every one takes and gives a batch.
pub trait Jobs: Part {
    /// Stores new groups and jobs: all of them in one atomic write, or none.
    ///
    /// The store allocates the ids, in the order of the batch, and stamps times by its own clock. A
    /// job whose unique key or client id is taken is not stored and answered `Duplicate` with the
    /// job that has it (also for two of the same batch; the key is looked at before the client id,
    /// and both before anything that it refers to); one that refers to something that is not there,
    /// or that can no longer become what it needs, is answered `Broken`: its group is looked at
    /// first, then what it waits for, one by one in the order given, and the first that is broken
    /// is the answer. To need the end of something that has ended is no wait at all, and a dead job
    /// can still succeed. Both leave the others of the batch as they are; references to a duplicate
    /// mean the job that was there first, and a job that refers to a broken one is broken too. A
    /// group may be joined until it is pruned, also after it was sealed: a member may add to it;
    /// follow-ups that are on their way stay so. A new group is sealed when all jobs of its batch
    /// are in, so that who waits for it may stand before its members. Durable when answered.
    ///
    /// A client id is taken as long as its job is there. A unique key is taken as long as its lock
    /// is held, which may be longer than its job is there. The caller has checked the batch
    /// ([`Batch::check`], [`NewJob::check`]): a store does not check it again, and what a job
    /// refers to that is not in the batch is not there.
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>>;

    /// Takes up to `n` ready jobs, each under a fresh delivery: permits are reserved, the job is
    /// running, and no other claim gets it, atomically.
    ///
    /// Order is (priority, due, id), smaller first, merged over the queues, or queue by queue if
    /// asked. It is exact for a store in one place; one in several (shards) looks at each and
    /// merges what it saw, so there it is exact while nothing else moves, and a claim for many jobs
    /// costs little more than a claim for one. Only ready jobs count: one that is due is made ready
    /// by a promotion, not by a claim. A job whose limits have no permit left is passed over, as is
    /// a paused queue, and passing them over costs nothing that grows with how many wait there. A
    /// unique key that is held until the start is released. Empty is an answer. Not waited to be
    /// durable: a claim that a crash forgets is claimed again, under another delivery.
    ///
    /// A job's buckets are asked in the order of its keys, in each the concurrency before the rate,
    /// and the first that has no permit ends that: nothing is taken, but if it was a rate, the
    /// `tat` of its answer is kept. A key whose limit is not defined holds nobody back. In use of a
    /// concurrency are all running jobs with the key, whatever was defined when they were claimed;
    /// what was granted of a rate is spent, and not returned at the end of a delivery.
    fn claim(&self, ask: Claim) -> Answer<'_, Claimed>;

    /// Extends leases, from the store's now. A delivery that is not the current one any more is
    /// answered `Stale`. A lease never gets shorter, and one that has ended but was not yet taken
    /// away is extended too. Not waited to be durable.
    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>>;

    /// Applies decisions. Each write is atomic with all its effects, and applies exactly once, or
    /// not at all if what it was based on is not so any more (`Stale`); the writes of a batch are
    /// independent of each other, and applied in order. So are the effects of a write: a follow-up
    /// may take the unique key that its parent gives up. Durable when answered.
    fn apply(&self, writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>>;

    /// Jobs by their own number or by their caller's, in the order asked for; `None` for one that
    /// is not there. Sees every write that was answered before. Whether a result is still to be had
    /// is for [`Job::result_at`] to say.
    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>>;

    /// The jobs that hold these unique keys, in the order asked for; `None` for a key that is free. The
    /// holder is the job that a push with the key would be answered as its `Duplicate`; it may have ended,
    /// or be gone. Sees every write that was answered before, and reserves nothing: a push that comes
    /// after the answer may take a free key.
    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>>;
}

/// Which job is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one with this number.
    Id(JobId),
    /// The one to which its caller gave this id.
    Client(ClientId),
}

impl Which {
    /// Jobs by their numbers.
    pub fn all(ids: &[JobId]) -> Vec<Self> {
        ids.iter().copied().map(Self::Id).collect()
    }
}

impl From<JobId> for Which {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

/// What a push answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushes {
    /// The store's time of the write.
    pub now: Time,
    /// The new groups, in order.
    pub groups: Vec<GroupId>,
    /// One answer for each job, in order.
    pub jobs: Vec<Pushed>,
}

/// What became of one pushed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is stored.
    New(JobId),
    /// Its unique key or client id belongs to this job; it is not stored.
    Duplicate(JobId),
    /// It refers to this thing, which is not there or can no longer succeed; it is not stored.
    Broken(Thing),
    /// It refers to a job of the same batch, at this place, that was broken; it is not stored.
    BrokenBy(usize),
}

impl Pushed {
    /// The stored job that is meant, if there is one.
    pub const fn id(self) -> Option<JobId> {
        match self {
            Self::New(id) | Self::Duplicate(id) => Some(id),
            Self::Broken(_) | Self::BrokenBy(_) => None,
        }
    }
}

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// From which queues; those that do not exist are empty.
    pub queues: Vec<Name>,
    /// Only these kinds; `None`: any.
    pub kinds: Option<Vec<Name>>,
    /// At most so many.
    pub n: usize,
    /// How several queues are merged.
    pub order: Order,
    /// Who asks; kept with the delivery.
    pub worker: Name,
}

/// How several queues are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By (priority, due, id) over all of them.
    #[default]
    Merged,
    /// The first queue as long as it has any, then the second, and so on.
    Strict,
}

/// What a claim gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The store's time of the claim.
    pub now: Time,
    /// The jobs, running now, in order.
    pub jobs: Vec<Job>,
    /// If less than `n` were there: when a rate limit may let the next one of these queues through.
    /// A hint, by which the caller asks again; it may be early.
    pub next_at: Option<Time>,
}

/// A lease to extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renew {
    /// The job.
    pub id: JobId,
    /// The delivery that holds it.
    pub delivery: Delivery,
    /// For how long from now; `None`: as long as the job's spec says.
    pub span: Option<Span>,
}

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It ends then.
    Until {
        /// The end.
        until: Time,
        /// Whether the job was asked to stop.
        stop: bool,
    },
    /// It is somebody else's, or nobody's.
    Stale,
}

/// One atomic write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A decision about a job, with its effects.
    Job(Change),
    /// From now on a group ends when its members have. Stale if it is sealed, or not there.
    Seal(GroupId),
    /// The ticks of a schedule up to `cursor` are accounted for by these jobs. Stale if its entry
    /// is not there or not at this revision; to move the cursor is a change of the entry, so that
    /// no tick is accounted for twice.
    Tick {
        /// The schedule.
        schedule: Name,
        /// The revision of its entry that the ticks were computed from.
        seen: Revision,
        /// The last tick that is now accounted for.
        cursor: Time,
        /// The jobs.
        push: Vec<NewJob>,
    },
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It is written, and these are the answers to what it pushed.
    Yes(Vec<Pushed>),
    /// What it was based on is not so any more; nothing was written.
    Stale,
}
