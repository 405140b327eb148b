//! What happens, as it happens.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use super::words::State;
use crate::words::Moment;

/// Which events to hear.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichEvents {
    /// Of this queue.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Of this kind.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
}

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It was pushed.
    Pushed,
    /// It was handed to a worker.
    Started,
    /// It came into `state`.
    Became,
    /// It was asked to stop.
    AskedToStop,
    /// It was removed.
    Removed,
}

/// An event named `job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The job.
    pub id: Id,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// What happened.
    pub what: What,
    /// Its state, if that is what changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// When.
    pub at: Moment,
}

/// An event named `missed`: the listener was too slow, and so many events are lost to him.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedEvents {
    /// How many.
    pub n: u64,
}
