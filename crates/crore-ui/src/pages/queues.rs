//! The list of queues.

use std::collections::BTreeMap;

use axum::extract::State;
use crore_wire::api::queues::{Queue, QueuesQuery};
use crore_wire::api::stats::StatsRow;
use maud::{Markup, html};

use super::traffic::by_queue;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::empty;
use crate::html::format::{excerpt, number, span};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::{self, dot};

/// Queues on a page.
const ROWS: usize = 100;

/// The states that have a column.
const COLUMNS: [&str; 4] = ["ready", "running", "scheduled", "dead"];

/// The queues, by name.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let cursor = cx.parameter("cursor").filter(|cursor| !cursor.is_empty());
    let which = QueuesQuery { cursor: cursor.map(str::to_owned), limit: Some(ROWS) };
    let list = ui.api().list_queues(&cx.grant, which).await?;
    let rows = by_queue(&ui, &cx).await?;
    let stats: BTreeMap<&str, &StatsRow> =
        rows.iter().filter_map(|row| Some((row.queue.as_deref()?, row))).collect();
    let content = html! {
        h1 { (text.queues) }
        @if list.queues.is_empty() {
            (empty::with_command(text, text.no_queues, "crore job push hello '{\"name\": \"Ada\"}' --queue greetings"))
        } @else {
            table.list data-live="queues" {
                thead { tr {
                    th { (text.queue) } th { (text.state) }
                    @for column in COLUMNS {
                        th.num { (state::of_name(column).map_or("", |one| state::word(text, one))) }
                    }
                    th.num.wide-only { (text.wait) " p50" } th.num { "p99" }
                    th.num.wide-only { (text.done) } th.num.wide-only { (text.failed) }
                } }
                tbody { @for queue in &list.queues { (row(&cx, queue, stats.get(queue.name.as_str()).copied())) } }
            }
        }
        nav.pager aria-label=(text.pages) {
            @if cursor.is_some() { a.button href=(cx.here_with("cursor", "")) data-back { (text.first_page) } }
            @if let Some(next) = &list.next {
                a.button href=(cx.here_with("cursor", next)) rel="next" { (text.next_page) }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Queues, text.queues), &content))
}

fn row(cx: &PageContext, queue: &Queue, stats: Option<&StatsRow>) -> Markup {
    let text = cx.text;
    let wait = stats.and_then(|row| row.wait);
    let quoted = filter_name(&queue.name);
    html! {
        tr data-key=(queue.name) {
            td.main { a href=(cx.links.queue(&queue.name)) { (excerpt(&queue.name, 60)) } }
            td { @if queue.paused { (dot("retrying", text.paused)) } @else { (dot("done", text.open)) } }
            @for column in COLUMNS {
                @let n = queue.counts.get(column).copied().unwrap_or_default();
                td.num {
                    @if n > 0 {
                        a.quiet href=(cx.links.with("jobs", &[("state", column), ("q", &quoted)])) { (number(n)) }
                    } @else { span.zero { "0" } }
                }
            }
            td.num.wide-only { @if let Some(wait) = wait { (span(text, wait.p50.0)) } }
            td.num { @if let Some(wait) = wait { (span(text, wait.p99.0)) } }
            td.num.wide-only { (number(stats.map_or(0, |row| row.done))) }
            td.num.wide-only { (number(stats.map_or(0, |row| row.failed))) }
        }
    }
}

/// The filter of the jobs of a queue.
pub(super) fn filter_name(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./@".contains(c);
    match name.chars().all(is_plain) {
        true => format!("queue:{name}"),
        false => format!("queue:{}", serde_json::to_string(name).unwrap_or_default()),
    }
}
