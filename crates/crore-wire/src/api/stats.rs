//! Statistics over time.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::units::Moment;

/// Resolution of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Per minute, kept for one day.
    #[default]
    Minute,
    /// Per hour, kept for 90 days.
    Hour,
}

/// The counted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Jobs pushed.
    Pushed,
    /// Jobs done.
    Done,
    /// Failed attempts.
    Failed,
    /// Jobs that became dead.
    Dead,
    /// Jobs cancelled.
    Cancelled,
}

impl Series {
    /// Name of the series in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Selects a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// The counted event.
    pub series: Series,
    /// Resolution. Default: `minute`.
    pub step: Option<Step>,
}

/// A statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// The counted event.
    pub series: Series,
    /// Resolution.
    pub step: Step,
    /// Data points, oldest first; zeros are omitted.
    pub points: Vec<Point>,
}

/// The number of events in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// Start of the step.
    pub at: Moment,
    /// Number of events.
    pub n: u64,
}
