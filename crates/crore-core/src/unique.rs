//! Unique keys: at most one job per key, for as long as its lock is held.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::time::Span;

/// A lock that a push takes; a push that finds it taken is answered with the job that holds it.
///
/// Keys live in one space; doors make them distinct (`queue`, `kind`, a digest of the arguments).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unique {
    /// The key.
    pub key: Arc<str>,
    /// What ends the lock.
    pub hold: Hold,
    /// The longest time for which the lock is held, whatever happens: counted from when the job was
    /// due as it was pushed, wherever retries and edits move it.
    pub window: Option<Span>,
}

/// What ends the lock on a unique key, if its window does not end it before. A job that is revived by
/// hand after its lock has ended does not take it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// The job is handed to a worker.
    UntilStart,
    /// The job is done, cancelled or removed; a dead one keeps its lock.
    UntilSuccess,
    /// The job has ended, in whatever way.
    UntilEnd,
    /// Nothing but the window: pushes within it are one push (an idempotency key).
    Window,
}
