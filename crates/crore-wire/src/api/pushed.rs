//! What a push answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Id, Problem};

/// What became of a pushed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Took {
    /// It is stored.
    New,
    /// Its unique key, client id or idempotency key belongs to the job `id`; it is not stored again.
    Duplicate,
    /// It is not stored; `problem` says why.
    Refused,
}

/// The answer to a pushed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pushed {
    /// What became of it.
    pub status: Took,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<Id>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<Problem>,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PushedAll {
    /// One answer for each job, in order.
    pub jobs: Vec<Pushed>,
    /// The new groups, in order.
    pub groups: Vec<Id>,
    /// How many were refused.
    pub refused: usize,
}
