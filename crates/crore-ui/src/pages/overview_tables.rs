//! The tables of the overview: what needs attention, each bounded to a few rows.

use crore_api::Fault;
use crore_api::calls::ScheduleView;
use crore_core::Span;
use crore_wire::api::errors::ErrorsQuery;
use crore_wire::api::limits::Limit;
use crore_wire::api::stats::StatsRow;
use maud::{Markup, html};

use crate::Ui;
use crate::context::PageContext;
use crate::html::empty;
use crate::html::format::{excerpt, number, span, visible};

/// Rows of each table.
const ROWS: usize = 8;

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

/// Groups of errors, the one with the newest error first.
pub(super) fn errors(ui: &Ui, cx: &PageContext) -> Result<Markup, Fault> {
    let text = cx.text;
    let which = ErrorsQuery { limit: Some(ROWS), ..ErrorsQuery::default() };
    let groups = ui.api().list_errors(&cx.grant, &which)?.groups;
    Ok(html! {
        section.panel data-live="errors" {
            h2 { (text.newest_errors) a.all href=(cx.links.to("errors")) { (text.errors) } }
            @if groups.is_empty() { (empty::plain(text.no_errors)) } @else {
                table {
                    thead { tr { th { (text.error) } th { (text.kind) } th.num { (text.count) } th.num { (text.last_seen) } } }
                    tbody { @for group in &groups {
                        tr {
                            td.wide { a href=(cx.links.item("errors", &group.fingerprint)) {
                                @if group.message.is_empty() { (text.no_message) } @else { (excerpt(&group.message, 80)) }
                            } }
                            td { @if let Some(place) = group.places.first() { (excerpt(&place.kind, 30)) } }
                            td.num { (number(group.count)) }
                            td.num { (cx.ago(group.last_at)) }
                        }
                    } }
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
                                td { a href=(cx.links.item("schedules", one.name.as_str())) { (visible(one.name.as_str())) } }
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

/// Limits that hold jobs back now, or that reports have paused.
pub(super) fn blocking_limits(cx: &PageContext, limits: &[Limit]) -> Markup {
    let text = cx.text;
    let is_blocking = |limit: &&Limit| limit.waiting > 0 || !limit.paused.is_empty();
    let mut blocking: Vec<&Limit> = limits.iter().filter(is_blocking).collect();
    blocking.sort_by_key(|limit| std::cmp::Reverse(limit.waiting));
    if blocking.is_empty() {
        return html! { section.panel.gone data-live="limits" {} };
    }
    html! {
        section.panel data-live="limits" {
            h2 { (text.blocking_limits) a.all href=(cx.links.to("limits")) { (text.limits) } }
            table {
                thead { tr { th { (text.limit) } th { (text.definition) } th.num { (text.waiting) } th.num { (text.until) } } }
                tbody { @for limit in blocking.into_iter().take(ROWS) {
                    tr {
                        td { a href=(cx.links.item("limits", &limit.name)) { (excerpt(&limit.name, 40)) } }
                        td.mono { (excerpt(&limit.limit, 40)) }
                        td.num { (number(limit.waiting)) }
                        td.num { @if let Some(key) = limit.paused.first() { (cx.ago(key.until)) } }
                    }
                } }
            }
        }
    }
}
