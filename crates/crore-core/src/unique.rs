//! Unique keys: at most one job per key while the key's lock is held.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::push::RESERVED_PREFIX;
use crate::time::Span;

/// Prefix of the unique keys of idempotent pushes.
pub const IDEMPOTENCY_PREFIX: &str = "idempotency:";

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

impl Unique {
    /// Whether crore has given the key to the job, for one push or one tick of a schedule. Another job with the same
    /// definition must not get it.
    pub fn is_of_one_push(&self) -> bool {
        let is_idempotency_key =
            self.hold == UniqueHold::Window && self.key.starts_with(IDEMPOTENCY_PREFIX);
        is_idempotency_key || self.key.starts_with(RESERVED_PREFIX)
    }
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
