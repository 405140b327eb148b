//! The difference between a job and the last good one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Id;
use crate::units::{Moment, Period};

/// The difference between the payload of a job and that of the newest job of its queue and kind that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobDiff {
    /// The job.
    pub job: Id,
    /// Its newest run that has ended; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<ComparedRun>,
    /// The newest other job of its queue and kind that is done; absent if none is stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub good: Option<ComparedRun>,
    /// Whether both payloads have fields to compare: JSON or MessagePack, at most 256 KiB.
    pub comparable: bool,
    /// The fields that differ, in the order of their paths; at most 200.
    pub fields: Vec<FieldDiff>,
    /// Number of fields that differ, up to 10,000.
    pub field_count: usize,
}

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComparedRun {
    /// The job.
    pub job: Id,
    /// When the run ended.
    pub ended_at: Moment,
    /// Time from its start to its end.
    pub duration: Period,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker: Option<String>,
    /// The version of the kind that the worker ran, or of its program. Known for workers that are connected by a stream,
    /// since the start of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldDiff {
    /// The field, such as `payload.customer.id`; `payload` is the whole.
    pub field: String,
    /// How it differs from the good job.
    pub change: FieldChange,
    /// Its value in the good job as JSON, at most 1,000 characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub good: Option<String>,
    /// Its value in this job as JSON, at most 1,000 characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
}

/// How a field differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FieldChange {
    /// Only this job has it.
    Added,
    /// Only the good job has it.
    Removed,
    /// Its values differ.
    Changed,
}
