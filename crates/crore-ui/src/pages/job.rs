//! One job: its timeline, why it waits, and its tabs.

use axum::extract::State;
use axum::response::IntoResponse;
use crore_api::Scope;
use crore_api::params::PathParam;
use crore_wire::Format;
use crore_wire::api::enums::State as JobState;
use crore_wire::api::job::{Explanation, Job, JobView};
use crore_wire::api::notes::Notes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};

use super::job_diff::difference;
use super::job_tabs::{JobDetails, JobTab, log_lines, tabs};
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::api_text::reason;
use crate::html::format::{excerpt, visible};
use crate::html::icon::{Icon, icon};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::timeline::timeline;
use crate::text::fill;

/// Log lines that are shown above the tabs.
const NEWEST_LINES: usize = 5;

/// The page of a job.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let (api, id) = (ui.api(), id.job()?);
    let stored = api.get_job(&cx.grant, id).await?;
    let job = Job::of(&stored, Format::Json, JobView::Full);
    let notes = api.get_notes(&cx.grant, id).await?;
    let explanation = match job.ended_at {
        Some(_) => None,
        None => Some(api.explain_job(&cx.grant, id).await?),
    };
    let has_failed =
        job.state != JobState::Done && job.history.iter().any(|attempt| attempt.error.is_some());
    let diff = if has_failed { Some(api.diff_job(&cx.grant, id).await?) } else { None };
    let tab = cx.parameter("tab").and_then(JobTab::of_name).unwrap_or_default();
    let details = JobDetails { stored, job, notes };
    let body = tabs(&ui, &cx, &details, tab).await?;
    let JobDetails { job, notes, .. } = &details;
    let content = html! {
        (head(&cx, job))
        div data-live="job" {
            (facts(&cx, job))
            (timeline(&cx, job))
            @if let Some(explanation) = &explanation { (reasons(&cx, explanation)) }
            (failure(&cx, job))
            (progress(notes))
            @if tab != JobTab::Log { (newest_lines(&cx, notes)) }
        }
        @if let Some(diff) = &diff { (difference(&cx, diff)) }
        (body)
    };
    let title = format!("{} {}", job.kind, job.id);
    Ok(cx.page(&PageFrame::new(NavItem::Jobs, &title), &content))
}

/// The payload as a file.
pub(crate) async fn payload(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let job = ui.api().get_job(&cx.grant, id.job()?).await?;
    let file = format!("attachment; filename=\"job-{}-payload\"", job.id);
    let head = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, file.as_str())];
    Ok((head, job.spec.payload.bytes.to_vec()).into_response())
}

fn head(cx: &PageContext, job: &Job) -> Markup {
    html! {
        div.title {
            h1 { (excerpt(&job.kind, 80)) " " span.id { (job.id) } }
            div data-live="actions" { (actions(cx, job)) }
        }
    }
}

/// The buttons that the state and the caller's scopes allow. Destructive ones are last, in a menu.
fn actions(cx: &PageContext, job: &Job) -> Markup {
    let (text, may_act) = (cx.text, cx.may(Scope::Operate));
    let link = |action: &str| cx.links.to(&format!("jobs/{}/{action}", job.id));
    let retry = match job.state {
        JobState::Scheduled => Some(text.run_now),
        JobState::Dead | JobState::Cancelled => Some(text.retry),
        JobState::Waiting | JobState::Ready | JobState::Running | JobState::Done => None,
    };
    let is_editable =
        matches!(job.state, JobState::Ready | JobState::Scheduled | JobState::Waiting);
    let is_live = job.ended_at.is_none();
    html! {
        div.actions {
            @if may_act && let Some(retry) = retry {
                form method="post" action=(link("retry")) {
                    (cx.csrf())
                    button.primary type="submit" data-key-button="r" { (retry) }
                }
            }
            @if cx.may(Scope::Push) { a.button href=(link("replay")) { (text.edit_and_replay) } }
            @if may_act && is_editable { a.button href=(link("edit")) { (text.edit) } }
            @if may_act {
                details.menu {
                    summary.button aria-label=(text.more_actions) { (icon(Icon::More)) }
                    div.pop {
                        @if is_live { a href=(link("cancel")) { (text.cancel) } }
                        @if job.state != JobState::Running { a.danger href=(link("delete")) { (text.delete) } }
                    }
                }
            }
        }
    }
}

/// The facts that people look for first.
fn facts(cx: &PageContext, job: &Job) -> Markup {
    let text = cx.text;
    html! {
        dl.facts {
            div { dt { (text.state) } dd { (cx.state(job.state, job.attempt))
                @if job.stop { " " (text.asked_to_stop) } } }
            div { dt { (text.queue) } dd { a href=(cx.links.queue(&job.queue)) { (excerpt(&job.queue, 60)) } } }
            div { dt { (text.attempt) } dd { (job.attempt)
                @if let Some(max) = job.max_attempts { " / " (max) } } }
            div { dt { (text.priority) } dd { (job.priority) } }
            @if let Some(worker) = &job.worker { div { dt { (text.worker) } dd { (excerpt(worker, 60)) } } }
            @if job.state == JobState::Scheduled { div { dt { (text.due) } dd { (cx.ago(job.due)) } } }
            @if let Some(until) = job.lease_until { div { dt { (text.lease_until) } dd { (cx.ago(until)) } } }
            @if let Some(deadline) = job.deadline { div { dt { (text.deadline) } dd { (cx.ago(deadline)) } } }
            @if let Some(version) = &job.worker_version { div { dt { (text.version) } dd.mono { (visible(version)) } } }
            @if let Some(id) = &job.client_id { div { dt { (text.client_id) } dd.mono { (excerpt(id, 60)) } } }
            @for (name, value) in &job.labels.0 {
                div { dt { (visible(name)) } dd { (excerpt(value, 60)) } }
            }
        }
    }
}

/// Why the job does not run.
fn reasons(cx: &PageContext, explanation: &Explanation) -> Markup {
    html! {
        @if explanation.state != JobState::Running {
            section.why {
                h2 { (cx.text.why_waiting) }
                @if explanation.reasons.is_empty() { p { (cx.text.next_fetch) } }
                ul { @for one in &explanation.reasons { li { (reason(cx, &one.reason, &one.detail)) } } }
            }
        }
    }
}

/// The newest error, and whether it differs from the one before.
fn failure(cx: &PageContext, job: &Job) -> Markup {
    let mut failed = job.history.iter().filter(|attempt| attempt.error.is_some());
    let (newest, before) = (failed.next(), failed.next());
    let Some(newest) = newest.filter(|_| job.state != JobState::Done) else { return html! {} };
    let is_same = before.map(|before| before.fingerprint == newest.fingerprint);
    let fingerprint = newest.fingerprint.as_deref().unwrap_or_default();
    html! {
        section.failure {
            h2 { (cx.text.last_error) }
            pre { (visible(newest.error.as_deref().unwrap_or_default())) }
            p.hint {
                @match is_same {
                    Some(true) => (cx.text.same_error),
                    Some(false) => (cx.text.other_error),
                    None => {},
                }
                " " a href=(cx.links.jobs(&format!("error={fingerprint}"))) { (cx.text.jobs_with_error) }
            }
        }
    }
}

fn progress(notes: &Notes) -> Markup {
    html! {
        @if let Some(progress) = &notes.progress {
            div.progress {
                progress max="100" value=(progress.percent) {}
                span { (progress.percent) " % " (excerpt(&progress.text, 200)) }
            }
        }
    }
}

/// The end of the log.
fn newest_lines(cx: &PageContext, notes: &Notes) -> Markup {
    let newest = notes.lines.len().saturating_sub(NEWEST_LINES);
    let lines = notes.lines.get(newest..).unwrap_or_default();
    html! {
        @if !lines.is_empty() {
            section.newest-lines {
                h2 { (cx.text.log) @if newest > 0 { a.all href=(cx.here_with("tab", "log")) { (fill(cx.text.n_more, &[&newest])) } } }
                (log_lines(lines))
            }
        }
    }
}
