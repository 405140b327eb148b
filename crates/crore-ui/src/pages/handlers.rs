//! Handlers: the list, and one handler with a form that pushes a job to try it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use crore_api::calls::{HandlerView, pushed};
use crore_api::params::PathParam;
use crore_api::{Fault, Scope};
use crore_core::{Batch, Code, JobId};
use crore_wire::Format;
use crore_wire::api::push::{NewJob, PushStatus};
use maud::{Markup, html};

use super::job_filter::named_filter;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::empty;
use crate::html::flash::{Flash, fault_message};
use crate::html::format::{excerpt, span, visible};
use crate::html::json_tree::tree;
use crate::html::layout::PageFrame;
use crate::html::payload::edited;
use crate::html::rail::NavItem;

/// Handlers on the page.
const ROWS: usize = 500;

/// All handlers, by kind.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let list = ui.api().list_handlers(&cx.grant).await?;
    let content = html! {
        h1 { (text.handlers) }
        @for kind in list.unreadable.iter().take(20) {
            p.flash.bad { code { (visible(kind)) } ": " (text.handler_unreadable) }
        }
        @if list.handlers.is_empty() {
            (empty::with_command(text, text.no_handlers, "crore handler set today command '{\"program\": \"date\"}'"))
        } @else {
            table.list data-live="handlers" {
                thead { tr {
                    th { (text.kind) } th { (text.runner) } th { (text.queue) }
                    th.num.wide-only { (text.timeout) } th.wide-only { (text.timing) } th.num { (text.next) }
                } }
                tbody { @for view in list.handlers.iter().take(ROWS) { (row(&cx, view)) } }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Handlers, text.handlers), &content))
}

fn row(cx: &PageContext, view: &HandlerView) -> Markup {
    let definition = view.to_wire(Format::Json).definition;
    let queue = view.handler.queue.as_str();
    html! {
        tr data-key=(view.kind) {
            td.main { a href=(cx.links.item("handlers", view.kind.as_str())) { (excerpt(view.kind.as_str(), 60)) } }
            td { (excerpt(&definition.runner, 30)) }
            td { a.quiet href=(cx.links.queue(queue)) { (excerpt(queue, 40)) } }
            td.num.wide-only { @if let Some(timeout) = definition.timeout { (span(cx.text, timeout.0)) } }
            td.mono.wide-only { @if let Some(schedule) = &definition.schedule { (excerpt(&schedule.timing, 40)) } }
            td.num { @if let Some(at) = view.next_at { (cx.ago(at)) } }
        }
    }
}

/// One handler.
pub(crate) async fn one(State(ui): State<Ui>, cx: PageContext, kind: PathParam) -> PageResult {
    let view = ui.api().get_handler(&cx.grant, kind.name("kind")?).await?.value;
    let content = show(&cx, &view, "{}", None);
    Ok(cx.page(&PageFrame::new(NavItem::Handlers, view.kind.as_str()), &content))
}

fn show(cx: &PageContext, view: &HandlerView, payload: &str, fault: Option<&Fault>) -> Markup {
    let text = cx.text;
    let kind = view.kind.as_str();
    let definition = serde_json::to_string(&view.to_wire(Format::Json)).unwrap_or_default();
    html! {
        div.title {
            h1 { (excerpt(kind, 80)) }
            div.actions { a.button href=(cx.links.jobs(&named_filter("kind", kind))) { (text.jobs) } }
        }
        dl.facts {
            div { dt { (text.runner) } dd { (visible(view.handler.runner.as_str())) } }
            div { dt { (text.queue) } dd { a href=(cx.links.queue(view.handler.queue.as_str())) { (excerpt(view.handler.queue.as_str(), 40)) } } }
            @if let Some(at) = view.next_at { div { dt { (text.next) } dd { (cx.ago(at)) } } }
        }
        div.columns {
            section.panel { h2 { (text.definition) } (tree(text, &definition)) }
            @if cx.may(Scope::Push) {
                section.panel {
                    h2 { (text.try_it) }
                    @if let Some(fault) = fault { (fault_message(fault)) }
                    form.fields method="post" action=(format!("{}/try", cx.links.item("handlers", kind))) {
                        (cx.csrf())
                        label for="payload" { (text.payload) }
                        // A line break after the tag is not part of the value.
                        textarea #payload name="payload" rows="10" spellcheck="false" { "\n" (payload) }
                        p.hint { (text.try_hint) }
                        div.buttons { button.primary type="submit" { (text.push_job) } }
                    }
                }
            }
        }
    }
}

/// Pushes a job of the kind, and opens it.
pub(crate) async fn attempt(
    State(ui): State<Ui>,
    cx: PageContext,
    kind: PathParam,
    form: PostedForm,
) -> PageResult {
    let kind = kind.name("kind")?;
    let payload = form.get("payload").unwrap_or_default();
    match push(&ui, &cx, kind.as_str(), payload).await {
        Ok((id, PushStatus::Duplicate)) => Ok(Redirect::to(&cx.links.job(id)).into_response()),
        Ok((id, _)) => Ok(cx.done(Flash::Pushed, &cx.links.job(id))),
        Err(fault) => {
            let view = ui.api().get_handler(&cx.grant, kind).await?.value;
            Ok(again(&cx, &view, payload, &fault))
        }
    }
}

/// The form with an error, as it was.
fn again(cx: &PageContext, view: &HandlerView, payload: &str, fault: &Fault) -> Response {
    let content = show(cx, view, payload, Some(fault));
    let page = cx.page(&PageFrame::still(NavItem::Handlers, view.kind.as_str()), &content);
    (crore_api::status(fault.code()), page).into_response()
}

async fn push(
    ui: &Ui,
    cx: &PageContext,
    kind: &str,
    payload: &str,
) -> Result<(JobId, PushStatus), Fault> {
    let mut job = NewJob { kind: kind.to_owned(), ..NewJob::default() }.read(Format::Json)?;
    job.spec.payload = edited(&job.spec.payload, payload)?.unwrap_or(job.spec.payload);
    let batch: Batch = job.into();
    let results = ui.api().push(&cx.grant, batch, None).await?.jobs;
    let nothing = || Fault::new(Code::Refused, "nothing was pushed");
    Ok(pushed(0, results.into_iter().next().ok_or_else(nothing)?)?)
}
