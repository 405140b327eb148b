//! Counts, and statistics over time.

use crore::store::views::{self, JobCount};
use crore_core::Name;
use crore_wire::api::stats::{Point, Stats, StatsQuery, Step};
use crore_wire::units::Moment;

use super::jobs::filter_names;
use crate::{Api, Fault, Grant};

impl Api {
    /// Number of jobs by queue, kind and state; zeros, and jobs that the caller may not see, are left out.
    pub async fn counts(&self, grant: &Grant, queue: Option<&str>) -> Result<Vec<JobCount>, Fault> {
        let (queue, _) = filter_names(grant, queue, None)?;
        let mut counts = self.engine().jobs().counts(queue).await?;
        if grant.only().is_some() {
            counts.retain(|count| grant.covers(&count.queue, &count.kind));
        }
        Ok(counts)
    }

    /// A statistic over time, oldest first.
    pub async fn stats(&self, grant: &Grant, which: StatsQuery) -> Result<Stats, Fault> {
        grant.check_unrestricted("statistics")?;
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
