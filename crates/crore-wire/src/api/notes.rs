//! Progress and log lines of running deliveries.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeliveryId, Id};
use crate::units::Moment;

/// Notes of running deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNotes {
    /// The notes, in order.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "crate::object::list")]
    pub notes: Vec<NewNote>,
}

/// A note of a running delivery: progress (`percent`, with or without `text`), or a log line (`text` alone).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "17", "delivery": "4294967297", "percent": 50, "text": "half of it"}))]
pub struct NewNote {
    /// The job.
    pub id: Id,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Progress in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    /// Message; truncated at 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Result of adding notes: notes of deliveries that are not running are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Noted {
    /// Number of notes that were stored.
    pub kept: usize,
}

/// The notes of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notes {
    /// The latest progress.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<HowFar>,
    /// The latest log lines, oldest first, at most a hundred.
    pub lines: Vec<Line>,
}

/// Progress of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HowFar {
    /// Time of the note.
    pub at: Moment,
    /// Percent, 0 to 100.
    pub percent: u8,
    /// Message.
    pub text: String,
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Line {
    /// Time of the line.
    pub at: Moment,
    /// The line.
    pub text: String,
}
