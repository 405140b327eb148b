//! Schedules of recurring jobs.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Id;
use super::enums::{Missed, State};
use super::push::NewJob;
use crate::units::Moment;

/// Definition of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// When it fires: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[schema(example = "cron 0 3 * * * in Europe/Berlin", max_length = 128)]
    pub timing: String,
    /// Policy for missed ticks. Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// The job to push.
    #[serde(deserialize_with = "crate::object::one")]
    pub job: NewJob,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// When it fires.
    pub timing: String,
    /// Policy for missed ticks.
    pub missed: Missed,
    /// Whether the schedule is paused.
    pub paused: bool,
    /// When it fires next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_at: Option<Moment>,
    /// The job to push.
    pub job: NewJob,
}

/// The last jobs that a schedule pushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleRuns {
    /// The jobs, newest first, at most 20. Jobs that were removed are missing, as are those behind 1,000 other jobs of
    /// their queue and kind.
    pub jobs: Vec<ScheduleRun>,
}

/// A job that a schedule pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleRun {
    /// The job.
    pub id: Id,
    /// Its state.
    pub state: State,
    /// When it was pushed.
    pub pushed_at: Moment,
    /// When it was due.
    pub due_at: Moment,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Moment>,
}

/// All schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedules {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
}

/// Preview of a timing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PreviewQuery {
    /// The timing: `cron 0 3 * * * in Europe/Berlin`, or `every 15m`.
    #[param(max_length = 128, example = "every 15m")]
    pub timing: String,
    /// Number of ticks, 1 to 1000. Default: 10.
    #[param(minimum = 1, maximum = 1000)]
    pub n: Option<usize>,
}

/// The next ticks of a timing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ticks {
    /// The timing in canonical form.
    pub timing: String,
    /// The ticks, earliest first.
    pub ticks: Vec<Moment>,
}
