//! What deliveries say while they run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeliveryId, Id};
use crate::words::Moment;

/// Notes of running deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNotes {
    /// The notes, in order.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "crate::object::list")]
    pub notes: Vec<NewNote>,
}

/// A note of a running delivery: how far it is (`percent`, with or without `text`), or a log line (`text`
/// alone).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "17", "delivery": "4294967297", "percent": 50, "text": "half of it"}))]
pub struct NewNote {
    /// The job.
    pub id: Id,
    /// The number of the hand-over.
    pub delivery: DeliveryId,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    /// In words; longer than 64 KiB, it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// How many notes were kept: those of deliveries that are not running are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Noted {
    /// How many.
    pub kept: usize,
}

/// The notes of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notes {
    /// The newest progress.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<HowFar>,
    /// The newest log lines, oldest first, at most a hundred.
    pub lines: Vec<Line>,
}

/// How far a delivery is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HowFar {
    /// When it said so.
    pub at: Moment,
    /// From 0 to 100.
    pub percent: u8,
    /// In words.
    pub text: String,
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Line {
    /// When it was said.
    pub at: Moment,
    /// The line.
    pub text: String,
}
