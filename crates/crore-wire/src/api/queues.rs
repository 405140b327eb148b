//! Queues: counts and settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::enums::State;
use super::retry::double_option;
use crate::units::{Moment, Period};

/// A page of the queues that have jobs or settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// The queues, by name.
    pub queues: Vec<Queue>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// Which queues to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct QueuesQuery {
    /// Cursor: `next` of the previous page.
    #[param(min_length = 1, max_length = 400)]
    pub cursor: Option<String>,
    /// Page size, 1 to 1000. Default: 1000.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// The name.
    pub name: String,
    /// Whether delivery of its jobs is paused.
    pub paused: bool,
    /// Number of jobs per state; zeros are omitted.
    pub counts: BTreeMap<String, u64>,
    /// Retention of done and cancelled jobs.
    pub keep_done: Period,
    /// Maximum number of done jobs, and of cancelled jobs, that are kept; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_done: Option<u64>,
    /// Retention of dead jobs.
    pub keep_dead: Period,
    /// Maximum number of dead jobs that are kept; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_dead: Option<u64>,
    /// How the queue is shared; absent: it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fair: Option<QueueShare>,
    /// The payload fields by which searches find jobs of the queue without reading all of them; absent: none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub index: Vec<QueueIndexField>,
    /// Since when its oldest ready job is due; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oldest_at: Option<Moment>,
    /// Number of workers that are connected to this server by a stream and serve the queue.
    #[serde(default)]
    pub workers: usize,
    /// Maximum number of concurrent jobs of these workers. A worker with several queues counts in each of them.
    #[serde(default)]
    pub slots: usize,
    /// Number of these slots that run a job of any queue.
    #[serde(default)]
    pub busy_slots: usize,
    /// If the queue is shared: the ten values with most ready jobs, the largest first. Not in lists.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub shares: Vec<ShareSize>,
}

/// Ready jobs of one value of a shared queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareSize {
    /// The value; empty: jobs without the field.
    pub value: String,
    /// Its weight.
    pub weight: u32,
    /// Number of ready jobs.
    pub ready: u64,
}

/// Why the jobs of a queue wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueExplanation {
    /// The queue.
    pub queue: String,
    /// Number of ready jobs.
    pub ready: u64,
    /// Since when the oldest of them is due.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oldest_at: Option<Moment>,
    /// The reasons, the most important one first.
    pub reasons: Vec<QueueReason>,
}

/// A reason why jobs of a queue wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueReason {
    /// The reason: `empty`, `paused`, `no-worker`, `no-worker-version`, `workers-quiet`, `limited`, `limit-paused`,
    /// `workers-busy`, `scheduled`, `waits-for`, or `none`: workers take the jobs.
    pub reason: String,
    /// Description for operators.
    pub detail: String,
    /// Number of jobs that it concerns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub jobs: Option<u64>,
    /// For `limited` and `limit-paused`: the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// For `limited` and `limit-paused`: the value of the limit's `per` field.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// For `limited`: time until the last of the jobs starts at the limit's rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clears_in: Option<Period>,
    /// For `scheduled`: when the next job is due. For `limit-paused`: the end of the pause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Moment>,
    /// For `workers-busy`: slots that run jobs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub busy_slots: Option<usize>,
    /// For `workers-busy`: all slots.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slots: Option<usize>,
}

/// A payload field that a queue indexes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueIndexField {
    /// The field, such as `payload.customer`.
    pub field: String,
    /// Whether all jobs of the queue are in the index; searches use it from then on.
    pub complete: bool,
}

/// Fair share: jobs of one priority are delivered in turns between the values of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueShare {
    /// The field: `payload.tenant`, `label.team` or `kind`. Jobs without it share one turn.
    #[schema(min_length = 1, max_length = 1024)]
    pub by: String,
    /// Weights of values, 1 to 1000; all others have weight 1. At most 1000.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// Settings of a queue; omitted fields stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeQueue {
    /// Retention of done and cancelled jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_done: Option<Period>,
    /// Maximum number of done jobs, and of cancelled jobs, that are kept; `null`: unlimited.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9007199254740991_i64)]
    pub max_done: Option<Option<u64>>,
    /// Retention of dead jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_dead: Option<Period>,
    /// Maximum number of dead jobs that are kept; `null`: unlimited.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9007199254740991_i64)]
    pub max_dead: Option<Option<u64>>,
    /// How the queue is shared; `null`: it is not.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<QueueShare>)]
    pub fair: Option<Option<QueueShare>>,
    /// The payload fields to index, such as `payload.customer`; at most 4. `null`: none.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 4)]
    pub index: Option<Option<Vec<String>>>,
}

/// Result of draining a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// Whether no job of the queue is running. The queue stays paused either way.
    pub drained: bool,
}

/// Selects the jobs to count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CountsQuery {
    /// Only jobs in this queue. Default: all queues.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
}

/// Job counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Counts by queue, kind and state; zeros are omitted.
    pub counts: Vec<Count>,
}

/// Number of jobs of one queue, kind and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The state.
    pub state: State,
    /// Number of jobs.
    pub n: u64,
}
