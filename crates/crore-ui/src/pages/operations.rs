//! Actions on all jobs that match: preview, start, progress.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use crore_api::audit::AuditDetails;
use crore_api::calls::BulkPreview;
use crore_api::params::PathParam;
use crore_api::{Fault, Scope};
use crore_core::{Code, Invalid};
use crore_wire::api::act::{ActOnAll, Filter, Verb};
use crore_wire::api::operations::{Operation, OperationState};
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, check_typed};
use crate::html::empty;
use crate::html::flash::Flash;
use crate::html::format::{excerpt, jobs, number, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::{self, dot};
use crate::text::{Texts, fill};

/// Maximum number of selected jobs: the values that a filter may have.
const MAX_SELECTED: usize = 200;
/// Operations in the list.
const ROWS: usize = 100;

/// Shows what an action would do, and asks.
pub(crate) async fn preview(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let q = cx.parameter("q").unwrap_or_default();
    let state = cx.parameter("state").unwrap_or_default();
    let ids: Vec<&str> = cx.parameters("id").take(MAX_SELECTED).collect();
    // Selected jobs are named by their ids, and the filter of the list does not matter.
    let (q, state) = match ids.is_empty() {
        true => (q.to_owned(), state),
        false => (format!("id:{}", ids.join(",")), ""),
    };
    let act = cx.parameter("act").unwrap_or_default();
    let request = request(act, &q, state)?;
    let preview = ui.api().preview_operation(&cx.grant, &request).await?;
    let content = question(&cx, act, (&q, state), &preview);
    Ok(cx.page(&PageFrame::still(NavItem::Jobs, verb_text(cx.text, request.act)), &content))
}

fn question(
    cx: &PageContext,
    act: &str,
    (q, state): (&str, &str),
    preview: &BulkPreview,
) -> Markup {
    let text = cx.text;
    let verb = verb(act).map_or(text.apply, |act| verb_text(text, act));
    let more = if preview.complete { "" } else { "+" };
    let n = format!("{}{more}", jobs(text, preview.changed));
    let what = [state, q].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let what = if what.is_empty() { text.all_jobs.to_owned() } else { what.join(" ") };
    let question = fill(text.ask_bulk, &[&verb, &n, &excerpt_text(&what)]);
    let detail = match preview.matched.saturating_sub(preview.changed) {
        0 => fill(text.bulk_effect, &[&jobs(text, preview.matched)]),
        rest => fill(text.bulk_effect_some, &[&jobs(text, preview.matched), &jobs(text, rest)]),
    };
    let back = cx.links.with("jobs", &[("state", state), ("q", q)]);
    let confirmation = Confirmation {
        question: &question,
        detail: &detail,
        action: &cx.links.to("operations/start"),
        fields: &[("act", act), ("q", q), ("state", state)],
        button: &fill(text.bulk_button, &[&verb, &n]),
        is_danger: matches!(act, "delete" | "cancel"),
        jobs: preview.changed,
        back: &back,
    };
    html! {
        @if preview.changed == 0 {
            h1 { (verb) }
            (empty::plain(text.nothing_to_change))
            p { a.button href=(back) { (text.back) } }
        } @else {
            (confirmation.show(cx))
            h2 { (text.first_of_them) }
            table {
                tbody { @for job in &preview.samples {
                    tr {
                        td { a href=(cx.links.job(job.id)) { (excerpt(job.spec.kind.as_str(), 60)) } }
                        td.num.mono { (job.id) }
                        td { (cx.state(job.live.state.into(), job.live.attempt)) }
                        td { (excerpt(job.spec.queue.as_str(), 40)) }
                    }
                } }
            }
        }
    }
}

fn excerpt_text(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Starts an action in the background.
pub(crate) async fn start(State(ui): State<Ui>, cx: PageContext, form: PostedForm) -> PageResult {
    check_typed(&form)?;
    let field = |name| form.get(name).unwrap_or_default();
    let request = request(field("act"), field("q"), field("state"))?;
    let started = ui.api().start_operation(&cx.grant, &request).await?;
    let mut response = Redirect::to(&cx.links.item("operations", &started.id)).into_response();
    response.extensions_mut().insert(AuditDetails::bulk_action(&request));
    Ok(response)
}

fn verb(act: &str) -> Option<Verb> {
    match act {
        "retry" => Some(Verb::Retry),
        "cancel" => Some(Verb::Cancel),
        "delete" => Some(Verb::Delete),
        "replay" => Some(Verb::Replay),
        _ => None,
    }
}

const fn verb_text(text: &Texts, act: Verb) -> &'static str {
    match act {
        Verb::Retry => text.retry,
        Verb::Cancel => text.cancel,
        Verb::Delete => text.delete,
        Verb::Replay => text.replay,
        Verb::Change => text.edit,
    }
}

fn request(act: &str, q: &str, state: &str) -> Result<ActOnAll, Fault> {
    let unknown = || Invalid::new(Code::Malformed, "act", "unknown action");
    let act = verb(act).ok_or_else(unknown)?;
    let states: Vec<_> = state::of_name(state).into_iter().collect();
    let q = Some(q.trim().to_owned()).filter(|q| !q.is_empty());
    let all = q.is_none() && states.is_empty();
    let filter = Filter { states, q, all, ..Filter::default() };
    Ok(ActOnAll { act, filter, change: None, replay: None, dry_run: false })
}

/// The progress of an operation.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let operation = ui.api().get_operation(&cx.grant, &id.name("id")?, None).await?;
    let text = cx.text;
    let link = cx.links.item("operations", &operation.id);
    let is_running = operation.state == OperationState::Running;
    let title = format!("{} · {}", verb_text(text, operation.request.act), operation.id);
    let content = html! {
        div data-live="operation" {
            div.title {
                h1 { (verb_text(text, operation.request.act)) " " span.id { (operation.id) } }
                @if is_running && cx.may(Scope::Operate) {
                    form method="post" action=(format!("{link}/cancel")) {
                        (cx.csrf())
                        button type="submit" { (text.stop_operation) }
                    }
                }
            }
            @if is_running { progress {} }
            dl.facts {
                div { dt { (text.state) } dd { (operation_state(text, operation.state)) } }
                div { dt { (text.examined) } dd { (number(operation.scanned)) } }
                div { dt { (text.matched) } dd { (number(operation.matched)) } }
                div { dt { (text.changed) } dd { (number(operation.changed)) } }
                div { dt { (text.refused) } dd { (number(operation.refused)) } }
                div { dt { (text.started) } dd { (cx.ago(operation.started_at)) } }
                div { dt { (text.by) } dd { (excerpt(&operation.by, 60)) } }
            }
            p { (text.filter) ": " code { (visible(&filter_text(&operation))) } }
            @if let Some(error) = &operation.error { p.flash.bad { (visible(error)) } }
            @if is_running { p.hint { (text.operation_hint) } }
        }
        p { a.button href=(cx.links.to("operations")) { (text.operations) } " "
            a.button href=(cx.links.to("jobs")) { (text.jobs) } }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Jobs, &title), &content))
}

fn filter_text(operation: &Operation) -> String {
    let Filter { states, queue, kind, q, all, .. } = &operation.request.filter;
    let states = states.iter().map(|one| format!("state:{}", state::name(*one)));
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("{name}:{v}"));
    let others = [named("queue", queue), named("kind", kind), q.clone()];
    let parts: Vec<String> = states.chain(others.into_iter().flatten()).collect();
    if *all { "*".to_owned() } else { parts.join(" ") }
}

fn operation_state(text: &Texts, operation: OperationState) -> Markup {
    match operation {
        OperationState::Running => dot("running", text.running),
        OperationState::Done => dot("done", text.done),
        OperationState::Cancelled => dot("cancelled", text.cancelled),
        OperationState::Failed => dot("dead", text.failed),
        OperationState::Interrupted => dot("retrying", text.interrupted),
    }
}

/// Stops an operation after the jobs that it is changing.
pub(crate) async fn cancel(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    let operation = ui.api().cancel_operation(&cx.grant, &id.name("id")?).await?;
    Ok(cx.done(Flash::Stopping, &cx.links.item("operations", &operation.id)))
}

/// The operations that are running or remembered, newest first.
pub(crate) async fn list(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let (text, operations) = (cx.text, ui.api().list_operations(&cx.grant).await?);
    let content = html! {
        h1 { (text.operations) }
        @if operations.is_empty() { (empty::plain(text.no_operations)) } @else {
            table.list data-live="operations" {
                thead { tr { th { (text.action) } th { (text.filter) } th { (text.state) }
                    th.num { (text.changed) } th.num { (text.started) } th { (text.by) } } }
                tbody { @for one in operations.iter().rev().take(ROWS) {
                    tr {
                        td.main { a href=(cx.links.item("operations", &one.id)) { (verb_text(text, one.request.act)) } }
                        td.mono { (excerpt(&filter_text(one), 80)) }
                        td { (operation_state(text, one.state)) }
                        td.num { (number(one.changed)) }
                        td.num { (cx.ago(one.started_at)) }
                        td { (excerpt(&one.by, 40)) }
                    }
                } }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Jobs, text.operations), &content))
}
