//! Statistics over time.

use crore_core::{JobCounter, JobStats, SpanHistogram};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::units::{Moment, Period};

/// Resolution of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Per minute, kept for one day.
    #[default]
    Minute,
    /// Per hour, kept for 90 days.
    Hour,
    /// Per day (UTC), kept for 400 days.
    Day,
}

/// The counted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Jobs pushed.
    Pushed,
    /// Deliveries.
    Started,
    /// Jobs done.
    Done,
    /// Failed attempts.
    Failed,
    /// Failed or lapsed attempts after which the job is attempted again.
    Retried,
    /// Jobs that became dead.
    Dead,
    /// Jobs cancelled.
    Cancelled,
    /// Leases that expired without a report.
    Lapsed,
    /// Jobs that were not started by their deadline; also counted as cancelled.
    Expired,
}

impl Series {
    /// The counter of the event.
    pub const fn counter(self) -> JobCounter {
        match self {
            Self::Pushed => JobCounter::Pushed,
            Self::Started => JobCounter::Started,
            Self::Done => JobCounter::Done,
            Self::Failed => JobCounter::Failed,
            Self::Retried => JobCounter::Retried,
            Self::Dead => JobCounter::Dead,
            Self::Cancelled => JobCounter::Cancelled,
            Self::Lapsed => JobCounter::Lapsed,
            Self::Expired => JobCounter::Expired,
        }
    }

    /// Name under which the store has the sum over all jobs; `None`: it has none.
    pub const fn sum_name(self) -> Option<&'static str> {
        match self {
            Self::Pushed => Some("pushed"),
            Self::Done => Some("done"),
            Self::Failed => Some("failed"),
            Self::Dead => Some("dead"),
            Self::Cancelled => Some("cancelled"),
            Self::Started | Self::Retried | Self::Lapsed | Self::Expired => None,
        }
    }
}

/// Grouping of the rows of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatsBy {
    /// A row for each step in which anything happened.
    #[default]
    Time,
    /// A row for each queue.
    Queue,
    /// A row for each kind.
    Kind,
    /// A row for each combination of queue and kind.
    Series,
}

/// Selects a statistic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// Only this event, over time. Default: all events, with wait and run times.
    pub series: Option<Series>,
    /// Resolution. Default: the finest that is kept since `from`; without `from`, `minute`.
    pub step: Option<Step>,
    /// Queue of the jobs. Default: all.
    #[param(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// Kind of the jobs. Default: all.
    #[param(value_type = Option<super::Name>)]
    pub kind: Option<String>,
    /// Beginning; steps that end later are included. Default: all that is kept.
    pub from: Option<Moment>,
    /// End; steps that start earlier are included. Default: now.
    pub to: Option<Moment>,
    /// Grouping of the rows. Default: `time`.
    pub by: Option<StatsBy>,
}

/// Statistics: of one event if the request has `series`, otherwise of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StatsResponse {
    /// One event.
    Series(Stats),
    /// Jobs.
    Jobs(JobStatistics),
}

/// Statistics of one event.
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

/// Statistics of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobStatistics {
    /// Resolution.
    pub step: Step,
    /// Grouping of the rows.
    pub by: StatsBy,
    /// By time: oldest first. Otherwise by name; jobs beyond the first 1,000 combinations of queue and kind are in
    /// the last row, without a name. Rows without any event are omitted.
    pub rows: Vec<StatsRow>,
    /// All rows together.
    pub total: StatsRow,
}

/// Statistics of the jobs of one row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct StatsRow {
    /// Start of the step, by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
    /// The queue, by queue or series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The kind, by kind or series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Jobs pushed.
    pub pushed: u64,
    /// Deliveries.
    pub started: u64,
    /// Jobs done.
    pub done: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Failed or lapsed attempts after which the job is attempted again.
    pub retried: u64,
    /// Jobs that became dead.
    pub dead: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Leases that expired without a report.
    pub lapsed: u64,
    /// Jobs that were not started by their deadline; also counted as cancelled.
    #[serde(default)]
    pub expired: u64,
    /// Time from due to delivery, of deliveries that started. Absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Quantiles>,
    /// Time from delivery to its end, of deliveries that ended. Absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Quantiles>,
}

impl From<&JobStats> for StatsRow {
    fn from(stats: &JobStats) -> Self {
        Self {
            at: None,
            queue: None,
            kind: None,
            pushed: stats.count(JobCounter::Pushed),
            started: stats.count(JobCounter::Started),
            done: stats.count(JobCounter::Done),
            failed: stats.count(JobCounter::Failed),
            retried: stats.count(JobCounter::Retried),
            dead: stats.count(JobCounter::Dead),
            cancelled: stats.count(JobCounter::Cancelled),
            lapsed: stats.count(JobCounter::Lapsed),
            expired: stats.count(JobCounter::Expired),
            wait: Quantiles::of(&stats.wait),
            run: Quantiles::of(&stats.run),
        }
    }
}

/// Quantiles of durations, within 15 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quantiles {
    /// Median.
    pub p50: Period,
    /// 95 % are not longer.
    pub p95: Period,
    /// 99 % are not longer.
    pub p99: Period,
}

impl Quantiles {
    fn of(spans: &SpanHistogram) -> Option<Self> {
        let quantile = |percent| spans.quantile(percent).map(Period);
        Some(Self { p50: quantile(50)?, p95: quantile(95)?, p99: quantile(99)? })
    }
}
