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

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    #[schema(value_type = Raw)]
    pub about: Raw,
    /// When it is forgotten, unless it says that it is there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Moment>,
}

/// All workers that are there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// By name.
    pub workers: Vec<Worker>,
}
