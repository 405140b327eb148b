//! Actions on one job.

use std::fmt::Display;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use crore_api::calls::{JobAction, ReplayCall, change};
use crore_api::params::PathParam;
use crore_api::{Fault, Grant};
use crore_core::JobId;
use crore_wire::api::act::Change;
use crore_wire::api::push::PushStatus;
use crore_wire::api::replay::ReplayAll;
use crore_wire::units::Period;
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::api_text::english;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::flash::Flash;
use crate::html::format::visible;
use crate::html::layout::PageFrame;
use crate::html::payload::{ReadablePayload, edited};
use crate::html::rail::NavItem;
use crate::text::fill;

/// Runs a job now: a retry of a dead or cancelled one, or the next attempt of a scheduled one.
pub(crate) async fn retry(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    act(&ui, &cx, id.job()?, &JobAction::Retry, Flash::Retried).await
}

/// Asks before a job is cancelled.
pub(crate) async fn ask_cancel(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    let text = cx.text;
    let question = fill(text.ask_cancel, &[&job.id, &job.spec.kind]);
    Ok(ask(&cx, job.id, "cancel", (&question, text.cancel_effect, text.cancel_job)))
}

/// Cancels a job; a running one is asked to stop.
pub(crate) async fn cancel(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    act(&ui, &cx, id.job()?, &JobAction::Cancel, Flash::Cancelled).await
}

/// Asks before a job is deleted.
pub(crate) async fn ask_delete(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    let text = cx.text;
    let question = fill(text.ask_delete, &[&job.id, &job.spec.kind]);
    Ok(ask(&cx, job.id, "delete", (&question, text.delete_effect, text.delete_job)))
}

/// Deletes a job.
pub(crate) async fn delete(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    ui.api().act_on_job(&cx.grant, id.job()?, &JobAction::Delete).await?;
    Ok(cx.done(Flash::Deleted, &cx.links.to("jobs")))
}

async fn act(ui: &Ui, cx: &PageContext, id: JobId, action: &JobAction, flash: Flash) -> PageResult {
    ui.api().act_on_job(&cx.grant, id, action).await?;
    Ok(cx.done(flash, &cx.links.job(id)))
}

fn ask(
    cx: &PageContext,
    id: JobId,
    action: &str,
    (question, detail, button): (&str, &str, &str),
) -> Response {
    let (back, link) = (cx.links.job(id), cx.links.to(&format!("jobs/{id}/{action}")));
    let texts = QuestionTexts { question, detail, button };
    Confirmation::about(texts, &link, &back, true).page(cx, NavItem::Jobs)
}

/// The form that changes queue, priority and start of a job.
pub(crate) async fn ask_edit(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    let spec = &job.spec;
    Ok(edit_page(&cx, &job, (spec.queue.as_str(), spec.priority, ""), None))
}

/// The form with values, which may differ from those of the job. It remembers what the person saw of the job.
fn edit_page(
    cx: &PageContext,
    job: &crore_core::Job,
    (queue, priority, delay): (&str, i32, &str),
    warning: Option<&str>,
) -> Response {
    let (text, title) = (cx.text, fill(cx.text.edit_title, &[&job.id]));
    let content = html! {
        h1 { (title) }
        @if let Some(warning) = warning { p.flash.bad role="alert" { (visible(warning)) } }
        form.fields method="post" action=(cx.links.to(&format!("jobs/{}/edit", job.id))) {
            (cx.csrf())
            input type="hidden" name="seen-queue" value=(job.spec.queue.as_str());
            input type="hidden" name="seen-priority" value=(job.spec.priority);
            (placement(cx, queue, priority))
            label for="delay" { (text.start_after) }
            input #delay name="delay" value=(delay) placeholder="30s" pattern="([0-9]+(d|h|m|s|ms))+";
            div.buttons {
                button.primary type="submit" { (text.save) }
                a.button href=(cx.links.job(job.id)) { (text.back) }
            }
        }
    };
    cx.page(&PageFrame::still(NavItem::Jobs, &title), &content)
}

fn placement(cx: &PageContext, queue: &str, priority: i32) -> Markup {
    html! {
        label for="queue" { (cx.text.queue) }
        input #queue name="queue" value=(queue) required maxlength="255";
        label for="priority" { (cx.text.priority) }
        input #priority name="priority" type="number" value=(priority);
        p.hint { (cx.text.priority_hint) }
    }
}

/// Changes queue, priority and start of a job. If somebody else has changed it meanwhile, both versions are shown.
pub(crate) async fn edit(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    form: PostedForm,
) -> PageResult {
    let id = id.job()?;
    let job = ui.api().get_job(&cx.grant, id).await?;
    let (now, priority) = (&job.spec, form.parsed::<i32>("priority", "a whole number")?);
    let seen_queue = form.get("seen-queue").unwrap_or(now.queue.as_str());
    let seen_priority = form.parsed("seen-priority", "a whole number")?.unwrap_or(now.priority);
    if seen_queue != now.queue.as_str() || seen_priority != now.priority {
        let versions: [&dyn Display; 4] = [&seen_queue, &seen_priority, &now.queue, &now.priority];
        let warning = fill(cx.text.changed_meanwhile, &versions);
        let field = |name| form.get(name).unwrap_or_default();
        let values = (field("queue"), priority.unwrap_or(now.priority), field("delay"));
        return Ok(edit_page(&cx, &job, values, Some(&warning)));
    }
    let queue = form.text("queue").filter(|queue| *queue != now.queue.as_str());
    let changes = Change {
        queue: queue.map(str::to_owned),
        priority: priority.filter(|priority| *priority != job.spec.priority),
        due: None,
        delay: form.parsed::<Period>("delay", "a duration such as `30s` or `1h30m`")?,
    };
    if changes == Change::default() {
        return Ok(Redirect::to(&cx.links.job(id)).into_response());
    }
    act(&ui, &cx, id, &change(&changes)?, Flash::Changed).await
}

/// The form of a replay, with the payload of the original.
pub(crate) async fn ask_replay(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    let readable = ReadablePayload::of(&job.spec.payload);
    let content = replay_form(&cx, &job, readable.editable().as_deref(), None);
    Ok(cx.page(&PageFrame::still(NavItem::Jobs, cx.text.edit_and_replay), &content))
}

fn replay_form(
    cx: &PageContext,
    job: &crore_core::Job,
    payload: Option<&str>,
    fault: Option<&Fault>,
) -> Markup {
    let text = cx.text;
    html! {
        h1 { (fill(text.replay_title, &[&job.id])) }
        @if let Some(fault) = fault {
            p.flash.bad role="alert" {
                @if let Some(field) = &fault.problem().field { code { (visible(field)) } ": " }
                (english(&fault.problem().detail))
            }
        }
        p.hint { (text.replay_hint) }
        form.fields method="post" action=(cx.links.to(&format!("jobs/{}/replay", job.id))) {
            (cx.csrf())
            @match payload {
                Some(payload) => {
                    label for="payload" { (text.payload) }
                    // A line break after the tag is not part of the value.
                    textarea #payload name="payload" rows="16" spellcheck="false" { "\n" (payload) }
                },
                None => p.hint { (text.payload_kept) },
            }
            (placement(cx, job.spec.queue.as_str(), job.spec.priority))
            div.buttons {
                button.primary type="submit" { (text.replay) }
                a.button href=(cx.links.job(job.id)) { (text.back) }
            }
        }
    }
}

/// Pushes a replay, and opens it. A form with an error is shown again as it was.
pub(crate) async fn replay(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    form: PostedForm,
) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    match push_replay(&ui, &cx.grant, &job, &form).await {
        Ok((id, PushStatus::Duplicate)) => Ok(Redirect::to(&cx.links.job(id)).into_response()),
        Ok((id, _)) => Ok(cx.done(Flash::Replayed, &cx.links.job(id))),
        Err(fault) => {
            let content = replay_form(&cx, &job, form.get("payload"), Some(&fault));
            let page = cx.page(&PageFrame::still(NavItem::Jobs, cx.text.edit_and_replay), &content);
            Ok((crore_api::status(fault.code()), page).into_response())
        }
    }
}

async fn push_replay(
    ui: &Ui,
    grant: &Grant,
    job: &crore_core::Job,
    form: &PostedForm,
) -> Result<(JobId, PushStatus), Fault> {
    let others = ReplayAll {
        queue: form.text("queue").map(str::to_owned),
        priority: form.parsed("priority", "a whole number")?,
        ..ReplayAll::default()
    };
    let text = form.get("payload");
    let payload = text.map(|text| edited(&job.spec.payload, text)).transpose()?.flatten();
    let edits = crore_core::ReplayEdits { payload, ..others.read()? };
    let call = ReplayCall { original: job.id.into(), edits: &edits, key: None, context: None };
    ui.api().replay_job(grant, call).await
}
