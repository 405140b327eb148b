//! Limits: their use, the jobs that wait for them, and their definitions.

use axum::extract::State;
use axum::response::IntoResponse;
use crore_api::if_match::IfMatch;
use crore_api::params::PathParam;
use crore_api::{Fault, Scope};
use crore_core::Name;
use crore_wire::api::limits::{HeldBackJobs, Limit};
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::empty;
use crate::html::flash::{Flash, fault_message};
use crate::html::format::{excerpt, grouped, number, span, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::dot;
use crate::text::fill;

/// Limits on the page.
const ROWS: usize = 500;

/// All limits, by name.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let limits = ui.api().list_limits(&cx.grant).await?.limits;
    let content = html! {
        div.title {
            h1 { (text.limits) }
            @if cx.may(Scope::Define) {
                div.actions { a.button href=(cx.links.to("limits-new")) { (text.new_limit) } }
            }
        }
        @if limits.is_empty() {
            (empty::with_command(text, text.no_limits, "crore limit set smtp 'where kind = \"mail\" rate 5/1s'"))
        } @else {
            table.list data-live="limits" {
                thead { tr {
                    th { (text.limit) } th { (text.state) } th { (text.definition) }
                    th.num { (text.waiting) } th.num { (text.last_starts) }
                } }
                tbody { @for limit in limits.iter().take(ROWS) { (row(&cx, limit)) } }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Limits, text.limits), &content))
}

fn row(cx: &PageContext, limit: &Limit) -> Markup {
    let last = limit.held_back.iter().filter_map(|held| held.clears_in).max();
    html! {
        tr data-key=(limit.name) {
            td.main { a href=(cx.links.item("limits", &limit.name)) { (excerpt(&limit.name, 40)) } }
            td { (state(cx, limit)) }
            td.mono { (excerpt(&limit.limit, 90)) }
            td.num { @if limit.waiting > 0 { (number(limit.waiting)) } @else { span.zero { "0" } } }
            td.num { @if let Some(last) = last { (fill(cx.text.in_future, &[&span(cx.text, last.0)])) } }
        }
    }
}

fn state(cx: &PageContext, limit: &Limit) -> Markup {
    match (limit.paused.is_empty(), limit.waiting) {
        (false, _) => dot("retrying", cx.text.paused),
        (true, 1..) => dot("scheduled", cx.text.holds_back),
        (true, 0) => dot("done", cx.text.open),
    }
}

/// One limit.
pub(crate) async fn one(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("limit")?;
    let tagged = ui.api().get_limit(&cx.grant, &name).await?;
    let limit = tagged.value;
    let text = cx.text;
    let link = cx.links.item("limits", name.as_str());
    let content = html! {
        div.title {
            h1 { (excerpt(name.as_str(), 80)) " " span.badge { (state(&cx, &limit)) } }
            @if cx.may(Scope::Define) {
                div.actions { a.button.danger href=(format!("{link}/delete")) { (text.delete) } }
            }
        }
        section.why data-live="why" {
            @if limit.waiting == 0 { p { (text.nobody_waits) } }
            @else { p { (fill(text.n_wait_for_limit, &[&grouped(limit.waiting)])) } }
        }
        (held_back(&cx, &limit.held_back))
        (paused_keys(&cx, &limit))
        @if cx.may(Scope::Define) {
            h2 { (text.edit) }
            (form(&cx, (&format!("{link}/edit"), None), (&limit.limit, tagged.tag.as_deref().unwrap_or_default())))
        } @else { pre.tree { (visible(&limit.limit)) } }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Limits, name.as_str()), &content))
}

fn held_back(cx: &PageContext, all: &[HeldBackJobs]) -> Markup {
    let text = cx.text;
    html! {
        @if !all.is_empty() {
            section.panel data-live="held" {
                h2 { (text.who_waits) }
                table {
                    thead { tr {
                        th { (text.queue) } th { (text.value) } th.num { (text.waiting) }
                        th.num { (text.running) } th.num { (text.next) } th.num { (text.last_starts) }
                    } }
                    tbody { @for held in all {
                        tr {
                            td { a href=(cx.links.queue(&held.queue)) { (excerpt(&held.queue, 40)) } }
                            td.mono { (excerpt(held.value.as_deref().unwrap_or("–"), 40)) }
                            td.num { (number(held.jobs)) }
                            td.num { (number(held.running)) }
                            td.num { @if let Some(at) = held.until { (cx.ago(at)) } @else { (text.when_one_ends) } }
                            td.num { @if let Some(last) = held.clears_in { (fill(text.in_future, &[&span(text, last.0)])) } }
                        }
                    } }
                }
            }
        }
    }
}

fn paused_keys(cx: &PageContext, limit: &Limit) -> Markup {
    let text = cx.text;
    html! {
        @if !limit.paused.is_empty() {
            section.panel data-live="paused" {
                h2 { (text.paused_keys) }
                table {
                    thead { tr { th { (text.value) } th.num { (text.until) } } }
                    tbody { @for paused in &limit.paused {
                        tr { td.mono { (excerpt(paused.value.as_deref().unwrap_or("–"), 60)) } td.num { (cx.ago(paused.until)) } }
                    } }
                }
            }
        }
    }
}

fn form(
    cx: &PageContext,
    (action, name): (&str, Option<&str>),
    (limit, tag): (&str, &str),
) -> Markup {
    let text = cx.text;
    html! {
        form.fields method="post" action=(action) {
            (cx.csrf())
            @if let Some(name) = name {
                label for="name" { (text.name) }
                input #name name="name" value=(name) required maxlength="255";
            }
            label for="limit" { (text.definition) }
            textarea #limit name="limit" rows="3" spellcheck="false" { "\n" (limit) }
            p.hint { (text.limit_hint) }
            input type="hidden" name="tag" value=(tag);
            div.buttons {
                button.primary type="submit" { (text.save) }
                a.button href=(cx.links.to("limits")) { (text.back) }
            }
        }
    }
}

/// The form of a new limit.
pub(crate) async fn ask_new(State(_): State<Ui>, cx: PageContext) -> PageResult {
    let example = "where kind = \"mail\" rate 5/1s";
    let content = html! {
        h1 { (cx.text.new_limit) }
        (form(&cx, (&cx.links.to("limits-new"), Some("")), (example, "")))
    };
    Ok(cx.page(&PageFrame::still(NavItem::Limits, cx.text.new_limit), &content))
}

/// Creates a limit.
pub(crate) async fn create(
    State(ui): State<Ui>,
    cx: PageContext,
    posted: PostedForm,
) -> PageResult {
    let set = async {
        let name = Name::new("name", posted.text("name").unwrap_or_default())?;
        save(&ui, &cx, &name, &posted).await?;
        Ok(name)
    };
    let action = cx.links.to("limits-new");
    finish(&cx, set.await, &posted, (posted.get("name"), cx.text.new_limit, &action))
}

/// Changes a limit.
pub(crate) async fn edit(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    posted: PostedForm,
) -> PageResult {
    let name = name.name("limit")?;
    let set = save(&ui, &cx, &name, &posted).await.map(|()| name.clone());
    let action = format!("{}/edit", cx.links.item("limits", name.as_str()));
    finish(&cx, set, &posted, (None, name.as_str(), &action))
}

async fn save(ui: &Ui, cx: &PageContext, name: &Name, posted: &PostedForm) -> Result<(), Fault> {
    let limit = posted.text("limit").unwrap_or_default().replace("\r\n", " ");
    let if_match = posted.text("tag").map_or(IfMatch::ANY, IfMatch::tag);
    ui.api().set_limit(&cx.grant, name.clone(), &limit, &if_match).await.map(drop)
}

/// Returns to the limit, or shows a form with an error again as it was.
fn finish(
    cx: &PageContext,
    set: Result<Name, Fault>,
    posted: &PostedForm,
    (name, title, action): (Option<&str>, &str, &str),
) -> PageResult {
    let fault = match set {
        Ok(name) => {
            return Ok(cx.done(Flash::Changed, &cx.links.item("limits", name.as_str())));
        }
        Err(fault) => fault,
    };
    let field = |name: &str| posted.get(name).unwrap_or_default();
    let content = html! {
        h1 { (title) }
        (fault_message(&fault))
        (form(cx, (action, name), (field("limit"), field("tag"))))
    };
    let page = cx.page(&PageFrame::still(NavItem::Limits, title), &content);
    Ok((crore_api::status(fault.code()), page).into_response())
}

/// Asks before a limit is deleted.
pub(crate) async fn ask_delete(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
) -> PageResult {
    let limit = ui.api().get_limit(&cx.grant, &name.name("limit")?).await?.value;
    let question = fill(cx.text.ask_delete_limit, &[&limit.name]);
    let link = cx.links.item("limits", &limit.name);
    let texts = QuestionTexts {
        question: &question,
        detail: &fill(cx.text.delete_limit_effect, &[&grouped(limit.waiting)]),
        button: cx.text.delete,
    };
    let action = format!("{link}/delete");
    Ok(Confirmation::about(texts, &action, &link, true).page(&cx, NavItem::Limits))
}

/// Deletes a limit.
pub(crate) async fn delete(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    ui.api().delete_limit(&cx.grant, name.name("limit")?).await?;
    Ok(cx.done(Flash::Deleted, &cx.links.to("limits")))
}
