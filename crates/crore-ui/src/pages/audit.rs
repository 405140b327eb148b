//! The audit log, newest entries first.

use axum::extract::State;
use crore_core::Code;
use crore_wire::api::audit::{AuditPage, AuditQuery, AuditRecord};
use maud::{Markup, html};

use super::system::tabs;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::empty;
use crate::html::format::excerpt;
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::dot;

/// Entries on a page.
const ROWS: usize = 100;

/// A page of the log.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let before = cx.parameter("before").filter(|text| !text.is_empty()).map(str::to_owned);
    let is_first = before.is_none();
    let read = ui.api().read_audit(&cx.grant, AuditQuery { before, limit: Some(ROWS) }).await;
    let page = match read {
        Ok(page) => Some(page),
        // The server has no audit log.
        Err(fault) if fault.code() == Code::Refused => None,
        Err(fault) => return Err(fault),
    };
    let content = html! {
        h1 { (text.system) }
        (tabs(&cx, "system/audit"))
        @match &page {
            None => (empty::with_command(text, text.no_audit_log, "crore serve --set audit.file=audit.jsonl")),
            Some(page) => (entries(&cx, page, is_first)),
        }
    };
    Ok(cx.page(&PageFrame::still(NavItem::System, text.audit_log), &content))
}

fn entries(cx: &PageContext, page: &AuditPage, is_first: bool) -> Markup {
    let text = cx.text;
    html! {
        @if page.entries.is_empty() { (empty::plain(text.no_audit_entries)) } @else {
            table.list {
                thead { tr {
                    th { (text.call) } th { (text.outcome) } th { (text.by) } th.wide-only { (text.from_address) }
                    th.wide-only { (text.detail) } th.num { (text.when) }
                } }
                tbody { @for entry in &page.entries { (row(cx, entry)) } }
            }
        }
        nav.pager aria-label=(text.pages) {
            @if !is_first { a.button href=(cx.here_with("before", "")) data-back { (text.newer) } }
            @if let Some(next) = &page.next { a.button href=(cx.here_with("before", next)) rel="next" { (text.older) } }
        }
    }
}

fn row(cx: &PageContext, entry: &AuditRecord) -> Markup {
    let status = entry.status.map_or("–".to_owned(), |status| status.to_string());
    let class = match entry.status {
        Some(200..=399) => "done",
        Some(_) => "dead",
        None => "cancelled",
    };
    html! {
        tr {
            td.main.mono { (excerpt(&entry.call, 70)) }
            td { (dot(class, &status)) @if let Some(code) = &entry.code { " " span.hint { (excerpt(code, 30)) } } }
            td { (excerpt(&entry.who, 50)) }
            td.mono.wide-only { (excerpt(&entry.from, 40)) }
            td.wide-only { @if let Some(about) = &entry.about { (excerpt(about, 80)) } }
            td.num { (cx.ago(entry.at)) }
        }
    }
}
