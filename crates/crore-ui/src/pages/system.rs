//! The server itself: store, process, backups.

use axum::extract::State;
use crore_api::Scope;
use crore_core::Span;
use crore_wire::api::info::Info;
use crore_wire::api::storage::{BackupState, DiskUse, Storage};
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::empty;
use crate::html::format::{bytes, excerpt, grouped, span, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::sparkline::sparkline;

/// The tabs of the section: path, and whether the caller may open it.
pub(super) fn tabs(cx: &PageContext, current: &str) -> Markup {
    let text = cx.text;
    let is_admin = cx.may(Scope::Admin);
    let all = [
        ("system", text.storage, true),
        ("system/tokens", text.tokens, is_admin),
        ("system/audit", text.audit_log, is_admin),
    ];
    html! {
        nav.tabs aria-label=(text.system) {
            @for (path, title, _) in all.into_iter().filter(|(.., is_shown)| *is_shown) {
                a href=(cx.links.to(path)) aria-current=[(path == current).then_some("page")] { (title) }
            }
        }
    }
}

/// Storage and this node.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let (info, storage) = (ui.api().info(), ui.api().storage().await?);
    let content = html! {
        h1 { (text.system) }
        (tabs(&cx, "system"))
        @for problem in &storage.problems { p.flash.bad role="alert" { (text.store_problem) ": " (problem) } }
        @match &storage.disk {
            Some(disk) => (disk_tiles(&cx, disk)),
            None => (empty::plain(text.store_in_memory)),
        }
        div.columns {
            (node(&cx, &info, &storage))
            @if let Some(disk) = &storage.disk { (growth(&cx, disk)) }
            (backups(&cx, storage.backups.as_ref()))
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::System, text.system), &content))
}

fn disk_tiles(cx: &PageContext, disk: &DiskUse) -> Markup {
    let text = cx.text;
    html! {
        div.tiles data-live="disk" {
            div.tile { (text.size_on_disk) strong title=(grouped(disk.bytes)) { (bytes(disk.bytes)) } }
            div.tile { (text.live_data) strong title=(grouped(disk.live_bytes)) { (bytes(disk.live_bytes)) } }
            div.tile { (text.segments) strong { (disk.segments) } }
            div.tile { (text.written) strong { (bytes(disk.written_bytes)) } }
            @if let Some(free) = disk.free_bytes { div.tile { (text.free_space) strong { (bytes(free)) } } }
        }
    }
}

fn node(cx: &PageContext, info: &Info, storage: &Storage) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="node" {
            h2 { (text.this_node) }
            dl.facts.column {
                div { dt { (text.version) } dd.mono { (info.version) } }
                div { dt { (text.durability) } dd { (info.durability) } }
                div { dt { (text.started) } dd { (cx.ago(storage.started_at)) } }
                @if let Some(resident) = storage.resident_bytes { div { dt { (text.memory) } dd { (bytes(resident)) } } }
                @if let Some(cpu) = storage.cpu_ms { div { dt { (text.cpu_time) } dd { (span(text, Span::from_millis(cpu))) } } }
                div { dt { (text.protocols) } dd { (visible(&info.doors.join(", "))) } }
            }
        }
    }
}

fn growth(cx: &PageContext, disk: &DiskUse) -> Markup {
    let text = cx.text;
    let first = disk.history.first();
    let change = first.map(|first| {
        let by = disk.live_bytes.abs_diff(first.live_bytes);
        (first.at, by, disk.live_bytes >= first.live_bytes)
    });
    let sizes: Vec<u64> = disk.history.iter().map(|sample| sample.live_bytes).collect();
    html! {
        section.panel {
            h2 { (text.growth) }
            @if let Some((since, by, is_growth)) = change {
                p { (text.live_data) ": " (if is_growth { "+" } else { "−" }) (bytes(by)) " (" (text.since) " " (cx.ago(since)) ")" }
            }
            @if sizes.len() > 1 { div { (sparkline(&sizes, text.live_data)) } }
        }
    }
}

fn backups(cx: &PageContext, backups: Option<&BackupState>) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="backups" {
            h2 { (text.backups) }
            @match backups {
                None => (empty::plain(text.no_backup_directory)),
                Some(BackupState { last: None, .. }) => {
                    (empty::with_command(text, text.no_backups, "crore backup --name first"))
                },
                Some(BackupState { count, last: Some(last) }) => {
                    dl.facts.column {
                        div { dt { (text.last_backup) } dd { (excerpt(&last.name, 60)) " " (cx.ago(last.at)) } }
                        div { dt { (text.size) } dd { (bytes(last.bytes)) } }
                        div { dt { (text.count) } dd { (count) } }
                    }
                },
            }
        }
    }
}
