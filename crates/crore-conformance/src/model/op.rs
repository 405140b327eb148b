//! The operations that both stores are given.
//!
//! An operation names jobs, groups, deliveries and revisions by [`Back`]: how many steps back from
//! the newest that were seen so far, counted modulo how many there are. So an operation means
//! something for every store, whatever its numbers look like, and still does when those before it
//! are left out.

use crore_core::job::{DEFAULT_LEASE, Keep, Lapse, Needs, Reports, Retain, When};
use crore_core::unique::Unique;
use crore_core::{Span, State};
use crore_store::jobs::Order;
use crore_store::registry::Table;
use crore_store::views::Step;

/// Steps back from the newest: 0 is the newest.
pub(super) type Back = usize;

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Op {
    Push {
        groups: Vec<Open>,
        jobs: Vec<Plan>,
    },
    Claim {
        queues: Vec<Word>,
        kinds: Option<Vec<Word>>,
        n: usize,
        order: Order,
        worker: Word,
    },
    Renew(Vec<(Back, Option<Span>)>),
    Apply(Vec<Act>),
    Define(Vec<Definition>),
    Advance(Span),
    Look,
    /// Reads the holder of each unique key that jobs are drawn with.
    Holders,
    Upkeep(Upkeep),
    View(View),
}

/// What only a whole store can do for its upkeep.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Upkeep {
    Promote(usize),
    /// How many need a decision, at most so many.
    Lapsed(usize),
    /// All that need a decision get it.
    Rescue,
    /// Slices of this size until nothing is left to remove.
    Prune(usize),
    Lead {
        node: u64,
        span: Span,
    },
}

/// What only a whole store can show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum View {
    Progress(Back, u8),
    Line(Back, u8),
    Stat(u64),
    /// Of the job of a delivery.
    Notes(Back),
    Stats(Step),
    /// Pages of this size until the end.
    List {
        state: State,
        queue: Option<Word>,
        kind: Option<Word>,
        n: usize,
    },
    Counts(Option<Word>),
    /// Pages of this size until the end.
    Entries(Table, usize),
}

/// The n-th of a small set of names: queues `q0`, `q1`, …, kinds `k0`, …, and so on.
pub(super) type Word = u8;

/// Whether a new group may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    No,
    Yes,
}

/// A job to push.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) queue: Word,
    pub(super) kind: Word,
    pub(super) priority: i32,
    pub(super) payload: u8,
    pub(super) due: Due,
    pub(super) unique: Option<Unique>,
    pub(super) client_id: Option<(Word, Word)>,
    /// Limits in the order of their names, each with the value that it counts by.
    pub(super) limits: Vec<(Word, Option<Word>)>,
    pub(super) group: Option<GroupPick>,
    pub(super) after: Vec<(Pick, Needs)>,
    pub(super) policy: Policy,
}

/// The part of a plan that seldom matters to others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy {
    pub(super) max_attempts: Option<u32>,
    pub(super) lease: Option<Span>,
    pub(super) lapse: Lapse,
    pub(super) reports: Reports,
    pub(super) keep: Keep,
    pub(super) retain: Retain,
    /// Whether it has labels, a trace and a timeout, which a store only keeps.
    pub(super) marked: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: Some(20),
            lease: Some(DEFAULT_LEASE),
            lapse: Lapse::Crash { quarantine: Some(3) },
            reports: Reports::Fenced,
            keep: Keep::Discard,
            retain: Retain::AsQueue,
            marked: false,
        }
    }
}

/// When something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    After(Span),
    /// This long after the clock's start, which may be past.
    At(Span),
}

impl Due {
    pub(super) fn when(self) -> When {
        match self {
            Self::Now => When::Now,
            Self::After(span) => When::After(span),
            Self::At(span) => When::At(crore_testkit::FakeClock::START.after(span)),
        }
    }
}

/// A group to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupPick {
    /// Of the same batch, modulo how many it has.
    New(usize),
    Known(Back),
}

/// Something to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// Of the same batch, modulo how many are before.
    Earlier(usize),
    Job(Back),
    Group(GroupPick),
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// An event about a job, or about the job of a delivery.
    Decide {
        on: On,
        sight: Sight,
        what: What,
    },
    Seal(Back),
    Tick {
        schedule: Word,
        sight: Sight,
        forward: Span,
        push: Vec<Plan>,
    },
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Job(Back),
    Delivery(Back),
}

/// What a decision is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// What is stored now.
    Fresh,
    /// What was seen last, which may be long ago.
    Old,
}

/// What happens to a job. Those that need a delivery take the one that the act is on, or the job's
/// newest as far as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// A report, which names its delivery unless `anonymous`.
    Finish {
        outcome: End,
        anonymous: bool,
        then: Vec<Plan>,
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
        queue: Option<Word>,
        priority: Option<i32>,
        limits: Option<Vec<(Word, Option<Word>)>>,
        due: Option<Due>,
    },
}

/// How a delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done { result: bool },
    Failed { detail: bool },
    FailedFor(Span),
    FailedForGood { detail: bool },
    Snooze(Span),
    Cancel,
    Interrupted,
}

/// A change of the registry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub(super) table: Table,
    pub(super) name: Word,
    /// What it is set to, as the n-th of the table's values; `None`: it is removed.
    pub(super) value: Option<u8>,
    pub(super) guard: Guard,
    pub(super) expires_after: Option<Span>,
}

/// What has to be so for a definition to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    Any,
    Absent,
    /// A revision that was seen; if none was, nothing has to be so.
    At(Back),
}
