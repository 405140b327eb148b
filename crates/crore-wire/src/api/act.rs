//! Operator actions: cancel, retry, delete, change and replay.

use crore_core::job::DueTime;
use crore_core::{Invalid, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::enums::State;
use super::replay::ReplayAll;
use super::{Id, Labels};
use crate::units::{Moment, Period};

/// A change of a job; omitted fields stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The new queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// The new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Earliest start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Minimum delay before the start, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
}

impl Change {
    /// The new queue, if set.
    pub fn queue(&self) -> Result<Option<Name>, Invalid> {
        self.queue.as_deref().map(|queue| Name::new("queue", queue)).transpose()
    }

    /// The new due time, if set.
    pub fn due(&self) -> Result<Option<DueTime>, Invalid> {
        super::push::due_time(self.due, self.delay)
    }
}

/// Result of an action on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acted {
    /// The job.
    pub id: Id,
    /// The new state; absent if the job was removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
}

/// An action on jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Cancel; running jobs are asked to stop.
    Cancel,
    /// Retry dead and cancelled jobs; run scheduled jobs now.
    Retry,
    /// Delete.
    Delete,
    /// Apply `change`.
    Change,
    /// Push a replay of each job, with the edits in `replay`. Also needs the scope `push`.
    Replay,
}

/// Selects jobs. At least one condition, or `all`, is required.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Jobs in one of these states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
    /// Jobs in this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Jobs of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Jobs with all of these labels.
    #[serde(default)]
    pub labels: Labels,
    /// Jobs pushed before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_before: Option<Moment>,
    /// Jobs that match this filter: `state:dead kind:mail* payload.to=ada error~timeout age>1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub q: Option<String>,
    /// Selects all jobs; required if no other condition is set.
    #[serde(default)]
    pub all: bool,
}

/// An action on all matching jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"act": "retry", "filter": {"kind": "mail", "states": ["dead"]}, "dry_run": true}))]
pub struct ActOnAll {
    /// The action.
    pub act: Verb,
    /// Selects the jobs.
    #[serde(deserialize_with = "crate::object::one")]
    pub filter: Filter,
    /// The change, for the action `change`.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub change: Option<Change>,
    /// The edits, for the action `replay`.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub replay: Option<ReplayAll>,
    /// Only count the jobs that would be affected.
    #[serde(default)]
    pub dry_run: bool,
}

/// Progress of an action on many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Jobs examined so far.
    pub seen: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs affected; in a dry run, the jobs that would be.
    pub done: u64,
}
