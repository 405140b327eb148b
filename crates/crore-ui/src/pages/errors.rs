//! Errors, grouped by fingerprint: the list, and one group with an example and the actions on all of its jobs.

use axum::extract::State;
use crore_api::params::PathParam;
use crore_api::{Fault, Scope};
use crore_wire::api::errors::{ErrorGroup, ErrorsQuery};
use maud::{Markup, html};

use super::job_diff::difference;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::empty;
use crate::html::format::{excerpt, grouped, number, visible};
use crate::html::layout::PageFrame;
use crate::html::payload::ReadablePayload;
use crate::html::rail::NavItem;
use crate::html::sparkline::sparkline;
use crate::text::fill;

/// Groups on the page.
const ROWS: usize = 100;
/// Characters of a message in the list.
const MESSAGE: usize = 110;

/// The groups, the one with the newest error first.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let named = |name: &str| cx.parameter(name).filter(|it| !it.is_empty()).map(str::to_owned);
    let which =
        ErrorsQuery { queue: named("queue"), kind: named("kind"), since: None, limit: Some(ROWS) };
    let found = ui.api().list_errors(&cx.grant, &which)?;
    let content = html! {
        h1 { (text.errors) }
        @if found.filling { p.hint { (text.errors_filling) } }
        @if found.groups.is_empty() { (empty::plain(text.no_errors)) } @else {
            table.list data-live="errors" {
                thead { tr {
                    th { (text.error) } th.wide-only { (text.kind) } th.wide-only { (text.queue) }
                    th { (text.last_hour) } th.num { (text.count) } th.num.wide-only { (text.first_seen) } th.num { (text.last_seen) }
                } }
                tbody { @for group in &found.groups { (row(&cx, group)) } }
            }
            @if found.total > found.groups.len() {
                p.hint { (fill(text.n_more, &[&grouped((found.total - found.groups.len()) as u64)])) }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Errors, text.errors), &content))
}

fn row(cx: &PageContext, group: &ErrorGroup) -> Markup {
    let text = cx.text;
    let place = group.places.first();
    let more = group.place_count.saturating_sub(1);
    html! {
        tr data-key=(group.fingerprint) {
            td.main { a href=(cx.links.item("errors", &group.fingerprint)) { (message(cx, &group.message, MESSAGE)) } }
            td.wide-only { @if let Some(place) = place { (excerpt(&place.kind, 30)) } @if more > 0 { " +" (more) } }
            td.wide-only { @if let Some(place) = place { (excerpt(&place.queue, 30)) } }
            td { (sparkline(&group.per_minute, text.last_hour)) }
            td.num { (number(group.count)) }
            td.num.wide-only { (cx.ago(group.first_at)) }
            td.num { (cx.ago(group.last_at)) }
        }
    }
}

fn message(cx: &PageContext, message: &str, chars: usize) -> Markup {
    html! { @if message.is_empty() { (cx.text.no_message) } @else { (excerpt(message, chars)) } }
}

/// One group.
pub(crate) async fn one(
    State(ui): State<Ui>,
    cx: PageContext,
    fingerprint: PathParam,
) -> PageResult {
    let text = cx.text;
    let group = ui.api().get_error(&cx.grant, fingerprint.text())?;
    let filter = format!("error={}", group.fingerprint);
    let content = html! {
        div.title {
            h1 { (message(&cx, &group.message, 100)) }
            (actions(&cx, &filter))
        }
        dl.facts data-live="facts" {
            div { dt { (text.count) } dd { (number(group.count)) } }
            div { dt { (text.first_seen) } dd { (cx.ago(group.first_at)) } }
            div { dt { (text.last_seen) } dd { (cx.ago(group.last_at)) } }
            @if !group.versions.is_empty() { div { dt { (text.worker_versions) } dd.mono { (visible(&group.versions.join(", "))) } } }
            div { dt { (text.fingerprint) } dd.mono { (group.fingerprint) } }
        }
        div.columns {
            section.panel data-live="series" {
                h2 { (text.last_hour) }
                div { (sparkline(&group.per_minute, text.last_hour)) }
                h3 { (text.last_day) }
                div { (sparkline(&group.per_hour, text.last_day)) }
            }
            (places(&cx, &group))
        }
        (example(&ui, &cx, &group).await?)
        p { a.button href=(cx.links.jobs(&filter)) { (text.jobs_with_error) } }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Errors, text.errors), &content))
}

/// Actions on all dead jobs of the group, each with a preview.
fn actions(cx: &PageContext, filter: &str) -> Markup {
    let act =
        |act: &str| cx.links.with("jobs/act", &[("act", act), ("state", "dead"), ("q", filter)]);
    html! {
        @if cx.may(Scope::Operate) {
            div.actions {
                a.button.primary href=(act("retry")) { (cx.text.retry_dead) }
                a.button.danger href=(act("delete")) { (cx.text.delete_dead) }
            }
        }
    }
}

fn places(cx: &PageContext, group: &ErrorGroup) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="places" {
            h2 { (text.places) }
            table {
                thead { tr { th { (text.kind) } th { (text.queue) } th.num { (text.count) } th.num { (text.last_seen) } } }
                tbody { @for place in &group.places {
                    tr {
                        td { (excerpt(&place.kind, 40)) }
                        td { a.quiet href=(cx.links.queue(&place.queue)) { (excerpt(&place.queue, 40)) } }
                        td.num { (number(place.count)) }
                        td.num { (cx.ago(place.last_at)) }
                    }
                } }
            }
            @if group.place_count > group.places.len() {
                p.hint { (fill(text.n_more, &[&(group.place_count - group.places.len())])) }
            }
        }
    }
}

/// The newest error with the payload of its job.
async fn example(ui: &Ui, cx: &PageContext, group: &ErrorGroup) -> Result<Markup, Fault> {
    let text = cx.text;
    let id = group.job;
    let job = match ui.api().get_job(&cx.grant, crore_core::JobId::from(id)).await {
        Ok(job) => Some(job),
        // It was removed after the error was counted.
        Err(fault) if fault.code() == crore_core::Code::NotFound => None,
        Err(fault) => return Err(fault),
    };
    let diff = match &job {
        Some(job) => Some(ui.api().diff_job(&cx.grant, job.id).await?),
        None => None,
    };
    Ok(html! {
        section.failure {
            h2 { (text.example) " " a href=(cx.links.job(id)) { span.id { (id) } } }
            pre { (visible(&group.message)) }
            @match &job {
                Some(job) => {
                    h3 { (text.payload) }
                    (ReadablePayload::of(&job.spec.payload).show(text))
                },
                None => p.hint { (text.example_gone) },
            }
        }
        @if let Some(diff) = &diff { (difference(cx, diff)) }
    })
}
