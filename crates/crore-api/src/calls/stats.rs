//! Counts, and statistics over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore::store::views::{JobCount, JobStatsQuery, JobStatsRow, StatStep, StatsShape};
use crore_core::{Code, Invalid, JobStats, Name, Time};
use crore_wire::api::stats::{
    JobStatistics, Point, Series, Stats, StatsBy, StatsQuery, StatsResponse, StatsRow, Step,
};
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

    /// Statistics of jobs that the caller may see: of one event if `which` names a series, otherwise of all.
    pub async fn stats(&self, grant: &Grant, which: StatsQuery) -> Result<StatsResponse, Fault> {
        let by = which.by.unwrap_or_default();
        let Some(series) = which.series else {
            return self.job_statistics(grant, which).await.map(StatsResponse::Jobs);
        };
        if by != StatsBy::Time {
            let why = "`series` is shown by time only; leave out `series` or `by`";
            return Err(Invalid::new(Code::Malformed, "by", why).into());
        }
        self.series(grant, series, which).await.map(StatsResponse::Series)
    }

    /// Statistics of jobs, by time, queue or kind.
    pub async fn job_statistics(
        &self,
        grant: &Grant,
        which: StatsQuery,
    ) -> Result<JobStatistics, Fault> {
        let by = which.by.unwrap_or_default();
        let (step, query) = self.stats_query(grant, &which)?;
        let rows = self.engine().jobs().job_stats(query).await?;
        let mut total = JobStats::default();
        rows.iter().for_each(|row| total.merge(&row.stats));
        let rows = grouped(rows, by).into_iter().map(shown).collect();
        Ok(JobStatistics { step, by, rows, total: StatsRow::from(&total) })
    }

    async fn series(
        &self,
        grant: &Grant,
        series: Series,
        which: StatsQuery,
    ) -> Result<Stats, Fault> {
        let (step, query) = self.stats_query(grant, &which)?;
        let is_whole = which.queue.is_none() && which.kind.is_none() && grant.only().is_none();
        // The sum over all jobs is kept apart, and older than the statistics by queue and kind.
        let points = match series.sum_name() {
            Some(name) if is_whole => {
                let name = Name::new("series", name)?;
                let sums = self.engine().jobs().stats(name, query.step).await?;
                let from = Moment(query.from.before(query.step.span()));
                let sums = sums.into_iter().map(|(at, n)| Point { at: Moment(at), n });
                sums.filter(|point| point.at > from && point.at.0 < query.to).collect()
            }
            _ => {
                let rows = self.engine().jobs().job_stats(query).await?;
                let point = |row: JobStatsRow| Point {
                    at: Moment(row.at),
                    n: row.stats.count(series.counter()),
                };
                rows.into_iter().map(point).filter(|point| point.n > 0).collect()
            }
        };
        Ok(Stats { series, step, points })
    }

    fn stats_query(
        &self,
        grant: &Grant,
        which: &StatsQuery,
    ) -> Result<(Step, JobStatsQuery), Fault> {
        let (queue, kind) = filter_names(grant, which.queue.as_deref(), which.kind.as_deref())?;
        let now = self.engine().status().now();
        let (from, to) = (which.from.map_or(Time::ZERO, |at| at.0), which.to.map(|at| at.0));
        if to.is_some_and(|to| to < from) {
            let why = "`from` is later than `to`; exchange them";
            return Err(Invalid::new(Code::TimeRange, "from", why).into());
        }
        let step = which.step.unwrap_or_else(|| finest_step(which.from.map(|at| at.0), now));
        let shape = match which.by.unwrap_or_default() {
            StatsBy::Time => StatsShape::OverTime,
            StatsBy::Queue | StatsBy::Kind | StatsBy::Series => StatsShape::BySeries,
        };
        let (within, to) = (grant.only().map(Arc::clone), to.unwrap_or(Time::MAX));
        let query = JobStatsQuery { queue, kind, within, step: stored(step), from, to, shape };
        Ok((step, query))
    }
}

const fn stored(step: Step) -> StatStep {
    match step {
        Step::Minute => StatStep::Minute,
        Step::Hour => StatStep::Hour,
        Step::Day => StatStep::Day,
    }
}

/// The finest step that is kept since this time.
fn finest_step(from: Option<Time>, now: Time) -> Step {
    let Some(from) = from else { return Step::Minute };
    let is_kept = |step: &Step| {
        let step = stored(*step);
        now.since(from) <= step.span().times(step.buckets() - 1)
    };
    [Step::Minute, Step::Hour].into_iter().find(is_kept).unwrap_or(Step::Day)
}

/// A row of a response.
struct GroupedRow {
    at: Option<Time>,
    queue: Option<Name>,
    kind: Option<Name>,
    stats: JobStats,
}

/// Sums up rows of series by queue or kind. The row without a name is the last.
fn grouped(rows: Vec<JobStatsRow>, by: StatsBy) -> Vec<GroupedRow> {
    if by == StatsBy::Time {
        let row = |JobStatsRow { at, stats, .. }| GroupedRow {
            at: Some(at),
            queue: None,
            kind: None,
            stats,
        };
        return rows.into_iter().map(row).collect();
    }
    let mut groups: BTreeMap<(bool, Option<Name>, Option<Name>), JobStats> = BTreeMap::new();
    for JobStatsRow { series, stats, .. } in rows {
        let is_other = series.is_none();
        let (queue, kind) = series.unzip();
        let key = match by {
            StatsBy::Queue => (is_other, queue, None),
            StatsBy::Kind => (is_other, None, kind),
            StatsBy::Series | StatsBy::Time => (is_other, queue, kind),
        };
        groups.entry(key).or_default().merge(&stats);
    }
    let row = |((_, queue, kind), stats)| GroupedRow { at: None, queue, kind, stats };
    groups.into_iter().map(row).collect()
}

fn shown(row: GroupedRow) -> StatsRow {
    StatsRow {
        at: row.at.map(Moment),
        queue: row.queue.map(|name| name.to_string()),
        kind: row.kind.map(|name| name.to_string()),
        ..StatsRow::from(&row.stats)
    }
}

#[cfg(test)]
mod tests {
    use crore_core::Span;

    use super::*;

    #[test]
    fn the_finest_step_that_is_kept_is_chosen() {
        let now = Time::ZERO.after(Span::from_secs(1000 * 86400));
        let step = |hours: u64| finest_step(Some(now.before(Span::from_secs(hours * 3600))), now);
        assert_eq!(finest_step(None, now), Step::Minute);
        assert_eq!((step(0), step(23), step(25)), (Step::Minute, Step::Minute, Step::Hour));
        assert_eq!(
            (step(24 * 89), step(24 * 91), step(24 * 900)),
            (Step::Hour, Step::Day, Step::Day)
        );
    }
}
