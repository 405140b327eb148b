//! Registered workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Raw;
use crate::units::{Moment, Period};

/// Registration and heartbeat of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetWorker {
    /// Free-form description for operators: host, version, queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub about: Option<Raw>,
    /// Time until the registration expires without a further heartbeat, 1 s to 24 h. Default: 1 m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Period>,
}

/// The stream of a worker to this server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStream {
    /// Identifies the process of the worker.
    pub incarnation: String,
    /// Version of the worker's program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// Queues that the worker takes jobs from.
    pub queues: Vec<String>,
    /// Kinds that the worker takes; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kinds: Vec<String>,
    /// Version of each kind that the worker runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub versions: BTreeMap<String, String>,
    /// Maximum number of concurrent jobs.
    pub slots: usize,
    /// Number of running jobs.
    pub running: usize,
    /// Whether the server sends no jobs to the worker, because an operator asked for it.
    #[serde(default)]
    pub quiet: bool,
    /// Whether an operator asked the worker to finish its jobs and exit.
    #[serde(default)]
    pub stopping: bool,
    /// When the stream was opened.
    pub since: Moment,
    /// When the last message was received.
    pub heard: Moment,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// The name.
    pub name: String,
    /// Free-form description, as sent by the worker.
    #[schema(value_type = Raw)]
    pub about: Raw,
    /// When the worker is removed: without a further heartbeat, or without a reconnect after its stream has ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Moment>,
    /// The stream of the worker, if it has one to this server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stream: Option<WorkerStream>,
}

/// All workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// The workers, by name.
    pub workers: Vec<Worker>,
}
