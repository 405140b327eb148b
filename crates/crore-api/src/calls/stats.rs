//! Counts, and statistics over time.

use crore::store::views::{self, Count};
use crore_core::Name;
use crore_wire::api::stats::{Point, Stats, Step, WhichStats};
use crore_wire::words::Moment;

use crate::params::optional_name;
use crate::{Api, Fault};

impl Api {
    /// Number of jobs by queue, kind and state; zeros are left out.
    pub async fn counts(&self, queue: Option<&str>) -> Result<Vec<Count>, Fault> {
        Ok(self.engine().jobs().counts(optional_name("queue", queue)?).await?)
    }

    /// A statistic over time, oldest first.
    pub async fn stats(&self, which: WhichStats) -> Result<Stats, Fault> {
        let WhichStats { series, step } = which;
        let step = step.unwrap_or_default();
        let stored = match step {
            Step::Minute => views::Step::Minute,
            Step::Hour => views::Step::Hour,
        };
        let points =
            self.engine().jobs().stats(Name::new("series", series.name())?, stored).await?;
        let points = points.into_iter().map(|(at, n)| Point { at: Moment(at), n }).collect();
        Ok(Stats { series, step, points })
    }
}
