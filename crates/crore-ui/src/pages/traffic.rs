//! Statistics over time as charts: jobs in and out, failures, wait and run times.

use crore_api::Fault;
use crore_core::Span;
use crore_wire::api::stats::{JobStatistics, Quantiles, StatsBy, StatsQuery, StatsRow};
use crore_wire::units::Moment;
use maud::{Markup, html};

use crate::Ui;
use crate::context::PageContext;
use crate::html::chart::{Chart, ChartLine, ChartUnit};
use crate::range::TimeAxis;

/// The current bucket counts as at least this long, so that its rate is not exaggerated.
const MIN_ELAPSED: Span = Span::from_secs(20);

/// The statistics of a queue, or of all.
pub(super) struct Traffic {
    axis: TimeAxis,
    statistics: JobStatistics,
}

/// Reads the statistics of the page's time range.
pub(super) async fn traffic(
    ui: &Ui,
    cx: &PageContext,
    queue: Option<&str>,
) -> Result<Traffic, Fault> {
    let axis = cx.axis();
    let query = StatsQuery { queue: queue.map(str::to_owned), ..range_query(&axis) };
    let statistics = ui.api().job_statistics(&cx.grant, query).await?;
    Ok(Traffic { axis, statistics })
}

/// Statistics of the page's time range, by queue.
pub(super) async fn by_queue(ui: &Ui, cx: &PageContext) -> Result<Vec<StatsRow>, Fault> {
    let query = StatsQuery { by: Some(StatsBy::Queue), ..range_query(&cx.axis()) };
    Ok(ui.api().job_statistics(&cx.grant, query).await?.rows)
}

fn range_query(axis: &TimeAxis) -> StatsQuery {
    StatsQuery { step: Some(axis.step), from: Some(Moment(axis.from)), ..StatsQuery::default() }
}

impl Traffic {
    /// All of the range together.
    pub(super) fn total(&self) -> &StatsRow {
        &self.statistics.total
    }

    /// The charts of a page, on one time axis.
    pub(super) fn charts(&self, cx: &PageContext) -> Markup {
        let text = cx.text;
        let flow = [
            self.rate(cx, text.pushed_jobs, "in", |row| row.pushed),
            self.rate(cx, text.done_jobs, "out", |row| row.done),
        ];
        let failures = [
            self.rate(cx, text.failed_attempts, "fail", |row| row.failed),
            self.rate(cx, text.dead_jobs, "dead", |row| row.dead),
        ];
        let wait = self.quantiles(|row| row.wait);
        let run = self.quantiles(|row| row.run);
        let chart = |title, lines: &[ChartLine<'_>], unit| {
            Chart { title, lines, unit }.show(text, &self.axis)
        };
        html! {
            div.charts data-live="charts" {
                (chart(text.per_minute, &flow, ChartUnit::Rate))
                (chart(text.failures_per_minute, &failures, ChartUnit::Rate))
                (chart(text.wait_time, &wait, ChartUnit::Millis))
                (chart(text.run_time, &run, ChartUnit::Millis))
            }
        }
    }

    /// A counter per minute.
    fn rate<'a>(
        &self,
        cx: &PageContext,
        label: &'a str,
        color: &'a str,
        counter: fn(&StatsRow) -> u64,
    ) -> ChartLine<'a> {
        let mut sums = vec![0; self.axis.buckets];
        for row in &self.statistics.rows {
            let index = row.at.and_then(|Moment(at)| self.axis.index(at));
            if let Some(sum) = index.and_then(|index| sums.get_mut(index)) {
                *sum += counter(row);
            }
        }
        let last = self.axis.to().before(self.axis.bucket);
        let elapsed = cx.now.since(last).max(MIN_ELAPSED).min(self.axis.bucket);
        let end = sums.len().saturating_sub(1);
        let per_minute = |(i, sum): (usize, &u64)| {
            let span = if i == end { elapsed } else { self.axis.bucket };
            Some(*sum as f64 * 60_000.0 / span.as_millis().max(1) as f64)
        };
        ChartLine { label, color, values: sums.iter().enumerate().map(per_minute).collect() }
    }

    /// Three quantiles of a duration; of several steps in a bucket, the longest is shown.
    fn quantiles(&self, which: fn(&StatsRow) -> Option<Quantiles>) -> [ChartLine<'static>; 3] {
        type Pick = fn(&Quantiles) -> u64;
        let picks: [(&str, &str, Pick); 3] = [
            ("p50", "p50", |all| all.p50.0.as_millis()),
            ("p95", "p95", |all| all.p95.0.as_millis()),
            ("p99", "p99", |all| all.p99.0.as_millis()),
        ];
        picks.map(|(label, color, pick)| {
            let mut values: Vec<Option<f64>> = vec![None; self.axis.buckets];
            for row in &self.statistics.rows {
                let index = row.at.and_then(|Moment(at)| self.axis.index(at));
                let slot = index.and_then(|index| values.get_mut(index));
                if let (Some(slot), Some(quantiles)) = (slot, which(row)) {
                    let value = pick(&quantiles) as f64;
                    *slot = Some(slot.map_or(value, |longest| longest.max(value)));
                }
            }
            ChartLine { label, color, values }
        })
    }
}
