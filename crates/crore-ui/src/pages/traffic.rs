//! Statistics over time as charts: jobs in and out, failures, wait and run times.

use crore_api::Fault;
use crore_core::Span;
use crore_wire::api::marks::{Mark, MarkAction, MarkKind, MarksQuery};
use crore_wire::api::stats::{JobStatistics, Quantiles, StatsBy, StatsQuery, StatsRow};
use crore_wire::units::Moment;
use maud::{Markup, html};

use crate::Ui;
use crate::context::PageContext;
use crate::html::chart::{Chart, ChartLine, ChartMark, ChartUnit};
use crate::html::format::visible;
use crate::range::TimeAxis;
use crate::text::Texts;

/// The current bucket counts as at least this long, so that its rate is not exaggerated.
const MIN_ELAPSED: Span = Span::from_secs(20);

/// Marks that are drawn, and those that are listed.
const MAX_MARKS: usize = 100;
const MAX_LISTED: usize = 20;

/// The statistics of a queue, or of all.
pub(super) struct Traffic {
    axis: TimeAxis,
    statistics: JobStatistics,
    marks: Vec<Mark>,
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
    let which = MarksQuery { from: Some(Moment(axis.from)), to: None };
    let marks = ui.api().list_marks(&cx.grant, &which).marks;
    Ok(Traffic { axis, statistics, marks: newest(marks, queue) })
}

/// The newest marks, without those of other queues.
fn newest(mut marks: Vec<Mark>, queue: Option<&str>) -> Vec<Mark> {
    let is_other = |mark: &Mark, queue: &str| {
        mark.mark == MarkKind::Queue && mark.names.iter().all(|name| name != queue)
    };
    marks.retain(|mark| queue.is_none_or(|queue| !is_other(mark, queue)));
    marks.split_off(marks.len().saturating_sub(MAX_MARKS))
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
        let marks: Vec<ChartMark> = self.marks.iter().map(|mark| chart_mark(text, mark)).collect();
        let chart = |title, lines: &[ChartLine<'_>], unit| {
            Chart { title, lines, unit, marks: &marks }.show(text, &self.axis)
        };
        html! {
            div.charts data-live="charts" {
                (chart(text.per_minute, &flow, ChartUnit::Rate))
                (chart(text.failures_per_minute, &failures, ChartUnit::Rate))
                (chart(text.wait_time, &wait, ChartUnit::Millis))
                (chart(text.run_time, &run, ChartUnit::Millis))
            }
            (mark_list(cx, &marks))
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

/// The marks in words, newest first: for screen readers, and where there is no pointer.
fn mark_list(cx: &PageContext, marks: &[ChartMark]) -> Markup {
    html! {
        details.marks {
            summary { (cx.text.marks) }
            ul data-live="marks" {
                @if marks.is_empty() { li { (cx.text.no_marks) } }
                @for mark in marks.iter().rev().take(MAX_LISTED) {
                    li class={ "m-" (mark.style) } { (cx.ago(Moment(mark.at))) " " (visible(&mark.title)) }
                }
            }
        }
    }
}

/// A mark in words: what happened, to what, and by whom.
fn chart_mark(text: &Texts, mark: &Mark) -> ChartMark {
    let (style, what) = match (mark.mark, mark.action) {
        (MarkKind::Start, _) => ("start", text.mark_start),
        (MarkKind::Deploy, _) => ("deploy", text.mark_deploy),
        (MarkKind::Queue, Some(MarkAction::Pause)) => ("change", text.mark_queue_paused),
        (MarkKind::Queue, Some(MarkAction::Resume)) => ("change", text.mark_queue_resumed),
        (MarkKind::Queue, _) => ("change", text.mark_queue_changed),
        (MarkKind::Limit, Some(MarkAction::Remove)) => ("change", text.mark_limit_removed),
        (MarkKind::Limit, _) => ("change", text.mark_limit_changed),
    };
    let details = [mark.names.join(", "), mark.version.clone().unwrap_or_default()];
    let details: Vec<String> = details.into_iter().filter(|text| !text.is_empty()).collect();
    let mut title = what.to_owned();
    if !details.is_empty() {
        title.push_str(&format!(": {}", details.join(" ")));
    }
    if let Some(by) = &mark.by {
        title.push_str(&format!(" ({by})"));
    }
    ChartMark { at: mark.at.0, style, title }
}

#[cfg(test)]
mod tests {
    use crore_core::Time;

    use super::*;
    use crate::text::ENGLISH;

    fn mark(mark: MarkKind, names: &[&str]) -> Mark {
        let names = names.iter().map(ToString::to_string).collect();
        Mark { at: Moment(Time::ZERO), mark, names, action: None, version: None, by: None }
    }

    #[test]
    fn a_mark_says_what_happened_to_what_and_by_whom() {
        let deploy =
            Mark { version: Some("2.3".to_owned()), ..mark(MarkKind::Deploy, &["a", "b"]) };
        assert_eq!(chart_mark(&ENGLISH, &deploy).title, "New version of workers: a, b 2.3");
        let action = Some(MarkAction::Remove);
        let limit =
            Mark { action, by: Some("token `ops`".to_owned()), ..mark(MarkKind::Limit, &["smtp"]) };
        assert_eq!(chart_mark(&ENGLISH, &limit).title, "Limit removed: smtp (token `ops`)");
        assert_eq!(chart_mark(&ENGLISH, &mark(MarkKind::Start, &[])).title, "Server started");
    }

    #[test]
    fn the_page_of_a_queue_has_no_marks_of_others() {
        let marks = vec![
            mark(MarkKind::Queue, &["a"]),
            mark(MarkKind::Queue, &["b"]),
            mark(MarkKind::Limit, &["l"]),
        ];
        assert_eq!(newest(marks.clone(), Some("b")).len(), 2);
        assert_eq!(newest(marks, None).len(), 3);
        assert_eq!(newest(vec![mark(MarkKind::Start, &[]); 500], None).len(), MAX_MARKS);
    }
}
