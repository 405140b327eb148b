//! Groups of errors: failed deliveries whose errors differ only in numbers, ids and quoted parts.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use crate::units::Moment;

/// Selects groups of errors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ErrorsQuery {
    /// Only errors of jobs in this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Only errors of jobs of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
    /// Only groups with an error since this time.
    pub since: Option<Moment>,
    /// Maximum number of groups, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Groups of errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorGroups {
    /// The groups, the one with the newest error first.
    pub groups: Vec<ErrorGroup>,
    /// Number of groups that match; `groups` has at most `limit` of them.
    pub total: usize,
    /// Whether the server is still reading the errors of stored jobs after its start, so that groups may be missing.
    pub filling: bool,
}

/// A group of errors, as far as the caller may see its jobs. Groups are kept in memory: after a restart of the server
/// they count the errors of jobs that are dead or wait for a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorGroup {
    /// The fingerprint: 16 hexadecimal digits. The filter `error=FINGERPRINT` selects jobs whose newest error is of
    /// this group.
    pub fingerprint: String,
    /// Number of failed deliveries.
    pub count: u64,
    /// When the first of them ended.
    pub first_at: Moment,
    /// When the last of them ended.
    pub last_at: Moment,
    /// The newest error, at most 1 KiB of it.
    pub message: String,
    /// The job of the newest error.
    pub job: Id,
    /// Queues and kinds of the jobs, the one with the newest error first; at most 20.
    pub places: Vec<ErrorPlace>,
    /// Number of combinations of queue and kind.
    pub place_count: usize,
    /// Versions of the workers, as far as known; at most 8.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub versions: Vec<String>,
    /// Errors in each of the last 60 minutes, oldest first.
    pub per_minute: Vec<u64>,
    /// Errors in each of the last 24 hours, oldest first.
    pub per_hour: Vec<u64>,
}

/// Errors of one group in jobs of one queue and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorPlace {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Number of failed deliveries.
    pub count: u64,
    /// When the last of them ended.
    pub last_at: Moment,
    /// The job of the newest error.
    pub job: Id,
}
