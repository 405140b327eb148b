//! Rate and concurrency limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::{Moment, Period};

/// Definition of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimit {
    /// Text of the limit: `where kind = "mail" rate 100/1m concurrency 5 per payload.tenant`.
    #[schema(example = r#"where kind = "mail" rate 100/1m"#, max_length = 16384)]
    pub limit: String,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// The name.
    pub name: String,
    /// Text of the limit.
    pub limit: String,
    /// Keys that reports have paused, at most 100, by value. Setting the limit ends their pauses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedLimitKey>,
    /// Number of ready jobs that the limit holds back now. A job that several limits hold back counts under one of
    /// them; a job counts after a worker has asked for it.
    #[serde(default)]
    pub waiting: u64,
    /// Keys that hold back ready jobs now, by queue, the ones with most jobs first. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_back: Vec<HeldBackJobs>,
}

/// Ready jobs of a queue that a key of a limit holds back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldBackJobs {
    /// The queue.
    pub queue: String,
    /// The value of the limit's `per` field; absent if the limit or the job has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Number of ready jobs.
    pub jobs: u64,
    /// Number of running jobs of all queues under the key.
    pub running: u64,
    /// When the key may admit the next job; absent: when a running job ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// Time until the last of the jobs starts at the limit's rate; absent if the limit has no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clears_in: Option<Period>,
}

/// A key of a limit under which no job starts for some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PausedLimitKey {
    /// The value of the limit's `per` field; absent if the limit or the job has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The end of the pause.
    pub until: Moment,
}

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The limits, by name.
    pub limits: Vec<Limit>,
}
