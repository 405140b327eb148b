//! Live events.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use super::enums::State;
use crate::units::Moment;

/// Selects events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events of jobs in this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Only events of jobs of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The job was pushed.
    Pushed,
    /// The job was delivered to a worker.
    Started,
    /// The state changed to `state`.
    Became,
    /// The job was asked to stop.
    AskedToStop,
    /// The job was removed.
    Removed,
}

/// An event named `job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The job.
    pub id: Id,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Type of the event.
    pub what: What,
    /// The new state, for `became`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// Time of the event.
    pub at: Moment,
}

/// An event named `missed`: the client read too slowly, and events were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedEvents {
    /// Number of dropped events.
    pub n: u64,
}
