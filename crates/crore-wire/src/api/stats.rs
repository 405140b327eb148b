//! Statistics over time.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::words::Moment;

/// How fine a statistic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// By minute, for a day.
    #[default]
    Minute,
    /// By hour, for 90 days.
    Hour,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Jobs that were pushed.
    Pushed,
    /// Jobs that were done.
    Done,
    /// Attempts that failed.
    Failed,
    /// Jobs that died.
    Dead,
    /// Jobs that were cancelled.
    Cancelled,
}

impl Series {
    /// Its name in the store.
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

/// Which statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichStats {
    /// What is counted.
    pub series: Series,
    /// How fine; by minute, unless told otherwise.
    pub step: Option<Step>,
}

/// A statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// What is counted.
    pub series: Series,
    /// How fine.
    pub step: Step,
    /// Oldest first; what is zero is left out.
    pub points: Vec<Point>,
}

/// How often it happened in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// When the step began.
    pub at: Moment,
    /// How often.
    pub n: u64,
}
