//! What the upkeep loops ask of a store. Every verb is idempotent and changes a bounded number of
//! records, so that any node may call it at any time.

use crore_core::{Job, Name, Span, Time};

use crate::{Answer, Part};

/// The verbs of upkeep.
pub trait Upkeep: Part {
    /// Scheduled → Ready for up to `n` jobs that are due, by (due, id). Costs what is due, not
    /// what waits. Never early.
    fn promote(&self, n: usize) -> Answer<'_, Promoted>;

    /// Up to `n` jobs in all that need a decision: running ones whose lease has ended (the end
    /// itself included), and waiting ones that are broken. Changes nothing: the caller decides and
    /// applies.
    fn lapsed(&self, n: usize) -> Answer<'_, Lapses>;

    /// Removes up to `n` things whose time is over, jobs before others: ended jobs by the age and
    /// count of their queue's settings (the oldest of a queue and state first; their results go
    /// with them), results, locks of unique keys, registry entries, and what is empty.
    ///
    /// What the end of a job means to others is decided as ever, by `Event::Prune`, and its effects
    /// are applied. A group goes when it has ended, nobody waits for it and it was not changed for
    /// [`KEEP_GROUP`]. Otherwise nobody sees a difference: what is over was over before, and no
    /// revision grows.
    fn prune(&self, n: usize) -> Answer<'_, Pruned>;

    /// Asks to lead a duty for a while, from the store's now. One node at a time is told `Yes`; it
    /// asks again before the end. Leading only saves work: duties are safe when two nodes do them.
    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead>;
}

/// How long a group that has ended is kept for people to look at, from its last change.
pub const KEEP_GROUP: Span = Span::from_secs(24 * 60 * 60);

/// What a promotion did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promoted {
    /// The store's time.
    pub now: Time,
    /// How many became ready.
    pub count: usize,
    /// When the next one is due that is still scheduled; not after `now` if `n` was too small.
    pub next_at: Option<Time>,
}

/// Jobs that need a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Lapses {
    /// The store's time.
    pub now: Time,
    /// Running, and the lease has ended.
    pub lapsed: Vec<Job>,
    /// Waiting, and broken.
    pub broken: Vec<Job>,
    /// When the next lease ends that is not reported here; not after `now` if `n` was too small.
    pub next_at: Option<Time>,
}

/// What a pruning did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs that were removed.
    pub jobs: usize,
    /// Results, locks and entries that were removed.
    pub others: usize,
}

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// The asker, until then.
    Yes(Time),
    /// Another, until then.
    No(Time),
}
