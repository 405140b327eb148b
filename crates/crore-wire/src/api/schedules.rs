//! Schedules: jobs that the clock pushes.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::push::NewJob;
use super::words::Missed;
use crate::words::Moment;

/// A schedule to set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// When it fires: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[schema(example = "cron 0 3 * * * in Europe/Berlin", max_length = 128)]
    pub timing: String,
    /// What becomes of ticks that nobody was there for; `skip` unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// What it pushes.
    #[serde(deserialize_with = "crate::object::one")]
    pub job: NewJob,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub timing: String,
    /// What becomes of ticks that nobody was there for.
    pub missed: Missed,
    /// Whether it is not to fire.
    pub paused: bool,
    /// When it fires next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_at: Option<Moment>,
    /// What it pushes.
    pub job: NewJob,
}

/// All schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedules {
    /// By name.
    pub schedules: Vec<Schedule>,
}

/// A timing to look ahead with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Ahead {
    /// The timing: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[param(max_length = 128, example = "every 15m")]
    pub timing: String,
    /// How many instants, 1 to 1000; 10 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    pub n: Option<usize>,
}

/// The instants at which a timing fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ticks {
    /// The timing, as it is understood.
    pub timing: String,
    /// The instants, the next one first.
    pub ticks: Vec<Moment>,
}
