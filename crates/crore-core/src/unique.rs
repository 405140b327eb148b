//! Unique keys: at most one job per key while the key's lock is held.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::time::Span;

/// A lock taken by a push. A push that finds the lock held returns the job that holds it.
///
/// All keys share one namespace; doors prefix theirs (`queue`, `kind`, a digest of the arguments).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unique {
    /// The key.
    pub key: Arc<str>,
    /// When the job releases the key.
    pub hold: UniqueHold,
    /// Maximum time for which the job holds the key, counted from the due time at push; later retries and
    /// edits do not move it.
    pub window: Option<Span>,
}

/// When a job releases its unique key, unless its window ends first. A job that is retried by
/// hand after its lock was released does not take it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UniqueHold {
    /// When the job is delivered to a worker.
    UntilStart,
    /// When the job is done, cancelled or removed; a dead job keeps the key.
    UntilSuccess,
    /// When the job ends, whatever its outcome.
    UntilEnd,
    /// Only at the end of the window: repeated pushes within it are one push (an idempotency key).
    Window,
}
