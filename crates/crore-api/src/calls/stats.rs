//! Counts, and statistics over time.

use crore::store::views::{self, JobCount};
use crore_core::Name;
use crore_wire::api::stats::{Point, Stats, StatsQuery, Step};
use crore_wire::units::Moment;

use crate::params::optional_name;
use crate::{Api, Fault};

impl Api {
    /// Number of jobs by queue, kind and state; zeros are left out.
    pub async fn counts(&self, queue: Option<&str>) -> Result<Vec<JobCount>, Fault> {
        Ok(self.engine().jobs().counts(optional_name("queue", queue)?).await?)
    }

    /// A statistic over time, oldest first.
    pub async fn stats(&self, which: StatsQuery) -> Result<Stats, Fault> {
        let StatsQuery { series, step } = which;
        let step = step.unwrap_or_default();
        let stored = match step {
            Step::Minute => views::StatStep::Minute,
            Step::Hour => views::StatStep::Hour,
        };
        let points =
            self.engine().jobs().stats(Name::new("series", series.name())?, stored).await?;
        let points = points.into_iter().map(|(at, n)| Point { at: Moment(at), n }).collect();
        Ok(Stats { series, step, points })
    }
}
