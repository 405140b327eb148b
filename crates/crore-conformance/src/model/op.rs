//! The operations that are applied to both stores.
//!
//! An operation refers to jobs, groups, deliveries and revisions by [`StepsBack`]: the number of steps back from
//! the newest one seen so far, modulo how many there are. References are therefore valid for every store,
//! whatever its ids look like, and stay valid when earlier operations are removed.

use crore_core::event::OnEventTimeout;
use crore_core::job::{
    DEFAULT_LEASE, DependencyCondition, DueTime, JobRetention, Lapse, ReportFencing,
    ResultRetention, StartDeadline,
};
use crore_core::unique::Unique;
use crore_core::{Span, State};
use crore_store::jobs::QueueOrder;
use crore_store::registry::RegistryTable;
use crore_store::views::{StatStep, StatsShape};

/// Steps back from the newest: 0 is the newest.
pub(super) type StepsBack = usize;

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelOp {
    Push {
        groups: Vec<GroupOpenness>,
        jobs: Vec<PlannedJob>,
    },
    Claim {
        queues: Vec<NameIndex>,
        kinds: Option<Vec<NameIndex>>,
        /// Versions of kinds.
        versions: Vec<(NameIndex, NameIndex)>,
        n: usize,
        order: QueueOrder,
        worker: NameIndex,
    },
    Renew(Vec<(StepsBack, Option<Span>)>),
    Apply(Vec<WriteOp>),
    Define(Vec<DefinitionOp>),
    Advance(Span),
    Look,
    /// Reads the holder of each unique key that jobs are drawn with.
    Holders,
    Event(EventOp),
    Upkeep(UpkeepOp),
    View(ViewOp),
}

/// Operations on events, of a whole store only.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EventOp {
    Send {
        name: NameIndex,
        payload: u8,
        keep: Span,
        /// Maximum number of events.
        count: usize,
    },
    Release(usize),
    Remove(NameIndex),
    /// All pages of this size.
    List(usize),
}

/// Upkeep operations, of a whole store only.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UpkeepOp {
    Promote(usize),
    /// Counts the jobs that need a decision, up to this many.
    Lapsed(usize),
    /// Decides all jobs that need a decision.
    ExpireLeases,
    /// Prunes in slices of this size until nothing is left to remove.
    Prune(usize),
    Lead {
        node: u64,
        span: Span,
    },
}

/// Views, of a whole store only.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ViewOp {
    Progress(StepsBack, u8),
    Line(StepsBack, u8),
    Stat(u64),
    /// Notes of the job of a delivery.
    Notes(StepsBack),
    Stats(StatStep),
    /// Statistics of this many done jobs, and the run time of each, in milliseconds.
    JobStat(NameIndex, NameIndex, u64, u64),
    JobStats {
        queue: Option<NameIndex>,
        kind: Option<NameIndex>,
        step: StatStep,
        /// How long ago the statistics begin.
        age: Span,
        shape: StatsShape,
    },
    /// All pages of this size.
    List {
        state: State,
        queue: Option<NameIndex>,
        kind: Option<NameIndex>,
        /// Index into [`samples::index_key`](super::samples::index_key).
        key: Option<NameIndex>,
        n: usize,
    },
    Counts(Option<NameIndex>),
    /// All pages of this size.
    Entries(RegistryTable, usize),
}

/// Index into a small set of names: queues `q0`, `q1`, …, kinds `k0`, …, and so on.
pub(super) type NameIndex = u8;

/// Whether a new group stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOpenness {
    Sealed,
    Open,
}

/// A job to push.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedJob {
    pub(super) queue: NameIndex,
    pub(super) kind: NameIndex,
    pub(super) priority: i32,
    pub(super) payload: u8,
    pub(super) due: PlannedDue,
    /// The deadline, and whether there is a follow-up for it.
    pub(super) deadline: Option<(StartDeadline, bool)>,
    pub(super) unique: Option<Unique>,
    pub(super) client_id: Option<(NameIndex, NameIndex)>,
    /// Limits, sorted by name, each with its key value.
    pub(super) limits: Vec<(NameIndex, Option<NameIndex>)>,
    pub(super) worker_version: Option<NameIndex>,
    pub(super) fair: Option<NameIndex>,
    /// The value of its label.
    pub(super) label: Option<NameIndex>,
    /// Its index keys.
    pub(super) index: Vec<NameIndex>,
    pub(super) event: Option<(NameIndex, Option<Span>, OnEventTimeout)>,
    pub(super) group: Option<GroupPick>,
    pub(super) after: Vec<(DependencyPick, DependencyCondition)>,
    pub(super) policy: PlannedPolicy,
}

/// The part of a plan that rarely affects other jobs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedPolicy {
    pub(super) max_attempts: Option<u32>,
    pub(super) lease: Option<Span>,
    pub(super) lapse: Lapse,
    pub(super) reports: ReportFencing,
    pub(super) keep: ResultRetention,
    pub(super) retain: JobRetention,
    /// Whether it has labels, a trace and a timeout, which a store only keeps.
    pub(super) with_metadata: bool,
}

impl Default for PlannedPolicy {
    fn default() -> Self {
        Self {
            max_attempts: Some(20),
            lease: Some(DEFAULT_LEASE),
            lapse: Lapse::Crash { quarantine: Some(3) },
            reports: ReportFencing::Fenced,
            keep: ResultRetention::Discard,
            retain: JobRetention::AsQueue,
            with_metadata: false,
        }
    }
}

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedDue {
    Now,
    After(Span),
    /// This long after the clock's start; may be in the past.
    At(Span),
}

impl PlannedDue {
    pub(super) fn when(self) -> DueTime {
        match self {
            Self::Now => DueTime::Now,
            Self::After(span) => DueTime::After(span),
            Self::At(span) => DueTime::At(crore_testkit::FakeClock::START.after(span)),
        }
    }
}

/// A group to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupPick {
    /// A group of the same batch, modulo how many it has.
    New(usize),
    Known(StepsBack),
}

/// A dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyPick {
    /// An earlier job of the same batch, modulo how many there are.
    Earlier(usize),
    Job(StepsBack),
    Group(GroupPick),
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WriteOp {
    /// An event of a job, or of the job of a delivery.
    Decide {
        on: EventTarget,
        basis: DecisionBasis,
        what: JobEventOp,
    },
    Seal(StepsBack),
    Tick {
        schedule: NameIndex,
        basis: DecisionBasis,
        forward: Span,
        push: Vec<PlannedJob>,
    },
}

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventTarget {
    Job(StepsBack),
    Delivery(StepsBack),
}

/// The version of a job on which a decision is based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecisionBasis {
    /// The version stored now.
    Fresh,
    /// The version seen last, possibly outdated.
    Old,
}

/// An event of a job. Events that need a delivery use the one the write refers to, or the newest one seen of
/// the job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JobEventOp {
    /// A report; it names its delivery unless `anonymous`.
    Finish {
        outcome: PlannedOutcome,
        anonymous: bool,
        then: Vec<PlannedJob>,
    },
    Lapsed,
    TimedOut,
    HandedOver,
    Cancel,
    Retry,
    Delete,
    Prune,
    TakeResult,
    Edit {
        queue: Option<NameIndex>,
        priority: Option<i32>,
        limits: Option<Vec<(NameIndex, Option<NameIndex>)>>,
        due: Option<PlannedDue>,
    },
    /// Sets the index keys.
    Index(Vec<NameIndex>),
}

/// Outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedOutcome {
    Done { result: bool },
    Failed { detail: bool },
    FailedFor(Span),
    FailedForGood { detail: bool },
    Snooze(Span),
    Cancel,
    Interrupted,
}

/// A change to the registry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DefinitionOp {
    pub(super) table: RegistryTable,
    pub(super) name: NameIndex,
    /// Index of the new value among the table's values. `None` removes the entry.
    pub(super) value: Option<u8>,
    pub(super) guard: GuardOp,
    pub(super) expires_after: Option<Span>,
    pub(super) joint: bool,
}

/// Precondition of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardOp {
    Any,
    Absent,
    /// A revision seen before; if none was seen, no precondition.
    At(StepsBack),
}
