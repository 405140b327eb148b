//! Results of a push.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Id, Problem};

/// Status of a pushed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PushStatus {
    /// Stored.
    New,
    /// Not stored: the unique key, client id or idempotency key belongs to the job `id`.
    Duplicate,
    /// Not stored: invalid, see `problem`.
    Refused,
}

/// Result of one pushed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pushed {
    /// The status.
    pub status: PushStatus,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<Id>,
    /// Why the job was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<Problem>,
}

/// Result of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PushedAll {
    /// One result per job, in order.
    pub jobs: Vec<Pushed>,
    /// The new groups, in order.
    pub groups: Vec<Id>,
    /// Number of refused jobs.
    pub refused: usize,
}
