//! Workers: who is there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Raw;
use crate::words::{Moment, Period};

/// A worker says that it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetWorker {
    /// Anything that people should see: host, version, queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub about: Option<Raw>,
    /// Within which time it will say so again, 1 s to 24 h; a minute unless told otherwise. Otherwise it is forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Period>,
}

/// The stream by which a worker is given its jobs, as this server sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStream {
    /// Which process of that name it is.
    pub incarnation: String,
    /// The version of its program, if it says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// From which queues it wants jobs.
    pub queues: Vec<String>,
    /// Only these kinds; none: any.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kinds: Vec<String>,
    /// How many jobs it runs at a time.
    pub slots: usize,
    /// How many it has.
    pub running: usize,
    /// Since when its stream is there.
    pub since: Moment,
    /// When it last said anything.
    pub heard: Moment,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    #[schema(value_type = Raw)]
    pub about: Raw,
    /// When it is forgotten, unless it says that it is there; of a worker with a stream: unless it comes back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Moment>,
    /// Its stream, if it has one to this server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stream: Option<WorkerStream>,
}

/// All workers that are there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// By name.
    pub workers: Vec<Worker>,
}
