//! What is defined rather than pushed: limits, queue settings, schedules, handlers, workers, tokens.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::limit::Limit;
use crore_core::schedule::{Missed, Timing};
use crore_core::settings::{Unlimited, section};
use crore_core::{GroupId, Name, NewJob, Revision, Span, Time};
use serde::{Deserialize, Serialize};

use crate::{Answer, Committed, Part};

/// The verbs of the registry.
pub trait Registry: Part {
    /// Sets and removes entries: each is guarded and answered singly, all that apply are one write.
    /// Limits and queue settings hold from the next claim on; what is in use of a limit stays in
    /// use when it is changed, and when it is removed and set anew. Durable when answered.
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>>;

    /// The entries of a table in the order of their names: those after `after`, at most `n`.
    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>>;

    /// A group's counts.
    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>>;
}

/// What sort of thing an entry defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Limits, by name.
    Limits,
    /// Settings of queues, by queue.
    Queues,
    /// Schedules, by name.
    Schedules,
    /// Handlers, by kind.
    Handlers,
    /// Workers, by incarnation.
    Workers,
    /// Tokens, by their public part.
    Tokens,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// A limit.
    Limit(Limit),
    /// Settings of a queue.
    Queue(QueueSettings),
    /// A schedule.
    Schedule(Box<Schedule>),
    /// A handler, in the engine's form; the store only keeps it.
    Handler(Arc<str>),
    /// A worker, in the engine's form; the store only keeps it.
    Worker(Arc<str>),
    /// A token, in the form of the doors; the store only keeps it.
    Token(Arc<str>),
}

impl Value {
    /// The table that the value belongs to.
    pub const fn table(&self) -> Table {
        match self {
            Self::Limit(_) => Table::Limits,
            Self::Queue(_) => Table::Queues,
            Self::Schedule(_) => Table::Schedules,
            Self::Handler(_) => Table::Handlers,
            Self::Worker(_) => Table::Workers,
            Self::Token(_) => Table::Tokens,
        }
    }
}

section! {
    /// How long jobs are kept when they have ended, in every queue without settings of its own.
    pub struct QueueSettings: Copy, Eq, Serialize, Deserialize = "retention" {
        //! These are the settings of a queue. A queue without an entry has those that its store was opened with.

        /// Whether its jobs are not handed out.
        paused: bool => false,
        /// How long done and cancelled jobs are kept.
        keep_done: Span as done_for: Span = "24h",
        /// How many done and cancelled jobs of a queue are kept, each.
        max_done: u64 = "100_000",
        /// How long dead jobs are kept.
        keep_dead: Span as dead_for: Span = "180d",
        /// How many dead jobs of a queue are kept; any number, unless chosen.
        max_dead: u64 as max_dead: Unlimited = none,
    }
}

/// A schedule: jobs pushed by the clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// When.
    pub timing: Timing,
    /// What becomes of ticks that nobody was there for.
    pub missed: Missed,
    /// What is pushed.
    pub job: NewJob,
    /// The last tick that is accounted for; moved by [`crate::jobs::Write::Tick`].
    pub cursor: Time,
    /// Whether it is not to fire.
    pub paused: bool,
}

/// A definition to set or to remove.
#[derive(Debug, Clone, PartialEq)]
pub struct Define {
    /// The name.
    pub name: Name,
    /// What becomes of it.
    pub to: Definition,
    /// What has to be so.
    pub guard: Guard,
    /// After this long, from the store's now, the entry is gone as if it were removed, and a limit
    /// or a pause holds nobody any more; `None`: never.
    pub expires_after: Option<Span>,
}

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// It says this, in the table that the value belongs to.
    Set(Value),
    /// It is removed from this table.
    Remove(Table),
}

impl Define {
    /// Sets an entry, whatever was there, for ever.
    pub const fn set(name: Name, value: Value) -> Self {
        Self { name, to: Definition::Set(value), guard: Guard::Any, expires_after: None }
    }

    /// Removes an entry, if it is there.
    pub const fn remove(table: Table, name: Name) -> Self {
        Self { name, to: Definition::Remove(table), guard: Guard::Any, expires_after: None }
    }

    /// The table that it is about.
    pub const fn table(&self) -> Table {
        match &self.to {
            Definition::Set(value) => value.table(),
            Definition::Remove(table) => *table,
        }
    }
}

/// What has to be so for a definition to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    Any,
    /// There is no such entry.
    Absent,
    /// The entry is at this revision.
    At(Revision),
}

/// What became of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// It is written; the entry, if there still is one, is at this revision. Revisions of one name
    /// grow with every change, from whatever number and in whatever steps, and do not start again
    /// when an entry is removed and set anew. To remove what is not there is written too.
    Yes(Revision),
    /// What had to be so is not; nothing was written.
    Stale,
}

/// An entry of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name.
    pub name: Name,
    /// What it says.
    pub value: Value,
    /// Another with every change, by a definition or a tick.
    pub revision: Revision,
    /// When it is gone.
    pub expires_at: Option<Time>,
}
