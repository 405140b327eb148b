//! The tables of the overview: what needs attention, each bounded to a few rows.

use crore_api::Fault;
use crore_api::calls::ScheduleView;
use crore_core::{Fingerprint, Span};
use crore_wire::api::enums::State;
use crore_wire::api::job::JobsQuery;
use crore_wire::api::limits::Limit;
use crore_wire::api::stats::StatsRow;
use maud::{Markup, html};

use crate::Ui;
use crate::context::PageContext;
use crate::html::format::{excerpt, number, span, visible};
use crate::html::{copy, empty};

/// Rows of each table.
const ROWS: usize = 8;
/// Dead jobs that are grouped by their errors.
const DEAD_JOBS: usize = 50;

/// The queues with the longest waits in the time range.
pub(super) fn late_queues(cx: &PageContext, rows: &[StatsRow]) -> Markup {
    let text = cx.text;
    let wait = |row: &StatsRow| row.wait.map_or(Span::ZERO, |wait| wait.p99.0);
    let mut rows: Vec<&StatsRow> = rows.iter().filter(|row| row.queue.is_some()).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(wait(row)));
    html! {
        section.panel data-live="queues" {
            h2 { (text.longest_waits) a.all href=(cx.links.to("queues")) { (text.all_queues) } }
            @if rows.is_empty() { (empty::plain(text.nothing_in_range)) } @else {
                table {
                    thead { tr {
                        th { (text.queue) }
                        th.num { (text.wait) " p50" } th.num { "p99" }
                        th.num { (text.done) } th.num { (text.failed) }
                    } }
                    tbody {
                        @for row in rows.into_iter().take(ROWS) {
                            @let name = row.queue.as_deref().unwrap_or_default();
                            tr {
                                td { a href=(cx.links.queue(name)) { (visible(name)) } }
                                td.num { @if let Some(wait) = row.wait { (span(text, wait.p50.0)) } }
                                td.num { @if let Some(wait) = row.wait { (span(text, wait.p99.0)) } }
                                td.num { (number(row.done)) }
                                td.num { (number(row.failed)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Errors of the newest dead jobs, by their fingerprints.
pub(super) async fn errors(ui: &Ui, cx: &PageContext) -> Result<Markup, Fault> {
    let text = cx.text;
    let which =
        JobsQuery { state: Some(State::Dead), limit: Some(DEAD_JOBS), ..JobsQuery::default() };
    let dead = ui.api().list_jobs(&cx.grant, which).await?.jobs;
    let mut groups: Vec<(String, String, u64, String)> = Vec::new();
    for job in &dead {
        let error = job.live.history.iter().find_map(|attempt| attempt.error.as_deref());
        let error = error.unwrap_or_default();
        let fingerprint = Fingerprint::of(error).to_string();
        match groups.iter_mut().find(|(known, ..)| *known == fingerprint) {
            Some((_, _, n, _)) => *n += 1,
            None => groups.push((fingerprint, error.to_owned(), 1, job.spec.kind.to_string())),
        }
    }
    Ok(html! {
        section.panel data-live="errors" {
            h2 { (text.newest_errors)
                a.all href=(cx.links.with("jobs", &[("state", "dead")])) { (text.all_dead) } }
            @if groups.is_empty() { (empty::plain(text.no_dead_jobs)) } @else {
                table {
                    thead { tr { th { (text.error) } th { (text.kind) } th.num { (text.jobs) } } }
                    tbody {
                        @for (fingerprint, error, n, kind) in groups.iter().take(ROWS) {
                            tr {
                                td.wide { a href=(cx.links.jobs(&format!("state:dead error={fingerprint}"))) {
                                    @if error.is_empty() { (text.no_message) } @else { (excerpt(error, 80)) }
                                } }
                                td { (visible(kind)) }
                                td.num { (number(*n)) @if dead.len() == DEAD_JOBS { "+" } }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// The schedules that run next.
pub(super) fn next_runs(cx: &PageContext, schedules: &[ScheduleView]) -> Markup {
    let text = cx.text;
    let mut next: Vec<_> =
        schedules.iter().filter_map(|one| one.next_at.map(|at| (at, one))).collect();
    next.sort_by_key(|(at, _)| *at);
    html! {
        section.panel data-live="schedules" {
            h2 { (text.next_runs) }
            @if next.is_empty() {
                (empty::with_command(text, text.no_schedules,
                    "crore schedule set nightly 'cron 0 3 * * *' report"))
            } @else {
                table {
                    thead { tr { th { (text.schedule) } th { (text.kind) } th { (text.timing) } th.num { (text.next) } } }
                    tbody {
                        @for (at, one) in next.into_iter().take(ROWS) {
                            tr {
                                td { (visible(one.name.as_str())) }
                                td { (visible(one.schedule.job.spec.kind.as_str())) }
                                td.mono { (visible(&one.schedule.timing.to_string())) }
                                td.num { (cx.ago(at)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Keys of limits under which no job starts now.
pub(super) fn paused_limits(cx: &PageContext, limits: &[Limit]) -> Markup {
    let text = cx.text;
    let paused = limits.iter().flat_map(|limit| limit.paused.iter().map(move |key| (limit, key)));
    let paused: Vec<_> = paused.take(ROWS).collect();
    if paused.is_empty() {
        return html! { section.panel.gone data-live="limits" {} };
    }
    html! {
        section.panel data-live="limits" {
            h2 { (text.paused_limits) }
            table {
                thead { tr { th { (text.limit) } th { (text.value) } th.num { (text.until) } } }
                tbody {
                    @for (limit, key) in paused {
                        tr {
                            td title=(copy::quoted(&limit.limit)) { (visible(&limit.name)) }
                            td { (visible(key.value.as_deref().unwrap_or("–"))) }
                            td.num { (cx.ago(key.until)) }
                        }
                    }
                }
            }
        }
    }
}
