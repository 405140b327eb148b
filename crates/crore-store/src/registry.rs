//! Definitions, as opposed to jobs: limits, queue settings, schedules, handlers, workers, tokens; and bulk operations.

use std::sync::Arc;

use crore_core::fair::FairShare;
use crore_core::group::Group;
use crore_core::limit::Limit;
use crore_core::schedule::{Missed, Timing};
use crore_core::settings::{Unlimited, section};
use crore_core::{GroupId, Name, NewJob, QueueIndex, Revision, Span, Time};
use serde::{Deserialize, Serialize};

use crate::{Committed, StoreFuture, StorePart};

/// Operations on definitions.
pub trait Registry: StorePart {
    /// Sets and removes entries. Each definition has its own guard and result; all that apply are
    /// one atomic write, in order. [Joint](Define::joint) definitions apply all or none: their
    /// guards are checked before the first definition is applied. Limits and queue settings take effect at the next
    /// claim. Permits that are in use stay in use when their limit is changed, or removed and set again. Durable when
    /// the future resolves.
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>>;

    /// Returns up to `n` entries of a table after the name `after`, ordered by name.
    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>>;

    /// Returns the counts of a group.
    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>>;
}

/// A table of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryTable {
    /// Limits, by name.
    Limits,
    /// Queue settings, by queue.
    Queues,
    /// Schedules, by name.
    Schedules,
    /// Handlers, by kind.
    Handlers,
    /// Workers, by incarnation.
    Workers,
    /// Tokens, by their public part.
    Tokens,
    /// Bulk operations, by id.
    Operations,
}

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryValue {
    /// A limit.
    Limit(Limit),
    /// Settings of a queue.
    Queue(QueueSettings),
    /// A schedule.
    Schedule(Box<Schedule>),
    /// A handler, serialized by the engine and opaque to the store.
    Handler(Arc<str>),
    /// A worker, serialized by the engine and opaque to the store.
    Worker(Arc<str>),
    /// A token, serialized by the doors and opaque to the store.
    Token(Arc<str>),
    /// A bulk operation, serialized by the API and opaque to the store.
    Operation(Arc<str>),
}

impl RegistryValue {
    /// The table that the value belongs to.
    pub const fn table(&self) -> RegistryTable {
        match self {
            Self::Limit(_) => RegistryTable::Limits,
            Self::Queue(_) => RegistryTable::Queues,
            Self::Schedule(_) => RegistryTable::Schedules,
            Self::Handler(_) => RegistryTable::Handlers,
            Self::Worker(_) => RegistryTable::Workers,
            Self::Token(_) => RegistryTable::Tokens,
            Self::Operation(_) => RegistryTable::Operations,
        }
    }
}

section! {
    /// Retention of ended jobs in queues without settings of their own.
    pub struct QueueSettings: Eq, Serialize, Deserialize = "retention" {
        //! These are the settings of a queue. A queue without a registry entry uses the settings
        //! that its store was opened with.

        /// Whether the queue is paused: its jobs are not handed out.
        paused: bool => false,
        /// How the queue shares its claims between the values of a field; `None`: jobs are claimed in order.
        fair: Option<Arc<FairShare>> => None,
        /// The payload fields by which a search finds jobs of the queue without reading all of them; `None`: none.
        index: Option<Arc<QueueIndex>> => None,
        /// Retention of done and cancelled jobs.
        keep_done: Span as done_for: Span = "24h",
        /// Maximum number of done jobs per queue, and of cancelled jobs per queue.
        max_done: u64 = "100_000",
        /// Retention of dead jobs.
        keep_dead: Span as dead_for: Span = "180d",
        /// Maximum number of dead jobs per queue; unlimited if not set.
        max_dead: u64 as max_dead: Unlimited = none,
    }
}

/// A schedule, which pushes a job at every tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// When it ticks.
    pub timing: Timing,
    /// Policy for missed ticks.
    pub missed: Missed,
    /// The job to push at a tick.
    pub job: NewJob,
    /// The last tick accounted for; [`crate::jobs::StoreWrite::Tick`] moves it.
    pub cursor: Time,
    /// Whether the schedule is paused.
    pub paused: bool,
}

/// A request to set or remove an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Define {
    /// Name of the entry.
    pub name: Name,
    /// Whether to set or remove it.
    pub action: DefineAction,
    /// Condition for the change.
    pub guard: DefineGuard,
    /// Lifetime of the entry from the store's current time; `None` means no end. An expired entry
    /// counts as removed, so its limit or pause no longer applies.
    pub expires_after: Option<Span>,
    /// Whether this applies only if the guards of all joint definitions of the call hold.
    pub joint: bool,
}

/// The change to an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum DefineAction {
    /// Sets the value, in the table that the value belongs to.
    Set(RegistryValue),
    /// Removes the entry from this table.
    Remove(RegistryTable),
}

impl Define {
    /// Sets an entry unconditionally and without expiry.
    pub const fn set(name: Name, value: RegistryValue) -> Self {
        Self {
            name,
            action: DefineAction::Set(value),
            guard: DefineGuard::Any,
            expires_after: None,
            joint: false,
        }
    }

    /// Removes an entry if it exists.
    pub const fn remove(table: RegistryTable, name: Name) -> Self {
        Self {
            name,
            action: DefineAction::Remove(table),
            guard: DefineGuard::Any,
            expires_after: None,
            joint: false,
        }
    }

    /// The table of the entry.
    pub const fn table(&self) -> RegistryTable {
        match &self.action {
            DefineAction::Set(value) => value.table(),
            DefineAction::Remove(table) => *table,
        }
    }
}

/// Condition for a definition to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefineGuard {
    /// Always applies.
    Any,
    /// The entry does not exist.
    Absent,
    /// The entry has this revision.
    At(Revision),
}

impl DefineGuard {
    /// Whether the guard holds for an entry with this revision; `None`: there is no entry.
    pub fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::At(revision) => current == Some(revision),
        }
    }
}

/// Result of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// Written; the entry, if it still exists, has this revision. Revisions of a name increase with
    /// every change, by any step and from any start, and do not restart after a removal. Removing
    /// an entry that does not exist counts as written.
    Yes(Revision),
    /// Not written: the guard does not hold.
    Stale,
}

/// An entry of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The name.
    pub name: Name,
    /// Content of the entry.
    pub value: RegistryValue,
    /// Changes with every definition and every tick.
    pub revision: Revision,
    /// When the entry expires.
    pub expires_at: Option<Time>,
}
