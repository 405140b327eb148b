//! Bulk actions that run in the background.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::act::ActOnAll;
use super::job::Job;
use crate::units::{Moment, Period};

/// State of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    /// It is running.
    Running,
    /// It has visited all jobs.
    Done,
    /// A caller cancelled it; jobs changed before stay changed.
    Cancelled,
    /// It failed; jobs changed before stay changed.
    Failed,
    /// The server stopped while it was running; jobs changed before stay changed. It is not resumed: start it again.
    Interrupted,
}

/// An action on all matching jobs that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// The id.
    pub id: String,
    /// The state.
    pub state: OperationState,
    /// The request.
    pub request: ActOnAll,
    /// The caller that started it.
    pub by: String,
    /// When it started.
    pub started_at: Moment,
    /// When it ended; absent if it is running, or if the server stopped without recording it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Moment>,
    /// Jobs examined so far. Zero if the server stopped without recording it, as are the other counts.
    pub scanned: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs changed; in a dry run, the jobs that would be.
    pub changed: u64,
    /// Jobs that match and were not changed, because their state does not allow the action.
    pub refused: u64,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Wait time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OperationQuery {
    /// Maximum time to wait for the end of the operation, up to one minute.
    pub wait: Option<Period>,
}

/// The operations that the server remembers, oldest first: at most 100, for a week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operations {
    /// The operations.
    pub operations: Vec<Operation>,
}

/// The effect that an action would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Jobs examined.
    pub scanned: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs that would be changed.
    pub changed: u64,
    /// Whether all jobs were examined. Otherwise the counts are lower bounds: a preview ends after 100,000 jobs or two
    /// seconds.
    pub complete: bool,
    /// The first ten matching jobs, without their payloads.
    pub samples: Vec<Job>,
}
