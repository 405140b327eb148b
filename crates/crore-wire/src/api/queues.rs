//! Queues: what waits there, and their settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::retry::said;
use super::words::State;
use crate::words::Period;

/// All queues that have jobs or settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// By name.
    pub queues: Vec<Queue>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether its jobs are not handed out.
    pub paused: bool,
    /// How many jobs there are in each state; zeros are left out.
    pub counts: BTreeMap<String, u64>,
    /// How long done and cancelled jobs are kept.
    pub keep_done: Period,
    /// How many done and cancelled jobs are kept, each; without it, any number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_done: Option<u64>,
    /// How long dead jobs are kept.
    pub keep_dead: Period,
    /// How many dead jobs are kept; without it, any number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_dead: Option<u64>,
}

/// Settings of a queue; what is left out stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeQueue {
    /// How long done and cancelled jobs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_done: Option<Period>,
    /// How many done and cancelled jobs are kept, each; `null`: any number.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9007199254740991_i64)]
    pub max_done: Option<Option<u64>>,
    /// How long dead jobs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_dead: Option<Period>,
    /// How many dead jobs are kept; `null`: any number.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9007199254740991_i64)]
    pub max_dead: Option<Option<u64>>,
}

/// Whether a queue is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// Whether none of its jobs runs any more. It stays paused either way.
    pub drained: bool,
}

/// Whose jobs to count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InQueue {
    /// Of this queue; of all, unless told otherwise.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
}

/// How many jobs there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// By queue, kind and state; zeros are left out.
    pub counts: Vec<Count>,
}

/// How many jobs of one sort there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The state.
    pub state: State,
    /// How many.
    pub n: u64,
}
