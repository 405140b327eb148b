//! Periodic maintenance of a store. Every operation is idempotent and changes a bounded number of
//! records, so any node may call it at any time.

use crore_core::{Job, Name, Span, Time};

use crate::{StoreFuture, StorePart};

/// Maintenance operations.
pub trait Upkeep: StorePart {
    /// Moves up to `n` due jobs from scheduled to ready, in the order (due, id). Never before a job
    /// is due. The cost depends on the number of due jobs, not on the number of scheduled ones.
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted>;

    /// Returns up to `n` jobs in total that need a decision: running jobs whose lease has ended (a
    /// lease is over at the instant of its end), waiting jobs with a broken dependency, and jobs that
    /// have not started by their deadline (over at its instant), by deadline and id, and waiting jobs whose event was
    /// not sent in time, by the end of the wait and id. A job that is owed an event has not timed out. A job with a
    /// broken dependency counts as broken only. Changes nothing; the caller decides and applies.
    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses>;

    /// Removes up to `n` expired records, jobs first. Ended jobs go by the age and count limits of
    /// their queue's settings, oldest first per queue and state, together with their results. Then
    /// come expired results, locks of unique keys, registry entries, groups, events, and internal records
    /// that are no longer used.
    ///
    /// [`JobEvent::Prune`](crore_core::machine::JobEvent::Prune) decides what the removal of a job means
    /// to other jobs, and the store applies those effects. A group is removed when it has ended, no
    /// job waits for it and it has not changed for [`GROUP_RETENTION`]. Nothing else changes visibly: an
    /// expired record was already treated as expired, and no revision increases.
    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned>;

    /// Requests leadership of a duty for `span` from the store's current time. The store grants it
    /// to one node at a time; the leader asks again before the end. Leadership only avoids
    /// duplicate work: every duty is safe when two nodes perform it.
    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead>;
}

/// How long an ended group is kept after its last change.
pub const GROUP_RETENTION: Span = Span::from_secs(24 * 60 * 60);

/// Result of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promoted {
    /// The store's time.
    pub now: Time,
    /// Number of jobs that became ready.
    pub count: usize,
    /// When the next scheduled job is due; not after `now` if `n` was too small.
    pub next_at: Option<Time>,
}

/// Jobs that need a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Lapses {
    /// The store's time.
    pub now: Time,
    /// Running jobs whose lease has ended.
    pub lapsed: Vec<Job>,
    /// Waiting jobs with a broken dependency.
    pub broken: Vec<Job>,
    /// Waiting, scheduled and ready jobs whose deadline is over.
    pub expired: Vec<Job>,
    /// Waiting jobs whose wait for an event is over.
    pub timed_out: Vec<Job>,
    /// When the next lease, deadline or wait ends that is not reported here; not after `now` if `n` was
    /// too small for them.
    pub next_at: Option<Time>,
}

/// Result of a pruning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Number of jobs removed.
    pub jobs: usize,
    /// Number of results, locks, registry entries and groups removed, and of events that are no longer kept.
    pub others: usize,
}

/// Result of a request for leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// The caller leads until this time.
    Yes(Time),
    /// Another node leads until this time.
    No(Time),
}
